"""One trial of an explorer against a system or a log; it may stop anywhere and go on later.

Where it stops makes no difference to what it does: the loop is a function of the memory, the state
(with the raw values of a continuous system, or what is taken of a log) and the two random
generators, saved together.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from mdpdsl.compile.system import RawSystem
from mdpdsl.estimate.metrics import Measures, checkpoints, mean_squared_error, measure
from mdpdsl.explore.experience import SimulatedGraph, SimulatedSystem
from mdpdsl.explore.explorer import Explorer, memory_counts
from mdpdsl.explore.replay.logged import LoggedExperience
from mdpdsl.explore.replay.queues import LogQueues
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.standing import Standing, standing
from mdpdsl.files import write_arrays, write_json
from mdpdsl.graph.complexity import squared_l2_complexity
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.memory import Memory
from mdpdsl.programs.threads import in_one_thread

#: Seconds between two looks at whether to stop, and between two savings.
LOOK_SECONDS = 0.25
SAVE_SECONDS = 5.0

#: Told how far a trial is; returns whether to go on.
Watch = Callable[[Standing], bool]


@dataclass
class Trial:
    """A trial on its way."""

    explorer: Explorer
    experience: SimulatedGraph | SimulatedSystem | LoggedExperience
    done: int = 0
    seconds: float = 0.0
    history: list[Measures] = field(default_factory=list)

    @property
    def state(self) -> int:
        """The state the system is in."""
        return self.experience.state

    @property
    def system_generator(self) -> np.random.Generator:
        """What the system draws from."""
        return self.experience.generator

    @property
    def is_finished(self) -> bool:
        """Whether all steps are done, or no more can be."""
        return self.done == self.explorer.settings.steps or self.experience.has_ended

    @property
    def counts(self) -> Counts:
        """The transitions counted so far."""
        return memory_counts(self.explorer.memory)


def new_trial(
    truth: TransitionGraph,
    settings: ExploreSettings,
    seeds: np.random.SeedSequence,
    system: RawSystem | LogQueues | None = None,
    warm_start: Counts | None = None,
) -> Trial:
    """Start a trial: one generator for the explorer's choices, one for the system's.

    With a log for the system, `truth` is the log's own graph. With a warm start, the explorer
    begins with its counts.
    """
    explorer_seed, system_seed = seeds.spawn(2)
    explorer = Explorer(truth, settings, np.random.default_rng(explorer_seed))
    if warm_start is not None:
        explorer.learn_counts(warm_start)
    generator = np.random.default_rng(system_seed)
    if isinstance(system, LogQueues):
        return Trial(explorer, LoggedExperience(system))
    if settings.simulate == "model":
        return Trial(explorer, SimulatedGraph(truth, generator))
    if system is None:
        raise ValueError("to simulate the continuous system, give `system` (`Model.system`)")
    return Trial(explorer, SimulatedSystem(truth, system, generator))


def compile_loop(
    truth: TransitionGraph, settings: ExploreSettings, system: RawSystem | LogQueues | None = None
) -> None:
    """Have the loop compiled, or loaded, before any of its time is taken."""
    trial = new_trial(truth, settings, np.random.SeedSequence(0), system)
    trial.experience.explore(trial.explorer, 0)
    trial.explorer.prepare()
    trial.explorer.residual()
    if trial.explorer.episodes is not None:
        trial.explorer.episodes.rehearse(trial.explorer.memory, trial.explorer.strategy)


@in_one_thread
def continue_trial(
    trial: Trial, truth: TransitionGraph, watch: Watch, save_to: Path | None
) -> None:
    """Run a trial to its end, or until the watch says stop; measure it at its checkpoints."""
    settings, explorer = trial.explorer.settings, trial.explorer
    c = squared_l2_complexity(truth)
    measured = trial.experience.measured
    true_c = None if isinstance(trial.experience, LoggedExperience) else c
    pending = [t for t in checkpoints(settings.steps) if t > trial.done]
    chunk = 1_000
    saved_at = time.perf_counter()
    while pending and not trial.experience.has_ended:
        begin = time.perf_counter()
        n = min(chunk, pending[0] - trial.done, explorer.prepare(true_c))
        done = trial.experience.explore(explorer, n)
        trial.done += done
        elapsed = time.perf_counter() - begin
        trial.seconds += elapsed
        if done == n == chunk and elapsed < LOOK_SECONDS / 2:
            chunk *= 2
        if trial.done == pending[0] or _is_unmeasured_end(trial):
            pending.pop(0)
            visits = explorer.memory.visits[measured]
            trial.history.append(measure(trial.done, visits, c[measured], settings.kappa))
        if not watch(standing(trial.done, trial.history[-1] if trial.history else None)):
            break
        if save_to is not None and time.perf_counter() - saved_at > SAVE_SECONDS:
            save_trial(trial, save_to)
            saved_at = time.perf_counter()
    if save_to is not None:
        save_trial(trial, save_to)


def _is_unmeasured_end(trial: Trial) -> bool:
    """Tell whether a trial has ended since it was measured last."""
    is_measured = bool(trial.history) and trial.history[-1].step == trial.done
    return trial.experience.has_ended and not is_measured


def final_measures(trial: Trial, truth: TransitionGraph) -> Measures:
    """Return the last measures, with the true error where there is a truth."""
    if isinstance(trial.experience, LoggedExperience):
        return trial.history[-1]
    error = mean_squared_error(truth, trial.counts)
    last = trial.history[-1]
    return Measures(**(asdict(last) | {"squared_error": error}))


def save_trial(trial: Trial, folder: Path) -> None:
    """Save all that a trial needs to go on."""
    explorer = trial.explorer
    record = {
        "state": trial.state,
        "done": trial.done,
        "seconds": trial.seconds,
        "explorer_generator": explorer.generator.bit_generator.state,
        "system_generator": trial.system_generator.bit_generator.state,
        "history": [asdict(measures) for measures in trial.history],
        "episodes": explorer.episodes.saved() if explorer.episodes is not None else [],
    }
    if explorer.episodes is not None:
        write_json(folder / "episodes.json", {"episodes": record["episodes"]})
    memory = explorer.memory._asdict()
    del memory["pair_start"], memory["pair_state"]
    arrays = memory | trial.experience.saved() | {"record": np.array(json.dumps(record))}
    write_arrays(folder / "state.npz", arrays)


def load_trial(
    truth: TransitionGraph,
    settings: ExploreSettings,
    seeds: np.random.SeedSequence,
    folder: Path,
    system: RawSystem | LogQueues | None = None,
    warm_start: Counts | None = None,
) -> Trial:
    """Go on from what was saved; start anew where nothing was."""
    trial = new_trial(truth, settings, seeds, system, warm_start)
    path = folder / "state.npz"
    if not path.exists():
        return trial
    with np.load(path, allow_pickle=False) as saved:
        arrays = {name: saved[name] for name in Memory._fields if name in saved}
        position = {name: saved[name] for name in trial.experience.saved()}
        record = json.loads(str(saved["record"]))
    trial.explorer.memory = trial.explorer.memory._replace(**arrays)
    trial.explorer.generator.bit_generator.state = record["explorer_generator"]
    trial.system_generator.bit_generator.state = record["system_generator"]
    trial.experience.restore(record["state"], position)
    trial.done = record["done"]
    trial.seconds = record["seconds"]
    trial.history = [Measures(**measures) for measures in record["history"]]
    explorer = trial.explorer
    if explorer.episodes is not None:
        explorer.strategy = explorer.episodes.restore(record["episodes"], explorer.strategy)
    return trial
