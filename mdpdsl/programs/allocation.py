"""The best possible allocation of visits if P is known: the limit that runs are compared with.

Over the occupancy polytope D of `occupancy`, with complexities c(s,a):

- kappa = 1: maximise U_1 = sum c log d;
- 1 < kappa < infinity: minimise F = (sum c (c/d)^(kappa-1))^(1/(kappa-1)), which maximises
  U_kappa (paper, eq. Ukappa_definition) and, unlike it, does not overflow;
- kappa = infinity: minimise max c/d.

If the graph has ends, D is that of its closed graph (see `graph.ends`), which has the same pairs.
L*_worst is the optimum of the last; L*_avg, the least mean of c/d over pairs, is kappa = 2 with c
replaced by its square root (paper, fact kappa2). Pairs with c = 0 are in the polytope but not in
the objective.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.programs.center import analytic_center
from mdpdsl.programs.newton import (
    BALANCED,
    Minimum,
    Watch,
    balanced,
    certified_gap,
    minimize_over_occupancy,
)
from mdpdsl.programs.normal_equations import NormalEquations
from mdpdsl.programs.objective import VisitObjective, allocation_objective, remaining_budget
from mdpdsl.programs.occupancy import flow_rows
from mdpdsl.programs.program import Backend, Status
from mdpdsl.programs.visitable import AllocationError, visitable_part
from mdpdsl.programs.worst_case import worst_case_program

#: A complexity below this fraction of the largest is a rounding error of 1 - sum P^2 and set to 0.
NEGLIGIBLE = 1e-12

#: Above these, a factorisation takes more than about a minute, or its matrix more than 2 GB.
MOST_MULTIPLICATIONS = 1e12
MOST_ENTRIES = 2.5e8

#: No policy has shares that are further out of balance than this.
MEANINGLESS = 1e-6

#: The weight of the centre mixed into a vertex of the linear program, so that it can be balanced.
MIXED_IN = 1e-9


@dataclass(frozen=True, eq=False)
class Allocation:
    """Shares of visits, their quality, and a bound on their distance from the best.

    `gap` bounds F(d)/F* - 1; for kappa = 1, exp((U* - U) / sum c) - 1. `objective` is F, or U for
    kappa = 1, and infinite if F overflows (kappa near 1); `worst` and `average` are the maximum and
    mean of c/d. All four are infinite if time ran out before balanced shares were found.
    """

    kappa: float
    status: Status
    occupancy: FloatArray  # [n_pairs]   d, 0 outside the part optimised over
    objective: float
    gap: float
    worst: float
    average: float
    residual: float  # largest imbalance of flow relative to the flow through the state
    iterations: int
    seconds: float
    without_need: IntArray  # pairs with c = 0, not in the objective
    left_out: IntArray  # pairs outside the part optimised over
    multipliers: FloatArray  # [states that are no ends]  h of the certificate
    center: FloatArray  # [states that are no ends]  a start for the next problem on a similar graph


@dataclass(frozen=True)
class Optimum:
    """The least possible L_Worst and L_Avg, each attained by an allocation of its own."""

    worst: float
    average: float


def optimal_allocation(
    graph: TransitionGraph,
    c: FloatArray,
    kappa: float,
    *,
    losses: FloatArray | None = None,
    recurrent: bool = False,
    component: int | None = None,
    start: FloatArray | None = None,
    tolerance: float = 1e-6,
    time_limit: float | None = None,
    backend: Backend | None = None,
    watch: Watch | None = None,
) -> Allocation:
    """Find the best allocation for complexities c, [n_pairs], and kappa from 1 to infinity.

    `worst` and `average` are computed from `losses` if given, otherwise from c. If `recurrent`
    leaves pairs out, the average is over the remaining ones. `start` is the `center` of an earlier
    allocation. With a `backend`, kappa = infinity is solved as a linear program.
    Raise AllocationError if the optimum is infinite or the model too large.
    """
    _require_kappa(kappa)
    if backend is not None and not np.isinf(kappa):
        raise AllocationError("a backend for linear programs solves only kappa = inf")
    c, graph = _cleaned(c), graph.closed
    pairs = visitable_part(graph, c > 0, recurrent=recurrent, component=component)
    began = time.perf_counter()
    equations = _equations(graph, pairs)
    part = c[pairs]
    if not np.any(part > 0):
        found = _nothing_to_estimate(equations)
    elif backend is not None:
        found = _solved_by(backend, equations, part, tolerance, time_limit)
    else:
        found = minimize_over_occupancy(
            equations,
            allocation_objective(part, kappa),
            tolerance=tolerance,
            start=_of_part(graph, pairs, start),
            time_limit=time_limit,
            watch=watch,
        )
    d = found.x / len(pairs)
    loss = _losses(part if losses is None else _cleaned(losses)[pairs], d)
    counted = len(pairs) if recurrent else graph.n_pairs
    return _allocation(
        graph,
        pairs,
        found,
        kappa=kappa,
        objective=_objective(part, d, kappa),
        worst=float(loss.max()),
        average=float(loss.sum() / counted),
        seconds=time.perf_counter() - began,
        without_need=np.flatnonzero(c == 0),
    )


def remaining_allocation(
    graph: TransitionGraph,
    c: FloatArray,
    visits: FloatArray,
    steps_left: float,
    power: float,
    *,
    start: FloatArray | None = None,
    tolerance: float = 1e-6,
    time_limit: float | None = None,
) -> Allocation:
    """Minimise sum (c / (T + m d))^p: the best use of m more steps after visits T, [n_pairs].

    p >= 1; `objective` is that sum and `gap` bounds its p-th root; `worst` and `average` are those
    of n c / (T + m d) with n the total number of steps. `graph` is an estimate in which every state
    must reach every other, which smoothing ensures.
    """
    if not (power >= 1 and np.isfinite(power)):
        raise ValueError(f"the power must be 1 or more, not {power}")
    _require_steps(steps_left)
    c, graph = _cleaned(c), graph.closed
    pairs = visitable_part(graph, c > 0)
    objective = remaining_budget(c[pairs], _visits(visits)[pairs], steps_left, power)
    found = _use_of_steps(
        graph, c, visits, steps_left, pairs, objective,
        counted=graph.n_pairs, tolerance=tolerance, start=start, time_limit=time_limit,
    )  # fmt: skip
    T = _visits(visits)[pairs] + steps_left * found.occupancy[pairs]
    with np.errstate(over="ignore"):
        total = float(np.sum(_losses(c[pairs], T) ** power))
    return replace(found, objective=total if np.isfinite(found.gap) else np.inf)


def next_allocation(
    graph: TransitionGraph,
    c: FloatArray,
    visits: FloatArray,
    steps: float,
    kappa: float,
    *,
    component: int | None = None,
    tolerance: float = 1e-6,
    watch: Watch | None = None,
) -> Allocation:
    """Minimise F(T + m d): the best m further steps after visits T, [n_pairs], for U_kappa.

    F is that of `optimal_allocation` with T + m d instead of d (paper, eq. Ukappa_definition),
    kappa from 1 to infinity; without visits so far, the two have the same optimal d.
    `component` (from 1) chooses the part of the graph to stay in; pairs outside it are left out.
    `worst` and `average` are those of n c / (T + m d) within it, n the total number of steps.
    """
    _require_kappa(kappa)
    _require_steps(steps)
    c, graph = _cleaned(c), graph.closed
    pairs = visitable_part(graph, c > 0, recurrent=True, component=component)
    part, T = c[pairs], _visits(visits)[pairs]
    objective = VisitObjective(part, kappa, T * (len(pairs) / steps))
    found = _use_of_steps(
        graph, c, visits, steps, pairs, objective,
        counted=len(pairs), tolerance=tolerance, watch=watch,
    )  # fmt: skip
    reached = T + steps * found.occupancy[pairs]
    total = _objective(part, reached, kappa) if np.isfinite(found.gap) else np.inf
    return replace(found, objective=total)


def optimum(graph: TransitionGraph, c: FloatArray) -> Optimum:
    """Return the least possible L_Worst and L_Avg; raise AllocationError if they are infinite."""
    worst = optimal_allocation(graph, c, np.inf)
    average = optimal_allocation(graph, np.sqrt(c), 2.0, losses=c, start=worst.center)
    for found in (worst, average):
        if found.status is not Status.OPTIMAL:
            raise AllocationError(f"the optimum was found only up to a gap of {found.gap:.1e}")
    return Optimum(worst.worst, average.average)


def certify(
    graph: TransitionGraph, c: FloatArray, kappa: float, d: FloatArray, multipliers: FloatArray
) -> float:
    """Bound F(d)/F* - 1 for any shares d > 0 from any multipliers, on a communicating graph."""
    objective = allocation_objective(_cleaned(c), kappa)
    equations = _equations(graph.closed, np.arange(graph.n_pairs))
    return certified_gap(equations, objective, d * len(d), multipliers)


def _use_of_steps(
    graph: TransitionGraph,
    c: FloatArray,
    visits: FloatArray,
    steps: float,
    pairs: IntArray,
    objective: VisitObjective,
    *,
    counted: int,
    tolerance: float,
    start: FloatArray | None = None,
    time_limit: float | None = None,
    watch: Watch | None = None,
) -> Allocation:
    """Minimise an objective with visits so far over some pairs; the caller fills in its value.

    The average is over `counted` pairs.
    """
    began = time.perf_counter()
    equations = _equations(graph, pairs)
    if np.any(c[pairs] > 0):
        found = minimize_over_occupancy(
            equations,
            objective,
            tolerance=tolerance,
            start=_of_part(graph, pairs, start),
            time_limit=time_limit,
            watch=watch,
        )
    else:
        found = _nothing_to_estimate(equations)
    ratio = _losses(c[pairs], _visits(visits)[pairs] + steps * (found.x / len(pairs)))
    n = float(np.sum(visits)) + steps
    return _allocation(
        graph,
        pairs,
        found,
        kappa=objective.kappa,
        objective=np.nan,
        worst=n * float(ratio.max()),
        average=n * float(ratio.sum()) / counted,
        seconds=time.perf_counter() - began,
        without_need=np.flatnonzero(c == 0),
    )


def _require_steps(steps: float) -> None:
    if not steps > 0:
        raise ValueError(f"the number of steps must be positive, not {steps}")


def _visits(visits: FloatArray) -> FloatArray:
    return np.asarray(visits, dtype=np.float64)


def _require_kappa(kappa: float) -> None:
    if not kappa >= 1:
        raise AllocationError(f"kappa must be 1 or more, or inf; not {kappa:g}")


def _cleaned(c: FloatArray) -> FloatArray:
    c = np.asarray(c, dtype=np.float64)
    if not np.all(np.isfinite(c)) or np.any(c < 0):
        raise AllocationError("complexities must be finite and not negative")
    return np.where(c > NEGLIGIBLE * c.max(initial=0.0), c, 0.0)


def _equations(graph: TransitionGraph, pairs: IntArray) -> NormalEquations:
    equations = NormalEquations(
        flow_rows(graph, None if len(pairs) == graph.n_pairs else pairs),
        most_entries=MOST_ENTRIES,
    )
    n_states = equations.flow.shape[0]
    if equations.n_entries > MOST_ENTRIES or equations.multiplications > MOST_MULTIPLICATIONS:
        raise AllocationError(
            f"the model is too large for this method: {n_states:,} states need a matrix of "
            f"{equations.n_entries:.2g} numbers and {equations.multiplications:.2g} "
            f"multiplications per step (the limits are {MOST_ENTRIES:.2g} and "
            f"{MOST_MULTIPLICATIONS:.2g}); use fewer cells or smaller parameters"
        )
    return equations


def _of_part(graph: TransitionGraph, pairs: IntArray, h: FloatArray | None) -> FloatArray | None:
    return None if h is None else h[np.unique(graph.pair_state[pairs])]


def _nothing_to_estimate(equations: NormalEquations) -> Minimum:
    center = analytic_center(equations)
    x = balanced(equations, center.x)
    residual = equations.residual(x)
    return Minimum(Status.OPTIMAL, x, center.h, center.h, 0.0, residual, center.steps)


def _solved_by(
    backend: Backend,
    equations: NormalEquations,
    c: FloatArray,
    tolerance: float,
    time_limit: float | None,
) -> Minimum:
    """Solve kappa = infinity as a linear program; the gap is certified as in the other method."""
    program, decode = worst_case_program(equations.flow, c)
    solution = backend.solve(program, time_limit=time_limit)
    center = analytic_center(equations)
    objective: VisitObjective = allocation_objective(c, np.inf)
    x, h, status = center.x, center.h, solution.status
    if solution.is_optimal:
        vertex, h = decode(solution)
        x = (1 - MIXED_IN) * vertex + MIXED_IN * center.x
    x = balanced(equations, x)
    gap = certified_gap(equations, objective, x, h)
    residual = equations.residual(x)
    if solution.is_optimal and not (gap <= tolerance and residual <= BALANCED):
        status = Status.INACCURATE
    return Minimum(status, x, h, center.h, abs(gap), residual, solution.iterations)


def _losses(c: FloatArray, visits: FloatArray) -> FloatArray:
    """Return c / visits, 0 for pairs that need no visits."""
    with np.errstate(divide="ignore"):
        return np.where(c > 0, c / np.where(c > 0, visits, 1.0), 0.0)


def _objective(c: FloatArray, d: FloatArray, kappa: float) -> float:
    """Return F(d), or U(d) for kappa = 1."""
    needed = c > 0
    if not needed.any():
        return 0.0
    if kappa == 1:
        return float(np.sum(c[needed] * np.log(d[needed])))
    log_mean = allocation_objective(c, kappa).log_mean(d)
    with np.errstate(over="ignore"):
        return float(np.exp(log_mean + np.log(c.sum()) / (kappa - 1)))


def _allocation(
    graph: TransitionGraph,
    pairs: IntArray,
    found: Minimum,
    *,
    kappa: float,
    objective: float,
    worst: float,
    average: float,
    seconds: float,
    without_need: IntArray,
) -> Allocation:
    if found.residual > MEANINGLESS:
        found = replace(found, gap=np.inf)
        objective = worst = average = np.inf
    occupancy = np.zeros(graph.n_pairs)
    occupancy[pairs] = found.x / len(pairs)
    multipliers, center = np.zeros(graph.n_states), np.zeros(graph.n_states)
    states = np.unique(graph.pair_state[pairs])
    multipliers[states], center[states] = found.multipliers, found.center
    return Allocation(
        kappa=kappa,
        status=found.status,
        occupancy=occupancy,
        objective=objective,
        gap=found.gap,
        worst=worst,
        average=average,
        residual=found.residual,
        iterations=found.steps,
        seconds=seconds,
        without_need=without_need,
        left_out=np.setdiff1d(np.arange(graph.n_pairs), pairs),
        multipliers=multipliers,
        center=center,
    )
