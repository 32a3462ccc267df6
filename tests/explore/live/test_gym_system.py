"""Gymnasium's spaces as columns and actions."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import mdpdsl
from mdpdsl.diagnostics import SettingsError
from mdpdsl.explore.live.gym_system import GymSystem, make_environment
from mdpdsl.graph.space import Product


class Fixed(gymnasium.Env[Any, Any]):
    """Observes what it is given, and remembers what it is asked to do."""

    def __init__(self, observation_space: Any, action_space: Any, observation: Any = None) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self.observation = observation
        self.done: list[Any] = []
        self.seeds: list[int | None] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self.seeds.append(seed)
        return self.observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.done.append(action)
        return self.observation, 0.0, False, False, {}


def actions_of(declared: str) -> Product:
    return mdpdsl.loads(f"mdp m\nstate x in 0..1\n{declared}").checked.actions


def system_of(observation: Any, space: Any) -> GymSystem:
    env = Fixed(space, spaces.Discrete(2), observation)
    return GymSystem(env, actions_of("action a, b"), seed=0, name="Test-v0")


BOX = spaces.Box(-1, 1, (2,))


@pytest.mark.parametrize(
    ("space", "observation", "expected"),
    [
        (BOX, np.array([0.5, -1], np.float32), {"obs_0": 0.5, "obs_1": -1.0}),
        (spaces.Box(0, 1, ()), np.array(0.25), {"obs_0": 0.25}),
        (spaces.Box(0, 1, (1, 2)), np.array([[0.0, 1.0]]), {"obs_0_0": 0.0, "obs_0_1": 1.0}),
        (spaces.Discrete(4), np.int64(3), {"obs_0": 3, "obs": 3}),
        (spaces.MultiDiscrete([2, 3]), np.array([1, 2]), {"obs_0": 1, "obs_1": 2}),
        (
            spaces.Tuple((spaces.Discrete(3), BOX)),
            (1, np.array([0.0, 1.0])),
            {"obs_0": 1, "obs_1_0": 0.0, "obs_1_1": 1.0},
        ),
        (
            spaces.Dict(
                {"position": BOX, "state": spaces.Discrete(2), "my key": spaces.Discrete(2)}
            ),
            {"position": np.array([0.0, 1.0]), "state": 1, "my key": 0},
            {"my_key": 0, "position_0": 0.0, "position_1": 1.0, "state_0": 1},
        ),
        (
            spaces.Dict({"arm": spaces.Dict({"angle": spaces.Box(0, 1, (1,))}), "9": BOX}),
            {"arm": {"angle": np.array([1.0])}, "9": np.array([0.0, 1.0])},
            {"arm_angle_0": 1.0, "obs_9_0": 0.0, "obs_9_1": 1.0},
        ),
        (
            spaces.Dict({"a b": spaces.Discrete(2), "a_b": spaces.Discrete(3)}),
            {"a b": 1, "a_b": 2},
            {"a_b": 1, "a_b_": 2},
        ),
    ],
)
def test_an_observation_becomes_columns(space: Any, observation: Any, expected: Any) -> None:
    system = system_of(observation, space)
    found = system.reset()
    assert found == expected
    assert tuple(found) == system.columns
    assert all(type(value) in (int, float) for value in found.values())


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Box(0, 255, (84, 84, 3), np.uint8), "a picture of shape"),
        (spaces.Box(0, 1, (2_000,)), "an array of shape"),
        (spaces.Text(5), "kind Text, which has no columns"),
        (spaces.Dict({"camera": spaces.Box(0, 255, (2, 2), np.uint8)}), "a picture"),
    ],
)
def test_what_has_no_columns_is_refused(space: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        system_of(None, space)


@pytest.mark.parametrize(
    ("space", "declared", "action", "expected"),
    [
        (spaces.Discrete(2), "action l, r", {"action": "r"}, 1),
        (spaces.Discrete(2, start=5), "action l, r", {"action": "r"}, 6),
        (spaces.Discrete(9), "action n in {3, 8}", {"n": 8}, 8),
        (spaces.Discrete(2), "action on_ in bool", {"on_": True}, 1),
        (spaces.Box(-2, 2, (1,)), "action u in {-2, 0.5}", {"u": 0.5}, [0.5]),
        (spaces.Box(-2, 2, ()), "action u in {-2, 0.5}", {"u": -2}, -2.0),
        (
            spaces.Box(np.array([-1, 0], np.float32), np.array([1, 9], np.float32)),
            "action u in {-1, 1}\naction v in 2..9",
            {"u": 1, "v": 7},
            [1, 7],
        ),
        (
            spaces.MultiDiscrete([2, 3]),
            "action u in 0..1\naction v in {p, q, r}",
            {"u": 1, "v": "q"},
            [1, 1],
        ),
        (spaces.MultiBinary(2), "action u in bool\naction v in bool", {"u": 1, "v": 0}, [1, 0]),
    ],
)
def test_an_action_becomes_the_environment_s(
    space: Any, declared: str, action: Any, expected: Any
) -> None:
    env = Fixed(spaces.Discrete(2), space, 0)
    system = GymSystem(env, actions_of(declared), seed=0)
    system.step(action)
    assert np.array_equal(env.done[0], expected)
    assert space.contains(env.done[0])


def test_a_number_at_a_limit_of_single_precision_is_allowed() -> None:
    env = Fixed(spaces.Discrete(2), spaces.Box(-0.1, 0.1, (1,)), 0)
    GymSystem(env, actions_of("action u in {-0.1, 0.1}"), seed=0).step({"u": 0.1})
    assert env.action_space.contains(env.done[0])


@pytest.mark.parametrize(
    ("space", "declared", "message"),
    [
        (spaces.Discrete(3), "action l, r", "has 3 actions and the model names 2"),
        (spaces.Discrete(3), "action n in 0..3", "n = 3 is not an action.*from 0 to 2"),
        (spaces.Discrete(3), "action n in {0.5, 1}", "n = 0.5 is not an action"),
        (spaces.Discrete(3), "action u in 0..1\naction v in 0..1", "one whole number.*u, v"),
        (spaces.Box(-2, 2, (1,)), "action u in {-3, 0}", "u = -3 is not an action.*from -2 to 2"),
        (spaces.Box(-2, 2, (2,)), "action u in {-1, 0}", r"shape \(2,\), 2 numbers.*have 1: u"),
        (spaces.Box(-2, 2, (1, 1)), "action u in {-1, 0}", r"shape \(1, 1\)"),
        (spaces.Box(-2, 2, (1,)), "action l, r", "numbers from -2 to 2.*has names"),
        (spaces.Box(0, 5, (1,), np.int32), "action u in {0.5, 1}", "whole numbers from 0 to 5"),
        (spaces.MultiDiscrete([2, 3]), "action u in 0..1", "takes 2 whole numbers"),
        (spaces.MultiDiscrete([2, 3]), "action u in 0..1\naction v in 0..3", "v = 3 is not"),
        (spaces.Dict({"a": spaces.Discrete(2)}), "action l, r", "a model's actions cannot become"),
    ],
)
def test_actions_that_do_not_fit_are_refused(space: Any, declared: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        GymSystem(Fixed(spaces.Discrete(2), space), actions_of(declared), seed=0, name="Test-v0")


@pytest.mark.parametrize("flags", [(False, False), (True, False), (False, True), (True, True)])
def test_terminated_and_truncated_are_kept_apart(flags: tuple[bool, bool]) -> None:
    class Stopping(Fixed):
        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            return self.observation, 0.0, np.bool_(flags[0]), flags[1], {}  # type: ignore[return-value]

    env = Stopping(spaces.Discrete(2), spaces.Discrete(2), 0)
    system = GymSystem(env, actions_of("action a, b"), seed=0)
    assert system.step({"action": "a"})[1:] == flags


def test_every_episode_has_a_seed_of_its_own_from_the_run_s() -> None:
    def seeds(seed: int, episodes: list[int]) -> list[int | None]:
        env = Fixed(spaces.Discrete(2), spaces.Discrete(2), 0)
        system = GymSystem(env, actions_of("action a, b"), seed=seed)
        for episode in episodes:
            system.seed_episode(episode)
            system.reset()
        return env.seeds

    first = seeds(0, [0, 1, 2])
    assert len(set(first)) == 3
    assert seeds(0, [2, 1]) == [first[2], first[1]]
    assert seeds(1, [0]) != first[:1]


@pytest.mark.parametrize(
    ("identifier", "arguments", "message"),
    [
        ("Pendulm-v1", {}, "there is no environment Pendulm-v1.*Pendulum"),
        ("Pendulum-v9", {}, "there is no environment Pendulum-v9"),
        ("no_such_module:Foo-v0", {}, "cannot make the environment"),
        ("Pendulum-v1", {"gravity": 3}, "cannot make the environment.*gravity"),
    ],
)
def test_environments_that_cannot_be_made_are_refused(
    identifier: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError, match=f"(?s){message}"):
        make_environment(identifier, arguments)


def test_without_gymnasium_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(SettingsError, match=r'pip install "mdpdsl\[gym\]"'):
        make_environment("Pendulum-v1", {})
