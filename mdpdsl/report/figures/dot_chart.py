"""Ratios to the optimum as inline SVG: a row per run, with L_Worst and L_Avg as multiples of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mdpdsl.report.figures.scales import Scale, scale
from mdpdsl.report.markup import number, text

WIDTH, ROW, TOP, BOTTOM = 400, 24, 8, 36
RIGHT = 14
#: The width of a letter of a row's name, and the largest width of a name.
LETTER, MOST_NAME = 5.9, 170


@dataclass(frozen=True)
class RatioRow:
    """One run: its ratios with their standard errors, None if it has none."""

    label: str
    worst: float | None
    worst_se: float | None
    average: float | None
    average_se: float | None


def dot_chart(rows: Sequence[RatioRow]) -> str:
    """Draw the ratios of runs; failed runs have a note instead of a mark."""
    left = min(MOST_NAME, max(len(row.label) for row in rows) * LETTER + 12)
    height = TOP + ROW * len(rows) + BOTTOM
    values = [v for row in rows for v in (row.worst, row.average) if v is not None]
    x = scale([1.0, *values], left + 6, WIDTH - RIGHT, is_log=True, margin=0.03)
    base = TOP + ROW * len(rows)
    drawn = []
    for value, label in x.ticks(5):
        at = f"{x.at(value):.1f}"
        drawn.append(f'<line class="grid" x1="{at}" x2="{at}" y1="{TOP}" y2="{base}"/>')
        drawn.append(f'<text class="tick mid" x="{at}" y="{base + 15}">{label}×</text>')
    one = f"{x.at(1.0):.1f}"
    drawn.append(f'<line class="optimum" x1="{one}" x2="{one}" y1="{TOP}" y2="{base}"/>')
    middle = (left + WIDTH - RIGHT) / 2
    drawn.append(
        f'<text class="name mid" x="{middle:.0f}" y="{base + 31}">multiples of the optimum</text>'
    )
    for i, row in enumerate(rows):
        drawn.append(_row(row, TOP + ROW * (i + 0.5), x, left))
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="L_Worst and L_Avg as multiples of the optimum">{"".join(drawn)}</svg>'
        '<ul class="legend"><li><svg class="mark" viewBox="0 0 12 12" aria-hidden="true">'
        '<circle class="worst" cx="6" cy="6" r="4.2"/></svg>L_Worst</li>'
        '<li><svg class="mark" viewBox="0 0 12 12" aria-hidden="true">'
        '<path class="average" d="M6 1 11 6 6 11 1 6Z"/></svg>L_Avg</li></ul>'
    )


def _row(row: RatioRow, y: float, x: Scale, left: float) -> str:
    most = int((left - 12) / LETTER)
    name = row.label if len(row.label) <= most else row.label[: most - 1] + "…"
    parts = [
        f'<text class="row end" x="{left - 4:.0f}" y="{y:.1f}" dy=".35em">{text(name)}'
        f"<title>{text(row.label)}</title></text>"
    ]
    marks = (
        ("L_Worst", row.worst, row.worst_se, True),
        ("L_Avg", row.average, row.average_se, False),
    )
    if all(value is None for _, value, _, _ in marks):
        at = x.at(1.0) + 8
        parts.append(
            f'<text class="note" x="{at:.0f}" y="{y:.1f}" dy=".35em">a pair was never visited'
            "</text>"
        )
    for name, value, error, is_worst in marks:
        if value is None:
            continue
        at = x.at(value)
        if error:
            low, high = x.at(max(value - error, x.low)), x.at(min(value + error, x.high))
            parts.append(
                f'<line class="whisker" x1="{low:.1f}" x2="{high:.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
            )
        spread = f" ± {number(error, 3)}" if error else ""
        tip = text(f"{row.label}\n{name}: {number(value, 3)}{spread} times the optimum")
        shape = (
            f'<circle class="worst" cx="{at:.1f}" cy="{y:.1f}" r="4.4" data-tip="{tip}">'
            f"<title>{tip}</title></circle>"
            if is_worst
            else f'<path class="average" transform="translate({at:.1f} {y:.1f})" '
            f'd="M0-5 5 0 0 5-5 0Z" data-tip="{tip}"><title>{tip}</title></path>'
        )
        parts.append(shape)
    return "".join(parts)
