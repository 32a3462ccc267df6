"""Tables of explorers: for people, for spreadsheets, for papers."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from mdpdsl.explore.summary import Summary

COLUMNS = ("policy", "failure", "L_Worst", "± se", "L_Avg", "± se", "steps/s")


def text_table(title: str, rows: Sequence[Summary]) -> str:
    """Return a table for a terminal."""
    cells = [COLUMNS, *(_cells(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(COLUMNS))]
    lines = [title]
    for row in cells:
        first = f"{row[0]:<{widths[0]}}"
        lines.append(
            "  ".join([first, *(f"{c:>{w}}" for c, w in zip(row[1:], widths[1:], strict=True))])
        )
    return "\n".join(lines)


def csv_table(rows: Sequence[Summary]) -> str:
    """Return a table for a spreadsheet: one line per explorer, empty where there is no figure."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    names = (
        "algorithm",
        "kappa",
        "horizon",
        "n_trials",
        "failure_rate",
        "worst",
        "worst_se",
        "average",
        "average_se",
        "squared_error",
        "steps_per_second",
    )
    writer.writerow(names)
    for row in rows:
        writer.writerow(["" if (v := getattr(row, name)) is None else v for name in names])
    return buffer.getvalue()


def latex_table(title: str, rows: Sequence[Summary]) -> str:
    """Return a table as in the paper (paper, table compPolicy), the best figures in bold."""
    best_worst = min((r.worst for r in rows if r.worst is not None), default=None)
    best_average = min((r.average for r in rows if r.average is not None), default=None)
    lines = [
        f"% {title}",
        r"\begin{tabular}{lccc}",
        r"\toprule",
        r"Policy & Failure$\downarrow$ & $\mathcal{L}_{\mathrm{Worst}}\downarrow$ "
        r"& $\mathcal{L}_{\mathrm{Avg}}\downarrow$ \\",
        r"\midrule",
    ]
    for row in rows:
        worst = _latex_figure(row.worst, row.worst_se, best_worst)
        average = _latex_figure(row.average, row.average_se, best_average)
        failure = rf"{100 * row.failure_rate:.0f}\%" if row.failure_rate else "0"
        lines.append(rf"{_latex_label(row)} & {failure} & {worst} & {average} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _cells(row: Summary) -> tuple[str, ...]:
    return (
        row.label,
        f"{row.failure_rate:.0%}",
        _figure(row.worst),
        _figure(row.worst_se),
        _figure(row.average),
        _figure(row.average_se),
        f"{row.steps_per_second:,.0f}",
    )


def _figure(value: float | None) -> str:
    return "--" if value is None else f"{value:,.1f}"


def _latex_label(row: Summary) -> str:
    if row.algorithm != "kappa-dp":
        return row.algorithm
    horizon = "" if row.horizon == "inf" else f", H={row.horizon}"
    return rf"$\kappa$-Explorer ($\kappa={row.kappa:g}{horizon}$)"


def _latex_figure(value: float | None, error: float | None, best: float | None) -> str:
    if value is None:
        return "--"
    text = rf"\textbf{{{value:.1f}}}" if value == best else f"{value:.1f}"
    return text if error is None else rf"{text} $\pm$ {error:.1f}"
