from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from pyarrow import parquet

import mdpdsl
from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import LogError
from mdpdsl.logs.count import LogCounts, count_logs
from mdpdsl.logs.readers import csv_files, json_lines
from mdpdsl.logs.reading_options import USUAL
from tests.logs import damaged_files, huge_logs
from tests.logs.awkward_cases import HEADER, STEPS, WHOLE, Awkward, by_pandas, parsed, transitions
from tests.logs.awkward_frames import FRAMES, AwkwardFrame
from tests.logs.awkward_logs import CASES
from tests.logs.plain_logs import entries

#: Generous, as others may use the machine: most logs take some milliseconds, and huge ones two
#: seconds at most.
MOST_SECONDS = 15.0
MOST_MEGABYTES = 1_000
#: Reasons that are about a transition between two rows, both of which may be good.
BETWEEN_ROWS = ("gap in time", "missing action", "unknown action")
#: Changes to each of ten files.
N_CHANGES = 100


def test_the_folder_of_awkward_logs_is_large_and_every_name_says_something_else() -> None:
    assert len(CASES) >= 150
    assert len({case.name for case in CASES}) == len(CASES)
    assert sum(case.reading is None for case in CASES) >= 40


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_awkward_log_is_refused_or_counted_as_an_independent_reading_counts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: Awkward
) -> None:
    path = case.write(tmp_path)
    model = mdpdsl.loads(case.space.text)
    began = time.perf_counter()
    if case.reading is None:
        said = _refused(model, path, case)
        assert all(part in said for part in case.refused), said
        assert str(path) in said
        return
    read = count_logs(model.checked, model.graph, [path], options=case.options)
    assert time.perf_counter() - began < MOST_SECONDS
    frame = case.reading(path)
    assert entries(model, read) == transitions(frame, case.space)
    assert read.rows == len(frame) + case.n_lost
    assert read.rejected.counts == case.rejected
    assert read.clipped == ({"x": case.n_clipped} if case.n_clipped else {})
    assert read.time_step == (case.step if "time" in frame else None)
    assert len(read.problems) == len(case.problems), read.problems
    for part, problem in zip(case.problems, read.problems, strict=True):
        assert part in problem.message
    helps = "; ".join(problem.help or "" for problem in read.problems)
    assert all(part in helps for part in case.helps), helps
    _check_examples(read, path)
    _check_that_only_bad_rows_are_rejected(read, frame, case)
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 64)
    again = count_logs(model.checked, model.graph, [path], options=case.options, batch_rows=3)
    assert (entries(model, again), again.rows) == (entries(model, read), read.rows)
    assert again.rejected.counts == read.rejected.counts


def _refused(model: Model, log: Any, case: Awkward | AwkwardFrame) -> str:
    """Return what the error says about a log, with the help."""
    with pytest.raises(LogError) as caught:
        count_logs(model.checked, model.graph, [log], options=case.options)
    return "; ".join(f"{problem.message} = {problem.help}" for problem in caught.value.problems)


def _check_examples(read: LogCounts, path: Path) -> None:
    """Check that each example names the log and one of its rows, and can be printed."""
    for reason, examples in read.rejected.examples.items():
        assert len(examples) == min(5, read.rejected.counts[reason])
        for example in examples:
            assert example.file == str(path)
            assert 1 <= example.row <= read.rows
            assert example.found.isprintable()


def _check_that_only_bad_rows_are_rejected(
    read: LogCounts, frame: pd.DataFrame, case: Awkward
) -> None:
    if "duplicate time" in read.rejected.counts:  # of which an independent reading sees nothing
        return
    is_bad = case.space.cells(frame["value"]) < 0
    for name in {"episode", "time"} & set(frame):
        is_bad |= frame[name].isna()
    rejected = sum(n for reason, n in read.rejected.counts.items() if reason not in BETWEEN_ROWS)
    assert rejected == int(np.count_nonzero(is_bad)) + case.n_lost


def _tables(case: AwkwardFrame) -> list[Any]:
    frame = case.frame
    if case.is_mixed:
        return [frame]
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return [frame, table, polars.from_arrow(table)]


@pytest.mark.parametrize("case", FRAMES, ids=str)
def test_a_table_in_memory_is_read_by_the_rules_of_files(
    tmp_path: Path, case: AwkwardFrame
) -> None:
    path = tmp_path / "log.csv"
    path.write_text(case.text)
    model = mdpdsl.loads(case.space.text)
    if case.name == "another unit":
        said = _refused(model, path, case).replace(str(path), "frame 1")
        assert all(_refused(model, table, case) == said for table in _tables(case))
        return
    read = count_logs(model.checked, model.graph, [path], options=case.options)
    for table in _tables(case):
        found = count_logs(model.checked, model.graph, [table], options=case.options)
        assert entries(model, found) == entries(model, read)
        assert found.rejected.counts == read.rejected.counts
        assert (found.rows, found.time_step) == (read.rows, read.time_step)
        assert [p.help for p in found.problems] == [p.help for p in read.problems]
        places = [(e.row, reason) for reason, es in found.rejected.examples.items() for e in es]
        assert places == [(e.row, why) for why, es in read.rejected.examples.items() for e in es]


def _run(module: str, *arguments: object) -> Any:
    """Run a module as a process of its own, and return the JSON that it prints."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_damaged_binary_files_are_refused_or_break_off_and_never_crash(tmp_path: Path) -> None:
    found = _run(damaged_files.__name__, tmp_path, N_CHANGES)
    assert set(found) == set(damaged_files.contents())
    for name, outcomes in found.items():
        assert set(outcomes) <= {"refused", "breaks off", "whole"}, name
        assert sum(outcomes.values()) == N_CHANGES
        assert outcomes["refused"] > N_CHANGES // 10


def test_huge_parts_of_logs_take_little_time_and_memory(tmp_path: Path) -> None:
    found = _run(huge_logs.__name__, tmp_path)
    for name, outcome in found.items():
        assert outcome["seconds"] < MOST_SECONDS, name
        assert outcome["megabytes"] < MOST_MEGABYTES, name
        assert outcome["problems"] == 0, name
    for name in ("wide", "wide objects"):
        assert (found[name]["rows"], found[name]["transitions"]) == (2, 1)
    for name in ("a long field", "a long quoted field"):
        assert (found[name]["rows"], found[name]["transitions"]) == (3, 2)
    for name, reason in (
        ("a long number", "not a finite number"),
        ("a long text", "text in a number column"),
    ):
        assert (found[name]["rows"], found[name]["transitions"]) == (4, 1)
        assert (found[name]["rejected"], found[name]["places"]) == ({reason: 1}, {reason: [2]})
    for name, rows in huge_logs.OPEN_QUOTES.items():
        read = by_pandas(skiprows=rows, quoting=csv.QUOTE_NONE)(tmp_path / huge_logs.LOGS[name][0])
        assert found[name]["transitions"] == sum(transitions(read, WHOLE).values())
        assert found[name]["rows"] == len(read) + len(rows) == huge_logs.N_ROWS
        assert found[name]["places"]["broken line"] == rows, "only these rows are lost"


@pytest.mark.parametrize("first", [0, 2**53, 2**60, 2**63])
@pytest.mark.parametrize("has_missing", [False, True])
def test_an_episode_is_the_same_whatever_the_format_that_its_number_is_in(
    tmp_path: Path, first: int, has_missing: bool
) -> None:
    rows = pd.DataFrame(
        [{"episode": first + e, "time": t, "x": x, "action": a} for e, t, x, a in STEPS]
    )
    early = rows["time"] < 4
    rows[early].to_csv(tmp_path / "1.csv", index=False)
    late = pa.Table.from_pandas(rows[~early], preserve_index=False)
    nobody = pa.table({"episode": pa.array([None], late.schema.field("episode").type)})
    if has_missing:
        late = pa.concat_tables([late, nobody], promote_options="default")
    parquet.write_table(late, tmp_path / "2.parquet")
    model = mdpdsl.loads(WHOLE.text)
    read = count_logs(model.checked, model.graph, [tmp_path])
    assert entries(model, read) == transitions(parsed(rows.astype(str)), WHOLE)
    assert read.rejected.counts == ({"missing episode": 1} if has_missing else {})


def test_an_episode_named_by_a_date_continues_in_a_batch_with_other_names(tmp_path: Path) -> None:
    rows = [
        {"episode": "2026-03-04" if t < 20 else "run", "time": t, "x": t % 5, "action": "a"}
        for t in range(30)
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = mdpdsl.loads(WHOLE.text)
    for batch_rows in (4, 7, 1000):
        read = count_logs(
            model.checked, model.graph, [tmp_path / "log.jsonl"], batch_rows=batch_rows
        )
        assert entries(model, read) == transitions(parsed(pd.DataFrame(rows)), WHOLE)


def test_an_end_that_only_a_late_line_of_json_mentions_is_an_end(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"x": 1, "action": "a"} for _ in range(500)]
    rows[400]["terminated"] = True
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = mdpdsl.loads(WHOLE.text)
    read = count_logs(model.checked, model.graph, [tmp_path / "log.jsonl"], batch_rows=100)
    assert read.has_stops
    assert read.counts.n_transitions == 498
    assert "terminated" in json_lines.open_json(tmp_path / "log.jsonl", USUAL).columns


def test_a_quote_that_stays_open_for_long_costs_its_line_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.csv"
    lines = [f"{t},{t % 5},a" for t in range(400)]
    lines[4] = '"' + lines[4]
    path.write_text("\n".join(["time,x,action", *lines]) + "\n")
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 16)
    monkeypatch.setattr(csv_files, "MOST_QUOTED_BYTES", 200)
    model = mdpdsl.loads(WHOLE.text)
    read = count_logs(model.checked, model.graph, [path])
    frame = by_pandas(skiprows=[5], quoting=csv.QUOTE_NONE)(path)
    assert entries(model, read) == transitions(frame, WHOLE)
    assert read.rows == len(lines)
    assert [e.row for e in read.rejected.examples["broken line"]] == [5]
    batches = csv_files.open_csv(path, USUAL).read(["x"], 1000)
    assert max(len(batch.rows) for batch in batches) < 200, "the file is not read to its end first"


@pytest.mark.parametrize(("head", "body"), [("\n", "\r"), ("\r", "\n"), ("\r\n", "\r")])
def test_rows_may_end_otherwise_than_the_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head: str, body: str
) -> None:
    lines = [f"{e},{t},{x},{a}" for e, t, x, a in STEPS]
    (tmp_path / "log.csv").write_bytes((HEADER + head + body.join(lines) + body).encode())
    monkeypatch.setattr(csv_files, "BLOCK_BYTES", 64)
    reader = csv_files.open_csv(tmp_path / "log.csv", USUAL)
    sizes = [len(batch.rows) for batch in reader.read(["x"], 1000)]
    assert (len(sizes) > 1, sum(sizes)) == (True, len(STEPS))
