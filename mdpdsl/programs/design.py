"""The best possible experiment for unknown numbers: the shares of visits that show them best.

With P a function of k unknown numbers theta, a visit of a pair adds the Fisher information
F(s,a) = sum_s' dP dP^T / P, [k, k], and M(d) = sum d F is that of a step. Over the occupancies d of
the graph (`occupancy`; with ends, of the closed graph):

- `a`: minimise tr(W M^-1), the weighted sum of the variances of the best estimates after one step;
- `d`: minimise -log det(M) / k, which is about the volume of their confidence ellipsoid

(Pukelsheim 1993). Numbers have units. The weights W are 1/range^2 by default (`range_weights`), so
that an error counts relative to the range in which a number was declared; 1/theta^2 makes it
relative to the number. `d` does not depend on them. If rows are to be estimated as well, the
criterion is A/A* + mix L/L*, where L = sum c/d over the pairs in need: both losses in units of
their own optimum. After visits T and with m steps left, T + m d takes the place of d.

A direction without information, along which the law does not change, cannot be identified by any
experiment. `design_search` proves that the criteria are convex and that the bound on the gap holds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.programs.allocation import MOST_ENTRIES, MOST_MULTIPLICATIONS
from mdpdsl.programs.design_search import minimize_criterion
from mdpdsl.programs.identified import DesignTask, Identified, identified
from mdpdsl.programs.newton import Minimum, Watch
from mdpdsl.programs.normal_equations import NormalEquations
from mdpdsl.programs.occupancy import flow_rows, random_occupancy
from mdpdsl.programs.program import Status
from mdpdsl.programs.visitable import AllocationError, visitable_part

#: Visits show nothing of a direction with less than this part of the information that its numbers
#: have on their own.
SINGULAR = 1e-12


@dataclass(frozen=True, eq=False)
class Design:
    """Shares of visits, how well they show the numbers, and a bound on the gap to the best.

    `gap` bounds phi(d)/phi* - 1 for the criterion phi; that of `d` is a logarithm, log phi, and
    log(1 + gap) bounds the difference. `deviations` are the standard deviations of the best
    possible estimates after one step; after n steps they are smaller by sqrt(n). If visits or steps
    left are given, they are those at the end. Numbers that cannot be identified have infinite ones.
    """

    criterion: str
    names: tuple[str, ...]
    status: Status
    occupancy: FloatArray  # [n_pairs]   d, 0 outside the part optimised over
    objective: float
    gap: float
    deviations: FloatArray  # [k]
    information: FloatArray  # [k, k]  M
    flat: FloatArray  # [n_flat, k]  spans what cannot be identified, in units of 1/sqrt(W)
    units: tuple[float, float]  # A* and L* of a mixed criterion, else 1 and 1
    residual: float  # largest imbalance of flow relative to the flow through the state
    iterations: int
    seconds: float
    left_out: IntArray  # pairs outside the part optimised over
    center: FloatArray  # [states that are no ends]  a start for the next problem on a similar graph
    central: FloatArray  # [n_pairs]  shares of the analytic centre: visits of all pairs of the part


def range_weights(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return 1/range^2: errors count relative to the ranges of the numbers, [k]."""
    return 1 / np.maximum(np.asarray(high) - np.asarray(low), 1e-300) ** 2


def criterion_of(
    visits: FloatArray | IntArray, information: FloatArray, weights: FloatArray, criterion: str
) -> float:
    """Return tr(W M^-1), or det(M)^(-1/k) in units of 1/sqrt(W), for M = sum T F.

    It is infinite if visits, [n_pairs], do not show all numbers.
    """
    scale = np.sqrt(weights)
    M = np.tensordot(np.asarray(visits, np.float64), information, axes=1) / np.outer(scale, scale)
    own = np.sqrt(np.diag(M))
    if not own.all():
        return float("inf")
    correlation = np.linalg.eigvalsh(M / np.outer(own, own))
    if correlation[0] <= SINGULAR:
        return float("inf")
    if criterion == "d":
        return float(np.exp(-np.mean(np.log(correlation) + 2 * np.log(own))))
    return float(np.trace(np.linalg.inv(M)))


def optimal_design(
    graph: TransitionGraph,
    information: FloatArray,
    names: Sequence[str],
    weights: FloatArray,
    *,
    criterion: str = "a",
    need: FloatArray | None = None,
    mix: float = 1.0,
    visits: FloatArray | None = None,
    steps_left: float | None = None,
    identifiable: bool = False,
    recurrent: bool = False,
    component: int | None = None,
    start: FloatArray | None = None,
    tolerance: float = 1e-4,
    time_limit: float | None = None,
    watch: Watch | None = None,
) -> Design:
    """Find the best experiment for information F, [n_pairs, k, k], and weights W, [k].

    `need`, [n_pairs], has the complexities of the rows to be estimated as well, and `mix` is their
    weight. With `identifiable`, the design is for what can be identified (the pseudo-inverse of M,
    in units of the weights); otherwise, AllocationError is raised if something cannot be, as it is
    if the model is too large. `recurrent` leaves out pairs in need that no policy can keep
    visiting; `component` (from 1) chooses the part of the model to stay in. `start` is the `center`
    of an earlier design.
    """
    began = time.perf_counter()
    deadline = None if time_limit is None else began + time_limit
    task = DesignTask.of(
        graph, information, names, weights, criterion, need, mix, visits, steps_left
    )
    pairs = _part(task, recurrent, component)
    is_outside = np.ones(graph.n_pairs, np.bool_)
    is_outside[pairs] = False
    task = replace(task, need=np.where(is_outside, 0.0, task.need))
    shown = identified(task, pairs, identifiable)
    equations = _equations(task.graph, pairs)
    center = None if start is None else start[np.unique(task.graph.pair_state[pairs])]
    n_steps = 0

    def minimized(parts: tuple[float, float], center: FloatArray | None) -> Minimum:
        left = None if deadline is None else max(0.0, deadline - time.perf_counter())
        return minimize_criterion(
            equations,
            shown.objective(pairs, parts),
            tolerance=tolerance,
            start=center,
            time_limit=left,
            watch=None if watch is None else lambda steps, gap: watch(n_steps + steps, gap),
        )

    def shares(x: FloatArray) -> FloatArray:
        d = np.zeros(graph.n_pairs)
        d[pairs] = x / x.sum()
        return d

    units = (1.0, 1.0)
    if task.is_mixed:
        best = []
        for parts in ((1.0, 0.0), (0.0, 1.0)):
            alone = minimized(parts, center)
            center, n_steps = alone.center, n_steps + alone.steps
            best.append(shown.losses(shares(alone.x)))
        units = (best[0][0], best[1][1])
    found = minimized((1 / units[0], task.mix / units[1] if task.is_mixed else 0.0), center)
    multipliers = np.zeros(task.graph.n_states)
    multipliers[np.unique(task.graph.pair_state[pairs])] = found.center
    return _design(
        shown,
        shares(found.x),
        units,
        status=found.status,
        gap=found.gap,
        residual=found.residual,
        iterations=n_steps + found.steps,
        seconds=time.perf_counter() - began,
        left_out=np.flatnonzero(is_outside),
        center=multipliers,
        central=shares(1 / np.maximum(1 + equations.worth(found.center), 1e-300)),
    )


def random_design(
    graph: TransitionGraph,
    information: FloatArray,
    names: Sequence[str],
    weights: FloatArray,
    *,
    criterion: str = "a",
    need: FloatArray | None = None,
    mix: float = 1.0,
    visits: FloatArray | None = None,
    steps_left: float | None = None,
    identifiable: bool = False,
    units: tuple[float, float] = (1.0, 1.0),
) -> Design:
    """Return the experiment of actions drawn uniformly at random, to compare a design with.

    The arguments are those of `optimal_design`; a mixed criterion needs the `units` of the best
    design. The objective is infinite if random actions never show one of the numbers.
    """
    began = time.perf_counter()
    task = DesignTask.of(
        graph, information, names, weights, criterion, need, mix, visits, steps_left
    )
    d = random_occupancy(graph)
    shown = identified(task, np.arange(graph.n_pairs), identifiable)
    return _design(
        shown,
        d,
        units,
        status=Status.OPTIMAL,
        gap=np.inf,
        residual=0.0,
        iterations=0,
        seconds=time.perf_counter() - began,
        left_out=np.flatnonzero(d == 0),
        center=np.zeros(task.graph.n_states),
        central=d,
    )


def _design(shown: Identified, d: FloatArray, units: tuple[float, float], **rest: object) -> Design:
    """Return a design with these shares."""
    task = shown.task
    A, L = shown.losses(d)
    objective = A / units[0] + task.mix * L / units[1] if task.is_mixed else A
    if task.criterion == "d" and not task.is_mixed:
        objective = float(np.log(A))  # of the numbers themselves, if all can be identified
        objective += 0.0 if len(shown.flat) else 2 * float(np.mean(np.log(shown.scale)))
    return Design(
        criterion=task.criterion,
        names=task.names,
        occupancy=d,
        objective=objective,
        deviations=shown.deviations(d),
        information=np.tensordot(task.visits + task.steps * d, task.information, axes=1),
        flat=shown.flat,
        units=units,
        **rest,  # type: ignore[arg-type]
    )


def _part(task: DesignTask, recurrent: bool, component: int | None) -> IntArray:
    """Return the pairs of the end component to design in: all that are in need must be in it."""
    is_informative = np.any(task.information != 0, axis=(1, 2))
    if task.is_mixed and not recurrent:
        visitable_part(task.graph, task.need > 0, component=component)
    wanted = is_informative | (task.need > 0)
    return visitable_part(task.graph, wanted, recurrent=True, component=component)


def _equations(graph: TransitionGraph, pairs: IntArray) -> NormalEquations:
    equations = NormalEquations(
        flow_rows(graph, None if len(pairs) == graph.n_pairs else pairs),
        most_entries=MOST_ENTRIES,
    )
    if equations.n_entries > MOST_ENTRIES or equations.multiplications > MOST_MULTIPLICATIONS:
        raise AllocationError(
            f"the model is too large for this method: {equations.flow.shape[0]:,} states need "
            f"{equations.multiplications:.2g} multiplications per step (the limit is "
            f"{MOST_MULTIPLICATIONS:.2g}); use fewer cells or smaller parameters"
        )
    return equations
