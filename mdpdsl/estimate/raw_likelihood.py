"""The likelihood of unknown numbers from raw steps, before they fall into cells.

For a law x' = m(x, u; theta) + k(x, u; theta)*w the cells of a discretization are only an
approximation, and so are estimates from their counts. The log-likelihood of the raw steps is the
sum of log p(x'|x, u; theta) over all steps, with the density of `raw_law`. For normal noise, m
linear in theta and k known, it is that of linear regression: its maximum is the least-squares
estimate, and its information X'X/sigma^2.

The information is the expected one (Fisher). Numbers at a bound that are left over when others were
pooled have the observed one, as those others have; steps of a line with several branches, or with
discrete noise, have the outer products of their scores (Berndt et al., 1974).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from mdpdsl.compile.enclosures import Box, enclose
from mdpdsl.compile.expressions import Frame, evaluate
from mdpdsl.compile.slopes import ENCLOSED_FUNCTIONS, Enclosure, add, exactly
from mdpdsl.compile.terms import Term
from mdpdsl.estimate.possible_points import UniformEdges, uniform_edges
from mdpdsl.estimate.raw_bounds import (
    BoundSum,
    enclosed_log_density,
    mixed,
    nearest_turn,
    scattered,
    taken,
    widened_to,
)
from mdpdsl.estimate.raw_densities import expected_information, log_density, tail_information
from mdpdsl.estimate.raw_groups import Component, Contradictions, Group, ObservedFactor, grouped
from mdpdsl.estimate.raw_law import RawLaw
from mdpdsl.estimate.raw_pools import pooled
from mdpdsl.graph.space import BoolArray, FloatArray
from mdpdsl.logs.raw_steps import RawTransitions


class RawLikelihood:
    """The log-likelihood of the unknown numbers of a model, given raw steps.

    Steps of open lines (`?`) and restarts say nothing about the numbers and are left out.
    `contradictions` are steps that the law excludes whatever the numbers are; the values that
    contradict it are left out, too.
    """

    def __init__(self, law: RawLaw, steps: RawTransitions) -> None:
        unknowns = law.model.unknowns
        self.law, self.steps = law, steps
        self.names = tuple(each.name for each in unknowns)
        self.low = np.array([each.low for each in unknowns])  # [k]
        self.high = np.array([each.high for each in unknowns])  # [k]
        groups, contradictions = grouped(law, steps)
        self.groups: tuple[Group, ...] = tuple(groups)
        self.contradictions: Contradictions = contradictions
        self.n = sum(len(group.steps) for group in groups)
        self._pools, self._rest = pooled(self.groups, Box(self.names, self.low, self.high))
        self.n_terms = sum(
            len(factor.rows)
            for group in self._rest
            for component in group.components
            for factor in component.factors
        )

    def value(self, theta: FloatArray) -> float:
        """Return the log-likelihood; -inf if some step is impossible."""
        logs = [self.logs(group, theta)[0].sum() for group in self._rest]
        logs += [pool.value_and_gradient(theta)[0] for pool in self._pools]
        return _number(float(np.sum(logs)))

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the log-likelihood and its derivatives, [k]."""
        value, gradient = 0.0, np.zeros(len(self.names))
        for pool in self._pools:
            logs_of_pool, slope = pool.value_and_gradient(theta)
            value, gradient = value + logs_of_pool, gradient + slope
        for group in self._rest:
            logs, slopes = self.logs(group, theta)
            value += float(logs.sum())
            gradient += slopes.sum(axis=1)
        return _number(value), gradient

    def information(self, theta: FloatArray) -> FloatArray:
        """Return the Fisher information of all steps, [k, k]."""
        k = len(self.names)
        found = np.zeros((k, k))
        for pool in self._pools:
            found += pool.information(theta)
        for group in self._rest:
            if len(group.components) > 1 or group.components[0].probability is not None:
                scores = self.logs(group, theta)[1]
                found += scores @ scores.T
                continue
            component = group.components[0]
            frame = self.frame(group, component, theta)
            for factor in component.factors:
                found += self._expected(factor, frame)
        return found

    def upper(self, low: FloatArray, high: FloatArray) -> float:
        """Return a proved upper bound of the log-likelihood over a box."""
        return self._bounds(low, high)[1]

    def lower(self, low: FloatArray, high: FloatArray) -> float:
        """Return a proved lower bound of the log-likelihood over a box."""
        return self._bounds(low, high)[0]

    @cached_property
    def edges(self) -> UniformEdges | None:
        """Where the data are possible, if the numbers move ends of uniform noise."""
        return uniform_edges(self.names, self.low, self.high, self.groups)

    def logs(self, group: Group, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the log-likelihood of each step of a group, [n], and its slopes, [k, n]."""
        if len(group.components) == 1 and group.components[0].probability is None:
            logs, slopes = self._densities(group, group.components[0], theta)
            return logs, slopes
        n = len(group.steps)
        parts = [self._densities(group, each, theta) for each in group.components]
        chances = [self.chance(group, each, theta) for each in group.components]
        with np.errstate(all="ignore"):
            joint = np.array(
                [
                    np.where(each.is_active, np.log(chance) + logs, -np.inf)
                    for each, (chance, _), (logs, _) in zip(
                        group.components, chances, parts, strict=True
                    )
                ]
            )
            top = joint.max(axis=0)
            finite = np.where(np.isfinite(top), top, 0.0)
            total = finite + np.log(np.exp(joint - finite).sum(axis=0))
        is_explained = np.any([each.is_active for each in group.components], axis=0)
        slopes = np.zeros((len(self.names), n))
        with np.errstate(all="ignore"):
            for each, (chance, rises), (logs, within) in zip(
                group.components, chances, parts, strict=True
            ):
                likely = np.where(each.is_active, np.exp(logs - total), 0.0)
                slopes += likely * (rises + chance * within)
        is_good = is_explained & np.isfinite(total)
        return np.where(is_explained, total, 0.0), np.where(is_good, slopes, 0.0)

    def frame(self, group: Group, component: Component, theta: FloatArray) -> Frame:
        """Return what the terms of a component read at some values of the unknown numbers."""
        numbers = {
            ("unknown", name): np.asarray(value)
            for name, value in zip(self.names, theta, strict=True)
        }
        return Frame(len(group.steps), {**component.known, **numbers})

    def _densities(
        self, group: Group, component: Component, theta: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the logarithm of the product of all densities of a component, and its slopes."""
        n, k = len(group.steps), len(self.names)
        frame = self.frame(group, component, theta)
        logs, slopes = np.zeros(n), np.zeros((k, n))
        for factor in component.factors:
            rows = factor.rows if len(factor.rows) < n else slice(None)
            if factor.fixed is not None:
                logs[rows] += factor.fixed[0]
                continue
            location, scale = (
                _rows(term, frame, factor) for term in (factor.location, factor.scale)
            )
            value, along_m, along_s = log_density(factor.family, factor.seen, location, scale)
            logs[rows] += value
            for j in range(k):
                for slope, along in (
                    (factor.location_slopes[j], along_m),
                    (factor.scale_slopes[j], along_s),
                ):
                    if slope is not None:
                        slopes[j, rows] += along * _rows(slope, frame, factor)
        return logs, slopes

    def chance(
        self, group: Group, component: Component, theta: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the probability of a component, [n], and its slopes, [k, n]."""
        n, k = len(group.steps), len(self.names)
        slopes = np.zeros((k, n))
        if component.probability is None:
            return np.full(n, component.weight), slopes
        frame = self.frame(group, component, theta)
        chance = np.clip(frame.full(evaluate(component.probability, frame).values), 0.0, 1.0)
        for j, slope in enumerate(component.probability_slopes):
            if slope is not None:
                slopes[j] = component.weight * evaluate(slope, frame).values
        return component.weight * chance, slopes

    def _expected(self, factor: ObservedFactor, frame: Frame) -> FloatArray:
        """Return the expected information of the observations of a factor, [k, k]."""
        k, n = len(self.names), len(factor.rows)
        if factor.fixed is not None:
            return np.zeros((k, k))
        location, scale = (_rows(term, frame, factor) for term in (factor.location, factor.scale))
        seen = factor.seen
        if factor.family == "normal" and 0 < n == len(seen.at_low) + len(seen.at_high):
            i_mm, i_ms, i_ss = tail_information(seen, location, scale)
        else:
            i_mm, i_ms, i_ss = expected_information(factor.family, seen, location, scale)
        along_m, along_s = np.zeros((k, n)), np.zeros((k, n))
        for slopes, terms in (
            (along_m, factor.location_slopes),
            (along_s, factor.scale_slopes),
        ):
            for j, term in enumerate(terms):
                if term is not None:
                    slopes[j] = _rows(term, frame, factor)
        cross = (along_m * i_ms) @ along_s.T
        return (along_m * i_mm) @ along_m.T + (along_s * i_ss) @ along_s.T + cross + cross.T

    # Bounds over boxes

    def _bounds(self, low: FloatArray, high: FloatArray) -> tuple[float, float]:
        """Return bounds over a box."""
        low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
        centre = low / 2 + high / 2
        found = BoundSum(np.maximum(high - centre, centre - low))
        box = Box(self.names, low, high)
        for pool in self._pools:
            pool.add_bounds(found, box)
        for group in self._rest:
            component = group.components[0]
            if len(group.components) > 1 or component.probability is not None:
                found.add(self._enclosed(group, box), self.logs(group, centre)[0])
                continue
            frame = self.frame(group, component, centre)
            for factor in component.factors:
                self._add_bounds(factor, frame, box, found)
        return found.bounds()

    def _add_bounds(self, factor: ObservedFactor, frame: Frame, box: Box, found: BoundSum) -> None:
        """Add the bounds of one density, in all its rows."""
        seen, n, k = factor.seen, frame.size, len(self.names)
        if factor.fixed is not None:
            found.add(widened_to(exactly(factor.fixed[0], k), len(factor.rows)), factor.fixed[0])
            return
        m, s = (
            taken(widened_to(enclose(term, frame, box), n), factor.rows)
            for term in (factor.location, factor.scale)
        )
        location, scale = (
            np.broadcast_to(_rows(term, frame, factor), seen.x.shape)
            for term in (factor.location, factor.scale)
        )
        x: FloatArray | None = seen.x
        if seen.period is not None:
            x = nearest_turn(seen.x, m, s.upper, seen.period)
        if factor.family != "normal" or x is None or np.any(s.lower < s.upper):
            logs = log_density(factor.family, seen, location, scale)[0]
            found.add(enclosed_log_density(factor.family, seen, m, s), logs)
            return
        is_inside = np.ones(len(x), np.bool_)
        is_inside[seen.at_low] = is_inside[seen.at_high] = False
        if is_inside.all():
            found.add_normal(x, m, location, scale)
            return
        found.add_normal(x[is_inside], taken(m, is_inside), location[is_inside], scale[is_inside])
        logs = log_density(factor.family, seen, location, scale)[0]
        bounds = enclosed_log_density(factor.family, seen, m, s)
        found.add(taken(bounds, ~is_inside), logs[~is_inside])

    def _enclosed(self, group: Group, box: Box) -> Enclosure:
        """Enclose the log-likelihood of each step of a group."""
        n, k = len(group.steps), len(self.names)
        parts = []
        for component in group.components:
            frame = Frame(n, component.known)
            found = widened_to(exactly(np.array([np.log(component.weight)]), k), n)
            if component.probability is not None:
                chance = enclose(component.probability, frame, box)
                limits = exactly(np.zeros(1), k), exactly(np.ones(1), k)
                with np.errstate(all="ignore"):
                    clipped = ENCLOSED_FUNCTIONS["clip"](chance, *limits)
                    logs = ENCLOSED_FUNCTIONS["log"](clipped)
                upper = np.where(clipped.upper <= 0, -np.inf, np.minimum(logs.upper, 0.0))
                found = add(found, widened_to(Enclosure(logs.lower, upper, *logs.slope), n))
            for factor in component.factors:
                m, s = (
                    taken(widened_to(enclose(term, frame, box), n), factor.rows)
                    for term in (factor.location, factor.scale)
                )
                density = enclosed_log_density(factor.family, factor.seen, m, s)
                found = scattered(found, factor.rows, add(taken(found, factor.rows), density))
            parts.append(_only(found, component.is_active))
        mixture = mixed(parts)
        is_explained = np.any([each.is_active for each in group.components], axis=0)
        return Enclosure(
            *(np.where(is_explained, end, 0.0) for end in (*mixture.value, *mixture.slope))
        )


def _only(x: Enclosure, where: BoolArray) -> Enclosure:
    """Return an enclosure that is impossible elsewhere."""
    if where.all():
        return x
    values = (np.where(where, end, -np.inf) for end in x.value)
    return Enclosure(*values, *(np.where(where, end, 0.0) for end in x.slope))


def _rows(term: Term, frame: Frame, factor: ObservedFactor) -> FloatArray:
    """Evaluate a term in the rows of a factor; a single number if it is the same in all."""
    values = np.asarray(evaluate(term, frame).values, np.float64)
    if values.ndim == 0 or len(factor.rows) == frame.size:
        return values
    return values[factor.rows]


def _number(value: float) -> float:
    return -np.inf if np.isnan(value) else value
