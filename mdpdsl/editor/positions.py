"""Positions in a text as editors count them: by line from 0, and by code units within the line.

In the protocol, only CR LF, LF and CR end a line. A position beyond the end of a line means its
end, one beyond the last line the end of the text, and one inside a character its start.
"""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass

from mdpdsl.diagnostics import Span

_LINE_BREAK = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, order=True)
class Position:
    """A line and a number of code units within it, both from 0."""

    line: int
    character: int


class Positions:
    """The positions in one text; `encoding` is `utf-8`, `utf-16` or `utf-32`."""

    def __init__(self, text: str, encoding: str = "utf-16") -> None:
        self._text = text
        self._codec = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}[encoding]
        self._unit = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]
        breaks = list(_LINE_BREAK.finditer(text))
        self._starts = [0, *(found.end() for found in breaks)]
        self._ends = [*(found.start() for found in breaks), len(text)]

    def position(self, offset: int) -> Position:
        """Return the position of a character."""
        offset = min(max(offset, 0), len(self._text))
        line = bisect.bisect_right(self._starts, offset) - 1
        inside = min(offset, self._ends[line])
        return Position(line, self._units(self._text[self._starts[line] : inside]))

    def offset(self, position: Position) -> int:
        """Return the offset of the character at a position."""
        if position.line < 0:
            return 0
        if position.line >= len(self._starts):
            return len(self._text)
        start, end = self._starts[position.line], self._ends[position.line]
        left = position.character
        for offset in range(start, end):
            left -= self._units(self._text[offset])
            if left < 0:
                return offset
        return end

    def range(self, span: Span) -> tuple[Position, Position]:
        """Return the positions where a span begins and ends."""
        return self.position(span.start), self.position(span.end)

    def _units(self, text: str) -> int:
        if text.isascii():
            return len(text)
        return len(text.encode(self._codec, "surrogatepass")) // self._unit
