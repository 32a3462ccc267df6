"""`plan`: from a run, or its folder, to what to run next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import Diagnostic, ModelError, RunError, SettingsError, SolveError
from mdpdsl.estimate.empirical import too_large_estimate
from mdpdsl.estimate.run_result import RunResult
from mdpdsl.explore.experiment_plan import ExperimentPlan, PlanError
from mdpdsl.explore.numbers_plan import NumbersGoal
from mdpdsl.explore.planned_visits import plan_visits
from mdpdsl.explore.result import read_run
from mdpdsl.explore.settings import CRITERIA, refuse_without_purpose
from mdpdsl.files import require_absent
from mdpdsl.formats.policy_files import check_policy_path, save_policy
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.knowledge import Knowledge
from mdpdsl.graph.space import IntArray
from mdpdsl.progress import Progress, shown
from mdpdsl.runs.places import run_place
from mdpdsl.runs.run_models import resumed_model, run_counts, settled_model

if TYPE_CHECKING:
    from mdpdsl.solve.robust_answer import RobustSolution


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
    if purpose is None:
        refuse_without_purpose(criterion=criterion != "a", mix=mix != 1)
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
