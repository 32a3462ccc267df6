"""Files of logs: which ones paths, folders and globs name, and the reader of each by its ending."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from mdpdsl.logs.readers import arrow_files, csv_files, json_lines, minari_paths, parquet_files
from mdpdsl.logs.readers.log_file import READ_ERRORS, LogFile, LogFileError, first_line
from mdpdsl.logs.readers.minari import open_dataset

#: Endings of files, and what opens them.
READERS: tuple[tuple[tuple[str, ...], Callable[[Path], LogFile]], ...] = (
    (parquet_files.ENDINGS, parquet_files.open_parquet),
    (csv_files.ENDINGS, csv_files.open_csv),
    (json_lines.ENDINGS, json_lines.open_json),
    (arrow_files.ENDINGS, arrow_files.open_arrow),
)
ENDINGS = tuple(ending for endings, _ in READERS for ending in endings)


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


def open_file(path: Path) -> LogFile:
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
        return opened(path)
    except READ_ERRORS as error:
        raise LogFileError(f"cannot read {path}: {first_line(error)}") from None


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
