"""Explorers and models whose episodes end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.explore.algorithms.lookahead import action_values
from mdpdsl.explore.experience import SimulatedGraph, SimulatedSystem
from mdpdsl.explore.explorer import Explorer
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.trial import new_trial
from mdpdsl.graph.ends import settle
from mdpdsl.kernels.loop import choose_pair
from mdpdsl.kernels.merging import plan_afresh
from tests.explore.algorithms.test_rules import SOLVED, many_settings
from tests.graph.test_ends import CORRIDOR

#: Ends in some of the holes of a small world, several starts, and actions that slip.
WORLD = """
mdp world
state x in 0..3
state y in 0..2
action east, north, back
init any when y == 0 and x < 3
end when x == 3 or (x == 1 and y == 2)
on east -> 0.7: x' = min(x + 1, 3) | 0.3: y' = min(y + 1, 2)
on north -> 0.6: y' = min(y + 1, 2) | 0.4: stay
on back -> 0.9: x' = max(x - 1, 0) | 0.1: y' = max(y - 1, 0)
"""
TRUTH = mdpdsl.loads(WORLD).graph

ROLLING = """
mdp rolling
state x in [0, 1] bins 8
action slow, fast
noise w ~ normal(0, 0.08)
init x ~ uniform(0, 0.3)
end when x > 0.8
let speed = 0.05
on slow -> x' = x + speed + w
on fast -> x' = x + 2*speed + w
"""

ALGORITHMS = ("kappa-dp", "random", "maxent", "weighted-maxent", "smm", "tracking", "kappa-lp")


def settings_of(algorithm: str, **changes: object) -> ExploreSettings:
    chosen = {"kappa": 10, "steps": 1_500, **changes}
    return ExploreSettings(algorithm=algorithm, **chosen)  # type: ignore[arg-type]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("kind", ["model", "continuous"])
def test_a_loop_of_steps_and_the_compiled_loop_are_the_same_run(algorithm: str, kind: str) -> None:
    """After an end the next episode starts in an initial state, and that start takes no step."""
    model = mdpdsl.loads(WORLD if kind == "model" else ROLLING)
    graph, chosen = model.graph, settings_of(algorithm)

    def experience() -> SimulatedGraph | SimulatedSystem:
        generator = np.random.default_rng(5)
        if kind == "model":
            return SimulatedGraph(graph, generator)
        return SimulatedSystem(graph, model.system, generator)

    compiled, stepwise = Explorer(graph, chosen, seed=3), Explorer(graph, chosen, seed=3)
    fast, slow = experience(), experience()
    done = 0
    compiled.note_first_start(fast.state)
    while done < chosen.steps:
        done += fast.explore(compiled, min(chosen.steps - done, compiled.prepare()))
    n_ended = 0
    for _ in range(chosen.steps):
        state = slow.state
        action = stepwise.act(state)
        outcome = slow.answer(action)
        stepwise.observe(state, action, *outcome)
        assert graph.ends is not None
        assert outcome.ended == graph.ends[outcome.next_state]
        if outcome.ended:
            slow.begin()
            n_ended += 1
    assert n_ended > 10
    assert compiled.counts.count.tolist() == stepwise.counts.count.tolist()
    assert compiled.counts.successor.tolist() == stepwise.counts.successor.tolist()
    assert compiled.visits.sum() == chosen.steps
    started = stepwise.starts.sum()
    assert started in (n_ended, n_ended + 1)  # the compiled loop starts the next one at once
    assert compiled.starts.sum() == n_ended + 1


@settings(max_examples=60, deadline=None)
@given(many_settings(), st.integers(0, 2**32), st.integers(1, 400))
def test_choices_are_the_best_by_the_rule(chosen: ExploreSettings, seed: int, n: int) -> None:
    """An end has the mean value of the starts seen, in the kernels and by the rule."""
    explorer = Explorer(TRUTH, settings_of("random"), seed=seed)
    system = SimulatedGraph(TRUTH, np.random.default_rng(seed))
    system.explore(explorer, n)
    planned = Explorer(TRUTH, chosen, seed=0)
    planned.learn_counts(explorer.counts, starts=explorer.starts)
    check_choices(planned, chosen)
    # And step by step.
    system = SimulatedGraph(TRUTH, np.random.default_rng(seed))
    stepped = Explorer(TRUTH, chosen, seed=0)
    system.explore(stepped, min(n, 60))
    for state in range(TRUTH.n_states):
        if TRUTH.pair_start[state] < TRUTH.pair_start[state + 1]:
            choose_pair(stepped.memory, stepped.strategy, state, stepped.generator)
    check_choices(stepped, chosen)


def check_choices(explorer: Explorer, chosen: ExploreSettings) -> None:
    memory = explorer.memory
    starts = memory.starts / memory.starts.sum()
    estimate = replace(explorer.estimate(), initial=starts)
    q = action_values(memory.reward, estimate, chosen)
    for state in range(TRUTH.n_states):
        first, end = TRUTH.pair_start[state : state + 2]
        if first == end:
            continue
        pair = choose_pair(memory, explorer.strategy, state, explorer.generator)
        margin = 100 * SOLVED * max(np.ptp(q), np.abs(q).max())
        assert q[pair] >= q[first:end].max() - margin


def test_the_values_of_ends_follow_their_starts() -> None:
    explorer = Explorer(TRUTH, settings_of("kappa-dp", planner="prioritized", tolerance=1e-9))
    system = SimulatedGraph(TRUTH, np.random.default_rng(0))
    system.explore(explorer, 800)
    plan_afresh(explorer.memory, explorer.strategy)
    memory = explorer.memory
    mean = memory.starts @ memory.value / memory.starts.sum()
    assert memory.value[memory.ends] == pytest.approx(mean, rel=1e-6)


@pytest.mark.parametrize("algorithm", ["kappa-dp", "tracking"])
def test_a_trial_with_ends_can_be_stopped_anywhere(tmp_path: object, algorithm: str) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    chosen = settings_of(algorithm)
    seeds = np.random.SeedSequence(7)
    whole = new_trial(TRUTH, chosen, np.random.SeedSequence(7))
    parts = new_trial(TRUTH, chosen, seeds)
    for trial, lengths in ((whole, [10_000]), (parts, [137] * 40)):
        for length in lengths:
            while trial.done < chosen.steps and length > 0:
                n = min(length, trial.explorer.prepare(), chosen.steps - trial.done)
                done = trial.advance(n)
                trial.done += done
                length -= done
            if trial is parts:
                trial.save(folder)
                again = new_trial(TRUTH, chosen, np.random.SeedSequence(7))
                again.restore(folder)
                assert again.done == trial.done
                trial = parts = again
    assert whole.counts.count.tolist() == parts.counts.count.tolist()


def test_an_explorer_finds_the_ends_of_a_system_that_declares_none() -> None:
    """The same run, with the ends declared, and with spaces alone and the flag `ended`."""
    truth = mdpdsl.loads(CORRIDOR).graph
    spaces = mdpdsl.loads("mdp spaces  state x in 0..4  action left, right  init x = 2").graph
    for algorithm in ("kappa-dp", "maxent", "tracking", "kappa-lp"):
        explorer = Explorer(spaces, settings_of(algorithm, steps=600), seed=1)
        system = SimulatedGraph(truth, np.random.default_rng(2))
        steps = []
        for _ in range(600):
            state = system.state
            action = explorer.act(state)
            outcome = system.answer(action)
            explorer.observe(state, action, *outcome)
            steps.append((state, action, outcome.next_state, outcome.ended))
            if outcome.ended:
                system.begin()
        assert explorer.graph.ends is not None
        assert explorer.graph.ends.tolist() == truth.ends.tolist()  # type: ignore[union-attr]
        assert explorer.graph.n_pairs == truth.n_pairs
        assert explorer.visits.sum() == 600
        assert explorer.visits[[0, 1, 8, 9]].tolist() == [0, 0, 0, 0]
        assert (explorer.counts.visits > 0).all()
        expected = settle(spaces, explorer.open_counts, explorer.starts)
        assert expected.counts.successor.tolist() == explorer.counts.successor.tolist()
        assert expected.counts.count.tolist() == explorer.counts.count.tolist()
        assert explorer.open_counts.n_transitions == 600
        estimate = explorer.estimate()
        estimate.validate()
        ended = sum(ended for *_, ended in steps)
        assert explorer.starts.sum() in (ended, ended + 1)


def test_a_state_that_ends_some_episodes_has_a_twin() -> None:
    spaces = mdpdsl.loads("mdp spaces  state x in 0..2  action go").graph
    explorer = Explorer(spaces, seed=0)
    walks = [
        [(0, 1, False), (1, 2, True)],  # ends in 2
        [(0, 2, False), (2, 1, False), (1, 1, True)],  # passes 2, ends in 1
        [(1, 2, True)],  # ends in 2 again
    ]
    for walk in walks:
        for state, following, ended in walk:
            assert explorer.act(state) == 0
            explorer.observe(state, 0, following, ended=ended)
    assert explorer.graph.states.n_twins == 2
    assert explorer.counts.n_transitions == 6
    estimate = explorer.estimate()
    estimate.validate()
    rows = estimate.transition_matrix().toarray()  # states 0, 1, 2, twins of 1 and 2
    assert rows[0] == pytest.approx([0, 0.5, 0.5, 0, 0])
    assert rows[1] == pytest.approx([0, 0, 0, 1 / 3, 2 / 3])
    assert rows[2] == pytest.approx([0, 1, 0, 0, 0])


def test_a_cut_episode_ends_nowhere() -> None:
    spaces = mdpdsl.loads("mdp spaces  state x in 0..2  action go").graph
    explorer = Explorer(spaces, seed=0)
    for start in (0, 1, 0):
        explorer.act(start)
        explorer.observe(start, 0, 2, cut=True)
    assert explorer.graph is spaces
    assert explorer.starts.tolist() == [2, 1, 0]


def test_an_explorer_is_near_the_optimum_of_a_model_with_ends() -> None:
    model = mdpdsl.loads(WORLD)
    found = mdpdsl.explore(model, kappa=10, steps=20_000, trials=3, algorithm="kappa-dp")
    random = mdpdsl.explore(model, kappa=10, steps=20_000, trials=3, algorithm="random")
    ratio, other = found.record()["ratio"]["worst"], random.record()["ratio"]["worst"]
    assert 1 < ratio < 2 < other / 2
