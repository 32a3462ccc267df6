"""The section of a page about unknown numbers: estimates, intervals, and where they fail."""

from __future__ import annotations

import math

import numpy as np

from mdpdsl.compile.set_model import interval_text, value_text
from mdpdsl.estimate.learned_numbers import LearnedNumbers
from mdpdsl.estimate.run_result import RunResult
from mdpdsl.report.figures.likelihood_profiles import (
    ProfilePanel,
    has_profiles,
    profile_panels,
    true_values,
)
from mdpdsl.report.figures.profile_chart import profile_chart
from mdpdsl.report.markup import number, percent, table, text

#: How many rows that contradict the law are listed.
LISTED_ROWS = 10


def numbers_section(run: RunResult) -> str:
    """Return what the data of a run say about its unknown numbers; empty if it has none."""
    if not has_profiles(run) or run.numbers is None:
        return ""
    learned = run.numbers
    notes = "".join(f'<p class="note">{_sentence(note)}</p>' for note in learned.notes)
    charts = "".join(_chart(panel, learned) for panel in profile_panels([run], [run.label]))
    shown = f'{_explained()}<div class="plots small">{charts}</div>' if charts else ""
    return f"{_origin(run, learned)}{_table(run, learned)}{notes}{_misfit(learned)}{shown}"


def rows_by_knowledge(run: RunResult) -> str | None:
    """Return how many rows are known, open and laws; None if the file leaves nothing open."""
    knowledge = run.graph.knowledge
    if knowledge is None:
        return None
    is_open = ~knowledge.is_known
    counted = {
        "known": knowledge.is_known,
        "with ?": is_open & ~knowledge.is_law,
        "with unknown numbers": is_open & knowledge.is_law,
    }
    found = {what: int(np.count_nonzero(rows)) for what, rows in counted.items()}
    return ", ".join(f"{n:,} {what}" for what, n in found.items() if n)


def _origin(run: RunResult, learned: LearnedNumbers) -> str:
    """Say which data the numbers are from."""
    estimate = learned.parameters
    which = " of the first trial" if len(run.trials) > 1 else ""
    counted = f"the {learned.source} of {estimate.n:,} transitions{which}"
    return f'<p class="quiet">The most likely values, by {counted}.</p>'


def _table(run: RunResult, learned: LearnedNumbers) -> str:
    estimate, truth = learned.parameters, true_values(run)
    sure = percent(1 - estimate.delta)
    head = ["number", "estimate", f"{sure} at every look", f"{sure} at one look, asymptotic"]
    head += ["declared range", *(["truth"] if truth else [])]
    rows = []
    for j, name in enumerate(estimate.names):
        cells = [
            f"<b>{text(name)}</b>",
            "no value fits"
            if estimate.is_empty
            else "not found"
            if math.isnan(estimate.value[j])
            else _value(float(estimate.value[j]), float(estimate.deviation[j])),
            _interval(estimate.interval_low[j], estimate.interval_high[j]),
            _interval(estimate.profile_low[j], estimate.profile_high[j]),
            f"[{estimate.low[j]:.6g}, {estimate.high[j]:.6g}]".replace("-", "−"),
        ]
        rows.append([*cells, *([number(truth.get(name))] if truth else [])])
    return table(head, rows, left=1)


def _value(value: float, deviation: float) -> str:
    """Format a value with the digits that its deviation leaves."""
    if not (math.isfinite(deviation) and deviation > 0):
        return f"{number(value, 3)}, not determined"
    return value_text(value, deviation).replace("-", "−")


def _interval(low: float, high: float) -> str:
    if not np.isfinite([low, high]).all():
        return "–"
    return interval_text(float(low), float(high)).replace("-", "−")


def _misfit(learned: LearnedNumbers) -> str:
    """List the rows that contradict the law, with the p-values of their tests."""
    misfit = learned.misfit
    tested = f"{misfit.n_tests:,} row{'' if misfit.n_tests == 1 else 's'} tested"
    if not misfit.is_found:
        return f"<p>No row contradicts the law ({tested}).</p>"
    n = learned.n_misfit
    verb = "row contradicts" if n == 1 else "rows contradict"
    p_values = [*misfit.overall_p_values, *misfit.p_values.tolist()]
    listed = [
        f"<li>{text(sentence)}{_p_value(p, sentence)}</li>"
        for sentence, p in zip(misfit.texts, p_values, strict=True)
    ]
    left = len(listed) - LISTED_ROWS
    more = f'<p class="quiet">and {left:,} more</p>' if left > 0 else ""
    return (
        f"<p><b>{n:,} {verb} the law</b> ({tested}; the risk of naming any row in which it "
        f"holds is at most {percent(misfit.level)}), the least likely first:</p>"
        f'<ul class="rows">{"".join(listed[:LISTED_ROWS])}</ul>{more}'
    )


def _p_value(p: float, sentence: str) -> str:
    """Return the p-value of a row, unless its sentence has it."""
    return "" if "p = " in sentence else f' <span class="quiet">(p = {p:.1g})</span>'


def _explained() -> str:
    return (
        '<p class="quiet">Profile likelihoods: the largest log-likelihood for each value of a '
        "number, less its maximum. All values for which it is above the dotted line belong to the "
        "interval that holds at every look.</p>"
    )


def _chart(panel: ProfilePanel, learned: LearnedNumbers) -> str:
    estimate = learned.parameters
    j = estimate.names.index(panel.name)
    value = _value(float(estimate.value[j]), float(estimate.deviation[j]))
    return (
        f'<figure class="plot likelihood"><figcaption><b>{text(panel.name)}</b> {value}'
        f"</figcaption>{profile_chart(panel)}</figure>"
    )


def _sentence(note: str) -> str:
    """Return a note as a sentence, with its code marked."""
    parts = text(note[0].upper() + note[1:]).split("`")
    marked = "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))
    return marked if marked.endswith(".") else f"{marked}."
