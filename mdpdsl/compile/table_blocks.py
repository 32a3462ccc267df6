"""Tables: the rows of a transition matrix, read as rules of a single enumerated variable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mdpdsl.compile.checked import Branch, Rule
from mdpdsl.compile.open_branches import branch_weight, settled_branches
from mdpdsl.compile.terms import BOOL, Apply, Constant, Read, Term, Type
from mdpdsl.compile.typecheck import Scope
from mdpdsl.diagnostics import Span
from mdpdsl.graph.space import Variable
from mdpdsl.syntax import ast


@dataclass
class _Row:
    label: ast.Name
    cells: list[ast.Expr] = field(default_factory=list)

    @property
    def span(self) -> Span:
        return self.label.span.to(self.cells[-1].span if self.cells else self.label.span)


def table_rules(
    scope: Scope,
    table: ast.Table,
    actions: frozenset[int] | None,
    variables: Mapping[str, Variable],
) -> list[Rule] | None:
    """Turn a table into one rule per row; None if it has an error."""
    if len(variables) != 1 or next(iter(variables.values())).kind != "enum":
        if variables:
            scope.report(
                "E405",
                "a table needs a model with one enumerated state variable",
                table.span,
                "write `on … when … -> …` lines instead",
            )
        return None
    ((name, variable),) = variables.items()
    split = _split(scope, table, variable)
    if split is None or actions is None:
        return None
    columns, rows = split
    kind = Type("enum", frozenset(variable.members))
    rules = []
    for row in rows:
        weights = [branch_weight(scope, cell) for cell in row.cells]
        if not all(is_right for _, _, is_right in weights):
            return None
        read = Read("state", name, type=kind, span=row.label.span)
        here = _member(scope, row.label.name, row.label.span)
        guard = Apply("==", (read, here), type=BOOL, span=row.label.span)
        branches = [
            Branch(probability, {name: _member(scope, column, cell.span)}, cell.span, is_open)
            for column, cell, (probability, is_open, _) in zip(
                columns, row.cells, weights, strict=True
            )
        ]
        span = row.cells[0].span.to(row.cells[-1].span)
        rules.append(Rule(actions, guard, False, settled_branches(scope, branches), row.span, span))
    return rules


def _member(scope: Scope, member: str, span: Span) -> Term:
    kind = Type("enum", frozenset({member}))
    return Constant(float(scope.symbol(member)), type=kind, span=span)


def _split(
    scope: Scope, table: ast.Table, variable: Variable
) -> tuple[list[str], list[_Row]] | None:
    """Split the cells into a header and rows; a row starts with the name of a member."""
    members = variable.members
    header: list[str] = []
    rows: list[_Row] = []
    for cell in table.cells:
        if isinstance(cell, ast.Name) and cell.name in members:
            if not rows and cell.name not in header:
                header.append(cell.name)
            else:
                rows.append(_Row(cell))
        elif rows:
            rows[-1].cells.append(cell)
        else:
            scope.report(
                "E405",
                f"`{_text(cell)}` is not a value of `{variable.name}`",
                cell.span,
                f"the header must list the next states: {' '.join(members)}",
            )
            return None
    missing = [member for member in members if member not in header]
    if missing:
        scope.report(
            "E405",
            f"the header leaves out {', '.join(missing)}",
            table.cells[0].span,
            f"the header must list the next states: {' '.join(members)}",
        )
        return None
    is_good = True
    for position, row in enumerate(rows):
        if len(row.cells) != len(header):
            message = (
                f"the row for `{row.label.name}` needs {len(header)} numbers, not {len(row.cells)}"
            )
            scope.report("E405", message, row.span, "give one probability for each next state")
            is_good = False
        if row.label.name in [other.label.name for other in rows[:position]]:
            scope.report("E405", f"`{row.label.name}` has more than one row", row.span)
            is_good = False
    return (header, rows) if is_good and rows else None


def _text(cell: ast.Expr) -> str:
    if isinstance(cell, ast.Name):
        return cell.name
    if isinstance(cell, ast.Open):
        return "?"
    return cell.text if isinstance(cell, ast.Number) else "(…)"
