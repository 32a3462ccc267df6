"""Tiny models with sets of rows: made by hand or at random, and the corners of their sets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mdpdsl.graph.row_sets import RowSets
from mdpdsl.graph.space import BoolArray, FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from tests.graph.build import graph_from_rows

#: The error of sums of decimal numbers, at most.
EXACT = 1e-9
#: Corners of decimal sets are decimal, too: rounding them makes their zeros exact.
CORNER_DIGITS = 12
#: A model with more chains is drawn again.
MOST_CHAINS = 10_000
#: Kinds of rows of intervals, and how often they are drawn if they are loose or tight.
KINDS = ("fixed", "free", "capped", "around", "others", "unvisited")
SHARES = {False: (0.15, 0.2, 0.25, 0.2, 0.17, 0.03), True: (0.05, 0, 0.1, 0.75, 0.1, 0)}


@dataclass(frozen=True)
class Entry:
    """A listed successor."""

    lower: float
    upper: float
    estimate: float = 0.0
    is_other: bool = False


@dataclass(frozen=True)
class RowSet:
    """The possible rows of one pair, as in `RowSets`."""

    entries: Mapping[int, Entry]
    other_upper: float = 0.0
    others_upper: float = 0.0
    kl: float = math.inf
    l1: float = 2.0

    def corners(self, n_states: int, shape: str) -> FloatArray:
        """Return the corners of the set, [n_corners, n_states]; a ball of KL has none."""
        possible = np.flatnonzero(self.possible(n_states, shape))
        n = len(possible)
        if shape == "intervals":
            unlisted = Entry(0.0, self.other_upper, is_other=True)
            listed = [self.entries.get(s, unlisted) for s in possible.tolist()]
            A = np.vstack([-np.eye(n), np.eye(n), [[float(e.is_other) for e in listed]]])
            ends = [-e.lower for e in listed] + [e.upper for e in listed]
            b = np.array([*ends, self.others_upper])
        else:
            estimate = self.estimates(n_states)[possible]
            radius = self.l1 if estimate.any() else 2.0
            signs = np.array(list(itertools.product([-1.0, 1.0], repeat=n)))
            A = np.vstack([-np.eye(n), signs])
            b = np.append(np.zeros(n), signs @ estimate + radius)
        found = corners(A, b)
        rows = np.zeros((len(found), n_states))
        rows[:, possible] = found
        return rows

    def possible(self, n_states: int, shape: str) -> BoolArray:
        """Return the successors that may have a positive probability."""
        found = np.full(n_states, self.others_upper > 0)
        if shape == "intervals":
            found &= self.other_upper > 0
        for state, entry in self.entries.items():
            cap = min(entry.upper, self.others_upper) if entry.is_other else entry.upper
            found[state] = shape != "intervals" or cap > 0
        return found

    def estimates(self, n_states: int) -> FloatArray:
        """Return the estimated row; all 0 if there is none."""
        found = np.zeros(n_states)
        for state, entry in self.entries.items():
            found[state] = entry.estimate
        return found


@dataclass(frozen=True, eq=False)
class Game:
    """A model with sets of rows, one for each pair."""

    graph: TransitionGraph
    rows: tuple[RowSet, ...]  # [n_pairs]
    shape: str = "intervals"

    @property
    def n_states(self) -> int:
        """The number of states."""
        return self.graph.n_states

    @cached_property
    def sets(self) -> RowSets:
        """The sets in the form the solver takes."""
        listed = [sorted(row.entries.items()) for row in self.rows]
        entries = [entry for row in listed for _, entry in row]
        is_other = np.array([entry.is_other for entry in entries], np.bool_)
        return RowSets(
            successor_start=np.concatenate([[0], np.cumsum([len(row) for row in listed])]),
            successor=np.array([state for row in listed for state, _ in row], np.int32),
            estimate=np.array([entry.estimate for entry in entries], np.float64),
            lower=np.array([entry.lower for entry in entries], np.float64),
            upper=np.array([entry.upper for entry in entries], np.float64),
            other_upper=np.array([row.other_upper for row in self.rows]),
            others_upper=np.array([row.others_upper for row in self.rows]),
            kl=np.array([row.kl for row in self.rows]),
            l1=np.array([row.l1 for row in self.rows]),
            is_other=is_other if is_other.any() else None,
        )

    @cached_property
    def corners(self) -> tuple[FloatArray, ...]:
        """The corners of every pair's set."""
        return tuple(row.corners(self.n_states, self.shape) for row in self.rows)

    @cached_property
    def n_chains(self) -> int:
        """The number of choices that agent and nature have together."""
        sizes = [len(found) for found in self.corners]
        start = self.graph.pair_start
        return math.prod(max(1, sum(sizes[start[s] : start[s + 1]])) for s in range(self.n_states))

    def matrix(self, entry_reward: FloatArray) -> FloatArray:
        """Return rewards of entries as a matrix [n_pairs, n_states]."""
        found = np.zeros((len(self.rows), self.n_states))
        pair = np.repeat(np.arange(len(self.rows)), np.diff(self.sets.successor_start))
        found[pair, self.sets.successor] = entry_reward
        return found


def game_of(
    rows: Sequence[Mapping[int, RowSet]],
    shape: str = "intervals",
    goal: Sequence[int] | BoolArray = (),
    safe: BoolArray | None = None,
    ends: BoolArray | None = None,
    has_dynamics: bool = True,
) -> Game:
    """Return the game of state -> action -> set; its graph has other dynamics, or none at all."""
    n = len(rows)
    is_goal = goal if isinstance(goal, np.ndarray) else np.isin(np.arange(n), goal)
    graph = graph_from_rows(
        [{a: {s: 1.0} if has_dynamics else {} for a in row} for s, row in enumerate(rows)],
        labels={"goal": is_goal, "safe": np.ones(n, np.bool_) if safe is None else safe},
        ends=ends if ends is not None and ends.any() else None,
    )
    sets = tuple(row[action] for row in rows for action in sorted(row))
    return Game(graph, sets, shape)


def between(intervals: Mapping[int, tuple[float, float]]) -> RowSet:
    """Return the rows within some intervals, without others."""
    return RowSet({state: Entry(low, high) for state, (low, high) in intervals.items()})


def point(row: Mapping[int, float]) -> RowSet:
    """Return the set of one row."""
    entries = {state: Entry(p, p, p) for state, p in row.items()}
    return RowSet(entries, kl=0.0, l1=0.0)


def points(graph: TransitionGraph, shape: str = "intervals") -> Game:
    """Return the game in which nature has no choice."""
    rows = []
    for pair in range(graph.n_pairs):
        states, chances = graph.row(pair)
        rows.append(point(dict(zip(states.tolist(), chances.tolist(), strict=True))))
    return Game(graph, tuple(rows), shape)


# Random models


def tiny_game(rng: np.random.Generator, shape: str, lists_all: bool) -> Game:
    """Return 2 to 4 states with labels `goal` and `safe`, and not too many chains.

    If it lists all, every possible successor has an entry, so that it can have a reward.
    """
    draw = _interval_row if shape == "intervals" else _ball_row
    while True:
        is_tight = bool(rng.random() < 0.4)
        n = int(rng.choice([2, 3, 4], p=[0.1, 0.3, 0.6]))
        ends = rng.random(n) < 0.15
        ends[0] = False
        goal, safe = rng.random(n) < 0.15, rng.random(n) < 0.9
        goal[rng.integers(n)] = True
        if n == 4 and rng.random() < 0.4:  # a goal and a trap
            ends[:], goal[:], safe[:] = np.arange(n) >= 2, np.arange(n) == 3, True
        rows: list[dict[int, RowSet]] = []
        for state in range(n):
            actions = rng.permutation(2)[: 0 if ends[state] else rng.integers(1, 3)].tolist()
            rows.append({action: draw(rng, n, state, is_tight) for action in actions})
        if lists_all:
            rows = [{a: _with_all_listed(row, n) for a, row in each.items()} for each in rows]
        game = game_of(rows, shape, goal, safe, ends, has_dynamics=bool(rng.integers(2)))
        if shape == "kl" or game.n_chains <= MOST_CHAINS:
            return game


def tiny_hub(rng: np.random.Generator, is_absorbing: bool) -> Game:
    """Return a model with balls of KL in which every row may lead to the last state.

    If that is absorbing, every chain ends there (or in a goal); otherwise all have one class.
    """
    n = int(rng.integers(2, 5))
    ends = np.zeros(n, np.bool_)
    rows: list[dict[int, RowSet]] = []
    for _ in range(n):
        row: dict[int, RowSet] = {}
        for action in rng.permutation(2)[: rng.integers(1, 3)].tolist():
            targets = [n - 1, *rng.integers(0, n, 2).tolist()]
            estimate = _estimate(rng, targets, must_have=n - 1)
            entries = {s: Entry(0.0, 1.0, p) for s, p in estimate.items()}
            others = float(rng.choice([0.0, 0.0, 0.5]))
            kl = float(rng.choice([0.0, 0.02, 0.1, 0.5, 1.0]))
            row[action] = RowSet(entries, others, others, kl)
        rows.append(row)
    if is_absorbing:
        ends[-1] = bool(rng.integers(2))
        rows[-1] = {} if ends[-1] else {0: point({n - 1: 1.0})}
    goal = rng.random(n) < 0.35
    return game_of(rows, "kl", goal, ends=ends, has_dynamics=bool(rng.integers(2)))


def _interval_row(rng: np.random.Generator, n: int, state: int, is_tight: bool) -> RowSet:
    kind = rng.choice(KINDS, p=SHARES[is_tight])
    size = min(n, int(rng.integers(2 + is_tight, 4 + is_tight)))
    targets = rng.permutation(n)[:size].tolist()
    if rng.random() < 0.4 and state not in targets:
        targets[0] = state
    match kind:
        case "fixed":
            return point({targets[0]: 1.0})
        case "free":
            return between(dict.fromkeys(targets, (0.0, 1.0)))
        case "capped":
            while True:
                uppers = rng.integers(1, 11, size) / 10
                if uppers.sum() >= 1 - EXACT:
                    lowers = np.where(rng.random(size) < 0.8, 0.0, np.minimum(0.1, uppers))
                    both = zip(lowers.tolist(), uppers.tolist(), strict=True)
                    return between(dict(zip(targets, both, strict=True)))
        case "around":
            entries = {}
            for target, p in _estimate(rng, targets).items():
                width = float(rng.choice([0.1, 0.25, 0.1 if is_tight else 0.5]))
                has_lower = is_tight or rng.random() < 0.5
                lower = round(max(0.0, p - width), 2) if has_lower else 0.0
                entries[target] = Entry(lower, round(min(1.0, p + width), 2), p)
            return RowSet(entries)
        case "others":
            return _row_with_others(rng, n)
        case _:
            return RowSet({}, 1.0, 1.0)


def _row_with_others(rng: np.random.Generator, n: int) -> RowSet:
    while True:
        targets = rng.permutation(n)[: rng.integers(0, n)].tolist()
        together = float(rng.choice([0.2, 0.25, 0.5, 0.75, 1.0]))
        alone = round(together * float(rng.choice([0.4, 0.5, 1.0, 1.0])), 2)
        entries = {}
        for target in targets:
            lower, upper = np.sort(rng.choice([0.0, 0.0, 0.1, 0.25, 0.5, 0.75, 1.0], 2)).tolist()
            is_other = bool(rng.random() < 0.25)
            entries[target] = Entry(0.0 if is_other else lower, upper, 0.0, is_other)
        listed = [e for e in entries.values() if not e.is_other]
        others = [e.upper for e in entries.values() if e.is_other] + [alone] * (n - len(entries))
        least = sum(e.lower for e in listed)
        most = sum(e.upper for e in listed) + min(together, sum(others))
        if least <= 1 + EXACT and most >= 1 - EXACT:
            return RowSet(entries, alone, together)


def _ball_row(rng: np.random.Generator, n: int, _: int, is_tight: bool) -> RowSet:
    targets = rng.permutation(n)[: rng.integers(1 + is_tight, 4 + is_tight)].tolist()
    others = float(rng.choice([0.0, 0.0, 0.5]))
    if rng.random() < 0.1 and not is_tight:  # unvisited
        if rng.random() < 0.5:
            return RowSet({}, 1.0, 1.0, 0.1, 0.1)
        return RowSet({target: Entry(0.0, 1.0) for target in targets}, kl=0.1, l1=0.1)
    entries = {s: Entry(0.0, 1.0, p) for s, p in _estimate(rng, targets).items()}
    unseen = int(rng.integers(n))
    if rng.random() < 0.3 and unseen not in entries:
        entries[unseen] = Entry(0.0, 1.0)
    kl = float(rng.choice([0.0, 0.02, 0.1, 0.5, 1.0, math.inf]))
    l1 = float(rng.choice([0.0, 0.1, 0.2, 0.4] if is_tight else [0.0, 0.5, 1.0, 1.5, 2.0]))
    return RowSet(entries, others, others, kl, l1)


def _with_all_listed(row: RowSet, n: int) -> RowSet:
    if row.others_upper == 0:
        return row
    others = {s: Entry(0.0, row.other_upper, 0.0, True) for s in range(n) if s not in row.entries}
    return RowSet({**row.entries, **others}, 0.0, row.others_upper, row.kl, row.l1)


def _estimate(
    rng: np.random.Generator, targets: Sequence[int], must_have: int | None = None
) -> dict[int, float]:
    """Return quarters or tenths of a row."""
    n_parts = int(rng.choice([4, 10]))
    drawn = rng.choice(targets, n_parts)
    if must_have is not None:
        drawn[0] = must_have
    states, counts = np.unique(drawn, return_counts=True)
    return dict(zip(states.tolist(), (counts / n_parts).tolist(), strict=True))


# Corners


def corners(A: FloatArray, b: FloatArray) -> FloatArray:
    """Return the corners of {p: sum p = 1, A p <= b}: n - 1 inequalities are equalities there."""
    n = A.shape[1]
    chosen = np.array(list(itertools.combinations(range(len(A)), n - 1)), np.int64)
    systems = np.concatenate([np.ones((len(chosen), 1, n)), A[chosen]], axis=1)
    sides = np.concatenate([np.ones((len(chosen), 1)), b[chosen]], axis=1)
    is_regular = np.abs(np.linalg.det(systems)) > 0.5  # they are whole numbers
    found = np.linalg.solve(systems[is_regular], sides[is_regular][..., None])[..., 0]
    found = found[np.all(found @ A.T <= b + EXACT, axis=1)]
    assert len(found), "the set is empty"
    return np.unique(np.round(found, CORNER_DIGITS) + 0.0, axis=0)
