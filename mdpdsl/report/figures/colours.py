"""Colours of maps: the range of values of a map, and the position of each value in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mdpdsl.graph.space import FloatArray
from mdpdsl.report.figures.plane_map import PlaneMap

#: Perceptually uniform, and readable for colour-blind people and in greyscale print.
COLOUR_MAP = "viridis"
#: Below this ratio of largest to least value, the scale is linear.
LEAST_LOG_RATIO = 5.0


@dataclass(frozen=True)
class ColourRange:
    """The values at the first and the last colour."""

    low: float
    high: float
    is_log: bool

    def shares(self, values: FloatArray) -> FloatArray:
        """Return positions of values from the first colour (0) to the last (1), in their shape."""
        if self.is_log:
            known = np.clip(values, self.low, self.high)
            return np.asarray(np.log(known / self.low) / np.log(self.high / self.low))
        span = self.high - self.low
        return np.clip((values - self.low) / span, 0.0, 1.0) if span > 0 else np.zeros_like(values)


def colour_ranges(plane_map: PlaneMap) -> list[ColourRange]:
    """Return the range of each slice; the slices of actions share one, so they are comparable.

    A sum over actions has its own.
    """
    is_log = plane_map.figure.is_log
    every = [piece.values for piece in plane_map.slices]
    if not plane_map.figure.is_summed:
        return [_range(every, is_log)] * len(every)
    return [_range(every[:1], is_log)] + [_range(every[1:], is_log)] * (len(every) - 1)


def palette(n: int) -> npt.NDArray[np.uint8]:
    """Return n colours from the first to the last, [n, 3]."""
    from matplotlib import colormaps

    colours = colormaps[COLOUR_MAP](np.linspace(0, 1, n))[:, :3]
    return np.asarray(np.round(255 * colours), np.uint8)


def _range(arrays: Sequence[FloatArray], is_log: bool) -> ColourRange:
    values = np.concatenate([np.empty(0), *(array[np.isfinite(array)] for array in arrays)])
    positive = values[values > 0]
    if len(positive) == 0:
        return ColourRange(0.0, 1.0, False)
    low, high = float(positive.min()), float(positive.max())
    if is_log and high / low >= LEAST_LOG_RATIO:
        return ColourRange(low, high, True)
    return ColourRange(float(values.min()) if high > low else 0.0, high, False)
