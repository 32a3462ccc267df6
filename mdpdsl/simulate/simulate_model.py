"""The verb `simulate`: a trajectory of a model under a policy, as a log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdpdsl.compile.model import Model, as_model
from mdpdsl.compile.stored import StoredModel, stored_keys
from mdpdsl.compile.system import RawSystem
from mdpdsl.compile.truth import require_truth
from mdpdsl.diagnostics import LogError, SettingsError
from mdpdsl.files import require_absent
from mdpdsl.formats.policy_files import load_policy
from mdpdsl.graph.policy import Policy
from mdpdsl.graph.tables import Tabular
from mdpdsl.progress import Interrupts, Progress, heeding_interrupts, shown
from mdpdsl.representation import represented
from mdpdsl.simulate.columns import ColumnNames, LogColumns, column_names
from mdpdsl.simulate.log import check_log_path, write_log
from mdpdsl.simulate.trajectory import Chunk, Schedule, draw_trajectory
from mdpdsl.versions import current_versions

if TYPE_CHECKING:
    import pyarrow as pa

    from mdpdsl.compile.model import Estimating

RANDOM = "random"
SIMULATIONS = ("model", "continuous")
#: More steps than anyone can wait for, but still a number that 64 bits can count.
MOST_STEPS = 10**15


@dataclass(frozen=True, eq=False)
class Log(Tabular):
    """A trajectory as a log: one row for each state, with the action taken there.

    The last row of an episode has the state that was reached, and no action. The columns have the
    names that the model's own `log` block reads.
    """

    model: Model
    policy: str  # random, or the name of a policy
    simulate: str  # model, or continuous
    schedule: Schedule
    seed: int
    names: ColumnNames
    seconds: float
    rows: pa.Table | None  # None if they are in a file
    path: Path | None
    episodes: int

    @property
    def steps(self) -> int:
        """The number of steps."""
        return self.schedule.n_steps

    @property
    def note(self) -> str | None:
        """Why the columns do not follow the model's `log` block; None if they do."""
        return self.names.note

    def table(self) -> pa.Table:
        """Return the rows; from the file if they were written to one."""
        if self.rows is not None:
            return self.rows
        assert self.path is not None
        if self.path.suffix == ".parquet":
            import pyarrow.parquet as pq

            return pq.read_table(self.path)
        if ".csv" in self.path.suffixes:
            import pyarrow.csv as pa_csv

            return pa_csv.read_csv(self.path)
        import pyarrow.json as pa_json

        return pa_json.read_json(self.path)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the log: .parquet, .csv, .csv.gz, .jsonl or .jsonl.gz."""
        path = Path(path)
        require_absent(path, overwrite)
        _write(self.model, self, path, None, Interrupts(), self._policy)
        return path

    #: The policy itself, to draw the same trajectory again.
    _policy: Policy | None = None

    def record(self) -> dict[str, Any]:
        """Return what was simulated as `--json` prints it."""
        schedule, names = self.schedule, self.names
        return self.origin() | {
            "policy": self.policy,
            "episodes": self.episodes,
            "rows": self.steps if names.next_variables else self.steps + self.episodes,
            "columns": list(names.all),
            "note": names.note,
            "seconds": self.seconds,
            "steps_per_second": schedule.n_steps / self.seconds,
            "path": None if self.path is None else str(self.path),
            **stored_keys(self.model),
        }

    def origin(self) -> dict[str, Any]:
        """Return everything that determines the rows; a Parquet file keeps it."""
        return {
            "model": self.model.name,
            "hash": self.model.graph.hash,
            "parameters": dict(self.model.parameters),
            "seed": self.seed,
            "policy": Path(self.policy).name,
            "simulate": self.simulate,
            "steps": self.schedule.n_steps,
            "episode_length": self.schedule.episode_length,
            **({} if self.model.graph.ends is not None else {"episodes": self.episodes}),
            "versions": current_versions(),
        }

    def __repr__(self) -> str:
        episodes = f"{self.episodes:,} episode{'s' if self.episodes > 1 else ''}"
        return f"<Log of {self.model.name}: {self.steps:,} steps in {episodes}>"

    def _repr_html_(self) -> str | None:
        return represented("log_html", self)


def simulate(
    model: Model | Estimating,
    *,
    steps: int = 10_000,
    policy: str | Path | Policy | None = None,
    episode_length: int | None = None,
    simulate: str = "model",
    seed: int = 0,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: bool | Progress | None = None,
) -> Log:
    """Simulate a model and return its trajectory as a log.

    `policy` is the policy of a solution or an allocation, a file with one, or None for random
    actions. With `episode_length`, the trajectory starts again from `init` after that many steps.
    `simulate` is `model`, or `continuous` for the continuous system that the model discretizes.
    With `out`, the rows are written to that file, which must be new unless you `overwrite` it, and
    not kept in memory.

    >>> import mdpdsl
    >>> log = mdpdsl.simulate(mdpdsl.load("riverswim"), steps=1_000, seed=1)
    >>> log.table().column_names
    ['episode', 'time', 'pos', 'action']
    """
    for name, number in (("steps", steps), ("episode_length", episode_length)):
        if number is not None and not 1 <= number <= MOST_STEPS:
            raise SettingsError(f"`{name}=` takes a number from 1 to 1e15, not {number:,}")
    if out is not None:
        check_log_path(Path(out))
        require_absent(Path(out), overwrite)
    simulated = as_model(model)
    if not simulated.graph.has_dynamics:
        raise SettingsError(
            f"{simulated.name} does not say how it moves, so there is nothing to simulate; add "
            "`on … ->` lines or equations"
        )
    require_truth(simulated, "simulate", "estimate it from data")
    simulated_system(simulated, simulate)
    chosen, name = _policy(simulated, policy)
    schedule = Schedule(steps, episode_length)
    has_ends = simulated.graph.ends is not None
    names = column_names(simulated.checked, schedule.n_episodes, has_ends)
    log = Log(
        simulated,
        name,
        simulate,
        schedule,
        seed,
        names,
        0.0,
        None,
        None,
        schedule.n_episodes,
        chosen,
    )
    began = time.perf_counter()
    with shown(progress, "simulating") as update, heeding_interrupts() as interrupts:
        if out is not None:
            episodes = _write(simulated, log, Path(out), update, interrupts, chosen)
            rows = None
        else:
            rows, episodes = _in_memory(simulated, log, update, interrupts, chosen)
    seconds = time.perf_counter() - began
    path = None if out is None else Path(out)
    return replace(log, seconds=seconds, rows=rows, path=path, episodes=episodes)


def simulated_system(model: Model, simulate: str) -> RawSystem | None:
    """Return the continuous system to simulate; None for the finite model. Raise SettingsError."""
    if simulate not in SIMULATIONS:
        raise SettingsError(f"`simulate=` takes {' or '.join(SIMULATIONS)}, not `{simulate}`")
    if simulate == "model":
        return None
    if isinstance(model, StoredModel):
        raise SettingsError(
            f"{model.provenance.path} has a graph, but no continuous system to simulate; leave "
            "out `simulate=` continuous, or give the model file"
        )
    if not model.is_continuous:
        raise SettingsError(
            f"{model.name} has no continuous variables to simulate; leave out `simulate=` "
            "continuous, or declare a state in an interval, as in `state x in [0, 1] bins 10`"
        )
    return model.system


def _policy(model: Model, given: str | Path | Policy | None) -> tuple[Policy | None, str]:
    """Return a policy and its name; None is the random one."""
    if given is None or given == RANDOM:
        return None, RANDOM
    if isinstance(given, Policy):
        if len(given.probability) != model.graph.n_pairs:
            raise SettingsError(
                f"the policy is for {len(given.probability):,} pairs; {model.name} has "
                f"{model.graph.n_pairs:,}"
            )
        return given, given.model
    return load_policy(Path(given), model.graph), str(given)


def _chunks(model: Model, log: Log, policy: Policy | None) -> Iterator[Chunk]:
    return draw_trajectory(
        model.graph,
        log.schedule,
        np.random.default_rng(log.seed),
        policy=None if policy is None else policy.probability,
        system=simulated_system(model, log.simulate),
    )


def _write(
    model: Model,
    log: Log,
    path: Path,
    update: Progress | None,
    interrupts: Interrupts,
    policy: Policy | None,
) -> int:
    """Write a log; return its number of episodes."""
    n_steps, done, episodes = log.schedule.n_steps, 0, 0

    def progress(chunk: Chunk) -> None:
        nonlocal done, episodes
        done, episodes = chunk.steps_done, chunk.episodes_done
        if update is not None:
            update(done, n_steps, "")
        if interrupts.is_interrupted:
            raise KeyboardInterrupt

    is_raw = log.simulate == "continuous"
    chunks = _chunks(model, log, policy)
    try:
        write_log(
            chunks, model.graph, log.names, path, log.origin(), is_raw=is_raw, progress=progress
        )
    except KeyboardInterrupt:
        raise StoppedError(
            f"stopped after {done:,} of {n_steps:,} steps; nothing was written"
        ) from None
    return episodes


def _in_memory(
    model: Model,
    log: Log,
    update: Progress | None,
    interrupts: Interrupts,
    policy: Policy | None,
) -> tuple[pa.Table, int]:
    """Return the rows, and the number of episodes."""
    import pyarrow as pa

    episodes = 0
    columns = LogColumns(model.graph, log.names, is_raw=log.simulate == "continuous")
    batches = []
    for chunk in _chunks(model, log, policy):
        batches.append(columns.batch(chunk))
        episodes = chunk.episodes_done
        if update is not None:
            update(chunk.steps_done, log.schedule.n_steps, "")
        if interrupts.is_interrupted:
            raise KeyboardInterrupt
    return pa.Table.from_batches(batches, schema=columns.schema), episodes


class StoppedError(LogError):
    """A simulation was stopped by Ctrl-C."""

    status = 1
