"""The objective of an allocation: a power mean of need over visits, with a dual bound.

With needs b >= 0, visits u = offset + x > 0 and curvature kappa in [1, inf],

F(u) = (sum b (b/u)^(kappa-1))^(1/(kappa-1)),     kappa = inf: max b/u,

and kappa = 1 is the limit after normalisation, exp(sum w log(b/u)) with w = b / sum b. The code
works with log M, M = (sum w (b/u)^(kappa-1))^(1/(kappa-1)), which differs from log F by a constant
and is continuous in kappa from 1 to infinity.

It has two uses: b = c, offset = 0 gives U_kappa (paper, eq. Ukappa_definition: F is a decreasing
function of it); b = c^(p/(p+1)), kappa = p + 1 gives sum (c/u)^p, the p-th power of F.

**Bound.** 1/F is concave and homogeneous of degree 1 in u. If <z, x> <= n for every feasible x and
0 <= y <= z, then <y, u> <= B = n + <y, offset>. The least F subject to <y, u> <= B is attained at
u proportional to b y^(-1/kappa), hence

F* >= (sum b y^q)^(1/q) / B,     q = 1 - 1/kappa.

With offset = 0 and y = g/lambda, g = (c/d)^kappa, lambda >= max [g + sum P h - h(s)], this is
F(d)/F* <= lambda / <g,d>; and for kappa = 1, U* - U <= sum c log(lambda / sum c). Since y may be
as large as z, the bound used here is at least as tight.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mdpdsl.graph.space import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class VisitObjective:
    """The power mean of need over visits, offset + x, to be minimised; x sums to n_pairs."""

    need: FloatArray  # [n_pairs]  b, 0 if a pair needs no visits
    kappa: float  # 1 to infinity
    offset: FloatArray  # [n_pairs]  visits so far, in units of x

    @cached_property
    def is_needed(self) -> BoolArray:
        """Which pairs are in the objective, [n_pairs]."""
        return self.need > 0

    @property
    def exponent(self) -> float:
        """1/kappa, 0 for infinity."""
        return 0.0 if np.isinf(self.kappa) else 1 / self.kappa

    def log_mean(self, x: FloatArray) -> float:
        """Return log M(offset + x), infinite if a pair that needs visits has none."""
        b = self.need[self.is_needed]
        u = (self.offset + x)[self.is_needed]
        if np.any(u <= 0):
            return float("inf")
        ratio = np.log(b) - np.log(u)
        if np.isinf(self.kappa):
            return float(ratio.max())
        return _log_power_mean(ratio, b / b.sum(), self.kappa - 1)

    def log_bound(self, y: FloatArray, n: float) -> float:
        """Return a lower bound on log M from multipliers y, 0 <= y <= z (see above)."""
        b, y_needed = self.need[self.is_needed], y[self.is_needed]
        budget = n + float(y @ self.offset)
        with np.errstate(divide="ignore"):
            logs = np.log(y_needed)
        mean = _log_power_mean(logs, b / b.sum(), 1 - self.exponent)
        # F* >= (sum b)^(1/q) mean / B, and log F = log M + log(sum b)/(kappa-1): 1/q - that is 1.
        return mean + float(np.log(b.sum())) - float(np.log(budget))

    def gradient(self, x: FloatArray) -> FloatArray:
        """Return -d log M / dx, [n_pairs]; for kappa = infinity, a subgradient."""
        b = self.need[self.is_needed]
        u = (self.offset + x)[self.is_needed]
        if np.isinf(self.kappa):
            share = np.zeros(len(b))
            share[np.argmax(b / u)] = 1.0
        else:
            logs = np.log(b) + (self.kappa - 1) * (np.log(b) - np.log(u))
            share = np.exp(logs - logs.max())
        result = np.zeros(len(x))
        result[self.is_needed] = share / share.sum() / u
        return result


def allocation_objective(c: FloatArray, kappa: float) -> VisitObjective:
    """Return U_kappa as an objective to minimise over x = n_pairs d."""
    return VisitObjective(c, kappa, np.zeros(len(c)))


def remaining_budget(
    c: FloatArray, visits: FloatArray, steps_left: float, power: float
) -> VisitObjective:
    """Return sum (c / (T + m d))^p as an objective to minimise over x = n_pairs d.

    T are the visits so far and m the steps left; p = 1 favours the average, a larger p the worst
    case.
    """
    offset = visits * (len(c) / steps_left)
    return VisitObjective(c ** (power / (power + 1)), power + 1, offset)


def _log_power_mean(logs: FloatArray, weight: FloatArray, power: float) -> float:
    """Return log (sum w exp(p l))^(1/p), and sum w l for p = 0."""
    # For tiny p the sum is close to 1: expand it, so that no digits are lost.
    top = float(logs.max())
    if not np.isfinite(top):
        return top
    if power == 0 or power * (top - float(logs.min())) < 1e-6:
        mean = float(weight @ logs)
        if power == 0:
            return mean
        return mean + power / 2 * float(weight @ (logs - mean) ** 2)
    terms = weight * np.exp(power * (logs - top))
    return top + float(np.log(terms.sum())) / power
