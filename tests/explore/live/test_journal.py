"""The log of a live run: whole at any moment, and mended wherever it was cut."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

import pytest

from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import RunError
from mdpdsl.explore.live.journal import LiveLog
from mdpdsl.explore.live.observed import LiveColumns, live_columns, text_of
from mdpdsl.logs.count import count_logs
from tests.explore.systems import walk_model

#: Two action columns, of which one has texts with a comma and a quotation mark beside it.
MODEL = """\
mdp two
state x in 0..9
action a in {1, 2}
action b in {10, 20}
"""


def columns_of(model: Model) -> LiveColumns:
    return live_columns(model.checked, ("note", "x"), "the rig")


def row_of(note: str, x: str, *, ended: bool = False, cut: bool = False) -> list[str]:
    """Return the fields of a row between its time and its actions."""
    return [note, x, text_of(ended), text_of(cut)]


def write_steps(log: LiveLog) -> list[bytes]:
    """Write two episodes, and return the file after each write."""
    found = []

    def keep() -> None:
        found.append(log.path.read_bytes())

    log.begin(0, 0, row_of('he said "no", twice', "3"))
    keep()
    for time in (1, 2, 3):
        log.step(time % 4, 0, time, row_of("plain", str(3 + time), ended=time == 3))
        keep()
    log.begin(1, 0, row_of("two\nlines", "7"))
    keep()
    log.step(2, 1, 1, row_of("ä", "8", cut=True))
    keep()
    return found


def transitions(model: Model, path: Path) -> int:
    return count_logs(model.checked, model.graph, [path]).counts.n_transitions


def test_after_every_write_the_file_has_the_transitions_observed(tmp_path: Path) -> None:
    model = walk_model(MODEL)
    log = LiveLog(tmp_path / "log.csv", columns_of(model))
    for content, expected in zip(write_steps(log), (0, 1, 2, 3, 3, 4), strict=True):
        copy = tmp_path / "copy.csv"
        copy.write_bytes(content)
        assert transitions(model, copy) == expected
        assert count_logs(model.checked, model.graph, [copy]).rejected.counts == {}


def test_wherever_the_file_is_cut_no_whole_observation_is_lost(tmp_path: Path) -> None:
    model = walk_model(MODEL)
    log = LiveLog(tmp_path / "log.csv", columns_of(model))
    states = write_steps(log)
    log.close()
    whole, header = states[-1], states[0].split(b"\n")[0] + b"\n"
    for end in range(len(header), len(whole) + 1):
        path = tmp_path / "cut.csv"
        path.write_bytes(whole[:end])
        mended = LiveLog(path, columns_of(model))
        mended.close()
        # A row is whole where the comma after its flags is: count those.
        rows = whole[:end].split(b"\n")[1:]
        n_whole = sum(_n_commas(row) >= 6 for row in rows)
        lines = path.read_bytes().split(b"\n")[1:-1]
        assert len(lines) == n_whole
        assert not lines or lines[-1].endswith(b",,")
        for line, original in zip(lines[:-1], rows, strict=False):
            assert line == original
        n_steps = sum(not line.endswith(b",,") for line in lines)
        assert n_steps == 0 or transitions(model, path) == n_steps


def _n_commas(row: bytes) -> int:
    """Count the commas outside of quotation marks."""
    return sum(part.count(b",") for part in row.split(b'"')[::2])


#: A block that the disk has not written reads as zeros; what comes after it is another time's.
HOLE = b"\0" * 40 + b"\n1,2,plain,5,false,false,,\n"


@pytest.mark.parametrize(
    "rubbish",
    [
        b"\0" * 40,
        HOLE,
        b"1,2,\xff\xfe",
        b"garbage",
        b"1,2,plain,5\n",
        b"1,2,plain,5,true",
        b"1,2,plain,5,false,false\n",
    ],
)
def test_rubbish_behind_the_last_row_is_cut_off(tmp_path: Path, rubbish: bytes) -> None:
    model = walk_model(MODEL)
    log = LiveLog(tmp_path / "log.csv", columns_of(model))
    content = write_steps(log)[-1]
    log.close()
    log.path.write_bytes(content + rubbish)
    LiveLog(log.path, columns_of(model)).close()
    assert log.path.read_bytes() == content


def test_a_log_continues_behind_what_was_mended(tmp_path: Path) -> None:
    model = walk_model(MODEL)
    log = LiveLog(tmp_path / "log.csv", columns_of(model))
    write_steps(log)
    log.close()
    with log.path.open("ab") as file:
        file.write(b"1,2,torn")
    again = LiveLog(log.path, columns_of(model))
    again.begin(2, 0, row_of("", "1"))
    again.step(0, 2, 1, row_of("", "2"))
    again.close()
    assert transitions(model, log.path) == 5


def test_a_tail_longer_than_what_is_looked_at_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("mdpdsl.explore.live.journal"), "_TAIL_BYTES", 50)
    model = walk_model(MODEL)
    log = LiveLog(tmp_path / "log.csv", columns_of(model))
    content = write_steps(log)[-1]
    log.close()
    LiveLog(log.path, columns_of(model)).close()
    assert log.path.read_bytes() == content


def test_two_processes_cannot_write_one_log(tmp_path: Path) -> None:
    model = walk_model(MODEL)
    log = LiveLog(tmp_path / "log.csv", columns_of(model))
    with pytest.raises(RunError, match="another process"):
        LiveLog(log.path, columns_of(model))
    log.close()
    LiveLog(log.path, columns_of(model)).close()


def test_other_columns_are_refused(tmp_path: Path) -> None:
    model = walk_model(MODEL)
    LiveLog(tmp_path / "log.csv", columns_of(model)).close()
    others = live_columns(model.checked, ("x",), "the rig")
    with pytest.raises(RunError, match="other columns"):
        LiveLog(tmp_path / "log.csv", others)


def test_a_log_of_an_earlier_version_continues_without_flags(tmp_path: Path) -> None:
    model = walk_model(MODEL)
    before = b"episode,time,note,x,a,b\n0,0,one,3,,\n"
    (tmp_path / "log.csv").write_bytes(before)
    log = LiveLog(tmp_path / "log.csv", columns_of(model))
    assert log.columns.flags == ()
    log.step(0, 0, 1, ["two", "4"])
    log.close()
    assert log.path.read_bytes() == before.replace(b",,", b",1,10") + b"0,1,two,4,,\n"


def test_what_is_written_is_on_the_disk_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, synced = [0.0], []
    monkeypatch.setattr(
        import_module("mdpdsl.explore.live.journal").time, "monotonic", lambda: clock[0]
    )
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(clock[0]))
    log = LiveLog(tmp_path / "log.csv", columns_of(walk_model(MODEL)))
    for step in range(40):
        clock[0] = step / 8
        log.begin(step, 0, row_of("", "1"))
    assert synced == [1.125, 2.25, 3.375, 4.5]
