"""The sections of a page about one run: results, worst pairs, graph, settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mdpdsl.estimate.run_result import RunResult
from mdpdsl.graph.appearance import MOST_STATES
from mdpdsl.graph.describe import states_and_ends
from mdpdsl.graph.space import Value
from mdpdsl.report.figures.likelihood_profiles import true_values
from mdpdsl.report.figures.pair_figures import pair_figures, worst_pairs
from mdpdsl.report.figures.plane_map import value_text
from mdpdsl.report.graph.picture import inline_svg
from mdpdsl.report.markup import definitions, number, percent, table, text
from mdpdsl.report.page.numbers_section import LISTED_ROWS, rows_by_knowledge
from mdpdsl.report.repeat import repeating_command

LISTED_PAIRS = 15

_DOINGS = {
    "explore": "explored a simulated system",
    "replay": "explored a log",
    "live": "explored a live system",
    "estimate": "estimated from a log",
}


def result_cards(run: RunResult) -> str:
    """Return cards with the main results."""
    figures, symbol = run.figures, run.reference.symbol
    cards = []
    for name, title in (("worst", "L_Worst"), ("average", "L_Avg")):
        value, error = getattr(figures, name), getattr(figures, f"{name}_se")
        ratio, spread = run.ratio(name), "" if error is None else f" ± {number(error, 3)}"
        if value is None:
            main, below = "–", "a pair was never visited"
        elif ratio is not None and run.optimum is not None:
            main = f"{number(ratio, 3)}×"
            below = f"the optimum of {number(run.optimum[name])}: {number(value)}{spread}"
        else:
            main, below = number(value), f"with {symbol}{spread}"
        cards.append((title, main, below))
    n_pairs = int(run.reference.measured.sum())
    of_log = " in the log" if run.reference.source == "log" else ""
    seen = f"of {n_pairs:,} state–action pairs{of_log}"
    cards.append(("Pairs visited", percent(figures.coverage), seen))
    trials = f"mean of {figures.n_trials} trials" if figures.n_trials > 1 else "counted"
    cards.append(("Transitions", f"{figures.transitions:,.0f}", trials))
    speed = run.speed
    if speed:
        unit = "rows" if run.kind == "estimate" else "steps"
        cards.append(("Speed", f"{speed:,.0f}", f"{unit} per second"))
    if figures.n_trials > 1:
        failed = round(figures.failure_rate * figures.n_trials)
        below = f"of {figures.n_trials} left a pair unvisited"
        cards.insert(2, ("Failed trials", f"{failed}", below))
    cards += _bound_cards(run)
    return (
        '<div class="cards">'
        + "".join(
            f'<div class="card"><div class="title">{text(title)}</div>'
            f'<div class="figure">{main}</div><div class="below">{text(below)}</div></div>'
            for title, main, below in cards
        )
        + "</div>"
    )


def _bound_cards(run: RunResult) -> list[tuple[str, str, str]]:
    """Return what the data say about the run's property, if it has one."""
    asked, figures = run.configuration.property, run.figures
    if asked is None or figures.guaranteed is None or figures.possible is None:
        return []
    confidence = f"with confidence {1 - run.configuration.settings['delta']:g}"
    best = "no policy can do better"
    if run.true_value is not None:
        best += f"; the true optimum is {number(run.true_value)}"
    return [
        ("Guaranteed", number(figures.guaranteed), f"{asked}, {confidence}"),
        ("Possible", number(figures.possible), best),
    ]


def notes(run: RunResult) -> list[str]:
    """Return remarks that a reader needs to interpret a run."""
    found = []
    if run.reference.source == "truth" and run.optimum is None:
        reason = run.optimum_reason or "it was not computed"
        found.append(f"There is no optimum to compare with: {reason}.")
    if run.reference.source == "estimate":
        found.append("The true model is unknown: L, c and errors are those of the estimate (ĉ).")
    if run.reference.source == "log":
        found.append("The true model is unknown: c and errors are relative to the whole log.")
    if run.sets is not None:
        found.append(f"Confidence sets – {run.sets.described}. They hold {run.sets.holds}.")
    known = run.known_misfit
    if known is not None and known.is_found:
        rows = "1 row" if len(known.pairs) == 1 else f"{len(known.pairs):,} rows"
        shown = "; ".join(known.sentences[:LISTED_ROWS])
        found.append(f"The data contradict {rows} that the model file writes out – {shown}.")
    n_failed = round(run.figures.failure_rate * run.figures.n_trials)
    if 0 < n_failed < run.figures.n_trials:
        failures = f"{n_failed} of {run.figures.n_trials} trials never visited some pair"
        drawn = " and is not drawn over time" if run.figures.failure_rate > 0.5 else ""
        found.append(f"{failures}: L is the mean of the others{drawn}.")
    steps, done = run.configuration.settings.get("steps"), run.trials[0].final.step
    if run.kind == "live" and steps is not None and done < steps:
        found.append(f"The run was stopped after {done:,} of {steps:,} steps.")
    rejected = run.rejected
    if rejected:
        listed = "; ".join(f"{reason}: {count:,}" for reason, count in rejected.items())
        found.append(f"Rows not counted – {listed}.")
    return found


def pairs_section(run: RunResult) -> str:
    """Return a table of the pairs with the largest loss."""
    graph, figures, symbol = run.graph, pair_figures(run), run.reference.symbol
    names = [variable.name for variable in graph.states.variables]
    columns = {"visits": "T", "complexity": symbol, "loss": f"n{symbol}/T", "error": "error"}
    rows = []
    for pair in worst_pairs(run, LISTED_PAIRS):
        state = graph.states.native(int(graph.pair_state[pair]))
        action = graph.actions.labels[graph.pair_action[pair]]
        cells = [f"<b>{text(action)}</b>", *(text(_shown(state[name])) for name in names)]
        for each in columns:
            value = float(figures[each].values[pair])
            is_unseen = each == "error" and value == float("inf")
            cells.append("unknown" if is_unseen else number(value, 4))
        rows.append(cells)
    if not rows:
        return '<p class="quiet">None: no pair needs an estimate.</p>'
    head = ["action", *map(text, names), *columns.values()]
    return table(head, rows, left=1)


def _shown(value: Value) -> str:
    return value_text(value)


def graph_section(run: RunResult) -> str:
    """Return a picture of the model, if it is small enough to draw every state."""
    graph = run.graph
    if graph.n_states > MOST_STATES:
        return ""
    shown = graph
    caption = "The explored model."
    if not graph.has_dynamics or run.reference.source != "truth":
        if bool((run.counts.visits == 0).any()):
            return ""  # unvisited pairs would lead everywhere
        shown, caption = run.estimate, "The estimated model."
    return f'<figure class="graph"><figcaption>{caption}</figcaption>{inline_svg(shown)}</figure>'


def settings_section(run: RunResult) -> str:
    """Return the settings of a run, and the command that repeats it."""
    configuration, graph = run.configuration, run.graph
    rows = [
        ("model", f"{text(configuration.model)}{_title(run)}"),
        ("hash", f"<code>{text(configuration.hash)}</code>"),
        ("size", f"{states_and_ends(graph)}, {graph.n_pairs:,} pairs"),
        ("what", text(f"{_DOINGS[run.kind]}{_system(run)}")),
    ]
    known = rows_by_knowledge(run)
    if known is not None:
        rows.append(("rows", text(known)))
    parameters = _parameters(run)
    if parameters:
        rows.append(("parameters", text(_listed(parameters))))
    settings = {k: v for k, v in configuration.settings.items() if k != "files"}
    rows.append(("settings", text(_listed(settings))))
    if configuration.property is not None:
        rows.append(("property", f"<code>{text(configuration.property)}</code>"))
    if run.kind == "estimate":
        files = configuration.settings["files"]
        rows.append(("log", text(", ".join(str(file["path"]) for file in files))))
    else:
        rows.append(("trials", f"{configuration.trials:,}"))
        rows.append(("seed", f"{configuration.seed}"))
    if configuration.warm_start is not None:
        rows.append(("warm start", text(f"{configuration.warm_start.transitions:,} transitions")))
    rows.append(("versions", text(_listed(configuration.versions))))
    if run.path is not None:
        rows.append(("folder", f"<code>{text(run.path)}</code>"))
    command = repeating_command(run)
    again = (
        f"<pre><code>{text(command)}</code></pre>"
        if command is not None
        else '<p class="quiet">The run was started from a program; run that program again.</p>'
    )
    return definitions(rows) + f'<p class="quiet">To repeat this run:</p>{again}'


def _parameters(run: RunResult) -> dict[str, Any]:
    """Return the parameters, with unknown numbers only if the run was simulated with them."""
    unknown = {each.name for each in run.model.checked.unknowns} - set(true_values(run))
    return {k: v for k, v in run.configuration.parameters.items() if k not in unknown}


def _title(run: RunResult) -> str:
    return "" if run.model.title is None else f" – {text(run.model.title)}"


def _system(run: RunResult) -> str:
    if run.kind == "live":
        system = run.configuration.system
        assert system is not None
        return f": {system.env or system.name}"
    if run.configuration.settings.get("simulate") == "continuous":
        return ", which is continuous and observed through its bins"
    return ""


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name} = {f'{value:g}' if isinstance(value, float) else value}"
        for name, value in values.items()
        if value is not None
    )
