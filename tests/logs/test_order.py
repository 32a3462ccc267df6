"""Transitions of logs in their order, against queues made of plain lists."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mdpdsl.compile.model import Model
from mdpdsl.logs.order import (
    LoggedTransitions,
    TransitionOrder,
    load_transitions,
    save_transitions,
)
from tests.logs.plain_logs import Row, counted, spaces, write_csv

Queues = dict[tuple[int, str], list[int]]


def ordered(model: Model, *paths: Path, **options: object) -> LoggedTransitions:
    order = TransitionOrder(model.graph)
    read = counted(model, *paths, order=order, **options)
    logged = order.transitions()
    assert np.array_equal(np.diff(logged.queue_start), read.counts.visits)
    return logged


def queues_of(model: Model, logged: LoggedTransitions) -> Queues:
    graph, start = model.graph, logged.queue_start
    labels = graph.actions.labels
    return {
        (int(graph.pair_state[p]), labels[graph.pair_action[p]]): logged.successor[
            start[p] : start[p + 1]
        ].tolist()
        for p in np.flatnonzero(np.diff(start)).tolist()
    }


def plain_queues(rows: Sequence[Row]) -> tuple[Queues, list[int]]:
    """Walk through episodes in order; x beyond 4 is no state, and a step of time is 1."""
    queues: Queues = defaultdict(list)
    starts = []
    by_episode: dict[int, dict[int, Row]] = defaultdict(dict)
    for row in rows:
        by_episode[int(str(row["episode"]))][int(str(row["time"]))] = row
    for episode in sorted(by_episode):
        is_begun = False
        for time in sorted(by_episode[episode]):
            here, after = by_episode[episode][time], by_episode[episode].get(time + 1)
            if after is None:
                continue
            x, following = int(str(here["x"])), int(str(after["x"]))
            if x > 4 or following > 4:
                continue
            queues[x, str(here["action"])].append(following)
            if not is_begun:
                starts.append(x)
            is_begun = True
    return dict(queues), starts


episodes = st.lists(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from("ab")), min_size=1, max_size=7),
    min_size=1,
    max_size=4,
)


@given(
    episodes=episodes,
    batch_rows=st.integers(1, 9),
    is_shuffled=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_queues_hold_the_successors_in_the_order_of_the_log(
    tmp_path_factory: object, episodes: list[list[tuple[int, str]]], batch_rows: int,
    is_shuffled: bool, seed: int,
) -> None:  # fmt: skip
    folder = tmp_path_factory.mktemp("log")  # type: ignore[attr-defined]
    rows: list[Row] = [
        {"episode": e, "time": t, "x": x, "action": a}
        for e, episode in enumerate(episodes)
        for t, (x, a) in enumerate(episode)
    ]
    expected = plain_queues(rows)
    if is_shuffled:
        order = np.random.default_rng(seed).permutation(len(rows))
        rows = [rows[i] for i in order]
    model = spaces()
    path = write_csv(folder / "log.csv", rows)
    logged = ordered(model, path, batch_rows=batch_rows, time_step=1.0)
    assert (queues_of(model, logged), logged.episode.tolist()) == expected


def test_a_gap_does_not_start_an_episode(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"episode": 0, "time": t, "x": x, "action": "a"}
        for t, x in [(0, 0), (1, 1), (2, 2), (9, 3), (10, 4)]
    ]
    model = spaces()
    logged = ordered(model, write_csv(tmp_path / "log.csv", rows))
    assert queues_of(model, logged) == {(0, "a"): [1], (1, "a"): [2], (3, "a"): [4]}
    assert logged.episode.tolist() == [0]


def test_an_episode_continues_in_the_next_file_and_is_one_episode(tmp_path: Path) -> None:
    rows: list[Row] = [{"episode": 7, "time": t, "x": t, "action": "b"} for t in range(5)]
    model = spaces()
    first = write_csv(tmp_path / "1.csv", rows[:2])
    second = write_csv(tmp_path / "2.csv", rows[2:])
    assert ordered(model, first, second).episode.tolist() == [0]
    assert ordered(model, first, second, are_files_separate=True).episode.tolist() == [0, 2]


def test_whole_transitions_start_an_episode_where_they_do_not_follow(tmp_path: Path) -> None:
    steps = [(0, "a", 1), (1, "a", 4), (0, "a", 2), (2, "b", 2), (2, "b", 4), (3, "a", 4)]
    rows: list[Row] = [{"x": x, "action": a, "next_x": y} for x, a, y in steps]
    model = spaces()
    for batch_rows in (1, 2, 100):
        logged = ordered(model, write_csv(tmp_path / "log.csv", rows), batch_rows=batch_rows)
        assert logged.episode.tolist() == [0, 0, 3]
        assert queues_of(model, logged) == {
            (0, "a"): [1, 2],
            (1, "a"): [4],
            (2, "b"): [2, 4],
            (3, "a"): [4],
        }


def test_files_without_times_keep_their_order_even_where_episodes_are_mixed(
    tmp_path: Path,
) -> None:
    def mixed(x: int) -> list[Row]:
        return [
            {"episode": e, "x": 0 if n == 0 else x, "action": "a"} for n in (0, 1) for e in (1, 2)
        ]

    model = spaces()
    paths = [write_csv(tmp_path / f"{x}.csv", mixed(x)) for x in (3, 1)]
    assert queues_of(model, ordered(model, *paths)) == {(0, "a"): [3, 3, 1, 1]}


def test_a_log_that_is_written_is_read_as_it_was(tmp_path: Path) -> None:
    rows: list[Row] = [{"episode": 0, "time": t, "x": t % 3, "action": "a"} for t in range(9)]
    logged = ordered(spaces(), write_csv(tmp_path / "log.csv", rows))
    save_transitions(logged, tmp_path / "log.npz")
    again = load_transitions(tmp_path / "log.npz")
    assert again.hash == logged.hash
    assert np.array_equal(again.successor, logged.successor)
    other = LoggedTransitions(logged.queue_start, logged.successor[::-1], logged.episode)
    assert other.hash != logged.hash
