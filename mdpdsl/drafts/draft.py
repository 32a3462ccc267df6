"""A first draft of a model: its variables, the guesses behind them, and the text of its file."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from mdpdsl.compile.check_file import format_text
from mdpdsl.compile.model import Model, loads
from mdpdsl.compile.scope import RESERVED, allowed_name
from mdpdsl.drafts.suggested_domains import LEAST_BINS, MOST_BINS, Domain
from mdpdsl.files import require_absent, write_text

#: Names that the `log` block gives a meaning of its own, or reads by default.
_LOG_WORDS = frozenset({"episode", "time", "ended", "cut", "terminated", "truncated"})
#: Why a variable that the caller has named is what it is; these may make this many pairs.
ASKED, MOST_ASKED = "as you said", 1_000_000
#: The default of five points per axis is for up to this many real variables.
MOST_POINTED = 6
#: Variables named in a note.
MOST_NAMED = 10
#: Names for columns whose own name is a keyword.
_INSTEAD = {"state": "s", "action": "u"}


@dataclass(frozen=True)
class DraftVariable:
    """A variable, or the episode or time of a log: its column, its domain, and why."""

    name: str
    role: str  # state, action, episode or time
    column: str  # empty for the actions of an environment, which have none
    domain: Domain | None = None  # None for the episode and the time
    why: str = ""
    next_column: str | None = None
    is_left_out: bool = False  # written as a comment

    def record(self) -> dict[str, Any]:
        """Return the variable as `--json` prints it."""
        return {
            "name": self.name,
            "role": self.role,
            "column": self.column or None,
            "domain": None if self.domain is None else self.domain.text,
            "used": not self.is_left_out,
        }


@dataclass(frozen=True, eq=False, repr=False)
class Draft:
    """The text of a new model file, with what was guessed."""

    name: str
    text: str
    variables: tuple[DraftVariable, ...]
    notes: tuple[str, ...]
    path: Path | None = None

    @cached_property
    def model(self) -> Model:
        """The model that the text describes."""
        return loads(self.text)

    @property
    def states(self) -> int:
        """The number of states."""
        return self._product("state")

    @property
    def pairs(self) -> int:
        """The number of pairs of a state and an action."""
        return self.states * self._product("action")

    def record(self) -> dict[str, Any]:
        """Return the draft as `--json` prints it."""
        found: dict[str, Any] = {
            "path": None if self.path is None else str(self.path),
            "name": self.name,
            "variables": [variable.record() for variable in self.variables],
            "notes": list(self.notes),
            "states": self.states,
            "pairs": self.pairs,
        }
        return found if self.path is not None else found | {"text": self.text}

    def save(self, path: str | Path, *, overwrite: bool = False) -> Draft:
        """Write the text to a file; return the draft with its path."""
        require_absent(Path(path), overwrite)
        write_text(Path(path), self.text)
        return replace(self, path=Path(path))

    def __repr__(self) -> str:
        place = "" if self.path is None else f", {self.path}"
        return f"Draft({self.name}: {self.states:,} states, {self.pairs:,} pairs{place})"

    @property
    def size(self) -> str:
        """The numbers of states, actions and pairs as a person reads them."""
        n_actions = self.pairs // self.states
        counts = ((self.states, "state"), (n_actions, "action"), (self.pairs, "pair"))
        states, actions, pairs = (f"{n:,} {noun}{'s' * (n != 1)}" for n, noun in counts)
        return f"{states} x {actions} = {pairs}"

    def _product(self, role: str) -> int:
        used = [v for v in self.variables if v.role == role and not v.is_left_out]
        return math.prod(v.domain.size for v in used if v.domain is not None)


def free_name(column: str, taken: set[str]) -> str:
    """Return a name for the variable of a column, and take it."""
    name = _INSTEAD.get(column.strip().lower()) or allowed_name(column.strip())
    name = f"{name}_" if name in _LOG_WORDS else name
    base, number = name, 1
    while name in taken or name in RESERVED:
        number += 1
        name = f"{base}_{number}"
    taken.add(name)
    return name


def with_bins(
    variables: Sequence[DraftVariable], most_pairs: float, most_kept: float
) -> list[DraftVariable]:
    """Divide real variables into bins, so that there are about as many pairs as wanted.

    A variable with which there would be more than `most_kept` pairs is left out, unless the caller
    has named it.
    """
    kept: list[DraftVariable] = []
    n_pairs = 1.0
    for variable in sorted(variables, key=lambda v: v.role != "action"):
        assert variable.domain is not None
        n_pairs *= variable.domain.size or LEAST_BINS
        is_first = variable.role == "action" or not any(v.role == "state" for v in kept)
        most = MOST_ASKED if variable.why == ASKED else most_kept
        if n_pairs > most and not is_first:
            n_pairs /= variable.domain.size or LEAST_BINS
        else:
            kept.append(variable)
    real = [v for v in kept if v.domain is not None and not v.domain.size]
    real.sort(key=lambda v: v.domain.n_whole or math.inf if v.domain is not None else 0)
    room = most_pairs / math.prod(v.domain.size or 1 for v in kept if v.domain is not None)
    bins: dict[str, int] = {}
    for place, variable in enumerate(real):
        assert variable.domain is not None
        share = max(room, 1.0) ** (1 / (len(real) - place))
        n_whole = variable.domain.n_whole
        fits = n_whole and n_whole <= share
        bins[variable.name] = (
            n_whole if fits else max(LEAST_BINS, min(MOST_BINS, int(share + 1e-9)))
        )
        room /= bins[variable.name]
    found = []
    for variable in variables:
        assert variable.domain is not None
        domain = variable.domain.with_bins(bins.get(variable.name, LEAST_BINS))
        found.append(replace(variable, domain=domain, is_left_out=variable not in kept))
    return found


def draft_text(
    name: str,
    opening: Sequence[str],
    variables: Sequence[DraftVariable],
    flags: Sequence[tuple[str, str]],
    sizes: Sequence[str],
    closing: Sequence[str],
) -> str:
    """Return the text of a model file in the canonical layout, with a comment at every guess."""
    lines = [*_comments(opening), f"mdp {name}", ""]
    for variable in variables:
        if variable.domain is not None:
            lines += _declaration(variable)
    n_real = sum(v.domain is not None and " bins " in v.domain.text for v in variables)
    if n_real > MOST_POINTED:
        lines += ["", *_comments(["one point per cell, as there are many real variables"])]
        lines += ["discretize center"]
    lines += ["", *_comments(sizes), "", *_log_block(variables, flags)]
    lines += ["", *_comments(closing)] if closing else []
    return format_text("\n".join(lines) + "\n")


def _declaration(variable: DraftVariable) -> list[str]:
    assert variable.domain is not None
    column = (
        "" if variable.column in ("", variable.name) else f" (the column {_line(variable.column)})"
    )
    says = f"{variable.name}{column}: {variable.domain.says}"
    says += f"; {variable.why}" if variable.why else ""
    if _names_actions(variable):
        line = f"action {', '.join(variable.domain.members)}"
    else:
        line = f"{variable.role} {variable.name} in {variable.domain.text}"
    if variable.is_left_out:
        entry = variable.domain.expression.format(_reference(variable.column, set()))
        line = f"# {line}"
        if entry != variable.name:
            line += f"  # in the log block: {variable.name} = {entry}"
        says += "; left out: remove the # to use it"
    return [*_comments([says]), line]


def left_out_note(variables: Sequence[DraftVariable]) -> list[str]:
    """Return what to do about the variables that are left out."""
    names = [variable.name for variable in variables if variable.is_left_out]
    if not names:
        return []
    shown = ", ".join(names[:MOST_NAMED]) + (" …" if len(names) > MOST_NAMED else "")
    are = "is" if len(names) == 1 else "are"
    return [f"{shown} {are} left out, as there would be too many pairs; see below how to use them"]


def _log_block(variables: Sequence[DraftVariable], flags: Sequence[tuple[str, str]]) -> list[str]:
    members = {m for v in variables if v.domain is not None for m in v.domain.members}
    lines = ["log {"]
    for variable in sorted(variables, key=lambda v: v.domain is not None):
        if not variable.column or variable.is_left_out:
            continue
        expression = "{}" if variable.domain is None else variable.domain.expression
        why = f"  # {_line(variable.why)}" if variable.domain is None and variable.why else ""
        column = expression.format(_reference(variable.column, members))
        lines.append(f"  {variable.name} = {column}{why}")
        if variable.next_column is not None:
            following = expression.format(_reference(variable.next_column, members))
            lines.append(f"  {variable.name}' = {following}")
    for key in ("ended", "cut"):
        columns = [_reference(column, members) for flag, column in flags if flag == key]
        if columns:
            lines.append(f"  {key} = {' or '.join(columns)}  # guessed from its name")
    return [*lines, "}"]


def _names_actions(variable: DraftVariable) -> bool:
    return variable.role == "action" and variable.name == "action"


def _reference(column: str, members: set[str]) -> str:
    """Return a column as the log block names it: in quotes unless it is a plain word."""
    is_plain = re.fullmatch(r"[^\W\d]\w*'?", column) and column not in RESERVED | members
    return column if is_plain else f'"{column}"'


def _comments(texts: Sequence[str]) -> list[str]:
    """Return texts as comments of lines that are not too long."""
    import textwrap

    return [f"# {line}" for text in texts for line in textwrap.wrap(_line(text), 96) or [""]]


def _line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
