"""Counts that a run starts with, from logs and from earlier runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import LogProblem, MdpdslWarning, RunError
from mdpdsl.graph.counts import Counts, counts_from, merge, no_counts
from mdpdsl.graph.describe import state_text
from mdpdsl.graph.ends import open_counts, settle
from mdpdsl.graph.space import IntArray, Product, Variable
from mdpdsl.graph.transition_graph import StateArray, TransitionGraph
from mdpdsl.logs.count import LogCounts, count_logs
from mdpdsl.logs.reading_options import USUAL, ReadingOptions
from mdpdsl.logs.rejections import DUPLICATE_TIME
from mdpdsl.progress import Progress, shown
from mdpdsl.runs.arrays import read_counts, read_settled
from mdpdsl.runs.directory import COUNTS, LIVE_LOG, WARM_START, RunDirectory, is_run
from mdpdsl.runs.records import RunConfiguration, WarmStartRecord
from mdpdsl.runs.run_models import resumed_model


@dataclass(frozen=True, eq=False)
class WarmStart:
    """The counts that a run starts with, and their sources."""

    counts: Counts  # in open form (`graph.ends`)
    sources: tuple[str, ...]
    rejected: dict[str, int] = field(default_factory=dict)
    problems: tuple[LogProblem, ...] = ()

    def record(self) -> WarmStartRecord:
        """Return the record that a run keeps of it."""
        return WarmStartRecord(
            sources=list(self.sources),
            transitions=self.counts.n_transitions,
            rejected=self.rejected,
            problems=[problem.message for problem in self.problems],
        )


def warm_start_of(
    model: Model,
    given: Sequence[Any] | WarmStart,
    progress: bool | Progress | None = None,
    reading: ReadingOptions = USUAL,
) -> WarmStart | None:
    """Read the counts to start with; warn about what could not be read. None without any source."""
    if isinstance(given, WarmStart):
        return given
    sources = list(given) if isinstance(given, list | tuple) else [given]
    if not sources:
        return None
    with shown(progress, "reading the warm start", "rows") as update:
        show = None if update is None else lambda rows: update(rows, None, "rows")
        found = warm_start(model.checked, model.graph, sources, show, reading)
    assert found is not None
    for problem in found.problems:
        hint = f" ({problem.help})" if problem.help else ""
        warnings.warn(f"{problem.message}{hint}", MdpdslWarning, stacklevel=3)
    for reason, number in found.rejected.items():
        message = f"rejected in the warm start, {reason}: {number:,}"
        warnings.warn(message, MdpdslWarning, stacklevel=3)
    return found


def warm_start(
    model: CheckedModel,
    graph: TransitionGraph,
    sources: Sequence[Any],
    progress: Callable[[int], None] | None = None,
    reading: ReadingOptions = USUAL,
) -> WarmStart | None:
    """Add up the counts of logs (files, folders, patterns) and of runs; None without any.

    Raise LogError or RunError if there is nothing to count.
    """
    if not sources:
        return None
    runs = list(dict.fromkeys(Path(s).resolve() for s in sources if _is_run(s)))
    logs = [source for source in sources if not _is_run(source)]
    counts = no_counts(graph.n_pairs)
    rejected: dict[str, int] = {}
    problems: tuple[LogProblem, ...] = ()
    for run in runs:
        counts = merge(counts, _run_counts(run, graph))
    if logs:
        read = _read(model, graph, logs, progress, reading)
        counts = merge(counts, read.counts)
        rejected, problems = dict(read.rejected.counts), read.problems
    if counts.n_transitions == 0:
        reasons = ", ".join(f"{reason}: {n:,}" for reason, n in rejected.items())
        why = f" (rejected: {reasons})" if reasons else ""
        raise RunError(f"the warm start has no transition of {model.name}{why}")
    counts = _without_declared_ends(counts, graph)
    return WarmStart(counts, tuple(map(_source_name, sources)), rejected, problems)


def require_no_new_ends(start: WarmStart | None, model: Model) -> None:
    """Raise RunError if a warm start shows ends that a model to simulate does not declare."""
    graph = model.graph
    if start is None or not np.any(start.counts.successor >= graph.n_states):
        return
    state = int(start.counts.successor.max()) - graph.n_states
    raise RunError(
        f"the warm start has episodes that end in {state_text(graph, state)}, where {model.name} "
        "has no end; add `end when` to the model"
    )


def _without_declared_ends(counts: Counts, graph: TransitionGraph) -> Counts:
    """Return open counts in which only ends that the model does not declare are apart."""
    settled = settle(graph, counts, np.zeros(graph.n_states, np.int64))
    return counts if settled.has_changed else settled.counts


def _is_run(source: Any) -> bool:
    return isinstance(source, str | Path) and is_run(Path(source))


def _source_name(source: Any) -> str:
    return str(source) if isinstance(source, str | Path) else f"a {type(source).__name__}"


def load_warm_start(
    configuration: RunConfiguration, folder: Path, graph: TransitionGraph
) -> Counts | None:
    """Return the counts that a run started with; None if it had no warm start."""
    if configuration.warm_start is None:
        return None
    return _load(folder / WARM_START, graph.n_pairs, 2 * graph.n_states)


def _read(
    model: CheckedModel,
    graph: TransitionGraph,
    logs: Sequence[Any],
    progress: Callable[[int], None] | None,
    reading: ReadingOptions,
) -> LogCounts:
    """Count logs; if files number their episodes alike, treat them as different episodes.

    Logs of several runs do so: read as one log, two rows would have the same episode and time.
    """
    read = count_logs(model, graph, logs, progress=progress, options=reading)
    if len(read.files) > 1 and DUPLICATE_TIME in read.rejected.counts:
        apart = count_logs(
            model, graph, logs, are_files_separate=True, progress=progress, options=reading
        )
        if apart.counts.n_transitions > read.counts.n_transitions:
            return apart
    return read


def _run_counts(path: Path, graph: TransitionGraph) -> Counts:
    """Return the counts of all trials of a run, over the pairs of a graph."""
    run, configuration = RunDirectory.open(path)
    files = [folder / COUNTS for folder in run.array_folders(configuration)]
    missing = [file for file in files if not file.exists()]
    if missing:
        hint = f"finish it with `mdpdsl explore --resume {path}`"
        if (path / LIVE_LOG).exists():
            hint += f", or use its log, {path / LIVE_LOG}"
        raise RunError(f"{path} has no counts yet; {hint}")
    if configuration.hash == graph.hash:
        return _sum([_load_settled(file, graph) for file in files])
    spaces = resumed_model(run, configuration).graph
    if spaces.hash != configuration.hash:
        raise RunError(f"{path}: its model now builds to another hash than when the run was made")
    counts = _sum([_load_settled(file, spaces) for file in files])
    return _translated(counts, spaces, graph, path)


def _translated(
    counts: Counts, spaces: TransitionGraph, graph: TransitionGraph, path: Path
) -> Counts:
    """Return the counts of one graph over the pairs of another with the same variables."""
    ours = (graph.states.product, graph.actions.product)
    theirs = (spaces.states.product, spaces.actions.product)
    for one, other in zip(ours, theirs, strict=True):
        if not _are_alike(one, other):
            raise RunError(
                f"{path} is a run with other variables: {_text(other)}; the model has {_text(one)}"
            )
    state_of = graph.states.indices(spaces.states.codes)
    seen = np.flatnonzero(counts.visits > 0)
    pair_of = np.full(spaces.n_pairs, -1)
    pair_of[seen] = _pairs(graph, state_of[spaces.pair_state[seen]], spaces.pair_action[seen])
    pairs = pair_of[np.repeat(np.arange(spaces.n_pairs), np.diff(counts.successor_start))]
    is_end = counts.successor >= spaces.n_states
    successors = state_of[counts.successor % spaces.n_states]
    successors = np.where((successors >= 0) & is_end, successors + graph.n_states, successors)
    n_lost = int(counts.count[(pairs < 0) | (successors < 0)].sum())
    if n_lost:
        raise RunError(
            f"{path} has {n_lost:,} transitions of states or actions that the model does not have; "
            "`all_states=` also keeps the states that cannot be reached"
        )
    return counts_from(pairs, successors, counts.count, graph.n_pairs)


def _pairs(graph: TransitionGraph, states: IntArray, actions: StateArray) -> IntArray:
    """Return the pair of each state and action, -1 if there is none."""
    codes = graph.pair_state.astype(np.int64) * graph.n_actions + graph.pair_action
    wanted = states.astype(np.int64) * graph.n_actions + actions
    place = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
    return np.where((codes[place] == wanted) & (states >= 0), place, -1)


def _are_alike(one: Product, other: Product) -> bool:
    pairs = zip(one.variables, other.variables, strict=False)
    return len(one.variables) == len(other.variables) and all(_is_same(a, b) for a, b in pairs)


def _is_same(one: Variable, other: Variable) -> bool:
    names = ("name", "kind", "size", "low", "members", "wraps")
    return all(getattr(one, name) == getattr(other, name) for name in names) and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("numbers", "edges")
    )


def _text(product: Product) -> str:
    return "; ".join(variable.describe() for variable in product.variables)


def _sum(parts: Sequence[Counts]) -> Counts:
    total = parts[0]
    for part in parts[1:]:
        total = merge(total, part)
    return total


def _load_settled(path: Path, spaces: TransitionGraph) -> Counts:
    """Return the counts of a run in open form."""
    try:
        found = read_settled(path, spaces)
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read the counts of the warm start: {error}") from None
    return open_counts(found.counts, spaces, found.found.tolist(), found.mixed.tolist())


def _load(path: Path, n_pairs: int, n_states: int) -> Counts:
    try:
        return read_counts(path, n_pairs, n_states)
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read the counts of the warm start: {error}") from None
