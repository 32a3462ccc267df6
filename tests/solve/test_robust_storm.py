"""Robust reachability against Storm, on the interval models that we export."""

from __future__ import annotations

from pathlib import Path

import pytest

import mdpdsl
from mdpdsl.compile.model import Model
from mdpdsl.solve.robust_answer import RobustSolution
from tests.estimate.test_interval_model import WALK
from tests.formats.storm_reads import read_interval_drn, robust_bounds

#: Five models with a label to reach, and how many steps of each are logged.
MODELS = {
    "walk": ("goal", 3_000),
    "frozen_lake": ("goal", 20_000),
    "gambler": ("won", 40_000),
    "knuth_yao": ("six", 5_000),
    "zeroconf": ("clash", 20_000),
}
SEEDS = range(4)
TOLERANCE = 1e-6


def model_of(name: str) -> Model:
    return mdpdsl.loads(WALK) if name == "walk" else mdpdsl.load(name)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", MODELS)
def test_guaranteed_and_possible_are_storms(name: str, seed: int, tmp_path: Path) -> None:
    label, steps = MODELS[name]
    model = model_of(name)
    log = mdpdsl.simulate(model, steps=steps, seed=seed)
    found = mdpdsl.estimate(model, log, support="model", out=tmp_path / "run")
    mdpdsl.export(found, tmp_path / "model.drn", intervals=True, all_states=True)
    storm = read_interval_drn(tmp_path, (tmp_path / "model.drn").read_text())
    initial = found.as_model(all_states=True).graph.initial
    for best in ("max", "min"):
        formula = f'P{best}=? [ F "{label}" ]'
        low, high = (float(initial @ side) for side in robust_bounds(storm, formula))
        solved = mdpdsl.solve(found, formula, robust=True)
        assert isinstance(solved, RobustSolution)
        worst, kind = (low, high) if best == "max" else (high, low)
        assert solved.guaranteed == pytest.approx(worst, abs=TOLERANCE)
        assert solved.possible == pytest.approx(kind, abs=TOLERANCE)
