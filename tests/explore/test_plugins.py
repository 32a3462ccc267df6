"""Explorers of third parties: found, made and run, on every kind of experience."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import EntryPoint
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdpdsl
from mdpdsl.diagnostics import RunError, SettingsError
from mdpdsl.estimate.metrics import checkpoints
from mdpdsl.explore import executor, plugins
from mdpdsl.explore.algorithms import strategy_for, third_party_explorer
from mdpdsl.explore.executor import run_trials, trial_seeds
from mdpdsl.explore.experience import Experience, Outcome, SimulatedGraph
from mdpdsl.explore.explorer import Explorer
from mdpdsl.explore.plain_loop import PlainExplorer
from mdpdsl.explore.plugins import ExplorerError, explorer_name, make_explorer
from mdpdsl.explore.replay.logged import LoggedExperience
from mdpdsl.explore.replay.queues import LogQueues, log_queues
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.standing import Standing
from mdpdsl.explore.summary import summarize
from mdpdsl.explore.trial import PlainTrial, continue_trial, load_trial, new_trial
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.logs.order import TransitionOrder
from mdpdsl.simulate.failures import SimulationError
from mdpdsl.simulate.trajectory import Schedule, draw_trajectory
from tests.explore.experiments import simulated
from tests.logs.plain_logs import add_steps

SETTINGS = ExploreSettings(algorithm="LeastTried", steps=2_000, kappa=2)


class LeastTried:
    """Takes the action tried least in the present state."""

    def __init__(self, spaces: TransitionGraph) -> None:
        self.spaces = spaces
        self.visits = np.zeros(spaces.n_pairs, np.int64)

    def act(self, state: int) -> int:
        first, end = self.spaces.pair_start[state : state + 2]
        return int(self.spaces.pair_action[first + self.visits[first:end].argmin()])

    def observe(self, state: int, action: int, next_state: int) -> None:
        self.visits[self.spaces.pair(state, action)] += 1


class Wanderer(LeastTried):
    """Takes any action, by the generator of its trial."""

    def __init__(self, spaces: TransitionGraph, generator: np.random.Generator) -> None:
        super().__init__(spaces)
        self.generator = generator

    def act(self, state: int) -> int:
        first, end = self.spaces.pair_start[state : state + 2]
        return int(self.spaces.pair_action[self.generator.integers(first, end)])


class Scribe(LeastTried):
    """Writes down all that it observes."""

    def __init__(self, spaces: TransitionGraph) -> None:
        super().__init__(spaces)
        self.seen: list[tuple[int, int, Outcome]] = []

    def observe(
        self, state: int, action: int, next_state: int, ended: bool = False, cut: bool = False
    ) -> None:
        super().observe(state, action, next_state)
        self.seen.append((state, action, Outcome(next_state, ended, cut)))


def hosted_kappa_dp(spaces: TransitionGraph, generator: np.random.Generator) -> Explorer:
    return Explorer(spaces, ExploreSettings(steps=2_000, kappa=2), generator)


def random_walks(seed: int, n_episodes: int = 300) -> LogQueues:
    """Return a log of episodes on a line, each of which ends at 3."""
    spaces = mdpdsl.loads("mdp spaces\nstate x in 0..3\naction a, b\n").graph
    draw, order, codes = np.random.default_rng(seed), TransitionOrder(spaces), []
    for _ in range(n_episodes):
        state = int(draw.integers(0, 3))
        while state != 3:
            action = int(draw.integers(2))
            following = int(np.clip(state + draw.choice([-1, 1]), 0, 3))
            codes.append(spaces.pair(state, action) * spaces.n_states + following)
            state = following
    add_steps(order, spaces, np.array(codes, np.int64))
    return log_queues(spaces, order.transitions())


def run_one(graph: TransitionGraph, explorer: Any, **options: Any) -> executor.TrialResult:
    (result,) = run_trials(graph, SETTINGS, seed=0, trials=1, jobs=1, explorer=explorer, **options)
    return result


def test_the_plain_loop_counts_what_the_explorer_observed() -> None:
    graph = mdpdsl.load("riverswim").graph
    made: list[LeastTried] = []

    def factory(spaces: TransitionGraph) -> LeastTried:
        made.append(LeastTried(spaces))
        return made[-1]

    result = run_one(graph, factory)
    assert result.is_finished
    assert np.array_equal(result.counts.visits, made[-1].visits)
    assert [m.step for m in result.history] == checkpoints(SETTINGS.steps)
    assert result.measures is not None
    assert result.measures.worst is not None
    assert result.measures.squared_error is not None
    assert result.residual == 0


def test_a_built_in_explorer_makes_the_same_visits_in_the_plain_loop() -> None:
    graph = mdpdsl.load("riverswim").graph
    plain = run_one(graph, hosted_kappa_dp)
    (fused,) = run_trials(graph, ExploreSettings(steps=2_000, kappa=2), seed=0, trials=1, jobs=1)
    assert plain.counts.count.tobytes() == fused.counts.count.tobytes()
    assert plain.history == fused.history


def test_a_continuous_system_is_explored_through_its_bins() -> None:
    model = mdpdsl.load("pendulum")
    settings = ExploreSettings(steps=1_500, simulate="continuous", algorithm="random")
    (result,) = run_trials(
        model.graph, settings, seed=0, trials=1, jobs=1, system=model.system, explorer=Wanderer
    )
    assert result.counts.n_transitions == 1_500
    trial = new_trial(model.graph, settings, trial_seeds(0, 0), model.system, None, Wanderer)
    continue_trial(trial, model.graph, lambda _: True, None)
    assert trial.counts.count.tobytes() == result.counts.count.tobytes()


def test_a_failing_system_names_the_step() -> None:
    model = mdpdsl.loads(
        "mdp m\nstate x in [0, 1] bins 2\naction go\ninit x = 0.1\ndiscretize center\n"
        "let slope = 1/(x - 0.4)\nx' = 0.4 + 0*slope\n"
    )
    settings = ExploreSettings(steps=10, simulate="continuous")
    with pytest.raises(SimulationError, match="trial 0: step 2: x' has no value"):
        run_trials(
            model.graph, settings, seed=0, trials=1, system=model.system, explorer=LeastTried
        )


def test_a_log_answers_until_a_queue_is_empty_and_says_where_episodes_end() -> None:
    log = random_walks(seed=1)
    made: list[Scribe] = []

    def factory(spaces: TransitionGraph) -> Scribe:
        made.append(Scribe(spaces))
        return made[-1]

    settings = ExploreSettings(steps=log.n_transitions)
    (result,) = run_trials(
        log.graph, settings, seed=0, trials=1, jobs=1, system=log, explorer=factory
    )
    end, seen = result.replay, made[-1].seen
    assert end is not None
    assert end.text.startswith("no more transitions of ")
    assert end.steps == len(seen) == result.counts.n_transitions == result.history[-1].step
    assert end.restarts == sum(outcome.cut for _, _, outcome in seen) > 20
    for (_, _, before), (state, _, _) in pairwise(seen):
        is_end = log.graph.states.native(before.next_state) == {"x": 3}
        assert before.cut == is_end
        assert state != before.next_state if is_end else state == before.next_state


def test_the_whole_of_a_log_can_be_used() -> None:
    graph = mdpdsl.load("riverswim").graph
    (rows,) = draw_trajectory(graph, Schedule(300), np.random.default_rng(0))
    order = TransitionOrder(graph)
    add_steps(order, graph, rows.pair[:-1] * graph.n_states + rows.state[1:])
    log = log_queues(graph, order.transitions())
    chosen = iter(rows.pair.tolist())

    class Repeater(LeastTried):
        def act(self, state: int) -> int:
            return int(graph.pair_action[next(chosen)])

    settings = ExploreSettings(steps=log.n_transitions)
    trial = new_trial(log.graph, settings, trial_seeds(0, 0), log, None, Repeater)
    continue_trial(trial, log.graph, lambda _: True, None)
    assert trial.is_finished
    assert trial.done == log.n_transitions
    assert isinstance(trial.experience, LoggedExperience)
    end = trial.experience.end(trial.counts)
    assert end.text == "every transition of the log was used"
    assert end.distance == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("explorer", [Wanderer, lambda spaces, rng: Wanderer(spaces, rng)])
def test_the_number_of_processes_does_not_change_a_bit(explorer: Any) -> None:
    graph = mdpdsl.load("riverswim").graph
    one, two = (
        run_trials(graph, SETTINGS, seed=7, trials=4, jobs=jobs, explorer=explorer)
        for jobs in (1, 2)
    )
    for first, second in zip(one, two, strict=True):
        assert first.counts.count.tobytes() == second.counts.count.tobytes()
        assert first.measures == second.measures
    assert one[0].counts.count.tobytes() != one[1].counts.count.tobytes()


def test_another_executor_gives_the_same_trials() -> None:
    graph = mdpdsl.load("riverswim").graph
    here = run_trials(graph, SETTINGS, seed=7, trials=2, jobs=1, explorer=Wanderer)
    with ThreadPoolExecutor(1) as pool:
        there = run_trials(graph, SETTINGS, seed=7, trials=2, executor=pool, explorer=Wanderer)
    for one, other in zip(here, there, strict=True):
        assert one.counts.count.tobytes() == other.counts.count.tobytes()
        assert one.measures == other.measures


def test_without_fork_an_explorer_that_cannot_be_pickled_runs_in_this_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = mdpdsl.load("riverswim").graph
    monkeypatch.setattr(executor, "process_context", lambda: get_context("spawn"))
    pids = []

    def local(spaces: TransitionGraph) -> LeastTried:
        pids.append(os.getpid())
        return LeastTried(spaces)

    with pytest.warns(UserWarning, match="`local` run one after the other"):
        run_trials(graph, SETTINGS, seed=0, trials=2, jobs=2, explorer=local)
    assert set(pids) == {os.getpid()}
    assert executor._can_leave(LeastTried)


def test_a_stopped_trial_starts_again_and_a_finished_one_is_kept(tmp_path: Path) -> None:
    graph = mdpdsl.load("riverswim").graph
    whole = run_one(graph, Wanderer)
    stopped = load_trial(graph, SETTINGS, trial_seeds(0, 0), tmp_path, explorer=Wanderer)
    continue_trial(stopped, graph, lambda s: s.steps < 500, tmp_path)
    assert not stopped.is_finished
    again = load_trial(graph, SETTINGS, trial_seeds(0, 0), tmp_path, explorer=Wanderer)
    assert again.done == 0
    continue_trial(again, graph, lambda _: True, tmp_path)
    assert again.counts.count.tobytes() == whole.counts.count.tobytes()
    assert again.history == list(whole.history)
    kept = run_one(graph, Wanderer, folder_of=lambda _: tmp_path)
    assert kept.is_finished
    assert kept.history == whole.history
    assert kept.measures == whole.measures
    assert kept.counts.count.tobytes() == whole.counts.count.tobytes()


def test_a_finished_replay_is_kept(tmp_path: Path) -> None:
    log = random_walks(seed=2)
    ends = [
        run_one(log.graph, Wanderer, system=log, folder_of=lambda _: tmp_path).replay
        for _ in range(2)
    ]
    assert ends[0] is not None
    assert ends[0] == ends[1]


def test_a_warm_start_is_observed_first_and_counted() -> None:
    graph = mdpdsl.load("riverswim").graph
    before = simulated(graph, 400)
    trial = new_trial(graph, SETTINGS, trial_seeds(0, 0), None, before, Scribe)
    assert isinstance(trial, PlainTrial)
    scribe = trial.explorer.explorer
    assert isinstance(scribe, Scribe)
    assert len(scribe.seen) == 400
    assert np.array_equal(scribe.visits, before.visits)
    continue_trial(trial, graph, lambda _: True, None)
    assert trial.history[-1].transitions == 2_400
    assert trial.counts.n_transitions == 2_400
    assert np.array_equal(trial.counts.visits, scribe.visits)


def test_a_slow_explorer_can_be_stopped_between_its_steps() -> None:
    graph = mdpdsl.load("riverswim").graph
    looks: list[Standing] = []

    class Slow(LeastTried):
        def act(self, state: int) -> int:
            threading.Event().wait(0.05)
            return super().act(state)

    trial = new_trial(graph, SETTINGS, trial_seeds(0, 0), None, None, Slow)

    def watch(found: Standing) -> bool:
        looks.append(found)
        return len(looks) < 6

    continue_trial(trial, graph, watch, None)
    assert 0 < trial.done < 40


def test_an_interrupt_stops_where_the_trial_is() -> None:
    graph = mdpdsl.load("riverswim").graph

    class Interrupting(LeastTried):
        def observe(self, state: int, action: int, next_state: int) -> None:
            super().observe(state, action, next_state)
            if self.visits.sum() == 700:
                os.kill(os.getpid(), signal.SIGINT)

    settings = ExploreSettings(steps=10_000_000)
    results = run_trials(graph, settings, seed=0, trials=2, jobs=1, explorer=Interrupting)
    assert len(results) == 1
    assert not results[0].is_finished
    assert 700 <= results[0].counts.n_transitions < 10_000_000


def test_trials_can_run_in_another_thread() -> None:
    graph = mdpdsl.load("riverswim").graph
    results: list[executor.TrialResult] = []
    thread = threading.Thread(target=lambda: results.append(run_one(graph, LeastTried)))
    thread.start()
    thread.join()
    assert results[0].is_finished


def test_progress_is_reported() -> None:
    graph = mdpdsl.load("riverswim").graph
    found: list[list[Standing]] = []
    settings = ExploreSettings(steps=60_000)
    run_trials(
        graph,
        settings,
        seed=0,
        trials=2,
        jobs=1,
        explorer=LeastTried,
        progress=lambda done: found.append(list(done)),
    )
    assert any(0 < done[0].steps < 60_000 for done in found)


def test_an_explorer_never_sees_the_truth() -> None:
    graph = mdpdsl.load("riverswim").graph
    seen: list[TransitionGraph] = []

    class Curious(LeastTried):
        def __init__(self, spaces: TransitionGraph) -> None:
            super().__init__(spaces)
            seen.append(spaces)

    run_one(graph, Curious)
    assert not seen[0].has_dynamics
    assert seen[0].reward is None
    assert np.array_equal(seen[0].pair_action, graph.pair_action)


class Bare:
    """Needs nothing to be made."""

    def act(self, state: int) -> int:
        return 0

    def observe(self, *_: Any) -> None:
        pass


class Tuned(LeastTried):
    """Has a setting of its own, which is no generator."""

    def __init__(self, spaces: TransitionGraph, optimism: float = 1.0) -> None:
        super().__init__(spaces)
        self.optimism = optimism


class Seeded(LeastTried):
    """Has an optional generator."""

    def __init__(
        self, spaces: TransitionGraph, generator: np.random.Generator | None = None
    ) -> None:
        super().__init__(spaces)
        assert generator is not None


class Demanding(LeastTried):
    """Has a setting without a default."""

    def __init__(self, spaces: TransitionGraph, *, patience: int) -> None:
        super().__init__(spaces)
        self.patience = patience


def test_explorers_are_made_with_what_they_require() -> None:
    graph = mdpdsl.load("riverswim").graph
    for factory in (Bare, Tuned, Seeded, Wanderer, partial(Demanding, patience=3), lambda: Bare()):
        run_one(graph, factory)
    tuned = make_explorer(Tuned, graph, np.random.default_rng(0))
    assert isinstance(tuned, Tuned)
    assert tuned.optimism == 1.0
    with pytest.raises(SettingsError, match=r"also requires patience; set it with `functools"):
        make_explorer(Demanding, graph, np.random.default_rng(0))


def test_names_are_those_of_classes_and_functions() -> None:
    assert explorer_name(LeastTried) == "LeastTried"
    assert explorer_name(hosted_kappa_dp) == "hosted_kappa_dp"
    assert explorer_name(partial(Demanding, patience=3)) == "Demanding"
    results = run_trials(
        mdpdsl.load("riverswim").graph, SETTINGS, seed=0, trials=2, jobs=1, explorer=LeastTried
    )
    assert summarize(SETTINGS, results).label == "LeastTried"


class Mute:
    """Cannot observe."""

    def act(self, state: int) -> int:
        return 0


class Idle:
    """Cannot act."""

    def observe(self, state: int, action: int, next_state: int) -> None:
        pass


@pytest.mark.parametrize(
    ("explorer", "message"),
    [
        (Mute, r"`Mute` has no method `observe`; write `observe\(state, action, next_state"),
        (Idle, r"`Idle` has no method `act`; write `act\(state\) -> action`"),
        (lambda: 7, "has no method `act`"),
        (Bare(), "`Bare` object given as an explorer; give the class"),
        (7, "`int` object given as an explorer"),
    ],
)
def test_what_is_no_explorer_is_refused_before_the_run(explorer: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        run_one(mdpdsl.load("riverswim").graph, explorer)


def chooses(action: object) -> Callable[[], Bare]:
    class Stubborn(Bare):
        def act(self, state: int) -> int:
            return action  # type: ignore[return-value]

    return Stubborn


@pytest.mark.parametrize("action", [2, -1, None, "left", 0.0, 10**30])
def test_an_action_that_is_not_available_is_refused(action: object) -> None:
    with pytest.raises(ExplorerError) as found:
        run_one(mdpdsl.load("riverswim").graph, chooses(action))
    assert f"trial 0: `Stubborn.act` returned {action!r} in state " in str(found.value)
    assert "(pos = " in str(found.value)
    assert str(found.value).endswith("is not one of its actions: 0 (left), 1 (right)")
    assert isinstance(found.value, RunError)


class Broken(Bare):
    """Fails in its third step."""

    def __init__(self) -> None:
        self.n = 0

    def observe(self, *_: Any) -> None:
        self.n += 1
        if self.n == 3:
            raise KeyError("lost")


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_explorer_that_fails_names_the_step_and_the_reason(jobs: int) -> None:
    graph = mdpdsl.load("riverswim").graph
    with pytest.raises(ExplorerError, match=r"`Broken.observe` failed in step 3: KeyError: 'lost'"):
        run_trials(graph, SETTINGS, seed=0, trials=3, jobs=jobs, explorer=Broken)


def installed(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    points = [EntryPoint(name, value, plugins.EXPLORERS) for name, value in values.items()]
    monkeypatch.setattr(
        plugins, "entry_points", lambda group: points if group == plugins.EXPLORERS else []
    )


def test_an_installed_explorer_is_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, wanderer=f"{__name__}:Wanderer", lost="no_such_module:Explorer")
    graph = mdpdsl.load("riverswim").graph
    settings = ExploreSettings(algorithm="wanderer", steps=500)
    found = run_trials(graph, settings, seed=0, trials=2, jobs=2)
    given = run_trials(graph, settings, seed=0, trials=2, jobs=1, explorer=Wanderer)
    for one, other in zip(found, given, strict=True):
        assert one.counts.count.tobytes() == other.counts.count.tobytes()
    assert third_party_explorer("random") is None
    with pytest.raises(SettingsError, match="did you mean `wanderer`"):
        run_trials(graph, ExploreSettings(algorithm="wandere"), seed=0, trials=1)
    with pytest.raises(SettingsError, match="tracking, lost, wanderer"):
        run_trials(graph, ExploreSettings(algorithm="q-learning"), seed=0, trials=1)
    with pytest.raises(SettingsError, match="cannot import the explorer `lost`"):
        run_trials(graph, ExploreSettings(algorithm="lost"), seed=0, trials=1)
    with pytest.raises(SettingsError, match="`wanderer` is not built in"):
        strategy_for(settings, graph.n_states)


class Corridor:
    """A system of a user's own: three states in a row, episodes end at the last or are cut."""

    has_ended = False

    def __init__(self) -> None:
        self.state = 0
        self.n_begun = 1
        self.steps = 0

    def answer(self, action: int) -> Outcome:
        self.steps += 1
        self.state = max(0, self.state + (1 if action else -1))
        return Outcome(self.state, ended=self.state == 2, cut=self.steps % 7 == 0)

    def begin(self) -> None:
        self.state = 0
        self.n_begun += 1


def test_any_experience_will_do() -> None:
    spaces = mdpdsl.loads("mdp c\nstate x in 0..2\naction back, ahead\n").graph
    corridor = Corridor()
    experience: Experience = corridor
    hosted = PlainExplorer(Scribe, spaces, ExploreSettings(), np.random.default_rng(0))
    assert hosted.explore(experience, 100, seconds=60.0) == 100
    scribe = hosted.explorer
    assert isinstance(scribe, Scribe)
    over = [outcome.ended or outcome.cut for _, _, outcome in scribe.seen]
    assert corridor.n_begun == 1 + sum(over[:-1])
    assert any(outcome.cut for _, _, outcome in scribe.seen)
    assert hosted.counts.n_transitions == 100
    assert hosted.estimate().transition_matrix().toarray()[1] == pytest.approx([0, 1, 0])


def test_an_own_loop_with_keywords_is_the_loop_with_settings() -> None:
    model = mdpdsl.load("riverswim")
    visits = []
    for explorer in (
        Explorer(model, kappa=10, algorithm="kappa-dp", seed=3),
        Explorer(model.graph, ExploreSettings(kappa=10), np.random.default_rng(3)),
        Explorer(model.graph, ExploreSettings(kappa=2), seed=3, kappa=10),
    ):
        system = SimulatedGraph(model.graph, np.random.default_rng(1))
        for _ in range(300):
            state = system.state
            action = explorer.act(state)
            explorer.observe(state, action, *system.answer(action))
        visits.append(explorer.counts.visits.tolist())
    assert visits[0] == visits[1] == visits[2]
    with pytest.raises(SettingsError, match="unknown setting `kapa=`; did you mean `kappa`"):
        Explorer(model, kapa=10)


@pytest.mark.parametrize("flag", ["ended", "cut"])
def test_after_the_end_of_an_episode_the_next_state_is_not_known(flag: str) -> None:
    explorer = Explorer(mdpdsl.load("riverswim"), algorithm="tracking")
    explorer.observe(0, 0, 1)
    assert explorer.memory.here.tolist() == [1]
    explorer.observe(1, 1, 2, **{flag: True})
    assert explorer.memory.here.tolist() == [-1]
    assert explorer.counts.n_transitions == 2
