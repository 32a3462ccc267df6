"""Raw steps to which the same line of a law applies, and what the law says of them.

All that does not depend on unknown numbers is computed once: which line applies (guards are judged
at the raw point), which components of the mixture can lead to the next values, which next values
are at a bound, and every part of a term that reads no unknown number. A component with a certain
next value outweighs densities wherever it matches: of the components that match a step, only those
with the fewest densities count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.compile.derivatives import Derivatives
from mdpdsl.compile.enclosures import Box, enclose
from mdpdsl.compile.expressions import Array, Frame, evaluate
from mdpdsl.compile.quadrature import discrete_nodes
from mdpdsl.compile.rewriting import Known
from mdpdsl.compile.terms import Term, reads
from mdpdsl.compile.transitions import action_values
from mdpdsl.estimate.raw_densities import Observed, Slopes, log_density
from mdpdsl.estimate.raw_law import Density, Factor, RawBranch, RawLaw, RawRule
from mdpdsl.graph.space import SET_TOLERANCE, BoolArray, FloatArray, IntArray, Variable
from mdpdsl.logs.raw_steps import RawTransitions

#: How close to its law a certain next value must be, as a share of the range: single precision.
CLOSE = 1e-5
#: How close to a bound a number at it is logged, as a share of the bound: single precision, too.
AT_BOUND = 1e-6
#: Where no component is close: logs may be rounded to three digits.
NOT_FAR = 1e-3
#: In place of a line: no line applies at the raw point; the state restarts.
NO_LINE, RESTARTS = -1, -2

Key = tuple[str, str]


@dataclass(frozen=True, eq=False)
class ObservedFactor:
    """A density, and the numbers that were observed in some rows of a group.

    Its terms read unknown numbers and known values only. The slopes are those along each unknown
    number; None if they are 0.
    """

    position: int  # of the variable
    family: str
    location: Term
    scale: Term
    location_slopes: tuple[Term | None, ...]  # [k]
    scale_slopes: tuple[Term | None, ...]  # [k]
    rows: IntArray  # [m]  of the group
    seen: Observed  # [m]
    fixed: Slopes | None  # the log-density, if it reads no unknown number


@dataclass(frozen=True, eq=False)
class CertainValue:
    """A next value that is certain in a component."""

    position: int
    value: FloatArray  # [n]
    matches: BoolArray  # [n]


@dataclass(frozen=True, eq=False)
class Component:
    """One branch with one value of the discrete noise."""

    weight: float  # the probability of the noise
    probability: Term | None  # of the branch; None if it is 1
    probability_slopes: tuple[Term | None, ...]  # [k]
    known: Mapping[Key, Array]  # what its terms read beside unknown numbers
    needs: tuple[frozenset[int], ...]  # [V]  variables whose next values each one reads
    factors: tuple[ObservedFactor, ...]
    certain: tuple[CertainValue, ...]
    is_active: BoolArray  # [n]  whether it can lead to the next values that were logged


@dataclass(frozen=True, eq=False)
class Group:
    """The steps to which one line applies."""

    steps: IntArray  # [n]  their places in the log
    after: FloatArray  # [n, V]
    components: tuple[Component, ...]


@dataclass(frozen=True, eq=False)
class Contradictions:
    """Steps that the law excludes, whatever the unknown numbers are."""

    step: IntArray  # [m]  place in the log
    variable: IntArray  # [m]  the position of the variable; -1 if it is no single one
    size: FloatArray  # [m]  how far the next value is from that of the law; NaN if unclear


def grouped(law: RawLaw, steps: RawTransitions) -> tuple[list[Group], Contradictions]:
    """Group raw steps by the line that applies; steps of open lines and restarts are left out."""
    frame = _frame(law.model, steps)
    line = _applying_lines(law, frame, steps.action)
    groups = []
    nowhere = np.flatnonzero(line == NO_LINE)
    found = [(nowhere, np.full(len(nowhere), -1), np.full(len(nowhere), np.nan))]
    for number, rule in enumerate(law.rules):
        places = np.flatnonzero(line == number)
        if len(places) and not rule.is_open:
            part = frame.take(places, len(places))
            components, wrong = _Builder(law.model, part).components(rule)
            groups.append(Group(places, steps.after[places], components))
            found += [(places[rows], variable, size) for rows, variable, size in wrong]
    step, variable, size = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    return groups, Contradictions(step, variable, size)


def numbers_of(term: Term, frame: Frame) -> FloatArray:
    """Evaluate a term in every row of a frame."""
    return np.array(frame.full(evaluate(term, frame).values), np.float64)


def _frame(model: CheckedModel, steps: RawTransitions) -> Frame:
    """Return what terms read in each step: the state before it, the action, and the next values."""
    values: dict[Key, Array] = {}
    for kind, numbers in (("state", steps.before), ("next", steps.after)):
        for position, variable in enumerate(model.states.variables):
            column: Array = numbers[:, position]
            if variable.wraps:
                column = variable.saturate(column)
            values[kind, variable.name] = column != 0 if variable.kind == "bool" else column
    of_action = action_values(model)
    for factor in model.actions.variables:
        table = np.array([found["action", factor.name] for found in of_action])
        values["action", factor.name] = table[steps.action]
    return Frame(len(steps), values)


def _applying_lines(law: RawLaw, frame: Frame, action: IntArray) -> IntArray:
    line = np.full(frame.size, NO_LINE)
    restarts = np.zeros(frame.size, np.bool_)
    for guard in law.model.restarts:
        restarts |= _holds(guard, frame)
    for number, rules in enumerate(law.rules_of_action):
        places = np.flatnonzero((action == number) & ~restarts)
        part = frame.take(places, len(places))
        is_free = np.ones(len(places), np.bool_)
        for rule in rules:
            condition = None if law.rules[rule].is_otherwise else law.rules[rule].guard
            here = is_free if condition is None else is_free & _holds(condition, part)
            line[places[here]] = rule
            is_free = is_free & ~here
    return np.where(restarts, RESTARTS, line)


def _holds(guard: Term, frame: Frame) -> BoolArray:
    return frame.full(evaluate(guard, frame).values).astype(np.bool_)


#: Rows of a group, the variable that contradicts the law there, and by how much.
_Wrong = tuple[IntArray, IntArray, FloatArray]


@dataclass(frozen=True, eq=False)
class _Draft:
    """A component while it is built: which rows it matches, and how many densities count there."""

    component: Component
    is_close: BoolArray  # [n]
    is_not_far: BoolArray  # [n]
    n_densities: IntArray  # [n]
    wrong: list[_Wrong]


class _Builder:
    """Builds the components of one line for the rows of one group."""

    def __init__(self, model: CheckedModel, frame: Frame) -> None:
        self.model, self.frame = model, frame
        self._middle = {
            ("unknown", each.name): np.asarray((each.low + each.high) / 2)
            for each in model.unknowns
        }
        self._ranges = Box(
            tuple(each.name for each in model.unknowns),
            np.array([each.low for each in model.unknowns]),
            np.array([each.high for each in model.unknowns]),
        )
        self._derivatives = [Derivatives(each.name) for each in model.unknowns]

    def components(self, rule: RawRule) -> tuple[tuple[Component, ...], list[_Wrong]]:
        """Return the components, and the rows that no component explains."""
        drafts = [
            self._draft(branch, node, weight)
            for branch in rule.branches
            for node, weight in zip(*discrete_nodes(branch.noises), strict=True)
        ]
        if len(drafts) == 1:  # the other variables say something even where one is wrong
            return (drafts[0].component,), drafts[0].wrong
        fits = np.array([draft.is_close for draft in drafts])
        fits = np.where(fits.any(axis=0), fits, [draft.is_not_far for draft in drafts])
        count = np.array([draft.n_densities for draft in drafts])
        fewest = np.where(fits, count, np.iinfo(np.int64).max).min(axis=0)
        is_active = fits & (count == fewest)
        lost = np.flatnonzero(~fits.any(axis=0))
        wrong = (lost, np.full(len(lost), -1), np.full(len(lost), np.nan))
        components = tuple(
            replace(draft.component, is_active=active)
            for draft, active in zip(drafts, is_active, strict=True)
        )
        return components, [wrong]

    def _draft(self, branch: RawBranch, node: FloatArray, weight: float) -> _Draft:
        values = {
            ("noise", noise.name): np.asarray(value)
            for noise, value in zip(branch.noises, node, strict=True)
        }
        frame = self.frame.extended(values)
        known = Known(frame)
        n = frame.size
        is_close, is_not_far = np.ones(n, np.bool_), np.ones(n, np.bool_)
        n_densities = np.zeros(n, np.int64)
        hidden: dict[str, BoolArray] = {}  # where a variable is cut off at its range
        factors: list[ObservedFactor] = []
        certain: list[CertainValue] = []
        wrong: list[_Wrong] = []

        def judge(position: int, off: FloatArray, scale: float, where: BoolArray) -> BoolArray:
            close, not_far = off <= CLOSE * scale, off <= NOT_FAR * scale
            is_close[where & ~close] = False
            is_not_far[where & ~not_far] = False
            rows = np.flatnonzero(where & ~not_far)
            wrong.append((rows, np.full(len(rows), position), off[rows]))
            return np.asarray(not_far)

        for factor in branch.factors:
            variable = self.model.states.variables[factor.position]
            after = np.asarray(frame.values["next", variable.name], np.float64)
            shows = np.ones(n, np.bool_)
            for name in factor.replaced:
                shows &= ~hidden[name]
            if factor.density is None:
                value = numbers_of(factor.term, frame)
                off, scale = _distance(variable, after, value)
                matches = judge(factor.position, off, scale, shows)
                certain.append(CertainValue(factor.position, value, matches | ~shows))
                hidden[variable.name] = _is_at_end(variable, after)
                continue
            seen, violation = _observed(variable, factor.density, after, frame)
            hidden[variable.name] = seen.is_hidden
            judge(factor.position, violation, _width(variable), shows)
            shows &= ~(violation > NOT_FAR * _width(variable))
            is_random, mean = self._is_random(factor.density, frame)
            if mean is not None:
                off, scale = _distance(variable, after, mean)
                judge(factor.position, off, scale, shows & ~is_random)
            rows = np.flatnonzero(shows & is_random)
            factors.append(self._factor(factor, factor.density, known, rows, seen.taken(rows)))
            inside = np.ones(n, np.bool_)
            inside[seen.at_bound] = False
            n_densities[rows] += inside[rows]
        probability = None if branch.probability is None else known(branch.probability)
        component = Component(
            weight=float(weight),
            probability=probability,
            probability_slopes=self._slopes(branch.probability, known),
            known=known.values,
            needs=self._needs(branch),
            factors=tuple(factors),
            certain=tuple(certain),
            is_active=np.ones(n, np.bool_),
        )
        return _Draft(component, is_close, is_not_far, n_densities, wrong)

    def _needs(self, branch: RawBranch) -> tuple[frozenset[int], ...]:
        names = [variable.name for variable in self.model.states.variables]
        found = [frozenset[int]()] * len(names)
        for factor in branch.factors:
            following = {name for kind, name in reads(factor.term) if kind == "next"}
            found[factor.position] = frozenset(names.index(name) for name in following)
        return tuple(found)

    def _is_random(self, density: Density, frame: Frame) -> tuple[BoolArray, FloatArray | None]:
        """Return where the noise has a scale, and the next value elsewhere if that is certain.

        It has none where its scale is 0 for all unknown numbers.
        """
        middle = frame.extended(self._middle)
        location, scale = numbers_of(density.location, middle), numbers_of(density.scale, middle)
        is_random = np.isfinite(location) & np.isfinite(scale)
        if _reads_unknown(density.scale):
            most = enclose(density.scale, frame, self._ranges).upper
            scale = np.broadcast_to(most, (frame.size,))
        mean = None if _reads_unknown(density.location) else location
        return is_random & ~(scale <= 0), mean

    def _factor(
        self, factor: Factor, density: Density, known: Known, rows: IntArray, seen: Observed
    ) -> ObservedFactor:
        location, scale = known(density.location), known(density.scale)
        fixed = None
        if not _reads_unknown(location) and not _reads_unknown(scale):
            frame = Frame(self.frame.size, known.values)
            numbers = (numbers_of(term, frame)[rows] for term in (location, scale))
            fixed = log_density(density.family, seen, *numbers)
        return ObservedFactor(
            factor.position,
            density.family,
            location,
            scale,
            self._slopes(density.location, known),
            self._slopes(density.scale, known),
            rows,
            seen,
            fixed,
        )

    def _slopes(self, term: Term | None, known: Known) -> tuple[Term | None, ...]:
        found = [None if term is None else each(term) for each in self._derivatives]
        return tuple(None if slope is None else known(slope) for slope in found)


@dataclass(frozen=True, eq=False)
class _Bounded:
    """Next values of all rows of a group, and those at a bound."""

    x: FloatArray  # [n]
    low: FloatArray  # [n]
    high: FloatArray  # [n]
    is_low: BoolArray  # [n]
    is_high: BoolArray  # [n]
    is_hidden: BoolArray  # [n]  whether the range cut off more than the bounds of the model
    period: float | None

    @property
    def at_bound(self) -> BoolArray:
        """Whether a number is at one of its bounds."""
        return self.is_low | self.is_high

    def taken(self, rows: IntArray) -> Observed:
        """Return some rows."""
        return Observed(
            self.x[rows],
            np.flatnonzero(self.is_low[rows]),
            np.flatnonzero(self.is_high[rows]),
            self.low[rows],
            self.high[rows],
            self.period,
        )


def _observed(
    variable: Variable, density: Density, after: FloatArray, frame: Frame
) -> tuple[_Bounded, FloatArray]:
    """Return next values with their bounds, and how far they are beyond those of the model."""
    n, nothing = len(after), np.zeros(len(after), np.bool_)
    if variable.wraps:
        low, high = np.full(n, -np.inf), np.full(n, np.inf)
        period = _width(variable)
        return _Bounded(after, low, high, nothing, nothing, nothing, period), np.zeros(n)
    assert variable.edges is not None
    first, last = float(variable.edges[0]), float(variable.edges[-1])
    bounds = [
        np.full(n, end) if bound is None else numbers_of(bound, frame)
        for bound, end in zip(density.clip, (-np.inf, np.inf), strict=True)
    ]
    lowest, highest = np.minimum(bounds[0], bounds[1]), bounds[1]
    low, high = np.clip(lowest, first, last), np.clip(highest, first, last)
    is_low = after <= low + _blur(low, last - first)
    is_high = (after >= high - _blur(high, last - first)) & ~is_low
    is_hidden = (is_low & (lowest < first)) | (is_high & (highest > last))
    x = np.where(is_low, low, np.where(is_high, high, after))
    within = np.clip(after, first, last)
    violation = np.maximum(np.maximum(low - within, within - high), 0.0)
    return _Bounded(x, low, high, is_low, is_high, is_hidden, None), violation


def _distance(variable: Variable, after: FloatArray, value: FloatArray) -> tuple[FloatArray, float]:
    """Return how far next values are from those of the law, and what is a large distance."""
    if variable.kind != "real":
        return np.nan_to_num(np.abs(after - value), nan=np.inf), SET_TOLERANCE / CLOSE
    width = _width(variable)
    if variable.wraps:
        off = np.abs(np.mod(after - value + width / 2, width) - width / 2)
    else:
        off = np.abs(variable.saturate(after) - variable.saturate(value))
    return np.nan_to_num(off, nan=np.inf), width


def _is_at_end(variable: Variable, values: FloatArray) -> BoolArray:
    """Return whether numbers are at an end of a range that clips."""
    if variable.kind != "real" or variable.wraps:
        return np.zeros(len(values), np.bool_)
    assert variable.edges is not None
    first, last = float(variable.edges[0]), float(variable.edges[-1])
    near_first, near_last = (_blur(end, last - first) for end in (first, last))
    return np.asarray((values <= first + near_first) | (values >= last - near_last))


def _blur(bound: FloatArray | float, width: float) -> FloatArray | float:
    """Return how far from a bound a number at it may be logged."""
    return np.minimum(CLOSE * width, AT_BOUND * np.abs(bound))


def _width(variable: Variable) -> float:
    assert variable.edges is not None
    return float(variable.edges[-1] - variable.edges[0])


def _reads_unknown(term: Term) -> bool:
    return any(kind == "unknown" for kind, _ in reads(term))
