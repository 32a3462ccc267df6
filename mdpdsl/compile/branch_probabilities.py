"""The probabilities of the branches of a line, in all states at once, with their faults."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mdpdsl.compile.checked import Rule
from mdpdsl.compile.expressions import Frame, evaluate
from mdpdsl.compile.merge import ROUNDING
from mdpdsl.compile.outcome import report_faults
from mdpdsl.compile.problems import Problems
from mdpdsl.compile.terms import Term, reads
from mdpdsl.diagnostics import Span
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray

#: How far a sum of probabilities may be from 1, and a probability outside [0, 1].
PROBABILITY_TOLERANCE = 1e-9


def branch_probabilities(
    rule: Rule, codes: IntArray, frame: Frame, action: int, problems: Problems
) -> list[FloatArray]:
    """Evaluate the branch probabilities of a rule; report those that are not a distribution.

    Unless all open branches of a rule have a truth, they share equally what the known ones leave.
    """
    found: list[FloatArray] = []
    known: FloatArray = np.zeros(())
    given: FloatArray = np.zeros(())  # those that are known, and the truths of `?`
    is_sound = np.ones(frame.size, np.bool_)
    has_truth = all(branch.probability is not None for branch in rule.branches)
    for branch in rule.branches:
        if branch.probability is None:
            found.append(np.zeros(()))
            continue
        result = evaluate(branch.probability, frame)
        report_faults(problems, result, frame, codes, action)
        values = np.asarray(result.values, dtype=np.float64)
        wrong = (values < -PROBABILITY_TOLERANCE) | (values > 1 + PROBABILITY_TOLERANCE)
        wrong |= ~np.isfinite(values)
        if wrong.any():
            values = np.where(wrong, 0.0, values)
            if not branch.is_rest:  # the other branches are wrong, or their sum
                wrong = np.broadcast_to(wrong, (frame.size,))
                is_sound &= ~wrong
                if not result.faults:
                    span, shown = branch.probability.span, np.asarray(result.values)
                    _report(problems, "E502", span, _outside_unit, wrong, shown, codes, action)
        values = np.clip(values, 0.0, 1.0)
        if not branch.is_open:
            known = known + values
        if not branch.is_open or has_truth or not _reads_numbers(branch.probability):
            given = given + values
        found.append(values)
    if any(branch.is_open for branch in rule.branches):
        none_left = (1.0 - known <= PROBABILITY_TOLERANCE) & is_sound
        if none_left.any():
            span = rule.branches_span
            _report(problems, "E501", span, _nothing_left, none_left, known, codes, action)
            is_sound &= ~none_left
    off = (np.abs(given - 1) if has_truth else given - 1) > PROBABILITY_TOLERANCE
    off = off & is_sound
    if off.any():
        say = _sum_is_not_one if has_truth else _truths_exceed_one
        if any(branch.is_rest for branch in rule.branches):
            say = _nothing_left
        _report(problems, "E501", rule.branches_span, say, off, given, codes, action)
    if not has_truth:
        return _with_shares(rule, found, known)
    safe = np.where((given > 0) & (np.abs(given - 1) > ROUNDING), given, 1.0)
    return [values / safe for values in found]


def _with_shares(rule: Rule, found: list[FloatArray], known: FloatArray) -> list[FloatArray]:
    """Let the open branches of a rule share equally what the known ones leave."""
    each = np.maximum(1.0 - known, 0.0) / sum(branch.is_open for branch in rule.branches)
    whole = np.maximum(known, 1.0)
    return [
        (each if branch.is_open else values) / whole
        for branch, values in zip(rule.branches, found, strict=True)
    ]


def _reads_numbers(probability: Term) -> bool:
    return any(kind == "unknown" for kind, _ in reads(probability))


def _report(
    problems: Problems,
    code: str,
    span: Span,
    say: Callable[[float], str],
    rows: BoolArray,
    values: FloatArray,
    codes: IntArray,
    action: int,
) -> None:
    places = np.flatnonzero(rows)
    shown = np.broadcast_to(values, rows.shape)[places]
    states = codes[places // (len(rows) // len(codes))]
    problems.add(code, span, say, states, values=shown, action=action)


def _outside_unit(value: float) -> str:
    return f"the probability {value:.6g} is outside [0, 1]"


def _sum_is_not_one(value: float) -> str:
    return f"branch probabilities sum to {value:.10g}, not 1"


def _nothing_left(value: float) -> str:
    return f"the known probabilities sum to {value:.10g}, which leaves nothing for `?`"


def _truths_exceed_one(value: float) -> str:
    return f"the known probabilities and the truths of `?` sum to {value:.10g}, more than 1"
