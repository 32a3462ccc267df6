"""Tables of explorers: for the terminal, for spreadsheets, for papers."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from mdpdsl.explore.optimum import Limits
from mdpdsl.explore.summary import Summary

COLUMNS = ("policy", "failure", "L_Worst", "± se", "ratio", "L_Avg", "± se", "ratio", "steps/s")


def text_table(title: str, rows: Sequence[Summary], limits: Limits) -> str:
    """Return a table for the terminal, with ratios to the optimum."""
    cells = [COLUMNS, *(_cells(row, limits) for row in rows)]
    if limits.reason is None:
        figures = ("", figure(limits.worst), "", "", figure(limits.average), "", "", "")
        cells.append(("optimum", *figures))
    return "\n".join([title, *aligned(cells)])


def aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table: the first column left-aligned, all others right-aligned."""
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = []
    for row in cells:
        first = f"{row[0]:<{widths[0]}}"
        lines.append(
            "  ".join([first, *(f"{c:>{w}}" for c, w in zip(row[1:], widths[1:], strict=True))])
        )
    return lines


def csv_table(rows: Sequence[Summary], limits: Limits) -> str:
    """Return a table for a spreadsheet: one line per explorer, empty if there is no figure."""
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
    writer.writerow([*names, "ratio_worst", "ratio_average"])
    for row in rows:
        values = [getattr(row, name) for name in names]
        values += [limits.ratio_worst(row.worst), limits.ratio_average(row.average)]
        writer.writerow(["" if value is None else value for value in values])
    return buffer.getvalue()


def latex_table(title: str, rows: Sequence[Summary], limits: Limits) -> str:
    """Return a table like the paper's (paper, table compPolicy), the best figures in bold."""
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
        worst = latex_figure(row.worst, row.worst_se, best_worst)
        average = latex_figure(row.average, row.average_se, best_average)
        failure = rf"{100 * row.failure_rate:.0f}\%" if row.failure_rate else "0"
        lines.append(rf"{latex_label(row)} & {failure} & {worst} & {average} \\")
    if limits.reason is None:
        worst, average = (latex_figure(v, None, None) for v in (limits.worst, limits.average))
        lines += [r"\midrule", rf"optimum & & {worst} & {average} \\"]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _cells(row: Summary, limits: Limits) -> tuple[str, ...]:
    return (
        row.label,
        f"{row.failure_rate:.0%}",
        figure(row.worst),
        figure(row.worst_se),
        _ratio(limits.ratio_worst(row.worst)),
        figure(row.average),
        figure(row.average_se),
        _ratio(limits.ratio_average(row.average)),
        f"{row.steps_per_second:,.0f}",
    )


def figure(value: float | None) -> str:
    """Return a figure as text; `--` if there is none."""
    return "--" if value is None else f"{value:,.1f}"


def _ratio(value: float | None) -> str:
    return "--" if value is None else f"{value:.2f}"


def latex_label(row: Summary) -> str:
    """Return the name of an explorer as in the paper."""
    if row.algorithm != "kappa-dp":
        return row.algorithm
    horizon = "" if row.horizon == "inf" else f", H={row.horizon}"
    return rf"$\kappa$-Explorer ($\kappa={row.kappa:g}{horizon}$)"


def latex_figure(value: float | None, error: float | None, best: float | None) -> str:
    """Return a figure with its standard error, in bold if it is the best."""
    if value is None:
        return "--"
    text = rf"\textbf{{{value:.1f}}}" if value == best else f"{value:.1f}"
    return text if error is None else rf"{text} $\pm$ {error:.1f}"
