"""The verb `estimate`: a model's counts, probabilities and confidence sets from logs."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdpdsl.compile.model import Model
from mdpdsl.compile.stored import StoredModel
from mdpdsl.diagnostics import ModelError, RunError, SettingsError
from mdpdsl.estimate.confidence_sets import ConfidenceSets, confidence_sets
from mdpdsl.estimate.metrics import measure
from mdpdsl.estimate.reference import estimate_reference
from mdpdsl.estimate.run_result import RunResult, RunTrial
from mdpdsl.estimate.saved import save_estimate, stored_sets, what_is_left_out
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.tables import pair_records, transition_table
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.logs.count import LogCounts, count_logs
from mdpdsl.logs.rejections import Example, Rejections
from mdpdsl.progress import Progress, shown
from mdpdsl.runs.arrays import read_counts
from mdpdsl.runs.directory import COUNTS, MODEL, RunDirectory, new_folder, require_new
from mdpdsl.runs.records import (
    EstimateRecord,
    FileRecord,
    PairRecord,
    RunConfiguration,
    RunOptions,
    decoded,
    encoded,
)
from mdpdsl.runs.run_models import resumed_model
from mdpdsl.versions import current_versions
from mdpdsl.workers import cluster_workers, process_pool

if TYPE_CHECKING:
    import pyarrow as pa

#: The most unvisited pairs that a record lists.
LISTED_UNSEEN = 1000
DELTA = 0.1
RADII = ("paper", "weissman")


@dataclass(frozen=True, eq=False, repr=False)
class Estimate(RunResult):
    """A model estimated from logs: counts, confidence sets, and what could not be counted."""

    sets: ConfidenceSets
    summary: EstimateRecord

    @property
    def transitions(self) -> int:
        """The number of transitions counted."""
        return self.counts.n_transitions

    @property
    def rejected(self) -> dict[str, int]:
        """Rows that could not be counted, by reason."""
        return dict(self.summary.rejected)

    @property
    def rejections(self) -> Rejections:
        """Rows that could not be counted, by reason, with examples."""
        examples = {
            reason: [Example(each.file, each.row, each.found) for each in kept]
            for reason, kept in self.summary.examples.items()
        }
        return Rejections(self.rejected, examples)

    @property
    def speed(self) -> float | None:
        """Rows per second."""
        return self.summary.rows_per_second

    def table(self) -> pa.Table:
        """Return one row for each transition that was seen, with its interval of probability."""
        counts, intervals = self.counts, self.sets.intervals
        pair = np.repeat(np.arange(self.graph.n_pairs), np.diff(counts.successor_start))
        columns = {
            "count": counts.count,
            "probability": counts.count / counts.visits[pair],
            "lower": intervals.lower,
            "upper": intervals.upper,
        }
        return transition_table(self.graph, pair, counts.successor.astype(np.int64), columns)

    def record(self) -> dict[str, Any]:
        """Return the results as `--json` prints them."""
        return encoded(self.summary) | {"run": None if self.path is None else str(self.path)}

    def save(self, path: str | Path) -> Estimate:
        """Write a folder that `mdpdsl.open_run` reads; return the result with its path."""
        with RunDirectory.create(Path(path), self.configuration, self.model.source.text) as run:
            saved = replace(self, path=run.path)
            save_estimate(run.path, self.counts, self.sets, self.model, self.prior, self.rejections)
            run.write_summary(saved.record())
        return saved


def estimate(
    model: Model,
    *logs: Any,
    delta: float | None = None,
    radius: str = "paper",
    prior: float = 0.0,
    time_step: float | None = None,
    separate_files: bool = False,
    out: str | Path | bool | None = None,
    jobs: int | None = None,
    cluster: str | None = None,
    progress: bool | Progress | None = None,
) -> Estimate:
    """Estimate a model from logs: files, folders, patterns, Minari datasets, or frames in memory.

    A frame is a table of pandas, polars, pyarrow or DuckDB, or a `Log`; it needs the columns of a
    file. Two consecutive rows of an episode are a transition; the model's `log` block says what the
    columns mean. Of the model, only the states and actions are used.

    With `out`, the result is written to the folder of a run (True: a new one under `runs/`).
    `rejected` counts the rows that cannot be used, by reason. Raise LogError if there is nothing to
    read.

    >>> import mdpdsl
    >>> model = mdpdsl.load("riverswim")
    >>> found = mdpdsl.estimate(model, mdpdsl.simulate(model, steps=5_000, seed=1))
    >>> found.transitions, len(found.rejected)
    (5000, 0)
    """
    if not math.isfinite(prior) or prior < 0:
        raise SettingsError(f"`prior=` must be 0 or more, and finite; not {prior}")
    if time_step is not None and not (math.isfinite(time_step) and time_step > 0):
        raise SettingsError(f"`time_step=` must be positive and finite, not {time_step}")
    if delta is not None and not 0 < delta < 1:
        raise SettingsError(f"`delta=` must be between 0 and 1, not {delta}")
    if radius not in RADII:
        raise SettingsError(f"there is no radius `{radius}`; there are {', '.join(RADII)}")
    if not logs:
        raise SettingsError("name a log: a file, a folder, a pattern, or a frame in memory")
    if isinstance(out, str | Path):
        require_new(Path(out))
    spaces = whole_space(model)
    with shown(progress, "reading", "rows") as update:
        read = _counted(spaces, logs, time_step, separate_files, jobs, cluster, update)
    chosen = {
        "delta": delta if delta is not None else float(spaces.checked.explore.get("delta", DELTA)),
        "radius": radius,
        "prior": prior,
        "time_step": read.time_step,
        "separate_files": separate_files,
    }
    found = _estimate(spaces, read, chosen)
    if not out:
        return found
    folder = new_folder(f"{spaces.name}-estimate") if out is True else Path(out)
    return found.save(folder)


def whole_space(model: Model) -> Model:
    """Return a model over all its states; if some of them are not valid, over those it reaches."""
    if isinstance(model, StoredModel):
        place = model.provenance.path
        if not place:
            return model
        file = f", {Path(place) / MODEL}" if Path(place).is_dir() else " that says how to read it"
        raise SettingsError(f"{place} is a finished graph; to read logs, give the model file{file}")
    wide = model.over_all_states()
    try:
        _ = wide.graph
    except ModelError:
        return model
    return wide


def open_estimate(run: RunDirectory, configuration: RunConfiguration) -> Estimate:
    """Read an estimate from its folder; raise RunError, ModelError or ValueError."""
    record = run.summary()
    if record is None:
        raise RunError(f"the run {run.path} was not finished; run it again")
    model = resumed_model(run, configuration)
    graph = model.graph
    counts = read_counts(run.path / COUNTS, graph.n_pairs, graph.n_states)
    settings = configuration.settings
    sets = stored_sets(run.path, counts, graph, settings["delta"], settings["radius"])
    return _result(model, configuration, counts, sets, decoded(EstimateRecord, record), run.path)


def _counted(
    model: Model,
    logs: Sequence[Any],
    time_step: float | None,
    separate_files: bool,
    jobs: int | None,
    cluster: str | None,
    update: Progress | None,
) -> LogCounts:
    n_jobs = min(jobs or os.cpu_count() or 1, _n_files(logs))
    with _workers(cluster, n_jobs) as (executor, n_workers):
        return count_logs(
            model.checked,
            model.graph,
            logs,
            are_files_separate=separate_files,
            time_step=time_step,
            progress=None if update is None else lambda rows: update(rows, None, "rows"),
            executor=executor,
            n_workers=n_workers,
        )


def _n_files(logs: Sequence[Any]) -> int:
    from mdpdsl.logs.readers.endings import expand_paths

    return len(expand_paths([str(log) for log in logs if isinstance(log, str | Path)])[0])


@contextmanager
def _workers(cluster: str | None, n_jobs: int) -> Iterator[tuple[Executor | None, int]]:
    """Yield an executor for the files of a log and its workers; None to work in this process."""
    if cluster is not None:
        with cluster_workers(cluster) as found:
            yield found
    elif n_jobs > 1:
        with process_pool(n_jobs) as pool:
            yield pool, n_jobs
    else:
        yield None, 1


def _estimate(model: Model, read: LogCounts, chosen: dict[str, Any]) -> Estimate:
    graph = model.graph
    files = [FileRecord(file.path, file.bytes, file.rows) for file in read.files]
    configuration = RunConfiguration(
        model=model.name,
        hash=graph.hash,
        parameters=dict(model.parameters),
        options=RunOptions(
            graph.n_states == graph.states.product.size, model.options.get("max_states")
        ),
        settings={**chosen, "files": [asdict(file) for file in files]},
        seed=0,
        trials=0,
        versions=current_versions("pyarrow"),
        command="estimate",
    )
    sets = confidence_sets(read.counts, graph.n_states, chosen["delta"], chosen["radius"])
    summary = _summary(model, read, files, chosen, configuration, sets)
    return _result(model, configuration, read.counts, sets, summary, None)


def _result(
    model: Model,
    configuration: RunConfiguration,
    counts: Counts,
    sets: ConfidenceSets,
    summary: EstimateRecord,
    path: Path | None,
) -> Estimate:
    reference = estimate_reference([counts])
    c = reference.complexity
    final = measure(counts.n_transitions, counts.visits, c, 1.0)
    trial = RunTrial(0, counts, {}, final)
    return Estimate(model, configuration, (trial,), reference, sets, path, summary=summary)


def _summary(
    model: Model,
    read: LogCounts,
    files: Sequence[FileRecord],
    chosen: dict[str, Any],
    configuration: RunConfiguration,
    sets: ConfidenceSets,
) -> EstimateRecord:
    graph, counts = model.graph, read.counts
    c_hat = estimate_reference([counts]).complexity
    measures = measure(read.rows, counts.visits, c_hat, 1.0, over_visited=True)
    n_unseen = int(np.count_nonzero(counts.visits == 0))
    return EstimateRecord(
        model=model.name,
        hash=graph.hash,
        parameters=dict(model.parameters),
        states=graph.n_states,
        pairs=graph.n_pairs,
        transitions=counts.n_transitions,
        rows=read.rows,
        files=files,
        problems=list(read.problems),
        rejected=read.rejected.counts,
        examples=example_records(read.rejected),
        clipped=read.clipped,
        in_order=read.was_sorted,
        pairs_seen=graph.n_pairs - n_unseen,
        pairs_unseen=n_unseen,
        unseen=unseen_records(graph, counts),
        worst_radius=float(sets.radius.max()),
        truth=False,
        worst=measures.worst,
        average=measures.average,
        **chosen,
        seconds=read.seconds,
        rows_per_second=read.rows / read.seconds,
        versions=configuration.versions,
        **what_is_left_out(counts, model, chosen["prior"]),
    )


def unseen_records(
    graph: TransitionGraph, counts: Counts, most: int = LISTED_UNSEEN
) -> list[PairRecord]:
    """Return the first pairs that were never visited."""
    unseen = np.flatnonzero(counts.visits == 0)[:most].tolist()
    return [decoded(PairRecord, each) for each in pair_records(graph, unseen, {})]


def example_records(rejected: Rejections) -> dict[str, Any]:
    """Return the examples of rejected rows by reason."""
    return {reason: list(kept) for reason, kept in rejected.examples.items()}
