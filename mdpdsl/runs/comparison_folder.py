"""The folder of a comparison: a run for each row, and the list of finished rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mdpdsl.diagnostics import RunError
from mdpdsl.files import write_json
from mdpdsl.runs.directory import COMPARISON, NewFolder, RunDirectory
from mdpdsl.runs.labels import row_folder
from mdpdsl.runs.records import RunConfiguration


class ComparisonDirectory:
    """A folder with a run for each row; a row that was stopped can be resumed like any run."""

    def __init__(self, path: Path, model: str, *, overwrite: bool = False) -> None:
        """Make the folder; raise RunError if there is something in it already."""
        self.path = path
        self._model = model
        self._rows: list[str] = []
        self._folder = NewFolder(path, overwrite=overwrite)

    def begin(
        self, settings: Mapping[str, Any], configuration: RunConfiguration, source: str
    ) -> RunDirectory:
        """Create the run of the next row."""
        name = row_folder(len(self._rows) + 1, settings)
        return RunDirectory.create(self.path / name, configuration, source)

    def finish(self, run: RunDirectory) -> None:
        """Add a row to the list once its results are written."""
        self._rows.append(run.path.name)
        record = {"format": 1, "model": self._model, "rows": self._rows}
        write_json(self.path / COMPARISON, record)

    def __enter__(self) -> ComparisonDirectory:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Keep the rows, unless there are none or the comparison failed; Ctrl-C is no failure."""
        has_failed = kind is not None and issubclass(kind, Exception)
        if has_failed or not any(path.is_dir() for path in self.path.iterdir()):
            self._folder.discard()
        else:
            self._folder.keep()


def is_comparison(path: Path) -> bool:
    """Return whether a folder holds a comparison."""
    return (path / COMPARISON).exists()


def run_folders(paths: Sequence[str | Path]) -> list[Path]:
    """Return the folders of runs; the folder of a comparison gives the runs of all its rows."""
    found: list[Path] = []
    for path in map(Path, paths):
        if not is_comparison(path):
            found.append(path)
            continue
        try:
            rows = json.loads((path / COMPARISON).read_text("utf-8"))["rows"]
            found += [path / str(row) for row in rows]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{path / COMPARISON} cannot be read: {error}") from None
    return found
