"""Options of the explorers that plan in episodes, with an oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.graph.transition_graph import TransitionGraph

F = TypeVar("F", bound=Callable[..., Any])


def oracle_options(function: F) -> F:
    """Add the settings of kappa-lp and fw-modest."""
    for option in (
        click.option(
            "smoothing", "--smoothing", type=float, help="Sharpness of fw-modest's worst case."
        ),
        click.option("radius", "--radius", help="Confidence sets: paper or weissman."),
        click.option(
            "first_episode",
            "--first-episode",
            type=click.IntRange(1),
            metavar="STEPS",
            help="Steps of the first episode; the m-th has m^2 times as many (default 10).",
        ),
        click.option(
            "strict", "--strict/--no-strict", default=None, help="Refuse an eta that is too large."
        ),
        click.option(
            "eta",
            "--eta",
            metavar="auto|X",
            help="Half of the least share of a pair in a plan; auto is 1 % of the largest.",
        ),
        click.option(
            "oracle_seconds", "--oracle-seconds", type=float, help="Most time for one plan."
        ),
        click.option("formulation", "--formulation", help="Of the program: compact or full."),
        click.option("backend", "--backend", help="Of the oracle: pyomo-highs, highs or evi."),
    ):
        function = option(function)
    return function


def require_oracle(settings: ExploreSettings) -> None:
    """Raise SettingsError where the oracle that an explorer needs is not there."""
    from mdpdsl.explore.algorithms import EPISODIC

    if settings.algorithm in EPISODIC:
        from mdpdsl.explore.algorithms.oracle_episodes import oracle_of

        oracle_of(settings)


def oracle_warnings(graph: TransitionGraph, settings: ExploreSettings) -> list[str]:
    """Return warnings of what an oracle cannot do; raise SettingsError where that is forbidden."""
    from mdpdsl.explore.algorithms import EPISODIC

    if settings.algorithm not in EPISODIC:
        return []
    from mdpdsl.explore.floor import require_floor, slow_oracle

    found = (require_floor(graph, settings), slow_oracle(graph, settings))
    return [warning for warning in found if warning is not None]


@contextmanager
def telling_failures(explorer: str) -> Iterator[None]:
    """Make a failure of the oracle or of the system the command's: a message, exit status 1."""
    from mdpdsl.programs.direction import ProgramError
    from mdpdsl.simulate.failures import SimulationError

    try:
        yield
    except ProgramError as error:
        raise click.ClickException(str(error)) from None
    except SimulationError as error:
        failure = f"the continuous system failed under {explorer} in {error}"
        raise click.ClickException(failure) from None
