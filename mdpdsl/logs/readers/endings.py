"""Files of logs: which ones paths, folders and globs name, and the reader of each by its ending."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from mdpdsl.logs.readers import arrow_files, csv_files, json_lines, minari_paths, parquet_files
from mdpdsl.logs.readers.log_file import (
    COPY_AGAIN,
    READ_ERRORS,
    LogFile,
    LogFileError,
    first_line,
    is_compressed,
    is_damage,
    not_in_encoding,
)
from mdpdsl.logs.readers.minari import open_dataset
from mdpdsl.logs.reading_options import ReadingOptions

#: Endings of files, and what opens them.
READERS: tuple[tuple[tuple[str, ...], Callable[[Path, ReadingOptions], LogFile]], ...] = (
    (parquet_files.ENDINGS, parquet_files.open_parquet),
    (csv_files.ENDINGS, csv_files.open_csv),
    (json_lines.ENDINGS, json_lines.open_json),
    (arrow_files.ENDINGS, arrow_files.open_arrow),
)
ENDINGS = tuple(ending for endings, _ in READERS for ending in endings)
#: How files of other formats begin, what they are, and how the names of those that are read end.
_BEGINNINGS = (
    (b"\x1f\x8b", "gzip", (".gz",)),
    (b"PAR1", "Parquet", parquet_files.ENDINGS),
    (b"ARROW1", "Arrow", arrow_files.ENDINGS),
    (b"PK\x03\x04", "zip or Excel", ()),
    (b"\xd0\xcf\x11\xe0", "Excel", ()),
    (b"\x89HDF", "HDF5", ()),
    (b"SQLite format 3", "SQLite", ()),
    (b"BZh", "bzip2", ()),
    (b"\xfd7zXZ", "xz", ()),
    (b"\x28\xb5\x2f\xfd", "zstd", ()),
)
_TEXT = re.compile(rb"[\t\r\n -~]*")


def expand_paths(patterns: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Return the files that paths, folders and globs name, each once, and what names none."""
    found: dict[Path, Path] = {}
    problems = []
    for pattern in patterns:
        here = Path(pattern)
        if minari_paths.is_id(pattern):
            paths = [str(minari_paths.dataset_of_id(pattern))]
        elif here.is_dir() and not minari_paths.is_data_folder(here):
            inside = [p for p in here.iterdir() if p.name.lower().endswith(ENDINGS) or p.is_dir()]
            paths = _logs_among(inside)
        elif here.exists():
            paths = [str(minari_paths.dataset_at(here) or here)]
        else:
            paths = _logs_among([Path(p) for p in glob.glob(pattern, recursive=True)])
        if not paths:
            problems.append(f"there is no file {pattern}")
        for path in sorted(paths, key=_natural):
            found.setdefault(Path(path).resolve(), Path(path))
    return list(found.values()), problems


def open_file(path: Path, options: ReadingOptions) -> LogFile:
    """Open a file by its ending, or the folder of a dataset; raise LogFileError."""
    if path.is_dir() or minari_paths.is_id(str(path)):
        return open_dataset(path)
    name = path.name.lower()
    opened = next((opened for endings, opened in READERS if name.endswith(endings)), None)
    if opened is None:
        raise LogFileError(
            f"{path}: the ending is that of no format that can be read",
            f"use one of {', '.join(ENDINGS)}",
        )
    try:
        if path.stat().st_size == 0:
            raise LogFileError(f"{path} is empty")
        _require_content(path, name)
        return opened(path, options)
    except READ_ERRORS as error:
        if isinstance(error, UnicodeError):
            raise not_in_encoding(f"cannot read {path}", error) from None
        is_binary = name.endswith((*parquet_files.ENDINGS, *arrow_files.ENDINGS))
        is_cut = is_binary or isinstance(error, EOFError) or is_damage(error)
        raise LogFileError(
            f"cannot read {path}: {first_line(error)}", COPY_AGAIN if is_cut else None
        ) from None


def _require_content(path: Path, name: str) -> None:
    """Raise LogFileError if the first bytes of a file show that it is not what its name says."""
    with path.open("rb") as file:
        start = file.read(1000)
    for begins, what, endings in _BEGINNINGS:
        if start.startswith(begins) and not (endings and name.endswith(endings)):
            ending = f"rename it so that its name ends in {endings[0]}" if endings else None
            raise LogFileError(
                f"cannot read {path}: it is a {what} file", ending or "export it as CSV or Parquet"
            )
    if is_compressed(path) and not start.startswith(b"\x1f\x8b"):
        raise LogFileError(
            f"cannot read {path}: it is not compressed", "rename it, without .gz at the end"
        )
    is_text = _TEXT.fullmatch(start) is not None
    if is_text and not name.endswith((*csv_files.ENDINGS, *json_lines.ENDINGS)):
        raise LogFileError(
            f"cannot read {path}: it is a text file", "if it is CSV or JSON lines, rename it"
        )


def _logs_among(paths: Sequence[Path]) -> list[str]:
    """Return files, and the data folders of datasets."""
    found = [(path, minari_paths.dataset_at(path)) for path in paths]
    return [
        str(dataset or path)
        for path, dataset in found
        if dataset or (path.is_file() and path.name != minari_paths.NAMESPACE_NAME)
    ]


def _natural(path: str) -> list[tuple[int, int | str]]:
    """Order `part-2` before `part-10`."""
    return [(0, int(p)) if p.isdigit() else (1, p) for p in re.split(r"(\d+)", path) if p]
