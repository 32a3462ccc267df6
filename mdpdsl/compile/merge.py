"""Branches that reach the same state add up; pairs are put in order of state and action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from mdpdsl.compile.outcome import Moves
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray

#: A sum this close to 1 is left as it was written.
ROUNDING = 1e-14
#: Up to so many certain branches are ordered column by column, which is faster than sorting.
_FEW_BRANCHES = 8

A = TypeVar("A", IntArray, FloatArray)


@dataclass(frozen=True, eq=False)
class MergedRows:
    """Rows of one action: the branches of each, with ascending and distinct targets."""

    action: int
    rows: IntArray  # [n]  ascending, distinct
    counts: IntArray  # [n]  branches of each row, at least one
    targets: IntArray  # [m]
    probabilities: FloatArray  # [m]


@dataclass(frozen=True, eq=False)
class Transitions:
    """Branches of a batch of states: pairs by state and action, targets ascending."""

    pair_rows: IntArray  # [n_pairs]     row of the batch
    pair_actions: IntArray  # [n_pairs]
    starts: IntArray  # [n_pairs + 1]
    targets: IntArray  # [n_branches]  product codes
    probabilities: FloatArray  # [n_branches]  sum to 1 within a pair


def merge_rows(action: int, moves: list[Moves], n_codes: int) -> MergedRows | None:
    """Merge the branches of one rule; None if it has no branch at all."""
    moves = [part for part in moves if len(part.rows)]
    if not moves:
        return None
    rows = moves[0].rows
    is_aligned = all(part.is_one_per_row and part.rows is rows for part in moves)
    if is_aligned and len(moves) <= _FEW_BRANCHES:
        return _merge_columns(action, moves)
    return _merge_sorted(action, moves, n_codes)


def join_rows(parts: list[MergedRows], n_rows: int, n_actions: int) -> Transitions:
    """Put the rows of all actions in order, each pair at its place."""
    counts = np.zeros(n_rows * n_actions, np.int64)
    for part in parts:
        counts[part.rows * n_actions + part.action] = part.counts
    ends = np.cumsum(counts)
    begins = ends - counts
    n_branches = int(ends[-1]) if len(ends) else 0
    targets = np.empty(n_branches, np.int64)
    probabilities = np.empty(n_branches)
    for part in parts:
        begin = begins[part.rows * n_actions + part.action]
        local = np.cumsum(part.counts) - part.counts
        places = np.repeat(begin - local, part.counts)
        places += np.arange(len(places))
        targets[places] = part.targets
        probabilities[places] = part.probabilities
    pairs = np.flatnonzero(counts)
    starts = np.append(begins[pairs], n_branches)
    if len(pairs):
        sums = np.add.reduceat(probabilities, starts[:-1])
        if np.abs(sums - 1).max() > ROUNDING:
            probabilities /= np.repeat(sums, np.diff(starts))
    pair_rows, pair_actions = np.divmod(pairs, n_actions)
    return Transitions(pair_rows, pair_actions, starts, targets, probabilities)


def _merge_columns(action: int, moves: list[Moves]) -> MergedRows:
    """Merge branches that all rows have: exchange columns until every row ascends."""
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
    kept: list[BoolArray] = []
    is_whole = True
    for j in range(n_columns):
        keep = np.ones(len(targets[j]), np.bool_)
        if j + 1 < n_columns:
            same = targets[j] == targets[j + 1]
            if same.any():
                weights[j + 1] = weights[j + 1] + np.where(same, weights[j], 0.0)
                keep &= ~same
                is_whole = False
        kept.append(keep)
    rows = moves[0].rows
    stacked, stacked_weights = np.stack(targets, axis=1), np.stack(weights, axis=1)
    if is_whole:
        counts = np.full(len(rows), n_columns)
        return MergedRows(action, rows, counts, stacked.ravel(), stacked_weights.ravel())
    mask = np.stack(kept, axis=1)
    return MergedRows(action, rows, mask.sum(axis=1), stacked[mask], stacked_weights[mask])


def _exchanged(swap: BoolArray, one: A, other: A) -> list[A]:
    return [np.where(swap, other, one), np.where(swap, one, other)]


def _merge_sorted(action: int, moves: list[Moves], n_codes: int) -> MergedRows:
    """Merge any branches by sorting; those alike are added in the order of the file."""
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
