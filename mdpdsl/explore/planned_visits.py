"""What to run next: the policy whose visits improve an estimate the most.

With visits T(s,a) so far and m more steps, the plan is the occupancy d that minimises

F(T + m d) = (sum c+ (c+/(T + m d))^(kappa-1))^(1/(kappa-1)),

the objective U_kappa (paper, eq. Ukappa_definition) for the visits after these steps; kappa = 1
maximises sum c+ log(T + m d), kappa = infinity minimises the largest c+/(T + m d). c+ is an upper
bound of c(s,a) = 1 - sum P^2, since a few visits with the same successor do not show that it is
certain. d is stationary under the transitions seen so far (`known_part`), so m d are the visits
that pi(a|s) = d(s,a)/d(s) is expected to add. Pairs whose rows the model file states have c+ = 0
and are in no figure.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from mdpdsl.estimate.confidence import bernstein_upper_bound
from mdpdsl.estimate.empirical import estimated_complexity
from mdpdsl.explore.experiment_plan import ExperimentPlan, Figures, PlanError, Prospect
from mdpdsl.explore.known_part import KnownModel, cell_distance, known_model, way_to_part
from mdpdsl.explore.numbers_plan import NumbersGoal
from mdpdsl.explore.ways import passing_by
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.knowledge import Knowledge
from mdpdsl.graph.policy import Policy
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.programs.allocation import Allocation, next_allocation
from mdpdsl.programs.design import Design
from mdpdsl.programs.newton import Watch
from mdpdsl.programs.occupancy import stationary_policy
from mdpdsl.programs.program import Status
from mdpdsl.programs.visitable import AllocationError

#: To order pairs, one that was never visited counts as visited this often.
LEAST_VISITS = 0.1
#: Tolerance of the plan: this times m/(n + m), the share of the new steps, within two limits.
TOLERANCE, FINEST_TOLERANCE, COARSEST_TOLERANCE = 1e-4, 1e-11, 1e-6
#: Multiples of the number of steps, tried one after the other.
FACTORS = (1.0, 1.5, 3.0, 10.0, 100.0)
#: A plan passes where it is expected to be at least this often.
PASSED = 0.5
#: A plan whose gap to the best may be larger is rejected.
MOST_GAP = 0.01


def plan_visits(
    counts: Counts,
    spaces: TransitionGraph,
    kappa: float,
    steps: float | None = None,
    *,
    episode_length: float | None = None,
    starts: IntArray | None = None,
    knowledge: Knowledge | None = None,
    name: str = "model",
    watch: Watch | None = None,
    goal: NumbersGoal | None = None,
) -> ExperimentPlan:
    """Plan the next steps from counts over the pairs of a graph; its transitions are not used.

    `starts` are the episodes that started in each state, if they are known; `knowledge` is what the
    model file says of the rows. With a `goal`, the plan is for unknown numbers.
    """
    n, T = counts.n_transitions, counts.visits
    steps = float(n if steps is None else steps)
    _check(kappa, steps, n, episode_length)
    if starts is not None:  # twins come behind the other states, and no episode starts there
        starts = np.append(starts, np.zeros(spaces.n_states - len(starts), np.int64))
    is_law = np.zeros(spaces.n_pairs, np.bool_)
    if goal is not None and knowledge is not None:
        is_law, knowledge = knowledge.is_law, goal.informed(knowledge)
    known = known_model(counts, spaces, episode_length, starts, knowledge)
    is_learned = np.ones(spaces.n_pairs, np.bool_) if knowledge is None else ~knowledge.is_known
    # No distribution over S states has a larger c than the uniform one.
    largest = 1 - 1 / spaces.n_states
    c_hat = np.where(is_learned, np.minimum(estimated_complexity(counts), largest), 0.0)
    c = np.where(is_learned, np.minimum(bernstein_upper_bound(c_hat, T), largest), 0.0)
    found: Allocation | Design
    if goal is None:
        found = _allocated(known, c, T, steps, kappa, watch)
    else:
        try:
            found = goal.designed(known.graph, known.component, T, c, steps, watch)
        except AllocationError as error:
            raise PlanError(str(error)) from None
        is_learned = is_learned | is_law
    added = steps * found.occupancy
    is_planned = np.zeros(spaces.n_pairs, np.bool_)
    is_planned[known.pairs] = True
    is_known = np.ones(spaces.n_states, np.bool_)
    is_known[np.diff(spaces.pair_start) > 0] = known.is_known
    return ExperimentPlan(
        graph=spaces,
        kappa=kappa,
        steps=steps,
        transitions=n,
        episode_length=known.episode_length,
        visits=T,
        added_visits=added,
        policy=Policy(name, spaces.hash, _policy(known, found.occupancy, steps, is_learned)),
        complexity=c,
        order=_by_importance(c, T, added, kappa)
        if goal is None
        else np.argsort(-goal.gains(T, added), kind="stable"),
        by_hand=_by_nearness(known, np.flatnonzero((T == 0) & ~is_planned & is_learned)),
        is_planned=is_planned,
        is_known=is_known,
        is_learned=is_learned,
        status=found.status,
        gap=found.gap,
        bounded=_prospect(c, T, added, is_planned & is_learned),
        estimated=_prospect(c_hat, T, added, is_planned & is_learned),
        numbers=None if goal is None else goal.prospect(T, added, steps),
    )


def _check(kappa: float, steps: float, n: int, episode_length: float | None) -> None:
    if n == 0:
        raise PlanError(
            "not a single transition was counted, so nothing is known about where actions lead; "
            "run any policy first"
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
    """Return the best d for m steps; if the solver fails, the best d for more steps.

    This is rare: it happens if m is far below T. The best allocation of more steps is then a good
    one of a few steps; the status says that it may not be the best.
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
        raise PlanError(f"no plan was found; the best has a relative gap of {found.gap:.1e}")
    return found


def _policy(known: KnownModel, d: FloatArray, steps: float, is_learned: BoolArray) -> FloatArray:
    """Return d(s,a)/d(s) if d(s) > 0; otherwise the way to such states, or uniform actions.

    Where all rows are known and the plan does not pass, it is the nearest way to where it does.
    """
    graph = known.graph
    heading = way_to_part(known) if len(known.pairs) < graph.n_pairs else np.zeros(len(d))
    policy = stationary_policy(graph, np.where(d > 0, d, heading))
    if is_learned.all():
        return policy
    is_wanted = steps * d >= PASSED
    return passing_by(policy, graph.transition_matrix(), graph.pair_start, is_wanted, ~is_learned)


def _by_importance(c: FloatArray, T: IntArray, added: FloatArray, kappa: float) -> IntArray:
    """Order pairs by how much the plan reduces (c/T)^kappa, the largest reduction first.

    With u = T + m d, (c/T)^kappa - (c/u)^kappa = (c/T)^kappa (1 - (T/u)^kappa); its kappa-th root,
    in logarithms, gives the same order and has a limit for kappa = infinity.
    """
    T_plus = np.maximum(T, LEAST_VISITS)
    with np.errstate(divide="ignore", invalid="ignore"):
        growth = np.log1p(added / T_plus)
        rest = np.log(-np.expm1(-kappa * growth)) / kappa if math.isfinite(kappa) else 0.0
        importance = np.where((added > 0) & (c > 0), np.log(c / T_plus) + rest, -np.inf)
    return np.lexsort((np.arange(len(c)), -added, -importance))


def _by_nearness(known: KnownModel, pairs: IntArray) -> IntArray:
    """Order pairs by the distance of their states from the known ones."""
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
    worst, average = float(error.max(initial=0.0)), float(error.sum() / max(1, len(error)))
    return Figures(n * worst, n * average, worst, average)
