"""Cell probabilities: the mass that a distribution gives to each cell of a real variable.

If z has the distribution function F, then location + scale·z falls into the cell [l, u) with
probability F((u - location)/scale) - F((l - location)/scale), for scale > 0. A *window* is a range
of consecutive cells (unrolled around the circle for a variable that wraps), wide enough that the
mass outside it is below rounding error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mdpdsl.compile.checked import Spread
from mdpdsl.graph.space import FloatArray, IntArray, Variable

#: Less than one rounding error of probability lies beyond this many standard deviations.
NORMAL_REACH = 8.3
#: A normal distribution this many times wider than the circle is uniform on it (to 1e-40).
UNIFORM_ON_CIRCLE = 2.5
#: Above this many numbers, importing SciPy for the normal distribution function pays off.
_MANY = 100_000


@dataclass(frozen=True, eq=False)
class Window:
    """Masses of consecutive cells; all nodes of a row share the same cells."""

    first: IntArray  # [n]        unrolled index of the first cell
    masses: FloatArray  # [n, k, width]

    def cells(self, variable: Variable) -> IntArray:
        """Return the cell indices of the window, [n, width]."""
        unrolled: IntArray = self.first[:, None] + np.arange(self.masses.shape[2])
        cells: IntArray = np.minimum(unrolled, variable.size - 1)
        if variable.wraps:
            cells = unrolled % variable.size
        return cells


def spread_masses(variable: Variable, spread: Spread) -> FloatArray:
    """Return the probability of each cell of a real variable under a continuous distribution."""
    masses: FloatArray = np.zeros(variable.size)
    scale = spread.b if spread.family == "normal" else spread.b - spread.a
    window = window_masses(variable, spread.family, np.array([[spread.a]]), np.array([[scale]]))
    np.add.at(masses, window.cells(variable)[0], window.masses[0, 0])
    masses /= masses.sum()
    return masses


def window_masses(
    variable: Variable,
    family: str,
    location: FloatArray,
    scale: FloatArray,
    clip: tuple[FloatArray, FloatArray] | None = None,
) -> Window:
    """Return the cell masses of location + scale·z, for [n, k] locations and scales.

    z is standard normal, or uniform on [0, 1]. With `clip`, the value is clipped to these bounds
    before the variable wraps or clips it.
    """
    if variable.wraps:
        assert variable.edges is not None
        begin = float(variable.edges[0])
        period = float(variable.edges[-1]) - begin
        widest = float(scale.max()) / period
        if family == "normal" and widest > UNIFORM_ON_CIRCLE and clip is None:
            return _uniform_window(variable, location.shape)
        if family == "uniform" and widest > 1.0 and clip is None:
            return _turns_and_rest(variable, location, scale)
        near = begin + np.mod(location - begin, period)
        if clip is not None:
            clip = clip[0] - (location - near), clip[1] - (location - near)
        location = near
    reach = NORMAL_REACH if family == "normal" else 0.0
    low, high = location - reach * scale, location + (reach or 1.0) * scale
    if clip is not None:
        low, high = np.clip(low, *clip), np.clip(high, *clip)
    first = _unrolled_cells(variable, low).min(axis=1)
    width = int((_unrolled_cells(variable, high).max(axis=1) - first).max()) + 1
    edges = _unrolled_edges(variable, first[:, None] + np.arange(width + 1))[:, None, :]
    location, scale = location[:, :, None], scale[:, :, None]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        standard = (edges - location) / scale
    standard = np.where(scale > 0, standard, np.where(edges > location, np.inf, -np.inf))
    if clip is not None:
        below, above = edges <= clip[0][:, :, None], edges > clip[1][:, :, None]
        standard = np.where(below, -np.inf, np.where(above, np.inf, standard))
    return Window(first, _interval_masses(family, standard))


def point_window(variable: Variable, cells: IntArray) -> Window:
    """Return the windows of deterministic values, for [n, k] cells."""
    first = cells.min(axis=1)
    width = int((cells.max(axis=1) - first).max()) + 1
    masses = (cells - first[:, None])[:, :, None] == np.arange(width)
    return Window(first, masses.astype(np.float64))


def range_window(variable: Variable, low: FloatArray, high: FloatArray) -> Window:
    """Return the windows of all cells between [n, k] values, with a mass of 1 in each."""
    if variable.wraps:
        assert variable.edges is not None
        begin, end = float(variable.edges[0]), float(variable.edges[-1])
        is_whole = ~(high - low < end - begin)
        low = np.where(is_whole, begin, low)
        high = np.where(is_whole, np.nextafter(end, begin), high)
    first, last = _unrolled_cells(variable, low), _unrolled_cells(variable, high)
    if variable.wraps:
        last = np.minimum(last, first + variable.size - 1)
    lowest = first.min(axis=1)
    width = int((last.max(axis=1) - lowest).max()) + 1
    cells = lowest[:, None, None] + np.arange(width)
    inside = (cells >= first[:, :, None]) & (cells <= last[:, :, None])
    return Window(lowest, inside.astype(np.float64))


def covering_edges(variable: Variable, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the unrolled edges of the cells that each of [n] intervals meets, [n, w]."""
    first = _unrolled_cells(variable, low)
    width = int((_unrolled_cells(variable, high) - first).max()) + 1
    return _unrolled_edges(variable, first[:, None] + np.arange(width + 1))


def normal_cdf(z: FloatArray) -> FloatArray:
    """Return the standard normal distribution function.

    Small arrays avoid SciPy, because importing it takes longer than checking a small model.
    """
    if z.size > _MANY:
        from scipy.special import ndtr

        return np.asarray(ndtr(z))
    flat = [0.5 * math.erfc(-x * math.sqrt(0.5)) for x in z.ravel().tolist()]
    return np.array(flat).reshape(z.shape)


def _interval_masses(family: str, edges: FloatArray) -> FloatArray:
    """Return the mass between neighbouring standardised edges, accurate in both tails."""
    if family == "uniform":
        return np.diff(np.clip(edges, 0.0, 1.0), axis=-1)
    below, above = normal_cdf(edges), normal_cdf(-edges)
    upper_half = edges[..., :-1] > 0
    masses = np.where(upper_half, -np.diff(above, axis=-1), np.diff(below, axis=-1))
    return np.maximum(masses, 0.0)


def _uniform_window(variable: Variable, shape: tuple[int, ...]) -> Window:
    assert variable.edges is not None
    masses = np.diff(variable.edges) / (variable.edges[-1] - variable.edges[0])
    return Window(np.zeros(shape[0], np.int64), np.broadcast_to(masses, (*shape, variable.size)))


def _turns_and_rest(variable: Variable, low: FloatArray, width: FloatArray) -> Window:
    """Return the masses of a uniform distribution that is wrapped around a circle."""
    assert variable.edges is not None
    period = float(variable.edges[-1] - variable.edges[0])
    turns = np.floor(width / period)
    rest = window_masses(variable, "uniform", low, width - turns * period)
    share = (turns * period / width)[:, :, None]
    masses = share * np.diff(variable.edges) / period
    cells = np.broadcast_to(rest.cells(variable)[:, None, :], rest.masses.shape)
    rows, nodes = np.arange(len(low))[:, None, None], np.arange(low.shape[1])[:, None]
    np.add.at(masses, (rows, nodes, cells), (1 - share) * rest.masses)
    return Window(np.zeros(len(low), np.int64), masses)


def _unrolled_cells(variable: Variable, values: FloatArray) -> IntArray:
    assert variable.edges is not None
    edges = variable.edges
    if not variable.wraps:
        return np.asarray(np.searchsorted(edges[1:-1], values, side="right"), np.int64)
    period = edges[-1] - edges[0]
    turns = np.floor((values - edges[0]) / period)
    inside = np.searchsorted(edges[1:-1], values - turns * period, side="right")
    return np.asarray(turns * variable.size + inside, np.int64)


def _unrolled_edges(variable: Variable, index: IntArray) -> FloatArray:
    assert variable.edges is not None
    edges = variable.edges
    if not variable.wraps:
        open_ended = np.concatenate([[-np.inf], edges[1:-1], [np.inf]])
        return np.asarray(open_ended[np.minimum(index, variable.size)])
    turns, inside = np.divmod(index, variable.size)
    return np.asarray(edges[inside] + turns * (edges[-1] - edges[0]))
