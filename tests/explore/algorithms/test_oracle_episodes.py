"""Explorers that plan in episodes: when, with what weights, and that pieces make the same run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdpdsl
from mdpdsl.diagnostics import SettingsError
from mdpdsl.estimate.confidence import l1_radius
from mdpdsl.estimate.empirical import estimated_complexity
from mdpdsl.estimate.metrics import utility
from mdpdsl.explore.algorithms import fw_modest, kappa_lp
from mdpdsl.explore.algorithms.oracle_episodes import Episodes, from_logs, start_of
from mdpdsl.explore.executor import run_trials, trial_seeds
from mdpdsl.explore.explorer import Explorer
from mdpdsl.explore.floor import require_floor, slow_oracle
from mdpdsl.explore.settings import ExploreSettings, settings_from
from mdpdsl.explore.trial import continue_trial, load_trial, new_trial
from mdpdsl.graph.complexity import squared_l2_complexity
from mdpdsl.kernels.loop import draw_successor, new_simulator
from mdpdsl.programs.direction import ProgramError
from tests.graph.build import ruin


def settings(**changes: Any) -> ExploreSettings:
    chosen: dict[str, Any] = {"algorithm": "kappa-lp", "kappa": 2.0, "backend": "highs"}
    return ExploreSettings(**(chosen | changes))


VARIANTS = [
    settings(),
    settings(backend="pyomo-highs"),
    settings(backend="evi"),
    settings(backend="evi", eta=0.0),
    settings(formulation="full"),
    settings(bonus="bernstein", radius="weissman"),
    settings(kappa=1000.0),
    settings(algorithm="fw-modest"),
]


def label(chosen: ExploreSettings) -> str:
    words = (chosen.algorithm, chosen.kappa, chosen.backend, chosen.formulation, chosen.eta)
    return "-".join(map(str, words))


@pytest.mark.parametrize("chosen", VARIANTS, ids=label)
def test_step_by_step_and_compiled_loop_give_the_same_counts(chosen: ExploreSettings) -> None:
    graph = mdpdsl.load("riverswim").graph
    chosen = settings_from(vars(chosen), {"steps": 1_000})
    trial = new_trial(graph, chosen, np.random.SeedSequence(5))
    continue_trial(trial, graph, lambda _: True, None)
    by_hand = new_trial(graph, chosen, np.random.SeedSequence(5))
    explorer, state, simulator = by_hand.explorer, by_hand.state, new_simulator(graph)
    for _ in range(chosen.steps):
        action = explorer.act(state)
        pair = graph.pair(state, action)
        following = int(draw_successor(simulator, pair, by_hand.system_generator))
        explorer.observe(state, action, following)
        state = following
    for name in ("successor_start", "successor", "count"):
        assert np.array_equal(getattr(trial.counts, name), getattr(explorer.counts, name))
    assert trial.counts.n_transitions == chosen.steps


def test_episodes_begin_when_the_theorem_says() -> None:
    """t_m = tau_1 (m-1) m (2m-1) / 6 + 1, the sum of the lengths tau_1 m^2 before it."""
    for first in (1, 10):
        lengths = [first * m * m for m in range(1, 30)]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        assert [start_of(m, first) for m in range(1, 31)] == starts.tolist()
    graph = mdpdsl.load("riverswim").graph
    trial = new_trial(graph, settings(steps=2_000, first_episode=3), trial_seeds(0, 0))
    continue_trial(trial, graph, lambda _: True, None)
    assert isinstance(trial.explorer.episodes, Episodes)
    records = trial.explorer.episodes.records
    assert [r.step for r in records] == [start_of(r.episode, 3) for r in records]
    assert start_of(len(records), 3) < 2_000 <= start_of(len(records) + 1, 3)
    assert all(r.status == "optimal" for r in records)


@pytest.mark.parametrize("backend", ["highs", "pyomo-highs", "evi"])
def test_a_trial_stopped_and_resumed_anywhere_is_the_same_trial(
    backend: str, tmp_path: Path
) -> None:
    graph = mdpdsl.load("riverswim", n=8).graph
    chosen = settings(backend=backend, steps=1_500)
    whole = new_trial(graph, chosen, trial_seeds(3, 0))
    continue_trial(whole, graph, lambda _: True, None)
    pieces = new_trial(graph, chosen, trial_seeds(3, 0))
    # Stops at every look: at checkpoints, and at starts of episodes.
    for _ in range(100):
        if pieces.is_finished:
            break
        continue_trial(pieces, graph, lambda _: False, tmp_path)
        pieces = load_trial(graph, chosen, trial_seeds(3, 0), tmp_path)
    assert pieces.is_finished
    assert pieces.history == whole.history
    assert pieces.counts.count.tobytes() == whole.counts.count.tobytes()
    memory, other = pieces.explorer.memory, whole.explorer.memory
    assert memory.policy.tobytes() == other.policy.tobytes()
    assert pieces.explorer.episodes is not None
    assert whole.explorer.episodes is not None
    for one, two in zip(
        pieces.explorer.episodes.saved(), whole.explorer.episodes.saved(), strict=True
    ):
        assert one | {"seconds": 0} == two | {"seconds": 0}
    saved = json.loads((tmp_path / "episodes.json").read_text("utf-8"))
    assert len(saved["episodes"]) == len(whole.explorer.episodes.records)


@pytest.mark.parametrize("backend", ["highs", "pyomo-highs"])
def test_the_number_of_processes_does_not_change_a_bit(backend: str) -> None:
    graph = mdpdsl.load("pendulum").graph
    chosen = settings(backend=backend, steps=4_000)
    runs = [run_trials(graph, chosen, seed=7, trials=2, jobs=jobs) for jobs in (1, 2)]
    for one, other in zip(*runs, strict=True):
        assert one.counts.count.tobytes() == other.counts.count.tobytes()
        assert one.measures == other.measures
    assert runs[0][0].counts.count.tobytes() != runs[0][1].counts.count.tobytes()


def test_pyomo_and_highs_plan_the_same_values() -> None:
    graph = mdpdsl.load("riverswim").graph
    trials = []
    for backend in ("highs", "pyomo-highs"):
        trial = new_trial(graph, settings(backend=backend, steps=10), trial_seeds(0, 0))
        continue_trial(trial, graph, lambda _: True, None)
        trials.append(trial)
    for one, other in zip(*(t.explorer.episodes.records for t in trials), strict=True):  # type: ignore[union-attr]
        assert one.value == pytest.approx(other.value, abs=1e-9)


def seen(graph: mdpdsl.TransitionGraph, chosen: ExploreSettings) -> Explorer:
    trial = new_trial(graph, chosen, trial_seeds(1, 0))
    continue_trial(trial, graph, lambda _: True, None)
    return trial.explorer


@pytest.mark.parametrize("kappa", [1.0, 2.0, 10.0])
def test_weights_are_the_gradient_of_the_objective_up_to_scale(kappa: float) -> None:
    """By differences of U_kappa(d) at d = T+/t, with upper bounds for c."""
    visits, upper, t = np.array([1.0, 4.0, 9.0, 30.0]), np.array([0.9, 0.5, 1.0, 0.2]), 44
    found = from_logs(kappa_lp.log_weights(upper, visits, t, settings(kappa=kappa)))
    gradient = np.empty(4)
    for i, step in enumerate(np.eye(4) * 1e-7):
        ends = [utility(visits / t + sign * step, upper, kappa) for sign in (1, -1)]
        assert ends[0] is not None
        assert ends[1] is not None
        gradient[i] = (ends[0] - ends[1]) / 2e-7
    assert found == pytest.approx(gradient / gradient.max(), rel=1e-4)


def test_fw_modest_weights_are_the_gradient_of_its_smoothed_worst_case() -> None:
    visits, upper, t, mu = np.array([2.0, 4.0, 9.0, 30.0]), np.array([0.9, 0.5, 1.0, 0.2]), 45, 0.5
    found = from_logs(fw_modest.log_weights(upper, visits, t, settings(smoothing=mu)))

    def smoothed(d: np.ndarray) -> float:
        return float(np.log(np.exp(mu * upper / (4 * d)).sum()) / mu)

    d = visits / t
    gradient = np.array([smoothed(d - e) - smoothed(d + e) for e in np.eye(4) * 1e-7])
    assert found == pytest.approx(gradient / gradient.max(), rel=1e-4)


def test_weights_survive_any_kappa_and_certain_pairs() -> None:
    visits, upper = np.array([0.1, 1e6, 3.0]), np.array([1.0, 1.0, 0.0])
    weights = from_logs(kappa_lp.log_weights(upper, visits, 10, settings(kappa=1000.0)))
    assert weights == pytest.approx([1, 0, 0])
    nothing = from_logs(kappa_lp.log_weights(np.zeros(3), visits, 10, settings()))
    assert nothing == pytest.approx([1, 1, 1])


def test_an_episode_is_planned_with_the_papers_confidence_sets() -> None:
    """Redo the last plan by hand, from the counts at its start."""
    from mdpdsl.estimate.balls import confidence_balls
    from mdpdsl.programs.oracle import load_oracle

    graph = mdpdsl.load("weather").graph
    first, m = 10, 9
    done = start_of(m, first)
    explorer = seen(graph, settings(steps=done, first_episode=first))
    assert isinstance(explorer.episodes, Episodes)
    assert len(explorer.episodes.records) == m - 1
    explorer.prepare(squared_l2_complexity(graph))
    record = explorer.episodes.records[-1]
    T, counts = explorer.memory.visits, explorer.counts
    delta_t = 0.1 / (math.pi**2 / 3 * graph.n_pairs * (done + 1) ** 2)
    with np.errstate(divide="ignore"):
        b = np.minimum(2, np.sqrt(2 * math.log(1 / delta_t) / T))
        e = graph.n_states * np.sqrt(math.log(2 * graph.n_states / delta_t) / (2 * T))
    assert l1_radius(T, graph.n_states, done + 1, 0.1) == pytest.approx(b)
    c_plus = np.where(T > 0, np.minimum(1, estimated_complexity(counts) + e), 1)
    w = c_plus**2 / np.maximum(T, 0.1) ** 2
    oracle, model = load_oracle("highs"), confidence_balls(counts, graph, b)
    interior = oracle.interior(model)
    plan = oracle.answer(model, w / w.max(), 0.01 * interior.least / 2, interior)
    assert record.value == pytest.approx(plan.value, rel=1e-9)
    assert record.eta == pytest.approx(0.01 * interior.least / 2)
    assert record.least_share == pytest.approx(interior.least)
    starts = graph.pair_start[1:] - 1
    assert explorer.memory.policy[starts] == pytest.approx(1)
    left = explorer.memory.policy[graph.pair_start[:-1]]
    assert left == pytest.approx(plan.direction.policy[graph.pair_start[:-1]])
    d_hat = np.maximum(T, 0.1) / done
    assert record.utility == pytest.approx(utility(d_hat, squared_l2_complexity(graph), 2))


def test_every_pair_of_the_papers_pendulum_is_visited_within_its_budget() -> None:
    graph = mdpdsl.load("pendulum").graph
    results = run_trials(graph, settings(steps=100_000), seed=0, trials=2)
    assert not any(result.failed for result in results)


def test_an_eta_that_is_too_large_is_clipped_and_noted_or_refused() -> None:
    graph = mdpdsl.load("riverswim").graph
    explorer = seen(graph, settings(steps=50, eta=0.4))
    assert explorer.episodes is not None
    assert all(r.note and "t* is" in r.note for r in explorer.episodes.records)
    with pytest.raises(ProgramError, match=r"episode 1, after 0 steps: eta = 0.4 is too large"):
        seen(graph, settings(steps=50, eta=0.4, strict=True))


def test_the_true_t_star_is_known_before_a_run() -> None:
    graph = mdpdsl.load("riverswim").graph
    assert require_floor(graph, settings(eta=1e-5)) is None
    assert require_floor(graph, settings(eta=None)) is None
    assert require_floor(graph, settings(algorithm="kappa-dp", eta=0.4)) is None
    warning = require_floor(graph, settings(eta=0.1))
    assert warning is not None
    assert "t* is 0.0" in warning
    with pytest.raises(SettingsError, match="at most"):
        require_floor(graph, settings(eta=0.1, strict=True))
    with pytest.raises(SettingsError, match=r"no policy can keep visiting 1 of 3 pairs"):
        require_floor(ruin(3), settings(eta=1e-9, strict=True))


def test_a_large_model_is_advised_to_do_without_linear_programs() -> None:
    graph = mdpdsl.load("gridworld", n=40).graph
    warning = slow_oracle(graph, settings())
    assert warning is not None
    assert "the backend evi" in warning
    assert slow_oracle(graph, settings(backend="evi")) is None
    assert slow_oracle(graph, settings(algorithm="kappa-dp")) is None
    assert slow_oracle(mdpdsl.load("riverswim").graph, settings()) is None


def test_a_solver_out_of_time_says_in_which_episode() -> None:
    graph = mdpdsl.load("pendulum").graph
    with pytest.raises(ProgramError, match=r"episode 1, after 0 steps: .*time limit"):
        seen(graph, settings(steps=100, oracle_seconds=1e-9))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"backend": "gurobi"}, "one of evi, highs, pyomo-highs"),
        ({"backend": "high"}, "did you mean `highs`"),
        ({"formulation": "ful"}, "did you mean `full`"),
        ({"radius": "hoeffding"}, "there are paper, weissman"),
        ({"eta": "much"}, "eta must be auto or a number"),
        ({"eta": -0.1}, "eta must be auto, or between 0 and 0.5"),
        ({"first_episode": 0}, "first_episode must be 1 or more"),
        ({"smoothing": 0}, "smoothing must be positive"),
        ({"oracle_seconds": 0}, "oracle_seconds must be positive"),
    ],
)
def test_settings_that_cannot_be_are_refused(change: dict[str, Any], message: str) -> None:
    graph = mdpdsl.load("weather").graph
    with pytest.raises(SettingsError, match=message):
        Explorer(
            graph,
            settings_from({"algorithm": "kappa-lp"}, change),
            np.random.default_rng(0),
        )


def test_auto_overrides_a_number_of_the_model() -> None:
    assert settings_from({"eta": "0.001"}).eta == 0.001
    assert settings_from({"eta": "0.001"}, {"eta": "auto"}).eta is None
