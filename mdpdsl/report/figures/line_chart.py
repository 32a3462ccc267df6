"""Measures over time as inline SVG: a line and a band per run, the optimum dashed."""

from __future__ import annotations

from collections.abc import Sequence

from mdpdsl.report.figures.scales import Scale, scale
from mdpdsl.report.figures.series import Series, SeriesKind, shown_optima
from mdpdsl.report.markup import number, percent, text

WIDTH, HEIGHT = 400, 264
LEFT, RIGHT, TOP, BOTTOM = 48, 10, 10, 36
#: The number of colours in the style sheet; further lines repeat them with dashes.
N_COLOURS = 8
DASHES = ("", "7 3", "2 3", "9 3 2 3")
#: Of the second line of a run.
DASHED = "4 4"


def line_chart(kind: SeriesKind, lines: Sequence[Series], places: Sequence[int]) -> str:
    """Draw lines; `places` are the positions of their runs, which determine the colours."""
    steps = [float(step) for line in lines for step in line.step]
    x = scale(steps, LEFT, WIDTH - RIGHT, is_log=True, margin=0.01)
    values = [float(v) for line in lines for each in (line.low, line.high) for v in each]
    optima = shown_optima(kind, lines)
    if kind.is_share:
        y = Scale(0.0, 1.04, HEIGHT - BOTTOM, TOP, False)
    else:
        y = scale([*values, *optima], HEIGHT - BOTTOM, TOP, is_log=kind.is_log)
    drawn = [_frame(x, y, is_share=kind.is_share)]
    drawn += [_optimum(value, y) for value in optima]
    order = sorted(range(len(lines)), key=lambda i: -places[i])  # the first run on top
    drawn += [_band(lines[i], places[i], x, y) for i in order if lines[i].has_band]
    drawn += [_line(kind, lines[i], places[i], x, y) for i in order]
    label = f"{kind.title}: {', '.join(line.label for line in lines)}"
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{text(label)}">'
        f"{''.join(drawn)}</svg>"
    )


def swatch(place: int, is_dashed: bool = False) -> str:
    """Return the swatch of a run for a legend or a table."""
    dash = _dash(place, is_dashed)
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<svg class="swatch" viewBox="0 0 22 10" aria-hidden="true">'
        f'<line class="s{place % N_COLOURS}" x1="1" y1="5" x2="21" y2="5"{dashed}/></svg>'
    )


def legend(lines: Sequence[Series], places: Sequence[int]) -> str:
    """Return the names of lines with their swatches."""
    items = "".join(
        f"<li>{swatch(place, line.is_dashed)}{text(line.label)}</li>"
        for line, place in zip(lines, places, strict=True)
    )
    return f'<ul class="legend">{items}</ul>'


def _dash(place: int, is_dashed: bool) -> str:
    return DASHED if is_dashed else DASHES[place // N_COLOURS % len(DASHES)]


def _frame(x: Scale, y: Scale, *, is_share: bool) -> str:
    parts = []
    for value, label in y.ticks():
        at = f"{y.at(value):.1f}"
        shown = f"{100 * value:g} %" if is_share else label
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>')
        parts.append(f'<text class="tick end" x="{LEFT - 6}" y="{at}" dy=".35em">{shown}</text>')
    base = HEIGHT - BOTTOM
    for value, label in x.ticks(5):  # six numbers of steps could overlap
        at = f"{x.at(value):.1f}"
        parts.append(f'<line class="axis" x1="{at}" x2="{at}" y1="{base}" y2="{base + 4}"/>')
        parts.append(f'<text class="tick mid" x="{at}" y="{base + 16}">{label}</text>')
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}"/>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="name mid" x="{middle:.0f}" y="{HEIGHT - 4}">steps</text>')
    return "".join(parts)


def _optimum(value: float, y: Scale) -> str:
    at = y.at(value)
    return (
        f'<line class="optimum" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
        f'<text class="note" x="{LEFT + 4}" y="{at - 5:.1f}">optimum {number(value)}</text>'
    )


def _band(line: Series, place: int, x: Scale, y: Scale) -> str:
    there = [(x.at(s), y.at(v)) for s, v in zip(line.step, line.high, strict=True)]
    back = [(x.at(s), y.at(v)) for s, v in zip(line.step, line.low, strict=True)][::-1]
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in there + back)
    return f'<polygon class="band f{place % N_COLOURS}" points="{points}"/>'


def _line(kind: SeriesKind, line: Series, place: int, x: Scale, y: Scale) -> str:
    points = [(x.at(s), y.at(v)) for s, v in zip(line.step, line.middle, strict=True)]
    dash = _dash(place, line.is_dashed)
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    drawn = [f'<polyline class="line s{place % N_COLOURS}" points="{path}"{dashed}/>']
    for (a, b), step, value in zip(points, line.step, line.middle, strict=True):
        shown = percent(value) if kind.is_share else number(float(value))
        tip = text(f"{line.label}\n{int(step):,} steps: {shown}")
        drawn.append(
            f'<circle class="dot f{place % N_COLOURS}" cx="{a:.1f}" cy="{b:.1f}" r="2.2" '
            f'data-tip="{tip}"><title>{tip}</title></circle>'
        )
    return "".join(drawn)
