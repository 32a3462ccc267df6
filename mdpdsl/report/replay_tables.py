"""Tables of explorers replayed on one log: at the end of each, and after equal steps."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from mdpdsl.explore.comparison import replay_row_record
from mdpdsl.explore.replay.replay_summary import ReplayRow
from mdpdsl.report.comparison_tables import aligned, figure, latex_figure, latex_label

COLUMNS = (
    "policy",
    "steps",
    "of log",
    "visited",
    "failure",
    "L_Worst",
    "L_Avg",
    "distance",
    "steps/s",
)
COMMON_COLUMNS = ("policy", "visited", "failure", "L_Worst", "L_Avg", "distance")

#: The text below a table.
EXPLANATION = (
    "A replay ends when the log has no more transitions of the pair that an explorer asks for, so "
    "each explorer\nmakes its own number of steps; to compare what they learned, look at equal "
    "steps. L uses c of the whole\nlog; visited, failure and distance are about its pairs."
)


def replay_text_table(title: str, rows: Sequence[ReplayRow], common_steps: int) -> str:
    """Return tables for the terminal: at the end of each explorer, and after equal steps."""
    own = [COLUMNS, *(_own_cells(row) for row in rows)]
    common = [COMMON_COLUMNS, *(_common_cells(row) for row in rows)]
    lines = [title, "", "at the end of each:", *aligned(own), ""]
    lines += [f"all after {common_steps:,} steps, the most that all of them did:"]
    return "\n".join([*lines, *aligned(common), "", EXPLANATION])


def replay_csv_table(rows: Sequence[ReplayRow], common_steps: int) -> str:
    """Return a table for a spreadsheet: one line per explorer, empty if there is no figure."""
    records = [replay_row_record(row, common_steps) for row in rows]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    names = list(records[0]) if records else []
    writer.writerow(names)
    for record in records:
        writer.writerow(["" if record[name] is None else record[name] for name in names])
    return buffer.getvalue()


def replay_latex_table(title: str, rows: Sequence[ReplayRow], common_steps: int) -> str:
    """Return a table for a paper, the best figures after equal steps in bold."""
    common = [row.common.summary for row in rows]
    best_worst = min((s.worst for s in common if s.worst is not None), default=None)
    best_average = min((s.average for s in common if s.average is not None), default=None)
    number = f"{common_steps:,}".replace(",", "{,}")
    loss = r"$\mathcal{L}_{\mathrm{Worst}}$ & $\mathcal{L}_{\mathrm{Avg}}$"
    lines = [
        f"% {title}",
        r"\begin{tabular}{lccccccc}",
        r"\toprule",
        rf"& \multicolumn{{4}}{{c}}{{at its end}} & \multicolumn{{3}}{{c}}{{$n = {number}$}} \\",
        rf"Policy & Steps & Visited & {loss} & Visited & {loss} \\",
        r"\midrule",
    ]
    for row in rows:
        own, same = row.own.summary, row.common.summary
        cells = (
            latex_label(own),
            f"{row.own.steps_done:.0f}",
            rf"{100 * row.own.coverage:.1f}\%",
            latex_figure(own.worst, own.worst_se, None),
            latex_figure(own.average, own.average_se, None),
            rf"{100 * row.common.coverage:.1f}\%",
            latex_figure(same.worst, same.worst_se, best_worst),
            latex_figure(same.average, same.average_se, best_average),
        )
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _own_cells(row: ReplayRow) -> tuple[str, ...]:
    own = row.own
    return (
        own.summary.label,
        f"{own.steps_done:,.0f}",
        f"{own.share_of_log:.1%}",
        f"{own.coverage:.1%}",
        f"{own.summary.failure_rate:.0%}",
        figure(own.summary.worst),
        figure(own.summary.average),
        f"{own.distance_to_log:.3g}",
        f"{own.summary.steps_per_second:,.0f}",
    )


def _common_cells(row: ReplayRow) -> tuple[str, ...]:
    same = row.common
    return (
        same.summary.label,
        f"{same.coverage:.1%}",
        f"{same.summary.failure_rate:.0%}",
        figure(same.summary.worst),
        figure(same.summary.average),
        f"{same.distance_to_log:.3g}",
    )
