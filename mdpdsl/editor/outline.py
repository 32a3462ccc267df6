"""The outline of a model file: its declarations, dynamics and blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mdpdsl.diagnostics import Span
from mdpdsl.editor.document import Document
from mdpdsl.syntax import ast
from mdpdsl.syntax.format import format_expression, format_statement
from mdpdsl.syntax.property_format import format_query


@dataclass(frozen=True)
class Entry:
    """One entry of the outline; `span` is the statement, `name_span` the place to jump to."""

    name: str
    kind: str
    detail: str
    span: Span
    name_span: Span


def outline(document: Document) -> list[Entry]:
    """Return the outline in file order; statements that cannot be parsed are left out."""
    return [entry for s in document.parsed.file.statements for entry in _entries(s)]


def _entries(statement: ast.Statement) -> Iterator[Entry]:
    span = statement.span
    match statement:
        case ast.Header():
            yield Entry(statement.name.text, "model", statement.title or "", span, _first(span))
        case ast.ActionNames():
            for name in statement.names:
                yield Entry(name.text, "action", "", name.span, name.span)
        case ast.Param() | ast.Let():
            kind = "param" if isinstance(statement, ast.Param) else "let"
            value = format_expression(statement.value)
            yield Entry(statement.name.text, kind, value, span, statement.name.span)
        case ast.State() | ast.ActionFactor() | ast.Noise() | ast.Unknown():
            kinds = {"State": "state", "Noise": "noise", "Unknown": "unknown"}
            kind = kinds.get(type(statement).__name__, "action")
            _, _, detail = format_statement(statement).partition(statement.name.text)
            yield Entry(statement.name.text, kind, detail.strip(), span, statement.name.span)
        case ast.Label():
            guard = format_expression(statement.guard)
            yield Entry(statement.name.text, "label", guard, span, statement.name.span)
        case ast.Property():
            text = format_query(statement.query)
            yield Entry(statement.name.text, "property", text, span, statement.name.span)
        case ast.Reward(name=ast.Ident() as reward):
            _, _, detail = format_statement(statement).partition(reward.text)
            yield Entry(f"reward {reward.text}", "rule", detail.strip(), span, reward.span)
        case ast.Rule():
            condition = f"when {format_expression(statement.guard)}" if statement.guard else ""
            condition = "otherwise" if statement.is_otherwise else condition
            yield Entry(f"on {_actions(statement.actions)}", "rule", condition, span, _first(span))
        case ast.Restart() | ast.End():
            word = "restart" if isinstance(statement, ast.Restart) else "end"
            guard = f"when {format_expression(statement.guard)}"
            yield Entry(word, "rule", guard, span, _first(span))
        case ast.Table():
            yield Entry(f"table {_actions(statement.actions)}", "rule", "", span, _first(span))
        case ast.Equation():
            detail = format_expression(statement.update.value)
            yield Entry(f"{statement.update.name.text}'", "rule", detail, span, _first(span))
        case ast.Explore() | ast.Log():
            word = "explore" if isinstance(statement, ast.Explore) else "log"
            yield Entry(word, "block", "", span, _first(span))


def _actions(names: tuple[ast.Ident, ...]) -> str:
    return ", ".join(name.text for name in names) or "any"


def _first(span: Span) -> Span:
    return Span(span.start, span.start + 1)
