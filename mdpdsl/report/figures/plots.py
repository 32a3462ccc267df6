"""Single figures of runs drawn by matplotlib, from the same numbers as the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mdpdsl.diagnostics import SettingsError, did_you_mean
from mdpdsl.estimate.run_result import RunResult
from mdpdsl.graph.space import BoolArray
from mdpdsl.report.figures.colours import COLOUR_MAP, ColourRange, colour_ranges
from mdpdsl.report.figures.likelihood_profiles import LIKELIHOOD, has_profiles, profile_panels
from mdpdsl.report.figures.pair_figures import pair_figures
from mdpdsl.report.figures.plane_map import PlaneMap, plane_of
from mdpdsl.report.figures.plot_lines import plot_ratios, plot_series
from mdpdsl.report.figures.plot_profiles import plot_profiles
from mdpdsl.report.figures.plot_style import GREY, HATCH, INK, QUIET, new_figure, tick_cells
from mdpdsl.report.figures.series import (
    KINDS,
    VALUE_BOUNDS,
    bounds_of_runs,
    series_of,
    unique_labels,
)
from mdpdsl.report.graph.picture import FORMATS, graph_figure, saving_options

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure

#: Every figure with a description.
FIGURES = {
    "worst": "L_Worst over time, with the range of the trials and the optimum",
    "average": "L_Avg over time",
    "coverage": "the share of pairs visited over time",
    "value-bounds": "guaranteed and possible value of the run's property over time",
    "ratios": "L_Worst and L_Avg as multiples of the optimum, one row per run",
    "visits": "visits over two variables",
    "complexity": "complexities c over two variables",
    "loss": "c/d_hat = n c/T over two variables",
    "error": "estimation errors over two variables",
    "radius": "l1 radii of confidence sets over two variables (estimates and live runs)",
    "likelihood": "profile likelihoods of the unknown numbers, with their intervals",
    "graph": "the graph of the model",
}
DOTS_PER_INCH = 200
MOST_COLUMNS, MOST_PANELS = 3, 24


class FigureError(SettingsError):
    """A figure is unknown or missing in these runs; the message lists the available ones."""


def available_figures(runs: Sequence[RunResult]) -> list[str]:
    """Return the names of the figures that these runs have."""
    found = [kind.name for kind in KINDS if any(series_of(run, kind, "") for run in runs)]
    if bounds_of_runs(runs, [""] * len(runs))[0]:
        found.append(VALUE_BOUNDS.name)
    if any(run.ratio("worst") is not None for run in runs):
        found.append("ratios")
    for run in runs:
        found += [name for name in pair_figures(run) if name not in found]
    if any(has_profiles(run) for run in runs):
        found.append(LIKELIHOOD)
    return [*found, "graph"]


def draw_figure(
    runs: Sequence[RunResult], name: str, axes: str | None = None, action: str | None = None
) -> Figure:
    """Draw one figure of runs; raise FigureError, or AxesError if a model has no such axes."""
    if name not in FIGURES:
        hint = did_you_mean(name, FIGURES) or f"choose from {', '.join(FIGURES)}"
        raise FigureError(f"there is no figure `{name}`; {hint}")
    has = available_figures(runs)
    if name not in has:
        plural = "these runs have" if len(runs) > 1 else f"{runs[0].path or runs[0].label} has"
        raise FigureError(f"{plural} no figure `{name}`; choose from {', '.join(has)}")
    labels = unique_labels(list(runs))
    if name in {kind.name for kind in KINDS}:
        kind = next(kind for kind in KINDS if kind.name == name)
        found = [series_of(run, kind, label) for run, label in zip(runs, labels, strict=True)]
        return plot_series(kind, found)
    if name == VALUE_BOUNDS.name:
        properties = {run.configuration.property for run in runs} - {None}
        if len(properties) > 1:
            raise FigureError("these runs have different properties; choose runs of one property")
        lines, places = bounds_of_runs(runs, labels)
        kind = replace(VALUE_BOUNDS, title=f"{VALUE_BOUNDS.title}: {properties.pop()}")
        return plot_series(kind, lines, places)
    if name == "ratios":
        return plot_ratios(runs, labels)
    if name == LIKELIHOOD:
        panels = profile_panels(runs, labels)
        if not panels:
            raise FigureError("no values of the unknown numbers fit the data of these runs")
        if len(panels) > MOST_PANELS:
            raise FigureError(
                f"{len(panels)} numbers are too many for a picture; the limit is {MOST_PANELS}"
            )
        return plot_profiles(panels)
    if name == "graph":
        if len(runs) > 1:
            raise FigureError("the graph shows a single run; choose one")
        return graph_figure(runs[0].graph, runs[0].model.title or runs[0].model.name)
    return _plot_maps(runs, labels, name, axes, action)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure to a file; equal figures give equal files."""
    if path.suffix.lower() not in FORMATS:
        raise FigureError(f"a picture must end in {', '.join(FORMATS)}, not `{path.name}`")
    undated = {".svg": {"Date": None, "Creator": None}, ".pdf": {"CreationDate": None}}
    with saving_options():
        metadata = undated.get(path.suffix.lower(), {"Software": None})
        figure.savefig(path, dpi=DOTS_PER_INCH, metadata=metadata)


def _plot_maps(
    runs: Sequence[RunResult],
    labels: Sequence[str],
    name: str,
    axes: str | None,
    action: str | None,
) -> Figure:
    """Draw a map of each run that has the figure, all with the same range of colours."""
    maps = []
    for run, label in zip(runs, labels, strict=True):
        figure = pair_figures(run).get(name)
        if figure is not None:
            maps.append((plane_of(run.graph, axes).map(figure), label))
    if len(maps) > MOST_PANELS:
        raise FigureError(
            f"{len(maps)} maps are too many for a picture; the limit is {MOST_PANELS}"
        )
    places = [_slice(plane_map, action) for plane_map, _ in maps]
    ranges = [colour_ranges(m)[place] for (m, _), place in zip(maps, places, strict=True)]
    common = ColourRange(
        min(r.low for r in ranges), max(r.high for r in ranges), all(r.is_log for r in ranges)
    )
    n_columns = min(MOST_COLUMNS, len(maps))
    n_rows = -(-len(maps) // n_columns)
    picture = new_figure(0.8 + 3.4 * n_columns, 0.5 + 3.0 * n_rows)
    panels = picture.subplots(n_rows, n_columns, squeeze=False)
    shown = None
    for i, panel in enumerate(panels.flat):
        if i >= len(maps):
            panel.set_visible(False)
            continue
        plane_map, label = maps[i]
        shown = _draw_map(panel, plane_map, places[i], common)
        if len(maps) > 1:
            panel.set_title(label, fontsize=9, color=INK)
    first = maps[0][0]
    assert shown is not None
    bar = picture.colorbar(shown, ax=panels.ravel().tolist(), shrink=0.9, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, color=QUIET, labelcolor=QUIET)
    notes = [first.rule] if first.rule and not places[0] else []
    if any(_are_unseen(m, place).any() for (m, _), place in zip(maps, places, strict=True)):
        notes.append("hatched: a pair was never visited")
    rule = f"\n{'; '.join(notes)}" if notes else ""
    chosen = f", {first.slices[places[0]].label}" if places[0] else ""
    picture.suptitle(f"{first.figure.title}{chosen}{rule}", fontsize=10, color=INK)
    return picture


def _slice(plane_map: PlaneMap, action: str | None) -> int:
    if action is None:
        return 0
    labels = [piece.label for piece in plane_map.slices[1:]]
    short = [label.rpartition("= ")[2] for label in labels]
    for names in (labels, short):
        if action in names and names.count(action) == 1:
            return 1 + names.index(action)
    if not labels:
        raise FigureError("`action=` has no effect if an axis is the action, or there is only one")
    hint = did_you_mean(action, labels) or f"choose from {', '.join(labels)}"
    raise FigureError(f"there is no action `{action}`; {hint}")


def _are_unseen(plane_map: PlaneMap, place: int) -> BoolArray:
    """Return the cells in which some pair was never visited, [n_up, n_across]."""
    values = plane_map.slices[place].values
    return np.asarray(np.isinf(values) | (plane_map.figure.is_summed & (values == 0)))


def _draw_map(panel: Axes, plane_map: PlaneMap, place: int, colours: ColourRange) -> QuadMesh:
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.patches import Rectangle

    values = plane_map.slices[place].values
    is_absent = np.isnan(values)
    is_unseen = _are_unseen(plane_map, place)
    norm = (LogNorm if colours.is_log else Normalize)(colours.low, colours.high)
    # On a logarithmic scale, values of 0 get the first colour.
    shown = np.where(is_absent | is_unseen, np.nan, values)
    shown = np.maximum(shown, colours.low) if colours.is_log else shown
    x, y = np.arange(values.shape[1] + 1), np.arange(values.shape[0] + 1)
    panel.set_facecolor(GREY)
    drawn = panel.pcolormesh(
        x, y, np.ma.masked_invalid(shown), cmap=colormaps[COLOUR_MAP], norm=norm, rasterized=True
    )
    for row, column in np.argwhere(is_unseen).tolist():
        panel.add_patch(
            Rectangle((column, row), 1, 1, facecolor="#f6e3e1", edgecolor=HATCH, hatch="////", lw=0)
        )
    tick_cells(panel, plane_map.across, is_across=True)
    tick_cells(panel, plane_map.up, is_across=False)
    return drawn
