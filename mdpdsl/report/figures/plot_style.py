"""The style of matplotlib figures of runs: fonts, colours and axes as in the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mdpdsl.report.figures.plane_map import PlaneAxis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, QUIET, RULE, GREY, HATCH = "#1d2126", "#5f6670", "#dcdcd6", "#8a9099", "#b3261e"
#: Distinguishable for colour-blind people; further lines repeat them with dashes.
COLOURS = ("#0068a8", "#c4520a", "#007f5c", "#a8417f", "#3d9bd1", "#b07a00", "#6a51a3", "#5a5f66")
DASHES = ("-", "--", ":", "-.")
MOST_TICKS, MOST_LETTERS = 8, 10


class LineStyle(NamedTuple):
    """The colour and dash of a line."""

    colour: str
    dash: str


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of this size in inches, with a layout that fits its content."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def style_axes(panel: Axes) -> None:
    """Remove the parts of the axes that a reader does not need."""
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)
    panel.spines["bottom"].set_color(QUIET)
    panel.grid(axis="y", color=RULE, linewidth=0.8)
    panel.set_axisbelow(True)
    panel.tick_params(labelsize=8, color=QUIET, labelcolor=QUIET, length=3)
    panel.tick_params(axis="y", length=0)


def line_style(place: int) -> LineStyle:
    """Return the colour and dash of a run by its position."""
    dash = DASHES[place // len(COLOURS) % len(DASHES)]
    return LineStyle(COLOURS[place % len(COLOURS)], dash)


def tick_cells(panel: Axes, axis: PlaneAxis, *, is_across: bool) -> None:
    """Label the cells of an axis: by borders for real variables, by names for others."""
    if axis.edges is not None:
        from matplotlib.ticker import MaxNLocator

        low, high = float(axis.edges[0]), float(axis.edges[-1])
        values = [
            v for v in MaxNLocator(6).tick_values(low, high) if low - 1e-9 <= v <= high + 1e-9
        ]
        places = np.interp(values, axis.edges, np.arange(axis.size + 1)).tolist()
        labels = [f"{v:g}".replace("-", "−") for v in values]
    else:
        step = -(-axis.size // MOST_TICKS)
        places = [i + 0.5 for i in range(0, axis.size, step)]
        labels = [_short(axis.labels[i]) for i in range(0, axis.size, step)]
    for side in panel.spines.values():
        side.set_visible(False)
    panel.tick_params(labelsize=8, color=QUIET, labelcolor=QUIET, length=3)
    if is_across:
        panel.set_xticks(places, labels)
        panel.set_xlabel(axis.name, fontsize=9, color=QUIET)
    else:
        panel.set_yticks(places, labels)
        panel.set_ylabel(axis.name, fontsize=9, color=QUIET)


def _short(label: str) -> str:
    label = label.split(" … ")[0]
    return label if len(label) <= MOST_LETTERS else label[: MOST_LETTERS - 1] + "…"
