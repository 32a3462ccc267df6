"""The verb `solve`: the best policy of a model for a question, with certified bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdpdsl.compile.model import Model, as_model
from mdpdsl.compile.properties import Question, question, questions_of_file
from mdpdsl.compile.set_model import SetModel
from mdpdsl.compile.truth import require_truth
from mdpdsl.diagnostics import SettingsError, SolveError, did_you_mean
from mdpdsl.graph.objectives import Until
from mdpdsl.graph.row_sets import RowSets
from mdpdsl.graph.space import FloatArray, Value
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.progress import Progress, Watch, heeding_interrupts, shown
from mdpdsl.solve.answer import Solution
from mdpdsl.solve.asked import Flags
from mdpdsl.solve.discounted import check_dynamics
from mdpdsl.solve.solution import SHAPES, SolveOutcome, SolveStatus, largest_error
from mdpdsl.solve.solve_objective import solve_objective

if TYPE_CHECKING:
    from mdpdsl.compile.model import Estimating
    from mdpdsl.kernels.set_rows import SetRows
    from mdpdsl.solve.robust_answer import RobustSolution

#: How precise the values are that a policy is guaranteed where another is the best guaranteed.
GUARANTEE_TOLERANCE = 1e-7


def solve(
    model: Model | Estimating,
    property: str | None = None,
    *,
    discount: float | None = None,
    reach: str | None = None,
    avoid: str | None = None,
    within: int | None = None,
    reward: str | None = None,
    total: str | None = None,
    horizon: int | None = None,
    average: bool = False,
    minimise: bool = False,
    robust: bool = False,
    delta: float | None = None,
    support: str | None = None,
    shape: str | None = None,
    constants: Mapping[str, Value] | None = None,
    method: str = "auto",
    tolerance: float | None = None,
    backend: str | None = None,
    time_limit: float | None = None,
    progress: bool | Progress | None = None,
) -> Solution:
    """Find the best policy for a question about a model, with certified bounds of its value.

    The question is a `property`, by its name in the model or as PRISM writes it, with `constants`
    for further names in it; or it is one of these: the expected sum of rewards, discounted by
    `discount` (0.99, the default); the probability to `reach` a label, perhaps `within` a number of
    steps and such as to `avoid` another label; the sum of rewards until the label `total`, or in
    the next `horizon` steps; or their long-run `average`. `reward` names one of several rewards,
    and `minimise` asks for the least value. The method is auto, vi, mpi, pi or lp; `backend` names
    the solver of lp. After Ctrl-C or `time_limit` seconds, return what is known by then, with valid
    bounds.

    `robust` needs an estimate or a run, and returns a `RobustSolution`: the policy that is best
    against every model that the data allow, what it is `guaranteed` to achieve with confidence
    1 - `delta`, and what is `possible` at best. The `shape` of the sets is intervals, l1 or kl (the
    default if the model has `?`, else intervals), and the `support` says which successors are
    possible: seen, all or model. Both `delta` and `support` default to those of the estimate. If
    the model has unknown numbers, one value of each rules all rows.

    >>> import mdpdsl
    >>> solution = mdpdsl.solve(mdpdsl.load("riverswim"), discount=0.95)
    >>> round(solution.value, 3), solution.actions[0]
    (4.669, 'right')
    >>> lake = mdpdsl.load("frozen_lake")
    >>> round(mdpdsl.solve(lake, 'Pmax=? [ !"hole" U<=20 "goal" ]').value, 4)
    0.1991
    """
    flags = Flags(discount, reach, avoid, within, reward, total, horizon, average)
    by_flags = flags if property is None else None
    if robust:
        sets = sets_of(model, support, delta, shape)
        asked = asked_question(sets.model, sets.model.graph, property, flags, minimise, constants)
        return robust_answer(
            sets, asked, by_flags, shape, method, tolerance, backend, time_limit, progress
        )
    require_plain(delta, support, shape)
    solved = as_model(model)
    asked = asked_question(solved, solved.graph, property, flags, minimise, constants)
    return solved_question(
        solved, asked, by_flags, method, tolerance, backend, time_limit, progress
    )


def solve_file(
    model: Model | Estimating,
    path: str | Path,
    name: str | None = None,
    *,
    robust: bool = False,
    delta: float | None = None,
    support: str | None = None,
    shape: str | None = None,
    constants: Mapping[str, Value] | None = None,
    method: str = "auto",
    tolerance: float | None = None,
    backend: str | None = None,
    time_limit: float | None = None,
    progress: bool | Progress | None = None,
) -> list[Solution]:
    """Solve a model for every property of a PRISM properties file, in order, or for one by name.

    `constants` are values for those that the file declares without one, as in `const int k;`. The
    other arguments are those of `solve`.

    >>> import mdpdsl
    >>> from pathlib import Path
    >>> _ = Path("lake.props").write_text('"win": Pmax=? [ F "goal" ]; Pmin=? [ F "hole" ]')
    >>> [round(s.value, 4) for s in mdpdsl.solve_file(mdpdsl.load("frozen_lake"), "lake.props")]
    [0.8235, 0.0]
    """
    sets = sets_of(model, support, delta, shape) if robust else None
    if sets is None:
        require_plain(delta, support, shape)
    solved = as_model(model) if sets is None else sets.model
    asked = questions_of_file(solved, solved.graph, path, constants)
    if name is not None:
        known = [one.name for one in asked if one.name is not None]
        if name not in known:
            hint = did_you_mean(name, known) or f"it has {', '.join(known) or 'no named ones'}"
            raise SolveError(f"{path} has no property `{name}`; {hint}")
        asked = [one for one in asked if one.name == name]
    require_truth(solved, "solve", "solve an estimate of it")
    check_dynamics(solved.graph)
    how: Any = (method, tolerance, backend, time_limit, progress)
    if sets is not None:
        return [robust_answer(sets, one, None, shape, *how) for one in asked]
    return [solved_question(solved, one, None, *how) for one in asked]


def asked_question(
    model: Model,
    graph: TransitionGraph,
    property: str | None,
    flags: Flags,
    minimise: bool,
    constants: Mapping[str, Value] | None = None,
) -> Question:
    """Return what is asked, by a property or by flags; raise SolveError if it is both."""
    require_truth(model, "solve", "solve an estimate of it")
    if property is None:
        if constants:
            raise SolveError("`constants=` are names in a property; give `property=`, too")
        check_dynamics(graph)
        return question(model, graph, flags.property_text(graph, minimise))
    if flags.given or minimise:
        named = ", ".join(f"`{name}=`" for name in [*flags.given, *["minimise"] * minimise])
        raise SolveError(f"the property says what is asked; leave out {named}")
    check_dynamics(graph)
    return question(model, graph, property, constants)


def solved_question(
    model: Model,
    asked: Question,
    flags: Flags | None,
    method: str,
    tolerance: float | None,
    backend: str | None,
    time_limit: float | None,
    progress: bool | Progress | None,
) -> Solution:
    """Solve a model for one question."""
    if backend is not None and method != "lp":
        raise SolveError("`backend=` names the solver of a linear program; it needs `method=` lp")
    with shown(progress, "solving", "") as update, heeding_interrupts() as interrupts:
        watch = Watch(interrupts, time_limit, _showing(update, tolerance or 1e-6))
        outcome = solve_objective(
            model.graph,
            asked.objective,
            is_minimised=asked.is_minimised,
            method=method,
            tolerance=tolerance,
            backend=backend or "highs",
            time_limit=time_limit,
            watch=watch,
        )
    status = str(outcome.status)
    if outcome.status is SolveStatus.STOPPED:
        status = "interrupted" if watch.is_interrupted else "time limit"
    return Solution(model, asked, flags, outcome, status)


def sets_of(given: object, support: str | None, delta: float | None, shape: str | None) -> SetModel:
    """Return the sets of an estimate or a run; raise SettingsError for anything else."""
    if shape not in (*SHAPES, None):
        raise SettingsError(f"`shape=` cannot be {shape}; expected {', '.join(SHAPES)}")
    if delta is not None and not 0 < delta < 1:
        raise SettingsError(f"`delta=` must be between 0 and 1, not {delta}")
    if support not in (None, "seen", "all", "model"):
        raise SettingsError(f"`support=` cannot be {support}; expected seen, all or model")
    uncertain = getattr(given, "as_sets", None)
    if uncertain is None:
        raise SettingsError(
            "`robust=` needs data: an estimate (mdpdsl.estimate) or a run (mdpdsl.explore, "
            "mdpdsl.open_run); a model is solved as it is"
        )
    found: SetModel = uncertain(support=support, delta=delta)
    return found


def require_plain(delta: float | None, support: str | None, shape: str | None) -> None:
    """Raise SettingsError if an argument is given that only sets of rows have."""
    given = {"delta": delta, "support": support, "shape": shape}
    for name, value in given.items():
        if value is not None:
            raise SettingsError(f"`{name}=` is about sets of rows; give `robust=`, too")


def robust_answer(
    sets: SetModel,
    asked: Question,
    flags: Flags | None,
    shape: str | None,
    method: str,
    tolerance: float | None,
    backend: str | None,
    time_limit: float | None,
    progress: bool | Progress | None,
) -> RobustSolution:
    """Solve an estimate for one question, against and with everything that the data allow."""
    from mdpdsl.solve.policy_value import policy_value
    from mdpdsl.solve.robust_answer import RobustSolution
    from mdpdsl.solve.robust_family import solve_family
    from mdpdsl.solve.robust_objective import set_rows, solve_robust_objective

    if method != "auto" or backend is not None:
        raise SolveError("`robust=` has one method only; leave out `method=` and `backend=`")
    graph, objective, numbers = sets.model.graph, asked.objective, sets.numbers
    shape = sets.shape if shape is None else shape
    if numbers is not None and shape != "intervals":
        raise SolveError(
            f"rows that depend on {', '.join(numbers.names)} lie in intervals; leave out `shape=`"
        )

    def listed(rows: RowSets) -> tuple[RowSets, FloatArray | None]:
        if not hasattr(objective, "reward"):
            return rows, None
        return sets.with_rewards(asked.reward, rows)

    rows, entry_reward = listed(sets.sets if numbers is None else numbers.hull_rows)
    family, outcomes = None, []
    with shown(progress, "solving", "") as update, heeding_interrupts() as interrupts:
        watch = Watch(interrupts, time_limit, _showing(update, tolerance or 1e-6))
        if numbers is not None:
            family = solve_family(
                graph,
                numbers,
                objective,
                is_minimised=asked.is_minimised,
                listed=listed,
                tolerance=tolerance,
                time_limit=time_limit,
                watch=watch,
            )
            outcomes = [family.guaranteed, family.possible]
        for is_optimistic in (False, True) if family is None else ():
            outcomes.append(
                solve_robust_objective(
                    graph,
                    rows,
                    objective,
                    is_minimised=asked.is_minimised,
                    is_optimistic=is_optimistic,
                    shape=shape,
                    entry_reward=entry_reward,
                    tolerance=tolerance,
                    watch=watch,
                )
            )
    outcome, best = outcomes
    sign = -1.0 if asked.is_minimised else 1.0
    signed_rows = set_rows(graph, rows, shape, objective, entry_reward, sign)
    if isinstance(objective, Until) and _is_trivial(graph, outcome, asked.is_minimised):
        outcome = _best_in_estimate(graph, objective, signed_rows, outcome, sign, watch)
    status = next((o.status for o in outcomes if o.status is not SolveStatus.OPTIMAL), None)
    text = str(status or SolveStatus.OPTIMAL)
    if status is SolveStatus.STOPPED:
        text = "interrupted" if watch.is_interrupted else "time limit"
    elif family is not None and any(one.message for one in outcomes):
        text = "limit of cells"
    return RobustSolution(
        sets.model,
        asked,
        flags,
        outcome,
        text,
        set_model=sets,
        shape=shape,
        best=best,
        estimated=policy_value(graph, objective, outcome),
        rows=signed_rows,
        family=family,
    )


def _is_trivial(graph: TransitionGraph, outcome: SolveOutcome, is_minimised: bool) -> bool:
    """Return whether a guaranteed probability says nothing from any start."""
    values = outcome.lower[graph.initial > 0]
    return bool(np.all(values == (1.0 if is_minimised else 0.0)))


def _best_in_estimate(
    graph: TransitionGraph,
    objective: Until,
    rows: SetRows,
    outcome: SolveOutcome,
    sign: float,
    watch: Watch,
) -> SolveOutcome:
    """Do what is best in the estimate where nothing is guaranteed, whatever one does.

    The values are those that this other policy is guaranteed. If it depends on the steps left, it
    is the best in the estimate everywhere.
    """
    from mdpdsl.solve.policy_value import guaranteed_values

    plain = solve_objective(graph, objective, is_minimised=sign < 0, watch=watch)
    is_limited = objective.steps is not None
    is_open = outcome.upper == 1.0 if sign < 0 else outcome.lower == 0.0
    choice = np.where(is_limited | is_open, plain.choice, outcome.choice)
    found = replace(outcome, choice=choice, plan=plain.plan, replay=plain.replay)
    least = guaranteed_values(
        graph, objective, rows, found, sign, tolerance=GUARANTEE_TOLERANCE, floor=1.0, watch=watch
    )
    values = np.clip(sign * least, 0.0, 1.0) + 0.0
    lower, upper = (outcome.lower, values) if sign < 0 else (values, outcome.upper)
    lower, upper = np.minimum(lower, values), np.maximum(upper, values)
    bound = largest_error(values, lower, upper)
    return replace(found, values=values, lower=lower, upper=upper, bound=bound)


def _showing(update: Progress | None, tolerance: float) -> Callable[[int, float], None] | None:
    """Return a function that shows how near a bound is to the tolerance, on a logarithmic scale."""
    if update is None:
        return None
    widest = 0.0

    def show(iterations: int, bound: float) -> None:
        nonlocal widest
        if not 0 < bound < math.inf:
            return
        widest = max(widest, bound)
        whole = math.log(max(widest / tolerance, 1 + 1e-9))
        done = min(1.0, max(0.0, math.log(widest / bound) / whole))
        update(round(100 * done), 100, f"{iterations:,} iterations, bound {bound:.1e}")

    return show
