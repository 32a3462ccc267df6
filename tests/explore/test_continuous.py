"""Exploring the raw system behind the bins: in one's own loop, compiled, resumed, and failing."""

from pathlib import Path

import numpy as np
import pytest

import mdpdsl
from mdpdsl.diagnostics import SettingsError
from mdpdsl.explore.executor import run_trials, trial_seeds
from mdpdsl.explore.experience import Experience, SimulatedGraph, SimulatedSystem
from mdpdsl.explore.explorer import Explorer
from mdpdsl.explore.feasible import require_explorable
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.trial import continue_trial, load_trial, new_trial
from mdpdsl.simulate.failures import SimulationError


def settings_for(simulate: str, algorithm: str = "kappa-dp") -> ExploreSettings:
    return ExploreSettings(steps=3_000, kappa=2, gamma=0.95, algorithm=algorithm, simulate=simulate)


@pytest.mark.parametrize("simulate", ["model", "continuous"])
@pytest.mark.parametrize("name", ["pendulum", "mountain_car", "thermostat"])
def test_an_own_loop_and_the_compiled_one_make_the_same_visits(name: str, simulate: str) -> None:
    model = mdpdsl.load(name)
    settings = settings_for(simulate)
    trial = new_trial(model.graph, settings, np.random.SeedSequence(5), model.system)
    continue_trial(trial, model.graph, lambda _: True, None)
    explorer_seed, system_seed = np.random.SeedSequence(5).spawn(2)
    explorer = Explorer(model.graph, settings, np.random.default_rng(explorer_seed))
    generator = np.random.default_rng(system_seed)
    experience: Experience = SimulatedGraph(model.graph, generator)
    if simulate == "continuous":
        generator = np.random.default_rng(np.random.SeedSequence(5).spawn(2)[1])
        experience = SimulatedSystem(model.graph, model.system, generator)
    for _ in range(settings.steps):
        state = experience.state
        action = explorer.act(state)
        outcome = experience.answer(action)
        assert outcome is not None
        explorer.observe(state, action, *outcome)
    for name in ("successor_start", "successor", "count"):
        assert np.array_equal(getattr(trial.counts, name), getattr(explorer.counts, name))
    assert trial.state == experience.state
    assert trial.counts.n_transitions == settings.steps


def test_the_state_shown_is_the_bin_of_the_values() -> None:
    model = mdpdsl.load("pendulum")
    system = SimulatedSystem(model.graph, model.system, np.random.default_rng(0))
    seen = set()
    for step in range(500):
        system.step(step % 5)
        assert system.state == model.graph.state(**system.values)
        seen.add(tuple(system.values.values()))
    assert len(seen) == 500  # and the values are those of a continuous system


def test_a_system_can_be_put_at_a_point() -> None:
    model = mdpdsl.load("thermostat")
    system = SimulatedSystem(model.graph, model.system, np.random.default_rng(0))
    assert system.values == {"temperature": 18.0, "heating": False}
    state = system.place(temperature=20.3, heating=True)
    assert system.values == {"temperature": 20.3, "heating": True}
    assert state == system.state == model.graph.state(temperature=20.3, heating=True)
    with pytest.raises(ValueError, match="give a value for each of temperature, heating"):
        system.place(temperature=20.0)


def test_an_action_that_the_state_does_not_have_is_refused() -> None:
    model = mdpdsl.loads("""
        mdp m
        state x in [0, 1] bins 2
        action left, right
        init x = 0.2
        on left when x >= 0.5 -> x' = x - 0.5
        on right when x < 0.5 -> x' = x + 0.5
        discretize center
    """)
    system = SimulatedSystem(model.graph, model.system, np.random.default_rng(0))
    with pytest.raises(ValueError, match="left is not available"):
        system.step(0)
    assert system.step(1) == 1
    assert system.step(0) == 0


def test_the_number_of_processes_does_not_change_a_bit() -> None:
    model = mdpdsl.load("mountain_car")
    one, two = (
        run_trials(
            model.graph,
            settings_for("continuous"),
            seed=7,
            trials=3,
            jobs=jobs,
            system=model.system,
        )
        for jobs in (1, 2)
    )
    for first, second in zip(one, two, strict=True):
        assert first.counts.count.tobytes() == second.counts.count.tobytes()
        assert first.measures == second.measures
    assert one[0].counts.count.tobytes() != one[1].counts.count.tobytes()


def test_a_trial_stopped_and_resumed_is_the_same_trial(tmp_path: Path) -> None:
    model = mdpdsl.load("pendulum")
    settings = settings_for("continuous", "random")
    whole = new_trial(model.graph, settings, trial_seeds(3, 0), model.system)
    continue_trial(whole, model.graph, lambda _: True, None)
    pieces = new_trial(model.graph, settings, trial_seeds(3, 0), model.system)
    for stop in (700, 1_900, 3_000):
        continue_trial(pieces, model.graph, lambda s, stop=stop: s.steps < stop, tmp_path)  # type: ignore[misc]
        pieces = load_trial(model.graph, settings, trial_seeds(3, 0), tmp_path, model.system)
    assert pieces.is_finished
    assert pieces.history == whole.history
    assert pieces.counts.count.tobytes() == whole.counts.count.tobytes()
    with np.load(tmp_path / "state.npz") as saved:
        assert isinstance(whole.experience, SimulatedSystem)
        assert saved["raw_values"].tolist() == list(whole.experience.values.values())


def test_the_bins_do_not_make_a_markov_process_of_it() -> None:
    """A rotation by a tenth of a bin stays in its bin for ten steps, which no chain would do."""
    model = mdpdsl.loads("""
        mdp rotation
        state a in [0, 1] wrap bins 4
        action go
        init a = 0.001
        a' = a + 0.025
    """)
    system = SimulatedSystem(model.graph, model.system, np.random.default_rng(0))
    states = [system.step(0) for _ in range(80)]
    stays = np.diff(np.flatnonzero(np.diff(states)))
    assert set(stays.tolist()) == {10}


def test_settings_name_what_can_be_simulated() -> None:
    with pytest.raises(SettingsError, match="unknown simulate `continous`; did you mean"):
        ExploreSettings(simulate="continous")
    with pytest.raises(ValueError, match="give `system=`"):
        new_trial(
            mdpdsl.load("pendulum").graph, settings_for("continuous"), np.random.SeedSequence(0)
        )


def test_what_only_the_continuous_system_can_reach_is_but_a_warning() -> None:
    graph = mdpdsl.loads(
        HEAD + FAILURES["a cell that the model does not have"][0], all_states=True
    ).graph
    with pytest.raises(SettingsError, match="can never be visited"):
        require_explorable(graph)
    warning = require_explorable(graph, "continuous")
    assert warning is not None
    assert "the continuous system may visit them" in warning


HEAD = "mdp m\nstate x in [0, 1] bins 2\naction go\ninit x = 0.1\ndiscretize center\n"
#: Systems that fail away from the centres of their cells, and what is said then.
FAILURES = {
    "a cell that the model does not have": (
        "x' = x + 0.2",
        "step 2: the next state x = 0.5 lies in the cell x = 0.75, which the built model does not "
        r"have: its discretization cannot reach it, in x = 0\.3\d* under go; build with `all_",
    ),
    "no line": (
        "on go when x < 0.4 or x > 0.6 -> x' = x + 0.15",
        "step 3: no line of the action applies, though one does at the centre of the cell, in "
        "x = 0.4 under go; put an edge of the cells where a guard changes",
    ),
    "two lines": (
        "on go when x < 0.4 -> x' = x + 0.25\non go when x > 0.3 -> x' = 0.1",
        r"step 2: two lines apply, the second \(<text>:7:1\), in x = 0.35 under go; put an edge",
    ),
    "a division by zero": (
        "let slope = 1/(x - 0.4)\nx' = 0.4 + 0*slope",
        r"step 2: x' has no value: division by zero \(<text>:6:13\), in x = 0.4 under go; guard",
    ),
    "a guard without a value": (
        "restart when sqrt(0.35 - x) > 2\nx' = min(x + 0.15, 0.45)",
        r"step 3: square root of a negative number \(<text>:6:14\), in x = 0.4 under go; guard",
    ),
    "a value that is not finite": (
        "x' = if x > 0.15 and x < 0.24 then inf else x + 0.1",
        "step 2: x' = inf is not a finite number, in x = 0.2 under go; bound it",
    ),
    "a probability": (
        "on go -> 1.15 - x: x' = 0.1 | x - 0.15: x' = 0.05",
        r"step 1: the probability 1.05 is outside \[0, 1\] \(<text>:6:10\), in x = 0.1 under go",
    ),
    "probabilities": (
        "on go -> 0.5: x' = 0.1 | 0.25 + x: x' = 0.2",
        r"step 1: branch probabilities sum to 0.85, not 1, \(<text>:6:1\), in x = 0.1 under go",
    ),
    "out of range": (
        "state n in 0..0\nn' = if x < 0.2 then 1 else 0",
        r"step 1: n' = 1 is out of range, in x = 0.1, n = 0 under go; the model declares n in 0",
    ),
    "not in the set": (
        "state n in {0, 0.5}\nn' = if x < 0.2 then x else 0",
        r"step 1: n' = 0.1 is out of range, in x = 0.1, n = 0(\.5)? under go; the model declares n",
    ),
    "not a member": (
        "state c in {red, blue}\nstate d in {red, green}\n"
        "d' = if x < 0.2 then c' else red\nc' = blue",
        "step 1: d' = blue is out of range, in x = 0.1, c = (red|blue), d = (red|green) under go",
    ),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_system_that_cannot_continue_says_where_why_and_what_to_do(case: str) -> None:
    text, message = FAILURES[case]
    model = mdpdsl.loads(HEAD + text)
    settings = ExploreSettings(steps=1_000, algorithm="random", simulate="continuous")
    with pytest.raises(SimulationError, match=f"trial 0: {message}"):
        run_trials(model.graph, settings, seed=0, trials=1, jobs=1, system=model.system)


def test_a_failure_in_a_process_stops_the_run() -> None:
    model = mdpdsl.loads(HEAD + FAILURES["probabilities"][0])
    settings = ExploreSettings(steps=1_000, algorithm="random", simulate="continuous")
    with pytest.raises(SimulationError, match="probabilities sum to"):
        run_trials(model.graph, settings, seed=0, trials=4, jobs=2, system=model.system)


def test_a_system_that_has_failed_stays_where_it_was() -> None:
    model = mdpdsl.loads(HEAD + FAILURES["a division by zero"][0])
    system = SimulatedSystem(model.graph, model.system, np.random.default_rng(0))
    system.step(0)
    for _ in range(2):
        with pytest.raises(SimulationError, match="x' has no value"):
            system.step(0)
        assert system.values == {"x": 0.4}
    system.place(x=0.1)
    assert system.step(0) == 0
