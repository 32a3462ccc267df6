"""Merge branches that lead to the same state, and sort pairs by state and action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from mdpdsl.compile.outcome import Moves
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray

#: A row whose sum is this close to 1 is not normalised.
ROUNDING = 1e-14
#: Up to this many branches are ordered column by column, which is faster than sorting.
_FEW_BRANCHES = 8
#: The largest batch that may be laid out with gaps.
_MOST_PADDED = 8_000_000

A = TypeVar("A", IntArray, FloatArray)


@dataclass(frozen=True, eq=False)
class MergedRows:
    """The rows of one action, each with its branches; targets are ascending and distinct."""

    action: int
    rows: IntArray  # [n]  ascending, distinct
    counts: IntArray  # [n]  branches of each row, at least one
    targets: IntArray  # [m]
    probabilities: FloatArray  # [m]


@dataclass(frozen=True, eq=False)
class MergedColumns:
    """The rows of one action with branches as columns: the first branch of every row, and so on.

    Among the branches that are kept, targets ascend from column to column.
    """

    action: int
    rows: IntArray  # [n]  ascending, distinct
    targets: list[IntArray]  # of [n]
    probabilities: list[FloatArray]  # of [n]
    kept: list[BoolArray | None]  # of [n]; None: in all rows

    def flat(self) -> MergedRows:
        """Return the same branches row by row."""
        n_columns = len(self.targets)
        targets, weights = np.stack(self.targets, axis=1), np.stack(self.probabilities, axis=1)
        everywhere = np.ones(len(self.rows), np.bool_)
        mask = np.stack([everywhere if k is None else k for k in self.kept], axis=1)
        counts = mask.sum(axis=1) if n_columns else np.zeros(len(self.rows), np.int64)
        return MergedRows(self.action, self.rows, counts, targets[mask], weights[mask])


Merged = MergedRows | MergedColumns


@dataclass(frozen=True, eq=False)
class Transitions:
    """The branches of a batch of states: pairs ordered by state and action, targets ascending."""

    pair_rows: IntArray  # [n_pairs]     row of the batch
    pair_actions: IntArray  # [n_pairs]
    starts: IntArray  # [n_pairs + 1]
    targets: IntArray  # [n_branches]  product codes
    probabilities: FloatArray  # [n_branches]  sum to 1 within a pair


def merge_rows(action: int, moves: list[Moves], n_codes: int) -> Merged | None:
    """Merge the branches of one rule; None if it has no branch at all."""
    moves = [part for part in moves if len(part.rows)]
    if not moves:
        return None
    rows = moves[0].rows
    is_aligned = all(part.is_one_per_row and part.rows is rows for part in moves)
    if is_aligned and len(moves) <= _FEW_BRANCHES:
        return _merge_columns(action, moves)
    return _merge_sorted(action, moves, n_codes)


def join_rows(
    parts: list[Merged], n_rows: int, n_actions: int, *, is_whole: bool = True
) -> Transitions:
    """Combine the rows of all actions, with pairs ordered by state and action.

    Rounding errors in the sums of rows that are whole are removed.
    """
    columns = [part for part in parts if isinstance(part, MergedColumns)]
    width = max((len(part.targets) for part in columns), default=0)
    if columns and len(columns) == len(parts) and n_rows * n_actions * width <= _MOST_PADDED:
        counts, targets, probabilities = _join_columns(columns, n_rows, n_actions, width)
    else:
        rows = [part.flat() if isinstance(part, MergedColumns) else part for part in parts]
        counts, targets, probabilities = _join_flat(rows, n_rows, n_actions)
    pairs = np.flatnonzero(counts)
    ends = np.cumsum(counts)
    starts = np.append(ends[pairs] - counts[pairs], len(targets))
    if len(pairs) and is_whole:
        sums = np.add.reduceat(probabilities, starts[:-1])
        if np.abs(sums - 1).max() > ROUNDING:
            probabilities /= np.repeat(sums, np.diff(starts))
    pair_rows, pair_actions = np.divmod(pairs, n_actions)
    return Transitions(pair_rows, pair_actions, starts, targets, probabilities)


def _join_columns(
    parts: list[MergedColumns], n_rows: int, n_actions: int, width: int
) -> tuple[IntArray, IntArray, FloatArray]:
    """Place the columns side by side, and select the branches to keep, row by row."""
    targets = np.empty((n_rows, n_actions, width), np.int64)
    probabilities = np.empty((n_rows, n_actions, width))
    kept = np.zeros((n_rows, n_actions, width), np.bool_)
    for part in parts:
        # Rows are distinct and ascend, so if there are n_rows of them, they are all the rows.
        rows = slice(None) if len(part.rows) == n_rows else part.rows
        for j, is_kept in enumerate(part.kept):
            targets[rows, part.action, j] = part.targets[j]
            probabilities[rows, part.action, j] = part.probabilities[j]
            kept[rows, part.action, j] = True if is_kept is None else is_kept
    counts = kept.sum(axis=2).ravel()
    if kept.all():
        return counts, targets.ravel(), probabilities.ravel()
    return counts, targets[kept], probabilities[kept]


def _join_flat(
    parts: list[MergedRows], n_rows: int, n_actions: int
) -> tuple[IntArray, IntArray, FloatArray]:
    counts = np.zeros(n_rows * n_actions, np.int64)
    for part in parts:
        counts[part.rows * n_actions + part.action] = part.counts
    begins = np.cumsum(counts) - counts
    n_branches = int(counts.sum())
    targets = np.empty(n_branches, np.int64)
    probabilities = np.empty(n_branches)
    for part in parts:
        begin = begins[part.rows * n_actions + part.action]
        local = np.cumsum(part.counts) - part.counts
        places = np.repeat(begin - local, part.counts)
        places += np.arange(len(places))
        targets[places] = part.targets
        probabilities[places] = part.probabilities
    return counts, targets, probabilities


def _merge_columns(action: int, moves: list[Moves]) -> MergedColumns:
    """Merge branches that every row has: swap columns until the targets of each row ascend."""
    targets = [part.targets for part in moves]
    weights = [part.probabilities for part in moves]
    n_columns = len(moves)
    for end in range(n_columns - 1, 0, -1):
        for j in range(end):
            swap = targets[j] > targets[j + 1]
            if swap.all():
                targets[j], targets[j + 1] = targets[j + 1], targets[j]
                weights[j], weights[j + 1] = weights[j + 1], weights[j]
            elif swap.any():
                targets[j : j + 2] = _exchanged(swap, targets[j], targets[j + 1])
                weights[j : j + 2] = _exchanged(swap, weights[j], weights[j + 1])
    kept: list[BoolArray | None] = [None] * n_columns
    for j in range(n_columns - 1):
        same = targets[j] == targets[j + 1]
        if same.any():
            weights[j + 1] = weights[j + 1] + np.where(same, weights[j], 0.0)
            kept[j] = ~same
    return MergedColumns(action, moves[0].rows, targets, weights, kept)


def _exchanged(swap: BoolArray, one: A, other: A) -> list[A]:
    return [np.where(swap, other, one), np.where(swap, one, other)]


def _merge_sorted(action: int, moves: list[Moves], n_codes: int) -> MergedRows:
    """Merge arbitrary branches by sorting; equal targets are added up in file order."""
    rows, targets, probabilities = _sorted(moves, n_codes)
    is_new = np.concatenate([[True], (rows[1:] != rows[:-1]) | (targets[1:] != targets[:-1])])
    first = np.flatnonzero(is_new)
    if len(first) < len(rows):
        probabilities = np.add.reduceat(probabilities, first)
        rows, targets = rows[first], targets[first]
    if probabilities.min() <= 0:
        possible = probabilities > 0
        rows, targets, probabilities = rows[possible], targets[possible], probabilities[possible]
    distinct, counts = np.unique(rows, return_counts=True)
    return MergedRows(action, distinct, counts, targets, probabilities)


def _sorted(moves: list[Moves], n_codes: int) -> tuple[IntArray, IntArray, FloatArray]:
    rows = np.concatenate([part.rows for part in moves])
    targets = np.concatenate([part.targets for part in moves])
    probabilities = np.concatenate([part.probabilities for part in moves])
    bits = (n_codes - 1).bit_length()
    if int(rows.max()).bit_length() + bits > 62:
        order = np.lexsort((targets, rows))
        return rows[order], targets[order], probabilities[order]
    keys = (rows << bits) | targets
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    return keys >> bits, keys & ((1 << bits) - 1), probabilities[order]
