"""Names and types: from a syntax expression to a typed term, or to diagnostics.

A part that cannot be typed becomes None and causes no further errors: each is reported once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from mdpdsl.compile.expressions import fold
from mdpdsl.compile.scope import (
    ARITY,
    CONSTANTS,
    FIXED,
    KIND_WORDS,
    UPDATE,
    Definition,
    Names,
    Place,
    kind_in_words,
)
from mdpdsl.compile.terms import (
    BOOL,
    INT,
    REAL,
    Apply,
    Choose,
    Constant,
    Logic,
    Named,
    Read,
    Term,
    Type,
    accepts,
    join,
    reads,
)
from mdpdsl.diagnostics import Span, did_you_mean
from mdpdsl.syntax import ast

#: How deep expressions may be nested through lets, and how long a chain of names used before their
#: definition may be. Both are limited because passes over terms recurse.
MAX_DEPTH_THROUGH_LETS = 200
MAX_OPEN_DEFINITIONS = 40
#: After this many diagnostics, no similar names are suggested, because the search is slow.
MOST_HINTS = 50

#: Functions that return an integer if all their arguments are integers.
_KEEPS_WHOLE = {"abs", "sign", "min", "max", "clip", "wrap", "mod"}
_ALWAYS_WHOLE = {"floor", "ceil", "round"}


@dataclass(eq=False)
class Scope(Names):
    """The names of a model, and the types of expressions that use them."""

    _typed: dict[str, Term | None] = field(default_factory=dict)
    _open: list[str] = field(default_factory=list)
    _depths: dict[str, int] = field(default_factory=dict)
    _deepest_let: int = 0
    _let_reads: dict[str, frozenset[tuple[str, str]]] = field(default_factory=dict)

    def override(self, name: str, value: Constant) -> None:
        """Replace the value of a parameter; everything will be typed again."""
        self.definitions[name] = Definition("param", self.definitions[name].span, value)
        self._typed.clear()

    def resolved(self) -> dict[str, Definition]:
        """Return the meaning of every name, with all lets and params typed."""
        return {
            name: Definition(definition.kind, definition.span, self.definition_term(name))
            for name, definition in self.definitions.items()
        }

    def term(self, expression: ast.Expr, place: Place, wanted: Type | None = None) -> Term | None:
        """Type an expression for a place; report a type other than `wanted`, if given."""
        typed = self.infer(expression, place)
        if typed is None or wanted is None:
            return typed
        if accepts(wanted, typed.type):
            return typed
        if wanted == BOOL and isinstance(typed, Read) and typed.kind == "column":
            yes = Constant(1.0, type=INT, span=typed.span)
            return Apply("==", (typed, yes), type=BOOL, span=typed.span)
        self.report(
            "E301",
            f"expected {wanted}, found {typed.type}",
            expression.span,
            conversion_hint(wanted, typed.type),
        )
        return None

    def infer(self, expression: ast.Expr, place: Place) -> Term | None:
        """Type an expression, whatever its type."""
        match expression:
            case ast.Number():
                kind = INT if expression.is_whole else REAL
                return Constant(expression.value, type=kind, span=expression.span)
            case ast.Boolean():
                return Constant(float(expression.value), type=BOOL, span=expression.span)
            case ast.Text():
                return self._text(expression, place)
            case ast.Name():
                return self._name(expression, place)
            case ast.Primed():
                return self._primed(expression, place)
            case ast.Unary():
                return self._unary(expression, place)
            case ast.Binary():
                return self._binary(expression, place)
            case ast.Comparison():
                return self._comparison(expression, place)
            case ast.Logical():
                operands = self._all(expression.operands, place, BOOL)
                if operands is None:
                    return None
                return Logic(expression.operator, operands, type=BOOL, span=expression.span)
            case ast.Conditional():
                return self._conditional(expression, place)
            case ast.Call():
                return self._call(expression, place)
        raise AssertionError(expression)

    # Names

    def _text(self, expression: ast.Text, place: Place) -> Term | None:
        if "column" in place.kinds:
            return Read("column", expression.value, type=REAL, span=expression.span)
        self.report(
            "E301",
            "a string cannot be used here",
            expression.span,
            "strings are for titles, settings and log columns",
        )
        return None

    def _name(self, expression: ast.Name, place: Place) -> Term | None:
        name = expression.name
        if name in CONSTANTS:
            return Constant(CONSTANTS[name], type=REAL, span=expression.span)
        if name in self.definitions:
            return self._defined(expression, place)
        if "column" in place.kinds:
            return Read("column", name, type=REAL, span=expression.span)
        if name not in self.lost_names:
            if name in ARITY:
                help_text: str | None = f"`{name}` is a function: write `{name}(…)`"
            elif len(self.diagnostics) < MOST_HINTS:
                help_text = did_you_mean(name, [*self.definitions, *CONSTANTS])
            else:
                help_text = None
            self.report_unknown(name, expression.span, help_text)
        return None

    def _defined(self, expression: ast.Name, place: Place) -> Term | None:
        name = expression.name
        definition = self.definitions[name]
        if "column" in place.kinds and definition.kind not in ("param", "member"):
            return Read("column", name, type=REAL, span=expression.span)
        if definition.kind in ("param", "let"):
            typed = self.definition_term(name)
            if typed is None:
                return None
            if definition.kind == "param":
                assert isinstance(typed, Constant)
                return Constant(typed.value, type=typed.type, span=expression.span)
            self._deepest_let = max(self._deepest_let, self._depths.get(name, 0))
            if name not in self._let_reads:
                self._let_reads[name] = reads(typed)
            found = self._let_reads[name]
            if not {kind for kind, _ in found} <= place.kinds:
                kind, read = sorted(r for r in found if r[0] not in place.kinds)[0]
                self.report_misplaced(
                    expression.span,
                    place,
                    f"`{name}` depends on {KIND_WORDS[kind]} `{read}`, which",
                    kind,
                )
                return None
            return Named(name, typed, found, type=typed.type, span=expression.span)
        term = definition.term
        if term is None:  # the declaration itself has an error
            return None
        if isinstance(term, Constant):
            return Constant(term.value, type=term.type, span=expression.span)
        assert isinstance(term, Read)
        if term.kind not in place.kinds:
            what = f"`{name}`" if name == "action" else f"{KIND_WORDS[term.kind]} `{name}`"
            self.report_misplaced(expression.span, place, what, term.kind)
            return None
        return Read(term.kind, term.name, type=term.type, span=expression.span)

    def definition_term(self, name: str) -> Term | None:
        """Type a `param` or `let` once; report a definition that depends on itself."""
        if name in self._typed:
            return self._typed[name]
        definition = self.definitions[name]
        if definition.term is not None or definition.syntax is None:
            self._typed[name] = definition.term
            return definition.term
        if name in self._open:
            cycle = [*self._open[self._open.index(name) :], name]
            self.report(
                "E204",
                f"`{name}` depends on itself: {' -> '.join(cycle)}",
                definition.syntax.span,
                "break the cycle",
            )
            return None
        if len(self._open) == MAX_OPEN_DEFINITIONS:
            message = f"too long a chain of definitions depends on `{name}`"
            self.report("E103", message, definition.span, "define names before they are used")
            return None
        self._open.append(name)
        outer, self._deepest_let = self._deepest_let, 0
        place = FIXED if definition.kind == "param" else UPDATE
        typed = self.infer(definition.syntax, place)
        depth = definition.syntax.depth + self._deepest_let
        self._open.pop()
        self._deepest_let = outer
        if definition.kind == "let":
            if typed is not None and depth > MAX_DEPTH_THROUGH_LETS:
                message = f"`{name}` is nested {depth} levels deep through other lets"
                self.report(
                    "E103", message, definition.span, f"use at most {MAX_DEPTH_THROUGH_LETS} levels"
                )
                typed = None
            self._depths[name] = depth
        if typed is not None and definition.kind == "param":
            typed = fold(typed)
            if not isinstance(typed, Constant):
                self.report(
                    "E507",
                    f"`{name}` has no value: it divides by zero or is not a number",
                    definition.syntax.span,
                )
                typed = None
            elif not math.isfinite(typed.value):
                self.report(
                    "E402",
                    f"`{name}` is not finite",
                    definition.syntax.span,
                    "give a finite number",
                )
                typed = None
        self._typed[name] = typed
        return typed

    def _primed(self, expression: ast.Primed, place: Place) -> Term | None:
        name = expression.name
        if "column" in place.kinds:
            return Read("column", f"{name}'", type=REAL, span=expression.span)
        definition = self.definitions.get(name)
        if definition is None or definition.kind != "state":
            if definition is None and name in self.lost_names:
                return None
            states = [n for n, d in self.definitions.items() if d.kind == "state"]
            what = f"`{name}` is not a state variable"
            if definition is not None:
                what = f"`{name}` is {kind_in_words(definition.kind)}, not a state variable"
            self.report(
                "E201",
                f"unknown next value `{name}'`: {what}",
                expression.span,
                did_you_mean(name, states),
            )
            return None
        if definition.term is None:
            return None
        if "next" not in place.kinds:
            self.report_misplaced(expression.span, place, f"the next value `{name}'`", "next")
            return None
        return Read("next", name, type=definition.term.type, span=expression.span)

    # Operations

    def _all(
        self, expressions: Iterable[ast.Expr], place: Place, wanted: Type | None
    ) -> tuple[Term, ...] | None:
        """Type several expressions, reporting the mistakes in each."""
        typed = [self.term(expression, place, wanted) for expression in expressions]
        good = tuple(term for term in typed if term is not None)
        return good if len(good) == len(typed) else None

    def _unary(self, expression: ast.Unary, place: Place) -> Term | None:
        wanted = BOOL if expression.operator == "not" else REAL
        operand = self.term(expression.operand, place, wanted)
        if operand is None or expression.operator == "+":
            return operand
        if expression.operator == "not":
            return Apply("not", (operand,), type=BOOL, span=expression.span)
        if isinstance(operand, Constant):
            return Constant(-operand.value, type=operand.type, span=expression.span)
        return Apply("negative", (operand,), type=operand.type, span=expression.span)

    def _binary(self, expression: ast.Binary, place: Place) -> Term | None:
        operands = self._all((expression.left, expression.right), place, REAL)
        if operands is None:
            return None
        is_whole = all(term.type == INT for term in operands)
        if expression.operator == "/":
            is_whole = False
        if expression.operator == "^":
            exponent = operands[1] if reads(operands[1]) else fold(operands[1])
            is_whole &= isinstance(exponent, Constant) and exponent.value >= 0
        kind = INT if is_whole else REAL
        return Apply(expression.operator, operands, type=kind, span=expression.span)

    def _comparison(self, expression: ast.Comparison, place: Place) -> Term | None:
        operands = self._all(expression.operands, place, None)
        if operands is None:
            return None
        links: list[Term] = []
        for operator, left, right in zip(
            expression.operators, operands, operands[1:], strict=False
        ):
            span = left.span.to(right.span)
            if not self._comparable(operator, left, right, span):
                return None
            links.append(Apply(operator, (left, right), type=BOOL, span=span))
        if len(links) == 1:
            return links[0]
        return Logic("and", tuple(links), type=BOOL, span=expression.span)

    def _comparable(self, operator: str, left: Term, right: Term, span: Span) -> bool:
        if left.type.is_number and right.type.is_number:
            return True
        if left.type.kind != right.type.kind:
            self.report("E301", f"cannot compare {left.type} with {right.type}", span)
            return False
        if operator not in ("==", "!="):
            self.report(
                "E301",
                f"`{operator}` compares numbers, not {left.type}",
                span,
                "use `==` or `!=`",
            )
            return False
        if left.type.kind == "enum" and not left.type.members & right.type.members:
            self.report(
                "E301",
                f"{left.type} can never equal {right.type}",
                span,
                did_you_mean(sorted(right.type.members)[0], left.type.members),
            )
            return False
        return True

    def _conditional(self, expression: ast.Conditional, place: Place) -> Term | None:
        conditions = self._all((case[0] for case in expression.cases), place, BOOL)
        results = (*(case[1] for case in expression.cases), expression.otherwise)
        values = self._all(results, place, None)
        if conditions is None or values is None:
            return None
        kind = values[0].type
        for value in values[1:]:
            joined = join(kind, value.type)
            if joined is None:
                self.report(
                    "E301",
                    f"the cases have different types: {kind} and {value.type}",
                    value.span,
                    "all cases must have the same type",
                )
                return None
            kind = joined
        cases = tuple(zip(conditions, values[:-1], strict=True))
        return Choose(cases, values[-1], type=kind, span=expression.span)

    def _call(self, expression: ast.Call, place: Place) -> Term | None:
        name, span = expression.function.text, expression.function.span
        if name not in ARITY:
            help_text = did_you_mean(name, ARITY) or f"the functions are {', '.join(ARITY)}"
            if name in ("normal", "uniform"):
                help_text = f"declare `noise w ~ {name}(…)` and use `w` here"
            self.report("E206", f"unknown function `{name}`", span, help_text)
            return None
        arity, n_given = ARITY[name], len(expression.arguments)
        if n_given != arity and not (arity is None and n_given > 0):
            needs = "one or more arguments" if arity is None else _arguments(arity)
            self.report("E206", f"`{name}` takes {needs}, not {n_given}", expression.span)
            return None
        arguments = self._all(expression.arguments, place, REAL)
        if arguments is None:
            return None
        is_whole = name in _KEEPS_WHOLE and all(term.type == INT for term in arguments)
        kind = INT if is_whole or name in _ALWAYS_WHOLE else REAL
        return Apply(name, arguments, type=kind, span=expression.span)


def conversion_hint(wanted: Type, given: Type) -> str | None:
    """Suggest how to convert a value of one type into another."""
    if wanted == INT and given == REAL:
        return "use `round`, `floor` or `ceil` to get an integer (`/` is real division)"
    if wanted.is_number and given == BOOL:
        return "write `if … then 1 else 0`"
    if wanted == BOOL and given.is_number:
        return "compare it with a value, as in `x > 0`"
    if wanted.kind == given.kind == "enum":
        extra = sorted(given.members - wanted.members)
        return f"`{extra[0]}` is not one of {{{', '.join(sorted(wanted.members))}}}"
    return None


def _arguments(n: int) -> str:
    return f"{n} argument{'s' if n > 1 else ''}"
