"""A model whose rows are only known to lie in sets: the estimate, its sets, and what they mean.

Rows that follow a law are functions of a few unknown numbers theta, and one theta rules them all.
The data leave a set of theta, which boxes cover: the rows of each box are intervals again, and they
are much narrower than those of the whole set.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from mdpdsl.compile.stored import StoredModel
from mdpdsl.compile.transition_rewards import with_transition_rewards
from mdpdsl.diagnostics import SolveError
from mdpdsl.graph.reward_fields import rewards_of_pairs
from mdpdsl.graph.row_sets import RowSets, entry_pairs
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import DEFAULT_REWARD

#: The most entries that sets may have once every state is listed.
MOST_ENTRIES = 20_000_000
#: The most decimals of a number in a text.
MOST_DIGITS = 12


class RowFamily(Protocol):
    """Rows of a graph as functions of unknown numbers."""

    @property
    def names(self) -> tuple[str, ...]:
        """The unknown numbers, in the order of theta."""

    @property
    def pairs(self) -> IntArray:
        """The pairs whose rows depend on them."""

    def row_sets(self, low: FloatArray, high: FloatArray, others: RowSets) -> RowSets:
        """Return intervals that hold the rows of all theta of a box; other rows as they are."""


class BoxCover(Protocol):
    """Boxes that together cover a set of theta."""

    @property
    def low(self) -> FloatArray:
        """Lower corners, [n_boxes, n_numbers]."""

    @property
    def high(self) -> FloatArray:
        """Upper corners, [n_boxes, n_numbers]."""


@dataclass(frozen=True, eq=False)
class FamilySets:
    """The unknown numbers that the data allow, one theta for all rows that depend on them."""

    family: RowFamily
    boxes: BoxCover
    others: RowSets  # over all pairs of the graph; used where rows do not depend on the numbers
    theta_hat: FloatArray  # [n_numbers]  the estimate
    is_proved: bool = True  # whether the boxes are proved to cover the set

    @property
    def names(self) -> tuple[str, ...]:
        """The unknown numbers."""
        return tuple(self.family.names)

    @property
    def described(self) -> str:
        """The numbers with the values that the data allow: slip in [0.29, 0.36]."""
        ends = zip(self.names, *self.hull, strict=True)
        return " and ".join(f"{name} in {interval_text(low, high)}" for name, low, high in ends)

    @property
    def every(self) -> str:
        """The numbers for which a guarantee holds; the boxes may leave out parts of the hull."""
        if len(self.names) == 1 and self._is_one_interval:
            return f"every {self.described}"
        return f"every {' and '.join(self.names)} that the data allow ({self.described})"

    @property
    def caveat(self) -> str | None:
        """What is missing if the set of numbers is not proved."""
        if self.is_proved:
            return None
        return f"the set of {' and '.join(self.names)} is computed numerically, without proof"

    @property
    def _is_one_interval(self) -> bool:
        low, high = np.asarray(self.boxes.low)[:, 0], np.asarray(self.boxes.high)[:, 0]
        order = np.argsort(low, kind="stable")
        reached = np.maximum.accumulate(high[order])
        return bool(np.all(low[order][1:] <= reached[:-1]))

    @property
    def has_open_rows(self) -> bool:
        """Whether other rows are not known, either."""
        pair = entry_pairs(self.others.successor_start)
        is_open = (self.others.upper > self.others.lower) & ~np.isin(pair, self.family.pairs)
        return bool(is_open.any())

    @cached_property
    def hull(self) -> tuple[FloatArray, FloatArray]:
        """The least and the largest value of each number, [n_numbers] each."""
        low, high = np.asarray(self.boxes.low), np.asarray(self.boxes.high)
        return low.min(axis=0), high.max(axis=0)

    def rows(self, low: FloatArray, high: FloatArray) -> RowSets:
        """Return the sets of all rows if theta lies in a box."""
        return self.family.row_sets(low, high, self.others)

    @cached_property
    def hull_rows(self) -> RowSets:
        """The sets of all rows, each as if it had a theta of its own."""
        return self.rows(*self.hull)


@dataclass(frozen=True, eq=False)
class SetModel:
    """An estimate over all states, and for every pair the rows that the data allow."""

    model: StoredModel  # the estimate; its graph has the pairs of the sets
    sets: RowSets
    visits: IntArray  # [n_pairs]
    delta: float  # the risk that the true rows are not all in their sets
    kind: str  # of the sets: time-uniform, clopper-pearson or weissman
    support: str  # which successors are possible: seen, all or model
    holds: str  # when the sets hold, in words
    numbers: FamilySets | None = None  # the law behind some rows; None if no row has one
    misfit: int = 0  # how many rows contradict the model file
    shape: str = "intervals"  # which sets are the best to solve with: intervals, l1 or kl
    unfitted: tuple[str, ...] = ()  # the unknown numbers, if no values of them fit the data

    @property
    def warning(self) -> str | None:
        """What is wrong if the data contradict the law that a guarantee would rest on."""
        names = () if self.numbers is None else self.numbers.names
        return law_warning(self.misfit, names, self.unfitted)

    def with_rewards(
        self, name: str | None, sets: RowSets | None = None
    ) -> tuple[RowSets, FloatArray | None]:
        """Return the sets to solve for a reward, and its values on their entries.

        Other sets over the same pairs may be given.

        The values are None if the reward does not depend on the next state. If it does, every
        successor that is possible has to be listed. Raise SolveError if that is too large, or if
        the reward cannot be evaluated on some of them.
        """
        graph, reward = self.model.graph, DEFAULT_REWARD if name is None else name
        sets = self.sets if sets is None else sets
        by_branch = {**graph.branch_rewards}
        if graph.branch_reward is not None:
            by_branch[DEFAULT_REWARD] = graph.branch_reward
        if reward not in by_branch:
            return sets, None
        sets = listing_all(sets, graph.n_states)
        listed = replace(
            graph,
            successor_start=sets.successor_start,
            successor=sets.successor,
            probability=np.ones(len(sets.successor)),
            **rewards_of_pairs(graph),
        )
        found, problems = with_transition_rewards(self.model.checked, listed)
        values = (
            found.branch_reward if reward == DEFAULT_REWARD else found.branch_rewards.get(reward)
        )
        if values is None:
            reason = problems[0].message if problems else "it is not in the model file"
            raise SolveError(
                f"the reward `{reward}` depends on the next state and has no value on some "
                f"transition that the data allow: {reason}"
            )
        return sets, values


class Uncertain(Protocol):
    """A result that knows which rows the data allow."""

    def as_sets(self, *, support: str | None = None, delta: float | None = None) -> SetModel:
        """Return the estimate with its sets; the support and the risk default to its own."""


def law_warning(misfit: int, names: Sequence[str], unfitted: Sequence[str]) -> str | None:
    """Return what is wrong if the data contradict a law: in so many rows, or for all values."""
    if unfitted:
        return (
            f"But no values of {' and '.join(unfitted)} fit the data, so the rows that depend on "
            "them were treated as if they had `?`: do not rely on the model file."
        )
    if misfit == 0:
        return None
    rows = "1 row" if misfit == 1 else f"{misfit:,} rows"
    if not names:
        return f"But the data contradict {rows} of the model file, so do not rely on it."
    return (
        f"But this assumes a law that the data contradict in {rows}: no value of "
        f"{' and '.join(names)} explains them, so do not rely on it."
    )


def listing_all(sets: RowSets, n_states: int) -> RowSets:
    """Return the same sets with every state listed in rows that have others."""
    has_others = (sets.others_upper > 0) & (sets.other_upper > 0)
    if not has_others.any():
        return sets
    n_pairs = len(has_others)
    n_listed = np.diff(sets.successor_start)
    lengths = np.where(has_others, n_states, n_listed)
    if lengths.sum() > MOST_ENTRIES:
        raise SolveError(
            f"the reward depends on the next state, and any of {n_states:,} states may follow "
            f"{int(has_others.sum()):,} pairs, which is too much to list; estimate with "
            "`support=` model, or ask for a reward that does not depend on the next state"
        )
    start = np.concatenate([[0], np.cumsum(lengths)])
    pair = np.repeat(np.arange(n_pairs), lengths)
    successor = (np.arange(start[-1]) - start[pair]).astype(np.int32)
    known = entry_pairs(sets.successor_start)
    plain = ~has_others[pair]
    successor[plain] = sets.successor[~has_others[known]]
    # Where the entries that were listed are now.
    inside = np.arange(len(known)) - sets.successor_start[known]
    place = start[known] + np.where(has_others[known], sets.successor, inside)

    def spread(numbers: FloatArray, others: FloatArray) -> FloatArray:
        found = others[pair]
        found[place] = numbers
        return found

    is_other = np.ones(start[-1], np.bool_)
    is_other[place] = False if sets.is_other is None else sets.is_other
    none = np.zeros(n_pairs)
    return RowSets(
        successor_start=start,
        successor=successor,
        estimate=spread(sets.estimate, none),
        lower=spread(sets.lower, none),
        upper=spread(sets.upper, sets.other_upper),
        other_upper=none,
        others_upper=sets.others_upper,
        kl=sets.kl,
        l1=sets.l1,
        is_other=is_other,
    )


def interval_text(low: float, high: float) -> str:
    """Return an interval with the digits that matter, rounded outwards."""
    if not high > low:
        return f"[{low:.6g}, {high:.6g}]"
    digits = min(MOST_DIGITS, max(0, 1 - math.floor(math.log10(high - low))))
    unit = 10.0**-digits
    below, above = math.floor(low / unit + 1e-9), math.ceil(high / unit - 1e-9)
    return f"[{below * unit:.{digits}f}, {above * unit:.{digits}f}]"


def value_text(value: float, deviation: float | None) -> str:
    """Return a value, with its deviation if it has one, and the digits that matter."""
    if deviation is None or not (math.isfinite(deviation) and deviation > 0):
        return f"{value:.4g}"
    digits = max(0, 1 - math.floor(math.log10(deviation)))
    if digits > MOST_DIGITS:
        return f"{value:.6g} ± {deviation:.2g}"
    return f"{value:,.{digits}f} ± {deviation:,.{digits}f}"
