"""Where raw steps do not follow their law: tests of the noise in them, pair by pair.

The probability of a next value or a smaller one, given the values before it, is uniform if the law
holds (Rosenblatt, 1952); the normal score z of that probability is then standard normal. A value
that has a probability of its own, such as a bound, gets a random place within it (Dunn and Smyth,
1996). For a law m + k*w with normal noise, z is the standardised residual. Of the n scores of a
pair and a variable, the mean is normal with deviation 1/sqrt(n), and the sum of squares is
chi-square with n degrees of freedom; at least n - h, since the scores are those at the fit, where h
is the leverage of these steps. The p-value of a pair is the smallest of these times their number.
What is off a little in many pairs shows in all of them together (`raw_trends`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mdpdsl.compile.expressions import Frame
from mdpdsl.estimate.raw_densities import distribution, log_density
from mdpdsl.estimate.raw_groups import Component, Group, ObservedFactor, numbers_of
from mdpdsl.estimate.raw_likelihood import RawLikelihood
from mdpdsl.estimate.raw_trends import RawScores, Trend, least_covariance, trends
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray, Variable

#: Scores beyond this are cut off: their probability has no floating-point number.
LARGEST_SCORE = 38.0
#: A value more likely than this shows nothing.
CERTAIN = 1 - 1e-9
#: With fewer degrees of freedom than this, scores may be small because they were fitted.
LEAST_FREEDOM = 0.5


@dataclass(frozen=True, eq=False)
class RawMisfit:
    """For each pair with steps: how likely data this far from the law are, if it holds."""

    pair: IntArray  # [m]
    p_value: FloatArray  # [m]  not corrected for the number of pairs; 0: excluded by the law
    n: IntArray  # [m]  steps of the pair
    words: tuple[str, ...]  # [m]  what is off most
    trends: tuple[Trend, ...]  # of all pairs together


def raw_misfit(likelihood: RawLikelihood, theta: FloatArray, seed: int = 0) -> RawMisfit:
    """Test the law at the most likely unknown numbers, for every pair with steps."""
    steps, variables = likelihood.steps, likelihood.law.model.states.variables
    parts: list[RawScores] = []
    rng = np.random.default_rng(seed)
    for group in likelihood.groups:
        parts += _Group(likelihood, group, theta, rng).scores()
    scores = RawScores.joined(parts, len(likelihood.names))
    wrong = likelihood.contradictions
    judged = np.unique(np.concatenate([wrong.step, *(group.steps for group in likelihood.groups)]))
    pairs, n = np.unique(steps.pair[judged], return_counts=True)
    number = np.searchsorted(pairs, steps.pair)  # of the pair of each step that was judged
    covariance = least_covariance(likelihood, theta)
    p_value, words = _tested(scores, number, len(pairs), variables, covariance)
    largest_first = np.argsort(-np.nan_to_num(wrong.size, nan=np.inf), kind="stable")
    found, first = np.unique(number[wrong.step][largest_first], return_index=True)
    for i, k in zip(found.tolist(), largest_first[first].tolist(), strict=True):
        p_value[i] = 0.0
        words[i] = _excluded(variables, int(wrong.variable[k]), float(wrong.size[k]))
    found_trends = trends(likelihood, scores, number, covariance)
    return RawMisfit(pairs, p_value, n, tuple(words), found_trends)


def _excluded(variables: tuple[Variable, ...], position: int, size: float) -> str:
    if position < 0:
        return "the law excludes a step: no line and no branch leads there"
    name = f"{variables[position].name}'"
    if variables[position].kind != "real" or not np.isfinite(size):
        return f"the law excludes a step: {name} is not what its line says"
    return f"the law excludes a step: {name} is off by {size:.2g}"


def _tested(
    scores: RawScores,
    number: IntArray,
    n_pairs: int,
    variables: tuple[Variable, ...],
    covariance: FloatArray,
) -> tuple[FloatArray, list[str]]:
    """Return a p-value and words for each pair, given the number of the pair of each step."""
    from scipy.special import chdtr, chdtrc, ndtr

    p_value, words = np.ones(n_pairs), [""] * n_pairs
    n_variables = len(variables)
    cell = number[scores.step] * n_variables + scores.position
    size, z = n_pairs * n_variables, scores.z

    def sums(weights: FloatArray) -> FloatArray:
        found = np.bincount(cell, weights, size).astype(np.float64)
        return found.reshape(n_pairs, n_variables)

    n, total, squares = sums(np.ones_like(z)), sums(z), sums(z * z)
    freedom = n - sums(scores.leverage(covariance))
    with np.errstate(invalid="ignore", divide="ignore"):
        mean_p = 2 * ndtr(-np.abs(total) / np.sqrt(n))
        small_p = np.where(freedom >= LEAST_FREEDOM, chdtr(freedom, squares), 1.0)
        spread_p = 2 * np.minimum(small_p, chdtrc(n, squares))
        average, ratio = sums(scores.excess) / n, np.sqrt(squares / n)
    tests = np.stack([mean_p, spread_p], axis=2)  # [n_pairs, V, 2]
    tests[n == 0] = 1.0
    n_tests = 2 * np.count_nonzero(n, axis=1)
    flat = tests.reshape(n_pairs, -1)
    best = flat.argmin(axis=1)
    p_value = np.where(n_tests > 0, np.minimum(1.0, flat.min(axis=1) * n_tests), 1.0)
    for i in np.flatnonzero(n_tests).tolist():
        v, kind = divmod(int(best[i]), 2)
        words[i] = _words(variables[v], kind, float(average[i, v]), float(ratio[i, v]))
    return p_value, words


def _words(variable: Variable, kind: int, average: float, ratio: float) -> str:
    name = f"{variable.name}'"
    if variable.kind in ("enum", "bool"):
        return f"the values of {name} do not have the probabilities that the law says"
    if kind == 0:
        side = "larger" if average > 0 else "smaller"
        return f"{name} is {side} than the law says by {abs(average):.2g} on average"
    return f"{name} varies {ratio:.{2 if ratio < 1 else 3}g} times as much as the law says"


class _Group:
    """The scores of the steps of one line, variable by variable in order of computation."""

    def __init__(
        self,
        likelihood: RawLikelihood,
        group: Group,
        theta: FloatArray,
        rng: np.random.Generator,
    ) -> None:
        self._group, self._rng = group, rng
        self._variables = likelihood.law.model.states.variables
        self._names = likelihood.names
        self._frames = [likelihood.frame(group, each, theta) for each in group.components]
        chances = [likelihood.chance(group, each, theta)[0] for each in group.components]
        self._share = np.array(chances)  # [C, n]  of each component, given the values so far

    def scores(self) -> list[RawScores]:
        """Return the scores; there are none if the branches of the line share no order."""
        found = []
        for position in _common_order(self._group.components):
            laws = [
                _law_of(each, frame, position, self._group.after[:, position], self._variables)
                for each, frame in zip(self._group.components, self._frames, strict=True)
            ]
            found.append(self._scores(position, laws))
        return found

    def _scores(self, position: int, laws: list[_ValueLaw]) -> RawScores:
        """Return the scores of a variable, and by how much it exceeds its mean under the law."""
        from scipy.special import ndtri

        with np.errstate(all="ignore"):
            share = self._share / self._share.sum(axis=0)
            cut = laws[0].mean - (laws[0].period or 0.0) / 2
            ends = [law.distribution(cut) for law in laws]
            below = sum(w * low for w, (low, _) in zip(share, ends, strict=True))
            up_to = sum(w * high for w, (_, high) in zip(share, ends, strict=True))
            mean = sum(w * law.mean for w, law in zip(share, laws, strict=True))
        below, up_to, mean = (np.asarray(each, np.float64) for each in (below, up_to, mean))
        place = below + self._rng.random(len(below)) * (up_to - below)
        is_shown = np.all([law.is_shown for law in laws], axis=0)
        is_shown &= (up_to - below < CERTAIN) & np.isfinite(place)
        if len(laws) == 1 and laws[0].score is not None:
            z = np.where(laws[0].is_inside, laws[0].score, ndtri(place))
        else:
            z = ndtri(place)
        excess = self._group.after[:, position] - mean
        period = laws[0].period
        if period is not None:
            excess = np.mod(excess + period / 2, period) - period / 2
        rows = np.flatnonzero(is_shown & ~np.isnan(z))
        if len(laws) > 1:
            self._update(laws)
        return RawScores(
            step=self._group.steps[rows],
            position=np.full(len(rows), position),
            z=np.clip(z[rows], -LARGEST_SCORE, LARGEST_SCORE),
            excess=excess[rows],
            slope=self._slope(laws)[:, rows],
        )

    def _slope(self, laws: list[_ValueLaw]) -> FloatArray:
        """Return how the scores fall along each unknown number, [k, n]; NaN if unclear."""
        factor, k, n = laws[0].factor, len(self._names), len(self._group.steps)
        if all(law.factor is None or law.factor.fixed is not None for law in laws):
            return np.zeros((k, n))
        if len(laws) > 1 or factor is None or factor.family != "normal":
            return np.full((k, n), np.nan)
        found = np.zeros((k, n))
        with np.errstate(all="ignore"):
            for j, term in enumerate(factor.location_slopes):
                if term is not None:
                    found[j] = numbers_of(term, self._frames[0]) / laws[0].scale
        return np.where(np.isfinite(found), found, 0.0)

    def _update(self, laws: list[_ValueLaw]) -> None:
        """Condition the shares of components on a value: probabilities come before densities."""
        heights = [law.height() for law in laws]
        masses = np.array([mass for mass, _ in heights])
        densities = np.array([density for _, density in heights])
        has_mass = ((self._share > 0) & (masses > 0)).any(axis=0)
        self._share = self._share * np.where(has_mass, masses, densities)


@dataclass(frozen=True, eq=False)
class _ValueLaw:
    """The law of one next value in one component, in all rows of a group."""

    factor: ObservedFactor | None
    location: FloatArray  # [n]
    scale: FloatArray  # [n]
    mean: FloatArray  # [n]
    x: FloatArray  # [n]
    is_match: BoolArray  # [n]  of a certain value
    is_shown: BoolArray  # [n]  whether the row has this factor
    period: float | None

    @property
    def is_inside(self) -> BoolArray:
        """Whether a value has a density."""
        inside = self.is_shown.copy()
        if self.factor is not None:
            inside[self.factor.rows[self.factor.seen.at_low]] = False
            inside[self.factor.rows[self.factor.seen.at_high]] = False
        return inside

    @property
    def score(self) -> FloatArray | None:
        """The standardised residual, for normal noise."""
        if self.factor is None or self.factor.family != "normal":
            return None
        offset = self.x - self.location
        if self.period is not None:
            if np.any(self.scale * 6 > self.period / 2):
                return None
            offset = np.mod(offset + self.period / 2, self.period) - self.period / 2
        with np.errstate(all="ignore"):
            return np.asarray(offset / self.scale)

    def distribution(self, cut: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the probability of less than each value, and of at most as much."""
        if self.factor is None:
            above = (self.x > self.mean) & ~self.is_match
            return above.astype(np.float64), (above | self.is_match).astype(np.float64)
        below, up_to = np.zeros(len(self.x)), np.ones(len(self.x))
        rows = self.factor.rows
        below[rows], up_to[rows] = distribution(
            self.factor.family, self.factor.seen, self.location[rows], self.scale[rows], cut[rows]
        )
        return below, up_to

    def height(self) -> tuple[FloatArray, FloatArray]:
        """Return the probability of each value itself, and its density; one of them is 0."""
        if self.factor is None:
            return self.is_match.astype(np.float64), np.zeros(len(self.x))
        rows = self.factor.rows
        heights = np.ones(len(self.x))
        logs = log_density(
            self.factor.family, self.factor.seen, self.location[rows], self.scale[rows]
        )[0]
        heights[rows] = np.exp(logs)
        is_inside = self.is_inside
        return np.where(is_inside, 0.0, heights), np.where(is_inside, heights, 0.0)


def _law_of(
    component: Component,
    frame: Frame,
    position: int,
    after: FloatArray,
    variables: tuple[Variable, ...],
) -> _ValueLaw:
    n, variable = len(after), variables[position]
    period = None
    if variable.wraps:
        assert variable.edges is not None
        period = float(variable.edges[-1] - variable.edges[0])
    nowhere = np.zeros(n, np.bool_)
    for each in component.certain:
        if each.position == position:
            is_shown = np.ones(n, np.bool_)
            value = each.value
            return _ValueLaw(None, value, value, value, after, each.matches, is_shown, period)
    factor = next(each for each in component.factors if each.position == position)
    location, scale = (numbers_of(term, frame) for term in (factor.location, factor.scale))
    is_shown = nowhere.copy()
    is_shown[factor.rows] = True
    x = after.copy()
    x[factor.rows] = factor.seen.x
    mean = location if factor.family == "normal" else location + scale / 2
    if not variable.wraps:
        assert variable.edges is not None
        mean = np.clip(mean, variable.edges[0], variable.edges[-1])
    return _ValueLaw(factor, location, scale, mean, x, nowhere, is_shown, period)


def _common_order(components: Sequence[Component]) -> list[int]:
    """Return the variables in an order of computation that fits all components, if there is one."""
    n = len(components[0].needs)
    needs = [set().union(*(each.needs[i] for each in components)) for i in range(n)]
    order: list[int] = []
    while len(order) < n:
        ready = [i for i in range(n) if i not in order and needs[i] <= set(order)]
        if not ready:
            return []
        order += ready
    return order
