"""Logs of the finite model of a continuous system, and data that no numbers fit."""

from __future__ import annotations

import json

import pytest

import mdpdsl

CART = """\
mdp cart
unknown push in [0, 1] = 0.3
state v in [-2, 2] bins 8
action u in {-1, 0, 1}
noise w ~ normal(0, 0.4)
init v = 0
v' = 0.9*v + push*u + w
reward : v
"""


def test_steps_between_centres_of_cells_are_those_of_the_finite_model() -> None:
    model = mdpdsl.loads(CART)
    numbers = mdpdsl.estimate(model, mdpdsl.simulate(model, steps=4_000, seed=1)).numbers
    assert numbers is not None
    (push,) = numbers.parameters.records()
    assert push["low"] <= 0.3 <= push["high"]
    assert numbers.n_misfit == 0
    assert numbers.source == "counts"
    assert "centres of cells" in numbers.notes[-1]
    raw = mdpdsl.simulate(model, steps=500, seed=1, simulate="continuous")
    found = mdpdsl.estimate(model, raw).numbers
    assert found is not None
    assert found.source == "raw values"


@pytest.mark.filterwarnings("ignore::mdpdsl.MdpdslWarning")
def test_an_estimate_that_no_number_fits_is_still_a_model() -> None:
    text = CART.replace("push in [0, 1] = 0.3", "lo in [-1, 0]")
    model = mdpdsl.loads(
        text.replace("normal(0, 0.4)", "uniform(lo, 0.5)").replace("push*u + ", "")
    )
    rows = [{"time": i, "v": v, "u": 1} for i, v in enumerate((0.1, 1.9, 0.2, 1.7, -1.2))]
    run = mdpdsl.estimate(model, [rows])
    assert run.numbers is not None
    assert run.numbers.n_misfit > 0
    json.dumps(dict(run.as_model().parameters), allow_nan=False)
    json.dumps(run.record(), allow_nan=False)
