"""The probabilities of the branches of a line, in all states at once, with their faults."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mdpdsl.compile.checked import Rule
from mdpdsl.compile.expressions import Frame, evaluate
from mdpdsl.compile.merge import ROUNDING
from mdpdsl.compile.outcome import report_faults
from mdpdsl.compile.problems import Problems
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
    total: FloatArray = np.zeros(())
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
            wrong = np.broadcast_to(wrong, (frame.size,))
            is_sound &= ~wrong
            if not result.faults:
                span = branch.probability.span
                _report(problems, "E502", span, _outside_unit, wrong, values, codes, action)
            values = np.where(wrong, 0.0, values)
        values = np.clip(values, 0.0, 1.0)
        if has_truth or not branch.is_open:
            total = total + values
        found.append(values)
    if not has_truth:
        return _with_shares(rule, found, total, is_sound, codes, action, problems)
    off = (np.abs(total - 1) > PROBABILITY_TOLERANCE) & is_sound
    if off.any():
        off = np.broadcast_to(off, (frame.size,))
        span = rule.branches_span
        _report(problems, "E501", span, _sum_is_not_one, off, total, codes, action)
    safe = np.where((total > 0) & (np.abs(total - 1) > ROUNDING), total, 1.0)
    return [values / safe for values in found]


def _with_shares(
    rule: Rule,
    found: list[FloatArray],
    total: FloatArray,
    is_sound: BoolArray,
    codes: IntArray,
    action: int,
    problems: Problems,
) -> list[FloatArray]:
    """Let the open branches of a rule share equally what the known ones leave."""
    left = np.asarray(1.0 - total)
    none_left = np.broadcast_to((left <= PROBABILITY_TOLERANCE) & is_sound, is_sound.shape)
    if none_left.any():
        span = rule.branches_span
        _report(problems, "E501", span, _nothing_left, none_left, total, codes, action)
    each = np.maximum(left, 0.0) / sum(branch.is_open for branch in rule.branches)
    whole = np.maximum(total, 1.0)
    return [
        (each if branch.is_open else values) / whole
        for branch, values in zip(rule.branches, found, strict=True)
    ]


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
