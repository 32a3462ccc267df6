"""Frames in memory as logs: what is counted is what the same rows in a file give."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from mdpdsl.diagnostics import LogError
from mdpdsl.logs.count import LogCounts, count_logs
from mdpdsl.logs.inputs import ACCEPTED
from mdpdsl.logs.order import TransitionOrder
from mdpdsl.logs.rejections import TEXT
from tests.logs.plain_logs import Row, counted, entries, plainly_counted, spaces, write_csv

pd: Any = pytest.importorskip("pandas")
pl: Any = pytest.importorskip("polars")

ROWS: list[Row] = [
    {"episode": e, "time": t, "x": (e * 3 + t * t) % 5, "action": "ab"[(e + t) % 2]}
    for e in range(7)
    for t in range(9)
]
EPISODES = [[dict(row) for row in ROWS if row["episode"] == e] for e in range(7)]


def arrow(rows: Sequence[Row]) -> pa.Table:
    """Return rows as a table; a column with numbers and texts becomes one of texts."""
    columns = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        if any(isinstance(value, str) for value in values):
            values = [None if value is None else str(value) for value in values]
        columns[name] = pa.array(values)
    return pa.table(columns)


def written(path: Path, rows: Sequence[Row]) -> Path:
    if path.suffix == ".csv":
        return write_csv(path, rows)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        parquet.write_table(arrow(rows), path, row_group_size=5)
    return path


def duckdb_relation(table: pa.Table) -> Any:
    return duckdb.connect().from_arrow(table)


class Stream:
    """Exports Arrow once, and never again."""

    def __init__(self, table: pa.Table) -> None:
        self._reader: pa.RecordBatchReader | None = table.to_reader(max_chunksize=3)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        assert self._reader is not None, "the stream was read twice"
        reader, self._reader = self._reader, None
        return reader.__arrow_c_stream__()


def in_pieces(table: pa.Table) -> pa.Table:
    return pa.Table.from_batches(table.to_batches(max_chunksize=2), table.schema)


FRAMES: dict[str, Callable[[Sequence[Row]], Any]] = {
    "pandas": lambda rows: pd.DataFrame([dict(row) for row in rows]),
    "pandas, its own types": lambda rows: pd.DataFrame(
        [dict(row) for row in rows]
    ).convert_dtypes(),
    "polars": lambda rows: pl.from_arrow(arrow(rows)),
    "pyarrow": arrow,
    "pyarrow in pieces": lambda rows: in_pieces(arrow(rows)),
    "reader": lambda rows: arrow(rows).to_reader(max_chunksize=4),
    "stream": lambda rows: Stream(arrow(rows)),
    "DuckDB": lambda rows: duckdb_relation(arrow(rows)),
}


def outcome(read: LogCounts) -> tuple[Any, ...]:
    """Return all that must not depend on where the rows are from."""
    return (
        *(getattr(read.counts, n).tobytes() for n in ("successor_start", "successor", "count")),
        read.rejected.counts,
        {reason: [e.row for e in kept] for reason, kept in read.rejected.examples.items()},
        read.rows,
        read.clipped,
        read.was_sorted,
        read.time_step,
    )


@st.composite
def logs(draw: st.DrawFn) -> list[Row]:
    row = st.fixed_dictionaries(
        {
            "episode": st.one_of(st.integers(0, 3), st.none()),
            "time": st.one_of(st.integers(0, 8), st.none()),
            "x": st.sampled_from(
                [0, 1, 2, 3, 4, 5, -1, None, *draw(st.sampled_from([[], ["two"]]))]
            ),
            "action": st.sampled_from(["a", "b", "c", "", None]),
        }
    )
    rows: list[Row] = list(draw(st.lists(row, min_size=1, max_size=40)))
    if draw(st.booleans()):
        rows.sort(key=lambda r: (str(r["episode"]), str(r["time"])))
    return rows


@settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(logs(), st.integers(1, 50))
def test_a_frame_counts_and_rejects_as_files_with_its_rows(
    tmp_path: Path, rows: list[Row], batch_rows: int
) -> None:
    model = spaces()
    found = {
        name: outcome(counted(model, written(tmp_path / name, rows), batch_rows=batch_rows))
        for name in ("log.csv", "log.parquet", "log.jsonl")
    }
    for name, frame in FRAMES.items():
        found[name] = outcome(counted(model, frame(rows), batch_rows=batch_rows))
    expected = found["log.parquet"]
    assert [name for name, one in found.items() if one != expected] == []


@pytest.mark.parametrize("kind", FRAMES)
def test_shuffled_rows_of_a_frame_are_sorted(kind: str) -> None:
    model = spaces()
    shuffled = [ROWS[i] for i in np.random.default_rng(0).permutation(len(ROWS))]
    read = counted(model, FRAMES[kind](shuffled), batch_rows=10)
    assert entries(model, read) == plainly_counted(ROWS)
    assert not read.was_sorted


def test_an_episode_may_continue_in_another_frame() -> None:
    model = spaces()
    parts = [FRAMES["pandas"](ROWS[:5]), FRAMES["polars"](ROWS[5:30]), FRAMES["stream"](ROWS[30:])]
    read = counted(model, *parts)
    assert entries(model, read) == plainly_counted(ROWS)
    assert [(file.path, file.rows) for file in read.files] == [
        ("frame 1", 5),
        ("frame 2", 25),
        ("frame 3", 33),
    ]


def test_separate_frames_share_no_episode() -> None:
    model = spaces()
    frames = [arrow(ROWS), arrow(ROWS)]
    assert counted(model, *frames).rejected.counts == {"duplicate time": 2 * len(ROWS)}
    apart = counted(model, *frames, are_files_separate=True)
    assert entries(model, apart) == {k: 2 * n for k, n in plainly_counted(ROWS).items()}


def test_a_frame_given_twice_counts_once() -> None:
    model = spaces()
    frame, stream = arrow(ROWS), FRAMES["stream"](ROWS[:0] or ROWS)
    assert entries(model, counted(model, frame, frame)) == plainly_counted(ROWS)
    assert entries(model, counted(model, stream, stream)) == plainly_counted(ROWS)


@pytest.mark.parametrize("n_workers", [0, 1, 3])
@pytest.mark.parametrize("is_shuffled", [False, True])
def test_frames_and_files_count_together(tmp_path: Path, n_workers: int, is_shuffled: bool) -> None:
    model = spaces()
    bad: list[Row] = [{"episode": 99, "time": t, "x": 9, "action": "a"} for t in range(2)]
    rows = [*ROWS, *bad]
    if is_shuffled:
        rows = [rows[i] for i in np.random.default_rng(1).permutation(len(rows))]
    parts = [rows[i : i + 13] for i in range(0, len(rows), 13)]
    mixed = [
        FRAMES["pandas"](part) if i % 2 else written(tmp_path / f"{i}.csv", part)
        for i, part in enumerate(parts)
    ]
    files = [written(tmp_path / f"file {i}.csv", part) for i, part in enumerate(parts)]
    expected = counted(model, *files)
    if n_workers:
        with ThreadPoolExecutor(n_workers) as executor:
            read = counted(model, *mixed, executor=executor, n_workers=n_workers)
    else:
        read = counted(model, *mixed)
    assert entries(model, read) == entries(model, expected) == plainly_counted(ROWS)
    assert read.rejected.counts == expected.rejected.counts
    assert [file.rows for file in read.files] == [len(part) for part in parts]


class _Away(ThreadPoolExecutor):
    """Gives its workers copies of what it is given, as another process would have."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        sent = pickle.dumps(args)
        assert b"pyarrow" not in sent
        return super().submit(fn, *pickle.loads(sent), **kwargs)


def test_frames_stay_in_this_process(tmp_path: Path) -> None:
    model = spaces()
    parts = [[dict(row) | {"episode": f"{n} {row['episode']}"} for row in ROWS] for n in range(4)]
    logs = [
        arrow(part) if n % 2 else written(tmp_path / f"{n}.csv", part)
        for n, part in enumerate(parts)
    ]
    seen: list[int] = []
    with _Away(2) as executor:
        read = counted(model, *logs, executor=executor, n_workers=2, progress=seen.append)
    assert entries(model, read) == {k: 4 * n for k, n in plainly_counted(ROWS).items()}
    assert seen[-1] == read.rows == 4 * len(ROWS)


def test_transitions_of_a_frame_are_kept_in_order(tmp_path: Path) -> None:
    model = spaces()
    hashes = []
    for log in (arrow(ROWS[::-1]), written(tmp_path / "log.parquet", ROWS[::-1])):
        order = TransitionOrder(model.graph)
        counted(model, log, order=order)
        hashes.append(order.transitions().hash)
    assert hashes[0] == hashes[1]


def test_one_log_needs_no_list_around_it() -> None:
    model = spaces()
    for log in (arrow(ROWS), FRAMES["pandas"](ROWS), EPISODES):
        read = count_logs(model.checked, model.graph, log)
        assert entries(model, read) == plainly_counted(ROWS)


def test_the_index_of_a_pandas_frame_is_not_read() -> None:
    model = spaces()
    frame = FRAMES["pandas"](ROWS).set_index(["episode", "time"])
    read = counted(model, frame)
    assert read.time_step is None
    assert read.counts.n_transitions == len(ROWS) - 1
    with pytest.raises(LogError, match="frame 1 has no column `x`"):
        counted(model, frame.set_index("x"))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pd.Series([0, 1, 2]).astype("category"), {}),
        (pd.Series(["0", "1", "2"]).astype("category"), {}),
        (pd.Series([0, "1", 2.0], dtype=object), {}),
        (pd.Series([0, "1", 2], dtype=object).astype("category"), {}),
        (pd.Series([np.int8(0), np.float32(1), True], dtype=object), {}),
        (pd.Series([0, 1, None], dtype="UInt8"), {"missing value": 1}),
        (pd.Series([False, True, None], dtype="boolean"), {"missing value": 1}),
        (pd.Series([0, 1, pd.NA], dtype=object), {"missing value": 1}),
        (pd.Series([0, pd.NaT, 2j], dtype=object), {"missing value": 1, TEXT: 1}),
        (pd.Series([0, 1, 2**80], dtype=object), {"state out of range": 1}),
        (pd.Series([0, 1 + 0j, 2j]), {TEXT: 3}),
        (pd.Series([0, 1, "\ud800"], dtype=object), {TEXT: 1}),
        (pd.Series([object(), 1, 2], dtype=object), {TEXT: 1}),
        (pd.Series(pd.arrays.SparseArray([0, 1, 2])), {}),
        (pd.Series(pd.date_range("2020", periods=3)), {"state out of range": 3}),
        (pd.Series(pd.to_timedelta([0, 1, 2], "s")), {}),
    ],
)  # fmt: skip
def test_columns_of_every_pandas_type_are_read_or_rejected(
    values: Any, expected: dict[str, int]
) -> None:
    frame = pd.DataFrame({"x": values, "action": ["a", "b", "a"]})
    assert counted(spaces(), frame).rejected.counts == expected


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([[1], [2]], "list"),
        ([b"0", b"1"], "binary"),
        (pd.period_range("2020", periods=2, freq="D"), "period"),
        (pd.interval_range(0, 2), "interval"),
    ],
)
def test_a_column_without_numbers_or_texts_is_named(values: Any, kind: str) -> None:
    frame = pd.DataFrame({"x": values, "action": "a"})
    with pytest.raises(LogError, match=f"frame 1: the column `x` is of type .*{kind}"):
        counted(spaces(), frame)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_dates_are_times_in_seconds(unit: str) -> None:
    times = pd.date_range("2024-02-28T23:59:58", periods=5, freq="2s").astype(f"datetime64[{unit}]")
    frame = pd.DataFrame({"time": times, "x": [0, 1, 2, 3, 4], "action": "a"})
    frame.loc[3, "time"] = pd.NaT
    read = counted(spaces(), frame)
    assert read.time_step == 2
    assert read.rejected.counts == {"missing time": 1, "gap in time": 1}


def test_instants_name_episodes() -> None:
    began = np.repeat(pd.to_datetime([1, 2, 2**60 + 1], unit="ns"), 3)
    frame = pd.DataFrame({"episode": began, "x": [0, 1, 9] * 3, "action": "a"})
    read = counted(spaces(), frame)
    assert read.counts.n_transitions == 3
    assert read.rejected.counts == {"state out of range": 3}


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["b", "a"]), pl.String])
def test_polars_texts_are_read(kind: Any) -> None:
    model = spaces()
    frame = pl.DataFrame([dict(row) for row in ROWS]).with_columns(pl.col("action").cast(kind))
    assert entries(model, counted(model, frame)) == plainly_counted(ROWS)


def test_pieces_may_have_dictionaries_of_their_own() -> None:
    model = spaces()
    texts = [row["action"] for row in ROWS]
    pieces = [pa.array(texts[i : i + 9]).dictionary_encode() for i in range(0, len(texts), 9)]
    table = arrow(ROWS).set_column(3, "action", pa.chunked_array(pieces))
    assert entries(model, counted(model, table)) == plainly_counted(ROWS)


def test_the_log_block_applies_to_frames() -> None:
    model = spaces("mdp m\nstate x in 0..4\naction a, b\nlog { episode = run  x = v/10 }")
    frame = pd.DataFrame({"run": [0, 0, 1], "v": [0, 10, 20], "action": "a"})
    assert entries(model, counted(model, frame)) == {(0, "a", 1): 1}


def test_episodes_of_mappings_count_as_files_with_their_rows(tmp_path: Path) -> None:
    model = spaces()
    episodes = [[dict(row) for row in episode] for episode in EPISODES]
    episodes[2][3]["x"] = "two"
    del episodes[3][0]["action"]
    del episodes[4][4]
    rows: list[Row] = [{"action": None, **row} for episode in episodes for row in episode]
    read = counted(model, episodes)
    assert outcome(read) == outcome(counted(model, written(tmp_path / "log.jsonl", rows)))
    assert read.rejected.counts == {
        TEXT: 1, "missing action": 1, "gap in time": 1,
    }  # fmt: skip
    (example,) = read.rejected.examples[TEXT]
    assert (example.file, example.row, example.found) == ("list 1", 22, "[2][3]: x = 'two'")


def test_rows_without_episodes_and_times_are_in_the_order_of_their_list() -> None:
    model = spaces()
    episodes = [
        [{"x": row["x"], "action": row["action"]} for row in episode] for episode in EPISODES
    ]
    assert entries(model, counted(model, [*episodes, []])) == plainly_counted(ROWS)
    tuples = [[(row["x"], row["action"]) for row in episode] for episode in EPISODES]
    assert entries(model, counted(model, tuples)) == plainly_counted(ROWS)
    ended = [[*episode[:-1], (episode[-1][0],)] for episode in tuples]
    read = counted(model, ended)
    assert entries(model, read) == plainly_counted(ROWS)
    assert not read.rejected.counts


def test_each_list_is_an_episode_of_its_own(tmp_path: Path) -> None:
    """Rows that number episodes and times alike elsewhere are not the same episode."""
    model = spaces()
    file = written(tmp_path / "log.csv", ROWS)
    read = counted(model, EPISODES, file, [list(episode) for episode in EPISODES])
    assert entries(model, read) == {k: 3 * n for k, n in plainly_counted(ROWS).items()}
    assert not read.rejected.counts
    assert [f.path for f in read.files] == ["list 1", str(file), "list 2"]
    read = counted(model, *EPISODES[:2], str(file))
    assert [(f.path, f.rows) for f in read.files] == [
        ("list 1", 9),
        ("list 2", 9),
        (str(file), len(ROWS)),
    ]


def test_states_and_actions_of_tuples_are_values_of_the_model() -> None:
    model = spaces(
        "mdp m\nstate x in 0..4\nstate y in {-0.5, 0.5}\naction u in {0, 1}\naction w in {0, 1}\n"
        "log { episode = run  time = minute  x = column_1  y = column_2/2  u = u_1  w = u_2 }"
    )
    rows = [((1, -0.5), (0, 1)), ({"y": 0.5, "x": 2}, {"u": 1, "w": 1}), ((3, 0.5), None)]
    read = counted(model, [rows])
    graph = model.graph
    states = [graph.state(x=x, y=y) for x, y in ((1, -0.5), (2, 0.5), (3, 0.5))]
    actions = [(0, 1), (1, 1)]
    pairs = np.flatnonzero(np.diff(read.counts.successor_start))
    assert graph.pair_state[pairs].tolist() == states[:2]
    assert graph.pair_action[pairs].tolist() == [2 * u + w for u, w in actions]
    assert read.counts.successor.tolist() == states[1:]
    arrays = [(np.array([1, -0.5]), [0, 1]), (np.array([2, 0.5]), (1, 1))]
    assert counted(model, [[*arrays, ((3, 0.5),)]]).counts.n_transitions == 2


@pytest.mark.parametrize(
    ("log", "message", "help_text"),
    [
        (3, "a log cannot be of the type int", ACCEPTED),
        (None, "a log cannot be of the type NoneType", ACCEPTED),
        (np.zeros((2, 2)), "a log cannot be of the type ndarray", ACCEPTED),
        (["log", 3], "a log cannot be of the type int", ACCEPTED),
        ([], "no log is given", ACCEPTED),
        ([[1, 2], [3]], "a log cannot be of the type list", ACCEPTED),
        (pl.LazyFrame({"x": [1]}), "a log cannot be of the type LazyFrame", "collect()"),
        ([dict(row) for row in ROWS], "a log cannot be of the type dict", "list of their own"),
        ({"x": [0], "action": ["a"]}, "a log cannot be of the type dict", "pyarrow.table"),
        ([[dict(row) for row in ROWS]], "`episode` says that [0] is several episodes", "its own"),
        (pd.Series([1]), "cannot read frame 1, which is a Series", "named columns"),
        (pd.DataFrame(), "frame 1 has no columns `action` (for action), `x` (for x)", "log"),
        (pd.DataFrame({"x": [0]}), "frame 1 has no column `action`", "log"),
        (arrow(ROWS).slice(0, 0), "frame 1 has no rows", None),
        (pd.DataFrame([[0, 0]], columns=["x", "x"]), "frame 1 has two columns named `x`", "rename"),
        ([[(0, "a")], [(0, "a", 1)]], "[1][0] has 3 parts", "(state, action)"),
        ([[(0, "a"), {"x": 0}]], "some rows are mappings and some are tuples", "mapping"),
        ([[(0, "a"), "b"]], "list 1: [0][1] is of the type str", "mapping"),
        ([[[(0, "a")], "b"]], "a log cannot be of the type list", "list of rows"),
        ([[], []], "a log cannot be of the type list", ACCEPTED),
        ([[((0, 1), "a")]], "[0][0] gives 2 state value(s), and the model has 1", "give x"),
        ([[({"y": 1}, "a")]], "[0][0] gives `y`, which is no state variable", "x"),
        ([[{"x": 0}]], "list 1 has no column `action` (for action); its columns are x", "log"),
    ],
)  # fmt: skip
def test_what_is_no_log_is_refused_with_what_would_be(
    log: Any, message: str, help_text: str | None
) -> None:
    model = spaces()
    with pytest.raises(LogError) as caught:
        count_logs(model.checked, model.graph, log)
    problem = caught.value.problems[-1]
    assert message in problem.message
    assert (help_text is None and problem.help is None) or str(help_text) in str(problem.help)


def test_a_query_that_fails_is_a_problem_and_other_logs_count() -> None:
    model = spaces()
    broken = duckdb.connect().sql("SELECT error('out of order') AS x, 'a' AS action")
    read = counted(model, broken, arrow(ROWS))
    assert entries(model, read) == plainly_counted(ROWS)
    assert "cannot read frame 1, which is a DuckDBPyRelation" in read.problems[0].message
    assert read.files[0].path == "frame 2"
