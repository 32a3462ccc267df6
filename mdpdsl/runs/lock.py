"""One writer at a time: a lock on a folder that ends with the process that holds it.

The operating system locks a file in the folder; the file names the process that holds the lock. The
lock ends with the process, however that ends, so a file that a killed process left behind locks
nothing. Child processes do not inherit the lock.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

from mdpdsl.diagnostics import RunError

LOCK = ".lock"

#: The locks of this process: the operating system lets a process lock a file twice.
_held: set[Path] = set()


class FolderLock:
    """Holds a folder for this process until it is released."""

    def __init__(self, folder: Path) -> None:
        """Lock an existing folder; if it is locked, raise a RunError that names the holder."""
        self._path = folder.resolve() / LOCK
        if self._path in _held:
            raise RunError(f"{folder} is already being written by this process")
        self._file = _locked_file(self._path, folder)
        _held.add(self._path)

    def release(self) -> None:
        """Let others write."""
        if self._file < 0:
            return
        self._path.unlink(missing_ok=True)
        os.close(self._file)
        self._file = -1
        _held.discard(self._path)

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _locked_file(path: Path, folder: Path) -> int:
    """Return the open lock file, locked."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not _try_lock(file):
                raise RunError(
                    f"{folder} is being written by {_holder(path)}; wait for it, stop it, or "
                    "choose another folder"
                )
            # The previous holder may have removed the file between the two calls above.
            if path.exists() and os.stat(path).st_ino == os.fstat(file).st_ino:
                os.ftruncate(file, 0)
                holder = {"pid": os.getpid(), "host": socket.gethostname()}
                os.write(file, json.dumps(holder).encode())
                return file
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _try_lock(file: int) -> bool:
    if os.name != "posix":
        import msvcrt

        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _holder(path: Path) -> str:
    try:
        record = json.loads(path.read_text("utf-8"))
        return f"process {int(record['pid'])} on {record['host']}"
    except (OSError, ValueError, KeyError, TypeError):  # not written yet
        return "another process"
