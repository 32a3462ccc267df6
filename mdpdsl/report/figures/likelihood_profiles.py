"""Profile likelihoods of a run's unknown numbers, as its figures show them.

The profile of a number is the largest log-likelihood for each of its values, less its maximum. The
values above the threshold of the set that holds at every look are the interval of the number; the
asymptotic interval ends where the profile has fallen by half a quantile of the chi-squared law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mdpdsl.estimate.run_result import RunResult
from mdpdsl.graph.space import FloatArray

LIKELIHOOD = "likelihood"
EVERY_LOOK, ONE_LOOK = "at every look", "at one look"

#: How far below the threshold a figure goes, as a multiple of the threshold.
BELOW = 1.3
#: The width of a margin beside the profiles, as a share of theirs.
MARGIN = 0.03


@dataclass(frozen=True)
class Chord:
    """An interval of a number, at the height at which the profile crosses its ends."""

    low: float
    high: float
    height: float


@dataclass(frozen=True, eq=False)
class LikelihoodProfile:
    """The profile likelihood of one number of a run, with its intervals."""

    name: str
    label: str  # of the run
    place: int  # of the run, which determines the colour
    grid: FloatArray  # [n]  values of the number
    drop: FloatArray  # [n]  log-likelihood less its maximum
    estimate: float
    threshold: float  # of the set that holds at every look, less the maximum
    every_look: Chord
    one_look: Chord
    truth: float | None  # of a simulated run

    def curve(self, lowest: float) -> list[tuple[float, float]]:
        """Return the points of the curve down to some height, its maximum among them."""
        points = sorted([*zip(self.grid.tolist(), self.drop.tolist(), strict=True), self._peak])
        found: list[tuple[float, float]] = []
        for before, after in pairwise(points):
            if before[1] >= lowest and not found:
                found.append(before)
            if (before[1] < lowest) != (after[1] < lowest) and np.isfinite(before[1] + after[1]):
                share = (lowest - before[1]) / (after[1] - before[1])
                found.append((before[0] + share * (after[0] - before[0]), lowest))
            if after[1] >= lowest:
                found.append(after)
        return found

    @property
    def _peak(self) -> tuple[float, float]:
        return self.estimate, 0.0


@dataclass(frozen=True, eq=False)
class ProfilePanel:
    """The profiles of one number, one for each run, and what of them is shown."""

    name: str
    profiles: tuple[LikelihoodProfile, ...]

    @property
    def across(self) -> tuple[float, float]:
        """The range of values of the number."""
        ends = [float(end) for each in self.profiles for end in (each.grid[0], each.grid[-1])]
        ends += [each.truth for each in self.profiles if each.truth is not None]
        margin = MARGIN * (max(ends) - min(ends)) or 0.5
        return min(ends) - margin, max(ends) + margin

    @property
    def up(self) -> tuple[float, float]:
        """The range of log-likelihoods, which may fall further."""
        low = min(BELOW * min(each.threshold for each in self.profiles), -1.0)
        return low, -0.04 * low

    @property
    def truths(self) -> list[float]:
        """The numbers that the runs were simulated with, each once."""
        return sorted({each.truth for each in self.profiles if each.truth is not None})


def has_profiles(run: RunResult) -> bool:
    """Return whether a run has unknown numbers to estimate, without estimating them."""
    knowledge = run.graph.knowledge
    return knowledge is not None and bool(knowledge.is_law.any()) and run.counts.n_transitions > 0


def profile_panels(runs: Sequence[RunResult], labels: Sequence[str]) -> list[ProfilePanel]:
    """Return a panel for each unknown number, in the order of the models; runs may have none."""
    found: dict[str, list[LikelihoodProfile]] = {}
    for place, (run, label) in enumerate(zip(runs, labels, strict=True)):
        for profile in _profiles(run, label, place):
            found.setdefault(profile.name, []).append(profile)
    return [ProfilePanel(name, tuple(profiles)) for name, profiles in found.items()]


def true_values(run: RunResult) -> dict[str, float]:
    """Return the numbers that a run was simulated with; a log never shows any."""
    if run.kind != "explore":
        return {}
    known = {each.name: each.value for each in run.model.checked.unknowns}
    return {name: value for name, value in known.items() if value is not None}


def _profiles(run: RunResult, label: str, place: int) -> list[LikelihoodProfile]:
    """Return the profiles of a run; none if no values fit the data."""
    if not has_profiles(run) or run.numbers is None or run.numbers.parameters.is_empty:
        return []
    found, truth = run.numbers.parameters, true_values(run)
    threshold = found.threshold - found.log_likelihood
    one_look = _one_look_drop(found.delta)
    return [
        LikelihoodProfile(
            name=name,
            label=label,
            place=place,
            grid=found.profiles[name][0],
            drop=found.profiles[name][1],
            estimate=float(found.value[j]),
            threshold=threshold,
            every_look=Chord(
                float(found.interval_low[j]), float(found.interval_high[j]), threshold
            ),
            one_look=Chord(float(found.profile_low[j]), float(found.profile_high[j]), one_look),
            truth=truth.get(name),
        )
        for j, name in enumerate(found.names)
        if name in found.profiles
    ]


def _one_look_drop(delta: float) -> float:
    """Return how far a profile falls to the ends of the asymptotic interval (Wilks 1938)."""
    from scipy.special import chdtri

    return -float(chdtri(1, delta)) / 2
