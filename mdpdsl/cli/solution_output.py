"""What `mdpdsl solve` prints: the value with its bounds, and the policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mdpdsl.cli.console import print_table

if TYPE_CHECKING:
    from mdpdsl.solve.answer import Solution

#: The policy is printed by default if the model has at most this many states.
PRINTED_STATES = 30


def answer_text(found: Solution) -> str:
    """Return the value and, for a threshold, whether it holds."""
    bounds = found.bound_text if found.lower is None else f"{found.lower:.9g} to {found.upper:.9g}"
    value = f"{found.value:.9g} ({bounds})"
    if found.question.comparison is None:
        return value
    holds = {True: "yes", False: "no", None: "undecided"}[found.holds]
    return f"{holds}: {value}"


def print_solution(found: Solution, top: int | None, is_all: bool) -> None:
    """Print the value of a solution, its bounds, and the policy."""
    import numpy as np

    from mdpdsl.report.policy_table import aligned, policy_lines

    outcome, graph, question = found.outcome, found.model.graph, found.question
    guess = "; partly a guess" if found.rests_on_unseen else ""
    message = f": {outcome.message}" if outcome.message else ""
    holds = {True: "yes", False: "no", None: "undecided: the bounds include the threshold"}
    between = None if found.lower is None else f"{found.lower:.9g} to {found.upper:.9g}, certified"
    print_table(
        f"{found.model.name} ({graph.hash})",
        [
            ("task", found.described),
            ("status", f"{found.status}{message}"),
            ("holds", None if question.comparison is None else holds[found.holds]),
            ("value", f"{found.value:.9g} (from the start{guess})"),
            ("between", between),
            ("bound", found.bound_text),
            ("method", f"{outcome.method}: {outcome.variant}"),
            ("iterations", f"{outcome.iterations:,} in {outcome.seconds:.3f} s"),
        ],
    )
    states = np.arange(graph.n_states)
    if top is not None:
        sign = 1 if found.minimise else -1
        states = np.argsort(sign * found.values, kind="stable")[:top]
    elif not is_all and graph.n_states > PRINTED_STATES:
        click.echo(f"{graph.n_states:,} states; --top N or --all prints the policy")
        return
    lines = policy_lines(graph, outcome.choice, found.values, outcome.bound, states)
    click.echo("\n" + aligned(lines))
