"""Estimates of unknown numbers: values, deviations, and intervals that hold at every look.

The intervals contain all true numbers together, at all times at once, with probability 1 - delta
(`parameter_sets`); the profile intervals hold for one number at one look, asymptotically
(`profile_likelihood`). If no values of the numbers fit the data, the set is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mdpdsl.diagnostics import SettingsError, SolveError
from mdpdsl.estimate.flat_directions import Direction
from mdpdsl.estimate.likelihood import Likelihood, edges_of
from mdpdsl.estimate.mixture_likelihood import mixed_likelihood
from mdpdsl.estimate.parameter_fit import Fit, fit
from mdpdsl.estimate.parameter_sets import Boxes, MissedMaximumError, cover, numerical_cover
from mdpdsl.estimate.profile_likelihood import GRID, Profile, profile_interval
from mdpdsl.graph.space import BoolArray, FloatArray

#: A point that the search for the maximum has missed is better by more than this.
BETTER = 1e-3

#: Boxes of a set. The search for a robust value splits them further where it needs to.
CELLS = 128

#: All log-likelihoods of possible data exceed this.
POSSIBLE = -1e300

#: How often the maximum is sought again if another one comes to light.
MOST_FITS = 6

#: The most rivals of a maximum that a note lists.
LISTED = 5

#: How far a profile goes beyond the interval, as a share of its width.
MARGIN = 0.1


@dataclass(frozen=True, eq=False)
class ParameterEstimate:
    """Unknown numbers as the data determine them."""

    names: tuple[str, ...]
    low: FloatArray  # [k]  declared ranges
    high: FloatArray  # [k]
    value: FloatArray  # [k]  NaN if no values fit
    deviation: FloatArray  # [k]  infinite if the data do not determine a number
    interval_low: FloatArray  # [k]  time-uniform, jointly; NaN if the set is empty
    interval_high: FloatArray  # [k]
    profile_low: FloatArray  # [k]  asymptotic
    profile_high: FloatArray  # [k]
    flat: tuple[Direction, ...]
    is_at_bound: BoolArray  # [k]
    rivals: FloatArray  # [r, k]  other values that fit almost as well
    boxes: Boxes  # that cover the time-uniform set
    threshold: float  # the log-likelihood from which on numbers belong to the set
    delta: float
    is_proved: bool  # whether the boxes are, by bounds of the likelihood
    log_likelihood: float  # at the values
    n: int  # transitions
    profiles: Mapping[str, tuple[FloatArray, FloatArray]]  # grid, log-likelihood less its maximum

    @property
    def is_empty(self) -> bool:
        """Whether no values of the numbers fit the data."""
        return self.boxes.is_empty

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know about the values, a sentence each."""
        found = []
        if self.is_empty:
            found.append(self._no_value)
        elif np.isnan(self.value).any():
            found.append("no possible values were found, although none are proved impossible")
        found += [direction.sentence for direction in self.flat]
        if len(self.rivals) and not self.is_empty:
            listed = "; ".join(
                ", ".join(f"{n} = {x:.4g}" for n, x in zip(self.names, rival, strict=True))
                for rival in self.rivals[:LISTED]
            )
            found.append(f"other values fit the data almost as well: {listed}")
        for j in np.flatnonzero(self.is_at_bound):
            end = "lower" if self.value[j] <= self.low[j] else "upper"
            found.append(f"`{self.names[j]}` is at the {end} end of its range, {self.value[j]:.6g}")
        left_out = np.isnan(self.profile_low) & np.array([n in self.profiles for n in self.names])
        if left_out.any():
            listed = ", ".join(f"`{self.names[j]}`" for j in np.flatnonzero(left_out))
            found.append(
                f"no asymptotic interval for {listed}: the ends of uniform noise show where it is, "
                "so that its law is not regular"
            )
        if not self.is_proved:
            found.append("the intervals are computed numerically, without proved bounds")
        return tuple(found)

    @property
    def _no_value(self) -> str:
        if len(self.names) == 1:
            between = f"[{self.low[0]:.6g}, {self.high[0]:.6g}]"
            return f"no value of `{self.names[0]}` in {between} fits the data"
        listed = ", ".join(f"`{name}`" for name in self.names[:-1]) + f" and `{self.names[-1]}`"
        return f"no values of {listed} in their ranges fit the data"

    def records(self) -> list[dict[str, Any]]:
        """Return the numbers as JSON has them; None where there is no finite figure."""
        return [
            {
                "name": name,
                "value": _figure(self.value[j]),
                "deviation": _figure(self.deviation[j]),
                "low": _figure(self.interval_low[j]),
                "high": _figure(self.interval_high[j]),
                "profile_low": _figure(self.profile_low[j]),
                "profile_high": _figure(self.profile_high[j]),
                "range": [float(self.low[j]), float(self.high[j])],
            }
            for j, name in enumerate(self.names)
        ]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the estimate as plain arrays; see `from_arrays`."""
        k = len(self.names)
        grids = [self.profiles[name] for name in self.names if name in self.profiles]
        vectors = [each.vectors for each in self.flat]
        return {
            "names": np.array(self.names, np.str_),
            **{name: getattr(self, name) for name in _NUMBERS},
            "rivals": self.rivals,
            "box_low": self.boxes.low,
            "box_high": self.boxes.high,
            "profile_grid": np.array([grid for grid, _ in grids]).reshape(-1, GRID),
            "profile_values": np.array([values for _, values in grids]).reshape(-1, GRID),
            "flat_names": np.array([" ".join(each.names) for each in self.flat], np.str_),
            "flat_expressions": np.array([each.expression or "" for each in self.flat], np.str_),
            "flat_sentences": np.array([each.sentence for each in self.flat], np.str_),
            "flat_sizes": np.array([len(each) for each in vectors], np.int64),
            "flat_vectors": np.concatenate([np.empty((0, k)), *vectors]),
            "figures": np.array([self.threshold, self.delta, self.log_likelihood]),
            "n": np.array(self.n),
            "is_proved": np.array(self.is_proved),
        }

    @staticmethod
    def from_arrays(arrays: Mapping[str, npt.NDArray[Any]]) -> ParameterEstimate:
        """Return an estimate from its arrays; KeyError if some are missing."""
        names = tuple(arrays["names"].tolist())
        parts = np.split(arrays["flat_vectors"], np.cumsum(arrays["flat_sizes"])[:-1])
        texts = (arrays[f"flat_{each}"].tolist() for each in ("names", "expressions", "sentences"))
        threshold, delta, log_likelihood = arrays["figures"].tolist()
        grids, values = arrays["profile_grid"], arrays["profile_values"]
        return ParameterEstimate(
            names=names,
            **{name: arrays[name] for name in _NUMBERS},
            flat=tuple(
                Direction(tuple(involved.split()), part, expression or None, sentence)
                for involved, expression, sentence, part in zip(*texts, parts, strict=False)
            ),
            rivals=arrays["rivals"],
            boxes=Boxes(arrays["box_low"], arrays["box_high"]),
            threshold=threshold,
            delta=delta,
            is_proved=bool(arrays["is_proved"]),
            log_likelihood=log_likelihood,
            n=int(arrays["n"]),
            profiles={
                name: (grid, on_it) for name, grid, on_it in zip(names, grids, values, strict=False)
            },
        )


#: The fields with one figure per number.
_NUMBERS = (
    "low",
    "high",
    "value",
    "deviation",
    "interval_low",
    "interval_high",
    "profile_low",
    "profile_high",
    "is_at_bound",
)


def parameter_estimate(
    likelihood: Likelihood,
    delta: float,
    *,
    seed: int = 0,
    start: FloatArray | None = None,
    most_boxes: int = CELLS,
    has_profiles: bool = True,
) -> ParameterEstimate:
    """Estimate the unknown numbers of a likelihood, with sets that hold with 1 - delta.

    `start` may be an earlier estimate. Without profiles, their grids and intervals are left out.
    """
    if not 0 < delta < 1:
        raise SettingsError(f"`delta=` must be between 0 and 1, not {delta}")
    starts = [] if start is None else [start]
    for _ in range(MOST_FITS):
        fitted = fit(likelihood, seed=seed, start=np.array(starts) if starts else None)
        mixed = mixed_likelihood(likelihood, fitted)
        threshold = mixed.value + float(np.log(delta))
        if mixed.best_value > fitted.value + BETTER:
            starts.append(mixed.best_theta)
            continue
        try:
            boxes, is_proved = _set(likelihood, fitted, threshold, most_boxes)
            break
        except MissedMaximumError as missed:
            starts.append(missed.theta)
    else:
        boxes, is_proved = numerical_cover(likelihood, fitted, threshold), False
    low, high = boxes.hull
    k = len(likelihood.names)
    ends, edges = np.full((2, k), np.nan), edges_of(likelihood)
    profiles = {}
    if has_profiles and np.isfinite(fitted.value):
        for j, name in enumerate(likelihood.names):
            profile = Profile(likelihood, fitted, j)
            if edges is None or not edges.is_moving[j]:
                ends[:, j] = profile_interval(profile, fitted, delta)
            grid = _grid(likelihood, j, np.append(ends[:, j], [low[j], high[j]]))
            profiles[name] = grid, profile.on(grid) - fitted.value
    return _estimate(likelihood, fitted, boxes, ends, profiles, threshold, delta, is_proved)


def _set(
    likelihood: Likelihood, fitted: Fit, threshold: float, most_boxes: int
) -> tuple[Boxes, bool]:
    """Cover the set of numbers, and return whether the cover is proved."""
    if edges_of(likelihood) is not None:
        threshold = max(threshold, POSSIBLE)  # whatever is possible, if no best value is known
    if np.isfinite(fitted.value) or threshold == POSSIBLE:
        try:
            return cover(likelihood, fitted, threshold, most_boxes=most_boxes), True
        except SolveError:
            pass
    return numerical_cover(likelihood, fitted, threshold, most_boxes=most_boxes), False


def _grid(likelihood: Likelihood, j: int, marks: FloatArray) -> FloatArray:
    """Return a grid that shows some marks, within the range of a number."""
    first, last = float(np.nanmin(marks)), float(np.nanmax(marks))
    margin = MARGIN * (last - first)
    found: FloatArray = np.linspace(
        max(first - margin, float(likelihood.low[j])),
        min(last + margin, float(likelihood.high[j])),
        GRID,
    )
    return found


def _estimate(
    likelihood: Likelihood,
    fitted: Fit,
    boxes: Boxes,
    profile_ends: FloatArray,
    profiles: Mapping[str, tuple[FloatArray, FloatArray]],
    threshold: float,
    delta: float,
    is_proved: bool,
) -> ParameterEstimate:
    low, high = boxes.hull
    return ParameterEstimate(
        names=likelihood.names,
        low=likelihood.low,
        high=likelihood.high,
        value=fitted.theta,
        deviation=fitted.deviations,
        interval_low=low,
        interval_high=high,
        profile_low=profile_ends[0],
        profile_high=profile_ends[1],
        flat=fitted.flat,
        is_at_bound=fitted.is_at_bound,
        rivals=fitted.rivals,
        boxes=boxes,
        threshold=threshold,
        delta=delta,
        is_proved=is_proved,
        log_likelihood=fitted.value,
        n=likelihood.n,
        profiles=profiles,
    )


def _figure(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None
