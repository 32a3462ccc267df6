"""What it is worth to say what is known: unknown numbers and probabilities.

    python benchmarks/knowledge.py [lake] [pendulum] [design] [--seeds N] [--json]

* lake: FrozenLake and 6,210 random transitions. The guaranteed probability of reaching the goal if
  one slip rules all rows, if only the neighbours are known (`?`), and if nothing is; and how often
  the interval of the slip covers the truth.
* pendulum: 5,000 raw steps of the continuous system with unknown damping and torque gain. How often
  each number is within three reported deviations of the truth, and whether a model with the wrong
  gravity is reported as misfit.
* design: three models whose best experiment is much better than random actions. The criterion
  tr(W (sum T F)^-1) at the truth of `explore --for parameters`, divided by the certified optimum,
  and the deviations of many estimates divided by the predicted ones.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import mdpdsl
from mdpdsl.compile.family import Family
from mdpdsl.estimate.learned_numbers import fitted_law

DELTA = 0.1
REACH = 'Pmax=? [ F "goal" ]'
MODELS = Path(__file__).parent.parent / "models"


def lake(seeds: int) -> dict[str, Any]:
    """Return what is certified of a slippery lake, by what the file says."""
    text = (MODELS / "frozen_lake.mdp").read_text("utf-8")
    one = text.replace("param success = 1/3               #", "unknown success in [0, 1] = 1/3   #")
    opened = text.replace("success:", "?=success:").replace("slide:", "?=slide:")
    truth = 14 / 17
    found: dict[str, list[float]] = {"number": [], "support": [], "spaces": []}
    covered = held = 0
    began = time.perf_counter()
    for seed in range(seeds):
        log = mdpdsl.simulate(mdpdsl.loads(text), steps=6_210, seed=seed)
        estimate = mdpdsl.estimate(mdpdsl.loads(one), log, delta=DELTA)
        assert estimate.numbers is not None
        (slip,) = estimate.numbers.parameters.records()
        covered += slip["low"] <= 1 / 3 <= slip["high"]
        solution = _solved(estimate)
        held += solution.guaranteed <= truth <= solution.possible
        found["number"].append(solution.guaranteed)
        for name, model in (("support", mdpdsl.loads(opened)), ("spaces", mdpdsl.loads(text))):
            estimate = mdpdsl.estimate(model, log, delta=DELTA)
            found[name].append(_solved(estimate).guaranteed)
    return {
        "seeds": seeds,
        "truth": truth,
        "medians": {name: float(np.median(values)) for name, values in found.items()},
        "interval covers": covered / seeds,
        "bounds hold": held / seeds,
        "seconds": time.perf_counter() - began,
    }


def _solved(estimate: mdpdsl.Estimate) -> mdpdsl.RobustSolution:
    found = mdpdsl.solve(estimate, REACH, robust=True)
    assert isinstance(found, mdpdsl.RobustSolution)
    return found


PENDULUM = """\
mdp pendulum "A pendulum whose damping and torque are not known"
param g = 10.0
param dt = 0.05
unknown damping in [0, 1] = 0.2
unknown gain in [0.5, 1.5] = 1.1
state theta in [-pi, pi] wrap bins 10
state omega in [-8, 8] clip bins 10
action u in {-2, -1, 0, 1, 2}
noise wt ~ normal(0, 0.12)
noise wv ~ normal(0, 0.1)
init theta = pi, omega = 0
let speed = clip(omega + (1.5*g*sin(theta) + 3*gain*u - damping*omega)*dt, -8, 8)
omega' = speed + wv
theta' = theta + speed*dt + wt
discretize center
"""
TRUTH = {"damping": 0.2, "gain": 1.1}


def pendulum(seeds: int) -> dict[str, Any]:
    """Return how near the estimates of a raw continuous pendulum are to the truth."""
    model = mdpdsl.loads(PENDULUM)
    wrong = mdpdsl.loads(PENDULUM, g=8.0)
    near = dict.fromkeys(TRUTH, 0)
    covered, alarms, misfits = 0, 0, 0
    began = time.perf_counter()
    for seed in range(seeds):
        log = mdpdsl.simulate(model, steps=5_000, seed=seed, simulate="continuous")
        numbers = mdpdsl.estimate(model, log, delta=DELTA).numbers
        assert numbers is not None
        alarms += numbers.n_misfit > 0
        inside = True
        for each in numbers.parameters.records():
            off = abs(each["value"] - TRUTH[each["name"]])
            near[each["name"]] += off <= 3 * each["deviation"]
            inside &= each["low"] <= TRUTH[each["name"]] <= each["high"]
        covered += inside
        if seed < max(1, seeds // 10):
            mistaken = mdpdsl.estimate(wrong, log, delta=DELTA).numbers
            assert mistaken is not None
            misfits += mistaken.n_misfit > 0
    return {
        "seeds": seeds,
        "within three deviations": {name: count / seeds for name, count in near.items()},
        "set covers": covered / seeds,
        "false alarms": alarms / seeds,
        "wrong gravity reported": misfits / max(1, seeds // 10),
        "seconds": time.perf_counter() - began,
    }


RIVER = """\
mdp river
unknown swim in [0.05, 0.95] = 0.35
unknown last in [0.05, 0.95] = 0.6
state x in 0..7
action left, right
init x = 0
on left -> x' = max(x - 1, 0)
on right when x == 0 -> swim: x' = 1 | 1 - swim: stay
on right when x > 0 and x < 7 -> 0.9*swim: x' = x + 1 | 0.9*(1 - swim): stay | 0.1: x' = x - 1
on right when x == 7 -> last: stay | 1 - last: x' = 6
"""
COINS = """\
mdp coins
unknown west in [0, 1] = 0.2
unknown east in [0, 1] = 0.6
state x in 0..29
action left, right, toss
init x = 0
on left -> x' = max(x - 1, 0)
on right -> x' = min(x + 1, 29)
on toss when x == 0 -> west: x' = 1 | 1 - west: stay
on toss when x == 29 -> east: x' = 28 | 1 - east: stay
"""
LABORATORY = """\
mdp laboratory
unknown first in [0, 1] = 0.3
unknown second in [0, 0.5] = 0.1
unknown drift in [-1, 1] = 0.2
state x in 0..11
action left, right, toss
init x = 0
on left -> x' = max(x - 1, 0)
on right -> x' = min(x + 1, 11)
on toss when x == 0 -> first: x' = 1 | 1 - first: stay
on toss when x > 0 and x < 11 -> 0.5 + 0.1*drift: stay | 0.5 - 0.1*drift: x' = x - 1
on toss when x == 11 -> second: x' = 10 | 1 - second: stay
"""
#: Steps of each experiment.
STEPS = 10_000
#: Experiments whose estimates are compared with the deviations that they promise.
ESTIMATES = 400


def design(seeds: int) -> dict[str, Any]:
    """Return how near explorers for parameters come to the best experiment."""
    return {
        name: _designed(text, seeds)
        for name, text in (("river", RIVER), ("coins", COINS), ("laboratory", LABORATORY))
    }


def _designed(text: str, seeds: int) -> dict[str, Any]:
    model = mdpdsl.loads(text)
    best = mdpdsl.allocate(model, purpose="parameters", steps=STEPS)
    how: Any = {"purpose": "parameters", "steps": STEPS}
    runs = [mdpdsl.explore(model, **how, seed=1_000 + i) for i in range(seeds)]
    ratios = np.array([run.design_ratio for run in runs], np.float64)
    run = mdpdsl.explore(model, **how, trials=ESTIMATES, seed=1)
    family = Family(model.checked, model.graph)
    F = family.information(best.theta)
    found, predicted = [], []
    for trial in run.trials:
        law = fitted_law(model.checked, model.graph, trial.counts)
        assert law is not None
        found.append(law.theta)
        covariance = np.linalg.inv(np.tensordot(trial.counts.visits.astype(float), F, axes=1))
        predicted.append(np.diag(covariance))
    measured = np.sqrt(np.mean((np.array(found) - best.theta) ** 2, axis=0))
    expected = np.sqrt(np.mean(predicted, axis=0))
    return {
        "random deviation / best": float(np.sqrt(best.random.objective / best.objective)),
        "criterion / optimum, mean": float(np.mean(ratios)),
        "criterion / optimum, largest": float(np.max(ratios)),
        "certified gap": best.gap,
        "measured / predicted deviation": dict(
            zip(best.names, (measured / expected).round(3).tolist(), strict=True)
        ),
    }


def main() -> None:
    """Print the figures of the parts asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=["lake", "pendulum", "design", []])
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", mdpdsl.MdpdslWarning)
    parts = {"lake": (lake, 200), "pendulum": (pendulum, 100), "design": (design, 30)}
    found = {}
    for name in arguments.parts or parts:
        run, seeds = parts[name]
        found[name] = run(arguments.seeds or seeds)
        if not arguments.json:
            print(name)
            for key, value in found[name].items():
                print(f"  {key}: {value}")
    if arguments.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
