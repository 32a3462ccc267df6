"""Models as Gymnasium environments: `gymnasium.make("mdpdsl.envs:mdpdsl/Model-v0", model=…)`.

Importing this module registers the id `mdpdsl/Model-v0`. States and actions are numbered as in the
model's graph; a state in which only some episodes end has one number. An action may be unavailable
in some states: `info` contains the `action_mask`, and taking an unavailable action raises an error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from mdpdsl.compile.model import Model
from mdpdsl.formats.toy_text import Table, to_toy_text
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.load import load

ENVIRONMENT = "mdpdsl/Model-v0"


class ModelEnv(gymnasium.Env[Any, Any]):
    """A finite model, or the cells of a discretized one, one step at a time.

    An episode is terminated where the model ends it. After that, as in Gymnasium's environments,
    `step` warns, and nothing more happens until `reset`. In a model without ends, an episode ends
    in a state with the label `terminal` or, without that label, in one that no action leaves and
    that has no reward. If there is no such state either, episodes never end; pass
    `max_episode_steps` to `gymnasium.make` to truncate them.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own form)

    def __init__(
        self,
        model: str | Path | Model | TransitionGraph = "riverswim",
        render_mode: str | None = None,
        **parameters: Any,
    ) -> None:
        if render_mode is not None:
            raise ValueError("models cannot be rendered; leave out `render_mode`")
        if isinstance(model, str | Path):
            model = load(model, **parameters)
        elif parameters:
            raise ValueError("this model is already loaded; pass parameters to `load` instead")
        self.graph = model.graph if isinstance(model, Model) else model
        self.P: Table = to_toy_text(self.graph)
        self.initial_state_distrib: FloatArray = self.graph.initial[: len(self.P)]
        self.observation_space = gymnasium.spaces.Discrete(len(self.P))
        self.action_space = gymnasium.spaces.Discrete(self.graph.n_actions)
        self.render_mode = None
        self.s = -1
        self._is_over = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Draw an initial state, or start in the one given as `options={"state": 3}`."""
        super().reset(seed=seed)
        chosen = (options or {}).get("state")
        if chosen is None:
            chosen = self.np_random.choice(len(self.P), p=self.initial_state_distrib)
        if not 0 <= int(chosen) < len(self.P):
            raise ValueError(
                f"state {chosen} does not exist; states are numbered 0 to {len(self.P) - 1}"
            )
        if self.graph.ends is not None and self.graph.ends[int(chosen)]:
            raise ValueError(f"state {chosen} is an end: no episode starts there")
        self.s, self._is_over = int(chosen), False
        return self.s, {"prob": 1.0, "action_mask": self.action_mask(self.s)}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Take an action and draw the next state."""
        if self.s < 0:
            raise gymnasium.error.ResetNeeded("call reset before the first step")
        if self._is_over:
            gymnasium.logger.warn(
                "the episode was terminated, so `step` does nothing; call `reset` to start another"
            )
            info = {"prob": 1.0, "action_mask": self.action_mask(self.s)}
            return self.s, 0.0, True, False, info
        rows = self.P[self.s]
        if int(action) not in rows:
            listed = ", ".join(str(number) for number in rows)
            where = self.graph.states.native(self.s)
            raise ValueError(f"action {action} is not available in {where}; choose one of {listed}")
        row = rows[int(action)]
        chances = np.array([entry[0] for entry in row])
        place = int(self.np_random.choice(len(row), p=chances / chances.sum()))
        probability, self.s, reward, is_terminal = row[place]
        self._is_over = is_terminal and self.graph.ends is not None
        info = {"prob": probability, "action_mask": self.action_mask(self.s)}
        return self.s, reward, is_terminal, False, info

    def action_mask(self, state: int) -> np.ndarray:
        """Return 1 for each action available in a state and 0 for the others, [n_actions]."""
        mask = np.zeros(self.graph.n_actions, np.int8)
        mask[list(self.P[state])] = 1
        return mask


def gym_env(model: str | Path | Model | TransitionGraph, **parameters: Any) -> ModelEnv:
    """Return a model as a Gymnasium environment; `env.unwrapped.P` is its toy-text table.

    >>> import mdpdsl
    >>> env = mdpdsl.gym_env("riverswim", n=20)
    >>> state, info = env.reset(seed=0)
    >>> state, env.observation_space
    (0, Discrete(20))
    """
    return ModelEnv(model, **parameters)


if ENVIRONMENT not in gymnasium.registry:
    gymnasium.register(ENVIRONMENT, entry_point="mdpdsl.envs:ModelEnv")
