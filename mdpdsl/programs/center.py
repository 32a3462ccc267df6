"""The analytic centre of the occupancy polytope, from which an interior method starts.

It is the x > 0 with N x = 0, sum x = n that maximises sum log x. In the dual, h maximises
sum log z, z = 1 + N^T h, without constraints, from h = 0 (every z is 1). Newton's method with an
exact line search converges from any start, since sum log z is self-concordant; the h of an earlier,
similar problem is a close start. If x spans many orders of magnitude (states that are hard to
reach), so does z = 1/x, and this keeps the later steps long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mdpdsl.graph.space import FloatArray
from mdpdsl.programs.normal_equations import NormalEquations

#: The centre is close enough if sum (dz/z)^2 is below this; then x > 0 and flow is balanced.
CENTERED = 0.05
MOST_STEPS = 300

#: The number of refinements of the solution of a linear system.
REFINEMENTS = 2


@dataclass(frozen=True, eq=False)
class Center:
    """A primal point x and a dual point z, both feasible, with x z close to 1."""

    x: FloatArray  # [n_pairs]   > 0
    z: FloatArray  # [n_pairs]   1 + N^T h > 0
    h: FloatArray  # [n_states]
    steps: int
    is_centered: bool


def analytic_center(
    equations: NormalEquations,
    start: FloatArray | None = None,
    must_stop: Callable[[], bool] = lambda: False,
) -> Center:
    """Find the analytic centre, starting from the multipliers `start` if they are given."""
    h = np.zeros(equations.flow.shape[0])
    if start is not None:
        h = _shortened(equations.worth(start), start)
    z = 1 + equations.worth(h)
    x, steps = 1 / z, 0
    for steps in range(1, MOST_STEPS + 1):
        equations.factorize(1 / z**2)
        dh = equations.solve(equations.imbalance(1 / z))
        for _ in range(REFINEMENTS):
            dh += equations.solve(equations.imbalance(1 / z - equations.worth(dh) / z**2))
        dz = equations.worth(dh)
        relative = dz / z
        decrement = float(relative @ relative)
        if decrement < CENTERED:
            x = (1 - relative) / z
            return Center(x * (len(x) / x.sum()), z, h, steps, True)
        if must_stop():
            break
        length = _best_length(relative)
        h, z = h + length * dh, z + length * dz
    x = 1 / z
    return Center(x * (len(x) / x.sum()), z, h, steps, False)


def _shortened(change: FloatArray, start: FloatArray) -> FloatArray:
    """Return the multipliers, scaled down so that 1 + N^T h stays well above 0."""
    lowest = float(change.min(initial=0.0))
    return start if lowest > -0.9 else start * (0.9 / -lowest)


def _best_length(relative: FloatArray) -> float:
    """Maximise sum log(1 + t r) over t > 0, by bisection of its slope."""

    def slope(t: float) -> float:
        return float(np.sum(relative / (1 + t * relative)))

    lowest = float(relative.min())
    end = np.inf if lowest >= 0 else -1 / lowest
    low, high = 0.0, min(1.0, 0.5 * end)
    while slope(high) > 0 and high < 1e6:
        low, high = high, min(2 * high, high + 0.9 * (end - high))
        if end - high < 1e-9 * end:
            break
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) > 0 else (low, middle)
    return low
