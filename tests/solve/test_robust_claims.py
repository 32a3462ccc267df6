"""What robust answers claim: no more than what holds for the policy that they return."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import mdpdsl
from mdpdsl.graph.objectives import Until
from mdpdsl.solve.policy_value import guaranteed_values

CROSSING = """\
mdp crossing
{declared}
state x in 0..3
action a, b
init x = 0
on any when x == 0 -> {often}: x' = 1 | {seldom}: x' = 3
on a when x == 1 -> 0.6: x' = 2 | 0.4: x' = 3
on b when x == 1 -> ?: x' = 2 | ?: x' = 3
end when x >= 2
label goal when x == 2
"""
SHARED = {"declared": "unknown slip in [0, 0.5]", "often": "slip", "seldom": "1 - slip"}
OPEN = {"declared": "", "often": "?", "seldom": "?"}


def robust(given: Any, **asked: Any) -> mdpdsl.RobustSolution:
    found = mdpdsl.solve(given, robust=True, **asked)
    assert isinstance(found, mdpdsl.RobustSolution)
    return found


def steps(rows: list[tuple[int, str, int]]) -> pa.Table:
    """Return a log with an episode for each step."""
    return pa.table(
        {
            "episode": [n for n in range(len(rows)) for _ in range(2)],
            "x": [x for before, _, after in rows for x in (before, after)],
            "action": [each for _, action, _ in rows for each in (action, None)],
        }
    )


@pytest.mark.parametrize("words", [SHARED, OPEN], ids=["number", "open"])
@pytest.mark.parametrize(
    "asked", [{"reach": "goal"}, {"reach": "goal", "within": 4}], ids=["until", "within"]
)
def test_values_are_those_of_the_policy_printed_if_nothing_is_guaranteed(
    words: dict[str, str], asked: dict[str, Any]
) -> None:
    model = mdpdsl.loads(CROSSING.format(**words))
    data = steps([(1, "b", 2)] * 20)
    found = robust(mdpdsl.estimate(model, data), **asked)
    assert found.guaranteed == 0.0 < found.possible
    objective = found.question.objective
    assert isinstance(objective, Until)
    own = guaranteed_values(
        found.model.graph,
        objective,
        found.rows,
        found.outcome,
        1.0,
        tolerance=1e-9,
        floor=1.0,
        watch=lambda iterations, bound: True,
    )
    assert np.all(found.values <= own + 1e-6)
