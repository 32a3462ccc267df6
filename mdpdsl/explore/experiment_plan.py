"""What to run next: the policy whose visits improve an estimate the most.

With visits T(s,a) so far and m more steps, the plan is the occupancy d that minimises

F(T + m d) = (sum c+ (c+/(T + m d))^(kappa-1))^(1/(kappa-1)),

the objective U_kappa (paper, eq. Ukappa_definition) for the visits after these steps; kappa = 1
maximises sum c+ log(T + m d), kappa = infinity minimises the largest c+/(T + m d). c+ is an upper
bound of c(s,a) = 1 - sum P^2, since a few visits with the same successor do not show that it is
certain. d is stationary under the transitions seen so far (`known`), so m d are the visits that
pi(a|s) = d(s,a)/d(s) is expected to add. Pairs whose rows the model file states have c+ = 0 and are
in no figure.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import Diagnostic, ModelError, RunError, SettingsError, SolveError
from mdpdsl.estimate.confidence import bernstein_upper_bound
from mdpdsl.estimate.empirical import estimated_complexity, too_large_estimate
from mdpdsl.estimate.run_result import RunResult
from mdpdsl.explore.known_part import KnownModel, cell_distance, known_model, way_to_part
from mdpdsl.explore.numbers_plan import NumbersGoal, NumbersProspect
from mdpdsl.explore.result import read_run
from mdpdsl.explore.settings import CRITERIA
from mdpdsl.explore.ways import passing_by
from mdpdsl.files import require_absent
from mdpdsl.formats.policy_files import check_policy_path, save_policy
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.describe import pairs_text
from mdpdsl.graph.knowledge import Knowledge
from mdpdsl.graph.policy import Policy
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.tables import Tabular, pair_records, pair_table
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.programs.allocation import Allocation, next_allocation
from mdpdsl.programs.design import Design
from mdpdsl.programs.newton import Watch
from mdpdsl.programs.occupancy import stationary_policy
from mdpdsl.programs.program import Status
from mdpdsl.programs.visitable import AllocationError
from mdpdsl.progress import Progress, shown
from mdpdsl.representation import represented
from mdpdsl.runs.places import run_place
from mdpdsl.runs.run_models import resumed_model, run_counts, settled_model
from mdpdsl.versions import current_versions

if TYPE_CHECKING:
    import pyarrow as pa

    from mdpdsl.solve.robust_answer import RobustSolution

#: To order pairs, one that was never visited counts as visited this often.
LEAST_VISITS = 0.1
#: Tolerance of the plan: this times m/(n + m), the share of the new steps, within two limits.
TOLERANCE, FINEST_TOLERANCE, COARSEST_TOLERANCE = 1e-4, 1e-11, 1e-6
#: Multiples of the number of steps, tried one after the other.
FACTORS = (1.0, 1.5, 3.0, 10.0, 100.0)
#: A plan passes where it is expected to be at least this often.
PASSED = 0.5
#: The most pairs to try by hand that a record lists.
LISTED_BY_HAND = 1000
#: A plan whose gap to the best may be larger is rejected.
MOST_GAP = 0.01


class PlanError(SettingsError):
    """No plan is possible with these counts or settings; the message says why and what to do."""


@dataclass(frozen=True)
class Figures:
    """The error of an estimate, over the pairs that the plan covers.

    `worst` and `average` are L_Worst and L_Avg, n c/T (paper, evaluation metrics); the errors are
    c/T = E ||P - P_hat||^2 itself. They are infinite if a pair was never visited.
    """

    worst: float
    average: float
    worst_error: float
    average_error: float


@dataclass(frozen=True, eq=False)
class Prospect:
    """The figures now, after the plan, and after as many steps that repeat past visits."""

    now: Figures
    planned: Figures
    continued: Figures


@dataclass(frozen=True, eq=False)
class ExperimentPlan(Tabular):
    """A policy for the next steps, and the visits it is expected to add."""

    graph: TransitionGraph  # the arrays are over its pairs
    kappa: float
    steps: float  # m, the next ones
    transitions: int  # n, so far
    episode_length: float  # steps between two starts; infinite for one long run
    visits: IntArray  # [n_pairs]  T
    added_visits: FloatArray  # [n_pairs]  m d
    policy: Policy
    complexity: FloatArray  # [n_pairs]  c+
    order: IntArray  # [n_pairs]  pairs, the most important first
    by_hand: IntArray  # unvisited pairs that the plan does not reach, the nearest first
    is_planned: BoolArray  # [n_pairs]  whether the plan covers the pair
    is_known: BoolArray  # [n_states]  whether it was reached so far, or is an end
    is_learned: BoolArray  # [n_pairs]  whether its row is to be learned
    status: Status
    gap: float  # bounds F/F* - 1, if the status is OPTIMAL
    bounded: Prospect  # with c+
    estimated: Prospect  # with the plug-in c_hat, which is 0 for a pair visited once
    model: Model | None = None
    origin: str | None = None  # the folder of the run
    path: Path | None = None  # where the policy was written
    solution: RobustSolution | None = None  # of the property
    bounds_missing: str | None = None  # why the run's own property has none
    numbers: NumbersProspect | None = None  # of a plan for unknown numbers

    @property
    def guaranteed(self) -> float | None:
        """What some policy achieves, with confidence 1 - delta; None without a property."""
        return None if self.solution is None else self.solution.guaranteed

    @property
    def possible(self) -> float | None:
        """What no policy exceeds, with confidence 1 - delta; None without a property."""
        return None if self.solution is None else self.solution.possible

    @property
    def expected_visits(self) -> FloatArray:
        """T + m d, [n_pairs]."""
        return self.visits + self.added_visits

    @property
    def warnings(self) -> list[str]:
        """What the plan cannot do, and what you can do about it."""
        return _warnings(self)

    def table(self) -> pa.Table:
        """Return one row for each pair, the most important first."""
        columns = {
            "visits": self.visits[self.order],
            "added_visits": self.added_visits[self.order],
            "expected_visits": self.expected_visits[self.order],
            "complexity": self.complexity[self.order],
            "probability": self.policy.probability[self.order],
        }
        return pair_table(self.graph, columns, self.order)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the policy: `.csv`, `.json` or `.npz`."""
        save_policy(self.policy, self.graph, Path(path), overwrite=overwrite)
        return Path(path)

    def record(self) -> dict[str, Any]:
        """Return the plan as `--json` prints it."""
        return _record(self)

    def __repr__(self) -> str:
        name = "" if self.model is None else f" for {self.model.name}"
        return f"<ExperimentPlan{name}: {self.steps:,.0f} steps, kappa = {self.kappa:g}>"

    def _repr_html_(self) -> str | None:
        return represented("plan_html", self)


def plan(
    run: RunResult | str | Path,
    kappa: float | None = None,
    steps: float | None = None,
    *,
    episode_length: float | None = None,
    property: str | None = None,
    purpose: str | None = None,
    criterion: str = "a",
    mix: float = 1.0,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: bool | Progress | None = None,
) -> ExperimentPlan:
    """Plan the next steps after an estimate or a run (or its folder), by default as many as it had.

    `kappa` defaults to the one in the model's `explore` block, or 1. Experiments start again as
    often as in the log, or after `episode_length` steps (`math.inf`: never). With a `property`, by
    default that of the run, the plan also has its guaranteed and possible value so far, and the
    pairs whose visits close the gap between them fastest (`solution`). With the `purpose`
    parameters, the plan is the best for the model's unknown numbers (see `allocate` for `criterion`
    and `mix`), and says how well it will determine them (`numbers`). With `out`, the policy is
    written to that file, if it is new or you `overwrite` it. Raise SettingsError if there
    is no plan.

    >>> import mdpdsl
    >>> run = mdpdsl.explore(mdpdsl.load("riverswim"), steps=500)
    >>> todo = mdpdsl.plan(run, kappa=10, steps=100)
    >>> round(todo.added_visits.sum())
    100
    """
    if out is not None:
        check_policy_path(Path(out))
        require_absent(Path(out), overwrite)
    goal = None if purpose is None else _goal(run, purpose, criterion, mix)
    model, counts, starts, knowledge, origin = _counted(run)
    solution, missing = _bounded(run, property)
    kappa = float(model.checked.explore.get("kappa", 1) if kappa is None else kappa)
    with shown(progress, "planning") as update:
        watch = None if update is None else lambda done, gap: update(done, None, f"gap {gap:.1e}")
        found = plan_visits(
            counts,
            model.graph,
            kappa,
            steps,
            episode_length=episode_length,
            starts=starts,
            knowledge=knowledge,
            name=model.name,
            watch=watch,
            goal=goal,
        )
    found = replace(found, model=model, origin=origin, solution=solution, bounds_missing=missing)
    if out is None:
        return found
    save_policy(found.policy, found.graph, Path(out), overwrite=overwrite)
    return replace(found, path=Path(out))


def _goal(run: RunResult | str | Path, purpose: str, criterion: str, mix: float) -> NumbersGoal:
    """Return the unknown numbers to plan for; raise PlanError if there are none."""
    if purpose != "parameters":
        raise PlanError(f"`purpose=` cannot be {purpose}; expected parameters")
    if criterion not in CRITERIA:
        raise PlanError(f"`criterion=` cannot be {criterion}; expected a or d")
    result = run if isinstance(run, RunResult) else read_run(Path(run))
    if result.law is None:
        raise PlanError(
            f"{result.model.name} has no unknown numbers to plan for; declare one, as in "
            "`unknown slip in [0, 0.5]`, or leave out `purpose=`"
        )
    return NumbersGoal(result.law, criterion, mix)


def _bounded(
    run: RunResult | str | Path, asked: str | None
) -> tuple[RobustSolution | None, str | None]:
    """Return the bounds of a property, or why a run has none for its own."""
    if isinstance(run, RunResult):
        own = run.configuration.property
    else:
        own = None if asked is not None else run_place(Path(run)).configuration.property
    if asked is None and own is None:
        return None, None
    from mdpdsl.solve.robust_answer import RobustSolution
    from mdpdsl.solve.solve_model import solve

    try:
        result = run if isinstance(run, RunResult) else read_run(Path(run))
        found = solve(result, asked or own, robust=True)
    except (RunError, SettingsError, SolveError) as error:
        if asked is not None:
            raise
        return None, str(error)
    assert isinstance(found, RobustSolution)
    return found, None


def _counted(
    run: RunResult | str | Path,
) -> tuple[Model, Counts, IntArray | None, Knowledge | None, str | None]:
    """Return the model that the counts of a run belong to, counts, starts, and the run's folder.

    Before the folder, it is what the file of the model says of its rows.
    """
    if isinstance(run, RunResult):
        starts = None if run.settled is None else run.settled.starts
        if too_large_estimate(run.counts, run.graph) is None:
            model: Model = run.as_model(all_states=True)
        elif run.settled is None:
            model = run.model
        else:
            model = settled_model(run.model, run.settled)
        origin = None if run.path is None else str(run.path)
        return model, run.counts, starts, run.graph.knowledge, origin
    try:
        place = run_place(Path(run))
        model, counts, starts = run_counts(place)
    except RunError as error:
        hint = "give the folder that `mdpdsl estimate` or `mdpdsl explore` wrote"
        raise ModelError([Diagnostic("E603", str(error), None, hint)]) from None
    knowledge = None
    if model.checked.states_knowledge:
        spaces, graph = resumed_model(place.run, place.configuration).graph, model.graph
        if (spaces.n_states, spaces.n_pairs) == (graph.n_states, graph.n_pairs):
            knowledge = spaces.knowledge
    return model, counts, starts, knowledge, str(run)


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


def _warnings(found: ExperimentPlan) -> list[str]:
    graph = found.graph
    warnings = []
    is_out = ~found.is_planned & found.is_learned
    n_out = int(is_out.sum())
    if n_out:
        share = f"{n_out:,} of {int(found.is_learned.sum()):,} pairs"
        n_unknown = int((~found.is_known).sum())
        why = []
        if n_unknown:
            states = "1 state" if n_unknown == 1 else f"{n_unknown:,} states"
            why.append(f"nothing seen so far leads to {states}")
        if found.is_known[graph.pair_state[is_out]].any():
            lost = "no way back is known from the states where a run ends up"
            if math.isinf(found.episode_length):
                lost += " (if experiments start again, say so with `episode_length=`)"
            why.append(lost)
        warnings.append(f"the plan cannot keep visiting {share}: {'; '.join(why)}")
    if len(found.by_hand):
        nearest = pairs_text(graph, found.by_hand.tolist())
        warnings.append(f"never seen and out of reach; try by hand, the nearest first: {nearest}")
    if found.bounds_missing is not None:
        warnings.append(f"there are no bounds for the run's property: {found.bounds_missing}")
    return warnings


def _record(found: ExperimentPlan) -> dict[str, Any]:
    graph = found.graph
    figures = {
        "visits": found.visits.astype(np.float64),
        "added_visits": found.added_visits,
        "expected_visits": found.expected_visits,
        "complexity": found.complexity,
    }
    order, length = found.order.tolist(), found.episode_length
    return {
        "model": None if found.model is None else found.model.name,
        "hash": graph.hash,
        "parameters": {} if found.model is None else dict(found.model.parameters),
        "run": found.origin,
        "kappa": found.kappa if math.isfinite(found.kappa) else "inf",
        "steps": int(found.steps),
        "transitions": found.transitions,
        "episode_length": length if math.isfinite(length) else None,
        "status": str(found.status),
        "gap": found.gap,
        "unseen_pairs": int(((found.visits == 0) & found.is_learned).sum()),
        "left_out": int((~found.is_planned & found.is_learned).sum()),
        "by_hand": pair_records(graph, found.by_hand[:LISTED_BY_HAND].tolist(), {}),
        **_prospect_record(found.bounded),
        "with_c_hat": _prospect_record(found.estimated),
        "warnings": found.warnings,
        "pairs": [
            record | {"visits": int(found.visits[pair])}
            for pair, record in zip(order, pair_records(graph, order, figures), strict=True)
        ],
        "policy": None if found.path is None else str(found.path),
        **_bounds_record(found.solution),
        **({} if found.numbers is None else _numbers_record(found.numbers)),
        "versions": current_versions(),
    }


def _bounds_record(found: RobustSolution | None) -> dict[str, Any]:
    if found is None:
        return {}
    kept = ("property", "guaranteed", "possible", "delta", "support", "pairs_to_visit")
    record = found.record()
    return {name: record[name] for name in kept}


def _numbers_record(found: NumbersProspect) -> dict[str, Any]:
    return {"purpose": "parameters", "parameters": found.records()}


def _prospect_record(prospect: Prospect) -> dict[str, dict[str, float | None]]:
    return {
        name: {k: v if math.isfinite(v) else None for k, v in asdict(figures).items()}
        for name, figures in vars(prospect).items()
    }
