"""The numbers behind the transitions of logs, against the rows they come from."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from mdpdsl.compile.model import Model
from mdpdsl.logs.count import LogCounts
from mdpdsl.logs.raw_steps import RawSteps, RawTransitions
from tests.logs.plain_logs import Row, counted, spaces, write_csv

SPACES = """\
mdp spaces
state angle in [-1, 1] wrap bins 4
state mode in {off, low, high}
state x in [0, 4] bins 4
state lit in bool
action a, b
"""
MODES = ("off", "low", "high")

Step = tuple[tuple[float, ...], int, tuple[float, ...]]


def some_rows(n_episodes: int = 4, n_times: int = 6, seed: int = 0) -> list[Row]:
    """Return rows whose real numbers lie also outside the ranges."""
    rng = np.random.default_rng(seed)
    return [
        {
            "episode": e,
            "time": t,
            "angle": float(rng.uniform(-3, 3)),
            "mode": MODES[rng.integers(3)],
            "x": float(rng.uniform(-1, 5)),
            "lit": bool(rng.integers(2)),
            "action": "ab"[rng.integers(2)],
        }
        for e in range(n_episodes)
        for t in range(n_times)
    ]


def numbers(model: Model, row: Row, prefix: str = "") -> tuple[float, ...]:
    symbols = model.checked.symbols
    values = (row[prefix + name] for name in ("angle", "mode", "x", "lit"))
    return tuple(
        float(symbols[v]) if isinstance(v, str) else float(str(v * 1))  # type: ignore[operator]
        for v in values
    )


def expected(model: Model, rows: Sequence[Row]) -> list[Step]:
    return [
        (numbers(model, one), "ab".index(str(one["action"])), numbers(model, other))
        for one, other in pairwise(rows)
        if one["episode"] == other["episode"]
    ]


def steps_of(raw: RawTransitions) -> list[Step]:
    return [
        (tuple(before), int(action), tuple(after))
        for before, action, after in zip(raw.before, raw.action, raw.after, strict=True)
    ]


def read_raw(
    model: Model, *logs: object, most: int = 1_000, **options: object
) -> tuple[RawTransitions, LogCounts]:
    raw = RawSteps(model.checked, model.graph, most)
    read = counted(model, *logs, steps=raw, **options)
    return raw.transitions(), read


def require_agreement(model: Model, raw: RawTransitions, read: LogCounts) -> None:
    """Check that pairs and successors are those of the counts, and of the numbers themselves."""
    graph = model.graph
    n_arrivals = int(max(raw.successor.max(), read.counts.successor.max())) + 1
    codes, number = np.unique(raw.pair * n_arrivals + raw.successor, return_counts=True)
    pair = np.repeat(np.arange(graph.n_pairs), np.diff(read.counts.successor_start))
    assert np.array_equal(codes, np.sort(pair * n_arrivals + read.counts.successor))
    assert number.sum() == read.counts.count.sum()
    assert np.array_equal(graph.pair_action[raw.pair], raw.action)


@pytest.mark.parametrize("batch_rows", [1, 3, 1_000])
@pytest.mark.parametrize("is_shuffled", [False, True])
def test_numbers_are_neither_clipped_nor_binned(
    tmp_path: Path, batch_rows: int, is_shuffled: bool
) -> None:
    model, rows = spaces(SPACES), some_rows()
    order = np.random.default_rng(1).permutation(len(rows)) if is_shuffled else range(len(rows))
    path = write_csv(tmp_path / "log.csv", [rows[i] for i in order])
    raw, read = read_raw(model, path, batch_rows=batch_rows)
    assert steps_of(raw) == expected(model, rows)
    assert read.was_sorted == (not is_shuffled)
    assert raw.n_left_out == 0
    require_agreement(model, raw, read)


def test_whole_transitions_have_their_own_next_numbers() -> None:
    model, rows, others = spaces(SPACES), some_rows(1, 50), some_rows(1, 50, seed=3)
    names = ("angle", "mode", "x", "lit")
    whole = [
        {
            **{name: row[name] for name in (*names, "action")},
            **{f"next_{n}": after[n] for n in names},
        }
        for row, after in zip(rows, others, strict=True)
    ]
    raw, read = read_raw(model, pa.Table.from_pylist(whole), batch_rows=7)
    assert steps_of(raw) == [
        (numbers(model, row), "ab".index(str(row["action"])), numbers(model, row, "next_"))
        for row in whole
    ]
    require_agreement(model, raw, read)


def test_rows_that_are_not_counted_leave_no_numbers(tmp_path: Path) -> None:
    model, rows = spaces(SPACES), [dict(row) for row in some_rows(2, 9)]
    rows[3]["x"] = "broken"
    rows[12]["mode"] = "none of them"
    kept = [row for i, row in enumerate(rows) if i != 6]  # a gap in time
    raw, read = read_raw(model, write_csv(tmp_path / "log.csv", kept), time_step=1.0)
    wanted = expected(model, rows[:3]) + expected(model, rows[4:6]) + expected(model, rows[7:12])
    assert steps_of(raw) == wanted + expected(model, rows[13:])
    require_agreement(model, raw, read)


def test_steps_into_an_end_have_numbers_too() -> None:
    model, rows = spaces(SPACES), [dict(row) for row in some_rows(3, 4)]
    for row in rows:
        row["terminated"] = row["time"] == 2
    raw, read = read_raw(model, pa.Table.from_pylist(rows))
    assert steps_of(raw) == expected(model, rows)
    assert (raw.successor >= model.graph.n_states).tolist() == [False, False, True] * 3
    require_agreement(model, raw, read)


def test_parts_of_several_workers_follow_each_other(tmp_path: Path) -> None:
    model, rows = spaces(SPACES), some_rows(12, 5)
    paths = [write_csv(tmp_path / f"{i:02}.csv", rows[7 * i : 7 * i + 7]) for i in range(9)]
    alone, _ = read_raw(model, *paths, time_step=1.0)
    with ThreadPoolExecutor(2) as executor:
        shared, read = read_raw(model, *paths, time_step=1.0, executor=executor, n_workers=2)
    assert sorted(steps_of(shared)) == sorted(steps_of(alone)) == sorted(expected(model, rows))
    require_agreement(model, shared, read)


@pytest.mark.parametrize("n_workers", [1, 2])
@pytest.mark.parametrize("is_shuffled", [False, True])
def test_only_the_first_steps_are_kept(tmp_path: Path, n_workers: int, is_shuffled: bool) -> None:
    model, rows = spaces(SPACES), some_rows(8, 6)
    order = np.random.default_rng(1).permutation(24) if is_shuffled else np.arange(24)
    paths = [
        write_csv(tmp_path / f"{i}.csv", [rows[24 * i + j] for j in order.tolist()])
        for i in range(2)
    ]
    with ThreadPoolExecutor(n_workers) as executor:
        options = {"executor": executor, "n_workers": n_workers} if n_workers > 1 else {}
        raw, read = read_raw(model, *paths, most=23, batch_rows=5, time_step=1.0, **options)
    assert steps_of(raw) == expected(model, rows)[:23]
    assert raw.n_left_out == 40 - 23
    assert read.counts.count.sum() == 40


def test_a_model_without_real_variables_has_numbers_of_cells(tmp_path: Path) -> None:
    model = spaces()
    rows = [
        {"episode": 0, "time": t, "x": x, "action": "a"}
        for t, x in [(2, 3), (0, 1), (1, 4), (3, 0)]
    ]
    raw, _ = read_raw(model, write_csv(tmp_path / "log.csv", rows))
    assert raw.before.ravel().tolist() == [1, 4, 3]
    assert raw.after.ravel().tolist() == [4, 3, 0]
