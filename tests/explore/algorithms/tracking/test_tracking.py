"""Tracking: its stages and plans, that pieces make the same run, and what it does in need."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdpdsl
from mdpdsl.diagnostics import SettingsError
from mdpdsl.explore.algorithms.tracking import targets
from mdpdsl.explore.algorithms.tracking.rule import following, steering
from mdpdsl.explore.algorithms.tracking.stages import (
    COLD,
    FINISH,
    LAG,
    PLANNED,
    STEERED,
    UNPLANNED,
    Stage,
    Tracking,
)
from mdpdsl.explore.algorithms.tracking.tracked_model import TrackedModel
from mdpdsl.explore.executor import run_trials, trial_seeds
from mdpdsl.explore.settings import ExploreSettings, settings_from
from mdpdsl.explore.trial import Trial, continue_trial, load_trial, new_trial
from mdpdsl.graph.complexity import squared_l2_complexity
from mdpdsl.graph.convert import from_scipy
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.loop import choose_pair, draw_successor, new_simulator
from mdpdsl.kernels.merging import plan_afresh
from mdpdsl.programs.allocation import optimum, remaining_allocation
from mdpdsl.programs.visitable import AllocationError

VARIANTS: list[dict[str, Any]] = [{}, {"bonus": "none"}, {"anytime": True}, {"power": 1.0}]


def settings(**changes: Any) -> ExploreSettings:
    chosen: dict[str, Any] = {"algorithm": "tracking", "kappa": 10.0, "steps": 2_000}
    return ExploreSettings(**(chosen | changes))


def run(graph: TransitionGraph, chosen: ExploreSettings, seed: int = 0) -> Trial:
    trial = new_trial(graph, chosen, trial_seeds(seed, 0))
    continue_trial(trial, graph, lambda _: True, None)
    return trial


def stages(trial: Trial) -> list[Stage]:
    assert isinstance(trial.explorer.episodes, Tracking)
    return trial.explorer.episodes.records


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_step_by_step_and_compiled_loop_give_the_same_counts(changes: dict[str, Any]) -> None:
    graph = mdpdsl.load("riverswim").graph
    chosen = settings(**changes)
    trial = run(graph, chosen)
    by_hand = new_trial(graph, chosen, trial_seeds(0, 0))
    explorer, state, simulator = by_hand.explorer, by_hand.state, new_simulator(graph)
    for _ in range(chosen.steps):
        action = explorer.act(state)
        pair = graph.pair(state, action)
        following = int(draw_successor(simulator, pair, by_hand.system_generator))
        explorer.observe(state, action, following)
        state = following
    assert trial.counts.count.tobytes() == explorer.counts.count.tobytes()
    assert trial.counts.n_transitions == chosen.steps


@pytest.mark.parametrize("n", [8, 20])
def test_a_trial_stopped_and_resumed_anywhere_is_the_same_trial(n: int, tmp_path: Path) -> None:
    graph = mdpdsl.load("riverswim", n=n).graph
    chosen = settings(steps=1_500)
    whole = run(graph, chosen, 3)
    pieces = new_trial(graph, chosen, trial_seeds(3, 0))
    for _ in range(100):
        if pieces.is_finished:
            break
        continue_trial(pieces, graph, lambda _: False, tmp_path)
        pieces = load_trial(graph, chosen, trial_seeds(3, 0), tmp_path)
    assert pieces.is_finished
    assert pieces.counts.count.tobytes() == whole.counts.count.tobytes()
    assert pieces.explorer.memory.target.tobytes() == whole.explorer.memory.target.tobytes()
    assert [replace(s, seconds=0) for s in stages(pieces)] == [
        replace(s, seconds=0) for s in stages(whole)
    ]


def test_the_number_of_processes_does_not_change_a_bit() -> None:
    graph = mdpdsl.load("pendulum").graph
    chosen = settings(steps=8_000)
    runs = [run_trials(graph, chosen, seed=7, trials=2, jobs=jobs) for jobs in (1, 2)]
    for one, other in zip(*runs, strict=True):
        assert one.counts.count.tobytes() == other.counts.count.tobytes()
        assert one.measures == other.measures
    assert runs[0][0].counts.count.tobytes() != runs[0][1].counts.count.tobytes()


def test_stages_follow_each_other_up_to_the_budget() -> None:
    trial = run(mdpdsl.load("riverswim", n=10).graph, settings(steps=5_000))
    found = stages(trial)
    assert found[0].stage == COLD
    assert {s.stage for s in found[1:]} <= {PLANNED, STEERED}
    assert len(found) > 5
    for one, after in pairwise(found):
        assert one.step + one.steps == after.step
    assert found[-1].step + found[-1].steps == 5_000
    # What a plan wants is what there will be: the targets add up to the budget.
    assert trial.explorer.memory.target.sum() == pytest.approx(5_000)
    powers = [s.power for s in found[1:] if s.power is not None]
    assert powers[0] < powers[-1] <= 13.5


def test_visits_come_to_what_the_last_plan_wanted() -> None:
    trial = run(mdpdsl.load("riverswim", n=10).graph, settings(steps=20_000))
    memory = trial.explorer.memory
    assert np.abs(memory.visits - memory.target).max() < 0.1 * memory.target.max()
    assert np.abs(memory.visits - memory.target).sum() < 0.05 * 20_000


def test_it_comes_closer_to_the_optimum_than_kappa_explorer() -> None:
    graph = mdpdsl.load("pendulum").graph
    best = optimum(graph, squared_l2_complexity(graph))
    ratios = {}
    for algorithm in ("tracking", "kappa-dp"):
        chosen = settings(algorithm=algorithm, steps=100_000)
        found = run_trials(graph, chosen, seed=50, trials=2, jobs=2)
        c = squared_l2_complexity(graph)
        losses = [100_000 * c / result.counts.visits for result in found]
        worst = np.mean([loss.max() for loss in losses]) / best.worst
        ratios[algorithm] = float(worst), float(np.mean(losses) / best.average)
    assert ratios["tracking"][0] < 1.6 < 1.9 < ratios["kappa-dp"][0]
    assert ratios["tracking"][1] < 1.15 < 1.2 < ratios["kappa-dp"][1]


def test_without_a_budget_the_budget_makes_no_difference() -> None:
    graph = mdpdsl.load("riverswim").graph
    long = new_trial(graph, settings(anytime=True, steps=9_000), trial_seeds(1, 0))
    continue_trial(long, graph, lambda standing: standing.steps < 900, None)
    assert 900 <= long.done < 9_000
    short = run(graph, settings(anytime=True, steps=long.done), 1)
    assert short.counts.count.tobytes() == long.counts.count.tobytes()


def test_steps_before_the_run_are_no_part_of_its_budget() -> None:
    graph = mdpdsl.load("riverswim").graph
    before = run(graph, ExploreSettings(algorithm="random", steps=3_000)).counts
    trial = new_trial(graph, settings(steps=1_000), trial_seeds(0, 0), None, before)
    continue_trial(trial, graph, lambda _: True, None)
    found = stages(trial)
    assert found[0].stage == PLANNED  # it knows enough
    assert found[0].step == 3_000
    assert found[-1].step + found[-1].steps == 4_000
    assert trial.counts.n_transitions == 4_000


def test_a_pair_short_of_its_target_goes_first_by_its_need() -> None:
    graph = from_scipy([np.ones((1, 1))] * 3)
    explorer = new_trial(graph, settings(), trial_seeds(0, 0)).explorer
    for action, visits in enumerate((4, 2, 9)):
        for _ in range(visits):
            explorer.observe(0, action, 0)
    explorer.strategy = following(settings(), 1)
    memory, generator = explorer.memory, np.random.default_rng(0)
    memory.weight[:] = [-1.0, -2.0, -3.0]
    for target, chosen in (
        ([5.0, 5.0, 5.0], 0),  # both are short of it, the first is in greater need
        ([4.4, 5.0, 5.0], 1),
        ([4.4, 2.4, 9.6], 2),
        ([4.0, 1.5, 8.7], 0),  # none is: the least beyond
        ([0.0, 0.0, 0.0], 1),
    ):
        memory.target[:] = target
        assert choose_pair(memory, explorer.strategy, 0, generator) == chosen


def test_steering_heads_for_the_pairs_far_from_their_targets() -> None:
    """A chain of five states, where 1 goes to the right and 0 to the left."""
    left, right = np.eye(5, k=-1), np.eye(5, k=1)
    left[0, 0], right[4, 4] = 1, 1
    graph = from_scipy([left, right])
    explorer = new_trial(graph, settings(), trial_seeds(0, 0)).explorer
    for pair in range(10):
        for _ in range(4):
            state, action = divmod(pair, 2)
            explorer.observe(state, action, [max(0, state - 1), min(4, state + 1)][action])
    explorer.strategy = steering(settings(), 5)
    memory, generator = explorer.memory, np.random.default_rng(0)
    for missing, ways in ((8, [1, 1, 1, 1, 0]), (1, [1, 0, 0, 0, 0]), (6, [1, 1, 1, 0, 0])):
        memory.target[:] = 4
        memory.target[missing] = 8
        plan_afresh(memory, explorer.strategy)
        chosen = [choose_pair(memory, explorer.strategy, s, generator) - 2 * s for s in range(5)]
        assert chosen == ways
    memory.target[:] = 0  # all have more than they need: the least visited one, as ever
    explorer.observe(2, 0, 1)
    assert choose_pair(memory, explorer.strategy, 2, generator) == 5


def test_plans_are_steered_once_they_promise_less_and_less() -> None:
    tracking = Tracking(settings(), mdpdsl.load("riverswim").graph)
    stage = Stage(PLANNED, 0, 10, 0, 6, 0, None)
    for promised, worst, is_lagging in (
        ([], 9.0, False),
        ([5.0], 9.0, False),
        ([5.0, 6.0], 6.0 * LAG + 0.1, True),
        ([5.0, 6.0], 6.0 * LAG - 0.1, False),
        ([6.0, 5.0], 9.0, False),  # once may be by chance
        ([5.0, None], 9.0, False),
        ([None, 5.0], 9.0, False),
    ):
        tracking.records = [replace(stage, worst=w) for w in promised]
        assert tracking._is_steered(worst, 1_000) == is_lagging
        assert tracking._is_steered(worst, int(FINISH * 2_000))


def test_the_last_part_of_a_budget_is_steered_where_there_is_one() -> None:
    graph = mdpdsl.load("riverswim").graph
    for stage in stages(run(graph, settings(steps=4_000)))[1:]:
        assert stage.stage == STEERED or stage.step < (1 - FINISH) * 4_000
    found = stages(run(graph, settings(steps=4_000, anytime=True)))
    assert found[-1].stage == PLANNED


def test_what_chance_has_left_behind_is_made_up_for_in_the_end() -> None:
    """On a grid of 1,600 pairs with 13 visits each some would have half of theirs."""
    graph = mdpdsl.load("gridworld", n=20).graph
    trial = run(graph, settings(steps=20_000))
    c = squared_l2_complexity(graph)
    best = optimum(graph, c)
    assert (20_000 * c / trial.counts.visits).max() < 1.35 * best.worst


def test_where_shares_take_too_long_to_come_about_it_is_steered() -> None:
    graph = mdpdsl.load("riverswim", n=20).graph
    best = optimum(graph, squared_l2_complexity(graph)).worst
    steered = 0
    for seed in range(6):
        trial = run(graph, settings(steps=5_000), seed)
        steered += any(s.stage == STEERED for s in stages(trial))
        worst = (5_000 * squared_l2_complexity(graph) / trial.counts.visits).max()
        assert worst < 2.5 * best
    assert steered


def test_a_model_that_cannot_be_returned_to_is_explored_all_the_same() -> None:
    """From 0 one reaches {1, 2} or {3}, and never returns."""
    go, stay = np.zeros((4, 4)), np.zeros((4, 4))
    go[0, 1], go[0, 3], go[1, 2], go[2, 1], go[3, 3] = 0.5, 0.5, 1, 1, 1
    stay[0, 0], stay[1, 1], stay[1, 2], stay[2, 2], stay[3, 3] = 1, 0.5, 0.5, 1, 1
    graph = from_scipy([go, stay], initial=[1, 0, 0, 0])
    for seed in range(4):
        trial = run(graph, settings(steps=400), seed)
        assert trial.counts.n_transitions == 400
        assert stages(trial)[-1].stage == STEERED
        reached = [1, 2] if trial.counts.visits[2] else [3]
        assert all(trial.counts.visits[2 * s + a] > 50 for s in reached for a in (0, 1))


@pytest.mark.parametrize("limit", ["MOST_STATES", "MOST_MULTIPLICATIONS"])
def test_a_model_too_large_to_plan_for_is_explored_without(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = mdpdsl.load("riverswim").graph
    monkeypatch.setattr(targets, "FEW_STATES", 0)
    monkeypatch.setattr(targets, limit, 1)
    trial = run(graph, settings())
    found = stages(trial)
    assert {s.stage for s in found} == {COLD, UNPLANNED}
    assert "to plan for" in str(found[-1].note)
    assert trial.counts.visits.min() > 10


def test_a_plan_that_fails_is_recorded_and_made_up_for_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    solve, calls = remaining_allocation, 0

    def fails_twice(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls in (3, 4):
            raise AllocationError("not today")
        return solve(*arguments, **options)

    monkeypatch.setattr(targets, "remaining_allocation", fails_twice)
    trial = run(mdpdsl.load("riverswim").graph, settings())
    found = [s for s in stages(trial) if s.stage == UNPLANNED]
    assert [s.note for s in found] == ["not today"] * 2
    assert stages(trial)[-1].stage == STEERED
    assert trial.counts.n_transitions == 2_000


@pytest.mark.parametrize("steps", [1, 2, 19, 20, 100])
def test_a_budget_may_be_tiny(steps: int) -> None:
    trial = run(mdpdsl.load("riverswim").graph, settings(steps=steps))
    assert trial.counts.n_transitions == steps


def test_a_power_that_would_go_all_into_one_state_is_lowered() -> None:
    """The second state is reached once in a thousand steps."""
    graph = from_scipy([np.array([[0.999, 0.001], [1, 0]]), np.array([[0.999, 0.001], [0.9, 0.1]])])
    c, everything = np.full(4, 0.5), np.ones(4, np.bool_)
    model = TrackedModel(graph, everything, 1.0, np.ones(2, np.bool_))
    visits = np.array([100.0, 100.0, 1.0, 1.0])
    problem = targets.TargetProgram(model, c, visits, 10_000, np.zeros(2))
    assert problem.solve(8.0).spent > 0.9
    assert targets.affordable(problem, 8.0)[0] == 1
    late = replace(problem, left=40)
    assert targets.affordable(late, 8.0)[0] == 8
    half = replace(problem, left=150, visits=np.array([100.0, 100.0, 1.0, 0.0]))
    assert targets.affordable(half, 8.0)[0] == 8  # as there is a pair never visited


def test_states_never_seen_are_hoped_for_and_no_worse_off_than_the_worst() -> None:
    graph = mdpdsl.load("riverswim").graph
    explorer = new_trial(graph, settings(), trial_seeds(0, 0)).explorer
    for _ in range(8):
        for state in range(5):
            for action in (0, 1):
                explorer.observe(state, action, (state + 1) % 5)
                explorer.observe(state, action, max(state - 1, 0))
    problem = targets.target_program(explorer.memory, explorer.counts, graph, 1_000, settings())
    assert problem.model.is_planned.all()
    losses = problem.c / problem.visits
    assert losses[10:] == pytest.approx(losses[:10].max())
    assert (problem.solve(4.0).target > problem.visits).all()


def test_wrong_settings_are_refused() -> None:
    for mistake, words in (
        ({"power": 0.5}, "power must be auto, or 1 or more"),
        ({"power": "much"}, "power must be auto or a number"),
        ({"power": float("inf")}, "power must be auto, or 1 or more"),
        ({"bonus": "pooled"}, "unknown bonus `pooled`; there are paper, bernstein, none"),
    ):
        with pytest.raises(SettingsError, match=words):
            settings_from({"algorithm": "tracking"}, mistake)
    assert settings_from({"power": "auto"}).power is None
