"""What to run next: the policy whose visits add most to what counts already know.

With visits T(s,a) so far and m steps to come, the plan is the occupancy d that minimises

F(T + m d) = (sum c+ (c+/(T + m d))^(kappa-1))^(1/(kappa-1)),

the objective U_kappa (paper, eq. Ukappa_definition) on the visits that there will be; kappa = 1
maximises sum c+ log(T + m d), kappa = infinity minimises the largest c+/(T + m d). c+ is an upper
bound of c(s,a) = 1 - sum P^2, since a few visits that agree do not show that a pair is certain. d
is stationary under what was seen (`known`), so m d are the visits that pi(a|s) = d(s,a)/d(s) is
expected to add.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from mdpdsl.diagnostics import Diagnostic, ModelError, RunError, SettingsError
from mdpdsl.estimate.confidence import bernstein_upper_bound
from mdpdsl.estimate.empirical import estimated_complexity
from mdpdsl.explore.known_part import KnownModel, cell_distance, known_model, way_to_part
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.policy import Policy
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.programs.allocation import Allocation, next_allocation
from mdpdsl.programs.newton import Watch
from mdpdsl.programs.occupancy import stationary_policy
from mdpdsl.programs.program import Status
from mdpdsl.programs.visitable import AllocationError
from mdpdsl.representation import represented
from mdpdsl.runs.models import run_counts
from mdpdsl.runs.places import run_place

#: A pair never visited counts as visited so often where pairs are put in order.
LEAST_VISITS = 0.1
#: Of what m of n + m steps can change, the plan is to be exact to this; and to this at the most.
TOLERANCE, FINEST_TOLERANCE, COARSEST_TOLERANCE = 1e-4, 1e-11, 1e-6
#: Multiples of the steps to come that are tried one after the other.
FACTORS = (1.0, 1.5, 3.0, 10.0, 100.0)
#: A plan that may be worse than the best by more than this is none.
MOST_GAP = 0.01


class PlanError(SettingsError):
    """Counts or settings that no plan can be made from; the message says why and what to do."""


@dataclass(frozen=True)
class Figures:
    """The error of an estimate, over the pairs of the part that the plan stays in.

    `worst` and `average` are L_Worst and L_Avg, n c/T (paper, evaluation metrics); the errors are
    c/T = E ||P - P_hat||^2 itself. Infinite while a pair was never visited.
    """

    worst: float
    average: float
    worst_error: float
    average_error: float


@dataclass(frozen=True, eq=False)
class Prospect:
    """The figures now, after the plan, and after as many steps that go on as before."""

    now: Figures
    planned: Figures
    continued: Figures


@dataclass(frozen=True, eq=False)
class ExperimentPlan:
    """A policy for the next steps and what it is expected to add."""

    graph: TransitionGraph  # whose pairs these are
    kappa: float
    steps: float  # m, to come
    transitions: int  # n, so far
    episode_length: float  # steps between two starts; infinite for one long run
    visits: IntArray  # [n_pairs]  T
    added_visits: FloatArray  # [n_pairs]  m d
    policy: Policy
    complexity: FloatArray  # [n_pairs]  c+
    order: IntArray  # [n_pairs]  pairs, those that matter most first
    by_hand: IntArray  # pairs never seen that the plan does not reach, the nearest first
    is_planned: BoolArray  # [n_pairs]  in the part that the plan stays in
    is_known: BoolArray  # [n_states]  visited or reached so far
    status: Status
    gap: float  # bounds F/F* - 1, where the status is OPTIMAL
    bounded: Prospect  # with c+
    estimated: Prospect  # with the plug-in c_hat, which is 0 for a pair visited once

    @property
    def expected_visits(self) -> FloatArray:
        """T + m d, [n_pairs]."""
        return self.visits + self.added_visits

    def _repr_html_(self) -> str | None:
        return represented("plan_html", self)


def plan(
    run: str | Path,
    kappa: float = 1.0,
    steps: float | None = None,
    *,
    episode_length: float | None = None,
) -> ExperimentPlan:
    """Plan the next steps after a run of estimate or explore, by default as many as it had.

    Experiments start again as often as the log did, or after `episode_length` steps (`math.inf`:
    never). Raise ModelError where the run cannot be read, PlanError where there is no plan.
    """
    try:
        model, counts = run_counts(run_place(Path(run)))
    except RunError as error:
        raise ModelError([Diagnostic("E603", str(error))]) from None
    return plan_visits(
        counts, model.graph, kappa, steps, episode_length=episode_length, name=model.name
    )


def plan_visits(
    counts: Counts,
    spaces: TransitionGraph,
    kappa: float,
    steps: float | None = None,
    *,
    episode_length: float | None = None,
    name: str = "model",
    watch: Watch | None = None,
) -> ExperimentPlan:
    """Plan the next steps after counts over the pairs of a graph; its transitions do not matter."""
    n, T = counts.n_transitions, counts.visits
    steps = float(n if steps is None else steps)
    _check(kappa, steps, n, episode_length)
    known = known_model(counts, spaces, episode_length)
    # No distribution over S states has a larger c than the uniform one.
    largest = 1 - 1 / spaces.n_states
    c_hat = np.minimum(estimated_complexity(counts), largest)
    c = np.minimum(bernstein_upper_bound(c_hat, T), largest)
    found = _allocated(known, c, T, steps, kappa, watch)
    added = steps * found.occupancy
    is_planned = np.zeros(spaces.n_pairs, np.bool_)
    is_planned[known.pairs] = True
    return ExperimentPlan(
        graph=spaces,
        kappa=kappa,
        steps=steps,
        transitions=n,
        episode_length=known.episode_length,
        visits=T,
        added_visits=added,
        policy=Policy(name, spaces.hash, _policy(known, found.occupancy)),
        complexity=c,
        order=_by_importance(c, T, added, kappa),
        by_hand=_by_nearness(known, np.flatnonzero((T == 0) & ~is_planned)),
        is_planned=is_planned,
        is_known=known.is_known,
        status=found.status,
        gap=found.gap,
        bounded=_prospect(c, T, added, is_planned),
        estimated=_prospect(c_hat, T, added, is_planned),
    )


def _check(kappa: float, steps: float, n: int, episode_length: float | None) -> None:
    if n == 0:
        raise PlanError(
            "not a single transition was counted, so nothing says how to get anywhere; run any "
            "policy first"
        )
    if not kappa >= 1:
        raise PlanError(f"kappa must be 1 or more, or inf; not {kappa:g}")
    if not (steps > 0 and math.isfinite(steps)):
        raise PlanError(f"steps must be 1 or more, not {steps:g}")
    if episode_length is not None and not episode_length >= 1:
        raise PlanError(f"episode_length must be 1 or more, or inf; not {episode_length:g}")


def _allocated(
    known: KnownModel, c: FloatArray, T: IntArray, m: float, kappa: float, watch: Watch | None
) -> Allocation:
    """Return the best d for m steps; where the solver breaks down, for somewhat more steps.

    It does so, rarely, where m is far below T. What more steps would do is then a good use of a
    few; the status says that it is not known to be the best.
    """
    share = m / (float(T.sum()) + m)
    tolerance = min(COARSEST_TOLERANCE, max(FINEST_TOLERANCE, TOLERANCE * share))
    for factor in FACTORS:
        try:
            found = next_allocation(
                known.graph,
                c,
                T.astype(np.float64),
                m * factor,
                kappa,
                component=known.component,
                tolerance=tolerance,
                watch=watch,
            )
        except AllocationError as error:
            raise PlanError(str(error)) from None
        if found.status is Status.OPTIMAL:
            return found if factor == 1 else replace(found, status=Status.INACCURATE)
    if not found.gap <= MOST_GAP:
        raise PlanError(f"no plan was found: the best is {found.gap:.1e} away, relatively")
    return found


def _policy(known: KnownModel, d: FloatArray) -> FloatArray:
    """Return d(s,a)/d(s) where d is; elsewhere the way there, or any action alike."""
    heading = way_to_part(known) if len(known.pairs) < known.graph.n_pairs else np.zeros(len(d))
    return stationary_policy(known.graph, np.where(d > 0, d, heading))


def _by_importance(c: FloatArray, T: IntArray, added: FloatArray, kappa: float) -> IntArray:
    """Order pairs by what the plan takes off (c/T)^kappa, the largest first.

    With u = T + m d, (c/T)^kappa - (c/u)^kappa = (c/T)^kappa (1 - (T/u)^kappa); its kappa-th root,
    in logarithms, orders alike and has a limit for kappa = infinity.
    """
    T_plus = np.maximum(T, LEAST_VISITS)
    with np.errstate(divide="ignore", invalid="ignore"):
        growth = np.log1p(added / T_plus)
        rest = np.log(-np.expm1(-kappa * growth)) / kappa if math.isfinite(kappa) else 0.0
        importance = np.where((added > 0) & (c > 0), np.log(c / T_plus) + rest, -np.inf)
    return np.lexsort((np.arange(len(c)), -added, -importance))


def _by_nearness(known: KnownModel, pairs: IntArray) -> IntArray:
    """Order pairs by how far their states are from what is known."""
    if len(pairs) == 0:
        return pairs
    distance = cell_distance(known.graph.states, known.is_known)
    return pairs[np.argsort(distance[known.graph.pair_state[pairs]], kind="stable")]


def _prospect(c: FloatArray, T: IntArray, added: FloatArray, is_planned: BoolArray) -> Prospect:
    n, m = float(T.sum()), float(added.sum())
    return Prospect(
        now=_figures(c, T.astype(np.float64), n, is_planned),
        planned=_figures(c, T + added, n + m, is_planned),
        continued=_figures(c, T.astype(np.float64) * (1 + m / n), n + m, is_planned),
    )


def _figures(c: FloatArray, visits: FloatArray, n: float, is_planned: BoolArray) -> Figures:
    c, visits = c[is_planned], visits[is_planned]
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.where(c > 0, c / visits, 0.0)
    worst, average = float(error.max()), float(error.mean())
    return Figures(n * worst, n * average, worst, average)
