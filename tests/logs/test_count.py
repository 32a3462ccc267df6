from __future__ import annotations

import gzip
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import feather, parquet

import mdpdsl
from mdpdsl.diagnostics import LogError
from mdpdsl.logs import sequences, sorting
from tests.logs.plain_logs import Row, counted, entries, plainly_counted, spaces, write_csv

ROWS: list[Row] = [
    {"episode": e, "time": t, "x": (e * 3 + t * t) % 5, "action": "ab"[(e + t) % 2]}
    for e in range(7)
    for t in range(9)
]


def test_consecutive_rows_of_an_episode_make_transitions(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"episode": 0, "time": 0, "x": 0, "action": "a"},
        {"episode": 0, "time": 1, "x": 1, "action": "b"},
        {"episode": 1, "time": 0, "x": 2, "action": "a"},
        {"episode": 1, "time": 1, "x": 2, "action": "a"},
        {"episode": 1, "time": 2, "x": 2, "action": "b"},
    ]
    model = spaces()
    read = counted(model, write_csv(tmp_path / "log.csv", rows))
    assert entries(model, read) == {(0, "a", 1): 1, (2, "a", 2): 2}
    assert (read.rows, read.rejected.counts, read.was_sorted) == (5, {}, True)


def _arrow_table() -> pa.Table:
    return pa.Table.from_pylist([dict(row) for row in ROWS])


def _write(path: Path) -> None:
    if path.name.endswith(".parquet"):
        parquet.write_table(_arrow_table(), path, row_group_size=10)
    elif path.name.endswith(".feather"):
        feather.write_feather(_arrow_table(), path)
    elif path.name.endswith(".arrow"):
        with (
            pa.OSFile(str(path), "wb") as file,
            pa.ipc.new_stream(file, _arrow_table().schema) as w,
        ):
            w.write_table(_arrow_table(), max_chunksize=10)
    elif path.name.endswith(".jsonl"):
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    elif path.name.endswith(".gz"):
        plain = write_csv(path.with_name("plain"), ROWS)
        path.write_bytes(gzip.compress(plain.read_bytes()))
    else:
        write_csv(path, ROWS)


@pytest.mark.parametrize(
    "name", ["a.parquet", "a.csv", "a.csv.gz", "a.jsonl", "a.feather", "a.arrow"]
)
@pytest.mark.parametrize("batch_rows", [1, 2, 7, 1000])
def test_every_format_and_batch_size_counts_the_same(
    tmp_path: Path, name: str, batch_rows: int
) -> None:
    _write(tmp_path / name)
    model = spaces()
    read = counted(model, tmp_path / name, batch_rows=batch_rows)
    assert entries(model, read) == plainly_counted(ROWS)
    assert read.was_sorted
    assert read.rows == len(ROWS)
    assert not read.rejected.counts


@st.composite
def _logs(draw: st.DrawFn) -> list[Row]:
    row = st.fixed_dictionaries(
        {
            "episode": st.integers(0, 3),
            "time": st.integers(0, 8),
            "x": st.sampled_from([0, 1, 2, 3, 4, 5, -1, "", "two"]),
            "action": st.sampled_from(["a", "b", "c", ""]),
        }
    )
    # Mostly one row per time, so that something is counted.
    rows = draw(
        st.lists(row, min_size=1, max_size=40, unique_by=lambda r: (r["episode"], r["time"]))
    )
    return [*rows, *draw(st.lists(row, max_size=3))]


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(_logs(), st.integers(1, 5), st.integers(1, 6), st.randoms())
def test_shuffled_rows_in_many_files_count_as_the_plain_counter_says(
    tmp_path: Path, rows: list[Row], n_files: int, batch_rows: int, random: Any
) -> None:
    model = spaces()
    ordered = sorted(rows, key=lambda r: (r["episode"], r["time"]))
    one = counted(
        model, write_csv(tmp_path / "one.csv", ordered), time_step=1, batch_rows=batch_rows
    )
    shuffled = list(rows)
    random.shuffle(shuffled)
    parts = [shuffled[i::n_files] for i in range(n_files)]
    paths = [write_csv(tmp_path / f"{i}.csv", part) for i, part in enumerate(parts) if part]
    many = counted(model, *paths, time_step=1, batch_rows=batch_rows)
    assert entries(model, one) == entries(model, many) == plainly_counted(rows)
    assert one.rejected.counts == many.rejected.counts
    with ThreadPoolExecutor(2) as executor:
        dealt = counted(model, *paths, time_step=1, executor=executor, n_workers=n_files)
    assert entries(model, dealt) == plainly_counted(rows)
    assert one.rejected.counts == dealt.rejected.counts


def test_an_episode_continues_in_the_next_file_in_either_order(tmp_path: Path) -> None:
    model = spaces()
    first = write_csv(tmp_path / "1.csv", ROWS[:5])
    second = write_csv(tmp_path / "2.csv", ROWS[5:])
    whole = plainly_counted(ROWS)
    read = counted(model, first, second)
    assert entries(model, read) == whole
    assert read.was_sorted
    read = counted(model, second, first)
    assert entries(model, read) == whole
    assert not read.was_sorted


def test_separate_files_share_no_episode(tmp_path: Path) -> None:
    model = spaces()
    paths = [write_csv(tmp_path / f"{i}.csv", ROWS) for i in range(2)]
    together = counted(model, *paths)
    assert together.rejected.counts == {"duplicate time": 2 * len(ROWS)}
    apart = counted(model, *paths, are_files_separate=True)
    assert entries(model, apart) == {k: 2 * n for k, n in plainly_counted(ROWS).items()}


def test_sorting_on_disk_gives_what_sorting_in_memory_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = spaces()
    shuffled = [ROWS[i] for i in np.random.default_rng(0).permutation(len(ROWS))]
    path = write_csv(tmp_path / "log.csv", [*shuffled, *ROWS[:3]])
    in_memory = counted(model, path, batch_rows=10)
    monkeypatch.setattr(sorting, "RUN_ROWS", 20)
    monkeypatch.setattr(sorting, "SAMPLE_STEP", 5)
    on_disk = counted(model, path, batch_rows=10)
    expected = plainly_counted([*ROWS, *ROWS[:3]])
    assert entries(model, on_disk) == entries(model, in_memory) == expected
    assert on_disk.rejected.examples == in_memory.rejected.examples


def test_a_file_named_twice_counts_once(tmp_path: Path) -> None:
    model = spaces()
    path = write_csv(tmp_path / "log.csv", ROWS)
    read = counted(model, path, str(tmp_path / "*.csv"), tmp_path)
    assert entries(model, read) == plainly_counted(ROWS)


def test_without_episodes_and_times_a_file_is_one_episode(tmp_path: Path) -> None:
    model = spaces()
    rows: list[Row] = [{"x": x, "action": "a"} for x in (0, 1, 2)]
    paths = [write_csv(tmp_path / f"{i}.csv", rows) for i in range(2)]
    assert entries(model, counted(model, *paths)) == {(0, "a", 1): 2, (1, "a", 2): 2}


def test_without_times_interleaved_episodes_keep_the_order_of_their_rows(tmp_path: Path) -> None:
    model = spaces()
    rows: list[Row] = [
        {"episode": f"run {e}", "x": (t + e) % 5, "action": "a"} for t in range(4) for e in range(2)
    ]
    read = counted(model, write_csv(tmp_path / "log.csv", rows), batch_rows=3)
    assert entries(model, read) == {(0, "a", 1): 1, (1, "a", 2): 2, (2, "a", 3): 2, (3, "a", 4): 1}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("0,1,,a", "missing value"),
        ("0,1,nan,a", "missing value"),
        ("0,1,two,a", "text in a number column"),
        ("0,1,7,a", "state out of range"),
        ("0,1,1.5,a", "state out of range"),
        ("0,1,inf,a", "not a finite number"),
        ("0,1,3,", "missing action"),
        ("0,1,3,c", "unknown action"),
        ("0,1,3,9", "unknown action"),
        ("0,1", "broken line"),
        ("0,1,3,a,a", "broken line"),
        ("0,,3,a", "missing time"),
        ("0,soon,3,a", "missing time"),
        (",1,3,a", "missing episode"),
        ("0,0,3,a", "duplicate time"),
    ],
)
@pytest.mark.parametrize("batch_rows", [1, 100])
def test_a_bad_row_is_rejected_with_its_place_and_counts_no_transition_out(
    tmp_path: Path, line: str, reason: str, batch_rows: int
) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"episode,time,x,action\n0,0,0,a\n{line}\n0,2,2,a\n0,3,4,b\n0,4,4,b\n")
    model = spaces()
    read = counted(model, path, batch_rows=batch_rows)
    found = entries(model, read)
    into = {(0, "a", 3): 1} if "action" in reason else {}
    assert found == {(2, "a", 4): 1, (4, "b", 4): 1, **into}
    (example,) = [e for e in read.rejected.examples[reason] if e.row == 2]
    assert example.file == str(path)
    # Without its row 2 the episode jumps from time 0 to 2; that is a gap only where both count.
    extra = {"gap in time"} if reason.startswith(("missing t", "missing e", "broken")) else set()
    assert set(read.rejected.counts) == {reason} | extra
    assert read.rows == 5


def test_the_last_row_of_an_episode_needs_no_action(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("episode,time,x,action\n0,0,0,a\n0,1,3,\n1,0,0,a\n1,1,1,\n")
    model = spaces()
    read = counted(model, path)
    assert entries(model, read) == {(0, "a", 3): 1, (0, "a", 1): 1}
    assert not read.rejected.counts


@pytest.mark.parametrize("lost", [",1,a", "0,1", "0,1,a,a"])
@pytest.mark.parametrize("batch_rows", [1, 100])
def test_without_times_nothing_is_counted_across_a_lost_row(
    tmp_path: Path, lost: str, batch_rows: int
) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"episode,x,action\n0,0,a\n{lost}\n0,2,a\n0,3,a\n")
    model = spaces()
    read = counted(model, path, batch_rows=batch_rows)
    assert entries(model, read) == {(2, "a", 3): 1}
    assert read.rejected.total == 1


def test_an_action_that_is_not_available_is_rejected(tmp_path: Path) -> None:
    model = mdpdsl.loads(
        "mdp m\nstate x in 0..2\naction a, b\ninit x = 0\n"
        "on a -> x' = (if x < 2 then x + 1 else 0)\non b when x == 0 -> stay"
    )
    rows: list[Row] = [
        {"x": 0, "action": "b"}, {"x": 0, "action": "a"}, {"x": 1, "action": "b"},
        {"x": 2, "action": "a"}, {"x": 0, "action": "a"},
    ]  # fmt: skip
    read = counted(model, write_csv(tmp_path / "log.csv", rows))
    assert entries(model, read) == {(0, "b", 0): 1, (0, "a", 1): 1, (2, "a", 0): 1}
    assert read.rejected.counts == {"action not available": 1}
    assert read.rejected.examples["action not available"][0].row == 3


@pytest.mark.parametrize("step", [1, 5, 0.05, 1e6])
def test_the_usual_step_is_found_and_gaps_are_not_counted(tmp_path: Path, step: float) -> None:
    times = [0, 1, 2, 4, 5, 6, 7, 20]
    rows: list[Row] = [{"time": t * step, "x": 1, "action": "a"} for t in times]
    model = spaces()
    read = counted(model, write_csv(tmp_path / "log.csv", rows), batch_rows=2)
    assert read.counts.n_transitions == 5
    assert read.rejected.counts == {"gap in time": 2}
    assert read.time_step == pytest.approx(step, rel=0.1)


def test_the_usual_step_does_not_depend_on_the_first_rows(tmp_path: Path) -> None:
    rows: list[Row] = [{"time": t, "x": 1, "action": "a"} for t in (0, 10, 20, *range(21, 60))]
    model = spaces()
    for batch_rows in (2, 3, 1000):
        read = counted(model, write_csv(tmp_path / "log.csv", rows), batch_rows=batch_rows)
        assert read.counts.n_transitions == 39
        assert read.rejected.counts == {"gap in time": 2}


def test_the_usual_step_is_that_of_all_files_together(tmp_path: Path) -> None:
    model = spaces()
    often, seldom = (
        [{"episode": f"{s}", "time": s * t, "x": 0, "action": "a"} for t in range(n)]
        for s, n in ((1.0, 50), (5.0, 20))
    )
    paths = [write_csv(tmp_path / "0.csv", seldom), write_csv(tmp_path / "1.csv", often)]
    with ThreadPoolExecutor(1) as executor:
        for ways in ({}, {"executor": executor, "n_workers": 2}):
            read = counted(model, *paths, **ways)
            assert (read.counts.n_transitions, read.time_step) == (49, 1.0)
            assert read.rejected.counts == {"gap in time": 19}


def test_jitter_of_times_is_no_gap(tmp_path: Path) -> None:
    jitter = np.random.default_rng(0).uniform(-0.1, 0.1, 200)
    rows: list[Row] = [{"time": t + d, "x": 1, "action": "a"} for t, d in enumerate(jitter)]
    read = counted(spaces(), write_csv(tmp_path / "log.csv", rows))
    assert read.counts.n_transitions == 199


def test_columns_may_be_expressions(tmp_path: Path) -> None:
    model = mdpdsl.load("pendulum_unknown")
    angle = np.linspace(-9, 9, 50)
    speed = np.linspace(-9, 9, 50)
    torque = np.tile([-2, -1, 0, 1, 2], 10)
    table = pa.table(
        {
            "run_id": ["a"] * 50,
            "step": np.arange(50),
            "obs_0": np.cos(angle).astype(np.float32),
            "obs_1": np.sin(angle).astype(np.float32),
            "obs_2": speed,
            "torque": torque.astype(np.float32),
        }
    )
    parquet.write_table(table, tmp_path / "log.parquet")
    read = counted(model, tmp_path / "log.parquet", batch_rows=7)
    graph = model.graph
    expected: dict[tuple[int, int], int] = {}
    states = [
        graph.state(theta=float(np.arctan2(np.sin(t), np.cos(t))), omega=float(w))
        for t, w in zip(angle, speed, strict=True)
    ]
    for i in range(49):
        key = (graph.pair(states[i], int(torque[i]) + 2), states[i + 1])
        expected[key] = expected.get(key, 0) + 1
    pairs = np.repeat(np.arange(graph.n_pairs), np.diff(read.counts.successor_start))
    found = zip(pairs.tolist(), read.counts.successor.tolist(), strict=True)
    assert dict(zip(found, read.counts.count.tolist(), strict=True)) == expected
    assert read.clipped == {"omega": int(np.count_nonzero(np.abs(speed) > 8))}


def test_an_expression_without_a_value_rejects_the_row(tmp_path: Path) -> None:
    model = spaces("mdp m\nstate x in 0..4\naction a, b\nlog { x = round(4 / z)  action = w }")
    rows: list[Row] = [{"z": z, "w": "a"} for z in (1, 2, 0, 4, 4)]
    read = counted(model, write_csv(tmp_path / "log.csv", rows))
    assert entries(model, read) == {(4, "a", 2): 1, (1, "a", 1): 1}
    assert read.rejected.counts == {"expression without a value": 1}


def test_rows_with_next_states_are_whole_transitions(tmp_path: Path) -> None:
    model = spaces()
    rows: list[Row] = [
        {"x": 0, "action": "a", "next_x": 1},
        {"x": 3, "action": "b", "next_x": 4},
        {"x": 3, "action": "b", "next_x": 5},
        {"x": 3, "action": "", "next_x": 4},
    ]
    read = counted(model, write_csv(tmp_path / "log.csv", rows))
    assert entries(model, read) == {(0, "a", 1): 1, (3, "b", 4): 1}
    assert read.rejected.counts == {"state out of range": 1, "missing action": 1}


def test_names_indices_and_truth_values_are_understood(tmp_path: Path) -> None:
    model = spaces("mdp m\nstate sky in {sun, rain}\nstate wet in bool\naction go, wait")
    lines = ["sky,wet,action", "sun,true,go", "1,0,wait", "rain,False,1", "sun,1,0"]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    read = counted(model, tmp_path / "log.csv")
    assert entries(model, read) == {(1, "go", 2): 1, (2, "wait", 2): 1, (2, "wait", 1): 1}


def test_an_error_on_a_missing_column_lists_those_there_are(tmp_path: Path) -> None:
    model = mdpdsl.load("pendulum_unknown")
    path = write_csv(tmp_path / "log.csv", [{"run_id": 0, "step": 0, "obs_0": 1, "obs2": 1}])
    with pytest.raises(LogError) as caught:
        counted(model, path)
    (problem,) = caught.value.problems
    assert "`obs_1` (for theta)" in problem.message
    assert "its columns are run_id, step, obs_0, obs2" in problem.message
    assert problem.help is not None
    assert "obs2" in problem.help


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b"x,action\n", "no rows"),
        ("a.csv", b"x,x,action\n1,1,a\n", "two columns named `x`"),
        ("a.parquet", b"PAR1 and then something else", "cannot read"),
        ("a.arrow", b"no arrow at all, really", "cannot read"),
        ("a.jsonl", b"[1, 2]\n", "JSON object"),
        ("a.csv.gz", b"not zipped", "cannot read"),
        ("a.xlsx", b"?", "the ending"),
    ],
)
def test_a_bad_file_is_reported_and_good_files_are_kept(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    model = spaces()
    with pytest.raises(LogError, match=message):
        counted(model, tmp_path / name)
    good = write_csv(tmp_path / "good.csv", ROWS)
    read = counted(model, tmp_path / name, good)
    assert entries(model, read) == plainly_counted(ROWS)
    assert message in read.problems[0].message


def test_a_file_that_breaks_off_keeps_the_rows_before(tmp_path: Path) -> None:
    lines = b"x,action\n" + b"1,a\n" * 3_000_000
    packed = gzip.compress(lines, 1)
    (tmp_path / "log.csv.gz").write_bytes(packed[: len(packed) - 100])
    read = counted(spaces(), tmp_path / "log.csv.gz")
    assert read.counts.n_transitions > 1_000_000
    assert "breaks off after row" in read.problems[0].message


def test_a_truncated_last_line_of_json_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(
        '{"x": 0, "action": "a"}\n{"x": 1, "action": "a"}\n{"x": 2, "ac'
    )
    model = spaces()
    read = counted(model, tmp_path / "log.jsonl")
    assert entries(model, read) == {(0, "a", 1): 1}
    assert read.rejected.counts == {"broken line": 1}
    assert read.rejected.examples["broken line"][0].row == 3


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (b"0,0,a\n0,1,\xff\n0,2,a", {"unknown action": 1}),
        (b"0,0,a\n0,\xff,a\n0,2,a", {"text in a number column": 1}),
        (b"\xff,0,a\n\xff,1,a\n\xfe,5,a", {"state out of range": 1}),
    ],
)
def test_bytes_that_are_no_text_cost_their_row(
    tmp_path: Path, rows: bytes, expected: dict[str, int]
) -> None:
    (tmp_path / "log.csv").write_bytes(b"episode,x,action\n" + rows)
    read = counted(spaces(), tmp_path / "log.csv")
    assert read.rejected.counts == expected


def test_a_column_of_lists_is_refused(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"x": [[1, 2]], "action": ["a"]}), tmp_path / "log.parquet")
    with pytest.raises(LogError, match="the column `x` is of type list"):
        counted(spaces(), tmp_path / "log.parquet")


def test_sparse_counts_equal_those_of_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = spaces()
    path = write_csv(tmp_path / "log.csv", ROWS)
    monkeypatch.setattr(sequences, "MOST_TABLE_PLACES", 0)
    monkeypatch.setattr(sequences, "MERGE_ABOVE", 3)
    assert entries(model, counted(model, path, batch_rows=4)) == plainly_counted(ROWS)


def test_many_episodes_are_followed_without_remembering_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = spaces()
    monkeypatch.setattr(sequences, "MOST_REMEMBERED", 2)
    read = counted(model, write_csv(tmp_path / "log.csv", ROWS))
    assert entries(model, read) == plainly_counted(ROWS)
    assert read.was_sorted
    turned = sorted(ROWS, key=lambda r: (-int(str(r["episode"])), int(str(r["time"]))))
    read = counted(model, write_csv(tmp_path / "log.csv", turned))
    assert entries(model, read) == plainly_counted(ROWS)
    assert not read.was_sorted


def test_a_text_that_is_not_a_name_is_read_as_the_name_it_becomes(tmp_path: Path) -> None:
    text = "mdp m  state mode in {Auto_mode, off, on_, _3}  action go"
    model = mdpdsl.loads(text)
    texts = ["Auto mode", "on", "off", "3", " Auto-mode ", "n/a", "elsewhere"]
    (tmp_path / "log.csv").write_text("mode,action\n" + "".join(f"{t},go\n" for t in texts))
    found = mdpdsl.estimate(model, tmp_path / "log.csv")
    assert found.transitions == 4
    assert found.rejected == {"missing value": 1, "state out of range": 1}
