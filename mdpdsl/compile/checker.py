"""From syntax tree to checked model: resolve names, check types and report every error.

Names may be used before they are declared. A statement with an error is left out, and no further
errors are reported for what depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mdpdsl.compile import domains
from mdpdsl.compile.checked import (
    CheckedModel,
    CheckedProperty,
    Discretization,
    Init,
    LogColumn,
    Reward,
    Spread,
)
from mdpdsl.compile.declare import Declarations
from mdpdsl.compile.dynamics import Dynamics
from mdpdsl.compile.explore_block import explore_settings
from mdpdsl.compile.parameters import Override
from mdpdsl.compile.property_check import check_query, property_scope
from mdpdsl.compile.scope import COLUMN, REWARD, STATE_GUARD, Definition, kind_in_words
from mdpdsl.compile.spreads import initial_spread
from mdpdsl.compile.terms import BOOL, INT, REAL, Term
from mdpdsl.diagnostics import Diagnostic, Span, did_you_mean
from mdpdsl.graph.transition_graph import DEFAULT_REWARD
from mdpdsl.syntax import ast
from mdpdsl.syntax.parse import Parsed

#: The default number of points per axis of a cell.
DEFAULT_POINTS = 5


def check(parsed: Parsed, overrides: Mapping[str, Override]) -> CheckedModel:
    """Check a parsed file, with some parameters overridden."""
    return check_declared(Declarations(parsed, overrides))


def check_declared(declared: Declarations) -> CheckedModel:
    """Check the rest of a file, given its declarations; further errors are added to theirs."""
    return _Checker(declared).check()


def _unread_numbers(model: CheckedModel) -> list[Diagnostic]:
    """Warn of unknown numbers that no transition depends on; a mistake may be the reason."""
    if any(d.is_error for d in model.diagnostics):
        return []
    read = model.numbers_read
    help_text = "remove it, or read it in a probability, an update or its noise"
    return [
        Diagnostic(
            "W007", f"no transition depends on the unknown number `{u.name}`", u.span, help_text
        )
        for u in model.unknowns
        if u.name not in read
    ]


class _Checker:
    def __init__(self, declared: Declarations) -> None:
        self.declared = declared
        self.scope = declared.scope
        self.dynamics = Dynamics(declared)

    def check(self) -> CheckedModel:
        declared, dynamics = self.declared, self.dynamics
        rewards, labels = self._rewards(), self._labels()
        restarts, ends = self._guards(ast.Restart), self._guards(ast.End)
        init = self._init()
        discretization = self._discretization()
        log = self._log()
        explore = explore_settings(self.scope, declared.all(ast.Explore))
        definitions = self.scope.resolved()
        properties = self._properties(definitions)
        header = declared.header
        model = CheckedModel(
            name=header.name.text if header else "model",
            title=header.title if header else None,
            span=header.span if header else Span(0, 1),
            parameters=declared.parameters,
            parameter_types=declared.parameter_types,
            states=declared.states,
            actions=declared.actions,
            symbols=self.scope.symbols,
            noises=declared.noises,
            unknowns=declared.unknowns,
            rules=dynamics.rules,
            equations=dynamics.equations,
            rewards=rewards,
            labels=labels,
            properties=properties,
            definitions=definitions,
            restarts=restarts,
            ends=ends,
            init=init,
            keeps_all_states=bool(declared.all(ast.StatesAll)),
            discretization=discretization,
            explore=explore,
            log=log,
            diagnostics=tuple(self.scope.diagnostics),
            can_expand=declared.hold and bool(declared.variables and declared.action_factors),
            broken_actions=frozenset(dynamics.broken_actions),
        )
        return replace(model, diagnostics=(*model.diagnostics, *_unread_numbers(model)))

    def _rewards(self) -> tuple[Reward, ...]:
        found = []
        for statement in self.declared.all(ast.Reward):
            actions = self.declared.actions_of(statement.actions or ())
            guard = None
            if statement.guard is not None:
                guard = self.scope.term(statement.guard, REWARD, BOOL)
            value = self.scope.term(statement.value, REWARD, REAL)
            guard_holds = statement.guard is None or guard is not None
            if actions is not None and value is not None and guard_holds:
                name = statement.name.text if statement.name else DEFAULT_REWARD
                found.append(Reward(name, actions, guard, value))
        return tuple(found)

    def _labels(self) -> dict[str, Term]:
        labels: dict[str, Term] = {}
        for statement in self.declared.all(ast.Label):
            name = statement.name.text
            if name in labels:
                self.scope.report(
                    "E202", f"the label `{name}` is declared twice", statement.name.span
                )
            guard = self.scope.term(statement.guard, STATE_GUARD, BOOL)
            if guard is not None:
                labels[name] = guard
        return labels

    def _properties(self, definitions: Mapping[str, Definition]) -> dict[str, CheckedProperty]:
        statements = self.declared.all(ast.Property)
        if not statements:
            return {}
        # A label or a reward with an error of its own is declared all the same.
        labels = [label.name.text for label in self.declared.all(ast.Label)]
        rewards = dict.fromkeys(
            reward.name.text if reward.name else DEFAULT_REWARD
            for reward in self.declared.all(ast.Reward)
        )
        scope = property_scope(
            definitions,
            self.scope.symbols,
            labels,
            rewards,
            self.scope.lost_names,
        )
        found: dict[str, CheckedProperty] = {}
        names: set[str] = set()
        for statement in statements:
            name = statement.name.text
            if name in names:
                message = f"the property `{name}` is declared twice"
                scope.report("E202", message, statement.name.span, "choose another name")
            names.add(name)
            checked = check_query(scope, statement.query, name)
            if checked is not None:
                found[name] = checked
        self.scope.diagnostics += scope.diagnostics
        return found

    def _guards(self, kind: type[ast.Restart | ast.End]) -> tuple[Term, ...]:
        """Return the guards of `restart` or `end`."""
        guards = [self.scope.term(s.guard, STATE_GUARD, BOOL) for s in self.declared.all(kind)]
        if any(guard is None for guard in guards):
            self.dynamics.broken_actions |= set(range(self.declared.actions.size))
        return tuple(guard for guard in guards if guard is not None)

    def _init(self) -> Init:
        statements = self.declared.all(ast.Init)
        if not statements:
            return Init({}, None, Span(0, 1))
        statement = statements[0]
        guard = None
        if statement.guard is not None:
            guard = self.scope.term(statement.guard, STATE_GUARD, BOOL)
            self.declared.hold &= guard is not None
        spreads: dict[str, Spread] = {}
        named: set[str] = set()
        for item in statement.items:
            name = item.name.text
            if name in named:
                self.scope.report("E506", f"`{name}` is set twice in `init`", item.span)
                continue
            named.add(name)
            spread = self._init_spread(item)
            if spread is None:
                self.declared.hold = False
            else:
                spreads[name] = spread
        left_out = [name for name in self.declared.variables if name not in named]
        if statement.items and left_out and named <= self.declared.variables.keys():
            names = ", ".join(f"`{name}`" for name in left_out)
            self.scope.report(
                "W001",
                f"`init` leaves out {names}, which will be drawn uniformly",
                statement.span,
                f"add `{left_out[0]} = …`",
            )
        return Init(spreads, guard, statement.span)

    def _init_spread(self, item: ast.InitItem) -> Spread | None:
        name = item.name.text
        if name not in self.declared.variables:
            definition = self.scope.definitions.get(name)
            if definition is None and name not in self.scope.lost_names:
                self.scope.report(
                    "E201",
                    f"unknown state variable `{name}`",
                    item.name.span,
                    did_you_mean(name, self.declared.variables),
                )
            elif definition is not None and definition.kind != "state":
                self.scope.report(
                    "E205",
                    f"`{name}` is {kind_in_words(definition.kind)}, not a state variable",
                    item.name.span,
                )
            return None
        return initial_spread(
            self.scope, item, self.declared.variables[name], self.declared.types[name]
        )

    def _discretization(self) -> Discretization:
        is_real = any(variable.kind == "real" for variable in self.declared.variables.values())
        statements = self.declared.all(ast.Discretize)
        if not statements:
            return Discretization("uniform", DEFAULT_POINTS) if is_real else Discretization("none")
        statement = statements[0]
        if not is_real and self.declared.hold:
            self.scope.report(
                "E403",
                "there is nothing to discretize: the model has no real variable",
                statement.span,
                "remove this line",
            )
        number, seed = float(DEFAULT_POINTS), 0.0
        if statement.method == "center":
            return Discretization("center")
        if statement.number is not None:
            number = self._count(statement.number, 1)
        if statement.seed is not None:
            seed = self._count(statement.seed, 0)
        return Discretization(statement.method, int(number), int(seed))

    def _count(self, expression: ast.Expr, least: int) -> float:
        number = domains.fixed_number(self.scope, expression, INT)
        if number is None or number < least:
            if number is not None:
                self.scope.report(
                    "E402", f"{number:.0f} is too small", expression.span, f"use {least} or more"
                )
            self.declared.hold = False
            return float(least)
        return number

    def _log(self) -> tuple[LogColumn, ...]:
        known = {"episode", "time", "ended", "cut"} | {
            factor.name for factor in self.declared.action_factors
        }
        for name in self.declared.variables:
            known |= {name, f"{name}'", f"next_{name}"}
        found: dict[str, LogColumn] = {}
        for statement in self.declared.all(ast.Log):
            for entry in statement.entries:
                key = entry.key.text
                if key in found:
                    self.scope.report("E506", f"`{key}` is set twice in `log`", entry.span)
                if key not in known and key not in self.scope.lost_names:
                    self.scope.report(
                        "E201",
                        f"unknown key `{key}` in the log block",
                        entry.key.span,
                        did_you_mean(key, known) or f"the keys are {', '.join(sorted(known))}",
                    )
                term = self.scope.infer(entry.value, COLUMN)
                if term is not None:
                    found[key] = LogColumn(key, term)
        return tuple(found.values())
