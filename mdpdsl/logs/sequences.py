"""Rows in order to transitions: consecutive rows of one episode, one usual step of time apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from mdpdsl.graph.counts import Counts, counts_from
from mdpdsl.graph.space import IntArray
from mdpdsl.graph.transition_graph import StateArray
from mdpdsl.kernels import counting
from mdpdsl.logs import rejections as reasons
from mdpdsl.logs.log_rows import Records, WholeSteps, joined
from mdpdsl.logs.order import TransitionOrder
from mdpdsl.logs.raw_steps import RawSteps
from mdpdsl.logs.rejections import Rejections

#: Up to this many pairs times states, counts are kept in a dense table.
MOST_TABLE_PLACES = 16_000_000
#: Above this many entries, the sparse counts of batches are merged.
MERGE_ABOVE = 4_000_000
#: Keys of episodes remembered, to see whether one appears twice.
MOST_REMEMBERED = 2_000_000


#: Describes what is wrong with one row.
_Found = Callable[[Records], str]


class OutOfOrderError(Exception):
    """Rows that are not sorted by episode and time."""


class TransitionTable:
    """Counts T(s,a,s') to which transitions are added.

    There may be more arrivals than states (`graph.ends`: an end is another arrival than its state).
    """

    def __init__(self, n_pairs: int, n_arrivals: int) -> None:
        self.n_arrivals = n_arrivals
        self._n_pairs = n_pairs
        is_small = n_pairs * n_arrivals <= MOST_TABLE_PLACES
        self._table = np.zeros(n_pairs * n_arrivals, np.int64) if is_small else None
        self._parts: list[tuple[IntArray, IntArray]] = []  # codes and counts

    def add(self, codes: IntArray) -> None:
        """Count transitions, each given as pair * n_arrivals + arrival."""
        if self._table is not None:
            counting.add(codes, self._table)
            return
        self._parts.append(np.unique(codes, return_counts=True))
        if sum(len(part) for part, _ in self._parts) > MERGE_ABOVE and len(self._parts) > 1:
            self._merge()

    def counts(self) -> Counts:
        """Return the counts so far."""
        if self._table is not None:
            codes = np.flatnonzero(self._table)
            counts = self._table[codes]
        else:
            self._merge()
            codes, counts = self._parts[0] if self._parts else (np.empty(0, np.int64),) * 2
        return counts_from(*np.divmod(codes, self.n_arrivals), counts, self._n_pairs)

    def _merge(self) -> None:
        if not self._parts:
            return
        codes = np.concatenate([part for part, _ in self._parts])
        counts = np.concatenate([part for _, part in self._parts])
        different, place = np.unique(codes, return_inverse=True)
        total = np.zeros(len(different), np.int64)
        np.add.at(total, place, counts)
        self._parts = [(different, total)]


class OrderWatch:
    """Checks that rows are grouped by episode, and sorted by time within each."""

    def __init__(self) -> None:
        self._last: tuple[int, int, float] | None = None
        # All episodes so far: in arrays while they ascend, since then none can appear twice.
        self._keys: list[tuple[StateArray, IntArray]] = []
        self._seen: set[tuple[int, int]] | None = None

    def shared_episodes(self) -> IntArray:
        """Return the keys of episodes that may continue in other files."""
        if self._seen is not None:
            return np.array([key for source, key in self._seen if source == 0], np.int64)
        parts = [episode[source == 0] for source, episode in self._keys]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def check(self, records: Records) -> None:
        """Check the next rows; raise OutOfOrderError if they are out of order."""
        if len(records) == 0:
            return
        starts = np.empty(len(records), np.int64)
        n = counting.starts_in_order(records.source, records.episode, records.time, starts)
        source = np.abs(records.source)  # the sign has nothing to do with the order of files
        first = (int(source[0]), int(records.episode[0]), float(records.time[0]))
        is_new = self._last is None or self._last[:2] != first[:2]
        if n < 0 or (not is_new and self._last is not None and first[2] < self._last[2]):
            raise OutOfOrderError
        places = np.concatenate([[0], starts[:n]]) if is_new else starts[:n]
        self._enter(source[places], records.episode[places])
        self._last = (int(source[-1]), int(records.episode[-1]), float(records.time[-1]))

    def _enter(self, source: StateArray, episode: IntArray) -> None:
        """Remember episodes that begin."""
        if self._seen is None:
            if self._are_ascending(source, episode):
                self._keys.append((source, episode))
                return
            if sum(len(keys) for _, keys in self._keys) > MOST_REMEMBERED:
                raise OutOfOrderError
            self._seen = {key for part in self._keys for key in _keys(*part)}
        for key in _keys(source, episode):
            if key in self._seen:
                raise OutOfOrderError
            self._seen.add(key)
        if len(self._seen) > MOST_REMEMBERED:
            raise OutOfOrderError

    def _are_ascending(self, source: StateArray, episode: IntArray) -> bool:
        if self._last is not None:
            source = np.concatenate([[self._last[0]], source])
            episode = np.concatenate([[self._last[1]], episode])
        is_later = source[1:] > source[:-1]
        is_later |= (source[1:] == source[:-1]) & (episode[1:] > episode[:-1])
        return bool(is_later.all())


def _keys(source: StateArray, episode: IntArray) -> list[tuple[int, int]]:
    return list(zip(source.tolist(), episode.tolist(), strict=True))


class Sequencer:
    """Counts the transitions of rows that are in order, in batches of any size."""

    def __init__(
        self,
        table: TransitionTable,
        rejected: Rejections,
        paths: Mapping[int, str],
        n_states: int,
        usual_bin: int | None,
        order: TransitionOrder | None = None,
        raw: RawSteps | None = None,
    ) -> None:
        self._table, self._rejected, self._paths = table, rejected, paths
        self._n_states = n_states
        self._order, self._raw = order, raw
        self.usual_bin = usual_bin
        self.histogram = np.zeros(counting.N_BINS, np.int64)
        self.starts = np.zeros(n_states, np.int64)  # episodes that start in each state
        # Carried from batch to batch: the last row that is counted, and all rows of the latest
        # time, which are duplicates or not depending on the next rows.
        self._anchor: Records | None = None
        self._held: Records | None = None
        self._reached = -1  # by the last row that is a whole transition

    def feed(self, records: Records) -> None:
        """Count the transitions that the next rows add."""
        is_fast = records.is_clean and len(records) > 2 and self._order is None
        is_fast = is_fast and (self._raw is None or self._raw.is_full)
        if not is_fast or self.usual_bin is None:
            self._feed_checked(records)
            return
        self._feed_checked(records.take(slice(0, 1)))
        if not self._feed_clean(records):
            self._feed_checked(records.take(slice(1, None)))

    def _feed_clean(self, records: Records) -> bool:
        """Count rows, the first of which is held; return False, counting none, if any is bad."""
        assert self._held is not None
        assert self.usual_bin is not None
        n = len(records)
        done, before, last = (records.take(slice(i, j)) for i, j in ((0, n - 1), (-2, -1), (-1, n)))
        is_duplicate = last.time[0] == before.time[0] and last.episode[0] == before.episode[0]
        if is_duplicate or len(self._held) > 1:
            return False
        if self._anchor is not None and self._anchor.pair[0] > counting.NUMBER:  # it has flags
            return False
        codes = np.empty(n, np.int64)
        n_codes = counting.clean_transitions(
            done.source,
            done.episode,
            done.time,
            done.state,
            done.pair,
            self._table.n_arrivals,
            self.usual_bin,
            self.histogram,
            self.starts,
            codes,
        )
        if n_codes < 0:
            return False
        self._count(self._held)
        self._table.add(codes[:n_codes])
        if self._raw is not None:
            self._raw.leave_out(n_codes)
        self._anchor, self._held = before, last
        return True

    def _feed_checked(self, records: Records) -> None:
        if len(records) == 0:
            return
        if self._held is not None:
            records = joined([self._held, records])
        is_last = (
            (records.source == records.source[-1])
            & (records.episode == records.episode[-1])
            & (records.time == records.time[-1])
        )
        n_held = len(records) if is_last.all() else int(np.argmin(is_last[::-1]))
        done, held = (
            records.take(slice(0, len(records) - n_held)),
            records.take(slice(-n_held, None)),
        )
        if n_held > 2:  # all are duplicates; two are enough to know it later
            self._reject_duplicates(held.take(slice(2, None)))
            held = held.take(slice(0, 2))
        self._held = held
        self._count(done)

    def feed_whole(self, steps: WholeSteps, pair_state: StateArray) -> None:
        """Count rows that are transitions; an episode starts where one does not follow the last."""
        if len(steps.pair) == 0:
            return
        codes = steps.pair * self._table.n_arrivals + steps.arrival
        self._table.add(codes)
        state = pair_state[steps.pair]
        follows = np.where(steps.is_stop, -1, steps.arrival)
        is_start = state != np.concatenate([[self._reached], follows[:-1]])
        self._reached = int(follows[-1])
        np.add.at(self.starts, state[is_start], 1)
        if self._order is not None:
            self._order.add_whole(codes, is_start)
        if self._raw is not None:
            self._raw.add_whole(codes, steps)

    def finish(self) -> None:
        """Count the rows that were carried."""
        if self._held is not None:
            self._count(self._held)
            assert self._anchor is not None
            self._reject_unrecorded_ends(self._anchor)
            self._held = self._anchor = None

    def _count(self, rows: Records) -> None:
        if len(rows) == 0:
            return
        rows = self._without_duplicates(rows)
        if self._anchor is not None:
            rows = joined([self._anchor, rows])
        elif rows.pair[0] >= 0 and rows.state[0] >= 0:
            self.starts[rows.state[0]] += 1
        kind = np.full(len(rows), counting.OTHER_EPISODE, np.int32)
        keys = (rows.source, rows.episode, rows.time)
        if self.usual_bin is None:
            steps = np.zeros_like(self.histogram)
            counting.link(*keys, -1, steps, kind)
            self.usual_bin = usual_step_bin(steps)
        usual_bin = -1 if self.usual_bin is None else self.usual_bin
        counting.link(*keys, usual_bin, self.histogram, kind)
        self._reject_after_ends(rows, kind)
        rows = replace(rows, pair=rows.pair.copy())
        counting.stop(kind, rows.pair, rows.state, self.starts)
        self._anchor = rows.take(slice(-1, None))
        codes = np.empty(len(rows), np.int64)
        n = counting.transitions(
            kind, rows.pair, rows.state, self._n_states, self._table.n_arrivals, codes
        )
        self._table.add(codes[:n])
        if self._order is not None:
            self._order.add(codes[:n], rows, kind)
        if self._raw is not None:
            self._raw.add(codes[:n], rows, kind)
        self._reject_breaks(rows, kind)

    def _without_duplicates(self, rows: Records) -> Records:
        """Remove the states and pairs of rows with the same time: any of them may be wrong."""
        is_same = (
            (rows.time[1:] == rows.time[:-1])
            & (rows.episode[1:] == rows.episode[:-1])
            & (rows.source[1:] == rows.source[:-1])
        )
        if not is_same.any():
            return rows
        is_duplicate = np.zeros(len(rows), np.bool_)
        is_duplicate[1:] |= is_same
        is_duplicate[:-1] |= is_same
        self._reject_duplicates(rows.take(is_duplicate))
        return replace(
            rows,
            state=np.where(is_duplicate, -1, rows.state).astype(np.int32),
            pair=np.where(is_duplicate, counting.NO_PAIR, rows.pair).astype(np.int32),
        )

    def _reject_duplicates(self, rows: Records) -> None:
        is_new = rows.state >= 0  # the others are rejected already
        self._reject(
            reasons.DUPLICATE_TIME,
            rows.take(is_new),
            lambda row: f"another row of its episode also has time {row.time[0]:.10g}",
        )

    def _reject_after_ends(self, rows: Records, kind: StateArray) -> None:
        """Reject rows in an end of the model after which their episode continues all the same."""
        continues = (rows.pair[:-1] == counting.AT_END) & (kind[1:] != counting.OTHER_EPISODE)
        self._reject(
            reasons.AFTER_END,
            rows.take(np.flatnonzero(continues)),
            lambda row: "the state is an end of the model, and more rows of its episode follow",
        )

    def _reject_breaks(self, rows: Records, kind: StateArray) -> None:
        """Reject what broke an episode: gaps in time, and what is missing before its end."""
        is_gap = kind == counting.GAP
        is_gap[1:] &= (rows.pair[:-1] >= 0) & (
            rows.state[1:] >= 0
        )  # otherwise no transition is lost
        gaps = np.flatnonzero(is_gap)
        if len(gaps):
            places = zip(rows.file[gaps].tolist(), rows.row[gaps].tolist(), strict=True)
            before = dict(zip(places, rows.time[gaps - 1].tolist(), strict=True))
            self._reject(
                reasons.GAP_IN_TIME,
                rows.take(gaps),
                lambda row: (
                    f"time {row.time[0]:.10g} after "
                    f"{before[int(row.file[0]), int(row.row[0])]:.10g}"
                ),
            )
        is_last = kind[1:] == counting.OTHER_EPISODE
        self._reject_unrecorded_ends(rows.take(slice(0, -1)).take(is_last))
        is_needed = (rows.pair[:-1] == counting.NO_ACTION) & ~is_last
        self._reject(
            reasons.MISSING_ACTION,
            rows.take(np.flatnonzero(is_needed)),
            lambda row: "no action, and not the last row of its episode",
        )

    def _reject_unrecorded_ends(self, last: Records) -> None:
        """Reject the last rows of episodes that say that the next row, which is missing, ends."""
        is_ending = (last.pair >= 0) & (last.pair & counting.ENDED != 0)
        self._reject(
            reasons.END_NOT_RECORDED,
            last.take(is_ending),
            lambda row: "the episode ends in the next state, but no row has that state",
        )

    def _reject(self, reason: str, rows: Records, found: _Found) -> None:
        for file in np.unique(rows.file).tolist():
            self._reject_of_file(reason, self._paths[file], rows.take(rows.file == file), found)

    def _reject_of_file(self, reason: str, path: str, rows: Records, found: _Found) -> None:
        self._rejected.add(reason, path, rows.row, lambda i: found(rows.take(slice(i, i + 1))))


def usual_step_bin(histogram: IntArray) -> int | None:
    """Return the bin of the usual step, with the most steps near it; None if there is no step."""
    bins = np.flatnonzero(histogram)
    if len(bins) == 0:
        return None
    total = np.concatenate([[0], np.cumsum(histogram)])
    low = np.maximum(bins - counting.NEAR, 0)
    high = np.minimum(bins + counting.NEAR + 1, len(histogram))
    near = total[high] - total[low]
    return int(bins[np.lexsort((bins, -histogram[bins], -near))[0]])
