"""Errors in a model as values: what is wrong, where, and how to fix it; shown as text or JSON."""

from __future__ import annotations

import bisect
import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

#: Every code a diagnostic may carry, with its meaning. Each has a golden case in the tests.
CODES = {
    "E101": "a syntax error: something else was expected here",
    "E102": "an unexpected character, or a string without its closing quote",
    "E103": "an expression nested too deeply",
    "E104": "a statement that is missing, repeated or out of order",
    "E105": "a property that is not supported",
    "E201": "an unknown name",
    "E202": "a name declared twice",
    "E203": "a reserved word used as a name",
    "E204": "a definition that depends on itself",
    "E205": "a name that cannot be used here",
    "E206": "an unknown function, or the wrong number of arguments",
    "E301": "a value of the wrong type",
    "E401": "an empty or reversed range",
    "E402": "a value that is not allowed",
    "E403": "a real variable without cells, or an option that does not apply",
    "E404": "an invalid setting in the explore block",
    "E405": "a table of the wrong shape",
    "E406": "a property without `min` or `max`",
    "E501": "branch probabilities that do not sum to 1",
    "E502": "a probability outside [0, 1]",
    "E503": "overlapping guards",
    "E504": "a state with no available action",
    "E505": "an update out of range",
    "E506": "a variable set twice",
    "E507": "division by zero, or a value that is not a number",
    "E508": "an action with no `on` line",
    "E509": "no state to start from",
    "E510": "a state that both ends and restarts",
    "E511": "an unknown number that moves the state without noise",
    "E601": "an unknown parameter",
    "E602": "a parameter value of the wrong type",
    "E603": "a file that cannot be read",
    "E604": "a constant without a value",
    "E701": "a model too large to build",
    "W001": "`init` leaves a variable out",
    "W002": "an estimate with pairs that were never visited",
    "W003": "an estimate without the model's rewards",
    "W004": "a reward that is never earned",
    "W005": "a `?` whose probability is known",
    "W006": "an unknown number in a line with `?`",
    "W007": "an unknown number that no transition depends on",
}


@dataclass(frozen=True, order=True)
class Span:
    """A half-open range of characters in a source text."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        """Return the span from the start of this one to the end of the other."""
        return Span(self.start, max(self.end, other.end))


class Source:
    """A text and its path; turns offsets into lines and columns, both counted from 1."""

    def __init__(self, text: str, path: str) -> None:
        self.text = text
        self.path = path
        self._line_starts = [0]
        self._line_starts += [i + 1 for i, character in enumerate(text) if character == "\n"]

    def position(self, offset: int) -> tuple[int, int]:
        """Return the line and column of an offset."""
        line = bisect.bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """Return one line without its line break."""
        start = self._line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)].rstrip("\r")


@dataclass(frozen=True)
class Witness:
    """A state (and action) in which an error occurs, and the number of other such states.

    `is_action_shown` is false if the source line itself names the action.
    """

    state: dict[str, bool | int | float | str]
    action: str | None = None
    n_others: int = 0
    is_action_shown: bool = True

    def __str__(self) -> str:
        text = ", ".join(f"{name} = {_value_text(value)}" for name, value in self.state.items())
        if self.action is not None and self.is_action_shown:
            text = f"{text} for {self.action}" if text else f"for {self.action}"
        if self.n_others:
            text += f" (and {self.n_others:,} other state{'s' if self.n_others > 1 else ''})"
        return f"in {text}"


class DiagnosticRecord(TypedDict):
    """A diagnostic as JSON."""

    code: str
    message: str
    line: int | None
    column: int | None
    end_line: int | None
    end_column: int | None
    help: str | None
    witness: dict[str, object] | None
    related_line: int | None


@dataclass(frozen=True)
class Diagnostic:
    """One error or warning: what is wrong, where, and how to fix it."""

    code: str
    message: str
    span: Span | None = None
    help: str | None = None
    witness: Witness | None = None
    related: Span | None = None  # another place involved in the error
    source: Source | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        assert self.code in CODES, self.code

    @property
    def is_error(self) -> bool:
        """Whether this is an error, which prevents building the model, and not a warning."""
        return self.code.startswith("E")

    def render(self) -> str:
        """Return the text a person reads: message, location, source line with carets, notes.

        Characters that could control a terminal (escape sequences) are replaced by visible ones.
        """
        lines = [f"{'error' if self.is_error else 'warning'}: {self.message}"]
        width = 1
        if self.source is not None and self.span is not None:
            number, column = self.source.position(self.span.start)
            end_number, end_column = self.source.position(self.span.end)
            text = self.source.line(number)
            n_carets = (end_column if end_number == number else len(text) + 1) - column
            text, first, n_carets = _excerpt(text, column - 1, max(1, n_carets))
            width = len(str(number))
            margin = " " * width
            lines += [
                f"{margin}--> {self.source.path}:{number}:{column}",
                f"{margin} |",
                f"{number} | {text}".rstrip(),
                f"{margin} | {' ' * first}{'^' * n_carets}",
            ]
        elif self.source is not None:
            lines.append(f" --> {self.source.path}")
        margin = " " * width
        if self.witness is not None:
            lines.append(f"{margin} = {self.witness}")
        if self.source is not None and self.related is not None:
            number, _ = self.source.position(self.related.start)
            lines.append(f"{margin} = see line {number}: {self.source.line(number).strip()}")
        if self.help is not None:
            lines.append(f"{margin} = help: {self.help}")
        lines.append(f"{margin} = code: {self.code}")
        return "\n".join(_printable(line) for line in lines)

    def record(self) -> DiagnosticRecord:
        """Return the same information as plain data for JSON."""
        line = column = end_line = end_column = related_line = None
        if self.source is not None and self.span is not None:
            line, column = self.source.position(self.span.start)
            end_line, end_column = self.source.position(self.span.end)
        if self.source is not None and self.related is not None:
            related_line, _ = self.source.position(self.related.start)
        witness: dict[str, object] | None = None
        if self.witness is not None:
            witness = {
                "state": self.witness.state,
                "action": self.witness.action,
                "others": self.witness.n_others,
                "text": str(self.witness),
            }
        return {
            "code": self.code,
            "message": self.message,
            "line": line,
            "column": column,
            "end_line": end_line,
            "end_column": end_column,
            "help": self.help,
            "witness": witness,
            "related_line": related_line,
        }


class Error(Exception):
    """The base class of every error that a user can cause or fix; the message says what to do.

    Messages write the arguments of a call as `steps=`, which the command line shows as `--steps`.
    """

    #: The exit status of a command: 2 if the input is wrong, 1 if the work itself failed.
    status = 2


class MdpdslWarning(UserWarning):
    """Something that a result does not say by itself, and that a person should know."""


class SettingsError(Error, ValueError):
    """An invalid setting, or settings that cannot be combined."""


class RunError(Error):
    """A run that cannot be started, resumed or read."""


class SolveError(Error, ValueError):
    """A problem that has no solution for the model, or that a solver could not solve."""


class FormatError(Error, ValueError):
    """A file that cannot be read or written in its format."""


class LogError(Error, ValueError):
    """A log that cannot be read; `problems` lists every reason, with help if there is any."""

    def __init__(self, problems: str | Sequence[LogProblem]) -> None:
        if isinstance(problems, str):
            problems = [LogProblem(problems)]
        super().__init__("; ".join(p.message for p in problems))
        self.problems = tuple(problems)


@dataclass(frozen=True)
class LogProblem:
    """A problem with a log, and what to do about it."""

    message: str
    help: str | None = None
    loses_rows: bool = False  # whether some of the log was not read


class ModelError(Error):
    """All the errors in one model, raised together."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(in_source_order(diagnostics))
        super().__init__("\n\n".join(d.render() for d in self.diagnostics))


def in_source_order(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Sort by position in the file and drop duplicates; those without a position come first."""
    unique = {(d.code, d.message, d.span): d for d in reversed(list(diagnostics))}
    return sorted(unique.values(), key=lambda d: (d.span or Span(-1, -1), d.code, d.message))


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return a hint with the closest known name, if any is close."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean `{close[0]}`?" if close else None


def with_article(noun: str) -> str:
    """Put `a` or `an` before a noun."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


#: How many characters of a long source line are shown, and how many of them before the error.
_EXCERPT = 120
_BEFORE = 40


def _excerpt(text: str, first: int, n_carets: int) -> tuple[str, int, int]:
    """Shorten a long line around the marked characters; return it and their new position."""
    if len(text) <= _EXCERPT:
        return text, first, n_carets
    begin = max(0, first - _BEFORE)
    end = begin + _EXCERPT
    head, tail = "…" if begin else "", "…" if end < len(text) else ""
    place = first - begin + len(head)
    return f"{head}{text[begin:end]}{tail}", place, min(n_carets, _EXCERPT - (first - begin))


def _printable(line: str) -> str:
    """Replace each unprintable character by a single one, so that the carets stay aligned."""
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() else " " if c == "\t" else "\N{MIDDLE DOT}" for c in line)


def _value_text(value: bool | int | float | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
