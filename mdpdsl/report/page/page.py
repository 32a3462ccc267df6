"""The report: one HTML page about one or more runs, which needs nothing but a browser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import resources

from mdpdsl.estimate.run_result import RunResult
from mdpdsl.graph.describe import states_and_ends
from mdpdsl.report.figures.heat_map import (
    heat_map,
    selector,
    selector_style,
    shared_definitions,
)
from mdpdsl.report.figures.pair_figures import pair_figures
from mdpdsl.report.figures.plane_map import PlaneMap, plane_of
from mdpdsl.report.figures.series import unique_labels
from mdpdsl.report.markup import text
from mdpdsl.report.page.numbers_section import numbers_section
from mdpdsl.report.page.run_sections import (
    graph_section,
    notes,
    pairs_section,
    result_cards,
    settings_section,
)
from mdpdsl.report.page.side_by_side import comparison_table, metric_charts, ratio_chart

#: The largest size of a page in bytes, and the parts for the maps of all runs and for graphs.
MOST_BYTES = 3_000_000
MAP_BYTES = 1_900_000
GRAPH_BYTES = 400_000

#: With more actions than this, maps show all actions together only.
MOST_ACTIONS = 24
#: The most cells along an axis; the next smaller number is tried if a page would be too large.
CELLS = (256, 128, 64, 32, 16)

#: Called with the number of runs drawn so far, and of all runs.
Progress = Callable[[int, int], None]


def report_page(
    runs: Sequence[RunResult], axes: str | None = None, progress: Progress | None = None
) -> str:
    """Return the page of runs; raise AxesError if a model has no such axes.

    Runs are grouped by model.
    """
    groups: dict[tuple[str, str], list[RunResult]] = {}
    for run in runs:
        groups.setdefault((run.model.name, run.graph.hash), []).append(run)
    room = MAP_BYTES // len(runs)
    sections, n_slices, n_done = [], 1, 0
    for number, group in enumerate(groups.values()):
        labels = unique_labels(group)
        name = f"m{number}"
        body = [_group_head(group), _overview(group, labels, name)]
        if len(group) > 1:
            body.append("<h2>Each run</h2>")
        has_graph = False
        for place, (run, label) in enumerate(zip(group, labels, strict=True)):
            maps, n = _maps_section(run, f"{name}-r{place}", axes, room)
            n_slices = max(n_slices, n)
            graph = "" if has_graph else graph_section(run)
            if len(graph) > GRAPH_BYTES // len(groups):
                graph = ""
            has_graph = has_graph or bool(graph)
            body.append(_details(run, label, maps, graph, is_alone=len(group) == 1))
            n_done += 1
            if progress is not None:
                progress(n_done, len(runs))
        sections.append("".join(body))
    title = _page_title(runs)
    style = _asset("page.css") + selector_style(n_slices)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{text(title)}</title><style>{style}</style>"
        # Before anything is drawn, so that a page in dark mode does not flash.
        f"<script>{_asset('theme.js')}</script></head><body>{shared_definitions()}"
        '<button id="theme" type="button" hidden aria-label="Switch between light and dark">'
        "◐</button>"
        f"<main>{''.join(sections)}</main>"
        f'<div id="tip" role="status" hidden></div><script>{_asset("page.js")}</script>'
        "</body></html>\n"
    )


def _page_title(runs: Sequence[RunResult]) -> str:
    names = list(dict.fromkeys(run.model.name for run in runs))
    what = runs[0].label if len(runs) == 1 else f"{len(runs)} runs"
    return f"{', '.join(names)}: {what}"


def _group_head(runs: Sequence[RunResult]) -> str:
    run = runs[0]
    graph = run.graph
    size = f"{states_and_ends(graph)} · {graph.n_actions:,} actions · {graph.n_pairs:,} pairs"
    title = "" if run.model.title is None else f'<p class="lead">{text(run.model.title)}</p>'
    what = text(run.label) if len(runs) == 1 else f"{len(runs)} runs compared"
    return (
        f'<header><p class="over">{what}</p><h1>{text(run.model.name)}</h1>{title}'
        f'<p class="quiet">{size} · <code>{text(graph.hash)}</code></p></header>'
    )


def _overview(runs: Sequence[RunResult], labels: Sequence[str], name: str) -> str:
    charts = metric_charts(runs, labels, name)
    if len(runs) == 1:
        shown = f'<h2>Over time</h2><div class="plots">{charts}</div>' if charts else ""
        cards = f"{result_cards(runs[0])}{_notes(runs[0])}"
        return f"<section>{cards}</section><section>{shown}</section>"
    shown = ratio_chart(runs, labels, name) + charts
    plots = f'<section><h2>Results</h2><div class="plots">{shown}</div></section>'
    return f"<section>{comparison_table(runs, labels)}</section>{plots if shown else ''}"


def _details(run: RunResult, label: str, maps: str, graph: str, *, is_alone: bool) -> str:
    numbers = numbers_section(run)
    parts = [
        f"<h2>Unknown numbers</h2>{numbers}" if numbers else "",
        f"<h2>Maps</h2>{maps}",
        f'<h2>Worst pairs</h2><p class="quiet">The least well-known pairs, with the largest '
        f"n{run.reference.symbol}/T.</p>{pairs_section(run)}",
        f"<h2>Graph</h2>{graph}" if graph else "",
        f"<h2>Settings</h2>{settings_section(run)}",
    ]
    body = "".join(f"<section>{part}</section>" for part in parts if part)
    if is_alone:
        return body
    body = body.replace("<h2>", "<h3>").replace("</h2>", "</h3>")
    return (
        f'<details class="run"><summary>{text(label)}</summary>{result_cards(run)}{_notes(run)}'
        f"{body}</details>"
    )


def _notes(run: RunResult) -> str:
    return "".join(f'<p class="note">{text(note)}</p>' for note in notes(run))


def _maps_section(run: RunResult, name: str, axes: str | None, most_bytes: int) -> tuple[str, int]:
    """Return the maps of a run within so many bytes, and the number of their slices.

    If there is no room, the values of cells are dropped first, then single actions, then
    resolution.
    """
    figures = pair_figures(run)
    is_few = run.graph.n_actions <= MOST_ACTIONS
    for cells in CELLS:
        plane = plane_of(run.graph, axes, cells)
        detail = ((is_few, True), (is_few, False), (False, True), (False, False))
        for by_action, has_values in detail:
            maps = [plane.map(figure, by_action=by_action) for figure in figures.values()]
            made = _maps(maps, name, has_values, is_few or plane.has_action_axis)
            if len(made) <= most_bytes:
                return made, len(maps[0].slices)
    return made, len(maps[0].slices)


def _maps(maps: list[PlaneMap], name: str, has_values: bool, has_all_actions: bool) -> str:
    labels = [piece.label for piece in maps[0].slices]
    single = " single" if len(labels) == 1 else ""
    drawn = "".join(
        heat_map(each, f"{name}-{each.figure.name}", has_values=has_values) for each in maps
    )
    more = (
        ""
        if has_all_actions
        else f'<p class="quiet">The model has more than {MOST_ACTIONS} actions; <code>mdpdsl plot '
        "--action …</code> draws the map of a single one.</p>"
    )
    return (
        f'<div class="choice">{selector(labels, name)}'
        f'<div class="maps{single}">{drawn}</div></div>{more}'
    )


def _asset(name: str) -> str:
    return resources.files("mdpdsl.report.page").joinpath(name).read_text("utf-8").strip()
