"""Minimise a visit objective over the occupancy polytope: a primal-dual interior method.

In x = n d, with N the rows of flow balance and b, kappa, u = offset + x as in `objective`, a point
is optimal if and only if there are h, tau and, for every pair, y and s with

    N x = 0,   sum x = n,   1 + N^T h = z = y + s,   s x = 0,   u = v + e,   e y = 0,
    v y^(1/kappa) = tau b.

v is the part of the visits that is needed, e the excess that flow balance adds, y the marginal
value of a visit and s the multiplier of x >= 0. The two products are kept at mu > 0, which falls to
0. The last line is linearised in logarithms, so steps do not become shorter as kappa grows: at
kappa = infinity, v = tau b, this is the usual method for linear programs. s exists only for pairs
that x may leave at 0: those that need no visits, and those that have some already.

Eliminating all but h leaves the S x S system N K^-1 N^T of `normal_equations`, bordered by tau.
Steps are Mehrotra's (1992): a predictor, a centring weight from its length, a corrector. The start
is the analytic centre. The gap is the bound of `objective`, computed from h alone; its validity
does not depend on any of the above.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError

from mdpdsl.graph.space import BoolArray, FloatArray
from mdpdsl.programs.center import REFINEMENTS, Center, analytic_center
from mdpdsl.programs.normal_equations import NormalEquations
from mdpdsl.programs.objective import VisitObjective
from mdpdsl.programs.program import Status
from mdpdsl.programs.threads import in_one_thread

#: A smaller imbalance of flow, relative to the flow through the state, counts as balanced.
BALANCED = 1e-9
MOST_STEPS = 200
#: Steps without a better gap after which the method gives up.
MOST_IDLE_STEPS = 25
#: The fraction of the distance to the boundary that a step may cover.
TO_BOUNDARY = 0.99
#: A point is near the central path if no product is below this fraction of their mean, ...
CENTRAL = 0.01
#: ... and v y^(1/kappa) = tau b up to this, in logarithms.
NEAR = 1.0
MOST_SHORTENINGS = 60
#: The number of halvings of an interval of logarithms, to find a start.
BISECTIONS = 30
#: A step shorter than this is compared with one that centres more.
SHORT = 0.3

#: Called after every step with the number of steps and the gap so far.
Watch = Callable[[int, float], None]


@dataclass(frozen=True, eq=False)
class Minimum:
    """The best point found; `gap` bounds M(x)/M* - 1, `status` says why the search ended."""

    status: Status
    x: FloatArray  # [n_pairs]   sums to n_pairs
    multipliers: FloatArray  # [n_states]  h
    center: FloatArray  # [n_states]  h of the analytic centre, a start for a problem like this one
    gap: float
    residual: float  # largest imbalance of flow relative to the flow through the state
    steps: int


@in_one_thread
def minimize_over_occupancy(
    equations: NormalEquations,
    objective: VisitObjective,
    *,
    tolerance: float = 1e-6,
    start: FloatArray | None = None,
    time_limit: float | None = None,
    watch: Watch | None = None,
) -> Minimum:
    """Minimise until the certified gap is at most the tolerance; `start` is an earlier `center`."""
    deadline = np.inf if time_limit is None else time.perf_counter() + time_limit

    def must_stop() -> bool:
        return time.perf_counter() > deadline

    try:
        center = analytic_center(equations, start, must_stop)
    except LinAlgError:
        center = _uniform(equations)
    if equations.flow.shape[0] == len(center.x) and center.is_centered:
        return _only_point(equations, objective, center)
    best = _measured(equations, objective, center.x, center.h, None, center.steps)
    status = Status.INACCURATE
    iterate = _Iterate(equations, objective, center)
    idle = 0
    while idle < MOST_IDLE_STEPS and iterate.steps < MOST_STEPS:
        if best.gap <= tolerance / 2 and best.residual <= BALANCED:
            break
        if must_stop():
            status = Status.TIME_LIMIT
            break
        try:
            iterate.step()
        except (LinAlgError, FloatingPointError):
            break
        steps = center.steps + iterate.steps
        point = _measured(equations, objective, iterate.x, iterate.h, iterate.y, steps)
        idle += 1
        if max(point.gap, point.residual) < max(best.gap, best.residual):
            best, idle = point, 0
        if watch is not None:
            watch(steps, best.gap)
    x = balanced(equations, best.x)
    final = _measured(equations, objective, x, best.multipliers, iterate.y, best.steps)
    if max(final.gap, final.residual) > max(best.gap, best.residual):
        final = best
    if final.gap <= tolerance and final.residual <= BALANCED:
        status = Status.OPTIMAL
    return replace(final, status=status, center=center.h)


def _only_point(equations: NormalEquations, objective: VisitObjective, center: Center) -> Minimum:
    """Return the only feasible point of a model in which every state has one pair.

    Its multipliers solve z = 1 + N^T h for the z that is proportional to the gradient.
    """
    x = balanced(equations, center.x)
    residual = equations.residual(x)
    gradient = objective.gradient(x)
    z = gradient * (len(x) / float(gradient @ x))
    equations.factorize(x**2)
    h = np.zeros(len(center.h))
    for _ in range(1 + REFINEMENTS):
        h += equations.solve(equations.imbalance(x**2 * (z - 1 - equations.worth(h))))
    status = Status.OPTIMAL if residual <= BALANCED else Status.INACCURATE
    return Minimum(status, x, h, center.h, 0.0, residual, center.steps)


def balanced(equations: NormalEquations, x: FloatArray) -> FloatArray:
    """Remove the imbalance of flow that rounding left in x > 0, by the least relative change."""
    for _ in range(3):
        if equations.residual(x) < 1e-14:
            break
        try:
            equations.factorize(x**2)
        except LinAlgError:
            break
        change = -(x**2) * equations.worth(equations.solve(equations.imbalance(x)))
        if np.any(change <= -0.5 * x):
            break
        x = x + change
        x *= len(x) / x.sum()
    return x


def certified_gap(
    equations: NormalEquations,
    objective: VisitObjective,
    x: FloatArray,
    h: FloatArray,
    y: FloatArray | None = None,
) -> float:
    """Return a bound on M(x)/M* - 1 from any multipliers h; y tightens it if there is an offset.

    z = 1 + N^T h satisfies <z, x> = n for every x in the polytope (see `objective`). If rounding or
    a poor h left an entry negative, a multiple of the row sum x = n is added to raise it to 0.
    """
    z = 1 + equations.worth(h)
    level = 1 - min(0.0, float(z.min()))
    z = (z + (level - 1)) / level
    marginal = z
    if objective.offset.any():
        gradient = objective.gradient(x) if y is None else y
        marginal = np.where(objective.offset > 0, np.minimum(gradient / level, z), z)
    distance = objective.log_mean(x) - objective.log_bound(marginal, float(len(x)))
    return float(np.expm1(distance)) if distance < 700 else float("inf")


def _measured(
    equations: NormalEquations,
    objective: VisitObjective,
    x: FloatArray,
    h: FloatArray,
    y: FloatArray | None,
    steps: int,
) -> Minimum:
    gap = certified_gap(equations, objective, x, h, y)
    residual = equations.residual(x)
    gap = gap if np.isfinite(gap) else float("inf")
    return Minimum(Status.INACCURATE, x, h, h, abs(gap), residual, steps)


def _uniform(equations: NormalEquations) -> Center:
    n_states, n_pairs = equations.flow.shape
    return Center(np.ones(n_pairs), np.ones(n_pairs), np.zeros(n_states), 0, False)


@dataclass(frozen=True, eq=False)
class _Direction:
    x: FloatArray
    h: FloatArray
    v: FloatArray
    e: FloatArray
    y: FloatArray
    s: FloatArray
    log_tau: float


class _Iterate:
    """The current point, with the symbols of the module docstring."""

    def __init__(
        self, equations: NormalEquations, objective: VisitObjective, center: Center
    ) -> None:
        self.equations, self.objective = equations, objective
        self.steps = 0
        needed = objective.is_needed
        self.needed = needed
        self.bounded: BoolArray = ~needed | (objective.offset > 0)
        self.x, self.h = center.x, center.h
        u = objective.offset + self.x
        self.log_b = np.log(np.where(needed, objective.need, 1.0))
        log_y, self.log_tau = self._start(u, center.z)
        self.y = np.where(needed, np.exp(log_y), 0.0)
        self.s = np.where(self.bounded, center.z - self.y, 0.0)
        v = np.exp(self.log_tau + self.log_b - objective.exponent * log_y)
        self.v = np.where(needed, v, 0.0)
        self.e = np.where(needed, u - v, 1.0)

    def _start(self, u: FloatArray, z: FloatArray) -> tuple[FloatArray, float]:
        """Return log y and log tau of a central start with the largest tau, from x z = 1.

        For pairs without the bound x >= 0, y = z and v is at most u/2. For the others e y = 1/4,
        which leaves s x between 1/2 and 1 for every y up to z/2: y solves
        (u - 1/(4y)) y^(1/kappa) = tau b, whose left side increases with y. The largest tau is best
        because visits u far above x then do not force y far below z, where steps would be short.
        """
        needed, bounded, exponent = self.needed, self.bounded, self.objective.exponent
        low, high = -np.log(4 * u), np.log(np.where(bounded, z / 2, z))

        def log_left(log_y: FloatArray) -> FloatArray:
            rest = np.where(bounded, u - np.exp(-log_y) / 4, u / 2)
            with np.errstate(divide="ignore"):
                return np.log(np.maximum(rest, 0.0)) + exponent * log_y

        log_tau = float((log_left(high) - self.log_b)[needed].min())
        top = high
        for _ in range(BISECTIONS):
            middle = (low + top) / 2
            is_below = log_left(middle) < log_tau + self.log_b
            low, top = np.where(is_below, middle, low), np.where(is_below, top, middle)
        return np.where(bounded, top, high), log_tau

    def step(self) -> None:
        """Take one step towards the optimum."""
        needed, bounded = self.needed, self.bounded
        excess = np.where(needed, self.e * self.y, 0.0)
        slack = np.where(bounded, self.s * self.x, 0.0)
        count = int(needed.sum() + bounded.sum())
        mu = float(excess.sum() + slack.sum()) / count
        self._linearize()
        predictor = self._direction(-excess, -slack)
        along, across = self._lengths(predictor)
        after = np.where(
            needed, (self.e + along * predictor.e) * (self.y + across * predictor.y), 0.0
        ) + np.where(bounded, (self.s + across * predictor.s) * (self.x + along * predictor.x), 0.0)
        center = min(1.0, max(1e-6, (float(after.sum()) / count / mu) ** 3))
        # The second-order term of a full step, shortened as the predictor was: the term of a
        # step that could not be taken would mislead.
        second = along * across
        direction = self._direction(
            np.where(needed, center * mu - excess - second * predictor.e * predictor.y, 0.0),
            np.where(bounded, center * mu - slack - second * predictor.s * predictor.x, 0.0),
        )
        if min(self._lengths(direction)) < SHORT:
            plain = self._direction(
                np.where(needed, mu / 2 - excess, 0.0), np.where(bounded, mu / 2 - slack, 0.0)
            )
            if min(self._lengths(plain)) > min(self._lengths(direction)):
                direction = plain
        self._go(direction, *self._lengths(direction))
        self.steps += 1

    def _go(self, direction: _Direction, along: float, across: float) -> None:
        """Move as far as the point stays near the central path; beyond, steps would be short."""
        allowed = max(NEAR, 0.9 * self._farness(self.v, self.y, self.log_tau))
        for _ in range(MOST_SHORTENINGS):
            v, e = self.v + along * direction.v, self.e + along * direction.e
            x = np.where(self.bounded, self.x + along * direction.x, v + e - self.objective.offset)
            y, s = self.y + across * direction.y, self.s + across * direction.s
            log_tau = self.log_tau + along * direction.log_tau
            products = np.concatenate([(e * y)[self.needed], (s * x)[self.bounded]])
            if (
                products.min() >= CENTRAL * products.mean()
                and self._farness(v, y, log_tau) <= allowed
            ):
                self.v, self.e, self.x, self.y, self.s = v, e, x, y, s
                self.h, self.log_tau = self.h + across * direction.h, log_tau
                return
            along = across = 0.7 * min(along, across)
        raise FloatingPointError("no step is possible")

    def _farness(self, v: FloatArray, y: FloatArray, log_tau: float) -> float:
        """Return the largest difference between the logarithms of v y^(1/kappa) and tau b."""
        return float(np.max(np.abs(self._off(v, y, log_tau)), initial=0.0))

    def _off(self, v: FloatArray, y: FloatArray, log_tau: float) -> FloatArray:
        safe_v, safe_y = np.where(self.needed, v, 1.0), np.where(self.needed, y, 1.0)
        off = log_tau + self.log_b - np.log(safe_v) - self.objective.exponent * np.log(safe_y)
        return np.where(self.needed, off, 0.0)

    def _linearize(self) -> None:
        """Compute the residuals and the matrix at this point."""
        needed, exponent = self.needed, self.objective.exponent
        off = self._off(self.v, self.y, self.log_tau)
        mean = float(np.average(off, weights=self.v))
        self.log_tau -= mean
        off = np.where(needed, off - mean, 0.0)
        # The smaller of log(1 + t) and t in magnitude, so that neither side is overcorrected.
        self.off = np.where(off > 0, off, np.expm1(np.minimum(off, 0.0)))
        self.link = np.where(needed, self.objective.offset + self.x - self.v - self.e, 0.0)
        self.dual = 1 + self.equations.worth(self.h) - self.y - self.s
        self.stiffness = np.where(needed, self.y / (exponent * self.v + self.e), 0.0)
        self.k = 1 / (self.stiffness + self.s / self.x)
        self.equations.factorize(self.k)
        self.border = self._balanced_part(self.k * self.stiffness * self.v, 0.0)

    def _balanced_part(self, f: FloatArray, already: float) -> tuple[FloatArray, FloatArray]:
        """Return dx = f - k N^T dh and dh, with N (already x + dx) = 0."""
        equations = self.equations
        goal = already * equations.imbalance(self.x)
        dh = equations.solve(equations.imbalance(f) + goal)
        dx = f - self.k * equations.worth(dh)
        for _ in range(REFINEMENTS):
            correction = equations.solve(equations.imbalance(dx) + goal)
            dh += correction
            dx -= self.k * equations.worth(correction)
        return dx, dh

    def _direction(self, excess: FloatArray, slack: FloatArray) -> _Direction:
        """Return the Newton direction that changes the two products by these amounts."""
        needed, bounded = self.needed, self.bounded
        safe_y = np.where(needed, self.y, 1.0)
        pull = self.v * self.off + excess / safe_y - self.link
        f = self.k * (slack / self.x - self.dual + self.stiffness * pull)
        dx, dh = self._balanced_part(f, 1.0)
        border_x, border_h = self.border
        dtau = (len(self.x) - self.x.sum() - dx.sum()) / border_x.sum()
        dx, dh = dx + dtau * border_x, dh + dtau * border_h
        dy = self.stiffness * (pull + self.v * dtau - dx)
        ds = np.where(bounded, (slack - self.s * dx) / self.x, 0.0)
        de = np.where(needed, (excess - self.e * dy) / safe_y, 0.0)
        dv = self.v * (self.off + dtau - self.objective.exponent * dy / safe_y)
        return _Direction(dx, dh, dv, de, dy, ds, float(dtau))

    def _lengths(self, direction: _Direction) -> tuple[float, float]:
        """Return the largest admissible step lengths of the visits and of the multipliers."""
        needed, bounded = self.needed, self.bounded
        primal = max(
            _steepest(direction.v[needed], self.v[needed]),
            _steepest(direction.e[needed], self.e[needed]),
            _steepest(direction.x[bounded], self.x[bounded]),
        )
        dual = max(
            _steepest(direction.y[needed], self.y[needed]),
            _steepest(direction.s[bounded], self.s[bounded]),
        )
        return min(1.0, TO_BOUNDARY / primal), min(1.0, TO_BOUNDARY / dual)


def _steepest(change: FloatArray, value: FloatArray) -> float:
    return float(np.max(-change / value, initial=1e-300))
