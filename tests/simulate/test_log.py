"""Logs have the values of the drawn rows, in columns with the names that the model expects."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest

import mdpdsl
from mdpdsl.diagnostics import LogError
from mdpdsl.graph.space import Product
from mdpdsl.simulate.columns import ColumnNames, column_names
from mdpdsl.simulate.log import SUFFIXES, check_log_path, write_log
from mdpdsl.simulate.trajectory import Chunk, Schedule, draw_trajectory

KNOWN = [name for name in mdpdsl.shipped_models() if name != "pendulum_unknown"]
CONTINUOUS = [name for name in KNOWN if mdpdsl.load(name).is_continuous]
SCHEDULE = Schedule(400, 30)

#: Every kind of variable, among states and actions.
KINDS = """
mdp kinds
state c in {red, green}
state b in bool
state i in -2..2
state n in {0.5, -1, 7}
state r in [0, 1] bins 3
action go in bool
action k in {3, 1}
action f in {0.25, 2}
init any
noise w ~ uniform(0, 1)
c' = if go then green else red
b' = go or b
i' = if k == 3 then max(i - 1, -2) else min(i + 1, 2)
n' = if f > 1 then 7 else -1
r' = w
"""


def chunks_of(
    model: mdpdsl.Model, schedule: Schedule, *, raw: bool = False, chunk_rows: int = 1 << 20
) -> Iterator[Chunk]:
    system = model.system if raw else None
    generator = np.random.default_rng(1)
    return draw_trajectory(model.graph, schedule, generator, system=system, chunk_rows=chunk_rows)


def write(
    model: mdpdsl.Model,
    path: Path,
    schedule: Schedule = SCHEDULE,
    *,
    raw: bool = False,
    chunk_rows: int = 1 << 20,
) -> ColumnNames:
    names = column_names(model.checked, schedule.n_episodes)
    chunks = chunks_of(model, schedule, raw=raw, chunk_rows=chunk_rows)
    write_log(chunks, model.graph, names, path, {"seed": 1}, is_raw=raw)
    return names


def read(path: Path) -> list[dict[str, Any]]:
    """Read a log with another library than the one that wrote it."""
    if path.name.endswith(".jsonl"):
        return [json.loads(line) for line in path.read_text().splitlines()]
    table = duckdb.sql(f"SELECT * FROM '{path}'")
    assert table is not None
    return [dict(zip(table.columns, row, strict=True)) for row in table.fetchall()]


def codes(product: Product, names: tuple[str, ...], rows: list[dict[str, Any]]) -> list[int]:
    """Return the code of every row's values, -1 if all are missing."""
    found = []
    for row in rows:
        values = {v.name: row[name] for v, name in zip(product.variables, names, strict=True)}
        is_missing = [value is None for value in values.values()]
        assert all(is_missing) or not any(is_missing)
        found.append(-1 if all(is_missing) else product.code_of(values))
    return found


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_every_value_lies_in_its_cell(name: str, suffix: str, tmp_path: Path) -> None:
    model = mdpdsl.load(name)
    check_values(model, tmp_path / f"log{suffix}", raw=False)


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_every_raw_value_lies_in_its_cell(name: str, suffix: str, tmp_path: Path) -> None:
    check_values(mdpdsl.load(name, all_states=True), tmp_path / f"log{suffix}", raw=True)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("raw", [True, False])
def test_every_kind_of_variable_comes_back(suffix: str, raw: bool, tmp_path: Path) -> None:
    check_values(mdpdsl.loads(KINDS), tmp_path / f"log{suffix}", raw=raw)


def check_values(model: mdpdsl.Model, path: Path, *, raw: bool) -> None:
    names = write(model, path, raw=raw)
    if path.name.endswith("l.gz"):
        plain = path.with_suffix("")
        plain.write_bytes(gzip.decompress(path.read_bytes()))
        path = plain
    rows = read(path)
    (expected,) = chunks_of(model, SCHEDULE, raw=raw)
    graph = model.graph
    assert [row["episode"] for row in rows] == expected.episode.tolist()
    assert [row["time"] for row in rows] == expected.time.tolist()
    assert codes(graph.states.product, names.variables, rows) == (
        graph.states.codes[expected.state].tolist()
    )
    actions = np.where(expected.has_pair, graph.pair_action[expected.pair], -1)
    assert codes(graph.actions.product, names.actions, rows) == actions.tolist()
    if raw:
        assert expected.values is not None
        for position, variable in enumerate(graph.states.variables):
            if variable.kind == "real":
                found = [row[variable.name] for row in rows]
                assert found == expected.values[:, position].tolist()


def test_values_are_written_as_people_write_them(tmp_path: Path) -> None:
    model = mdpdsl.loads(KINDS)
    write(model, tmp_path / "log.csv", Schedule(200, 7))
    with (tmp_path / "log.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    seen = {name: {row[name] for row in rows} for name in rows[0]}
    assert seen["c"] == {"red", "green"}
    assert seen["b"] == {"true", "false"}
    assert seen["i"] == {"-2", "-1", "0", "1", "2"}
    assert {float(text) for text in seen["n"]} == {0.5, -1, 7}
    assert seen["go"] == {"true", "false", ""}
    assert seen["k"] == {"3", "1", ""}
    ends = [i for i, row in enumerate(rows) if row["go"] == ""]
    assert ends == [i for i, row in enumerate(rows) if row["time"] == "7"] + [len(rows) - 1]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_seed_makes_the_same_bytes(suffix: str, tmp_path: Path) -> None:
    model = mdpdsl.load("gridworld")
    one, other, third = (tmp_path / f"{name}{suffix}" for name in "abc")
    write(model, one)
    write(model, other)
    assert one.read_bytes() == other.read_bytes()
    write(model, third, chunk_rows=37)
    if "parquet" in suffix:  # its row groups are the chunks
        assert pq.ParquetFile(third).metadata.num_row_groups == -(-SCHEDULE.n_rows // 37)
        assert read(one) == read(third)
    elif suffix.endswith(".gz"):
        assert gzip.decompress(one.read_bytes()) == gzip.decompress(third.read_bytes())
    else:
        assert one.read_bytes() == third.read_bytes()


def test_parquet_records_its_origin_and_is_small(tmp_path: Path) -> None:
    model = mdpdsl.load("pendulum")
    write(model, tmp_path / "log.parquet", Schedule(100_000, 200))
    file = pq.ParquetFile(tmp_path / "log.parquet")
    assert json.loads(file.schema_arrow.metadata[b"mdpdsl"]) == {"seed": 1}
    assert (tmp_path / "log.parquet").stat().st_size < 3 * 100_000


# The log block


LOGGED = """
mdp logged
state x in 0..3
state lamp in {on_, off_}
action u in {0, 1}
init x = 0, lamp = off_
on any -> 0.5: x' = (x + 1 + u) % 4 | 0.5: lamp' = on_
"""


def test_a_log_block_names_the_columns(tmp_path: Path) -> None:
    block = 'log { episode = run_id  time = step  x = "Place (m)"  u = torque }'
    model = mdpdsl.loads(LOGGED + block)
    assert write(model, tmp_path / "log.csv").note is None
    header = (tmp_path / "log.csv").read_text().splitlines()[0]
    assert header == "run_id,step,Place (m),lamp,torque"
    assert list(read(tmp_path / "log.csv")[0]) == ["run_id", "step", "Place (m)", "lamp", "torque"]


def test_a_log_block_that_computes_is_not_followed() -> None:
    model = mdpdsl.loads(LOGGED + "log { episode = run_id  x = round(metres * 10)  u = torque }")
    names = column_names(model.checked, 1)
    assert names.all == ("episode", "time", "x", "lamp", "u")
    assert names.note is not None
    assert "computes `x`" in names.note


def test_a_log_block_with_one_column_for_two_is_not_followed() -> None:
    model = mdpdsl.loads(LOGGED + "log { x = u }")
    names = column_names(model.checked, 1)
    assert names.all == ("episode", "time", "x", "lamp", "u")
    assert names.note is not None
    assert "`u` would have two" in names.note


@pytest.mark.parametrize("chunk_rows", [1 << 20, 31, 7, 1])
def test_next_columns_make_each_row_a_transition(chunk_rows: int, tmp_path: Path) -> None:
    model = mdpdsl.loads(LOGGED + "log { x = a  x' = b }")
    names = write(model, tmp_path / "log.csv", chunk_rows=chunk_rows)
    assert names.all == ("episode", "time", "a", "lamp", "u", "b", "next_lamp")
    rows = read(tmp_path / "log.csv")
    assert len(rows) == SCHEDULE.n_steps
    (expected,) = chunks_of(model, SCHEDULE)
    before = np.flatnonzero(expected.has_pair)
    states = model.graph.states
    found = codes(states.product, ("a", "lamp"), rows)
    following = codes(states.product, ("b", "next_lamp"), rows)
    assert found == states.codes[expected.state[before]].tolist()
    assert following == states.codes[expected.state[before + 1]].tolist()


def test_next_columns_have_raw_values(tmp_path: Path) -> None:
    text = """mdp m state x in [0, 1] wrap bins 5 action u in {0, 1} init x = 0
    noise w ~ uniform(0, 1) x' = x + w log { next_x = y }"""
    write(mdpdsl.loads(text), tmp_path / "log.parquet", raw=True, chunk_rows=13)
    rows = read(tmp_path / "log.parquet")
    assert len(rows) == SCHEDULE.n_steps
    for before, after in pairwise(rows):
        if before["episode"] == after["episode"]:
            assert before["y"] == after["x"]
    assert len({row["y"] for row in rows}) == len(rows)


def test_a_variable_named_time_or_episode_keeps_its_name() -> None:
    model = mdpdsl.loads(LOGGED.replace("x", "time"))
    assert column_names(model.checked, 2).all == ("episode", "time", "lamp", "u")
    model = mdpdsl.loads(LOGGED.replace("x", "episode"))
    assert column_names(model.checked, 1).all == ("time", "episode", "lamp", "u")
    with pytest.raises(LogError, match="named `episode`"):
        column_names(model.checked, 2)


# Files


class BrokenError(Exception):
    """An error in the middle of writing."""


def test_nothing_is_left_of_a_log_that_fails(tmp_path: Path) -> None:
    model = mdpdsl.load("weather")
    names = column_names(model.checked, 1)

    def breaking() -> Iterator[Chunk]:
        yield next(chunks_of(model, SCHEDULE))
        raise BrokenError

    for suffix in SUFFIXES:
        old = tmp_path / f"log{suffix}"
        old.write_text("old")
        with pytest.raises(BrokenError):
            write_log(breaking(), model.graph, names, old, {})
        assert old.read_text() == "old"
        assert list(tmp_path.iterdir()) == [old]
        old.unlink()


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.csv").symlink_to(tmp_path / "folder" / "log.csv")
    write(mdpdsl.load("weather"), tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert len(read(tmp_path / "folder" / "log.csv")) == SCHEDULE.n_rows


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("log.txt", "must end in .parquet"),
        ("log", "must end in .parquet"),
        (".csv", "must end in .parquet"),
        ("log.parquet.gz", "must end in .parquet"),
        ("nowhere/log.csv", "no folder"),
        ("folder.csv", "not a file"),
    ],
)
def test_a_log_needs_a_folder_and_a_known_ending(name: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(LogError, match=reason):
        check_log_path(tmp_path / name)
