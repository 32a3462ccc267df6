"""Models as Gymnasium environments."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import mdpdsl
from mdpdsl.envs import ModelEnv

ID = "mdpdsl.envs:mdpdsl/Model-v0"


def test_gymnasium_makes_a_model_by_name_with_parameters() -> None:
    environment: Any = gymnasium.make(ID, model="riverswim", n=9, max_episode_steps=5)
    assert environment.observation_space == gymnasium.spaces.Discrete(9)
    assert environment.action_space == gymnasium.spaces.Discrete(2)
    environment.reset(seed=0)
    truncated = [environment.step(0)[3] for _ in range(5)]
    assert truncated == [False] * 4 + [True]


@pytest.mark.filterwarnings("ignore:.*")
@pytest.mark.parametrize("name", ["riverswim", "frozen_lake", "weather"])
def test_gymnasium_finds_nothing_wrong(name: str) -> None:
    check_env(mdpdsl.gym_env(name), skip_render_check=True)


def test_the_table_is_gymnasiums_own() -> None:
    theirs: Any = gymnasium.make("FrozenLake-v1").unwrapped
    ours: Any = mdpdsl.gym_env("frozen_lake").unwrapped
    for state in range(16):
        for action in range(4):
            mine = {t: (p, r, e) for p, t, r, e in ours.P[state][action]}
            for target in {entry[1] for entry in theirs.P[state][action]}:
                rows = [entry for entry in theirs.P[state][action] if entry[1] == target]
                assert mine[target][0] == pytest.approx(sum(row[0] for row in rows))
                assert mine[target][1:] == (rows[0][2], rows[0][3])


def test_steps_are_drawn_from_the_rows() -> None:
    model = mdpdsl.load("riverswim")
    environment = mdpdsl.gym_env(model)
    environment.reset(seed=3)
    n = 4000
    counts = np.zeros(6)
    for _ in range(n):
        environment.reset(options={"state": 2})
        counts[environment.step(1)[0]] += 1
    chances = np.zeros(6)
    targets, row = model.graph.row(model.graph.pair(2, 1))
    chances[targets] = row
    # Five standard deviations: one in a million is beyond.
    assert np.all(np.abs(counts / n - chances) <= 5 * np.sqrt(chances * (1 - chances) / n))


def test_a_seed_repeats_an_episode() -> None:
    environment = mdpdsl.gym_env("riverswim")
    episodes = []
    for _ in range(2):
        environment.reset(seed=11)
        episodes.append([environment.step(1)[0] for _ in range(30)])
    assert episodes[0] == episodes[1]


def test_an_episode_ends_in_a_state_that_is_never_left() -> None:
    environment = mdpdsl.gym_env("frozen_lake")
    environment.reset(options={"state": 4})
    outcomes = [environment.P[4][2]]
    assert {target: ends for row in outcomes for _, target, _, ends in row}[5] is True


@pytest.mark.parametrize("name", ["frozen_lake", "cliff_walking", "taxi"])
def test_an_episode_goes_as_in_gymnasium_to_its_end(name: str) -> None:
    """With the same draws of states, all that is returned is the same."""
    identifier = {"taxi": "Taxi-v4", "cliff_walking": "CliffWalking-v1"}.get(name, "FrozenLake-v1")
    theirs: Any = gymnasium.make(identifier).unwrapped
    ours = mdpdsl.gym_env(name)
    rng = np.random.default_rng(3)
    n_ends = 0
    for _ in range(300):
        state = int(rng.choice(len(ours.P), p=ours.initial_state_distrib))
        theirs.reset(seed=0)
        ours.reset(options={"state": state})
        theirs.s = state
        for _ in range(50):
            action = int(rng.integers(theirs.action_space.n))
            state, reward, ended, _, _ = ours.step(action)
            outcomes = {(t, float(r), bool(e)) for _, t, r, e in theirs.P[theirs.s][action]}
            assert (state, reward, ended) in outcomes
            theirs.s = state
            n_ends += ended
            if ended:
                break
    assert (n_ends > 0) == (name == "frozen_lake")


def test_nothing_happens_after_an_end_but_a_warning() -> None:
    environment = mdpdsl.gym_env("windy_gridworld")
    goal = environment.graph.state(row=3, col=7)
    beside = environment.graph.state(row=4, col=8)
    left, right = (environment.graph.actions.labels.index(name) for name in ("left", "right"))
    environment.reset(options={"state": beside})
    assert environment.step(left)[:3] == (goal, -1.0, True)
    with pytest.warns(UserWarning, match="call `reset` to start another"):
        assert environment.step(right)[:3] == (goal, 0.0, True)
    state, _ = environment.reset(seed=1)
    assert environment.graph.initial[state] == 1
    assert environment.step(right)[2] is False


def test_a_state_that_ends_only_some_episodes_is_one_observation() -> None:
    table = {
        0: {0: [(0.5, 1, 0.0, False), (0.5, 1, 1.0, True)]},
        1: {0: [(1.0, 0, 2.0, False)]},
    }
    environment = mdpdsl.gym_env(mdpdsl.from_arrays(table, initial=0))
    assert environment.observation_space == gymnasium.spaces.Discrete(2)
    assert table == environment.P
    environment.reset(seed=5)
    seen = set()
    for _ in range(60):
        state, reward, ended, _, _ = environment.step(0)
        seen.add((state, reward, ended))
        if ended:
            with pytest.warns(UserWarning, match="terminated"):
                assert environment.step(0)[:3] == (1, 0.0, True)
            environment.reset()
    assert seen == {(1, 1.0, True), (1, 0.0, False), (0, 2.0, False)}


def test_an_action_that_is_not_available_is_refused_and_masked() -> None:
    environment = mdpdsl.gym_env("gambler")
    _, info = environment.reset(options={"state": 1})
    assert info["action_mask"].sum() == len(environment.P[1]) < environment.graph.n_actions
    missing = int(np.argmin(info["action_mask"]))
    with pytest.raises(ValueError, match="not available"):
        environment.step(missing)


def test_mistakes_are_refused() -> None:
    with pytest.raises(gymnasium.error.ResetNeeded):
        mdpdsl.gym_env("riverswim").step(0)
    with pytest.raises(ValueError, match="0 to 5"):
        mdpdsl.gym_env("riverswim").reset(options={"state": 6})
    with pytest.raises(ValueError, match="state 5 is an end"):
        mdpdsl.gym_env("frozen_lake").reset(options={"state": 5})
    with pytest.raises(ValueError, match="already loaded"):
        mdpdsl.gym_env(mdpdsl.load("riverswim"), n=3)
    with pytest.raises(ValueError, match="dynamics of this model are unknown"):
        mdpdsl.gym_env("pendulum_unknown")
    with pytest.raises(ValueError, match="cannot be rendered"):
        ModelEnv("riverswim", render_mode="human")
