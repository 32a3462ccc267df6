"""The verb `compare`: several explorers on one model or one log; the paper's table."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdpdsl.compile.model import Model, as_model
from mdpdsl.compile.stored import stored_keys
from mdpdsl.explore.executor import TrialResult
from mdpdsl.explore.optimum import Limits
from mdpdsl.explore.replay.replay_summary import ReplayRow, ReplaySummary
from mdpdsl.explore.replay.replayed import NO_OPTIMUM, ReplayedTarget, read_replayed_log
from mdpdsl.explore.result import ExploreRun, save_results, save_start
from mdpdsl.explore.run import (
    explorer_of,
    listed_logs,
    require_about_log,
    require_settings,
    workers,
)
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.summary import Summary, summarize
from mdpdsl.explore.target import SimulatedTarget, Target, Trials, configuration_of
from mdpdsl.graph.tables import Tabular
from mdpdsl.logs.reading_options import split_options
from mdpdsl.progress import Progress
from mdpdsl.representation import represented
from mdpdsl.runs.comparison_folder import ComparisonDirectory
from mdpdsl.runs.directory import REPLAYED_LOG, RunDirectory, require_new
from mdpdsl.runs.labels import WITH_KAPPA
from mdpdsl.runs.records import LogRecord, RunConfiguration, encoded

if TYPE_CHECKING:
    import pyarrow as pa

#: The rows of the paper's table (paper, table compPolicy).
PAPER_ROWS: tuple[dict[str, Any], ...] = (
    {"algorithm": "kappa-dp", "kappa": 10.0, "horizon": "inf"},
    {"algorithm": "kappa-dp", "kappa": 1.0, "horizon": "inf"},
    {"algorithm": "kappa-dp", "kappa": 1.0, "horizon": "2"},
    {"algorithm": "kappa-dp", "kappa": 1.0, "horizon": "1"},
    {"algorithm": "weighted-maxent", "kappa": 1.0, "horizon": "inf"},
    {"algorithm": "smm", "kappa": 1.0, "horizon": "inf"},
    {"algorithm": "maxent", "kappa": 1.0, "horizon": "inf"},
    {"algorithm": "random", "kappa": 1.0, "horizon": "inf"},
)


@dataclass(frozen=True, eq=False)
class Comparison(Tabular):
    """Explorers side by side: one row each, with means and standard errors over trials."""

    model: Model
    rows: tuple[Summary, ...]
    limits: Limits  # the best possible result, if it is known
    steps: int
    n_trials: int
    seed: int
    simulate: str
    is_finished: bool  # otherwise the comparison was stopped, and rows are missing
    runs: tuple[ExploreRun, ...]  # one for each row
    path: Path | None
    replay: tuple[ReplayRow, ...] = ()  # of a log: at the end of each, and after equal steps
    common_steps: int = 0
    log: LogRecord | None = None

    def record(self) -> dict[str, Any]:
        """Return the table as `--json` prints it."""
        found: dict[str, Any] = {
            "model": self.model.name,
            "hash": self.model.graph.hash,
            "parameters": dict(self.model.parameters),
            "steps": self.steps,
            "trials": self.n_trials,
            "seed": self.seed,
        }
        if self.log is not None:
            found |= {
                "truth": False,
                "transitions": self.log.transitions,
                "pairs_in_log": self.log.pairs_in_log,
                "pairs_unseen": self.log.pairs_unseen,
                "common_steps": self.common_steps,
                "rows": [replay_row_record(row, self.common_steps) for row in self.replay],
                "optimum": None,
                "optimum_reason": NO_OPTIMUM,
                "log": encoded(self.log),
            }
        else:
            found |= {
                "simulate": self.simulate,
                **stored_keys(self.model),
                "rows": [self._row_record(row) for row in self.rows],
                "optimum": self.limits.record(),
                "optimum_reason": self.limits.reason,
            }
        return found | ({} if self.path is None else {"saved": str(self.path)})

    def _row_record(self, row: Summary) -> dict[str, Any]:
        return asdict(row) | {
            "ratio_worst": self.limits.ratio_worst(row.worst),
            "ratio_average": self.limits.ratio_average(row.average),
        }

    def table(self) -> pa.Table:
        """Return one row for each explorer."""
        import pyarrow as pa

        return pa.Table.from_pylist(self.record()["rows"])

    @property
    def title(self) -> str:
        """The model, the steps and the trials, in words."""
        trials = f"{self.n_trials} trial{'s' if self.n_trials > 1 else ''}"
        if self.log is None:
            how = ", the continuous system seen through its bins"
            seen = how if self.simulate == "continuous" else ""
            return f"{self.model.name}, n = {self.steps:,}, {trials}{seen}"
        n_pairs = self.log.pairs_in_log + self.log.pairs_unseen
        episodes = f"{self.log.episodes:,} episode{'s' if self.log.episodes != 1 else ''}"
        return (
            f"{self.model.name}, a log of {self.log.transitions:,} transitions in {episodes}, with "
            f"{self.log.pairs_in_log:,} of {n_pairs:,} pairs; {trials}"
        )

    def __repr__(self) -> str:
        return f"<Comparison on {self.title}: {', '.join(row.label for row in self.rows)}>"

    def _repr_html_(self) -> str | None:
        return represented("comparison_html", self)


def compare(
    model: Model,
    algorithms: Sequence[str | object] = (),
    *,
    kappas: Sequence[float] = (),
    horizons: Sequence[int | str] = (),
    trials: int = 10,
    seed: int = 0,
    log: Any = None,
    offer: str | None = None,
    separate_files: bool = False,
    time_step: float | None = None,
    save: str | Path | None = None,
    overwrite: bool = False,
    jobs: int | None = None,
    cluster: str | None = None,
    progress: bool | Progress | None = None,
    **settings: object,
) -> Comparison:
    """Compare explorers over trials; if none are named, those of the paper's table.

    `algorithms` are names of explorers, or classes with `act` and `observe`. Explorers that depend
    on kappa or on a horizon get a row for each of the `kappas` and `horizons`. With `log`, all
    explorers are replayed on it, and `settings` may have the options of `estimate` for reading it.
    With `save`, a new folder keeps a run for each row. Ctrl-C returns the rows that are finished.

    An earlier comparison in `save` is replaced only if you `overwrite` it.

    >>> import mdpdsl
    >>> model = mdpdsl.load("riverswim")
    >>> table = mdpdsl.compare(model, ["kappa-dp", "random"], steps=500, trials=2)
    >>> [row.label for row in table.rows]
    ['kappa-dp (kappa=1)', 'random']
    """
    if isinstance(algorithms, str):
        algorithms = [algorithms]
    reading, settings = split_options(settings)
    given = {key: value for key, value in settings.items() if value is not None}
    require_settings(given)
    require_about_log(log, offer, time_step, separate_files, reading, given)
    compared = as_model(model)
    if save is not None:
        require_new(Path(save), overwrite=overwrite)
    target: Target
    if log is not None:
        target = read_replayed_log(
            compared,
            listed_logs(log),
            offer=offer,
            separate_files=separate_files,
            time_step=time_step,
            reading=reading,
            progress=progress,
        )
    else:
        target = SimulatedTarget(compared)
    rows = [
        (target.settings(given, row), explorer)
        for row, explorer in _rows(algorithms, kappas, horizons)
    ]
    for each, explorer in rows:
        target.require(each, explorer)
    kept = (
        nullcontext()
        if save is None
        else ComparisonDirectory(Path(save), compared.name, overwrite=overwrite)
    )
    with workers(cluster) as executor, kept as directory:
        how = Trials(seed, trials, jobs, executor, progress)
        work = _Work(target, how, directory)
        found = work.rows(rows)
        if isinstance(target, ReplayedTarget):
            return _replayed(target, how, rows, found, save)
        assert isinstance(target, SimulatedTarget)
        return Comparison(
            model=compared,
            rows=tuple(summarize(each, results) for each, results, _ in found),
            limits=target.limits,
            steps=rows[0][0].steps,
            n_trials=trials,
            seed=seed,
            simulate=rows[0][0].simulate,
            is_finished=len(found) == len(rows),
            runs=tuple(run for _, _, run in found),
            path=None if save is None else Path(save),
        )


def _replayed(
    target: ReplayedTarget,
    how: Trials,
    rows: Sequence[tuple[ExploreSettings, object | None]],
    found: Sequence[_Row],
    save: str | Path | None,
) -> Comparison:
    """Return the results at the end of each explorer, and after as many steps as all of them did.

    A replay is a function of its seed, so running it again up to the common number of steps costs
    only time; remembering every visit would cost memory for each step of each trial.
    """
    own = [target.summary(each, results) for each, results, _ in found]
    common_steps = min((summary.least_steps for summary in own), default=0)
    common = own
    if common_steps:
        limited = replace(target, most_steps=common_steps)
        again = _Work(limited, how, None).rows(rows[: len(own)])
        common = [target.summary(each, results) for each, results, _ in again]
    both: list[tuple[ReplaySummary, ReplaySummary]] = list(zip(own, common, strict=False))
    replay = tuple(ReplayRow(one, other) for one, other in both)
    return Comparison(
        model=target.model,
        rows=tuple(row.own.summary for row in replay),
        limits=Limits(None, None, NO_OPTIMUM),
        steps=rows[0][0].steps,
        n_trials=how.number,
        seed=how.seed,
        simulate="model",
        is_finished=len(replay) == len(rows),
        runs=tuple(run for _, _, run in found),
        path=None if save is None else Path(save),
        replay=replay,
        common_steps=common_steps,
        log=target.log,
    )


_Row = tuple[ExploreSettings, list[TrialResult], ExploreRun]


@dataclass
class _Work:
    """Runs the trials of explorers, one explorer after the other."""

    target: Target
    how: Trials
    directory: ComparisonDirectory | None
    _first: Path | None = None  # the first copy of the log on disk

    def rows(self, rows: Sequence[tuple[ExploreSettings, object | None]]) -> list[_Row]:
        """Return the results of each row; if one is stopped, it and all later ones are left out."""
        found: list[_Row] = []
        for settings, explorer in rows:
            configuration = configuration_of(self.target, settings, self.how)
            with self._begun(settings, configuration) as run:
                folder = None if run is None else run.trial
                results = self.target.run(settings, self.how, folder, explorer)
                is_whole = len(results) == self.how.number
                if not is_whole or not all(result.is_finished for result in results):
                    break
                result = self.target.result(configuration, settings, results)
                if run is not None and self.directory is not None:
                    result = save_results(run, result)
                    self.directory.finish(run)
            found.append((settings, results, result))
        return found

    @contextmanager
    def _begun(
        self, settings: ExploreSettings, configuration: RunConfiguration
    ) -> Iterator[RunDirectory | None]:
        if self.directory is None:
            yield None
            return
        source = self.target.model.source.text
        with self.directory.begin(asdict(settings), configuration, source) as run:
            self._keep_start(run)
            yield run

    def _keep_start(self, run: RunDirectory) -> None:
        """Write what a run starts with; rows share one copy of the log, if the disk has links."""
        logged = self.target.logged if isinstance(self.target, ReplayedTarget) else None
        if logged is not None and self._first is not None:
            try:
                os.link(self._first, run.path / REPLAYED_LOG)
                logged = None
            except OSError:  # a disk without links
                pass
        save_start(run, self.target.model, logged)
        if logged is not None:
            self._first = run.path / REPLAYED_LOG


def _rows(
    algorithms: Sequence[str | object],
    kappas: Sequence[float],
    horizons: Sequence[int | str],
) -> list[tuple[Mapping[str, Any], object | None]]:
    """Return the rows that the arguments name; only kappa-dp has a horizon."""
    if not algorithms and not kappas and not horizons:
        return [(row, None) for row in PAPER_ROWS]
    rows: list[tuple[Mapping[str, Any], object | None]] = []
    for algorithm in algorithms or ("kappa-dp",):
        name, explorer = explorer_of(algorithm)
        has_kappa = name in WITH_KAPPA and explorer is None
        has_horizon = name == "kappa-dp" and explorer is None
        for kappa in (kappas if has_kappa else ()) or (None,):
            for horizon in (horizons if has_horizon else ()) or (None,):
                row = {"algorithm": name, "kappa": kappa}
                row["horizon"] = (
                    (None if horizon is None else str(horizon)) if has_horizon else "inf"
                )
                rows.append((row, explorer))
    return rows


def replay_row_record(row: ReplayRow, common_steps: int) -> dict[str, Any]:
    """Return the record of one explorer on a log."""
    own, same = row.own, row.common
    return {
        **asdict(own.summary),
        "ratio_worst": None,
        "ratio_average": None,
        "steps_done": own.steps_done,
        "least_steps": own.least_steps,
        "share_of_log": own.share_of_log,
        "coverage": own.coverage,
        "restarts": own.restarts,
        "distance_to_log": own.distance_to_log,
        "ended": own.ended,
        "common_steps": common_steps,
        "common_failure_rate": same.summary.failure_rate,
        "common_worst": same.summary.worst,
        "common_average": same.summary.average,
        "common_worst_se": same.summary.worst_se,
        "common_average_se": same.summary.average_se,
        "common_coverage": same.coverage,
        "common_distance_to_log": same.distance_to_log,
    }
