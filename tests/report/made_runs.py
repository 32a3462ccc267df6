"""Runs of every kind, made once by the commands and the API that people use."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import mdpdsl
from mdpdsl.explore.live.session import explore_live
from tests.cli.run import quick

#: Two variables, one of them real; small and quick to explore completely.
PLANE = """\
mdp plane "A walk <on> a plane & back"
param p = 0.5
state x in [0, 3] clip bins 3
state up in bool
action step, flip
noise w ~ normal(0, 0.6)
init x = 1, up = false
on step -> p: x' = x + 1 + w | 1 - p: x' = x - 1 + w
on flip -> up' = not up
explore { kappa = 2  steps = 2_000 }
"""
#: A property of the plane.
SOON_UP = "Pmax=? [ F<=4 up & x>2 ]"


#: Two of its nine states are ends.
POND = """\
mdp pond
state row in 0..2
state col in 0..2
action down, right
init row = 0, col = 0
on down -> row' = (row + 1) % 3
on right -> col' = (col + 1) % 3
end when row == 1 and col == 1
end when row == 2 and col == 2
label goal when row == 2 and col == 2
"""


def pond_log() -> str:
    """Return a log in which episodes end where the model says."""
    draw, lines = random.Random(0), ["episode,time,row,col,action"]
    for episode in range(60):
        row = col = time = 0
        while (row, col) not in ((1, 1), (2, 2)):
            action = draw.choice(("down", "right"))
            lines.append(f"{episode},{time},{row},{col},{action}")
            row, col = ((row + 1) % 3, col) if action == "down" else (row, (col + 1) % 3)
            time += 1
        lines.append(f"{episode},{time},{row},{col},")
    return "\n".join(lines) + "\n"


class Heater:
    """A live system that is called from a program."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._celsius = 20.0

    def reset(self) -> dict[str, float]:
        self._celsius = 20.0
        return {"celsius": self._celsius}

    def step(self, action: Mapping[str, object]) -> tuple[dict[str, float], bool]:
        power = 6 if action["action"] == "heat" else 0
        self._celsius += power - 0.1 * (self._celsius - 20) + self._random.gauss(0, 1)
        return {"celsius": self._celsius}, self._celsius > 85


HEATER = "mdp heater  state celsius in [15, 90] bins 5  action heat, wait"


def made_runs(folder: Path) -> dict[str, Path]:
    """Make a run of every kind below a folder; return their paths by kind."""
    model = folder / "plane.mdp"
    model.write_text(PLANE, "utf-8")
    log = folder / "log.csv"
    pond, pond_rows = folder / "pond.mdp", folder / "pond.csv"
    pond.write_text(POND, "utf-8")
    pond_rows.write_text(pond_log(), "utf-8")
    places = {
        name: folder / name
        for name in (
            *("explore", "single", "estimate", "ends", "replay", "live", "compare", "compare-log"),
            "bounds",
        )
    }
    commands: list[tuple[str | Path, ...]] = [
        ("explore", model, "--trials", "3", "--jobs", "1", "--out", places["explore"]),
        ("explore", "riverswim", "--steps", "2000", "--set", "n=5", "--out", places["single"]),
        (
            *("explore", model, "--trials", "2", "--jobs", "1", "--property", SOON_UP),
            *("--steps", "2000", "--out", places["bounds"]),
        ),
        ("simulate", model, "--steps", "3000", "--out", log),
        ("estimate", model, log, "--out", places["estimate"]),
        ("estimate", pond, pond_rows, "--out", places["ends"]),
        ("explore", model, "--log", log, "--trials", "2", "--jobs", "1", "--out", places["replay"]),
        (
            *("compare", model, "--algorithm", "kappa-dp", "--algorithm", "random"),
            *("--steps", "1000", "--trials", "2", "--jobs", "1", "--save", places["compare"]),
        ),
        (
            *("compare", model, "--algorithm", "maxent", "--algorithm", "random", "--log", log),
            *("--trials", "2", "--jobs", "1", "--save", places["compare-log"]),
        ),
    ]
    for command in commands:
        done = quick(*command, "--quiet")
        assert done.status == 0, (command, done.stderr)
    explore_live(mdpdsl.loads(HEATER), Heater(), places["live"], kappa=2, steps=500)
    return places
