"""Pieces of HTML and SVG: escaped text, rounded numbers, tables."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def text(value: object) -> str:
    """Escape a text for HTML and for attributes in double quotes."""
    return html.escape(str(value), quote=True)


def number(value: float | None, digits: int = 4) -> str:
    """Format a number with a few digits; None becomes a dash."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    if float(value).is_integer() and abs(value) < 1e6:
        return f"{value:,.0f}".replace("-", "−")
    size = math.floor(math.log10(abs(value)))
    if size < -4:
        return f"{value / 10**size:.{digits - 2}f}·{power(size)}".replace("-", "−")
    decimals = max(0, digits - 1 - size)
    return f"{value:,.{decimals}f}".replace("-", "−")


def power(exponent: int) -> str:
    """Format a power of ten."""
    return f"10{str(exponent).translate(_SUPERSCRIPTS)}"


def tick_texts(values: Sequence[float], *, is_log: bool) -> list[str]:
    """Format the ticks of an axis: as powers of ten if all of them are, otherwise as numbers."""
    exponents = [round(math.log10(v)) if v > 0 else 0 for v in values]
    are_powers = is_log and all(
        math.isclose(v, 10.0**e) for v, e in zip(values, exponents, strict=True)
    )
    if are_powers and not all(-3 <= e <= 4 for e in exponents):
        return [power(e) for e in exponents]
    is_scientific = any(0 < abs(v) < 1e-4 or abs(v) >= 1e7 for v in values)
    # With enough digits that no two ticks of a narrow axis look the same.
    for digits in range(3 if is_scientific else 6, 18):
        if is_scientific:
            texts = [_scientific(v, digits) for v in values]
        else:
            texts = [f"{v:,.{digits}g}".replace("-", "−") for v in values]
        if len(set(texts)) == len(set(values)):
            break
    return texts


def _scientific(value: float, digits: int) -> str:
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)) + 1e-9)
    digit = f"{value / 10.0**exponent:.{digits}g}".replace("-", "−")
    return power(exponent) if digit == "1" else f"{digit}·{power(exponent)}"


def percent(share: float) -> str:
    """Format a share as a percentage; only exact values become 0 % or 100 %."""
    if 0.999 <= share < 1:
        return f"{math.floor(1e4 * share) / 100:.2f} %"
    if 0 < share < 0.0005:
        return f"{max(share, 1e-4) * 100:.2g} %"
    return f"{100 * share:.3g} %"


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, kind: str = "figures"
) -> str:
    """Return a table of HTML cells; the first `left` columns are text and aligned left."""
    sides = ["" if i < left else ' class="n"' for i in range(len(head))]
    top = "".join(f'<th scope="col"{s}>{h}</th>' for s, h in zip(sides, head, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{s}>{c}</td>" for s, c in zip(sides, row, strict=True)) + "</tr>"
        for row in rows
    )
    return (
        f'<div class="wide"><table class="{kind}"><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def definitions(rows: Sequence[tuple[str, str]]) -> str:
    """Return a list of names with their values, which are HTML."""
    listed = "".join(f"<dt>{text(name)}</dt><dd>{value}</dd>" for name, value in rows)
    return f"<dl>{listed}</dl>"
