"""Where an outcome may lead if its unknown numbers have any value of their ranges."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mdpdsl.compile.cells import NORMAL_REACH, Window, point_window, range_window
from mdpdsl.compile.checked import CheckedModel, Noise
from mdpdsl.compile.enclosures import enclose
from mdpdsl.compile.expressions import Frame
from mdpdsl.compile.laws import Laws
from mdpdsl.compile.noise import Affine, OutcomePlan
from mdpdsl.compile.outcome import Moves, OutcomeKernel, Start, crossed, following
from mdpdsl.compile.problems import Problems
from mdpdsl.compile.quadrature import discrete_nodes
from mdpdsl.compile.terms import Term, reads
from mdpdsl.graph.space import FloatArray


class CoveringKernel(OutcomeKernel):
    """Computes wherever outcomes may lead; probabilities only say that they are possible."""

    def __init__(self, model: CheckedModel, problems: Problems, laws: Laws) -> None:
        super().__init__(model, problems)
        self.laws = laws
        self._plans: dict[int, tuple[OutcomePlan, OutcomePlan]] = {}  # by id; both are kept alive

    def moves(self, plan: OutcomePlan, start: Start, action: int) -> Iterator[Moves]:
        """Return wherever an outcome may lead for any values of the unknown numbers.

        A variable whose noise is integrated numerically may lead anywhere, and so may one that
        depends on it.
        """
        if not self.laws.moves(plan):
            yield from super().moves(plan, start, action)
            return
        plan = self._plan_of_law(plan)
        if plan.discrete:
            nodes, weights = discrete_nodes(plan.discrete)
            start = crossed(start, [noise.name for noise in plan.discrete], nodes, weights)
        frame = self._with_present_values(plan, start.frame)
        n, k = start.weights.shape
        windows: dict[str, Window] = {}
        for name in plan.order:
            variable, affine = self._variable(name), plan.exact.get(name)
            if affine is not None and _can_read(affine.terms(), frame):
                low, high = self._reach(affine, frame)
                windows[name] = range_window(variable, low.reshape(n, k), high.reshape(n, k))
            elif (
                name in plan.steady
                and not self.laws.reads_numbers(plan.terms[name])
                and _can_read([plan.terms[name]], frame)
            ):
                values = self._values(plan.terms[name], frame, start, action)
                cells = self._certain_cell(variable, values)
                self._report_outside(variable, cells, values, plan, start, action)
                windows[name] = point_window(variable, cells.reshape(n, k))
                frame = frame.extended({("next", name): following(variable, values)})
            else:
                everywhere = np.ones((n, k, variable.size))
                windows[name] = Window(np.zeros(n, np.int64), everywhere)
        names = sorted(windows, key=lambda name: windows[name].masses.shape[2])
        yield from self._multiply(names[0::2], names[1::2], windows, start)

    def _plan_of_law(self, plan: OutcomePlan) -> OutcomePlan:
        """Return the plan for all theta; that of the values of the model may differ."""
        if id(plan) not in self._plans:
            self._plans[id(plan)] = plan, self.laws.plan(plan.terms)
        return self._plans[id(plan)][1]

    def _reach(self, affine: Affine, frame: Frame) -> tuple[FloatArray, FloatArray]:
        """Return the least and the largest value of a next value, but for negligible tails."""
        box, noises = self.laws.box, {noise.name: noise for noise in self.model.noises}
        found = enclose(affine.constant, frame, box)
        low, high = frame.full(found.lower), frame.full(found.upper)
        for name, coefficient in affine.coefficients.items():
            slope = enclose(coefficient, frame, box)
            ends = [end for number in self._noise_range(noises[name]) for end in number]
            products = [side * end for side in (slope.lower, slope.upper) for end in ends]
            low = low + np.minimum.reduce(products)
            high = high + np.maximum.reduce(products)
        low, high = self._clipped(low, high, affine, frame)
        # What is not a number has been reported, and may be anywhere.
        is_finite = np.isfinite(low) & np.isfinite(high)
        return np.where(is_finite, low, -np.inf), np.where(is_finite, high, np.inf)

    def _clipped(
        self, low: FloatArray, high: FloatArray, affine: Affine, frame: Frame
    ) -> tuple[FloatArray, FloatArray]:
        """Return the range of values after clipping; if bounds are reversed, either may hold.

        The distribution function has the lower bound there, and expressions the upper one, which
        count where noise has no width.
        """
        bounds = [None if b is None else enclose(b, frame, self.laws.box) for b in affine.clip]
        least, most = bounds
        if least is not None:
            low, high = np.maximum(low, least.lower), np.maximum(high, least.upper)
        if most is not None:
            top = most.upper if least is None else np.maximum(least.upper, most.upper)
            low, high = np.minimum(low, most.lower), np.minimum(high, top)
        return low, high

    def _noise_range(self, noise: Noise) -> tuple[tuple[float, float], ...]:
        """Return the range of a noise, as ranges of its two ends."""
        a, b = (noise.spread.a,) * 2, (noise.spread.b,) * 2
        if noise.terms is not None:
            found = [enclose(term, Frame(1, {}), self.laws.box) for term in noise.terms]
            a, b = ((float(f.lower.min()), float(f.upper.max())) for f in found)
        if "uniform" in (noise.spread.family, noise.family):
            return a, b
        reach = NORMAL_REACH * b[1]
        return ((a[0] - reach, a[1] + reach),)


def _can_read(terms: list[Term], frame: Frame) -> bool:
    """Return whether a frame has all that some terms read, but for unknown numbers."""
    return all(
        kind == "unknown" or (kind, name) in frame.values
        for term in terms
        for kind, name in reads(term)
    )
