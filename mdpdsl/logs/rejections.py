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
COMMA = "number with a comma"
POINT = "number with a point"
UNCLEAR_DATE = "unclear date"
NO_SUCH_TIME = "no such date or time"
NOT_FINITE = "not a finite number"
NO_VALUE = "expression without a value"
OUT_OF_RANGE = "state out of range"
NOT_A_STATE = "state not in the model"
UNKNOWN_ACTION = "unknown action"
NOT_AVAILABLE = "action not available"
DUPLICATE_TIME = "duplicate time"
GAP_IN_TIME = "gap in time"
UNKNOWN_FLAG = "unclear whether the episode ended"
END_NOT_RECORDED = "end not recorded"
AFTER_END = "row after an end"

#: Why the time of a row cannot be read, where that says more than that it is missing.
ABOUT_TIMES = frozenset({COMMA, POINT, UNCLEAR_DATE, NO_SUCH_TIME})
#: What to do about rows that are rejected, by reason.
HINTS = {
    BROKEN_LINE: "in CSV, each row needs as many fields as the first line, and a field that "
    "contains the delimiter needs quotes; in JSON lines, each line is one object",
    COMMA: "if these are decimal commas, set `decimal=` to a comma; if they separate thousands, "
    "write the numbers without them",
    POINT: "the decimal sign was set to a comma: if these are decimal points, leave out "
    "`decimal=`; if they separate thousands, write the numbers without them",
    UNCLEAR_DATE: "if the day comes before the month, set `dayfirst=`; otherwise write the format "
    "as `time_format=`, for example %m/%d/%Y %H:%M",
    DUPLICATE_TIME: "if every file numbers its episodes from 0, set `separate_files=`; if the log "
    "has several episodes, name their column in the log block",
    GAP_IN_TIME: "nothing is counted across a gap; `time_step=` sets how far apart rows may be",
    NO_SUCH_TIME: "correct it in the log; if all dates are like that, write their format as "
    "`time_format=`, for example %m/%d/%Y %H:%M",
}

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
