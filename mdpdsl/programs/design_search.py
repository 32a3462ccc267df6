"""Minimise a design criterion over the occupancy polytope: a primal-dual interior method.

Visits u = offset + x, x = n d, give the information M = sum u F, F(s,a) positive semidefinite. The
criterion to be minimised is

    phi(u) = a A(M) + b sum c/u,     A = tr(C M^-1)  or  A = det(M)^(-1/r),

with a, b >= 0 and the needs c >= 0 of pairs whose rows are to be estimated, too. It is convex, and
homogeneous of degree -1.

**Bound.** psi = 1/phi is positive, homogeneous of degree 1, and its level sets {psi >= l} =
{phi <= 1/l} are convex; such a function is concave. So for g = -grad log phi(u) = grad psi / psi
every u' = offset + x' has psi(u') <= psi(u) (1 + <g, x' - x>). For x' in the polytope, N x' = 0 and
sum x' = n, so <g, x'> = <g - N^T h, x'> <= n max [g - N^T h] for any multipliers h of the flow rows
N. Therefore

    phi(u) / phi* - 1 <= n lambda - <g, x>,     lambda = max [g - N^T h].

The largest <g, x'> is the best average reward for the rewards g (paper, algorithm FW-general), and
x is optimal if and only if it attains it.

**Method.** f = -n psi, psi in units of its first value, is convex and, unlike phi and log phi, does
not bend as all visits grow: for r = 1 it is linear. A point is optimal if and only if there are h
and lambda with  s = lambda + N^T h + grad f >= 0  and  s x = 0. The products are kept near mu > 0,
which falls to 0. Steps are Mehrotra's (1992), shortened until s, computed anew from its definition,
is near the path. The second derivative of f is diagonal, from the needs, plus V B V^T with one
column of V for each dimension of the span of the matrices F, at most r (r + 1) / 2, so that the
S x S normal equations are factorised once and solved for each column (Woodbury 1950).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from mdpdsl.graph.space import FloatArray
from mdpdsl.programs.center import REFINEMENTS, Center, analytic_center
from mdpdsl.programs.newton import BALANCED, Minimum, Watch, balanced
from mdpdsl.programs.normal_equations import NormalEquations
from mdpdsl.programs.program import Status
from mdpdsl.programs.threads import in_one_thread

MOST_STEPS = 200
#: The fraction of the distance to the boundary that a step may cover.
TO_BOUNDARY = 0.99
#: A point is near the central path if no product is below this fraction of their mean.
CENTRAL = 0.01
#: The power of the predictor's success in the centring weight (Mehrotra 1992), and its least value.
CENTERING_POWER = 3
LEAST_CENTERING = 1e-3
MOST_SHORTENINGS = 40
#: A singular value of the matrices F below this fraction of the largest is a rounding error.
NEGLIGIBLE = 1e-13


@dataclass(frozen=True, eq=False)
class DesignObjective:
    """The criterion phi as a function of x; F, C and M have r dimensions."""

    information: FloatArray  # [n_pairs, r, r]  F
    weight: FloatArray | None  # [r, r]  C; None for det(M)^(-1/r)
    need: FloatArray  # [n_pairs]  c
    offset: FloatArray  # [n_pairs]  visits so far, in units of x
    seen: FloatArray  # [r, r]  information from elsewhere, added to M
    parts: tuple[float, float]  # a, b

    @cached_property
    def spanned(self) -> tuple[FloatArray, FloatArray]:
        """Z, [n_pairs, q], and a basis R, [q, r, r], of what the matrices span: F = Z R.

        What is a rounding error is judged in units in which all dimensions have as much
        information.
        """
        n, r, _ = self.information.shape
        own = np.sqrt(np.einsum("nii->i", self.information))
        unit = np.outer(own, own)[None]
        scaled = np.divide(self.information, unit, out=np.zeros((n, r, r)), where=unit > 0)
        left, size, right = np.linalg.svd(scaled.reshape(n, r * r), full_matrices=False)
        kept = size > NEGLIGIBLE * size[0]
        return left[:, kept] * size[kept], right[kept].reshape(-1, r, r) * unit

    def matrix(self, x: FloatArray) -> FloatArray:
        """Return M, [r, r]."""
        return np.asarray(self.seen + np.tensordot(self.offset + x, self.information, axes=1))

    def at(self, x: FloatArray) -> _Local:
        """Return phi and its derivatives at x; raise LinAlgError if M is singular."""
        a, b = self.parts
        Z, R = self.spanned
        lower = cholesky(self.matrix(x), lower=True, check_finite=False)
        r = len(lower)
        R = _whitened(lower, R)
        if self.weight is None:
            C = np.eye(r) / r
            value = float(np.exp(-2 * np.mean(np.log(np.diag(lower)))))
        else:
            C = _whitened(lower, self.weight[None])[0]
            value = float(np.trace(C))
            C = C / value
        flat = R.reshape(len(R), r * r)
        slope = flat @ C.ravel()  # -d log A / dy, y = Z^T x
        twice = (R @ C).reshape(len(R), r * r) @ flat.T  # tr(R_i C R_j)
        curved = twice + (np.outer(slope, slope) if self.weight is None else twice.T)
        u = self.offset + x
        loss = np.divide(self.need, u, out=np.zeros(len(u)), where=self.need > 0)
        phi = a * value + b * float(loss.sum())
        share = a * value / phi
        marginal = b / phi * loss / u
        return _Local(
            log_value=float(np.log(phi)),
            gradient=share * (Z @ slope) + marginal,
            slope=share * slope,
            curvature=share * curved,
            marginal=marginal,
            stiffness=2 * marginal / u,
        )


@dataclass(frozen=True, eq=False)
class _Local:
    """log phi and its derivatives at a point: those along Z^T x, and those of each pair's need."""

    log_value: float
    gradient: FloatArray  # [n_pairs]  g = -grad log phi
    slope: FloatArray  # [q]  the part of g that is due to A, along Z^T x
    curvature: FloatArray  # [q, q]  the second derivative of a A, over phi
    marginal: FloatArray  # [n_pairs]  the part of g that is due to needs
    stiffness: FloatArray  # [n_pairs]  the second derivative of b sum c/u, over phi


@in_one_thread
def minimize_criterion(
    equations: NormalEquations,
    objective: DesignObjective,
    *,
    tolerance: float,
    start: FloatArray | None = None,
    time_limit: float | None = None,
    watch: Watch | None = None,
) -> Minimum:
    """Minimise until the certified gap is at most the tolerance; `start` is an earlier `center`."""
    deadline = np.inf if time_limit is None else time.perf_counter() + time_limit
    center = analytic_center(equations, start, lambda: time.perf_counter() > deadline)
    best = _measured(equations, objective, center.x, center.h, center.steps)
    status = Status.INACCURATE
    if equations.flow.shape[0] == len(center.x):  # every state has one pair, and there is one x
        best = replace(best, x=balanced(equations, best.x), gap=0.0)
    elif best.gap > tolerance and np.isfinite(best.gap):
        iterate = _Iterate(equations, objective, center)
        while best.gap > tolerance / 2 and iterate.steps < MOST_STEPS:
            if time.perf_counter() > deadline:
                status = Status.TIME_LIMIT
                break
            try:
                iterate.step()
            except (LinAlgError, FloatingPointError):
                break
            steps = center.steps + iterate.steps
            point = _measured(equations, objective, iterate.x, iterate.multipliers, steps)
            if max(point.gap, point.residual) < max(best.gap, best.residual):
                best = point
            if watch is not None:
                watch(steps, best.gap)
        x = balanced(equations, best.x)
        final = _measured(equations, objective, x, best.multipliers, best.steps)
        if max(final.gap, final.residual) <= max(best.gap, best.residual):
            best = final
    if best.gap <= tolerance and best.residual <= BALANCED:
        status = Status.OPTIMAL
    return replace(best, status=status, center=center.h)


def certified_excess(
    equations: NormalEquations, objective: DesignObjective, x: FloatArray, h: FloatArray
) -> float:
    """Return a bound on phi(x)/phi* - 1 from any multipliers h (see above)."""
    try:
        gradient = objective.at(x).gradient
    except LinAlgError:
        return float("inf")
    level = float(np.max(gradient - equations.worth(h)))
    bound = len(x) * level - float(gradient @ x)
    return max(bound, 0.0) if np.isfinite(bound) else float("inf")


def _measured(
    equations: NormalEquations,
    objective: DesignObjective,
    x: FloatArray,
    h: FloatArray,
    steps: int,
) -> Minimum:
    gap = certified_excess(equations, objective, x, h)
    return Minimum(Status.INACCURATE, x, h, h, gap, equations.residual(x), steps)


def _whitened(lower: FloatArray, matrices: FloatArray) -> FloatArray:
    """Return L^-1 A L^-T for symmetric matrices A, [m, r, r]."""
    m, r, _ = matrices.shape
    half = solve_triangular(lower, matrices.swapaxes(0, 1).reshape(r, m * r), lower=True)
    half = half.reshape(r, m, r).transpose(2, 1, 0).reshape(r, m * r)
    return np.asarray(solve_triangular(lower, half, lower=True).reshape(r, m, r).swapaxes(0, 1))


class _Iterate:
    """The current point, with the symbols of the module docstring."""

    def __init__(
        self, equations: NormalEquations, objective: DesignObjective, center: Center
    ) -> None:
        self.equations, self.objective = equations, objective
        self.steps = 0
        self.x = center.x
        self.local = objective.at(self.x)
        self.first_value = self.local.log_value
        # s = tau z + grad f with x z = 1: for this tau, every s x is between tau/2 and tau.
        self.level = 2 * len(self.x) * float(np.max(self.local.gradient / center.z))
        self.h = self.level * center.h
        self.s = self._slack(self.level, self.h, self.local)

    @property
    def multipliers(self) -> FloatArray:
        """The h of the bound, [n_states]."""
        return self.h / self._scale(self.local)

    def step(self) -> None:
        """Take one step towards the optimum."""
        products = self.x * self.s
        mu = float(products.mean())
        self._linearize()
        self.steps += 1
        predictor = self._direction(-products)
        length, after = self._reach(*predictor)
        center = max(LEAST_CENTERING, min(1.0, (after / mu) ** CENTERING_POWER))
        second = length**2 * predictor[0] * predictor[3]
        if self._go(*self._direction(center * mu - products - second), mu):
            return
        if not self._go(*self._direction(mu / 2 - products), mu):
            raise FloatingPointError("no step is possible")

    def _scale(self, local: _Local) -> float:
        """Return n psi, the ratio of -grad f to g."""
        return len(self.x) * float(np.exp(self.first_value - local.log_value))

    def _slack(self, level: float, h: FloatArray, local: _Local) -> FloatArray:
        return level + self.equations.worth(h) - self._scale(local) * local.gradient

    def _reach(
        self, dx: FloatArray, dh: FloatArray, dlevel: float, ds: FloatArray
    ) -> tuple[float, float]:
        """Return how far a direction leads before s < 0, and the mean of the products there."""
        length = min(1.0, TO_BOUNDARY * min(_length(dx, self.x), _length(ds, self.s)))
        for _ in range(MOST_SHORTENINGS):
            x = self.x + length * dx
            local = self.objective.at(x)
            s = self._slack(self.level + length * dlevel, self.h + length * dh, local)
            if s.min() >= 0:
                return length, float(np.mean(x * s))
            length *= 0.6
        return 0.0, float(np.mean(self.x * self.s))

    def _go(
        self, dx: FloatArray, dh: FloatArray, dlevel: float, ds: FloatArray, most: float
    ) -> bool:
        """Move as far as the point stays near the central path; return whether that is possible."""
        length = min(1.0, TO_BOUNDARY * min(_length(dx, self.x), _length(ds, self.s)))
        for _ in range(MOST_SHORTENINGS):
            x = self.x + length * dx
            level, h = self.level + length * dlevel, self.h + length * dh
            local = self.objective.at(x)
            s = self._slack(level, h, local)
            products = x * s
            mean = float(products.mean())
            if products.min() >= CENTRAL * mean and mean <= most:
                self.x, self.h, self.level, self.local, self.s = x, h, level, local, s
                return True
            length *= 0.7
        return False

    def _linearize(self) -> None:
        """Factorise the diagonal part, and project the columns of the rest and the row of ones.

        The second derivative of f, over n psi, is that of phi, over phi, less 2 g g^T.
        """
        local, scale = self.local, self._scale(self.local)
        self.k = 1 / (self.s / self.x + scale * local.stiffness)
        self.equations.factorize(self.k)
        V, slope, curvature = self.objective.spanned[0], local.slope, local.curvature
        if local.marginal.any():  # g = V slope
            V = np.column_stack([V, local.marginal])
            slope = np.append(slope, 1.0)
            curvature = np.pad(curvature, (0, 1))
        self.V, self.B = V, scale * (curvature - 2 * np.outer(slope, slope))
        ones = np.ones((len(V), 1))
        self.border_x, self.border_h = self._projected(np.hstack([V, ones]))

    def _projected(self, r: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return dx and dh of  dx/k + N^T dh = r,  N dx = 0,  for each column of r."""
        equations, k = self.equations, self.k if r.ndim == 1 else self.k[:, None]
        dh = equations.solve(equations.imbalance(k * r))
        dx = k * (r - equations.worth(dh))
        for _ in range(REFINEMENTS):
            correction = equations.solve(equations.imbalance(dx))
            dh = dh + correction
            dx = dx - k * equations.worth(correction)
        return dx, dh

    def _direction(self, change: FloatArray) -> tuple[FloatArray, FloatArray, float, FloatArray]:
        """Return dx, dh, dlambda and ds that change the products s x by these amounts.

        (1/k + V B V^T) dx + N^T dh + dlambda = change / x,  N (x + dx) = 0,  sum (x + dx) = n.
        """
        equations, x, V, q = self.equations, self.x, self.V, self.V.shape[1]
        dx, dh = self._projected(change / x)
        off = equations.solve(equations.imbalance(x))
        dx, dh = dx - self.k * equations.worth(off), dh + off
        # The unknowns are w = V^T dx and dlambda, and dx loses border_x (B w, dlambda).
        rows = np.vstack([V.T, np.ones(len(x))])
        system = rows @ self.border_x
        system[:, :q] = system[:, :q] @ self.B
        system[np.arange(q), np.arange(q)] += 1.0
        right = rows @ dx
        right[q] += x.sum() - len(x)
        found = np.linalg.solve(system, right)
        w = np.append(self.B @ found[:q], found[q])
        dx, dh = dx - self.border_x @ w, dh - self.border_h @ w
        return dx, dh, float(found[q]), (change - self.s * dx) / x


def _length(change: FloatArray, value: FloatArray) -> float:
    """Return the step at which a value reaches 0."""
    return 1 / float(np.max(-change / value, initial=1e-300))
