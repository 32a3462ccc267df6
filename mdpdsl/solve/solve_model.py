"""The verb `solve`: the best policy of a model for a question, with certified bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mdpdsl.compile.model import Model, as_model
from mdpdsl.compile.properties import Question, question, questions_of_file
from mdpdsl.diagnostics import SolveError, did_you_mean
from mdpdsl.graph.space import Value
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.progress import Progress, Watch, heeding_interrupts, shown
from mdpdsl.solve.answer import Solution
from mdpdsl.solve.asked import Flags
from mdpdsl.solve.discounted import check_dynamics
from mdpdsl.solve.solution import SolveStatus
from mdpdsl.solve.solve_objective import solve_objective

if TYPE_CHECKING:
    from mdpdsl.compile.model import Estimating


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

    >>> import mdpdsl
    >>> solution = mdpdsl.solve(mdpdsl.load("riverswim"), discount=0.95)
    >>> round(solution.value, 3), solution.actions[0]
    (4.669, 'right')
    >>> lake = mdpdsl.load("frozen_lake")
    >>> round(mdpdsl.solve(lake, 'Pmax=? [ !"hole" U<=20 "goal" ]').value, 4)
    0.1991
    """
    flags = Flags(discount, reach, avoid, within, reward, total, horizon, average)
    solved = as_model(model)
    asked = asked_question(solved, solved.graph, property, flags, minimise, constants)
    by_flags = flags if property is None else None
    return solved_question(
        solved, asked, by_flags, method, tolerance, backend, time_limit, progress
    )


def solve_file(
    model: Model | Estimating,
    path: str | Path,
    name: str | None = None,
    *,
    constants: Mapping[str, Value] | None = None,
    method: str = "auto",
    tolerance: float | None = None,
    backend: str | None = None,
    time_limit: float | None = None,
    progress: bool | Progress | None = None,
) -> list[Solution]:
    """Solve a model for every property of a PRISM properties file, in order, or for one by name.

    `constants` are values for those that the file declares without one, as in `const int k;`.

    >>> import mdpdsl
    >>> from pathlib import Path
    >>> _ = Path("lake.props").write_text('"win": Pmax=? [ F "goal" ]; Pmin=? [ F "hole" ]')
    >>> [round(s.value, 4) for s in mdpdsl.solve_file(mdpdsl.load("frozen_lake"), "lake.props")]
    [0.8235, 0.0]
    """
    solved = as_model(model)
    asked = questions_of_file(solved, solved.graph, path, constants)
    if name is not None:
        known = [one.name for one in asked if one.name is not None]
        if name not in known:
            hint = did_you_mean(name, known) or f"it has {', '.join(known) or 'no named ones'}"
            raise SolveError(f"{path} has no property `{name}`; {hint}")
        asked = [one for one in asked if one.name == name]
    check_dynamics(solved.graph)
    return [
        solved_question(solved, one, None, method, tolerance, backend, time_limit, progress)
        for one in asked
    ]


def asked_question(
    model: Model,
    graph: TransitionGraph,
    property: str | None,
    flags: Flags,
    minimise: bool,
    constants: Mapping[str, Value] | None = None,
) -> Question:
    """Return what is asked, by a property or by flags; raise SolveError if it is both."""
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
