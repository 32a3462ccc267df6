"""Batches of a log to records or transitions; rows that cannot be used are rejected by reason.

Nearly all batches have no bad row, and take the fast path: values to cells to pairs, in compiled
loops. The others take the slow path, which checks every row for every reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.compile.terms import Read, Term
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import StateArray, TransitionGraph
from mdpdsl.kernels import binning
from mdpdsl.kernels.counting import AT_END, CLOSED, CUT, ENDED, NO_ACTION, NO_PAIR, STOPPED
from mdpdsl.logs import rejections as reasons
from mdpdsl.logs.batches import Batch
from mdpdsl.logs.log_rows import Records, WholeSteps, joined
from mdpdsl.logs.percent_signs import PercentSigns
from mdpdsl.logs.raw_steps import RawSteps
from mdpdsl.logs.readers.log_file import RawBatch
from mdpdsl.logs.rejections import Rejections
from mdpdsl.logs.row_cells import CellReader, Cells
from mdpdsl.logs.seen_values import SeenValues
from mdpdsl.logs.sources import ColumnSources
from mdpdsl.logs.stops import Stops, stops_of
from mdpdsl.logs.values import ColumnTypeError, keys_of

#: Up to this many states times actions, a table gives the pair of each.
MOST_TABLE_PLACES = 1 << 24
#: A whole-number time below this may mean that the time is missing.
LEAST_TIME = -(2.0**62)


@dataclass(eq=False)
class Converter:
    """Turns the batches of one log into records or transitions."""

    model: CheckedModel
    graph: TransitionGraph
    sources: ColumnSources
    path: str
    file: int
    is_separate: bool
    rejected: Rejections
    clipped: dict[str, int]
    raw: RawSteps | None = None  # wants the numbers of real state variables, unless it is full
    percent_signs: PercentSigns = field(default_factory=PercentSigns, init=False)
    _last_episode: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        graph, symbols = self.graph, self.model.symbols
        variables = graph.states.variables
        following = self.sources.next_states or [None] * len(variables)
        self._state_cells = [
            CellReader(variable, symbols, next_term)
            for variable, next_term in zip(variables, following, strict=True)
        ]
        self._action_cells = [CellReader(v, symbols) for v in graph.actions.product.variables]
        self._pair_codes: IntArray | None = None
        self._pair_table: StateArray | None = np.empty(0, np.int32)
        n_products = graph.n_states * graph.n_actions
        if graph.n_pairs < n_products:
            state_code = graph.pair_state.astype(np.int64) * graph.n_actions
            self._pair_codes = state_code + graph.pair_action
            self._pair_table = None
            if n_products <= MOST_TABLE_PLACES:
                self._pair_table = np.full(n_products, NO_PAIR, np.int32)
                self._pair_table[self._pair_codes] = np.arange(graph.n_pairs)
                if graph.ends is not None:
                    places = self._pair_table.reshape(graph.n_states, graph.n_actions)
                    places[graph.ends] = self._at_end
        assert graph.n_pairs < CLOSED
        self._has_all_states = graph.n_states == graph.states.product.size

    @property
    def seen(self) -> list[SeenValues]:
        """The numbers of each state variable, and how many were out of range."""
        return [seen for cells in self._state_cells for seen in cells.seen]

    def records(self, raw: RawBatch) -> Records:
        """Return the rows of a batch whose episode and time are known."""
        batch = Batch(self.path, raw)
        records = self._clean_records(batch) or self._checked_records(batch)
        self.percent_signs.note(batch.columns_read)
        return records

    def transitions(self, raw: RawBatch) -> WholeSteps:
        """Return the transitions of a batch whose rows are whole transitions."""
        assert self.sources.next_states is not None
        batch = Batch(self.path, raw)
        steps = self._clean_transitions(batch) or self._checked_transitions(batch)
        self.percent_signs.note(batch.columns_read)
        return steps

    def _clean_records(self, batch: Batch) -> Records | None:
        """Return the rows; None if any of them may be bad."""
        raw, sources = batch.raw, self.sources
        if raw.broken:
            return None
        episode, no_episode = self._episodes(batch)
        found_times = raw.rows if sources.time is None else batch.clean_values(sources.time)
        if found_times is None or no_episode.any():
            return None
        time = found_times.astype(np.float64, copy=False)
        if not np.isfinite(time.sum()) or (found_times is not time and (time < LEAST_TIME).any()):
            return None
        clipped: dict[str, int] = {}
        state = self._clean_states(batch, sources.states, clipped)
        found = None if state is None else self._clean_pairs(batch, state)
        if found is None:
            return None
        stops = stops_of(batch, self.sources)
        if stops is not None and stops.is_unclear.any():
            return None
        self._note_clipped(clipped)
        if len(episode):
            self._last_episode = int(episode[-1])
        n = batch.size
        self._mark_stops(stops, *found)
        return Records(
            source=np.full(n, self._source, np.int32),
            episode=episode,
            time=time,
            state=found[0],
            pair=found[1],
            file=np.full(n, self.file, np.int32),
            row=raw.rows,
            is_clean=True,
            real=self._real(batch, sources.states),
        )

    def _clean_transitions(self, batch: Batch) -> WholeSteps | None:
        assert self.sources.next_states is not None
        if batch.raw.broken:
            return None
        clipped: dict[str, int] = {}
        state = self._clean_states(batch, self.sources.states, clipped)
        following = self._clean_states(batch, self.sources.next_states, clipped)
        found = None if state is None else self._clean_pairs(batch, state)
        stops = stops_of(batch, self.sources)
        if following is None or found is None or (found[1] < 0).any():
            return None
        if stops is not None and stops.is_unclear.any():
            return None
        self._note_clipped(clipped)
        return self._whole_steps(batch, found[1], following, stops)

    def _clean_states(
        self, batch: Batch, terms: Sequence[Term], clipped: dict[str, int]
    ) -> IntArray | None:
        product = self.graph.states.product
        code = np.zeros(batch.size, np.int64)
        for cells, variable, stride, term in zip(
            self._state_cells, product.variables, product.strides, terms, strict=True
        ):
            n_clipped = cells.add(batch, term, int(stride), False, code)
            if n_clipped is None:
                return None
            clipped[variable.name] = clipped.get(variable.name, 0) + n_clipped
        if self._has_all_states:
            return code
        state = self.graph.states.indices(code)
        return None if (state < 0).any() else state

    def _clean_pairs(self, batch: Batch, state: IntArray) -> tuple[StateArray, StateArray] | None:
        """Return states and pairs; NO_ACTION in rows without an action."""
        if self._pair_table is None:
            return None
        action = np.zeros(batch.size, np.int64)
        product = self.graph.actions.product
        for cells, stride, term in zip(
            self._action_cells, product.strides, self.sources.actions, strict=True
        ):
            if cells.add(batch, term, int(stride), True, action) is None:
                return None
        states, pairs = np.empty(batch.size, np.int32), np.empty(batch.size, np.int32)
        n_bad = binning.add_pairs(
            state, action, self.graph.n_actions, self._pair_table, NO_ACTION, states, pairs
        )
        if self.graph.ends is not None:  # whatever the action is: none is taken there
            pairs[self.graph.ends[states]] = self._at_end
        return None if n_bad else (states, pairs)

    @property
    def _at_end(self) -> int:
        """What a row in an end of the model has in place of a pair."""
        return STOPPED if self.sources.episode is None else AT_END

    def _mark_stops(self, stops: Stops | None, state: StateArray, pair: StateArray) -> None:
        """Write to states and pairs where episodes stop, as `Records` has it."""
        if stops is None or not (stops.any | stops.is_unclear).any():
            return
        acted, idle = pair >= 0, (pair == NO_ACTION) | (pair == STOPPED)
        closed = CLOSED if self.sources.episode is None else 0
        pair[acted & stops.ended] |= ENDED | closed
        pair[acted & stops.cut] |= CUT | closed
        pair[idle & stops.any] = STOPPED
        state[idle & stops.ended & (state >= 0)] += self.graph.n_states
        pair[acted & stops.is_unclear] = NO_PAIR
        state[idle & stops.is_unclear] = -1

    def _whole_steps(
        self, batch: Batch, pair: StateArray, following: IntArray, stops: Stops | None
    ) -> WholeSteps:
        assert self.sources.next_states is not None
        before = self._real(batch, self.sources.states)
        after = self._real(batch, self.sources.next_states)
        is_stop = np.zeros(len(pair), np.bool_)
        if stops is not None:
            following, is_stop = following + self.graph.n_states * stops.ended, stops.any
        return WholeSteps(pair.astype(np.int64), following, is_stop, before, after)

    def _real(self, batch: Batch, terms: Sequence[Term]) -> FloatArray | None:
        """Return the numbers of the real state variables, [n, n_real], if they are asked for.

        They mean nothing in rows that are rejected.
        """
        if self.raw is None or self.raw.is_full:
            return None
        real = np.empty((batch.size, len(self.raw.real)))
        for column, position in enumerate(self.raw.real):
            real[:, column] = batch.evaluated(terms[position])[0]
        return real

    def _reject_unclear(self, batch: Batch, stops: Stops | None, is_bad: BoolArray) -> None:
        if stops is None:
            return
        terms = [term for term in (self.sources.ended, *self.sources.cut) if term is not None]
        self._reject(reasons.UNKNOWN_FLAG, stops.is_unclear & ~is_bad, batch, terms, "flag")

    @property
    def _source(self) -> int:
        if self.sources.time is None:
            return -self.file - 1
        return self.file + 1 if self.sources.episode is None or self.is_separate else 0

    def _note_clipped(self, clipped: Mapping[str, int]) -> None:
        for name, number in clipped.items():
            if number:
                self.clipped[name] = self.clipped.get(name, 0) + number

    def _checked_records(self, batch: Batch) -> Records:
        raw = batch.raw
        n = len(raw.rows)
        self._reject_broken(raw)
        has_time = self.sources.time is not None
        episode, no_episode = self._episodes(batch)
        time = raw.rows.astype(np.float64)
        no_time = np.zeros(n, np.bool_)
        wrong: tuple[tuple[str, BoolArray], ...] = ()
        if self.sources.time is not None:
            time, wrong = batch.evaluated(self.sources.time)
            no_time = ~np.isfinite(time)
            no_time |= np.logical_or.reduce([mask for _, mask in wrong]) if wrong else no_time
        is_bad = no_episode | no_time
        self._reject(reasons.MISSING_EPISODE, no_episode, batch, self.sources.episode, "episode")
        lost_time = no_time & ~no_episode
        for reason, mask in wrong:
            if reason in reasons.ABOUT_TIMES:
                self._reject(reason, mask & lost_time, batch, self.sources.time, "time")
                lost_time &= ~mask
        self._reject(reasons.MISSING_TIME, lost_time, batch, self.sources.time, "time")
        state, is_bad = self._states(batch, self.sources.states, is_bad, "")
        pair = self._pairs(batch, state, is_bad)
        states = np.where(is_bad, -1, state).astype(np.int32)
        stops = stops_of(batch, self.sources)
        self._reject_unclear(batch, stops, is_bad)
        self._mark_stops(stops, states, pair)
        records = Records(
            source=np.full(n, self._source, np.int32),
            episode=episode,
            time=time,
            state=states,
            pair=pair,
            file=np.full(n, self.file, np.int32),
            row=raw.rows,
            real=self._real(batch, self.sources.states),
        )
        if has_time:
            is_lost = no_episode | no_time
            return records.take(~is_lost) if is_lost.any() else records
        return self._with_holes(records, raw)

    def _checked_transitions(self, batch: Batch) -> WholeSteps:
        assert self.sources.next_states is not None
        self._reject_broken(batch.raw)
        is_bad = np.zeros(batch.size, np.bool_)
        state, is_bad = self._states(batch, self.sources.states, is_bad, "")
        following, is_bad = self._states(batch, self.sources.next_states, is_bad, "next ")
        pair = self._pairs(batch, state, is_bad)
        needed = pair == NO_ACTION
        self._reject(reasons.MISSING_ACTION, needed, batch, self.sources.actions[0], "the action")
        is_after = (pair == AT_END) | (pair == STOPPED)
        self._reject(reasons.AFTER_END, is_after, batch, self.sources.states, "state")
        is_good = (pair >= 0) & ~is_bad
        stops = stops_of(batch, self.sources)
        self._reject_unclear(batch, stops, ~is_good)
        steps = self._whole_steps(batch, pair, following, stops)
        if stops is not None:
            is_good &= ~stops.is_unclear
        return steps.take(is_good)

    def _episodes(self, batch: Batch) -> tuple[IntArray, BoolArray]:
        n = batch.size
        term = self.sources.episode
        if term is None:
            return np.zeros(n, np.int64), np.zeros(n, np.bool_)
        if isinstance(term, Read):
            try:
                return keys_of(batch.raw.columns[term.name])
            except ColumnTypeError as error:
                raise batch.wrong_type(term.name, error) from None
        import pyarrow as pa

        values, wrong = batch.evaluated(term)
        keys, is_missing = keys_of(pa.array(values, from_pandas=True))
        for _, mask in wrong:
            is_missing = is_missing | mask
        return keys, is_missing

    def _states(
        self, batch: Batch, terms: Sequence[Term], is_bad: BoolArray, prefix: str
    ) -> tuple[IntArray, BoolArray]:
        product = self.graph.states.product
        code = np.zeros(batch.size, np.int64)
        for reader, stride, term in zip(self._state_cells, product.strides, terms, strict=True):
            cells = reader.checked(batch, term, prefix, reasons.OUT_OF_RANGE)
            self._note_clipped({cells.name.removeprefix(prefix): cells.n_clipped})
            is_bad = self._reject_cells(batch, cells, is_bad, reasons.MISSING_VALUE)
            code += stride * np.maximum(cells.index, 0)
        if self._has_all_states:
            return code, is_bad
        state = self.graph.states.indices(code)
        is_new = (state < 0) & ~is_bad
        self._reject(reasons.NOT_A_STATE, is_new, batch, terms, f"{prefix}state")
        return np.maximum(state, 0), is_bad | is_new

    def _pairs(self, batch: Batch, state: IntArray, is_bad: BoolArray) -> StateArray:
        """Return the pair of each row; rows without a state have none and are already rejected."""
        product = self.graph.actions.product
        action = np.zeros(batch.size, np.int64)
        is_missing = np.zeros(batch.size, np.bool_)
        ends = self.graph.ends
        is_end = np.zeros(batch.size, np.bool_) if ends is None else ends[state] & ~is_bad
        has_none = is_bad | is_end  # in an end no action is taken, whatever the row has
        for reader, stride, term in zip(
            self._action_cells, product.strides, self.sources.actions, strict=True
        ):
            cells = reader.checked(batch, term, "", reasons.UNKNOWN_ACTION)
            has_none = self._reject_cells(batch, cells, has_none | is_missing, None)
            is_missing |= cells.is_missing
            action += stride * np.maximum(cells.index, 0)
        pair = state * self.graph.n_actions + action
        if self._pair_codes is not None:
            codes = self._pair_codes
            place = np.minimum(np.searchsorted(codes, pair), len(codes) - 1)
            is_free = (codes[place] != pair) & ~has_none & ~is_missing
            terms = [*self.sources.states, *self.sources.actions]
            self._reject(reasons.NOT_AVAILABLE, is_free, batch, terms, "pair")
            pair, has_none = place, has_none | is_free
        pair = np.where(has_none, NO_PAIR, pair)
        pair = np.where(is_missing & ~is_bad, NO_ACTION, pair)
        return np.where(is_end, self._at_end, pair).astype(np.int32)

    def _reject_cells(
        self, batch: Batch, cells: Cells, is_bad: BoolArray, missing: str | None
    ) -> BoolArray:
        """Reject the rows in which a variable has no cell; return all bad rows so far."""
        if not (cells.index < 0).any():
            return is_bad
        faults = list(cells.wrong)
        if missing is not None:
            faults.insert(0, (missing, cells.is_missing))
        for reason, mask in faults:
            is_new = mask & ~is_bad
            self._reject(reason, is_new, batch, cells.term, cells.name)
            is_bad = is_bad | mask
        return is_bad

    def _reject(
        self,
        reason: str,
        mask: BoolArray,
        batch: Batch,
        terms: Term | Sequence[Term] | None,
        name: str,
    ) -> None:
        places = np.flatnonzero(mask)
        if len(places) == 0:
            return
        several = [terms] if isinstance(terms, Term) else list(terms or ())

        def found(i: int) -> str:
            return batch.text(several, name, int(places[i]))

        self.rejected.add(reason, self.path, batch.raw.rows[places], found)

    def _reject_broken(self, raw: RawBatch) -> None:
        numbers = np.array([number for number, _ in raw.broken], np.int64)
        self.rejected.add(reasons.BROKEN_LINE, self.path, numbers, lambda i: raw.broken[i][1])

    def _with_holes(self, records: Records, raw: RawBatch) -> Records:
        """Put broken lines in their places, so that no transition is counted across them.

        Without times, nothing else shows that a row is missing. A broken line, and a row without
        an episode, belongs to the episode of the row before.
        """
        holes = np.array([number for number, _ in raw.broken], np.int64)
        n = len(holes)
        broken = Records(
            source=np.full(n, -self.file - 1, np.int32),
            episode=np.zeros(n, np.int64),
            time=holes.astype(np.float64),
            state=np.full(n, -1, np.int32),
            pair=np.full(n, NO_PAIR, np.int32),
            file=np.full(n, self.file, np.int32),
            row=holes,
            real=None if records.real is None else np.full((n, records.real.shape[1]), np.nan),
        )
        if self.sources.episode is None:
            if n == 0:
                return records
            both = joined([records, broken])
            return both.take(np.argsort(both.row, kind="stable"))
        is_known = np.concatenate([~self._episodes(Batch(self.path, raw))[1], np.zeros(n, bool)])
        both = joined([records, broken]) if n else records
        if not is_known.all():
            order = np.argsort(both.row, kind="stable")
            both, is_known = both.take(order), is_known[order]
            last_known = np.maximum.accumulate(np.where(is_known, np.arange(len(both)), -1))
            filled = np.where(last_known >= 0, both.episode[last_known], self._last_episode)
            both = replace(both, episode=filled)
        if len(both):
            self._last_episode = int(both.episode[-1])
        return both
