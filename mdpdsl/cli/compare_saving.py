"""`mdpdsl compare --save`: a folder with a run of each row, which `mdpdsl report` draws."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mdpdsl.cli.explore import run_record, save_run, saved_exploration
from mdpdsl.compile.model import Model
from mdpdsl.compile.stored import StoredModel
from mdpdsl.diagnostics import RunError
from mdpdsl.explore.executor import TrialResult
from mdpdsl.explore.optimum import Limits
from mdpdsl.explore.settings import WITH_KAPPA, ExploreSettings
from mdpdsl.explore.summary import Summary
from mdpdsl.files import write_json
from mdpdsl.formats.npz import save_graph
from mdpdsl.report.run import COMPARISON
from mdpdsl.runs.directory import EXPLORED, RunDirectory
from mdpdsl.runs.records import RunConfiguration, RunOptions, decoded
from mdpdsl.versions import current_versions

if TYPE_CHECKING:
    from mdpdsl.cli.replaying import ReadLog
    from mdpdsl.explore.replay.replay_summary import ReplaySummary


def require_new_folder(path: Path | None) -> None:
    """Raise RunError where there is something in the place of a folder to be made."""
    if path is not None and path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise RunError(f"{path} exists already; choose another --save")


@dataclass
class ComparisonFolder:
    """The folder of a comparison; a row is a run directory as `explore` writes it.

    A row that was stopped goes on with `explore --resume`; the list of rows has finished ones only.
    """

    path: Path
    model: Model
    options: Mapping[str, Any]
    seed: int
    trials: int
    log: ReadLog | None = None  # where a log is replayed
    rows: list[str] = field(default_factory=list)
    _current: tuple[RunDirectory, RunConfiguration] | None = None
    _first_log: Path | None = None

    @classmethod
    def new(
        cls,
        path: Path | None,
        model: Model,
        options: Mapping[str, Any],
        seed: int,
        trials: int,
        log: ReadLog | None = None,
    ) -> ComparisonFolder | None:
        """Begin a folder; None where none is asked for."""
        return None if path is None else cls(path, model, options, seed, trials, log)

    def begin(self, settings: ExploreSettings) -> RunDirectory:
        """Make the run directory of the next row."""
        more = ("duckdb", "pyarrow") if self.log is not None else ()
        configuration = RunConfiguration(
            model=self.model.name,
            hash=self.model.graph.hash,
            parameters=dict(self.model.parameters),
            options=decoded(RunOptions, self.options),
            settings=asdict(settings),
            seed=self.seed,
            trials=self.trials,
            versions=current_versions(*more),
        )
        try:
            run = RunDirectory.create(
                self.path / self._row_name(settings), configuration, self.model.source.text
            )
            if isinstance(self.model, StoredModel):
                save_graph(self.model, run.path / EXPLORED)
            if self.log is not None:
                self._keep_log(self.log, run.path)
        except RunError as error:
            raise click.ClickException(str(error)) from None
        except OSError as error:
            raise click.ClickException(f"cannot write {self.path}: {error.strerror}") from None
        self._current = run, configuration
        return run

    def finish(self, results: list[TrialResult], summary: Summary, limits: Limits) -> None:
        """Write the results of the row that was begun."""
        assert self._current is not None
        run, configuration = self._current
        saved_exploration(run, configuration, self.model, results, summary, limits)
        self._list(run)

    def finish_replay(self, results: list[TrialResult], summary: ReplaySummary) -> None:
        """Write the results of the row that was begun, in a log."""
        from mdpdsl.cli.replay_exploring import replay_keys

        assert self._current is not None
        assert self.log is not None
        run, configuration = self._current
        chosen = ExploreSettings(**configuration.settings)
        record = run_record(configuration, chosen, results, summary.summary, run)
        record |= replay_keys(self.model.graph, self.log, results, summary)
        queues = self.log.queues
        results = [replace(r, counts=queues.model_counts(r.counts)) for r in results]
        save_run(run, self.model, results, record, chosen.prior)
        self._list(run)

    def _row_name(self, settings: ExploreSettings) -> str:
        words = [f"{len(self.rows) + 1:02d}", settings.algorithm]
        if settings.algorithm in WITH_KAPPA:
            words.append(f"kappa{settings.kappa:g}")
        if settings.horizon is not None:
            words.append(f"h{settings.horizon}")
        return "-".join(words)

    def _keep_log(self, log: ReadLog, folder: Path) -> None:
        """Have the log in a run's folder, on the disk once for all rows where that can be."""
        from mdpdsl.cli.replay_exploring import LOG_FILE
        from mdpdsl.logs.order import save_transitions

        path = folder / LOG_FILE
        if self._first_log is not None:
            try:
                os.link(self._first_log, path)
                return
            except OSError:  # a disk without links
                pass
        save_transitions(log.logged, path)
        self._first_log = path

    def _list(self, run: RunDirectory) -> None:
        self.rows.append(run.path.name)
        record = {"format": 1, "model": self.model.name, "rows": self.rows}
        write_json(self.path / COMPARISON, record)
