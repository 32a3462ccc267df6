"""The progress of trials: steps done and last measures, and a board that processes share."""

from __future__ import annotations

import math
from collections.abc import MutableSequence
from dataclasses import dataclass

from mdpdsl.estimate.metrics import Measures

#: How many numbers of a board one standing takes.
WIDTH = 4


@dataclass(frozen=True)
class Standing:
    """Steps done, and the measures of the last checkpoint; None before the first.

    `worst` and `average` are also None while some pair is unvisited.
    """

    steps: int
    unvisited: int | None = None
    worst: float | None = None
    average: float | None = None


def standing(steps: int, last: Measures | None) -> Standing:
    """Return the progress of a trial from its steps and its last measures."""
    if last is None:
        return Standing(steps)
    return Standing(steps, last.unvisited, last.worst, last.average)


def post(board: MutableSequence[float], index: int, found: Standing) -> None:
    """Write the progress of a trial to a board of numbers, which processes may share."""
    values = (found.steps, found.unvisited, found.worst, found.average)
    for i, value in enumerate(values):
        board[WIDTH * index + i] = math.nan if value is None else float(value)


def standings(board: MutableSequence[float]) -> list[Standing]:
    """Return the progress of all trials on a board."""
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
    """Return a board for trials that have not begun."""
    return [0.0, math.nan, math.nan, math.nan] * trials
