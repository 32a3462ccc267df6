"""Profile likelihoods of unknown numbers, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mdpdsl.report.figures.likelihood_profiles import (
    EVERY_LOOK,
    ONE_LOOK,
    Chord,
    LikelihoodProfile,
    ProfilePanel,
)
from mdpdsl.report.figures.plot_style import INK, QUIET, line_style, new_figure, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_COLUMNS = 3


def plot_profiles(panels: Sequence[ProfilePanel]) -> Figure:
    """Draw a panel for each number, with a curve for each run."""
    n_columns = min(MOST_COLUMNS, len(panels))
    n_rows = -(-len(panels) // n_columns)
    width = 4.6 if len(panels) == 1 else 0.4 + 3.2 * n_columns
    figure = new_figure(width, 0.45 + 2.7 * n_rows)
    places = figure.subplots(n_rows, n_columns, squeeze=False)
    for i, axes in enumerate(places.flat):
        if i < len(panels):
            _draw(axes, panels[i])
        else:
            axes.set_visible(False)
    for row in places:
        row[0].set_ylabel("log-likelihood less its maximum", fontsize=9, color=QUIET)
    figure.suptitle("Likelihood of the unknown numbers", fontsize=10, color=INK)
    lines = {
        str(line.get_label()): line
        for axes in places.flat[: len(panels)]
        for line in axes.get_lines()
        if not str(line.get_label()).startswith("_")
    }
    if len(lines) > 1:
        figure.legend(
            handles=list(lines.values()),
            loc="outside lower center",
            fontsize=8,
            frameon=False,
            ncols=3,
        )
    return figure


def _draw(axes: Axes, panel: ProfilePanel) -> None:
    is_alone = len(panel.profiles) == 1
    for profile in panel.profiles:
        _draw_profile(axes, profile, panel.up[0], is_alone=is_alone)
    for value in panel.truths:
        axes.axvline(value, color=INK, linewidth=1, linestyle=(0, (5, 4)), zorder=2)
        axes.annotate(
            f"truth {value:.4g}",
            (value, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 3),
            textcoords="offset points",
            fontsize=8,
            color=QUIET,
            style="italic",
            ha="center",
        )
    axes.set_xlim(*panel.across)
    axes.set_ylim(*panel.up)
    style_axes(axes)
    axes.locator_params(axis="x", nbins=5)
    axes.locator_params(axis="y", nbins=6, integer=True)
    axes.set_xlabel(panel.name, fontsize=9, color=INK)


def _draw_profile(axes: Axes, profile: LikelihoodProfile, low: float, *, is_alone: bool) -> None:
    colour = line_style(profile.place).colour
    values, drops = zip(*profile.curve(low), strict=True)
    axes.plot(values, drops, color=colour, linewidth=1.8, zorder=3, label=profile.label)
    axes.axhline(profile.threshold, color=colour, linewidth=1, linestyle=(0, (2, 2)), zorder=2)
    if is_alone:
        inside, above = zip(*profile.curve(profile.threshold), strict=True)
        axes.fill_between(
            inside, above, profile.threshold, color=colour, alpha=0.16, linewidth=0, zorder=1
        )
        _draw_chord(axes, profile.every_look, EVERY_LOOK, colour)
        _draw_chord(axes, profile.one_look, ONE_LOOK, colour)
    else:  # chords would hide each other
        ends = (profile.every_look.low, profile.every_look.high)
        axes.plot(ends, (profile.threshold,) * 2, "o", color=colour, markersize=4, zorder=4)
    axes.plot([profile.estimate], [0.0], "o", color=colour, markersize=5, zorder=5)


def _draw_chord(axes: Axes, chord: Chord, name: str, colour: str) -> None:
    ends, heights = (chord.low, chord.high), (chord.height, chord.height)
    axes.plot(ends, heights, color=colour, linewidth=3.2, solid_capstyle="butt", zorder=4)
    axes.annotate(
        name,
        (sum(ends) / 2, chord.height),
        xytext=(0, -11),
        textcoords="offset points",
        fontsize=8,
        color=QUIET,
        style="italic",
        ha="center",
        zorder=6,
    )
