"""Runs of one model compared: a table, ratios to the optimum, and measures over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mdpdsl.estimate.run_result import RunResult
from mdpdsl.report.figures.dot_chart import RatioRow, dot_chart
from mdpdsl.report.figures.line_chart import legend, line_chart, swatch
from mdpdsl.report.figures.series import (
    KINDS,
    VALUE_BOUNDS,
    Series,
    SeriesKind,
    bounds_of_runs,
    series_of,
)
from mdpdsl.report.markup import number, percent, table, text


def comparison_table(runs: Sequence[RunResult], labels: Sequence[str]) -> str:
    """Return a table with a row per run, the best figures in bold, and the optimum below."""
    has_optimum = any(run.optimum is not None for run in runs)
    best = {name: _least(runs, name) for name in ("worst", "average")}
    has_bounds = any(run.figures.guaranteed is not None for run in runs)
    rows = []
    for place, (run, label) in enumerate(zip(runs, labels, strict=True)):
        figures = run.figures
        cells = [f"{swatch(place)}{text(label)}"]
        for name in ("worst", "average"):
            value, error = getattr(figures, name), getattr(figures, f"{name}_se")
            shown = number(value)
            if value is not None and value == best[name] and len(runs) > 1:
                shown = f"<b>{shown}</b>"
            if error is not None:
                shown += f' <span class="quiet">± {number(error, 2)}</span>'
            cells.append(shown)
            if has_optimum:
                ratio = run.ratio(name)
                cells.append("–" if ratio is None else f"{number(ratio, 3)}×")
        speed = None if run.kind == "estimate" else run.speed
        cells += [
            f"{round(figures.failure_rate * figures.n_trials)} of {figures.n_trials}",
            percent(figures.coverage),
            f"{figures.transitions:,.0f}",
            "–" if not speed else f"{speed:,.0f}",
        ]
        if has_bounds:
            cells += [number(figures.guaranteed), number(figures.possible)]
        rows.append(cells)
    optimum = next((run.optimum for run in runs if run.optimum is not None), None)
    if optimum is not None:
        worst, average = number(optimum["worst"]), number(optimum["average"])
        true_values = {run.true_value for run in runs if run.figures.guaranteed is not None}
        value = number(true_values.pop()) if len(true_values) == 1 else ""
        bounds = [value, value] if has_bounds else []
        rows.append(["optimum", worst, "1×", average, "1×", "", "", "", "", *bounds])
    ratio_head = ["ratio"] if has_optimum else []
    head = ["run", "L_Worst", *ratio_head, "L_Avg", *ratio_head]
    head += ["failed trials", "pairs visited", "transitions", "steps/s"]
    head += ["guaranteed", "possible"] if has_bounds else []
    return table(head, rows, left=1)


def ratio_chart(runs: Sequence[RunResult], labels: Sequence[str], name: str) -> str:
    """Return a chart of the ratios to the optimum, of the runs that have one; empty if none has."""
    rows = [
        RatioRow(
            label,
            run.ratio("worst"),
            _share(run.figures.worst_se, run.optimum["worst"]),
            run.ratio("average"),
            _share(run.figures.average_se, run.optimum["average"]),
        )
        for run, label in zip(runs, labels, strict=True)
        if run.optimum is not None
    ]
    if not rows:
        return ""
    caption = "<b>Relative to the optimum</b> <span>less is better; bars are standard errors</span>"
    return (
        f'<figure class="plot" id="{name}-ratios"><figcaption>{caption}</figcaption>'
        f"{dot_chart(rows)}</figure>"
    )


def metric_charts(runs: Sequence[RunResult], labels: Sequence[str], name: str) -> str:
    """Return a chart for each measure over time; charts without a line are left out."""
    charts = []
    for kind in KINDS:
        found = [series_of(run, kind, label) for run, label in zip(runs, labels, strict=True)]
        lines = [line for line in found if line is not None]
        places = [place for place, line in enumerate(found) if line is not None]
        if not lines:
            continue
        note = kind.note
        symbols = {run.reference.symbol for run in runs}
        if symbols == {"ĉ"}:
            note = note.replace("n·c/T", "n·ĉ/T")
        charts.append(
            _chart(replace(kind, note=note), lines, places, name, has_legend=len(runs) > 1)
        )
    return "".join(charts) + _bound_charts(runs, labels, name)


def _bound_charts(runs: Sequence[RunResult], labels: Sequence[str], name: str) -> str:
    """Return a chart of the value bounds for each property that runs have."""
    lines, places = bounds_of_runs(runs, labels)
    found = [runs[place].configuration.property for place in places]
    charts = []
    for n, asked in enumerate(dict.fromkeys(found)):
        chosen = [i for i, each in enumerate(found) if each == asked]
        kind = replace(VALUE_BOUNDS, note=f"{asked}: {VALUE_BOUNDS.note}")
        charts.append(
            _chart(
                kind,
                [lines[i] for i in chosen],
                [places[i] for i in chosen],
                name if n == 0 else f"{name}-{n}",
                has_legend=True,
            )
        )
    return "".join(charts)


def _chart(
    kind: SeriesKind, lines: Sequence[Series], places: Sequence[int], name: str, *, has_legend: bool
) -> str:
    note = kind.note
    if any(line.has_band for line in lines):
        note += "; line: mean of the trials, band: least to largest"
    shown = legend(lines, places) if has_legend else ""
    return (
        f'<figure class="plot" id="{name}-{kind.name}"><figcaption><b>{text(kind.title)}</b> '
        f"<span>{text(note)}</span></figcaption>{line_chart(kind, lines, places)}{shown}"
        "</figure>"
    )


def _least(runs: Sequence[RunResult], name: str) -> float | None:
    """Return the best figure among runs; None if they are measured differently."""
    if len({run.reference.source for run in runs}) > 1:
        return None
    values = [getattr(run.figures, name) for run in runs]
    return min((value for value in values if value is not None), default=None)


def _share(value: float | None, whole: float | None) -> float | None:
    return None if value is None or not whole else value / whole
