"""Rows of a model as functions of its unknown numbers theta: P_theta(s'|s,a).

The rows of all laws (see `Knowledge.is_law`) have entries for every successor that is possible for
some theta within the declared ranges. The Fisher information of one visit to a pair is

    F(s,a) = sum_s' (dP/dtheta)(dP/dtheta)^T / P,

and n visits determine theta up to a covariance of about (n·F)^{-1} (Cramér and Rao). Over a box of
theta, interval arithmetic (Moore, 1966) bounds every entry, tight to second order.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from mdpdsl.compile.cell_laws import Point, Region
from mdpdsl.compile.checked import CheckedModel
from mdpdsl.compile.enclosures import Box, Enclosure
from mdpdsl.compile.law_blocks import LawBlock, law_blocks
from mdpdsl.compile.laws import at
from mdpdsl.compile.merge import ROUNDING
from mdpdsl.compile.outcome import NEGLIGIBLE
from mdpdsl.compile.transition_rewards import with_transition_rewards
from mdpdsl.diagnostics import SolveError
from mdpdsl.graph.reward_fields import rewards_of_pairs
from mdpdsl.graph.row_sets import RowSets, entry_pairs
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph

T = TypeVar("T", bound=np.generic)

#: The relative step of differences, the best for central ones: the cube root of the rounding error.
STEP = 6e-6
#: A successor with a smaller probability counts as one with this in the information, which would
#: be infinite where an impossible successor becomes possible.
LEAST_PROBABILITY = 1e-9


class Family:
    """The rows of all laws of a model, over the entries of its graph's knowledge."""

    def __init__(self, model: CheckedModel, graph: TransitionGraph) -> None:
        knowledge = graph.knowledge
        if knowledge is None:
            raise ValueError("the graph has no knowledge, so it has no laws")
        self.model = model
        self.graph = graph
        self.names: tuple[str, ...] = tuple(each.name for each in model.unknowns)
        self.low: FloatArray = np.array([each.low for each in model.unknowns])  # [k]
        self.high: FloatArray = np.array([each.high for each in model.unknowns])  # [k]
        self.pairs: IntArray = np.flatnonzero(knowledge.is_law)  # [m]  ascending
        lengths = np.diff(knowledge.successor_start)[self.pairs]
        self.start: IntArray = np.concatenate([[0], np.cumsum(lengths)])  # [m + 1]
        first = np.repeat(knowledge.successor_start[self.pairs] - self.start[:-1], lengths)
        self.entries: IntArray = first + np.arange(len(first))  # [n]  in the knowledge
        self.successor: IntArray = knowledge.successor[self.entries]  # [n]  state index
        self._merged: tuple[IntArray, _Merging] | None = None

    @cached_property
    def blocks(self) -> list[LawBlock]:
        """The lines of the model that are laws, with all that does not depend on theta."""
        return law_blocks(self.model, self.graph, self.pairs, self.start, self.successor)

    @cached_property
    def entry_row(self) -> IntArray:
        """The row of every entry, as a position in `pairs`, [n]."""
        return entry_pairs(self.start)

    @property
    def has_bounds(self) -> bool:
        """Whether rows can be bounded over a box."""
        return not any(block.is_numeric for block in self.blocks)

    def probabilities(self, theta: FloatArray) -> FloatArray:
        """Return the rows at theta, [n]; each sums to 1, or is NaN where its law has no value."""
        point, bound = self._point(theta), None
        if not self.has_bounds:
            bound = at(self.model, dict(zip(self.names, point.box.low.tolist(), strict=True)))
        found = np.zeros(len(self.entries))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            for block in self.blocks:
                found[block.rows.entries] = block.at(point, bound)
            if len(found):
                sums = np.add.reduceat(found, self.start[:-1])
                if not np.abs(sums - 1).max() <= ROUNDING:
                    found /= sums[self.entry_row]
        return np.minimum(found, 1.0)

    def derivatives(self, theta: FloatArray) -> FloatArray:
        """Return the derivatives of the rows along each number, [k, n].

        They are exact where the law is; where noise is integrated numerically, and at kinks of the
        law, they are differences, one-sided at the ends of the ranges.
        """
        theta = np.asarray(theta, np.float64)
        point = self._point(theta)
        found = np.zeros((len(self.names), len(self.entries)))
        for block in self.blocks:
            entries = block.rows.entries
            found[:, entries] = np.nan if block.is_numeric else block.slopes_at(point)
        for number in np.flatnonzero(np.isnan(found).any(axis=1)).tolist():
            missing = np.isnan(found[number])
            found[number, missing] = self._difference(theta, number)[missing]
        return found

    def information(self, theta: FloatArray) -> FloatArray:
        """Return the Fisher information of a visit to each pair of the graph, [n_pairs, k, k]."""
        chance = np.maximum(self.probabilities(theta), LEAST_PROBABILITY)
        slopes = self.derivatives(theta)
        found = np.zeros((self.graph.n_pairs, len(self.names), len(self.names)))
        if len(self.entries):
            products = slopes[:, None, :] * slopes[None, :, :] / chance
            sums = np.add.reduceat(products, self.start[:-1], axis=2)
            found[self.pairs] = np.moveaxis(sums, 2, 0)
        return found

    def enclosure(self, low: FloatArray, high: FloatArray) -> Enclosure:
        """Enclose the rows of all theta in a box, [n]; raise SolveError if a row has no bounds."""
        self._require_bounds()
        region = Region(Box(self.names, np.asarray(low, float), np.asarray(high, float)))
        with np.errstate(all="ignore"):
            found = region.tight(id(self), self._over)
        # Normalising a row makes up for what is negligible, at most in every entry.
        error = (ROUNDING + NEGLIGIBLE * (1 + np.diff(self.start)))[self.entry_row]
        lower = np.clip(found.lower * (1 - 2 * error), 0.0, 1.0)
        upper = np.clip(found.upper * (1 + 2 * error), 0.0, 1.0)
        return Enclosure(lower, upper, *found.slope)

    def graph_at(self, theta: FloatArray, graph: TransitionGraph | None = None) -> TransitionGraph:
        """Return the graph with the rows of laws at theta, and all other rows as they are.

        Another graph over the same pairs and states may be given.
        """
        graph = self.graph if graph is None else graph
        chance = self.probabilities(theta)
        kept = chance > 0
        rows = _Merging(graph.successor_start, self.pairs, self.entry_row[kept])
        changed = replace(
            graph,
            successor_start=rows.start,
            successor=rows.merged(graph.successor, self.successor[kept]),
            probability=rows.merged(graph.probability, chance[kept]),
            **rewards_of_pairs(graph),
        )
        return with_transition_rewards(self.model, changed)[0]

    def row_sets(self, low: FloatArray, high: FloatArray, others: RowSets) -> RowSets:
        """Return intervals that hold the rows of all theta in a box; other rows as they are."""
        found = self.enclosure(low, high)
        estimate = self.probabilities((np.asarray(low) + np.asarray(high)) / 2)
        # The centre may be a pole of the law, where rows have no values but bounds.
        anything = (1.0 / np.diff(self.start))[self.entry_row]
        estimate = np.where(np.isnan(estimate), anything, estimate)
        rows = self._merging(others.successor_start)
        is_law = rows.is_replaced
        return RowSets(
            successor_start=rows.start,
            successor=rows.merged(others.successor, self.successor),
            estimate=rows.merged(others.estimate, estimate),
            lower=rows.merged(others.lower, np.minimum(found.lower, estimate)),
            upper=rows.merged(others.upper, np.maximum(found.upper, estimate)),
            other_upper=np.where(is_law, 0.0, others.other_upper),
            others_upper=np.where(is_law, 0.0, others.others_upper),
            kl=np.where(is_law, np.inf, others.kl),
            l1=np.where(is_law, 2.0, others.l1),
            is_other=None
            if others.is_other is None
            else rows.merged(others.is_other, np.zeros(len(estimate), np.bool_)),
        )

    def _merging(self, successor_start: IntArray) -> _Merging:
        """Return where the rows of laws go among other rows; the last answer is kept."""
        if self._merged is None or self._merged[0] is not successor_start:
            found = _Merging(successor_start, self.pairs, self.entry_row)
            self._merged = successor_start, found
        return self._merged[1]

    def _point(self, theta: FloatArray) -> Point:
        values = np.asarray(theta, np.float64)
        return Point(Box(self.names, values, values))

    def _over(self, region: Region) -> Enclosure:
        n, k = len(self.entries), len(self.names)
        found = Enclosure(np.zeros(n), np.zeros(n), np.zeros((k, n)), np.zeros((k, n)))
        for block in self.blocks:
            entries, part = block.rows.entries, block.over(region)
            for whole, values in zip(
                (*found.value, *found.slope), (*part.value, *part.slope), strict=True
            ):
                whole[..., entries] = values
        return found

    def _difference(self, theta: FloatArray, number: int) -> FloatArray:
        """Return the derivative along one number by differences within its range, [n]."""
        step = STEP * max(abs(float(theta[number])), self.high[number] - self.low[number])
        ends = [theta.copy(), theta.copy()]
        ends[0][number] = max(theta[number] - step, min(self.low[number], theta[number]))
        ends[1][number] = min(theta[number] + step, max(self.high[number], theta[number]))
        before, after = (self.probabilities(end) for end in ends)
        return np.asarray((after - before) / (ends[1][number] - ends[0][number]))

    def _require_bounds(self) -> None:
        if not self.has_bounds:
            raise SolveError(
                f"{self.model.name} has next values that read unknown numbers, and whose noise can "
                "only be integrated numerically, so its rows have no proven bounds; make these "
                "next values the sum of a term and of noise that no other variable reads "
                "(`x' = f(x) + k*w`)"
            )


class _Merging:
    """Rows over all pairs, some of which are replaced by others."""

    def __init__(self, successor_start: IntArray, pairs: IntArray, entry_row: IntArray) -> None:
        n_pairs = len(successor_start) - 1
        self.is_replaced: BoolArray = np.zeros(n_pairs, np.bool_)  # [n_pairs]
        self.is_replaced[pairs] = True
        own = entry_pairs(successor_start)
        self._kept = ~self.is_replaced[own]
        pair = np.concatenate([own[self._kept], pairs[entry_row]])
        self._order = np.argsort(pair, kind="stable")
        self.start: IntArray = np.searchsorted(pair[self._order], np.arange(n_pairs + 1))

    def merged(self, own: npt.NDArray[T], others: npt.NDArray[Any]) -> npt.NDArray[T]:
        """Return the numbers of all entries, from the rows that are kept and from the others."""
        numbers = np.concatenate([own[self._kept], others.astype(own.dtype)])
        return numbers[self._order]
