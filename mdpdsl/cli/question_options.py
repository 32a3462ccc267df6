"""Options of `solve`: what is asked of a model, and of every model that the data allow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from mdpdsl.solve.solution import SHAPES

F = TypeVar("F", bound=Callable[..., Any])


def question_options(function: F) -> F:
    """Add the options that ask for a property, a probability or rewards."""
    for option in (
        click.option(
            "is_maximised", "--max/--min", default=True, help="Maximise (the default) or minimise."
        ),
        click.option("average", "--average", is_flag=True, help="The long-run average of rewards."),
        click.option(
            "horizon",
            "--horizon",
            type=click.IntRange(0),
            metavar="N",
            help="The rewards of N steps.",
        ),
        click.option("total", "--total", metavar="LABEL", help="The sum of rewards until a label."),
        click.option("reward", "--reward", metavar="NAME", help="Which of several rewards."),
        click.option(
            "within",
            "--within",
            type=click.IntRange(0),
            metavar="N",
            help="With --reach: in N steps.",
        ),
        click.option(
            "avoid", "--avoid", metavar="LABEL", help="With --reach: a label to avoid before."
        ),
        click.option(
            "reach",
            "--reach",
            metavar="LABEL",
            help="Use the probability of reaching a label, not rewards.",
        ),
        click.option(
            "discount",
            "--discount",
            type=float,
            help="Discount factor of rewards, in [0, 1).  [default: 0.99]",
        ),
        click.option(
            "props",
            "--props",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Answer all properties of a PRISM properties file.",
        ),
        click.option(
            "asked",
            "--property",
            metavar="NAME|TEXT",
            help="A property of the model by its name, or as PRISM writes it: "
            "'Pmax=? [ F \"goal\" ]'.",
        ),
    ):
        function = option(function)
    return function


def robust_options(function: F) -> F:
    """Add the options of an answer for every model that the data allow."""
    for option in (
        click.option(
            "shape",
            "--shape",
            type=click.Choice(SHAPES),
            help="With --robust: the sets around estimated rows.  [default: kl if the model has "
            "`?`, else intervals]",
        ),
        click.option(
            "support",
            "--support",
            type=click.Choice(("seen", "all", "model")),
            help="With --robust: which successors are possible.  [default: as in the run]",
        ),
        click.option(
            "delta",
            "--delta",
            type=float,
            help="With --robust: the risk that the guarantee fails.  [default: that of the run]",
        ),
        click.option(
            "robust",
            "--robust",
            is_flag=True,
            help="For a run: the policy that is best against every model that the data allow.",
        ),
    ):
        function = option(function)
    return function
