"""The rows that nature chooses from their sets, one for every pair."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mdpdsl.graph.objectives import Average, Cumulative, Discounted, Objective, Total
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.best_row import nature_rows
from mdpdsl.kernels.set_rows import INTERVALS, SetRows, ranking, room_for


@dataclass(frozen=True, eq=False)
class NatureRows:
    """One row of every pair, as nature chose it."""

    start: IntArray  # [n_pairs + 1]
    state: IntArray  # [n_branches]
    p: FloatArray  # [n_branches]
    gain: FloatArray  # [n_pairs]  expected reward of the transition, signed

    @classmethod
    def best(
        cls, rows: SetRows, values: FloatArray, sense: float, factor: float = 1.0
    ) -> NatureRows:
        """Return the rows that are best for nature if states have some values."""
        start, state, p, gain, _ = nature_rows(
            rows, values, ranking(rows, values, sense), room_for(rows), factor, sense
        )
        return cls(start, state, p, gain)

    def worth(self, values: FloatArray) -> FloatArray:
        """Return the expected value after each pair."""
        with np.errstate(invalid="ignore"):
            terms = np.where(self.p > 0, self.p * values[self.state], 0.0)
        sums = np.add.reduceat(np.append(terms, 0.0), self.start[:-1])
        return np.where(np.diff(self.start) > 0, sums, 0.0) + self.gain

    def improved(
        self, rows: SetRows, values: FloatArray, sense: float, margin: float
    ) -> NatureRows | None:
        """Return rows that are strictly better for nature somewhere; None if there are none."""
        best = NatureRows.best(rows, values, sense)
        with np.errstate(invalid="ignore"):
            old, new = sense * self.worth(values), sense * best.worth(values)
            size = np.where(np.isfinite(old), np.maximum(1.0, np.abs(old)), 0.0)
            is_better = new > old + margin * size
        return self.replaced(best, is_better) if is_better.any() else None

    def replaced(self, better: NatureRows, where: BoolArray) -> NatureRows:
        """Return these rows with some of them replaced."""
        if not where.any():
            return self
        length = np.where(where, np.diff(better.start), np.diff(self.start))
        start = np.concatenate([[0], np.cumsum(length)])
        state, p = np.empty(start[-1], self.state.dtype), np.empty(start[-1])
        for rows, kept in ((self, ~where), (better, where)):
            to = np.repeat(kept, length)
            of = np.repeat(kept, np.diff(rows.start))
            state[to], p[to] = rows.state[of], rows.p[of]
        return NatureRows(start, state, p, np.where(where, better.gain, self.gain))

    def points(self, rows: SetRows) -> SetRows:
        """Return these rows as sets of one row each."""
        n, nothing = len(rows.constant), np.zeros(len(self.p))
        return SetRows(
            pair_start=rows.pair_start,
            row_start=self.start,
            target=self.state.astype(np.int32),
            low=self.p,
            high=self.p,
            is_other=np.zeros(len(self.p), np.bool_),
            gain=nothing,
            constant=rows.constant + self.gain,
            each=np.zeros(n),
            rest=np.zeros(n),
            radius=np.zeros(n),
            shape=INTERVALS,
        )

    def model(
        self, graph: TransitionGraph, objective: Objective, rows: SetRows, sign: float
    ) -> tuple[TransitionGraph, Objective]:
        """Return the ordinary model with these rows, and the question with its rewards."""
        chosen = replace(
            graph,
            successor_start=self.start,
            successor=self.state.astype(np.int32),
            probability=self.p,
            branch_reward=None,
            branch_rewards={},
            rewards={},
        )
        if isinstance(objective, Total | Cumulative | Discounted | Average):
            objective = replace(objective, reward=sign * (rows.constant + self.gain))
        return chosen, objective


def expected_gain(rows: SetRows, chosen: NatureRows) -> FloatArray:
    """Return the expected rewards of transitions, signed, of rows that nature chose."""
    S = len(rows.pair_start) - 1
    listed = np.repeat(np.arange(len(rows.constant)), np.diff(rows.row_start)) * S + rows.target
    pair = np.repeat(np.arange(len(rows.constant)), np.diff(chosen.start))
    place = np.searchsorted(listed, pair * S + chosen.state)
    place = np.minimum(place, max(0, len(listed) - 1))
    if not len(listed):
        return np.zeros(len(rows.constant))
    gain = np.where(listed[place] == pair * S + chosen.state, rows.gain[place], 0.0)
    return np.bincount(pair, chosen.p * gain, minlength=len(rows.constant)).astype(np.float64)
