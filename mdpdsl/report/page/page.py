"""The report: one HTML page for one run or several, that needs nothing but a browser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import resources

from mdpdsl.estimate.run_result import RunResult
from mdpdsl.report.figures.series import unique_labels
from mdpdsl.report.page.comparison import comparison_table, metric_charts, ratio_chart
from mdpdsl.report.page.heat_map import selector_style, shared_definitions
from mdpdsl.report.page.maps import maps_section
from mdpdsl.report.page.markup import text
from mdpdsl.report.page.run_sections import (
    graph_section,
    notes,
    pairs_section,
    result_cards,
    settings_section,
)

#: Bytes of a page, and what of them the maps of all runs may take.
MOST_BYTES = 3_000_000
MAP_BYTES = 1_900_000
GRAPH_BYTES = 400_000

#: Told how many runs are drawn, and of how many.
Progress = Callable[[int, int], None]


def report_page(
    runs: Sequence[RunResult], axes: str | None = None, progress: Progress | None = None
) -> str:
    """Return the page of runs; raise AxesError where a model has no such axes.

    Runs of different models are told one model after the other.
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
            maps, n = maps_section(run, f"{name}-r{place}", axes, room)
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
        # Before anything is drawn, so that a page chosen dark does not flash.
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
    size = f"{graph.n_states:,} states · {graph.n_actions:,} actions · {graph.n_pairs:,} pairs"
    title = "" if run.model.title is None else f'<p class="lead">{text(run.model.title)}</p>'
    what = text(run.label) if len(runs) == 1 else f"{len(runs)} runs compared"
    return (
        f'<header><p class="over">{what}</p><h1>{text(run.model.name)}</h1>{title}'
        f'<p class="quiet">{size} · <code>{text(graph.hash)}</code></p></header>'
    )


def _overview(runs: Sequence[RunResult], labels: Sequence[str], name: str) -> str:
    charts = metric_charts(runs, labels, name)
    if len(runs) == 1:
        told = "".join(f'<p class="note">{text(note)}</p>' for note in notes(runs[0]))
        shown = f'<h2>Over time</h2><div class="plots">{charts}</div>' if charts else ""
        return f"<section>{result_cards(runs[0])}{told}</section><section>{shown}</section>"
    shown = ratio_chart(runs, labels, name) + charts
    plots = f'<section><h2>How they did</h2><div class="plots">{shown}</div></section>'
    return f"<section>{comparison_table(runs, labels)}</section>{plots if shown else ''}"


def _details(run: RunResult, label: str, maps: str, graph: str, *, is_alone: bool) -> str:
    parts = [
        f"<h2>Where</h2>{maps}",
        f'<h2>Worst pairs</h2><p class="quiet">The pairs that are known least: the largest '
        f"n{run.reference.symbol}/T.</p>{pairs_section(run)}",
        f"<h2>Graph</h2>{graph}" if graph else "",
        f"<h2>What was run</h2>{settings_section(run)}",
    ]
    body = "".join(f"<section>{part}</section>" for part in parts if part)
    if is_alone:
        return body
    told = "".join(f'<p class="note">{text(note)}</p>' for note in notes(run))
    body = body.replace("<h2>", "<h3>").replace("</h2>", "</h3>")
    return (
        f'<details class="run"><summary>{text(label)}</summary>{result_cards(run)}{told}{body}'
        "</details>"
    )


def _asset(name: str) -> str:
    return resources.files("mdpdsl.report.page").joinpath(name).read_text("utf-8").strip()
