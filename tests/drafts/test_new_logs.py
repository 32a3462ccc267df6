"""Drafts from logs: what is guessed, and that `estimate` reads the same data with the draft."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.diagnostics import LogError, SettingsError

Columns = dict[str, Sequence[Any]]
N = 600
RANDOM = np.random.default_rng(5)


def uniform(low: float, high: float, n: int = N) -> list[float]:
    return list(RANDOM.uniform(low, high, n))


def choice(values: Sequence[Any], n: int = N) -> list[Any]:
    return [values[i] for i in RANDOM.integers(len(values), size=n).tolist()]


def walk(low: float, high: float, n: int = N) -> list[float]:
    swing = 0.5 + 0.5 * np.sin(0.3 * np.arange(n) + RANDOM.normal(0, 0.1, n))
    swing[:2] = 0, 1  # the limits of a draft are round numbers around the values
    return list(low + (high - low) * swing)


def angle(low: float, high: float) -> list[float]:
    turned = np.cumsum(RANDOM.normal((high - low) / 30, (high - low) / 90, N))
    return list(low + turned % (high - low))


RIG: Columns = {
    "timestamp": [k * 0.5 for k in range(N)],
    "run": [k // 60 for k in range(N)],
    "temp_C": walk(18.2, 74.8),
    "valve": choice([0, 50, 100]),
    "heater_on": choice([0, 1]),
}

#: Columns, and the lines that a draft of them has.
CASES: dict[str, tuple[Columns, list[str]]] = {
    "a rig": (
        RIG,
        ["state temp_C in [", "action valve in {0, 50, 100}", "action heater_on in bool"],
    ),
    "odd names": (
        {"Temp (°C)": walk(0, 9), "heater on?": choice([0, 1]), "Ventil-Ö": choice([1, 2, 3])},
        ["state Temp_C in [", "state Ventil_Ö in 1..3", 'Temp_C    = "Temp (°C)"'],
    ),
    "keywords": (
        {
            "state": choice([0, 1, 2]),
            "init": walk(0, 1),
            "log": choice(["on", "off", "auto"]),
            "u": choice("ab"),
        },
        [
            "state s in 0..2",
            "state init_ in [0",
            "state log_ in {auto, off, on_}",
            's      = "state"',
        ],
    ),
    "names that become one": (
        {
            "x y": choice([1, 2]),
            "x-y": choice([3, 4]),
            "x_y": choice([5, 6]),
            "action": choice([0, 1]),
        },
        ["state x_y in 1..2", "state x_y_2 in 3..4", "state x_y_3 in 5..6", 'u     = "action"'],
    ),
    "names of the log block": (
        {"time_": walk(0, 1), "ended": walk(0, 1), "cmd": choice([-1, 0, 1])},
        ["state ended_ in [0, 1]"],
    ),
    "texts": (
        {"mode": choice(["Auto mode", "Hand (slow)", "N-1"]), "action": choice(["left", "right"])},
        ["state mode in {Auto_mode, Hand_slow, Nm1}", "action left, right"],
    ),
    "texts of actions and states alike": (
        {"x": choice(["a", "b"]), "action": choice(["a", "b"])},
        ["state x in {a, b}", "action u in {a, b}"],
    ),
    "a text with the name of a column": (
        {"pump": choice(["valve", "none of them"]), "valve": walk(0, 1), "act": choice([1, 5])},
        ["state valve_2 in [0, 1]", 'valve_2 = "valve"', "action act in {1, 5}"],
    ),
    "numbers among texts": (
        {"gear_state": choice(["1", "2", "R"]), "cmd": choice([0, 1])},
        ["state gear_state in {_1, _2, R}"],
    ),
    "truth values": (
        {"x": choice([True, False]), "cmd": choice([True, False])},
        ["state x in bool", "action cmd in bool"],
    ),
    "degrees": ({"bearing": angle(0, 360), "u": choice([-1, 1])}, ["bearing in [0, 360] wrap"]),
    "radians": (
        {"theta": angle(-math.pi, math.pi), "u": choice([0, 1])},
        ["theta in [-pi, pi] wrap"],
    ),
    "no angle": ({"flow": uniform(0, 360), "u": choice([0, 1])}, ["state flow in [0, 360] bins"]),
    "real actions": (
        {"x": walk(0, 1), "torque_cmd": uniform(-2, 2)},
        ["torque_cmd in {-2, -1, 0, 1, 2}", "clip(round(torque_cmd), -2, 2)"],
    ),
    "whole transitions": (
        {
            "x": walk(0, 5),
            "y": choice([1, 2]),
            "a": choice([0, 1]),
            "next_x": walk(0, 8),
            "y_next": choice([2, 3]),
        },
        ["state x in [0, 8]", "state y in 1..3", "x' = next_x", "y' = y_next"],
    ),
    "a next value of some": (
        {"x": walk(0, 5), "y": choice([1, 2]), "a": choice([0, 1]), "next_x": walk(0, 5)},
        ["# `next_x` is not used: the next value of x, and there is none of y"],
    ),
    "constants and numbers of rows": (
        {
            "id": list(range(N)),
            "k": walk(0, 1),
            "plant": ["A7"] * N,
            "dt": [0.1] * N,
            "u": choice([0, 1]),
        },
        ["# `id` is not used: it only counts rows", "# `plant` is not used: it is always A7"],
    ),
    "nothing but constants": ({"x": [3.5] * N, "u": choice([0, 1])}, ["state x in [3, 4] bins 2"]),
    "one row": ({"x": [3], "action": ["go"]}, ["state x in 3..3", "action go"]),
    "an outlier": (
        {"x": [*walk(0, 1), 1e6, -4e5], "u": choice([0, 1], N + 2)},
        ["state x in [0, 1]", "2 rows lie outside"],
    ),
    "many whole numbers": (
        {"level_mm": [round(x) for x in walk(0, 1000)], "u": choice([0, 1])},
        ["state level_mm in [0, 1000] bins"],
    ),
    "numbered states": (
        {"obs": [*range(300), *choice(range(300), 300)], "action": choice([0, 1])},
        ["state obs in 0..299"],
    ),
    "times in any order": (
        {"t": RANDOM.permutation(N).tolist(), "x": walk(0, 1), "u": choice([0, 1])},
        ["time = t"],
    ),
    "irregular times": (
        {"t": np.cumsum(RANDOM.exponential(1, N)).tolist(), "x": walk(0, 1), "u": choice([0, 1])},
        ["# `t` is not used: it looks like the time, but"],
    ),
    "times that start again": (
        {
            "step": [k % 50 for k in range(N)],
            "lot": [k // 50 + 7 for k in range(N)],
            "x": walk(0, 1),
            "u": choice([0, 1]),
        },
        ["episode = lot  # guessed, since it changes where step starts again", "time    = step"],
    ),
    "tiny and huge numbers": (
        {"x": walk(1e-9, 3e-9), "y": walk(1e12, 1.5e12), "u": choice([1e-3, 2e-3])},
        ["state x in [1e-09, 3e-09]", "action u in {0.001, 0.002}"],
    ),
    "rewards and flags": (
        {"x": walk(0, 1), "u": choice([0, 1]), "reward": uniform(0, 1), "done": [False] * N},
        ["# `reward` is not used: it looks like a reward", "cut = done"],
    ),
    "a free choice without a name": (
        {"x": walk(0, 1), "y": [k // 40 % 3 for k in range(N)], "z": choice([1, 2, 3])},
        ["action z in 1..3", "few values that vary freely"],
    ),
    "many variables": (
        {**{f"x{i}": walk(0, 1) for i in range(30)}, "u": choice([0, 1])},
        ["# state x29 in [0, 1] bins 2"],
    ),
    "some missing values": (
        {"x": [None if k % 100 == 7 else float(k % 13) for k in range(N)], "u": choice([0, 1])},
        ["# 6 rows have no x, and will not be counted"],
    ),
    "a column that is mostly empty": (
        {"x": walk(0, 1), "y": [1.5] + [None] * (N - 1), "u": choice([0, 1])},
        ["# `y` is not used: it has a value in only 0% of the rows"],
    ),
    "a column twice": (
        {"x": (sweep := walk(0, 1)), "x_filtered": sweep, "u": choice([0, 1])},
        ["# `x_filtered` is not used: it has the values of x"],
    ),
    "lists": (
        {"x": walk(0, 1), "u": choice([0, 1]), "image": [[1, 2]] * N},
        ["# `image` is not used: its type is list"],
    ),
}


def as_csv(columns: Columns, path: Path) -> Path:
    import csv

    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def read_back(draft: mdpdsl.Draft, log: Any, *, most_lost: float = 0.02) -> mdpdsl.Estimate:
    """Estimate with a draft from the log that it was drafted from; few rows may be rejected."""
    model = mdpdsl.loads(draft.text)
    assert [d.message for d in model.diagnose() if d.is_error] == []
    assert mdpdsl.format_text(draft.text) == draft.text
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "some episodes ended and others continued")
        found = mdpdsl.estimate(model, log)
    assert sum(found.rejected.values()) <= most_lost * found.record()["rows"], found.rejected
    assert (draft.states, draft.pairs) == (model.graph.n_states, model.graph.n_pairs)
    return found


@pytest.mark.parametrize("case", CASES)
def test_a_draft_says_what_it_guessed_and_reads_its_own_log(case: str, tmp_path: Path) -> None:
    columns, lines = CASES[case]
    log: Any = pa.table(columns) if case == "lists" else as_csv(columns, tmp_path / "the log.csv")
    draft = mdpdsl.new(log)
    for line in lines:
        assert line in draft.text, draft.text
    n_rows = len(next(iter(columns.values())))
    found = read_back(draft, log)
    if case != "some missing values":
        assert found.transitions >= n_rows - 1 - 60, found.record()


@pytest.mark.parametrize(
    ("name", "actions"),
    [("gambler", {"stake"}), ("inventory", {"order"}), ("two_machines", {"action"})],
)
def test_a_column_without_values_at_the_ends_of_episodes_is_an_action(
    name: str, actions: set[str]
) -> None:
    log = mdpdsl.simulate(mdpdsl.load(name), steps=500, episode_length=50).table()
    draft = mdpdsl.new(log)
    assert {v.column for v in draft.variables if v.role == "action"} == actions
    assert read_back(draft, log).transitions == 500


def test_rows_a_pair_decide_how_many_bins_there_are() -> None:
    few, many = (
        mdpdsl.new(pa.table({"x": uniform(0, 1, n), "v": uniform(0, 1, n), "u": choice([0, 1], n)}))
        for n in (1_000, 20_000)
    )
    assert few.pairs <= 1_000 / 10
    assert few.pairs < many.pairs <= 20_000 / 10


@pytest.mark.parametrize("ending", [".parquet", ".jsonl", ".arrow", ".csv.gz", ".tsv"])
def test_every_kind_of_file_gives_the_same_variables(ending: str, tmp_path: Path) -> None:
    import gzip

    import pyarrow.feather
    import pyarrow.parquet

    table, path = pa.table(RIG), tmp_path / f"rig{ending}"
    text = as_csv(RIG, tmp_path / "rig.csv").read_bytes()
    writers: dict[str, Callable[[], object]] = {
        ".parquet": lambda: pyarrow.parquet.write_table(table, path),
        ".arrow": lambda: pyarrow.feather.write_feather(table, path),
        ".jsonl": lambda: path.write_text("\n".join(map(_json, table.to_pylist())), "utf-8"),
        ".csv.gz": lambda: path.write_bytes(gzip.compress(text)),
        ".tsv": lambda: path.write_bytes(text.replace(b",", b"\t")),
    }
    writers[ending]()
    draft, expected = mdpdsl.new(path), mdpdsl.new(tmp_path / "rig.csv")
    assert draft.variables == expected.variables
    read_back(draft, path)


def _json(row: dict[str, Any]) -> str:
    import json

    return json.dumps(row)


def test_frames_and_lists_of_episodes_are_logs_too() -> None:
    import pandas as pd

    frame = pd.DataFrame(RIG)
    assert mdpdsl.new(frame).variables == mdpdsl.new(pa.table(RIG)).variables
    rows = pa.table({k: v for k, v in RIG.items() if k not in ("run", "timestamp")}).to_pylist()
    episodes = [rows[:300], rows[300:]]
    draft = mdpdsl.new(episodes)
    assert read_back(draft, episodes).transitions == N - 2


def test_options_say_what_a_column_is() -> None:
    log = pa.table({**RIG, "shift": ["early"] * 300 + ["late"] * 300})
    draft = mdpdsl.new(
        log, action=["heater_on"], state=["temp_C", "valve"], episode="shift", ignore="run"
    )
    used = {(v.role, v.column) for v in draft.variables}
    assert used == {
        ("state", "temp_C"),
        ("state", "valve"),
        ("action", "heater_on"),
        ("episode", "shift"),
        ("time", "timestamp"),
    }
    assert "# `run` is not used: ignored, as you asked" in draft.text


MISTAKES: dict[str, tuple[Columns, dict[str, Any], str]] = {
    "no action": (
        {"x": uniform(0, 1), "y": uniform(0, 1)},
        {},
        "no action was found: the columns are `x`, `y`, and none of them looks like an action; say "
        "which columns are actions with `action=`, as in `action=` x",
    ),
    "one column": ({"x": uniform(0, 1)}, {}, "no action was found: the column is `x`"),
    "only an action": (
        {"action": choice([0, 1])},
        {},
        "no state was found: the column is `action`",
    ),
    "two that may be actions": (
        {"x": uniform(0, 1), "y": choice([0, 1]), "z": choice([0, 1])},
        {},
        "y, z all look like actions",
    ),
    "unknown column": (RIG, {"action": "valv"}, "did you mean `valve`"),
    "two uses": (RIG, {"action": "valve", "state": ["valve"]}, "a column has one use"),
    "an environment's arguments": (RIG, {"env_arguments": {"a": 1}}, "are for an environment"),
    "another ending": (RIG, {"out": "rig.txt"}, "takes a file ending in .mdp"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_explained(mistake: str) -> None:
    columns, options, message = MISTAKES[mistake]
    with pytest.raises(SettingsError) as raised:
        mdpdsl.new(pa.table(columns), **options)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "is empty"), ("x,action\n", "has no rows")],
)
def test_a_log_without_data_is_explained(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(text, "utf-8")
    with pytest.raises(LogError, match=message):
        mdpdsl.new(tmp_path / "log.csv")


def test_a_missing_file_is_explained() -> None:
    with pytest.raises(LogError, match=r"there is no file nowhere\.csv"):
        mdpdsl.new("nowhere.csv")


NAMES = st.text(
    st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters='"'),
    min_size=1,
    max_size=12,
)
VALUES = st.one_of(
    st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=30, max_size=30),
    st.lists(st.integers(-(10**9), 10**9), min_size=30, max_size=30),
    st.lists(st.integers(0, 3), min_size=30, max_size=30),
    st.lists(st.booleans(), min_size=30, max_size=30),
    st.lists(
        st.sampled_from(["a b", "on", "state", "Ä", "3", "x'", "#", "{}"]), min_size=30, max_size=30
    ),
)


@given(st.dictionaries(NAMES, VALUES, min_size=2, max_size=5), st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_the_columns_are_the_draft_reads_them(columns: Columns, data: Any) -> None:
    action = data.draw(st.sampled_from(sorted(columns)))
    state = data.draw(st.sampled_from(sorted(set(columns) - {action})))
    log = pa.table(columns)
    draft = mdpdsl.new(
        log, action=action, state=state, ignore=sorted(set(columns) - {action, state})
    )
    # These are read whatever the block says.
    if not {"time", "episode", "terminated", "truncated", "done"} & set(columns):
        read_back(draft, log)


def test_several_files_are_one_log_of_the_columns_that_all_have(tmp_path: Path) -> None:
    for number in range(3):
        part: Columns = {"x": walk(0, 1), "u": choice([0, 1]), f"only_{number}": walk(0, 1)}
        as_csv(part, tmp_path / f"part-{number}.csv")
    draft = mdpdsl.new(f"{tmp_path}/part-*.csv")
    assert "from part-0.csv and 2 more, 1,800 rows" in draft.text
    assert [v.column for v in draft.variables] == ["x", "u"]
    assert read_back(draft, f"{tmp_path}/part-*.csv").transitions == 3 * (N - 1)


@pytest.mark.parametrize(
    ("environment", "lines"),
    [
        ("Pendulum-v1", ["state obs_2 in [", "action act_0 in {-2, -1, 0, 1, 2}"]),
        ("FrozenLake-v1", ["state obs_0 in 0..", "action act_0 in 0..3"]),
    ],
)
def test_a_minari_dataset_is_a_log_with_its_own_episodes(
    environment: str, lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.logs.minari_datasets import lived, written

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    recorded = lived(environment, [40] * 6)
    written("mine/random-v0", recorded)
    draft = mdpdsl.new("minari:mine/random-v0")
    for line in lines:
        assert line in draft.text, draft.text
    found = read_back(draft, "minari:mine/random-v0")
    assert found.transitions == sum(map(len, recorded.actions))
