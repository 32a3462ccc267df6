"""What `mdpdsl solve` prints: the value with its bounds, and the policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mdpdsl.cli.console import print_table
from mdpdsl.solve.robust_answer import RobustSolution

if TYPE_CHECKING:
    from mdpdsl.solve.answer import Solution

#: The policy is printed by default if the model has at most this many states.
PRINTED_STATES = 30


def answer_text(found: Solution) -> str:
    """Return the value and, for a threshold, whether it holds."""
    if isinstance(found, RobustSolution):
        value = f"guaranteed {found.guaranteed_text}, possible {found.possible_text}"
        return value if found.question.comparison is None else f"{_holds(found)}: {value}"
    bounds = found.bound_text if found.lower is None else f"{found.lower:.9g} to {found.upper:.9g}"
    value = f"{found.value:.9g} ({bounds})"
    if found.question.comparison is None:
        return value
    return f"{_holds(found)}: {value}"


def _holds(found: Solution) -> str:
    return {True: "yes", False: "no", None: "undecided"}[found.holds]


def print_solution(found: Solution, top: int | None, is_all: bool) -> None:
    """Print the value of a solution, its bounds, and the policy."""
    outcome, graph, question = found.outcome, found.model.graph, found.question
    guess = "; partly a guess" if found.rests_on_unseen else ""
    message = f": {outcome.message}" if outcome.message else ""
    holds = {True: "yes", False: "no", None: "undecided: the bounds include the threshold"}
    between = None if found.lower is None else f"{found.lower:.9g} to {found.upper:.9g}, certified"
    if isinstance(found, RobustSolution):
        print_table(f"{found.model.name} ({graph.hash})", _robust_rows(found))
        click.echo(f"\n{found.sentence}")
        for line in found.pair_lines:
            click.echo(f"  {line}")
        _print_policy(found, top, is_all)
        return
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
    _print_policy(found, top, is_all)


def _robust_rows(found: RobustSolution) -> list[tuple[str, str | None]]:
    asks = found.question.comparison is not None
    return [
        ("task", found.described),
        ("status", found.status),
        ("holds", _holds(found) if asks else None),
        ("guaranteed", f"{found.guaranteed_text} (with confidence {1 - found.delta:g})"),
        ("possible", f"{found.possible_text} (no policy can do better)"),
        ("estimate", f"{found.estimate:.6g} (this policy, in the estimated model)"),
        ("sets", found.sets_text),
        ("iterations", f"{found.outcome.iterations + found.best.iterations:,}"),
    ]


def _print_policy(found: Solution, top: int | None, is_all: bool) -> None:
    """Print the action and the value of each state, or of the best, or how to see them."""
    import numpy as np

    from mdpdsl.report.policy_table import aligned, policy_lines

    graph, outcome = found.model.graph, found.outcome
    states = np.arange(graph.n_states)
    if top is not None:
        sign = 1 if found.minimise else -1
        states = np.argsort(sign * found.values, kind="stable")[:top]
    elif not is_all and graph.n_states > PRINTED_STATES:
        click.echo(f"{graph.n_states:,} states; --top N or --all prints the policy")
        return
    if isinstance(found, RobustSolution):  # each value is a bound
        lines = policy_lines(graph, outcome.choice, found.values, 0.0, states, found.written)
    else:
        lines = policy_lines(graph, outcome.choice, found.values, outcome.bound, states)
    click.echo("\n" + aligned(lines))
