"""The verb `estimate`: a model's counts, probabilities and confidence sets from logs."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from mdpdsl.compile.model import Model
from mdpdsl.compile.stored import StoredModel
from mdpdsl.diagnostics import MdpdslWarning, ModelError, SettingsError, did_you_mean
from mdpdsl.estimate.confidence_sets import DEFAULT_SETS, DEFAULT_SUPPORT, SUPPORTS, settled_sets
from mdpdsl.estimate.contradictions import contradiction_text
from mdpdsl.estimate.estimate_records import estimate_record, mixed_text, states_text
from mdpdsl.estimate.intervals import SETS
from mdpdsl.estimate.learned_numbers import (
    contradicted_text,
    has_laws,
    learned_numbers,
    misfit_text,
)
from mdpdsl.estimate.log_estimate import Estimate, estimate_of
from mdpdsl.estimate.row_fit import known_misfit
from mdpdsl.estimate.saved import with_data_starts
from mdpdsl.graph.ends import Settled, settle
from mdpdsl.logs.count import LogCounts, count_logs
from mdpdsl.logs.raw_steps import RawSteps, RawTransitions
from mdpdsl.logs.reading_options import ReadingOptions
from mdpdsl.progress import Progress, shown
from mdpdsl.runs.directory import MODEL, new_folder, require_new
from mdpdsl.runs.records import FileRecord, RunConfiguration, RunOptions
from mdpdsl.versions import current_versions
from mdpdsl.workers import cluster_workers, process_pool

DELTA = 0.1


def estimate(
    model: Model,
    *logs: Any,
    delta: float | None = None,
    sets: str = DEFAULT_SETS,
    support: str | None = None,
    prior: float = 0.0,
    time_step: float | None = None,
    separate_files: bool = False,
    dayfirst: bool = False,
    time_format: str | None = None,
    decimal: str = ".",
    encoding: str | None = None,
    clip_anyway: bool = False,
    out: str | Path | bool | None = None,
    overwrite: bool = False,
    jobs: int | None = None,
    cluster: str | None = None,
    progress: bool | Progress | None = None,
    radius: str | None = None,
) -> Estimate:
    """Estimate a model from logs: files, folders, patterns, Minari datasets, or frames in memory.

    A frame is a table of pandas, polars, pyarrow or DuckDB, or a `Log`; it needs the columns of a
    file. Two consecutive rows of an episode are a transition; the model's `log` block says what the
    columns mean. Of the model, only the states and actions are used.

    Times may be numbers, or ISO timestamps; `dayfirst` reads 03/04/2026 as 3 April, and
    `time_format` is for other timestamps, as in %d.%m.%Y %H:%M. `decimal` may be a comma, and
    `encoding` is that of text files. If most values of a variable are out of its range, nothing is
    counted, unless you `clip_anyway`.

    The confidence `sets` are time-uniform (they hold at every look), weissman (so do these, but
    they are wider) or clopper-pearson (for one look at a log whose visits were fixed beforehand);
    all of them hold together with probability 1 - `delta`. The `support` says which successors are
    possible: any state (`all`, or `seen`, where those never seen share one bound), or those of the
    model's dynamics (`model`). It defaults to `model` if the model says what is not known, by a `?`
    or an unknown number, and to `seen` otherwise. `radius` is the old name of `sets`.

    With `out`, the result is written to the folder of a run (True: a new one under `runs/`).
    `rejected` counts the rows that cannot be used, by reason. Raise LogError if there is nothing to
    read; nothing is written if there is nothing to count.

    An earlier run in `out` is replaced only if you `overwrite` it.

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
    reading = ReadingOptions(dayfirst, time_format, decimal, encoding, clip_anyway)
    sets = _chosen_sets(sets, radius)
    if support is None:
        support = "model" if model.checked.states_knowledge else DEFAULT_SUPPORT
    if support not in SUPPORTS:
        raise _unknown("support", support, SUPPORTS)
    if not logs:
        raise SettingsError("name a log: a file, a folder, a pattern, or a frame in memory")
    if isinstance(out, str | Path):
        require_new(Path(out), overwrite=overwrite)
    spaces = whole_space(model)
    if support == "model" and not spaces.graph.has_dynamics:
        raise SettingsError(
            f"{spaces.name} has no dynamics, so it does not say which successors are possible; "
            "set `support=` to seen or all"
        )
    with shown(progress, "reading", "rows") as update:
        steps = _raw_steps(spaces)
        read = _counted(
            spaces, logs, time_step, separate_files, reading, jobs, cluster, update, steps
        )
    chosen = {
        "delta": delta if delta is not None else float(spaces.checked.explore.get("delta", DELTA)),
        "sets": sets,
        "support": support,
        "prior": prior,
        "time_step": read.time_step,
        "separate_files": separate_files,
        "reading": reading.changed,
    }
    found = _estimate(spaces, read, chosen, None if steps is None else steps.transitions())
    if len(found.settled.mixed):
        warnings.warn(mixed_text(found.settled), MdpdslWarning, stacklevel=2)
    if found.summary.contradictions is not None:
        warnings.warn(contradiction_text(found.summary.contradictions), MdpdslWarning, stacklevel=2)
    if found.learned is not None and found.learned.n_misfit:
        warnings.warn(misfit_text(found.learned), MdpdslWarning, stacklevel=2)
    if found.known_misfit is not None and found.known_misfit.is_found:
        warnings.warn(contradicted_text(found.known_misfit), MdpdslWarning, stacklevel=2)
    if not out or found.transitions == 0:
        return found
    folder = new_folder(f"{spaces.name}-estimate") if out is True else Path(out)
    return found.save(folder, overwrite=overwrite)


def _chosen_sets(sets: str, radius: str | None) -> str:
    """Return the kind of confidence sets, which may be given by the old name."""
    if radius is not None:
        if sets not in (DEFAULT_SETS, radius):
            raise SettingsError(f"`radius=` {radius} and `sets=` {sets} differ; give only `sets=`")
        sets = radius
    if sets == "paper":
        raise SettingsError(
            "the paper's radius is no confidence set for a row with many successors: it belongs to "
            f"the paper's algorithms; set `sets=` to {', '.join(SETS[:-1])} or {SETS[-1]}"
        )
    if sets not in SETS:
        raise _unknown("sets", sets, SETS)
    if radius is not None:
        warnings.warn("`radius=` is now called `sets=`", MdpdslWarning, stacklevel=3)
    return sets


def _unknown(argument: str, found: str, known: Sequence[str]) -> SettingsError:
    hint = did_you_mean(found, known)
    listed = f"expected {', '.join(known[:-1])} or {known[-1]}"
    return SettingsError(f"`{argument}=` cannot be {found}; {f'{hint} ' if hint else ''}{listed}")


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


def _counted(
    model: Model,
    logs: Sequence[Any],
    time_step: float | None,
    separate_files: bool,
    reading: ReadingOptions,
    jobs: int | None,
    cluster: str | None,
    update: Progress | None,
    steps: RawSteps | None,
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
            options=reading,
            steps=steps,
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


def _raw_steps(model: Model) -> RawSteps | None:
    """Return a collection for raw values if unknown numbers are to be estimated from them."""
    is_raw = bool(model.checked.unknowns) and model.is_continuous
    return RawSteps(model.checked, model.graph) if is_raw else None


def _estimate(
    model: Model, read: LogCounts, chosen: dict[str, Any], steps: RawTransitions | None
) -> Estimate:
    graph = model.graph
    files = [FileRecord(file.path, file.bytes, file.rows) for file in read.files]
    configuration = RunConfiguration(
        model=model.name,
        hash=graph.hash,
        parameters=dict(model.parameters),
        options=RunOptions(
            graph.n_states == graph.states.product.size,
            model.options.get("max_states"),
            learn=model.options.get("learn"),
        ),
        settings={**chosen, "files": [asdict(file) for file in files]},
        seed=0,
        trials=0,
        versions=current_versions("pyarrow"),
        command="estimate",
    )
    settled = settle(graph, read.counts, read.starts, read.has_stops)
    settled = with_data_starts(model, settled)
    if chosen["support"] == "model" and settled.has_changed:
        raise _undeclared(model, settled)
    sets = settled_sets(settled, chosen["delta"], chosen["sets"], chosen["support"])
    learned = None
    if has_laws(settled.graph) and settled.counts.n_transitions:
        learned = learned_numbers(
            model.checked, settled.graph, settled.counts, chosen["delta"], steps
        )
    known = known_misfit(settled.graph, settled.counts)
    summary = estimate_record(
        model, read, settled, files, chosen, configuration, sets, learned, known
    )
    found = estimate_of(model, configuration, settled, sets, summary, None)
    return replace(found, learned=learned, steps=steps)


def _undeclared(model: Model, settled: Settled) -> SettingsError:
    named = states_text(settled, [*settled.found.tolist(), *settled.mixed.tolist()])
    return SettingsError(
        f"episodes of the log end in states that are no ends of {model.name}: {named}; add "
        "`end when` to the model, or set `support=` to seen or all"
    )
