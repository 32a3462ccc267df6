"""The names of a model: what each means, and where it may be used."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace

from mdpdsl.compile.expressions import FUNCTIONS
from mdpdsl.compile.terms import Term
from mdpdsl.diagnostics import Diagnostic, Span, with_article
from mdpdsl.syntax import ast
from mdpdsl.syntax.words import CONTEXTUAL_KEYWORDS, KEYWORDS

CONSTANTS = {"pi": math.pi, "e": math.e, "inf": math.inf}

#: Every function a model may call, with the number of its arguments (None: one or more).
ARITY: dict[str, int | None] = {
    name: {"min": None, "max": None, "atan2": 2, "mod": 2, "clip": 3, "wrap": 3}.get(name, 1)
    for name in FUNCTIONS
    if name.isidentifier() and name not in ("not", "negative")
}

RESERVED = (KEYWORDS - CONTEXTUAL_KEYWORDS) | CONSTANTS.keys() | ARITY.keys()


def allowed_name(text: str) -> str:
    """Turn a text into a name: letters, digits and underscores, and not a keyword."""
    name = re.sub(r"\W+", "_", re.sub(r"-(?=[0-9.])", "m", text)).strip("_") or "_"
    name = text if re.fullmatch(r"[^\W\d]\w*", text) else name
    name = f"_{name}" if name[0].isdigit() else name
    return f"{name}_" if name in RESERVED else name


@dataclass(frozen=True)
class Place:
    """Where an expression occurs, and which kinds of `Read` it may contain there."""

    name: str
    kinds: frozenset[str]


FIXED = Place("a value that must be known before the model runs", frozenset())
STATE_GUARD = Place("a condition on states", frozenset({"state"}))
GUARD = Place("a guard", frozenset({"state", "action"}))
TRUTH = Place("the truth of a `?`", frozenset({"state", "action"}))
PROBABILITY = Place("a probability", frozenset({"state", "action", "unknown"}))
SPREAD = Place("a distribution of noise", frozenset({"unknown"}))
REWARD = Place("a reward", frozenset({"state", "action", "next"}))
UPDATE = Place("an update", frozenset({"state", "action", "noise", "next", "unknown"}))
PROPERTY = Place("a property", frozenset({"state", "label"}))
COLUMN = Place("a column of the log", frozenset({"column"}))

KIND_WORDS = {
    "state": "the state variable",
    "action": "the action",
    "noise": "the noise",
    "next": "the next value of",
    "unknown": "the unknown number",
}


@dataclass(frozen=True, eq=False)
class Definition:
    """The meaning of a name: a term, or a `let` or `param` that is typed on first use."""

    kind: str  # param, let, state, action, noise, unknown, member
    span: Span
    term: Term | None = None
    syntax: ast.Expr | None = None


def kind_in_words(kind: str) -> str:
    """Return what a name of some kind is, with an article: `an unknown number`, `a param`."""
    return with_article("unknown number" if kind == "unknown" else kind)


@dataclass(eq=False)
class Names:
    """All names of a model, and the errors in their use."""

    definitions: dict[str, Definition] = field(default_factory=dict)
    symbols: dict[str, int] = field(default_factory=dict)
    lost_names: frozenset[str] = frozenset()
    diagnostics: list[Diagnostic] = field(default_factory=list)
    _unknown: dict[str, tuple[int, int]] = field(default_factory=dict)

    def report(self, code: str, message: str, span: Span, help_text: str | None = None) -> None:
        """Add a diagnostic."""
        self.diagnostics.append(Diagnostic(code, message, span, help_text))

    def mark(self) -> tuple[int, dict[str, tuple[int, int]]]:
        """Return what has been reported so far, for `rewind`."""
        return len(self.diagnostics), dict(self._unknown)

    def rewind(self, mark: tuple[int, dict[str, tuple[int, int]]]) -> None:
        """Forget what has been reported since a mark."""
        del self.diagnostics[mark[0] :]
        self._unknown = mark[1]

    def declare(self, name: ast.Ident, definition: Definition) -> bool:
        """Declare a name; report it if it is taken or reserved."""
        text = name.text
        if text in RESERVED:
            what = "built-in function"
            if text in CONSTANTS or text in KEYWORDS:
                what = "built-in constant" if text in CONSTANTS else "keyword"
            self.report("E203", f"`{text}` is a {what}", name.span, "choose another name")
            self.lost_names |= {text}  # do not report its uses as well
            return False
        if text in self.definitions:
            other = self.definitions[text]
            if other.kind == definition.kind == "member":
                return True
            self.report(
                "E202",
                f"`{text}` is already declared as {kind_in_words(other.kind)}",
                name.span,
                "choose another name, or remove one of the two",
            )
            return False
        self.definitions[text] = definition
        return True

    def symbol(self, member: str) -> int:
        """Return the number of a member of an enumeration."""
        return self.symbols.setdefault(member, len(self.symbols))

    def report_unknown(self, name: str, span: Span, help_text: str | None) -> None:
        """Report an unknown name at its first use, with the number of its uses."""
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
            "noise": "noise can be used only in updates and equations",
            "next": "next values can be used only in updates, equations and rewards",
            "action": "conditions on the action belong in an `on` line",
            "state": "use only numbers, params, and lets that do not depend on variables",
            "unknown": "unknown numbers may occur in probabilities of branches, in updates and "
            "equations, and in `normal` and `uniform` noise",
        }
        self.report("E205", f"{what} cannot be used in {place.name}", span, hints[kind])
