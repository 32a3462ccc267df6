"""The names of a model: what each stands for, and where it may be used."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from mdpdsl.compile.expressions import FUNCTIONS
from mdpdsl.compile.terms import Term
from mdpdsl.diagnostics import Diagnostic, Span, with_article
from mdpdsl.syntax import ast
from mdpdsl.syntax.words import KEYWORDS

CONSTANTS = {"pi": math.pi, "e": math.e, "inf": math.inf}

#: Every function a model may call, with the number of its arguments (None: one or more).
ARITY: dict[str, int | None] = {
    name: {"min": None, "max": None, "atan2": 2, "mod": 2, "clip": 3, "wrap": 3}.get(name, 1)
    for name in FUNCTIONS
    if name.isidentifier() and name not in ("not", "negative")
}

RESERVED = KEYWORDS | CONSTANTS.keys() | ARITY.keys()


@dataclass(frozen=True)
class Place:
    """Where an expression stands, and what it may read there: kinds of `Read`."""

    name: str
    kinds: frozenset[str]


FIXED = Place("a value fixed before the model runs", frozenset())
STATE_GUARD = Place("a condition on states", frozenset({"state"}))
GUARD = Place("a guard or a probability", frozenset({"state", "action"}))
REWARD = Place("a reward", frozenset({"state", "action", "next"}))
UPDATE = Place("an update", frozenset({"state", "action", "noise", "next"}))
COLUMN = Place("a column of the log", frozenset({"column"}))

KIND_WORDS = {
    "state": "the state variable",
    "action": "the action",
    "noise": "the noise",
    "next": "the next value of",
}


@dataclass(frozen=True, eq=False)
class Definition:
    """What a name stands for: a term, or a `let` or `param` to be typed when first used."""

    kind: str  # param, let, state, action, noise, member
    span: Span
    term: Term | None = None
    syntax: ast.Expr | None = None


@dataclass(eq=False)
class Names:
    """All names of a model, and what is wrong with them."""

    definitions: dict[str, Definition] = field(default_factory=dict)
    symbols: dict[str, int] = field(default_factory=dict)
    lost_names: frozenset[str] = frozenset()
    diagnostics: list[Diagnostic] = field(default_factory=list)
    _unknown: dict[str, tuple[int, int]] = field(default_factory=dict)

    def report(self, code: str, message: str, span: Span, help_text: str | None = None) -> None:
        """Add a diagnostic."""
        self.diagnostics.append(Diagnostic(code, message, span, help_text))

    def declare(self, name: ast.Ident, definition: Definition) -> bool:
        """Enter a name; report it if it is taken or reserved."""
        text = name.text
        if text in RESERVED:
            what = "constant" if text in CONSTANTS else "word" if text in KEYWORDS else "function"
            self.report(
                "E203", f"`{text}` is a {what} of the language", name.span, "use another name"
            )
            self.lost_names |= {text}  # uses of it are no second mistake
            return False
        if text in self.definitions:
            other = self.definitions[text]
            if other.kind == definition.kind == "member":
                return True
            self.report(
                "E202",
                f"`{text}` is declared twice: it is {with_article(other.kind)} already",
                name.span,
                "use another name, or remove one of the two",
            )
            return False
        self.definitions[text] = definition
        return True

    def symbol(self, member: str) -> int:
        """Return the number of an enumeration's member."""
        return self.symbols.setdefault(member, len(self.symbols))

    def report_unknown(self, name: str, span: Span, help_text: str | None) -> None:
        """Report an unknown name where it is used first, with the number of its other uses."""
        index, n_others = self._unknown.get(name, (len(self.diagnostics), -1))
        n_others += 1
        self._unknown[name] = index, n_others
        if n_others == 0:
            self.report("E201", f"unknown name `{name}`", span, help_text)
            return
        message = f"unknown name `{name}` (used in {n_others + 1} places)"
        self.diagnostics[index] = replace(self.diagnostics[index], message=message)

    def report_misplaced(self, span: Span, place: Place, what: str, kind: str) -> None:
        hints = {
            "noise": "noise may be read in updates and equations only",
            "next": "a next value may be read in updates, equations and rewards only",
            "action": "what depends on the action goes into an `on` line",
            "state": "use numbers, params and lets that read no variable",
        }
        self.report("E205", f"{what} cannot be used in {place.name}", span, hints[kind])
