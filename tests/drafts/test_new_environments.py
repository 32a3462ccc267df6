"""Drafts from environments: they check, and `explore --env` runs with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import mdpdsl
from mdpdsl.diagnostics import SettingsError

#: Environments by their names, with lines that their drafts have.
DRAFTS = {
    "CartPole": ["state obs_0 in [-4.8, 4.8] bins", "sets no limits for obs_1", "action u in 0..1"],
    "FrozenLake": ["state s in 0..15", "action u in 0..3", "s = obs"],
    "MountainCar": ["state obs_0 in [-1.2, 0.6] bins 20", "state obs_1 in [-0.07, 0.07] bins 20"],
    "Pendulum": ["state obs_2 in [-8, 8] bins", "action u in {-2, -1, 0, 1, 2}"],
    "Taxi": ["state s in 0..499", "action u in 0..5"],
    "CliffWalking": ["state s in 0..47", "action u in 0..3"],
    "Blackjack": ["state obs_0 in 0..31", "state obs_2 in 0..1", "action u in 0..1"],
}


#: States that are only observed in part, or drawn at random, may end an episode or not.
pytestmark = pytest.mark.filterwarnings("ignore:some episodes ended and others continued")


def newest(name: str) -> str:
    """Return the id of an environment in the version that is installed."""
    return max(each for each in gymnasium.registry if each.startswith(f"{name}-v"))


@pytest.mark.parametrize("name", DRAFTS)
def test_an_environment_can_be_explored_with_its_draft(name: str) -> None:
    draft = mdpdsl.new(newest(name))
    for line in DRAFTS[name]:
        assert line in draft.text, draft.text
    assert mdpdsl.format_text(draft.text) == draft.text
    run = mdpdsl.explore(draft.model, env=newest(name), steps=200)
    assert run.figures.transitions == 200
    assert run.record()["rejected"] == {}


class Box(gymnasium.Env[Any, Any]):
    """An environment with given spaces, whose observations are drawn from theirs."""

    def __init__(self, observations: spaces.Space[Any], actions: spaces.Space[Any]) -> None:
        self.observation_space, self.action_space = observations, actions

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        return self.observation_space.sample(), 0.0, bool(self.np_random.random() < 0.1), False, {}


UNIT = spaces.Box(-1, 1, (2,), np.float64)
SPACES: dict[str, tuple[spaces.Space[Any], spaces.Space[Any], list[str]]] = {
    "a dictionary": (
        spaces.Dict(
            {"goal": spaces.Discrete(3, start=1), "state": UNIT, "time": spaces.Discrete(2)}
        ),
        spaces.MultiDiscrete([2, 3]),
        ["state goal in 1..3", "state state_0 in [-1, 1] bins", "action u_1 in 0..2"],
    ),
    "a tuple": (
        spaces.Tuple((spaces.MultiBinary(2), spaces.Box(0, 9, (), np.int64))),
        spaces.MultiBinary(2),
        ["state obs_0_0 in 0..1", "state obs_1 in 0..9", "action u_1 in 0..1"],
    ),
    "numbers without limits": (
        spaces.Box(-np.inf, np.inf, (2,), np.float64),
        spaces.Box(-np.inf, np.inf, (1,), np.float64),
        ["sets no limits for obs_1", "action u in {-1, 0, 1}", "choose values that are safe"],
    ),
    "single precision": (
        spaces.Box(0, 0.7, (1,), np.float32),
        spaces.Box(-0.7, 0.7, (3,), np.float32),
        ["state obs_0 in [0, 0.7] bins", "action u_2 in {-0.7, -0.35, 0, 0.35, 0.7}"],
    ),
    "whole numbers": (
        spaces.Box(-3, 3, (1,), np.int32),
        spaces.Box(0, 100, (1,), np.int32),
        ["state obs_0 in -3..3", "action u in {0, 25, 50, 75, 100}"],
    ),
    "many numbers": (
        spaces.Box(-1, 1, (40,), np.float64),
        spaces.Discrete(2),
        ["# state obs_39 in [-1, 1] bins 2", "obs_13, obs_14", "discretize center"],
    ),
}


@pytest.mark.parametrize("name", SPACES)
def test_every_kind_of_space_has_a_draft_that_explores(name: str) -> None:
    observations, actions, lines = SPACES[name]
    draft = mdpdsl.new(Box(observations, actions))
    for line in lines:
        assert line in draft.text, draft.text
    run = mdpdsl.explore(draft.model, system=Box(observations, actions), steps=100)
    assert run.record()["rejected"] == {}


def test_the_same_seed_gives_the_same_draft() -> None:
    first, second, other = (mdpdsl.new("CartPole-v1", seed=seed).text for seed in (1, 1, 2))
    assert first == second != other


def test_arguments_make_another_environment() -> None:
    draft = mdpdsl.new("FrozenLake-v1", env_arguments={"map_name": "8x8"})
    assert "state s in 0..63" in draft.text


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (("NoSuchThing-v3",), {}, "there is no environment NoSuchThing-v3"),
        (("CartPole-v1", "MountainCar-v0"), {}, "give one environment"),
        (("CartPole-v1",), {"action": "u"}, "are for the columns of logs"),
        ((Box(UNIT, spaces.Box(-1, 1, (12,), np.float32)),), {}, "12 numbers as its action"),
        ((Box(UNIT, spaces.Text(3)),), {}, "which a model's actions cannot become"),
        ((Box(spaces.Box(0, 255, (9, 9, 3), np.uint8), UNIT),), {}, "a picture of shape (9, 9, 3)"),
    ],
)
def test_mistakes_are_explained(given: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        mdpdsl.new(*given, **options)
    assert message in str(raised.value)


def test_a_file_that_is_named_like_an_environment_is_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("CartPole-v1").mkdir()
    Path("CartPole-v1/log.csv").write_text("x,u\n1,0\n2,1\n1,0\n2,0\n", "utf-8")
    assert "state x in 1..2" in mdpdsl.new("CartPole-v1").text
    assert "obs_3" in mdpdsl.new("gym:CartPole-v1").text
