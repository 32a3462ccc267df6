"""How results look in a notebook: small tables and pictures in the notebook's own style.

`mdpdsl.representation` finds these functions by name. If one returns None, the notebook shows
another form, or `repr`.
"""

from __future__ import annotations

from collections.abc import Sequence

from mdpdsl.compile.model import Model
from mdpdsl.estimate.run_result import RunResult
from mdpdsl.explore.comparison import Comparison
from mdpdsl.explore.experiment_plan import ExperimentPlan
from mdpdsl.explore.live.live_result import LiveResult
from mdpdsl.explore.summary import Summary
from mdpdsl.graph.appearance import MOST_STATES
from mdpdsl.graph.describe import pair_text, states_and_ends
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.report.figures.pair_figures import pair_figures, worst_pairs
from mdpdsl.report.figures.plane_map import value_text
from mdpdsl.report.figures.series import unique_labels
from mdpdsl.report.graph.picture import inline_svg
from mdpdsl.report.markup import number, percent, table, text
from mdpdsl.report.page.side_by_side import comparison_table
from mdpdsl.report.policy_table import END
from mdpdsl.simulate.simulate_model import Log
from mdpdsl.solve.allocate_visits import Allocation
from mdpdsl.solve.answer import Solution
from mdpdsl.solve.robust_answer import RobustSolution

LISTED_PAIRS = 5
LISTED_STATES = 10


def model_html(model: Model) -> str:
    """Describe a model; its size only if it is built already, as building may take a while."""
    checked = model.checked
    rows = [("state", "; ".join(v.describe() for v in checked.states.variables))]
    rows.append(("action", "; ".join(v.describe() for v in checked.actions.variables)))
    if model.parameters:
        listed = ", ".join(f"{k} = {value_text(v)}" for k, v in model.parameters.items())
        rows.append(("parameters", listed))
    if model.is_built:
        rows.append(("size", _size(model.graph)))
    title = f" – {model.title}" if model.title else ""
    return _shown(f"{model.name}{title}", rows)


def graph_picture(graph: TransitionGraph) -> str | None:
    """Draw a graph that is small enough for a picture."""
    if graph.n_states > MOST_STATES or not graph.has_dynamics:
        return None
    return inline_svg(graph)


def graph_html(graph: TransitionGraph) -> str | None:
    """Describe a graph that is too large for a picture; None for others, which are drawn."""
    if graph.n_states <= MOST_STATES and graph.has_dynamics:
        return None
    rows = [
        ("state", "; ".join(v.describe() for v in graph.states.variables)),
        ("action", "; ".join(v.describe() for v in graph.actions.product.variables)),
        ("size", _size(graph)),
        ("hash", graph.hash),
    ]
    return _shown("Transition graph", rows)


def run_html(run: RunResult) -> str:
    """Show the figures of a run, and the pairs that it knows least about."""
    figures = run.figures
    rows = [
        ("model", f"{run.model.name} ({run.configuration.hash})"),
        ("trials", f"{figures.n_trials}"),
        ("transitions", f"{figures.transitions:,.0f}"),
        ("pairs visited", percent(figures.coverage)),
    ]
    for name, title in (("worst", "L_Worst"), ("average", "L_Avg")):
        value, error = getattr(figures, name), getattr(figures, f"{name}_se")
        shown = number(value) + ("" if error is None else f" ± {number(error, 3)}")
        ratio = run.ratio(name)
        if ratio is not None:
            shown += f", {number(ratio, 3)} times the optimum"
        elif value is not None and run.reference.is_estimated:
            shown += " with ĉ"
        rows.append((title, shown))
    if figures.guaranteed is not None:
        between = f"guaranteed {number(figures.guaranteed)}, possible {number(figures.possible)}"
        rows.append((str(run.configuration.property), between))
    if run.sets is not None:
        rows.append(("confidence sets", run.sets.described))
        rows.append(("they hold", run.sets.holds))
    losses = pair_figures(run)["loss"].values
    graph = run.graph
    worst = []
    for pair in worst_pairs(run, LISTED_PAIRS):
        state = graph.states.label(int(graph.pair_state[pair]))
        action = graph.actions.labels[graph.pair_action[pair]]
        loss = float(losses[pair])
        shown = "never visited" if loss == float("inf") else number(loss)
        worst.append(f"{action} in {state}: {shown}")
    rows.append(("worst pairs", "; ".join(worst)))
    place = "" if run.path is None else f" in {run.path}"
    return _shown(f"{run.label}{place}", rows)


def runs_html(runs: Sequence[RunResult]) -> str:
    """Compare runs, one row each."""
    return comparison_table(runs, unique_labels(list(runs)))


def summary_html(summary: Summary) -> str:
    """Show the figures of one explorer."""
    rows = [
        ("trials", f"{summary.n_trials}, {percent(summary.failure_rate)} failed"),
        ("L_Worst", _with_error(summary.worst, summary.worst_se)),
        ("L_Avg", _with_error(summary.average, summary.average_se)),
        ("error", number(summary.squared_error)),
        ("steps/s", f"{summary.steps_per_second:,.0f}"),
    ]
    return _shown(summary.label, rows)


def live_html(result: LiveResult) -> str:
    """Show the results of a live run."""
    measures = result.measures
    n_pairs = result.spaces.n_pairs
    rows = [
        ("steps", f"{result.steps:,}{'' if result.is_finished else ', stopped'}"),
        ("transitions", f"{result.transitions:,} in {result.episodes:,} episodes"),
        ("rejected", f"{result.rejected.total:,}"),
        ("pairs visited", f"{n_pairs - measures.unvisited:,} of {n_pairs:,}"),
        ("L_Worst", f"{number(measures.worst)} with ĉ"),
        ("L_Avg", f"{number(measures.average)} with ĉ"),
    ]
    place = "" if result.run is None else f" in {result.run}"
    return _shown(f"Live run{place}", rows)


def comparison_html(comparison: Comparison) -> str:
    """Compare explorers, one row each."""
    if not comparison.runs:
        return _shown(comparison.title, [])
    runs = list(comparison.runs)
    return f"<p><b>{text(comparison.title)}</b></p>{comparison_table(runs, unique_labels(runs))}"


def solution_html(solution: Solution) -> str:
    """Show the value of a policy, and its actions in the first states."""
    if isinstance(solution, RobustSolution):
        rows = [
            (solution.described, solution.sentence),
            ("guaranteed", number(solution.guaranteed, 6)),
            ("possible", number(solution.possible, 6)),
            ("sets", solution.sets_text),
        ]
    else:
        rows = [
            (solution.described, number(solution.value, 6)),
            ("bound", solution.bound_text),
        ]
    rows.append(("status", solution.status))
    graph = solution.model.graph
    shown = min(LISTED_STATES, graph.n_states)
    is_end = [False] * shown if graph.ends is None else graph.ends.tolist()
    listed = [
        f"{graph.states.label(s)}: {END if is_end[s] else solution.actions[s]}"
        for s in range(shown)
    ]
    rows.append(("policy", "; ".join(listed) + ("; …" if shown < graph.n_states else "")))
    return _shown(f"Solution of {solution.model.name}", rows)


def allocation_html(allocation: Allocation) -> str:
    """Show the figures of an allocation, and the pairs it visits most."""
    graph, d = allocation.model.graph, allocation.occupancy
    most, _ = allocation.extremes
    rows = [
        ("L_Worst", number(allocation.worst, 6)),
        ("L_Avg", number(allocation.average, 6)),
        ("gap", f"{allocation.gap:.1e} at most, relative"),
        ("most visits", "; ".join(f"{pair_text(graph, pair)}: {d[pair]:.3g}" for pair in most)),
    ]
    return _shown(f"Allocation of {allocation.model.name}, kappa = {allocation.kappa:g}", rows)


def log_html(log: Log) -> str:
    """Show the size of a log, and its columns."""
    rows = [
        ("steps", f"{log.steps:,} in {log.schedule.n_episodes:,} episodes"),
        ("policy", log.policy),
        ("columns", ", ".join(log.names.all)),
    ]
    return _shown(f"Log of {log.model.name}", rows)


def plan_html(plan: ExperimentPlan) -> str:
    """Show where the next experiments would add most."""
    graph = plan.graph
    rows = []
    for pair in plan.order[:10].tolist():
        action = graph.actions.labels[graph.pair_action[pair]]
        rows.append(
            [
                text(f"{action} in {graph.states.label(int(graph.pair_state[pair]))}"),
                f"{int(plan.visits[pair]):,}",
                number(float(plan.added_visits[pair])),
                number(float(plan.complexity[pair])),
            ]
        )
    title = f"The next {plan.steps:,.0f} steps, kappa = {plan.kappa:g}"
    head = ["where it adds most", "visits", "added", "c at most"]
    shown = f"<p><b>{text(title)}</b></p>{table(head, rows)}"
    if plan.solution is None:
        return shown
    between = f"guaranteed {number(plan.guaranteed)}, possible {number(plan.possible)}"
    return f"{shown}<p>{text(plan.solution.described)}: {between}</p>"


def _size(graph: TransitionGraph) -> str:
    known = f"{graph.n_branches:,} branches" if graph.has_dynamics else "dynamics unknown"
    return f"{states_and_ends(graph)}, {graph.n_pairs:,} pairs, {known}"


def _with_error(value: float | None, error: float | None) -> str:
    return number(value) + ("" if error is None else f" ± {number(error, 3)}")


def _shown(title: str, rows: Sequence[tuple[str, str]]) -> str:
    side = 'style="text-align:left;vertical-align:top"'
    body = "".join(
        f"<tr><th {side}>{text(name)}</th><td {side}>{text(value)}</td></tr>"
        for name, value in rows
    )
    return f"<p><b>{text(title)}</b></p><table><tbody>{body}</tbody></table>"
