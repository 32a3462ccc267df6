"""Robust solutions, and how they must compare with the values of a game."""

from __future__ import annotations

import numpy as np

from mdpdsl.graph.objectives import Discounted, Objective
from mdpdsl.graph.space import FloatArray
from mdpdsl.solve.robust_objective import solve_robust_objective
from mdpdsl.solve.solution import SolveOutcome, SolveStatus, Watch, keep_going
from tests.solve.robust_chains import EXACT
from tests.solve.robust_exhaustive import Mode
from tests.solve.robust_games import Game

TOLERANCE = 1e-6
#: Seconds after which a tiny model counts as unsolved.
TIME_LIMIT = 20.0


def solve(
    game: Game,
    objective: Objective,
    mode: Mode,
    entry_reward: FloatArray | None = None,
    watch: Watch = keep_going,
) -> SolveOutcome:
    """Solve a game by the product."""
    return solve_robust_objective(
        game.graph,
        game.sets,
        objective,
        is_minimised=mode.is_minimised,
        is_optimistic=mode.is_optimistic,
        shape=game.shape,
        entry_reward=entry_reward,
        tolerance=TOLERANCE if isinstance(objective, Discounted) else None,
        watch=watch,
        time_limit=TIME_LIMIT,
    )


def check_bounds(found: SolveOutcome, expected: FloatArray, name: str) -> None:
    """Check that bounds are on their sides of the value, and close to it."""
    assert found.status is SolveStatus.OPTIMAL, name
    finite = np.isfinite(expected)
    for side in (found.values, found.lower, found.upper):
        np.testing.assert_array_equal(side[~finite], expected[~finite], name)
    value = expected[finite]
    scale = np.maximum(1, np.abs(value))
    lower, upper, middle = (x[finite] for x in (found.lower, found.upper, found.values))
    assert np.all(lower <= value + EXACT * scale), f"{name}: {found.lower}, not {expected}"
    assert np.all(upper >= value - EXACT * scale), f"{name}: {found.upper}, not {expected}"
    assert np.all(upper - lower <= 2.01 * TOLERANCE * scale), f"{name}: {upper - lower}"
    assert np.all((lower <= middle) & (middle <= upper)), name


def check_attained(attained: FloatArray, expected: FloatArray, name: str) -> None:
    """Check that a policy gets what is guaranteed."""
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(attained[~finite], expected[~finite], name)
    error = np.abs(attained[finite] - expected[finite])
    assert np.all(error <= TOLERANCE * np.maximum(1, np.abs(expected[finite]))), (
        f"{name}: the policy gets {attained}, not {expected}"
    )
