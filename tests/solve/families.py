"""Tiny models whose rows are functions of one or two unknown numbers, and all their values.

The row of a pair is  (1 - w) a + w b  with two rows a and b. The weight w is a function of theta
(a law), a number in an interval of which nobody knows anything else (an open row with two
successors), or 0 (a known row).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

import mdpdsl
from mdpdsl.compile.set_model import FamilySets
from mdpdsl.graph.row_sets import RowSets, entry_pairs
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from tests.graph.build import graph_from_rows

#: Weights of laws: each rises or falls with every number.
LAWS: tuple[Callable[[FloatArray], float], ...] = (
    lambda x: float(x[0]),
    lambda x: 1 - float(x[-1]),
    lambda x: float(x[0]) ** 2,
    lambda x: float(x[0] * x[-1]),
    lambda x: float(x[0] * (1 - x[-1] / 2)),
)
#: A model with more policies, or more corners of open rows, is drawn again.
MOST_POLICIES, MOST_OPEN = 100, 2
#: Values of each number in a box that are compared.
N_VALUES = 9


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes of theta."""

    low: FloatArray  # [n_boxes, n_numbers]
    high: FloatArray  # [n_boxes, n_numbers]


@dataclass(frozen=True, eq=False)
class TinyFamily:
    """Rows (1 - w) a + w b over the branches of a graph."""

    graph: TransitionGraph
    a: FloatArray  # [n_pairs, n_states]
    b: FloatArray  # [n_pairs, n_states]
    laws: tuple[int | None, ...]  # of the pairs
    n_numbers: int
    is_short: bool = False  # whether sets list only successors that are possible in their box

    @property
    def names(self) -> tuple[str, ...]:
        return ("slip", "drift")[: self.n_numbers]

    @property
    def pairs(self) -> IntArray:
        return np.array([p for p, law in enumerate(self.laws) if law is not None], np.int64)

    def weights(self, theta: FloatArray) -> FloatArray:
        """Return w of every pair; 0 without a law."""
        return np.array([0.0 if law is None else LAWS[law](theta) for law in self.laws])

    def rows(self, w: FloatArray) -> FloatArray:
        """Return rows, [n_pairs, n_states]."""
        return np.asarray((1 - w)[:, None] * self.a + w[:, None] * self.b)

    def row_sets(self, low: FloatArray, high: FloatArray, others: RowSets) -> RowSets:
        """Return intervals over a box; the functions of theta are monotone in every number."""
        corners = [np.array(c) for c in itertools.product(*zip(low, high, strict=True))]
        rows = np.stack([self.rows(self.weights(c)) for c in corners])
        pair, state = entry_pairs(others.successor_start), others.successor
        is_law = np.isin(pair, self.pairs)
        least = np.nextafter(rows.min(axis=0)[pair, state], 0.0)
        most = rows.max(axis=0)[pair, state]
        most = np.where(most > 0, np.nextafter(most, 2.0), 0.0)
        sets = replace(
            others,
            lower=np.where(is_law, np.maximum(least, 0.0), others.lower),
            upper=np.where(is_law, np.minimum(most, 1.0), others.upper),
        )
        if not self.is_short:
            return sets
        kept = ~is_law | (sets.upper > 0)
        start = np.concatenate([[0], np.cumsum(np.bincount(pair[kept], minlength=len(self.a)))])
        return replace(
            sets,
            successor_start=start,
            **{name: getattr(sets, name)[kept] for name in ("successor", "lower", "upper")},
            estimate=sets.estimate[kept],
        )


@dataclass(frozen=True, eq=False)
class TinyModel:
    """A family, what is known of its numbers, and its open rows."""

    family: TinyFamily
    boxes: Boxes
    open_low: FloatArray  # [n_pairs]  of w, 0 if the row is not open
    open_high: FloatArray  # [n_pairs]

    @property
    def graph(self) -> TransitionGraph:
        return self.family.graph

    @property
    def numbers(self) -> FamilySets:
        graph = self.graph
        pair, state, n = entry_pairs(graph.successor_start), graph.successor, graph.n_pairs
        ends = np.stack([self.family.rows(w)[pair, state] for w in (self.open_low, self.open_high)])
        others = RowSets(
            graph.successor_start,
            graph.successor,
            graph.probability,
            ends.min(axis=0),
            ends.max(axis=0),
            np.zeros(n),
            np.zeros(n),
            np.full(n, np.inf),
            np.full(n, 2.0),
        )
        centre = self.boxes.low[0] / 2 + self.boxes.high[0] / 2
        return FamilySets(self.family, self.boxes, others, centre)

    def rows_at(self, theta: FloatArray) -> FloatArray:
        """Return the rows at a theta for all corners of open rows, [n_corners, n_pairs, n_states].

        If only one corner of each row is looked at, the first and the last have them all.
        """
        is_open = np.flatnonzero(self.open_high > self.open_low)
        w = self.family.weights(theta) + self.open_low
        found = []
        for ends in itertools.product((self.open_low, self.open_high), repeat=len(is_open)):
            w[is_open] = [end[pair] for end, pair in zip(ends, is_open, strict=True)]
            found.append(self.family.rows(w))
        return np.stack(found)

    def thetas(self) -> list[FloatArray]:
        """Return many theta of all boxes, their corners among them."""
        n = N_VALUES if self.family.n_numbers == 2 else 4 * N_VALUES
        return [
            np.array(theta)
            for low, high in zip(self.boxes.low, self.boxes.high, strict=True)
            for theta in itertools.product(
                *(np.linspace(x, y, n) for x, y in zip(low, high, strict=True))
            )
        ]


def chains(model: TinyModel, theta: FloatArray, policies: IntArray) -> FloatArray:
    """Return the chains of policies at a theta, [n_policies, n_corners, n_states, n_states]."""
    rows = model.rows_at(theta)
    n = model.graph.n_states
    taken = rows[:, np.maximum(policies, 0)]  # [n_corners, n_policies, n_states, n_states]
    stays = np.broadcast_to(np.eye(n), taken.shape)
    found = np.where((policies >= 0)[None, :, :, None], taken, stays)
    return np.asarray(found.transpose(1, 0, 2, 3))


def all_policies(graph: TransitionGraph) -> IntArray:
    """Return every deterministic policy, [n_policies, n_states]."""
    start = graph.pair_start
    choices = [list(range(start[s], start[s + 1])) or [-1] for s in range(graph.n_states)]
    return np.array(list(itertools.product(*choices)))


def tiny_model(rng: np.random.Generator, n_numbers: int = 1, has_open: bool = True) -> TinyModel:
    """Return 2 to 4 states with laws, open and known rows, ends, and labels `goal` and `safe`."""
    while True:
        found = _drawn(rng, n_numbers, has_open)
        n_open = np.count_nonzero(found.open_high > found.open_low)
        if n_open <= MOST_OPEN and len(all_policies(found.graph)) <= MOST_POLICIES:
            return found


def _drawn(rng: np.random.Generator, n_numbers: int, has_open: bool) -> TinyModel:
    n = int(rng.integers(2, 5))
    ends = (rng.random(n) < 0.2) & (np.arange(n) > 0)
    pairs = [(s, a) for s in range(n) for a in range(0 if ends[s] else rng.integers(1, 4))]
    a, b = (np.stack([_row(rng, n) for _ in pairs]) for _ in range(2))
    laws: list[int | None] = []
    low, high = np.zeros(len(pairs)), np.zeros(len(pairs))
    for pair in range(len(pairs)):
        kind = rng.choice(["law", "open", "known"], p=[0.7, 0.15, 0.15])
        laws.append(int(rng.integers(len(LAWS))) if kind == "law" else None)
        if kind == "open" and has_open:
            states = rng.permutation(n)[:2]
            a[pair], b[pair] = np.eye(n)[states]
            low[pair], high[pair] = np.sort(rng.integers(0, 11, 2)) / 10
        elif kind != "law":
            b[pair] = a[pair]
    rows: list[dict[int, dict[int, float]]] = [{} for _ in range(n)]
    for pair, (state, action) in enumerate(pairs):
        p = (a[pair] + b[pair]) / 2
        rows[state][action] = {int(t): float(p[t]) for t in np.flatnonzero(p)}
    initial = rng.integers(0, 3, n) * ~ends
    initial[0] += not initial.any()
    labels = {"goal": rng.random(n) < 0.4, "safe": rng.random(n) < 0.8}
    graph = graph_from_rows(
        rows, initial=initial / initial.sum(), labels=labels, ends=ends if ends.any() else None
    )
    family = TinyFamily(graph, a, b, tuple(laws), n_numbers, is_short=bool(rng.random() < 0.5))
    return TinyModel(family, _boxes(rng, n_numbers), low, high)


def _row(rng: np.random.Generator, n: int) -> FloatArray:
    """Return a row of quarters."""
    return np.bincount(rng.choice(rng.integers(0, n, 3), 4), minlength=n) / 4


def _boxes(rng: np.random.Generator, n_numbers: int) -> Boxes:
    """Return a box, or parts of one with a hole."""
    low = rng.integers(0, 8, n_numbers) / 10
    high = np.minimum(low + rng.integers(1, 5, n_numbers) / 10, 1.0)
    parts = int(rng.integers(1, 4))
    edges = [np.linspace(x, y, parts + 1) for x, y in zip(low, high, strict=True)]
    cells = list(itertools.product(range(parts), repeat=n_numbers))
    if len(cells) > 1 and rng.random() < 0.5:
        cells.pop(int(rng.integers(len(cells))))
    found = [[[edges[k][i + end] for k, i in enumerate(cell)] for cell in cells] for end in (0, 1)]
    return Boxes(np.array(found[0]), np.array(found[1]))


# Frozen lake


@dataclass(frozen=True, eq=False)
class LakeFamily:
    """Frozen lake with an unknown probability of going the chosen way: affine rows."""

    graph: TransitionGraph
    base: FloatArray  # [n_branches]
    slope: FloatArray  # [n_branches]
    names: tuple[str, ...] = ("success",)

    @property
    def pairs(self) -> IntArray:
        return np.arange(self.graph.n_pairs)

    def graph_at(self, theta: FloatArray) -> TransitionGraph:
        """Return the model at a theta."""
        return replace(self.graph, probability=self.base + self.slope * theta[0])

    def row_sets(self, low: FloatArray, high: FloatArray, others: RowSets | None) -> RowSets:
        """Return intervals over a box, rounded outwards."""
        del others
        graph, n = self.graph, self.graph.n_pairs
        ends = np.stack([self.base + self.slope * x for x in (low[0], high[0])])
        return RowSets(
            graph.successor_start,
            graph.successor,
            ends.mean(axis=0),
            np.maximum(ends.min(axis=0) - 1e-15, 0.0),
            np.minimum(ends.max(axis=0) + 1e-15, 1.0),
            np.zeros(n),
            np.zeros(n),
            np.full(n, np.inf),
            np.full(n, 2.0),
        )


def lake_family() -> LakeFamily:
    """Return frozen lake as a family."""
    one, two = (mdpdsl.load("frozen_lake", success=x).graph for x in (0.25, 0.5))
    slope = 4 * (two.probability - one.probability)
    return LakeFamily(mdpdsl.load("frozen_lake").graph, one.probability - slope / 4, slope)


def at_start(graph: TransitionGraph, values: FloatArray) -> FloatArray:
    """Return the values over the initial distribution, of arrays [..., n_states]."""
    starts: BoolArray = graph.initial > 0
    return np.asarray(values[..., starts] @ graph.initial[starts])
