"""Live systems for tests: small, random, and with whatever goes wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import mdpdsl
from mdpdsl.compile.model import Model

WALK = """\
mdp walk
state x in 0..4
state mood in {calm, wild}
action go, wait
"""


def walk_model(text: str = WALK) -> Model:
    return mdpdsl.loads(text)


class Walk:
    """A random walk on 0..4 whose episodes end at 4; it remembers every transition it made."""

    def __init__(self, seed: int = 0) -> None:
        self.generator = np.random.default_rng(seed)
        self.made: list[tuple[dict[str, Any], str, dict[str, Any]]] = []
        self.resets = 0
        self.now: dict[str, Any] = {}

    def reset(self) -> dict[str, Any]:
        self.resets += 1
        self.now = {"x": int(self.generator.integers(0, 3)), "mood": "calm"}
        return dict(self.now)

    def step(self, action: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        change = int(self.generator.integers(-1, 2)) if action["action"] == "go" else 0
        x = min(4, max(0, self.now["x"] + change))
        following = {"x": x, "mood": str(self.generator.choice(["calm", "wild"]))}
        self.made.append((self.now, action["action"], following))
        self.now = following
        return dict(following), x == 4


class Faulty(Walk):
    """A walk with something wrong in some of its steps."""

    def __init__(self, faults: Mapping[int, Any], seed: int = 0) -> None:
        super().__init__(seed)
        self.faults = faults
        self.n_steps = 0

    def step(self, action: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        answer = super().step(action)
        self.n_steps += 1
        fault = self.faults.get(self.n_steps)
        if isinstance(fault, BaseException):
            self.made.pop()
            raise fault
        if fault is not None:
            self.made.pop()
            return {**answer[0], **fault}, answer[1]
        return answer
