"""Atomic file writes: a reader sees either the old content or the new, never a part of it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from mdpdsl.diagnostics import Error


class CannotWriteError(Error, OSError):
    """A file that the system would not write."""

    status = 1

    def __str__(self) -> str:
        return f"cannot write {self.filename}: {self.strerror}"


class ExistsError(Error):
    """A file that exists already, and was not to be replaced."""


def require_absent(path: Path, overwrite: bool) -> None:
    """Raise ExistsError if there is something at a path, and it may not be replaced."""
    if path.is_dir():
        raise ExistsError(f"{path} is a folder; name a file")
    if not overwrite and (path.exists() or path.is_symlink()):
        raise ExistsError(f"{path} exists already; choose another path, or `overwrite=` it")


@contextmanager
def staged(target: Path, overwrite: bool) -> Iterator[Path]:
    """Yield where to write a file, and others beside it; move all into place once all are there.

    A failure leaves nothing behind. Raise ExistsError if one of the files exists already.
    """
    if not target.is_dir():
        require_absent(target, overwrite)
    try:
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise CannotWriteError(error.errno, error.strerror or str(error), str(target)) from None
    try:
        yield folder / target.name
        files = sorted(folder.iterdir())
        for file in files:
            require_absent(target.parent / file.name, overwrite)
        for file in files:
            os.replace(file, target.parent / file.name)
    except OSError as error:
        reason = error.strerror or str(error)
        raise CannotWriteError(error.errno, reason, str(target)) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    """Write a JSON file atomically."""
    write_text(path, json.dumps(record, indent=1, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_bytes(path, text.encode("utf-8"))


def replace_text(path: Path, text: str) -> None:
    """Write a text file in the place of one that exists, keeping its permissions."""
    mode = path.stat().st_mode
    write_text(path, text)
    path.chmod(mode)


def write_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays atomically; equal arrays give equal bytes."""
    with _replacing(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with _replacing(path) as file:
        file.write(content)


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a new file that replaces `path` once it is complete; the umask sets its mode."""
    partial = path.with_name(f".{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("xb") as file:
            yield file
        os.replace(partial, path)
    except OSError as error:
        _removed(partial)
        raise CannotWriteError(error.errno, error.strerror or str(error), str(path)) from None
    except BaseException:
        _removed(partial)
        raise


def _removed(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)
