"""A log that survives crashes: every transition is in the file before the explorer learns from it.

The last row of the file is the current state, whose action is not yet known: a complete line that
ends with empty fields. One step is one `write`, which fills in these fields and adds the next state
as the new last line. So at whatever moment a process is killed, the file contains exactly the
transitions that were observed. After a power failure the file may end anywhere; opening it again
cuts off an incomplete end.
"""

from __future__ import annotations

import csv
import io
import os
import time
from collections.abc import Sequence
from pathlib import Path

from mdpdsl.diagnostics import RunError
from mdpdsl.explore.live.observed import LiveColumns
from mdpdsl.files import write_text

#: Seconds of observations that a power failure may cost. Waiting for the disk at every row would
#: cost milliseconds per step. If only the process is killed, nothing is lost.
SYNC_SECONDS = 1.0
#: The last lines of a file are searched for in this many bytes at its end.
_TAIL_BYTES = 1 << 20


class LiveLog:
    """A log file that one run writes."""

    def __init__(self, path: Path, columns: LiveColumns) -> None:
        """Open a log, or begin one; raise RunError if it is in use or has other columns."""
        self.path = path
        self.rows = 0
        self._end = 0  # of the file
        if not path.exists():
            write_text(path, _line(columns.all))
        elif _has_header(path, columns.without_flags()):
            columns = columns.without_flags()
        self.columns = columns
        self._file = os.open(path, os.O_RDWR)
        try:
            _lock(self._file, path)
            self._mend()
        except BaseException:
            os.close(self._file)
            raise
        self._synced = time.monotonic()
        self._blank = "," * (len(columns.actions) - 1) + "\n"  # no action

    @property
    def is_open(self) -> bool:
        """Whether rows can be added."""
        return self._file >= 0

    def begin(self, episode: int, time_of: int, observed: Sequence[str]) -> None:
        """Add the first state of an episode."""
        self._write(f"{episode},{time_of},{_fields(observed)},{self._blank}", 0)

    def step(self, action: int, episode: int, time_of: int, observed: Sequence[str]) -> None:
        """Add an action taken in the last state, and the state it led to."""
        done = ",".join(self.columns.action_texts[action])
        row = f"{episode},{time_of},{_fields(observed)},{self._blank}"
        self._write(f"{done}\n{row}", len(self._blank))

    def sync(self) -> None:
        """Wait until all rows are on the disk."""
        os.fsync(self._file)
        self._synced = time.monotonic()

    def close(self) -> None:
        """Write all rows to the disk, and let others write."""
        if self.is_open:
            try:
                self.sync()
            finally:
                os.close(self._file)
                self._file = -1

    def _write(self, text: str, replaced: int) -> None:
        """Write text at the end of the file, over its last `replaced` bytes."""
        content = text.encode("utf-8")
        place = self._end - replaced
        while content:
            n = os.pwrite(self._file, content, place)
            content, place = content[n:], place + n
        self._end = place
        self.rows += 1
        if time.monotonic() - self._synced > SYNC_SECONDS:
            self.sync()

    def _mend(self) -> None:
        """Cut off what a crash left incomplete, so that the last row is without an action."""
        header = _line(self.columns.all).encode("utf-8")
        size = os.fstat(self._file).st_size
        if os.pread(self._file, len(header), 0) != header:
            raise RunError(
                f"{self.path} has other columns than {', '.join(self.columns.all)}: the system or "
                "the model has changed since the run began; start a new run"
            )
        first = max(len(header), size - _TAIL_BYTES)
        tail = os.pread(self._file, size - first, first)
        if first > len(header):  # skip to the start of a line
            cut = tail.find(b"\n") + 1
            first, tail = first + cut, tail[cut:]
        mended = mended_tail(tail, len(self.columns.all), len(self.columns.actions))
        if mended != tail:
            last = mended.rfind(b"\n", 0, len(mended) - 1) + 1  # the rows before it are unchanged
            os.pwrite(self._file, mended[last:], first + last)
            os.ftruncate(self._file, first + len(mended))
            os.fsync(self._file)
        self._end = first + len(mended)


class Unwritten:
    """The log of a run that keeps only its counts."""

    path = Path("the observations")

    def __init__(self) -> None:
        self.rows = 0

    def begin(self, episode: int, time_of: int, observed: Sequence[str]) -> None:
        """Count a row."""
        self.rows += 1

    def step(self, action: int, episode: int, time_of: int, observed: Sequence[str]) -> None:
        """Count a row."""
        self.rows += 1

    def close(self) -> None:
        """Do nothing: there is no file."""


def _has_header(path: Path, columns: LiveColumns) -> bool:
    header = _line(columns.all).encode("utf-8")
    with path.open("rb") as file:
        return file.read(len(header)) == header


def mended_tail(tail: bytes, n_columns: int, n_actions: int) -> bytes:
    """Return the end of a log without an incomplete row; the last row is left without an action.

    `tail` begins at the start of a line. What a row observed is complete if a comma follows it.
    """
    tail = tail.partition(b"\0")[0]  # parts that the disk has not written read as zeros
    lines = tail.split(b"\n")
    while lines:
        fields = _parsed(lines[-1])
        observed = fields[: n_columns - n_actions]
        is_whole = n_columns - n_actions < len(fields) <= n_columns
        if is_whole and observed[0].isdigit() and observed[1].isdigit():
            row = _line([*observed, *[""] * n_actions]).encode("utf-8")
            return b"".join(line + b"\n" for line in lines[:-1]) + row
        lines.pop()
    return b""


def _parsed(line: bytes) -> list[str]:
    try:
        return next(csv.reader([line.decode("utf-8")]), [])
    except (UnicodeDecodeError, csv.Error):  # cut in the middle of a character
        return []


def _fields(texts: Sequence[str]) -> str:
    plain = ",".join(texts)
    if '"' in plain or plain.count(",") != len(texts) - 1 or "\n" in plain or "\r" in plain:
        return _line([" ".join(text.splitlines()) for text in texts]).rstrip("\n")
    return plain


def _line(fields: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(fields)
    return text.getvalue()


def _lock(file: int, path: Path) -> None:
    """Refuse a second writer; the lock ends with the process."""
    if os.name != "posix":
        return
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise RunError(
            f"{path} is being written by another process; wait for it, or stop it"
        ) from None
