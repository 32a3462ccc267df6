"""The dynamics in a model file: `on` lines, tables and equations, with names and types checked."""

from __future__ import annotations

from collections.abc import Mapping

from mdpdsl.compile.checked import Branch, Rule
from mdpdsl.compile.declare import Declarations
from mdpdsl.compile.open_branches import branch_weight, report_unsmooth, settled_branches
from mdpdsl.compile.scope import GUARD, UPDATE, kind_in_words
from mdpdsl.compile.table_blocks import table_rules
from mdpdsl.compile.terms import BOOL, Term, reads
from mdpdsl.diagnostics import Span, did_you_mean
from mdpdsl.syntax import ast


class Dynamics:
    """The dynamics of a model; `broken_actions` have `on` lines with errors."""

    def __init__(self, declared: Declarations) -> None:
        self.declared = declared
        self.scope = declared.scope
        self.broken_actions: set[int] = set()
        self.equation_names: set[str] = set()
        self.equations = self._equations()
        self.rules = self._rules()
        self._actions_without_lines()
        self._unsmooth_laws()

    def _equations(self) -> dict[str, Term]:
        equations: dict[str, Term] = {}
        for statement in self.declared.all(ast.Equation):
            update = statement.update
            if update.name.text in self.equation_names:
                self.scope.report(
                    "E506",
                    f"`{update.name.text}'` is set twice",
                    statement.span,
                    "remove one of the two equations",
                )
                continue
            self.equation_names.add(update.name.text)
            term = self._update(update)
            if term is not None:
                equations[update.name.text] = term
            else:
                self.broken_actions |= set(range(self.declared.actions.size))
        if self._report_cycle(equations, {}):
            self.declared.hold = False
        return equations

    def _update(self, update: ast.Update) -> Term | None:
        name = update.name.text
        if name not in self.declared.types:
            definition = self.scope.definitions.get(name)
            if definition is not None and definition.kind != "state":
                what = f"`{name}` is {kind_in_words(definition.kind)}, not a state variable"
                self.scope.report("E205", f"{what}: it has no next value", update.name.span)
            elif definition is None and name not in self.scope.lost_names:
                self.scope.report(
                    "E201",
                    f"unknown state variable `{name}`",
                    update.name.span,
                    did_you_mean(name, self.declared.types),
                )
            self.scope.infer(update.value, UPDATE)
            return None
        return self.scope.term(update.value, UPDATE, self.declared.types[name])

    def _rules(self) -> tuple[Rule, ...]:
        found: list[Rule] = []
        everything = frozenset(range(self.declared.actions.size))
        has_lost_guard = set(everything if self.declared.has_lost_rules else ())
        self.broken_actions |= has_lost_guard
        for statement in self.declared.statements:
            if isinstance(statement, ast.Table):
                actions = self.declared.actions_of(statement.actions)
                rules = table_rules(self.scope, statement, actions, self.declared.variables)
            elif isinstance(statement, ast.Rule):
                actions = self.declared.actions_of(statement.actions)
                rule = self._rule(statement, actions or frozenset())
                rules = None if rule is None or actions is None else [rule]
            else:
                continue
            if rules is None or (
                isinstance(statement, ast.Rule)
                and statement.is_otherwise
                and has_lost_guard & (actions or frozenset())
            ):
                lost = actions if actions is not None else everything
                self.broken_actions |= lost
                has_lost_guard |= lost
                continue
            found += rules
        return tuple(found)

    def _rule(self, statement: ast.Rule, actions: frozenset[int]) -> Rule | None:
        is_good = True
        guard = None
        if statement.guard is not None:
            guard = self.scope.term(statement.guard, GUARD, BOOL)
            is_good = guard is not None
        branches = []
        for syntax in statement.branches:
            if syntax.probability is None and len(statement.branches) > 1:
                self.scope.report(
                    "E501",
                    "this branch needs a probability, as there are several branches",
                    syntax.span,
                    "write it before the updates: `0.5: x' = …`",
                )
                is_good = False
            branch = self._branch(syntax)
            if branch is None:
                is_good = False
            else:
                branches.append(branch)
                is_good &= not self._report_cycle(self.equations, branch.updates)
        if not is_good:
            return None
        first, last = statement.branches[0].span, statement.branches[-1].span
        return Rule(
            actions,
            guard,
            statement.is_otherwise,
            settled_branches(self.scope, branches),
            statement.span,
            first.to(last),
        )

    def _branch(self, syntax: ast.Branch) -> Branch | None:
        is_good = True
        probability, is_open = None, False
        if syntax.probability is not None:
            probability, is_open, is_good = branch_weight(self.scope, syntax.probability)
        updates: dict[str, Term] = {}
        for update in syntax.updates:
            name = update.name.text
            term = self._update(update)
            if name in updates:
                self.scope.report("E506", f"`{name}'` is set twice in one branch", update.span)
                is_good = False
            if name in self.equation_names:
                self.scope.report(
                    "E506",
                    f"`{name}'` is also set by an equation",
                    update.span,
                    "set it in `on` lines or by an equation, not both",
                )
                is_good = False
            if term is None:
                is_good = False
            else:
                updates[name] = term
        return Branch(probability, updates, syntax.span, is_open) if is_good else None

    def _report_cycle(self, equations: Mapping[str, Term], updates: Mapping[str, Term]) -> bool:
        """Report cycles among next values; a cycle through equations alone is reported once."""
        terms = {**equations, **updates}
        needs = {
            name: [read for kind, read in sorted(reads(term)) if kind == "next" and read in terms]
            for name, term in terms.items()
        }
        cycle = _find_cycle(needs)
        if cycle is None or (updates and not set(cycle) & set(updates)):
            return cycle is not None
        path = " -> ".join(f"{name}'" for name in cycle)
        message = f"next values depend on each other: {path}"
        help_text = "use the current value of one of them instead"
        if len(cycle) == 2:
            message = f"the next value `{cycle[0]}'` depends on itself"
            help_text = f"use the current value `{cycle[0]}` instead"
        self.scope.report("E204", message, terms[cycle[0]].span, help_text)
        return True

    def _unsmooth_laws(self) -> None:
        """Report updates that move with an unknown number without noise, each once."""
        if not self.declared.unknowns or not self.declared.hold:
            return
        variables, noises = self.declared.variables, self.declared.noises
        every = [branch.updates for rule in self.rules for branch in rule.branches] or [{}]
        reported: set[Span] = set()
        for updates in every:
            terms = {**self.equations, **updates}
            n_before = len(self.scope.diagnostics)
            report_unsmooth(self.scope, terms, variables, noises)
            found = self.scope.diagnostics[n_before:]
            new = [each for each in found if each.span not in reported]
            self.scope.diagnostics[n_before:] = new
            reported |= {each.span for each in new if each.span is not None}
        if reported:
            self.declared.hold = False

    def _actions_without_lines(self) -> None:
        if self.equation_names or not (self.rules or self.broken_actions):
            return
        if not self.declared.hold or self.declared.has_syntax_mistakes:
            return
        used = frozenset().union(*(rule.actions for rule in self.rules)) | self.broken_actions
        missing = [action for action in range(self.declared.actions.size) if action not in used]
        if missing and self.declared.action_factors[0].name == "action":
            names = self.declared.action_factors[0].members
            stride = self.declared.actions.strides[0]
            for index in sorted({action // stride for action in missing}):
                name = names[index]
                self.scope.report(
                    "E508",
                    f"the action `{name}` has no `on` line",
                    self.scope.definitions[name].span,
                    f"add `on {name} -> …`, or `on {name} -> stay` if it does nothing",
                )
                self.broken_actions |= {a for a in missing if a // stride == index}


def _find_cycle(needs: Mapping[str, list[str]]) -> list[str] | None:
    """Return a cycle of names, with its first name repeated at the end."""
    done: set[str] = set()
    path: list[str] = []

    def visit(name: str) -> list[str] | None:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return None
        path.append(name)
        for needed in needs[name]:
            cycle = visit(needed)
            if cycle is not None:
                return cycle
        path.pop()
        done.add(name)
        return None

    return next((cycle for name in needs if (cycle := visit(name)) is not None), None)
