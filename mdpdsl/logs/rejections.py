"""Rows of a log that could not be counted: how many by reason, with the first examples."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mdpdsl.graph.space import IntArray

BROKEN_LINE = "broken line"
MISSING_EPISODE = "missing episode"
MISSING_TIME = "missing time"
MISSING_VALUE = "missing value"
MISSING_ACTION = "missing action"
TEXT = "text in a number column"
NOT_FINITE = "not a finite number"
NO_VALUE = "expression without a value"
OUT_OF_RANGE = "state out of range"
NOT_A_STATE = "state not in the model"
UNKNOWN_ACTION = "unknown action"
NOT_AVAILABLE = "action not available"
DUPLICATE_TIME = "duplicate time"
GAP_IN_TIME = "gap in time"

#: Examples kept of each reason.
MOST_EXAMPLES = 5


@dataclass(frozen=True)
class Example:
    """A rejected row: its number, from 1 below the header, and what was found there."""

    file: str
    row: int
    found: str


@dataclass(eq=False)
class Rejections:
    """Rejected rows by reason."""

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[Example]] = field(default_factory=dict)

    def add(self, reason: str, file: str, rows: IntArray, found: Callable[[int], str]) -> None:
        """Reject rows of a log; `found` describes the i-th of them."""
        if len(rows) == 0:
            return
        self.counts[reason] = self.counts.get(reason, 0) + len(rows)
        kept = self.examples.setdefault(reason, [])
        for i in range(min(len(rows), MOST_EXAMPLES - len(kept))):
            kept.append(Example(file, int(rows[i]), found(i)))

    @classmethod
    def joined(cls, parts: Iterable[Rejections]) -> Rejections:
        """Add up rejections; the examples are those of the first parts."""
        result = cls()
        for part in parts:
            for reason, number in part.counts.items():
                result.counts[reason] = result.counts.get(reason, 0) + number
                kept = result.examples.setdefault(reason, [])
                kept += part.examples[reason][: MOST_EXAMPLES - len(kept)]
        return result

    @property
    def total(self) -> int:
        """The number of rejections."""
        return sum(self.counts.values())
