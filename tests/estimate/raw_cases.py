"""Laws, raw steps and fits that several tests of raw likelihoods share."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize

import mdpdsl
from mdpdsl.compile.checked import CheckedModel
from mdpdsl.compile.system import cell_numbers
from mdpdsl.estimate.raw_law import RawLaw, raw_law
from mdpdsl.estimate.raw_likelihood import RawLikelihood
from mdpdsl.graph.space import FloatArray
from mdpdsl.logs.raw_steps import RawTransitions

LINEAR = """\
mdp linear
unknown a in [-2, 2]
unknown b in [-2, 2]
state x in [-100, 100] bins 4
action u in {-1, 0, 2}
noise w ~ normal(0, 0.5)
x' = a*x + b*u + w
"""

CLIPPED = """\
mdp clipped
unknown drift in [-2, 2]
unknown sd in [0.2, 3]
state x in [0, 10] clip bins 5
action go
noise w ~ normal(0, sd)
x' = x + drift + w
"""

WRAPPED = """\
mdp wrapped
unknown speed in [-20, 20]
unknown sd in [0.1, 30]
state angle in [-pi, pi] wrap bins 5
action go
noise w ~ normal(0, sd)
angle' = angle + speed + w
"""

UNIFORM = """\
mdp uniform
unknown width in [0.5, 30]
state x in [0, 10] bins 5
action go
noise w ~ uniform(-1, width)
x' = x - 2*w
"""

MIXED = """\
mdp mixed
unknown slip in [0, 1]
unknown far in [0, 4]
state x in [-50, 50] bins 4
state mode in {idle, busy}
action go
noise w ~ normal(0, 0.5)
noise jump ~ {-1: 0.2, 1: 0.8}
on go when mode == idle -> slip: x' = x + far*jump + w, mode' = busy | 1 - slip: x' = x + w
on go otherwise -> 0.25: mode' = idle | 0.75: x' = x + 1
"""

GYMNASIUM = """\
mdp pendulum
param dt = 0.05
param g = 10.0
unknown damping in [0, 1]
unknown gain in [1, 5]
state theta in [-pi, pi] wrap bins 10
state omega in [-8, 8] clip bins 10
action u in {-2, -1, 0, 1, 2}
noise wv ~ normal(0, 0.1)
let accel = 1.5*g*sin(theta) + gain*u - damping*omega
omega' = clip(omega + accel*dt, -8, 8) + wv
theta' = theta + omega'*dt
"""
NOISE_IN_A_LET = """\
let speed = clip(omega + accel*dt + wv, -8, 8)
omega' = speed
theta' = theta + speed*dt
"""
TRUTH = np.array([0.1, 3.0])


def law_of(text: str) -> RawLaw:
    found = raw_law(mdpdsl.loads(text).checked)
    assert isinstance(found, RawLaw), found
    return found


def steps_of(before: Any, after: Any, action: Any = None, pair: Any = None) -> RawTransitions:
    """Return steps whose action and pair are 0, unless they are given."""
    start, end = (np.array(each, float).reshape(len(before), -1) for each in (before, after))
    none = np.zeros(len(start), np.int64)
    return RawTransitions(
        start,
        none if action is None else np.asarray(action, np.int64),
        end,
        none if pair is None else np.asarray(pair, np.int64),
        none,
    )


def likelihood_of(text: str, *arguments: Any) -> RawLikelihood:
    return RawLikelihood(law_of(text), steps_of(*arguments))


def fitted(likelihood: RawLikelihood) -> FloatArray:
    """Return the maximum, by scipy from the middle of the ranges."""

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = likelihood.value_and_gradient(theta)
        return -value, -gradient

    done: Any = optimize.minimize(
        objective,
        (likelihood.low + likelihood.high) / 2,
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(likelihood.low, likelihood.high, strict=True)),
        options={"ftol": 1e-14, "gtol": 1e-8},
    )
    return np.asarray(done.x, float)


def numbers_of(model: CheckedModel, name: str) -> dict[str, float]:
    variable = next(v for v in model.states.variables if v.name == name)
    return dict(zip(variable.members, cell_numbers(variable, model.symbols), strict=True))


def pendulum_steps(
    n: int, seed: int, dt: float = 0.05, g: float = 10.0, damping: float = 0.1
) -> RawTransitions:
    """Simulate the pendulum by its equations; pairs are cells of 10 x 10, times the torque."""
    rng = np.random.default_rng(seed)
    state, action = np.zeros((n + 1, 2)), rng.integers(5, size=n)
    state[0] = np.pi, 0.0
    for t in range(n):
        theta, omega = state[t]
        accel = 1.5 * g * np.sin(theta) + 3 * (action[t] - 2) - damping * omega
        omega = np.clip(np.clip(omega + accel * dt, -8, 8) + rng.normal(0, 0.1), -8, 8)
        theta = np.mod(theta + omega * dt + np.pi, 2 * np.pi) - np.pi
        state[t + 1] = theta, omega
    cell = np.clip((state[:-1] + np.array([np.pi, 8.0])) // [0.2 * np.pi, 1.6], 0, 9) @ [10, 1]
    pair = cell.astype(np.int64) * 5 + action
    return steps_of(state[:-1], state[1:], action, pair)
