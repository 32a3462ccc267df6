"""Every name in a model file, with its position and its namespace.

Parameters, unknown numbers, variables, actions, members and lets share one namespace; labels,
rewards, properties, settings of the explore block, log columns and functions have their own. In
statements that could not be parsed, all words except keywords count as names of the first kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from mdpdsl.compile.explore_block import WORDS
from mdpdsl.compile.scope import ARITY, CONSTANTS
from mdpdsl.diagnostics import Span
from mdpdsl.editor.vocabulary import LOG_KEYS
from mdpdsl.syntax import ast
from mdpdsl.syntax.words import CONTEXTUAL_KEYWORDS, KEYWORDS

#: The keyword that declares a name, in statements that could not be parsed.
_DECLARING = {"param", "unknown", "state", "action", "noise", "let"}
_TOKEN = re.compile(r"#[^\n]*|\"[^\"\n]*\"?|[^\W\d]\w*|\d[\w.]*")


@dataclass(frozen=True)
class Occurrence:
    """A name at a position.

    `space` is name, label, reward, property, function, setting, column or model.
    """

    text: str
    span: Span
    space: str = "name"
    is_declaration: bool = False


def find_occurrences(file: ast.ModelFile, text: str) -> tuple[Occurrence, ...]:
    """Return all names in a file, including those in statements that could not be parsed."""
    found: list[Occurrence] = []
    for statement in file.statements:
        found += _of_statement(statement, file)
    found = [_placed(occurrence, text) for occurrence in found]
    found += _of_lost(file, text)
    return tuple(sorted(found, key=lambda o: (o.span, not o.is_declaration)))


def occurrence_at(occurrences: tuple[Occurrence, ...], offset: int) -> Occurrence | None:
    """Return the name at a position; if it lies between two names, the one after it."""
    touched = [o for o in occurrences if o.span.start <= offset <= o.span.end]
    return max(touched, key=lambda o: (o.span.start, o.is_declaration), default=None)


def _of_statement(statement: ast.Statement, file: ast.ModelFile) -> Iterator[Occurrence]:
    match statement:
        case ast.Header():
            yield Occurrence(statement.name.text, statement.name.span, "model", True)
        case ast.Label():
            yield Occurrence(statement.name.text, statement.name.span, "label", True)
            yield from _of_node(statement.guard)
        case ast.Reward():
            if statement.name is not None:
                yield Occurrence(statement.name.text, statement.name.span, "reward", True)
            yield from _of_node((statement.actions or (), statement.guard, statement.value))
        case ast.Property():
            yield Occurrence(statement.name.text, statement.name.span, "property", True)
            if statement.query.reward is not None:
                reward = statement.query.reward
                yield Occurrence(reward.text, reward.span, "reward")
            yield from _of_query((statement.query.formula, statement.query.threshold))
        case ast.ActionNames():
            for name in statement.names:
                yield Occurrence(name.text, name.span, is_declaration=True)
        case ast.Param() | ast.Let() | ast.Noise():
            yield Occurrence(statement.name.text, statement.name.span, is_declaration=True)
            part = statement.distribution if isinstance(statement, ast.Noise) else statement.value
            yield from _of_node(part)
        case ast.Unknown():
            yield Occurrence(statement.name.text, statement.name.span, is_declaration=True)
            yield from _of_node((statement.low, statement.high, statement.value))
        case ast.State() | ast.ActionFactor():
            yield Occurrence(statement.name.text, statement.name.span, is_declaration=True)
            yield from _of_domain(statement.domain, file)
        case ast.Explore():
            for entry in statement.entries:
                yield Occurrence(entry.key.text, entry.key.span, "setting")
                if entry.key.text not in WORDS:  # the values of these settings are words, not names
                    yield from _of_node(entry.value)
        case ast.Log():
            for entry in statement.entries:
                yield _of_log_key(entry.key, file)
                yield from _of_column(entry.value, file)
        case _:
            yield from _of_node(statement)


def _of_domain(domain: ast.Domain, file: ast.ModelFile) -> Iterator[Occurrence]:
    """Distinguish new members of an enumeration from constants in a set of numbers."""
    constants = _declared(file, ast.Param, ast.Let, ast.Unknown) | CONSTANTS.keys()
    items = domain.items if isinstance(domain, ast.SetDomain) else ()
    is_enumeration = all(isinstance(item, ast.Name) for item in items) and bool(items)
    for occurrence in _of_node(domain):
        is_member = is_enumeration and occurrence.text not in constants
        yield Occurrence(occurrence.text, occurrence.span, occurrence.space, is_member)


def _of_log_key(key: ast.Ident, file: ast.ModelFile) -> Occurrence:
    """Distinguish variables from the keys of the block itself."""
    variables = {s.name.text for s in file.statements if isinstance(s, ast.State)}
    if key.text in LOG_KEYS and key.text not in variables:
        return Occurrence(key.text, key.span, "setting")
    variable = key.text.removeprefix("next_")
    if key.text not in variables and variable in variables:
        start = key.span.end - len(variable)
        return Occurrence(variable, Span(start, key.span.end))
    return _of_ident(key)


def _of_column(value: ast.Expr, file: ast.ModelFile) -> Iterator[Occurrence]:
    """Classify names in log expressions: columns, unless they are parameters or members."""
    known = _declared(file, ast.Param) | _members(file)
    for occurrence in _of_node(value):
        is_column = occurrence.space == "name" and occurrence.text not in known
        space = "column" if is_column else occurrence.space
        yield Occurrence(occurrence.text, occurrence.span, space)


def _of_node(node: object) -> Iterator[Occurrence]:
    """Return the names in a node and in all its children."""
    match node:
        case ast.Ident():
            yield _of_ident(node)
        case ast.Name():
            space = "function" if node.name in CONSTANTS else "name"
            yield Occurrence(node.name, node.span, space)
        case ast.Primed():
            yield Occurrence(node.name, node.span)
        case ast.Call():
            yield Occurrence(node.function.text, node.function.span, "function")
            yield from _of_node(node.arguments)
        case ast.NamedDistribution():
            yield Occurrence(node.family.text, node.family.span, "function")
            yield from _of_node(node.arguments)
        case tuple():
            for part in node:
                yield from _of_node(part)
        case ast.Node():
            for field in fields(node):
                yield from _of_node(getattr(node, field.name))


def _of_query(node: object) -> Iterator[Occurrence]:
    """Return the names in the formula of a property, whose strings are labels."""
    match node:
        case ast.Text() if node.value:
            yield Occurrence(node.value, node.span, "label")
        case ast.Call():
            yield Occurrence(node.function.text, node.function.span, "function")
            yield from _of_query(node.arguments)
        case ast.Name():
            yield from _of_node(node)
        case tuple():
            for part in node:
                yield from _of_query(part)
        case ast.Node():
            for field in fields(node):
                yield from _of_query(getattr(node, field.name))


def _of_ident(ident: ast.Ident) -> Occurrence:
    return Occurrence(ident.text.removesuffix("'"), ident.span)


def _placed(occurrence: Occurrence, text: str) -> Occurrence:
    """Narrow a span to the name in it, without primes and parentheses."""
    start, end = occurrence.span.start, occurrence.span.end
    if end - start == len(occurrence.text):
        return occurrence
    if occurrence.space == "label":  # in quotes, and perhaps in parentheses
        start = text.index(f'"{occurrence.text}"', start, end) + 1
        return replace(occurrence, span=Span(start, start + len(occurrence.text)))
    for token in _TOKEN.finditer(text, start, end):
        if token.group() == occurrence.text:
            return replace(occurrence, span=Span(*token.span()))
    raise AssertionError(occurrence)


def _of_lost(file: ast.ModelFile, text: str) -> Iterator[Occurrence]:
    """Return the words outside the statements that could be parsed."""
    read = sorted(statement.span for statement in file.statements)
    before, place = "", 0
    for token in _TOKEN.finditer(text):
        while place < len(read) and read[place].end <= token.start():
            place += 1
        is_read = place < len(read) and read[place].start <= token.start()
        word = token.group()
        if is_read or word[0] in '#"' or word[0].isdigit():
            before = "" if is_read else before
            continue
        is_keyword = word in KEYWORDS and not _is_name(word, text, token)
        if not is_keyword and word not in ARITY and word not in CONSTANTS:
            yield Occurrence(word, Span(*token.span()), is_declaration=before in _DECLARING)
        before = word


def _is_name(word: str, text: str, token: re.Match[str]) -> bool:
    """Return whether a keyword that may be a name is one: primed, or within its line."""
    line = text[text.rfind("\n", 0, token.start()) + 1 : token.start()]
    is_primed = text[token.end() : token.end() + 1] == "'"
    return word in CONTEXTUAL_KEYWORDS and (is_primed or bool(line.strip()))


def _declared(
    file: ast.ModelFile, *kinds: type[ast.Param] | type[ast.Let] | type[ast.Unknown]
) -> set[str]:
    return {s.name.text for s in file.statements if isinstance(s, kinds)}


def _members(file: ast.ModelFile) -> set[str]:
    found: set[str] = set()
    for statement in file.statements:
        if isinstance(statement, ast.ActionNames):
            found |= {name.text for name in statement.names}
        elif isinstance(statement, ast.State | ast.ActionFactor):
            items = statement.domain.items if isinstance(statement.domain, ast.SetDomain) else ()
            found |= {item.name for item in items if isinstance(item, ast.Name)}
    return found
