"""Ends and cuts in logs, in every form that a log may have, against a plain count of episodes."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.logs.count import LogCounts, count_logs

S, A = 4, 2
SPACES = "mdp spaces  state x in 0..3  action a, b"

Arrival = tuple[int, int, int, bool]  # state, action, next state, whether the episode ended there


@dataclass(frozen=True)
class Episode:
    """States and the actions between them; it ended in the last state, or was cut, or neither."""

    states: list[int]
    actions: list[int]
    stop: str  # ended, cut, open

    @property
    def steps(self) -> list[Arrival]:
        n = len(self.actions)
        return [
            (s, a, t, self.stop == "ended" and i == n - 1)
            for i, (a, (s, t)) in enumerate(zip(self.actions, pairwise(self.states), strict=True))
        ]


@st.composite
def episodes(draw: Any) -> list[Episode]:
    found = []
    for _ in range(draw(st.integers(1, 6))):
        actions = draw(st.lists(st.integers(0, A - 1), min_size=1, max_size=5))
        states = draw(
            st.lists(st.integers(0, S - 1), min_size=len(actions) + 1, max_size=len(actions) + 1)
        )
        found.append(Episode(states, actions, draw(st.sampled_from(["ended", "cut", "open"]))))
    return found


def counted(table: pa.Table, model: str = SPACES, batch_rows: int = 1000) -> LogCounts:
    loaded = mdpdsl.loads(model)
    return count_logs(loaded.checked, loaded.graph, table, batch_rows=batch_rows)


def arrivals(read: LogCounts) -> Counter[Arrival]:
    counts = read.counts
    pair = np.repeat(np.arange(S * A), np.diff(counts.successor_start))
    found: Counter[Arrival] = Counter()
    for p, arrival, n in zip(
        pair.tolist(), counts.successor.tolist(), counts.count.tolist(), strict=True
    ):
        found[p // A, p % A, arrival % S, arrival >= S] += n
    return found


def expected(given: Sequence[Episode]) -> Counter[Arrival]:
    return Counter(step for episode in given for step in episode.steps)


def starts(given: Sequence[Episode]) -> list[int]:
    found = Counter(episode.states[0] for episode in given)
    return [found[state] for state in range(S)]


def state_rows(given: Sequence[Episode], *, flags_on: str, filler: bool) -> list[dict[str, Any]]:
    """Return a row for every state; flags are on the last row, or on the one before it."""
    rows = []
    for number, episode in enumerate(given):
        last = len(episode.states) - 1
        for time, state in enumerate(episode.states):
            acts = time < last
            is_flagged = time == (last if flags_on == "last" else last - 1)
            rows.append(
                {
                    "episode": number,
                    "time": time,
                    "x": state,
                    "action": "ab"[episode.actions[time]] if acts else "a" if filler else None,
                    "terminated": is_flagged and episode.stop == "ended",
                    "truncated": is_flagged and episode.stop == "cut",
                }
            )
    return rows


@pytest.mark.parametrize(("flags_on", "filler"), [("last", False), ("step", False), ("step", True)])
@settings(max_examples=60, deadline=None)
@given(given=episodes(), batch_rows=st.integers(1, 7), order=st.randoms())
def test_rows_of_states_are_read_with_their_ends(
    flags_on: str, filler: bool, given: list[Episode], batch_rows: int, order: Any
) -> None:
    rows = state_rows(given, flags_on=flags_on, filler=filler)
    for shuffled in (False, True):
        if shuffled:
            order.shuffle(rows)
        read = counted(pa.Table.from_pylist(rows), batch_rows=batch_rows)
        assert arrivals(read) == expected(given)
        assert read.starts.tolist() == starts(given)
        assert read.rejected.counts == {}
        assert read.has_stops


@settings(max_examples=60, deadline=None)
@given(given=episodes(), batch_rows=st.integers(1, 7), flags_on=st.sampled_from(["last", "step"]))
def test_flags_alone_separate_episodes(
    given: list[Episode], batch_rows: int, flags_on: str
) -> None:
    """Without a column for episodes, and with one row after the other."""
    given = [Episode(e.states, e.actions, "cut" if e.stop == "open" else e.stop) for e in given]
    rows = [
        {name: row[name] for name in ("x", "action", "terminated", "truncated")}
        for row in state_rows(given, flags_on=flags_on, filler=False)
    ]
    read = counted(pa.Table.from_pylist(rows), batch_rows=batch_rows)
    assert arrivals(read) == expected(given)
    assert read.starts.tolist() == starts(given)
    assert read.rejected.counts == {}


@settings(max_examples=60, deadline=None)
@given(given=episodes(), batch_rows=st.integers(1, 7))
def test_whole_transitions_are_read_with_their_ends(given: list[Episode], batch_rows: int) -> None:
    rows = [
        {"x": s, "action": "ab"[a], "next_x": t, "terminated": ended, "truncated": False}
        for episode in given
        for s, a, t, ended in episode.steps
    ]
    read = counted(pa.Table.from_pylist(rows), batch_rows=batch_rows)
    assert arrivals(read) == expected(given)


def rows_of(text: str) -> pa.Table:
    lines = list(csv.DictReader(text.split()))
    return pa.Table.from_pylist([{k: v or None for k, v in line.items()} for line in lines])


def test_an_end_whose_state_is_not_recorded_is_rejected() -> None:
    read = counted(rows_of("episode,x,action,terminated 0,0,a,0 0,1,b,1 1,2,a,0 1,3,,0"))
    assert arrivals(read) == {(0, 0, 1, False): 1, (2, 0, 3, False): 1}
    assert read.rejected.counts == {"end not recorded": 1}
    last = counted(rows_of("episode,x,action,terminated 0,0,a,0 0,1,b,1"))
    assert last.rejected.counts == {"end not recorded": 1}


def test_a_buffer_without_episodes_does_not_teach_the_reset() -> None:
    """Its rows are (state, action, done of the next state); the next row is the next start."""
    text = "x,action,terminated 0,a,false 1,b,true 0,b,false 2,a,false 3,a,false"
    read = counted(rows_of(text))
    assert arrivals(read) == {(0, 0, 1, False): 1, (0, 1, 2, False): 1, (2, 0, 3, False): 1}
    assert read.rejected.counts == {"end not recorded": 1}
    assert read.starts.tolist() == [2, 0, 0, 0]


def test_done_cuts_unless_it_is_declared_as_the_end() -> None:
    text = "episode,x,action,done 0,0,a,0 0,1,,1 1,0,b,0 1,2,,1"
    assert arrivals(counted(rows_of(text))) == {(0, 0, 1, False): 1, (0, 1, 2, False): 1}
    declared = counted(rows_of(text), f"{SPACES}  log {{ ended = done }}")
    assert arrivals(declared) == {(0, 0, 1, True): 1, (0, 1, 2, True): 1}


def test_ends_and_cuts_may_be_expressions_of_columns() -> None:
    block = "log { ended = height < 0  cut = clock >= 9 }"
    text = (
        "episode,x,action,height,clock 0,0,a,1,0 0,1,b,1,1 0,2,,-1,2 1,0,a,1,8 1,1,a,1,9 1,2,,1,10"
    )
    read = counted(rows_of(text), f"{SPACES}  {block}")
    assert read.rejected.counts == {}
    assert arrivals(read) == {
        (0, 0, 1, False): 2,
        (1, 1, 2, True): 1,
        (1, 0, 2, False): 1,
    }


def test_what_is_neither_yes_nor_no_is_rejected_and_not_counted() -> None:
    text = "episode,x,action,terminated 0,0,a,maybe 0,1,b,no 0,2,,YES 1,0,b,2 1,1,,"
    read = counted(rows_of(text))
    assert read.rejected.counts == {"unclear whether the episode ended": 2}
    assert arrivals(read) == {(1, 1, 2, True): 1}


ENDING = "mdp m  state x in 0..3  action a, b  init x = 0  on any -> x' = min(x + 1, 3)  "
ENDING += "end when x == 3"


def test_no_action_is_taken_in_an_end_of_the_model() -> None:
    """What a recorder writes there is ignored, but an episode that continues there is not."""
    text = "episode,x,action 0,2,a 0,3,b 1,2,a 1,3,nothing 2,2,b 2,3,a 2,0,a 2,1,"
    loaded = mdpdsl.loads(ENDING, all_states=True)
    read = count_logs(loaded.checked, loaded.graph, rows_of(text))
    pair = np.repeat(np.arange(6), np.diff(read.counts.successor_start))
    assert pair.tolist() == [0, 4, 5]
    assert read.counts.successor.tolist() == [1, 3, 3]
    assert read.counts.count.tolist() == [1, 2, 1]
    assert read.rejected.counts == {"row after an end": 1}


def test_an_estimate_says_which_ends_the_data_show(tmp_path: Path) -> None:
    text = "episode,x,action,terminated 0,0,a,0 0,1,,1 1,0,b,0 1,1,a,0 1,2,,1"
    with pytest.warns(mdpdsl.MdpdslWarning, match="others continued in x = 1;"):
        found = mdpdsl.estimate(mdpdsl.loads(SPACES), rows_of(text), out=tmp_path / "run")
    ends = [(e["state"]["x"], e["arrivals"], e["mixed"]) for e in found.record()["ends"]]
    assert ends == [(2, 1, False), (1, 1, True)]
    assert found.graph.n_states == 5  # a twin of x = 1
    assert found.graph.n_pairs == 6  # none in x = 2
    again = mdpdsl.open_run(tmp_path / "run")
    assert isinstance(again, mdpdsl.Estimate)
    assert again.record() == found.record()
    assert again.graph.hash == found.graph.hash
    assert again.counts.successor.tolist() == found.counts.successor.tolist()
    assert np.array_equal(again.sets.radius, found.sets.radius)
    loaded = mdpdsl.load(tmp_path / "run", all_states=True)
    assert loaded.graph.n_states == 5
    assert loaded.graph.initial.tolist() == [1, 0, 0, 0, 0]  # where the episodes started


def test_an_estimate_that_cannot_know_its_ends_says_so() -> None:
    text = "episode,x,action 0,0,a 0,1,"
    found = mdpdsl.estimate(mdpdsl.loads(SPACES), rows_of(text))
    assert not found.record()["says_ends"]
    assert found.record()["ends"] == []


def test_undeclared_ends_contradict_the_successors_of_a_model() -> None:
    model = mdpdsl.loads(ENDING, all_states=True)
    text = "episode,x,action,terminated 0,0,a,0 0,1,,1"
    with pytest.raises(mdpdsl.SettingsError, match="no ends of m: x = 1; add `end when`"):
        mdpdsl.estimate(model, rows_of(text), support="model")
    assert mdpdsl.estimate(model, rows_of(text)).settled.found.tolist() == [1]


LAKE = "mdp lake  state row in 0..3  state col in 0..3  action left, down, right, up  "
LAKE += "label goal when row == 3 and col == 3"


def test_an_estimate_of_a_lake_is_not_certain_to_reach_the_goal() -> None:
    """Holes whose rows were guessed once led on to the goal: 1, where the truth is 0.8235."""
    frame = mdpdsl.simulate(mdpdsl.load("frozen_lake"), steps=20_000, seed=1).to_pandas()
    spaces = mdpdsl.loads(LAKE)
    solved = mdpdsl.solve(mdpdsl.estimate(spaces, frame), reach="goal").record()
    assert solved["value"] == pytest.approx(0.8235, abs=0.12)
    assert solved["rests_on_unseen"] == 0
    unflagged = frame.drop(columns=["terminated", "truncated"])
    guessed = mdpdsl.solve(mdpdsl.estimate(spaces, unflagged), reach="goal").record()
    assert guessed["bound"] is None
    assert guessed["rests_on_unseen"] > 0


def test_the_mean_return_of_whole_episodes_is_the_value_of_the_estimate() -> None:
    """Under the log's own policy and starts; every episode of the log ends by itself."""
    lake = mdpdsl.load("frozen_lake")
    frame = mdpdsl.simulate(lake, steps=4_000, seed=5).to_pandas()
    whole = frame.groupby("episode")["terminated"].transform("any")
    frame = frame[whole]
    found = mdpdsl.estimate(mdpdsl.loads(LAKE), frame)
    graph, counts = found.estimate, found.counts
    arrived = (frame["row"] == 3) & (frame["col"] == 3)
    mean_return = arrived.sum() / frame["episode"].nunique()
    visits = counts.visits.astype(float)
    policy = visits / np.add.reduceat(np.append(visits, 0), graph.pair_start[:-1])[graph.pair_state]
    P = graph.transition_matrix().toarray()
    reward = P[:, graph.state(row=3, col=3)]
    here = np.zeros((graph.n_states, graph.n_pairs))
    here[graph.pair_state, np.arange(graph.n_pairs)] = policy
    values = np.linalg.solve(np.eye(graph.n_states) - here @ P, here @ reward)
    start = found.settled.starts / found.settled.starts.sum()
    assert start @ values == pytest.approx(mean_return, abs=1e-9)
