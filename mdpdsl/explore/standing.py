"""How far a trial is: its steps, and what it measured last; and a board of all trials."""

from __future__ import annotations

import math
from collections.abc import MutableSequence
from dataclasses import dataclass

from mdpdsl.estimate.metrics import Measures

#: Numbers that a standing takes on a board.
WIDTH = 4


@dataclass(frozen=True)
class Standing:
    """Steps done, and the measures of the last checkpoint; None before the first.

    `worst` and `average` are None as long as a pair is unvisited, too.
    """

    steps: int
    unvisited: int | None = None
    worst: float | None = None
    average: float | None = None


def standing(steps: int, last: Measures | None) -> Standing:
    """Return how far a trial is after so many steps, with its last measures."""
    if last is None:
        return Standing(steps)
    return Standing(steps, last.unvisited, last.worst, last.average)


def post(board: MutableSequence[float], index: int, found: Standing) -> None:
    """Write how far a trial is onto a board of numbers, which processes may share."""
    values = (found.steps, found.unvisited, found.worst, found.average)
    for i, value in enumerate(values):
        board[WIDTH * index + i] = math.nan if value is None else float(value)


def standings(board: MutableSequence[float]) -> list[Standing]:
    """Read how far all trials are."""
    found = []
    numbers = list(board)
    for low in range(0, len(numbers), WIDTH):
        steps, unvisited, worst, average = numbers[low : low + WIDTH]
        found.append(
            Standing(
                int(steps),
                None if math.isnan(unvisited) else int(unvisited),
                None if math.isnan(worst) else worst,
                None if math.isnan(average) else average,
            )
        )
    return found


def new_board(trials: int) -> list[float]:
    """Return the board of trials that have not begun."""
    return [0.0, math.nan, math.nan, math.nan] * trials
