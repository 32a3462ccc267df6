"""The declarations in a model file: its names, state variables, actions and noises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from mdpdsl.compile import domains
from mdpdsl.compile.checked import Noise, Unknown
from mdpdsl.compile.limits import MOST_ACTIONS
from mdpdsl.compile.parameters import Override, override_parameters
from mdpdsl.compile.scope import Definition
from mdpdsl.compile.spreads import noise_spread
from mdpdsl.compile.terms import BOOL, INT, REAL, Constant, Read, Type
from mdpdsl.compile.typecheck import Scope
from mdpdsl.diagnostics import Span, did_you_mean
from mdpdsl.graph.space import Product, Value, Variable
from mdpdsl.syntax import ast
from mdpdsl.syntax.parse import Parsed

S = TypeVar("S", bound=ast.Node)

#: Statements that can be lost to a syntax error without changing the states of the model.
_DISPENSABLE = {"let", "on", "table", "reward", "label", "property", "explore", "log"}


class Declarations:
    """What a file declares; `hold` becomes false if a declaration has an error."""

    def __init__(self, parsed: Parsed, overrides: Mapping[str, Override]) -> None:
        self.statements = parsed.file.statements
        self.scope = Scope(lost_names=parsed.lost_names, diagnostics=list(parsed.diagnostics))
        self.has_syntax_mistakes = bool(parsed.diagnostics)
        self.has_lost_rules = bool(parsed.lost_words - {"property"})
        # If any other statement is lost, errors in the states cannot be found.
        self.hold = parsed.lost_words <= _DISPENSABLE
        self.variables: dict[str, Variable] = {}
        self.types: dict[str, Type] = {}
        self.action_factors: list[Variable] = []
        self.header = self._header()
        self._once(ast.Init, ast.Discretize, ast.Explore, ast.Log, ast.StatesAll)
        self._declare_definitions(overrides)
        self._declare_actions()
        self._declare_states()
        self.unknowns = self._unknowns(overrides)
        self.noises = self._noises()
        self.parameters, self.parameter_types = self._parameters()
        self.states = Product(tuple(self.variables.values()))
        self.actions = self._action_product()
        self._type_lets()

    def all(self, kind: type[S]) -> list[S]:
        """Return all statements of one kind."""
        return [statement for statement in self.statements if isinstance(statement, kind)]

    def actions_of(self, names: tuple[ast.Ident, ...]) -> frozenset[int] | None:
        """Return the numbers of the named actions; of all actions if the list is empty."""
        everything = np.arange(self.actions.size)
        if not names:
            return frozenset(everything.tolist())
        factors = self.actions.variables
        named = factors[0] if factors and factors[0].name == "action" else None
        chosen: set[int] = set()
        is_good = True
        for name in names:
            if named is None or name.text not in named.members:
                is_good = False
                if name.text in self.scope.lost_names:
                    continue
                if any(name.text == factor.name for factor in factors):
                    help_text: str | None = f"write `on any when {name.text} == …`"
                else:
                    members = named.members if named else ()
                    help_text = did_you_mean(name.text, members)
                    if help_text is None and 0 < len(members) <= 12:
                        help_text = f"the actions are {', '.join(members)}"
                self.scope.report("E201", f"unknown action `{name.text}`", name.span, help_text)
                continue
            cells = self.actions.cells(everything, 0)
            chosen |= set(everything[cells == named.members.index(name.text)].tolist())
        return frozenset(chosen) if is_good else None

    def _once(self, *kinds: type[ast.Node]) -> None:
        for kind in kinds:
            for extra in self.all(kind)[1:]:
                word = {"StatesAll": "states"}.get(kind.__name__, kind.__name__.lower())
                self.scope.report(
                    "E104",
                    f"`{word}` may appear only once",
                    extra.span,
                    "combine the two statements, or remove one",
                )

    def _header(self) -> ast.Header | None:
        headers = self.all(ast.Header)
        if not headers:
            if not self.statements and not self.has_syntax_mistakes:
                self.scope.report(
                    "E104",
                    "the file contains no model",
                    Span(0, 1),
                    "`mdpdsl models riverswim` prints one to start from",
                )
            elif not self.has_syntax_mistakes:
                self.scope.report(
                    "E104",
                    "the model has no name",
                    Span(0, 1),
                    'start the file with `mdp NAME "title"`',
                )
            return None
        first = self.statements[0]
        if first is not headers[0]:
            self.scope.report("E104", "`mdp` must be the first statement", headers[0].span)
        for extra in headers[1:]:
            self.scope.report(
                "E104",
                "a file contains one model, but `mdp` appears again",
                extra.span,
                "move the second model to its own file",
            )
        return headers[0]

    def _declare_definitions(self, overrides: Mapping[str, Override]) -> None:
        for param in self.all(ast.Param):
            definition = Definition("param", param.span, syntax=param.value)
            self.hold &= self.scope.declare(param.name, definition)
        for let in self.all(ast.Let):
            self.scope.declare(let.name, Definition("let", let.span, syntax=let.value))
        for unknown in self.all(ast.Unknown):
            read = Read("unknown", unknown.name.text, type=REAL, span=unknown.name.span)
            definition = Definition("unknown", unknown.name.span, read)
            self.hold &= self.scope.declare(unknown.name, definition)
        unknowns = [name for name, d in self.scope.definitions.items() if d.kind == "unknown"]
        self.hold &= override_parameters(self.scope, overrides, unknowns)
        for param in self.all(ast.Param):  # in file order, before anything uses them
            if param.name.text in self.scope.definitions:
                self.scope.definition_term(param.name.text)

    def _declare_actions(self) -> None:
        named = [name for s in self.all(ast.ActionNames) for name in s.names]
        if named:
            self._declare_named_actions(named)
        for statement in self.all(ast.ActionFactor):
            if isinstance(statement.domain, ast.RealDomain):
                self.scope.report(
                    "E403",
                    "an action cannot be an interval",
                    statement.domain.span,
                    f"list the values: `action {statement.name.text} in {{-1, 0, 1}}`",
                )
                self.scope.declare(statement.name, Definition("action", statement.span))
                self.hold = False
                continue
            self._declare_variable(statement.name, statement.domain, "action")
        is_missing = not named and not self.all(ast.ActionFactor)
        if is_missing and self.statements and not self.has_syntax_mistakes:
            self.scope.report(
                "E104",
                "the model has no action",
                Span(0, 1),
                "add `action left, right`, or `action u in {-1, 0, 1}`",
            )

    def _declare_named_actions(self, named: list[ast.Ident]) -> None:
        members: list[str] = []
        for name in named:
            if name.text in members:
                self.scope.report("E202", f"the action `{name.text}` is declared twice", name.span)
                continue
            term = self._member(name.text, name.span)
            if self.scope.declare(name, Definition("member", name.span, term)):
                members.append(name.text)
        kind = Type("enum", frozenset(members))
        read = Read("action", "action", type=kind, span=named[0].span)
        self.scope.definitions["action"] = Definition("action", named[0].span, read)
        factor = Variable("action", "enum", len(members), members=tuple(members))
        self.action_factors.append(factor)

    def _action_product(self) -> Product:
        actions = Product(tuple(self.action_factors))
        if actions.size <= MOST_ACTIONS:
            return actions
        statements = [*self.all(ast.ActionNames), *self.all(ast.ActionFactor)]
        self.scope.report(
            "E701",
            f"the model has too many actions: {actions.size:,}",
            statements[-1].span,
            f"use at most {MOST_ACTIONS:,} combinations of values",
        )
        self.hold = False
        return Product(())

    def _declare_states(self) -> None:
        for statement in self.all(ast.State):
            self._declare_variable(statement.name, statement.domain, "state")
        if not self.all(ast.State) and self.statements and not self.has_syntax_mistakes:
            self.scope.report(
                "E104",
                "the model has no state variable",
                Span(0, 1),
                "add a line such as `state x in 0..9`",
            )

    def _declare_variable(self, name: ast.Ident, domain: ast.Domain, kind: str) -> None:
        """Declare a state variable or an action factor, and the members of its enumeration."""
        found = domains.variable(self.scope, name, domain)
        if found is not None and isinstance(domain, ast.SetDomain) and found[0].kind == "enum":
            for item in domain.items:
                assert isinstance(item, ast.Name)
                member = ast.Ident(item.name, span=item.span)
                term = self._member(item.name, item.span)
                if not self.scope.declare(member, Definition("member", item.span, term)):
                    self.hold = False
        if found is None:
            self.hold = False
            self.scope.declare(name, Definition(kind, name.span))
            return
        declared, value_type = found
        read = Read(kind, name.text, type=value_type, span=name.span)
        if not self.scope.declare(name, Definition(kind, name.span, read)):
            self.hold = False
        elif kind == "state":
            self.variables[name.text] = declared
            self.types[name.text] = value_type
        else:
            self.action_factors.append(declared)

    def _member(self, text: str, span: Span) -> Constant:
        kind = Type("enum", frozenset({text}))
        return Constant(float(self.scope.symbol(text)), type=kind, span=span)

    def _unknowns(self, overrides: Mapping[str, Override]) -> tuple[Unknown, ...]:
        found: dict[str, Unknown] = {}
        for statement in self.all(ast.Unknown):
            name = statement.name.text
            definition = self.scope.definitions.get(name)
            if name in found or definition is None or definition.kind != "unknown":
                continue  # already reported: reserved, or declared twice
            number = domains.unknown_number(self.scope, statement, overrides.get(name))
            if number is None:
                self.hold = False
            else:
                found[name] = number
        return tuple(found.values())

    def _noises(self) -> tuple[Noise, ...]:
        found = []
        for statement in self.all(ast.Noise):
            spread, terms = noise_spread(self.scope, statement.distribution, self.unknowns)
            kind = REAL
            if spread is not None and spread.values is not None and terms is None:
                kind = INT if bool(np.all(spread.values == np.rint(spread.values))) else REAL
            read = Read("noise", statement.name.text, type=kind, span=statement.name.span)
            known = Definition("noise", statement.name.span, read if spread else None)
            if self.scope.declare(statement.name, known) and spread is not None:
                family = None
                if isinstance(statement.distribution, ast.NamedDistribution) and terms is not None:
                    family = statement.distribution.family.text
                found.append(Noise(statement.name.text, spread, terms, family))
            else:
                self.hold = False
        return tuple(found)

    def _parameters(self) -> tuple[dict[str, Value], dict[str, Type]]:
        values: dict[str, Value] = {}
        types: dict[str, Type] = {}
        for param in self.all(ast.Param):
            definition = self.scope.definitions.get(param.name.text)
            if definition is None or definition.kind != "param":
                continue  # already reported: reserved, or declared twice
            term = self.scope.definition_term(param.name.text)
            if not isinstance(term, Constant):
                self.hold = False
                continue
            types[param.name.text] = term.type
            if term.type == BOOL:
                values[param.name.text] = bool(term.value)
            else:
                values[param.name.text] = int(term.value) if term.type == INT else term.value
        for unknown in self.unknowns:
            if unknown.value is not None:
                values[unknown.name], types[unknown.name] = unknown.value, REAL
        return values, types

    def _type_lets(self) -> None:
        for let in self.all(ast.Let):
            definition = self.scope.definitions.get(let.name.text)
            if definition is not None and definition.kind == "let":
                self.scope.definition_term(let.name.text)
