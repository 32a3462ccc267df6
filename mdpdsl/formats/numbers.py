"""Probabilities and intervals as texts that read back as the same numbers."""

from __future__ import annotations

import numpy as np

from mdpdsl.graph.interval_graph import Bounds
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph


def branch_chances(
    graph: TransitionGraph, bounds: Bounds | None = None, comma: str = ","
) -> list[str]:
    """Return the probability of every branch, or its interval, with all its digits."""
    if bounds is None:
        # A sum of branches may exceed 1 in its last digit, which other tools reject.
        return number_texts(np.minimum(graph.probability, 1.0))
    lower, upper = number_texts(bounds.lower), number_texts(bounds.upper)
    return [f"[{low}{comma}{high}]" for low, high in zip(lower, upper, strict=True)]


def number_texts(numbers: FloatArray) -> list[str]:
    """Return numbers with as many digits as are needed to read back the same number."""
    return [number_text(number) for number in numbers.tolist()]


def number_text(number: float) -> str:
    """Return a number with as many digits as needed; whole numbers have no point."""
    if number.is_integer() and abs(number) < 1e15:
        return str(int(number))
    return repr(number)
