"""Measures over time and ratios to the optimum, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mdpdsl.estimate.run_result import RunResult
from mdpdsl.report.figures.plot_style import INK, QUIET, line_style, new_figure, style_axes
from mdpdsl.report.figures.series import Series, SeriesKind, shown_optima

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_series(
    kind: SeriesKind, found: Sequence[Series | None], places: Sequence[int] | None = None
) -> Figure:
    """Draw a measure of runs over time; None leaves out a run but keeps the others' colours.

    `places` are the positions of their runs, if these have several lines.
    """
    figure = new_figure(6.0, 3.6)
    panel = figure.subplots()
    for place, line in zip(places or range(len(found)), found, strict=True):
        if line is None:
            continue
        style = line_style(place)
        panel.plot(
            line.step,
            line.middle,
            color=style.colour,
            linestyle=(0, (2.5, 2)) if line.is_dashed else style.dash,
            linewidth=1.8,
            label=line.label,
            zorder=3,
        )
        if line.has_band:
            panel.fill_between(
                line.step, line.low, line.high, color=style.colour, alpha=0.16, linewidth=0
            )
    for value in shown_optima(kind, found):
        panel.axhline(value, color=INK, linewidth=1, linestyle=(0, (5, 4)))
        panel.annotate(
            f"optimum {value:,.4g}",
            (0.01, value),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            fontsize=8,
            color=QUIET,
            style="italic",
        )
    panel.set_xscale("log")
    if kind.is_log:
        panel.set_yscale("log")
    elif kind.is_share:
        panel.set_ylim(0, 1.02)
        panel.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    style_axes(panel)
    panel.set_xlabel("steps", fontsize=9, color=QUIET)
    panel.set_title(kind.title, fontsize=10, color=INK, loc="left")
    if sum(line is not None for line in found) > 1:
        panel.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def plot_ratios(runs: Sequence[RunResult], labels: Sequence[str]) -> Figure:
    """Draw L_Worst and L_Avg of each run as multiples of the optimum."""
    figure = new_figure(6.0, 1.0 + 0.3 * len(runs))
    panel = figure.subplots()
    marks = (("worst", "L_Worst", "o", INK), ("average", "L_Avg", "D", "white"))
    for name, title, mark, fill in marks:
        places, values, errors = [], [], []
        for place, run in enumerate(runs):
            ratio, error = run.ratio(name), getattr(run.figures, f"{name}_se")
            if ratio is None:
                continue
            places.append(place)
            values.append(ratio)
            errors.append((error or 0.0) / (run.optimum or {})[name])
        panel.errorbar(
            values,
            places,
            xerr=errors,
            fmt=mark,
            color=INK,
            markerfacecolor=fill,
            markersize=5.5,
            linewidth=1.2,
            label=title,
            zorder=3,
        )
    panel.set_xscale("log")
    panel.axvline(1, color=INK, linewidth=1, linestyle=(0, (5, 4)))
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
    panel.xaxis.set_minor_formatter(lambda value, _: f"{value:g}×" if _is_round(value) else "")
    style_axes(panel)
    panel.grid(axis="y", visible=False)
    panel.set_yticks(range(len(runs)), labels)
    panel.tick_params(axis="x", which="minor", labelsize=8, labelcolor=QUIET, color=QUIET)
    panel.set_ylim(len(runs) - 0.5, -0.5)
    panel.set_xlabel("multiples of the optimum", fontsize=9, color=QUIET)
    panel.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def _is_round(value: float) -> bool:
    return f"{value:e}"[0] in "25"
