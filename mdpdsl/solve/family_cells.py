"""The least of a function of unknown numbers over the boxes that they may be in, with a proof.

A function f(theta) >= bound(cell) for every theta of a cell. The cell with the least bound is split
until that bound is close to a value f(theta) that some theta attains, or a limit is reached (branch
and bound; Land and Doig 1960). Whenever it stops, the least bound of all cells is below f.

The first cell is the hull of all boxes. A cell that holds several boxes is split into two groups of
them, so that no more boxes are looked at than needed, and a single box is halved: along the number
for which a narrower hull has the best bound.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from mdpdsl.graph.space import FloatArray

#: Cells that are narrower than this share of their numbers' size are not split.
NARROWEST = 1e-12
#: A number is split by at least this share of the weight that the most important one has.
LEAST_SHARE = 1e-3
#: Larger differences of values count as this.
MOST_RISE = 1e12


@dataclass(frozen=True, eq=False)
class Cell:
    """The hull of some boxes of theta."""

    low: FloatArray  # [n_numbers]
    high: FloatArray  # [n_numbers]
    box_low: FloatArray  # [n_boxes, n_numbers]
    box_high: FloatArray  # [n_boxes, n_numbers]

    @staticmethod
    def hull(box_low: FloatArray, box_high: FloatArray) -> Cell:
        """Return the cell of some boxes."""
        return Cell(box_low.min(axis=0), box_high.max(axis=0), box_low, box_high)

    def contains(self, theta: FloatArray) -> bool:
        """Return whether a theta lies in one of the boxes."""
        inside = (self.box_low <= theta) & (theta <= self.box_high)
        return bool(inside.all(axis=1).any())

    def corner(self, slope: FloatArray) -> FloatArray:
        """Return the corner of a box at which a function with this slope is least."""
        corners = np.where(slope > 0, self.box_low, self.box_high)
        found: FloatArray = corners[int(np.argmin(corners @ slope))]
        return found

    @property
    def centre(self) -> FloatArray:
        """The centre of the box that is nearest to the middle of the cell."""
        width = np.maximum(self.high - self.low, 1e-300)
        off = np.abs((self.box_low + self.box_high) - (self.low + self.high)) / width
        nearest = int(np.argmin(off.max(axis=1)))
        found: FloatArray = self.box_low[nearest] / 2 + self.box_high[nearest] / 2
        return np.clip(found, self.box_low[nearest], self.box_high[nearest])

    def split(self, weight: FloatArray) -> tuple[Cell, Cell] | None:
        """Return two parts, along the number with the largest weighted width, if it is not tiny."""
        width = self.high - self.low
        size = np.maximum(np.abs(self.low), np.abs(self.high))
        axis = int(np.argmax(np.where(width > NARROWEST * size, weight * width, -1.0)))
        if not width[axis] > NARROWEST * size[axis]:
            return None
        middle = self.low[axis] / 2 + self.high[axis] / 2
        if len(self.box_low) == 1:
            upper, lower = self.box_high.copy(), self.box_low.copy()
            upper[0, axis] = lower[0, axis] = middle
            return Cell.hull(self.box_low, upper), Cell.hull(lower, self.box_high)
        at = self.box_low[:, axis] / 2 + self.box_high[:, axis] / 2
        is_first = at < middle
        if is_first.all() or not is_first.any():
            is_first = np.arange(len(at)) < len(at) // 2
        first, second = (
            Cell.hull(self.box_low[part], self.box_high[part]) for part in (is_first, ~is_first)
        )
        return first, second


@dataclass(frozen=True, eq=False)
class Sought:
    """A function of theta with values for every state, and how closely its least one is sought."""

    bound: Callable[[Cell], FloatArray]  # [n_states]  below the values of all theta of a cell
    attained: Callable[[FloatArray], FloatArray]  # [n_states]  the values at a theta
    at_start: Callable[[FloatArray], float]  # the value that counts
    slack: Callable[[float], float]  # how far below an attained value a bound may be
    most_cells: int
    goes_on: Callable[[int, float], bool]  # given the cells so far, and how close the bound is


class CellSearch:
    """Cells with bounds, the worst of which is split."""

    def __init__(self, root: Cell, sought: Sought) -> None:
        self._root, self._sought = root, sought
        self._heap: list[tuple[float, float, int, Cell, FloatArray]] = []
        self._values: dict[bytes, float] = {}  # of every theta that was tried
        self.n_cells = 0
        self.least, self.theta = math.inf, root.centre  # attained, and where
        self.attained: FloatArray | None = None  # [n_states]  there
        self.is_close = False  # whether the least bound is as close as asked for

    @property
    def lower(self) -> FloatArray:
        """A lower bound of the function, [n_states]."""
        return np.asarray(np.min([values for *_, values in self._heap], axis=0))

    @property
    def bound(self) -> float:
        """A lower bound of the value that counts."""
        return self._heap[0][0]

    @property
    def worst(self) -> Cell:
        """The cell with the least bound."""
        return self._heap[0][3]

    def run(self, first: Iterable[FloatArray] = (), cutoff: float | None = None) -> bool:
        """Split cells; return False as soon as a value at or below a cutoff is attained.

        `first` are values of theta that are tried before any others.
        """
        sought = self._sought
        for theta in first:
            self._try(theta)
            if cutoff is not None and self.least <= cutoff:
                return False
        self._add(self._root, None)
        slope, weight = self._slope(), None
        while True:
            worst = self.worst
            self._try(worst.corner(slope))
            if not self._is_close():
                self._try(worst.centre)
            if cutoff is not None and self.least <= cutoff:
                return False
            self.is_close = self._is_close()
            is_late = not sought.goes_on(self.n_cells, self.least - self.bound)
            if self.is_close or is_late or self.n_cells + 2 > sought.most_cells:
                return True
            weight = self._weight() if weight is None else weight
            parts = worst.split(weight)
            if parts is None:
                return True
            values = heapq.heappop(self._heap)[-1]
            for part in parts:
                self._add(part, values)

    def _is_close(self) -> bool:
        return self.least <= self.bound + self._sought.slack(self.least)

    def _add(self, cell: Cell, least: FloatArray | None) -> None:
        """Bound a cell; what is known of the cell that it was part of holds, too."""
        values = self._sought.bound(cell)
        if least is not None:
            values = np.maximum(values, least)
        self.n_cells += 1
        key = self._sought.at_start(values)
        width = float(np.max(cell.high - cell.low))
        heapq.heappush(self._heap, (key, -width, self.n_cells, cell, values))

    def _try(self, theta: FloatArray) -> float:
        """Return the value at a theta, and remember the least one that the boxes contain."""
        name = theta.tobytes()
        if name not in self._values:
            values = self._sought.attained(theta)
            self._values[name] = found = self._sought.at_start(values)
            if found < self.least and self._root.contains(theta):
                self.least, self.theta, self.attained = found, theta, values
        return self._values[name]

    def _slope(self) -> FloatArray:
        """Return how the function changes along each number, across the hull."""
        root, slope = self._root, np.zeros(len(self._root.low))
        for axis in np.flatnonzero(root.high > root.low):
            low = root.low / 2 + root.high / 2
            high = low.copy()
            low[axis], high[axis] = root.low[axis], root.high[axis]
            rise = self._try(high) - self._try(low)
            if not math.isnan(rise):
                width = high[axis] - low[axis]
                slope[axis] = np.clip(rise, -MOST_RISE, MOST_RISE) / max(width, 1 / MOST_RISE)
        return slope

    def _weight(self) -> FloatArray:
        """Return how much the bound of the hull improves per width of each number."""
        root, whole = self._root, self.bound
        n, middle = len(root.low), root.low / 2 + root.high / 2
        if n == 1:
            return np.ones(1)
        width, weight = np.maximum(root.high - root.low, 1 / MOST_RISE), np.zeros(n)
        for axis in range(n):
            low, high = root.low.copy(), root.high.copy()
            low[axis] = high[axis] = middle[axis]
            narrow = self._sought.bound(Cell.hull(low[None], high[None]))
            weight[axis] = self._sought.at_start(narrow) - whole
        if not np.isfinite(weight).all() or not (weight > 0).any():
            return np.asarray(1.0 / width)
        return np.asarray(np.maximum(weight, LEAST_SHARE * weight.max()) / width)
