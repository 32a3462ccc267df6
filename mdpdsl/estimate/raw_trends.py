"""Tests of all raw steps together: for what is off only a little, but in many pairs.

If the law holds, the normal scores z (`raw_misfit`) are independent of everything that was known
before each step. So for any function f of the state and the action, sum f z is normal with variance
f'f, less what the fit of the unknown numbers took away: with A the slopes of the scores along the
numbers and C = (A'A)^-1 their covariance, f'f - f'A C A'f (a score test; Rao, 1948). The functions
are 1, the state variables with their squares, or sine and cosine on a circle, and every action. The
sum of all squares is chi-square, and so is the sum of n times the squared mean of each pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mdpdsl.estimate.raw_likelihood import RawLikelihood
from mdpdsl.graph.space import ActionSpace, FloatArray, IntArray

#: With fewer steps than this, the sum of scores need not be normal.
FEWEST_STEPS = 50
#: With more actions than this, they are not tested one by one.
MOST_ACTIONS = 20
#: A function of which the fit of the numbers leaves less than this share shows nothing.
EXPLAINED = 1e-3


@dataclass(frozen=True, eq=False)
class RawScores:
    """Normal scores by step and variable."""

    step: IntArray  # [m]  its place in the log
    position: IntArray  # [m]  of the variable
    z: FloatArray  # [m]
    excess: FloatArray  # [m]  by how much the next value exceeds its mean under the law
    slope: FloatArray  # [k, m]  how z falls along each unknown number; NaN if that is not known

    @staticmethod
    def joined(parts: Sequence[RawScores], k: int) -> RawScores:
        """Return the scores of all parts; there are k unknown numbers."""
        none = np.empty(0, np.int64)
        nothing = RawScores(none, none, np.empty(0), np.empty(0), np.empty((k, 0)))
        names = ("step", "position", "z", "excess", "slope")
        columns = {
            name: np.concatenate([getattr(part, name) for part in (nothing, *parts)], axis=-1)
            for name in names
        }
        return RawScores(**columns)

    def leverage(self, covariance: FloatArray) -> FloatArray:
        """Return how much of each score the fit may have taken away, [m]; 1 if it is not known."""
        found = np.einsum("jm,ji,im->m", self.slope, covariance, self.slope, optimize=True)
        return np.where(np.isnan(found), 1.0, np.clip(found, 0.0, 1.0))


@dataclass(frozen=True, eq=False)
class Trend:
    """A test of all steps together."""

    p_value: float  # not corrected for the number of tests
    words: str


def least_covariance(likelihood: RawLikelihood, theta: FloatArray) -> FloatArray:
    """Return the covariance of the numbers that are not at an end of their range, [k, k].

    Directions in which the data say nothing have none.
    """
    width = likelihood.high - likelihood.low
    free = np.flatnonzero((theta > likelihood.low) & (theta < likelihood.high))
    found = np.zeros((len(theta), len(theta)))
    if len(free):
        unit = np.outer(width, width)[np.ix_(free, free)]
        scaled = likelihood.information(theta)[np.ix_(free, free)] * unit
        if np.isfinite(scaled).all():
            found[np.ix_(free, free)] = np.linalg.pinv(scaled, rcond=1e-10, hermitian=True) * unit
    return found


def trends(
    likelihood: RawLikelihood, scores: RawScores, number: IntArray, covariance: FloatArray
) -> tuple[Trend, ...]:
    """Test all steps together, given the number of the pair of each step in the log."""
    found: list[Trend] = []
    for position, variable in enumerate(likelihood.law.model.states.variables):
        rows = np.flatnonzero(scores.position == position)
        if variable.kind == "real" and len(rows) >= FEWEST_STEPS:
            found += _trends_of(likelihood, scores, rows, number, covariance, f"{variable.name}'")
    return tuple(found)


def _trends_of(
    likelihood: RawLikelihood,
    scores: RawScores,
    rows: IntArray,
    number: IntArray,
    covariance: FloatArray,
    name: str,
) -> Iterator[Trend]:
    """Test the scores of one variable."""
    from scipy.special import chdtr, chdtrc, ndtr

    z, step, excess = scores.z[rows], scores.step[rows], scores.excess[rows]
    n, lost = len(rows), float(scores.leverage(covariance)[rows].sum())
    slope = np.nan_to_num(scores.slope[:, rows], nan=0.0)
    for words, f in _functions(likelihood, step):
        drawn = slope @ f
        variance = float(f @ f - drawn @ covariance @ drawn)
        if variance <= EXPLAINED * float(f @ f):
            continue
        size = float(f @ excess) / float(f @ f)
        p = 2 * float(ndtr(-abs(float(f @ z)) / np.sqrt(variance)))
        side = "larger" if size > 0 else "smaller"
        yield Trend(p, f"{name} is {side} than the law says by {abs(size):.2g}{words}")
    squares = float(z @ z)
    if n - lost > 0:
        p = 2 * min(float(chdtr(n - lost, squares)), float(chdtrc(n, squares)))
        ratio = np.sqrt(squares / n)
        yield Trend(min(1.0, p), f"{name} varies {ratio:.3g} times as much as the law says")
    pairs, where = np.unique(number[step], return_inverse=True)
    visits, sums = np.bincount(where), np.bincount(where, z)
    p = float(chdtrc(len(pairs), float(np.sum(sums**2 / visits))))
    yield Trend(p, f"the means of {name} differ from those of the law")


def _functions(likelihood: RawLikelihood, step: IntArray) -> Iterator[tuple[str, FloatArray]]:
    """Yield functions of the state and the action before each step, with what they are."""
    model, steps = likelihood.law.model, likelihood.steps
    yield " on average", np.ones(len(step))
    for position, variable in enumerate(model.states.variables):
        x = steps.before[step, position]
        if variable.wraps:
            assert variable.edges is not None
            turn = 2 * np.pi / float(variable.edges[-1] - variable.edges[0])
            of = variable.name if abs(turn - 1) < 1e-9 else f"{turn:.4g}*{variable.name}"
            yield f" times sin({of})", np.sin(turn * x)
            yield f" times cos({of})", np.cos(turn * x)
        elif variable.kind in ("real", "int"):
            x = variable.saturate(x) if variable.kind == "real" else x
            off = x - x.mean()
            if off.any():
                yield f" times ({variable.name} - {x.mean():.3g})", off
                yield f" times ({variable.name} - {x.mean():.3g})^2", off**2 - np.mean(off**2)
    actions, where = np.unique(steps.action[step], return_inverse=True)
    labels = ActionSpace(model.actions).labels
    if 1 < len(actions) <= MOST_ACTIONS:
        for i, action in enumerate(actions.tolist()):
            yield f" on average after {labels[action]}", (where == i).astype(np.float64)
