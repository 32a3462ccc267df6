"""One trial of an explorer against a system or a log; it may be stopped and resumed.

A trial of a built-in explorer is the same trial wherever it was stopped: the loop is a function of
the memory, the state (with the raw values of a continuous system, or the position in a log) and the
two random generators, which are saved together. The memory of a third party's explorer cannot be
saved: if its trial was stopped, it starts again from the beginning, with the same seeds.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

import numpy as np

from mdpdsl.compile.system import RawSystem
from mdpdsl.estimate.metrics import (
    Measures,
    checkpoints,
    mean_squared_error,
    measure,
    measures_record,
)
from mdpdsl.explore.experience import SimulatedGraph, SimulatedSystem, TrialExperience
from mdpdsl.explore.explorer import Explorer
from mdpdsl.explore.plain_loop import PlainExplorer
from mdpdsl.explore.plugins import ExplorerFactory
from mdpdsl.explore.replay.logged import LoggedExperience
from mdpdsl.explore.replay.queues import LogQueues
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.standing import Standing, standing
from mdpdsl.explore.value_bounds import ValueBounds
from mdpdsl.files import write_arrays, write_json
from mdpdsl.graph.complexity import squared_l2_complexity
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.memory import DERIVED, restored
from mdpdsl.programs.threads import in_one_thread
from mdpdsl.runs.directory import EPISODES, STATE
from mdpdsl.simulate.failures import SimulationError

if TYPE_CHECKING:
    from mdpdsl.compile.family import Family

#: Seconds between two checks whether to stop, and between two saves.
LOOK_SECONDS = 0.25
SAVE_SECONDS = 5.0

#: Receives the progress of a trial; returns whether to continue.
Watch = Callable[[Standing], bool]


class _Counted(Protocol):
    """What a trial needs of its explorer, besides its decisions."""

    settings: ExploreSettings

    @property
    def visits(self) -> IntArray: ...

    @property
    def counts(self) -> Counts: ...

    def prepare(self, c: FloatArray | None = None) -> int: ...

    def residual(self) -> float: ...


E = TypeVar("E", bound=_Counted)


@dataclass
class AnyTrial(ABC, Generic[E]):
    """A trial in progress, with an explorer of some kind."""

    explorer: E
    experience: TrialExperience
    done: int = 0
    seconds: float = 0.0
    history: list[Measures] = field(default_factory=list)

    @property
    def state(self) -> int:
        """The state the system is in."""
        return self.experience.state

    @property
    def system_generator(self) -> np.random.Generator:
        """The generator that the system draws from."""
        return self.experience.generator

    @property
    def is_finished(self) -> bool:
        """Whether all steps are done, or no more can be."""
        return self.done == self.explorer.settings.steps or self.experience.has_ended

    @property
    def counts(self) -> Counts:
        """The transitions counted so far."""
        return self.explorer.counts

    @abstractmethod
    def advance(self, n_steps: int) -> int:
        """Do at most n_steps; return the number of steps done."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Save what is needed to resume the trial."""

    @abstractmethod
    def restore(self, folder: Path) -> None:
        """Return to what was saved, if something was."""

    def _record(self) -> dict[str, Any]:
        """Return what is saved of every trial."""
        return {
            "state": self.state,
            "done": self.done,
            "seconds": self.seconds,
            "system_generator": self.system_generator.bit_generator.state,
            "history": [measures_record(measures) for measures in self.history],
        }

    def _take_up(self, record: dict[str, Any], position: dict[str, Any]) -> None:
        """Return to a record, and to a position of the experience."""
        self.system_generator.bit_generator.state = record["system_generator"]
        self.experience.restore(record["state"], position)
        self.done = record["done"]
        self.seconds = record["seconds"]
        self.history = [Measures(**measures) for measures in record["history"]]


@dataclass
class Trial(AnyTrial[Explorer]):
    """A trial of a built-in explorer: compiled into one loop with its experience."""

    def advance(self, n_steps: int) -> int:
        """Do at most n_steps; return the number of steps done."""
        return self.experience.explore(self.explorer, n_steps)

    def save(self, folder: Path) -> None:
        """Save all that the trial is a function of."""
        explorer = self.explorer
        record = self._record() | {
            "explorer_generator": explorer.generator.bit_generator.state,
            "episodes": explorer.episodes.saved() if explorer.episodes is not None else [],
        }
        if explorer.episodes is not None:
            write_json(folder / EPISODES, {"episodes": record["episodes"]})
        memory = explorer.memory._asdict()
        kept = {name: memory[name] for name in memory if name not in DERIVED}
        arrays = kept | self.experience.saved() | {"record": np.array(json.dumps(record))}
        write_arrays(folder / STATE, arrays)

    def restore(self, folder: Path) -> None:
        """Return to what was saved, if something was."""
        path = folder / STATE
        if not path.exists():
            return
        with np.load(path, allow_pickle=False) as saved:
            self.explorer.memory = restored(self.explorer.memory, saved)
            position = {name: saved[name] for name in self.experience.saved()}
            record = json.loads(str(saved["record"]))
        explorer = self.explorer
        explorer.generator.bit_generator.state = record["explorer_generator"]
        self._take_up(record, position)
        if explorer.episodes is not None:
            explorer.strategy = explorer.episodes.restore(record["episodes"], explorer.strategy)


@dataclass
class PlainTrial(AnyTrial[PlainExplorer]):
    """A trial of a third party's explorer, in the plain loop; saved only when it is finished."""

    def advance(self, n_steps: int) -> int:
        """Do at most n_steps, and not much longer than a look; return the number of steps done."""
        return self.explorer.explore(self.experience, n_steps, LOOK_SECONDS)

    def save(self, folder: Path) -> None:
        """Save the counts and measures of a finished trial."""
        if self.is_finished:
            arrays = vars(self.counts) | self.experience.saved()
            write_arrays(folder / STATE, arrays | {"record": np.array(json.dumps(self._record()))})

    def restore(self, folder: Path) -> None:
        """Return to the end of the trial, if it was finished."""
        path = folder / STATE
        if not path.exists():
            return
        with np.load(path, allow_pickle=False) as saved:
            counts = Counts(saved["successor_start"], saved["successor"], saved["count"])
            position = {name: saved[name] for name in self.experience.saved()}
            record = json.loads(str(saved["record"]))
        self.explorer.take_counts(counts)
        self._take_up(record, position)


@overload
def new_trial(
    truth: TransitionGraph,
    settings: ExploreSettings,
    seeds: np.random.SeedSequence,
    system: RawSystem | LogQueues | None = ...,
    warm_start: Counts | None = ...,
    explorer: None = ...,
    family: Family | None = ...,
) -> Trial: ...


@overload
def new_trial(
    truth: TransitionGraph,
    settings: ExploreSettings,
    seeds: np.random.SeedSequence,
    system: RawSystem | LogQueues | None = ...,
    warm_start: Counts | None = ...,
    explorer: ExplorerFactory | None = ...,
    family: Family | None = ...,
) -> Trial | PlainTrial: ...


def new_trial(
    truth: TransitionGraph,
    settings: ExploreSettings,
    seeds: np.random.SeedSequence,
    system: RawSystem | LogQueues | None = None,
    warm_start: Counts | None = None,
    explorer: ExplorerFactory | None = None,
    family: Family | None = None,
) -> Trial | PlainTrial:
    """Start a trial: one generator for the explorer's choices, one for the system's.

    If `system` is a log, `truth` is the log's own graph. With a warm start, the explorer begins
    with its counts. `explorer` makes a third party's explorer, which runs in the plain loop; by
    default it is the built-in one that the settings name. `family` has the rows as functions of the
    unknown numbers, if these are explored for.
    """
    explorer_seed, system_seed = seeds.spawn(2)
    generator = np.random.default_rng(explorer_seed)
    trial: Trial | PlainTrial
    if explorer is None:
        trial = Trial(
            Explorer(truth, settings, generator, family=family),
            _experience(truth, settings, system, np.random.default_rng(system_seed)),
        )
    else:
        trial = PlainTrial(
            PlainExplorer(explorer, truth, settings, generator),
            _experience(truth, settings, system, np.random.default_rng(system_seed)),
        )
    if warm_start is not None:
        trial.explorer.learn_counts(warm_start)
    return trial


def compile_loop(
    truth: TransitionGraph,
    settings: ExploreSettings,
    system: RawSystem | LogQueues | None = None,
    explorer: ExplorerFactory | None = None,
    family: Family | None = None,
) -> None:
    """Compile or load the loop, before trials start to take time."""
    seeds = np.random.SeedSequence(0)
    trial = new_trial(truth, settings, seeds, system, None, explorer, family)
    if isinstance(trial, PlainTrial):
        with suppress(SimulationError):  # the trials will raise it, with the step
            trial.experience.answer(int(truth.pair_action[truth.pair_start[trial.state]]))
        return
    trial.experience.explore(trial.explorer, 0)
    trial.explorer.prepare()
    trial.explorer.residual()
    if trial.explorer.episodes is not None:
        trial.explorer.episodes.rehearse(trial.explorer.memory, trial.explorer.strategy)


@in_one_thread
def continue_trial(
    trial: Trial | PlainTrial,
    truth: TransitionGraph,
    watch: Watch,
    save_to: Path | None,
    bounds: ValueBounds | None = None,
) -> None:
    """Run a trial to its end, or until the watch returns False; measure it at checkpoints."""
    settings, explorer = trial.explorer.settings, trial.explorer
    c = squared_l2_complexity(truth)
    measured = trial.experience.measured
    true_c = None
    if not isinstance(trial.experience, LoggedExperience):
        true_c = np.where(truth.to_learn, c, 0.0)
    pending = [t for t in checkpoints(settings.steps) if t > trial.done]
    chunk = 1_000
    saved_at = time.perf_counter()
    if isinstance(trial, Trial):
        trial.explorer.note_first_start(trial.state)  # before it plans
    while pending and not trial.experience.has_ended:
        begin = time.perf_counter()
        n = min(chunk, pending[0] - trial.done, explorer.prepare(true_c))
        done = trial.advance(n)
        trial.done += done
        elapsed = time.perf_counter() - begin
        trial.seconds += elapsed
        if done == n == chunk and elapsed < LOOK_SECONDS / 2:
            chunk *= 2
        if trial.done == pending[0] or _is_unmeasured_end(trial):
            pending.pop(0)
            visits = explorer.visits
            n = int(visits.sum())
            found = measure(trial.done, visits[measured], c[measured], settings.kappa, n)
            if bounds is not None and (trial.done in bounds.times or trial.is_finished):
                found = bounds.add_to(found, _model_counts(trial))
            trial.history.append(found)
        if not watch(standing(trial.done, trial.history[-1] if trial.history else None)):
            break
        if save_to is not None and time.perf_counter() - saved_at > SAVE_SECONDS:
            trial.save(save_to)
            saved_at = time.perf_counter()
    if save_to is not None:
        trial.save(save_to)


def final_measures(trial: Trial | PlainTrial, truth: TransitionGraph) -> Measures:
    """Return the last measures, with the true error if the truth is known."""
    last = trial.history[-1]
    if isinstance(trial.experience, LoggedExperience):
        return last
    error = mean_squared_error(truth, trial.counts)
    return Measures(**(asdict(last) | {"squared_error": error}))


@overload
def load_trial(
    truth: TransitionGraph,
    settings: ExploreSettings,
    seeds: np.random.SeedSequence,
    folder: Path,
    system: RawSystem | LogQueues | None = ...,
    warm_start: Counts | None = ...,
    explorer: None = ...,
    family: Family | None = ...,
) -> Trial: ...


@overload
def load_trial(
    truth: TransitionGraph,
    settings: ExploreSettings,
    seeds: np.random.SeedSequence,
    folder: Path,
    system: RawSystem | LogQueues | None = ...,
    warm_start: Counts | None = ...,
    explorer: ExplorerFactory | None = ...,
    family: Family | None = ...,
) -> Trial | PlainTrial: ...


def load_trial(
    truth: TransitionGraph,
    settings: ExploreSettings,
    seeds: np.random.SeedSequence,
    folder: Path,
    system: RawSystem | LogQueues | None = None,
    warm_start: Counts | None = None,
    explorer: ExplorerFactory | None = None,
    family: Family | None = None,
) -> Trial | PlainTrial:
    """Resume the trial saved in a folder; start a new one if nothing was saved."""
    trial = new_trial(truth, settings, seeds, system, warm_start, explorer, family)
    trial.restore(folder)
    return trial


def _experience(
    truth: TransitionGraph,
    settings: ExploreSettings,
    system: RawSystem | LogQueues | None,
    generator: np.random.Generator,
) -> TrialExperience:
    if isinstance(system, LogQueues):
        return LoggedExperience(system)
    if settings.simulate == "model":
        return SimulatedGraph(truth, generator)
    if system is None:
        raise ValueError("to simulate the continuous system, give `system=` (`Model.system`)")
    return SimulatedSystem(truth, system, generator)


def _model_counts(trial: Trial | PlainTrial) -> Counts:
    """Return the counts so far over the pairs of the model, not those of a log."""
    experience = trial.experience
    if isinstance(experience, LoggedExperience):
        return experience.log.model_counts(trial.counts)
    return trial.counts


def _is_unmeasured_end(trial: Trial | PlainTrial) -> bool:
    """Return whether a trial has ended since it was last measured."""
    is_measured = bool(trial.history) and trial.history[-1].step == trial.done
    return trial.experience.has_ended and not is_measured
