"""Completions at a position: the keywords that the grammar allows, and the names of the model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mdpdsl.compile.scope import (
    FIXED,
    GUARD,
    PROBABILITY,
    REWARD,
    SPREAD,
    STATE_GUARD,
    TRUTH,
    UPDATE,
    Definition,
    Place,
)
from mdpdsl.compile.terms import Read, reads
from mdpdsl.diagnostics import Span
from mdpdsl.editor import vocabulary
from mdpdsl.editor.document import Document
from mdpdsl.editor.property_completion import (
    label_names,
    open_property,
    operator_words,
    property_place,
    quoted_names,
    reward_names,
)
from mdpdsl.explore.algorithms import ALGORITHMS
from mdpdsl.explore.settings import BONUSES, RADII, SIMULATIONS
from mdpdsl.syntax.parse import Continuation, continuation
from mdpdsl.syntax.words import KEYWORDS, STATEMENT_KEYWORDS

_PARTIAL_WORD = re.compile(r"[^\W\d]\w*\Z")
_STARTERS = {word.upper() for word in STATEMENT_KEYWORDS}
#: After one of these, a primed name is an update of a branch; elsewhere it starts an equation.
_BEFORE_UPDATE = {"ARROW", "BAR", "COLON", "COMMA"}
_RANKS = ("state", "action", "noise", "let", "unknown", "param", "member")
_CHOICES = {
    "algorithm": tuple(ALGORITHMS),
    "bonus": BONUSES,
    "radius": RADII,
    "simulate": SIMULATIONS,
    "horizon": ("inf",),
    "eta": ("auto",),
}


@dataclass(frozen=True)
class Suggestion:
    """A completion; `kind` is keyword, value, member, function, setting, label or that of a name.

    Rewards have the kind of labels: both are names of their own.
    """

    text: str
    kind: str
    detail: str = ""


def complete(document: Document, offset: int) -> tuple[list[Suggestion], Span]:
    """Return completions at a position, likeliest first, and the characters they replace."""
    before = document.text[:offset]
    query = open_property(before)
    if query is not None and not _is_in_comment(query):
        return _in_property(document, query, offset)
    line = before[before.rfind("\n") + 1 :]
    if _is_in_comment_or_text(line):
        return [], Span(offset, offset)
    partial = _PARTIAL_WORD.search(before)
    start = partial.start() if partial else offset
    place = continuation(document.source, start)
    is_at_margin = not line[: len(line) - (offset - start)].strip()
    found: dict[str, Suggestion] = {}
    for suggestion in _suggestions(document, place, is_at_margin):
        found.setdefault(suggestion.text, suggestion)
    return list(found.values()), Span(start, offset)


def _in_property(document: Document, query: str, offset: int) -> tuple[list[Suggestion], Span]:
    """Return completions inside a property, given its text up to the position."""
    quoted = quoted_names(document, query)
    if quoted is not None:
        names, length = quoted
        return [Suggestion(name, "label") for name in names], Span(offset - length, offset)
    partial = _PARTIAL_WORD.search(query)
    start = partial.start() if partial else len(query)
    place = property_place(query[:start])
    found: list[Suggestion] = []
    if place.is_operand:
        found += _members(document, place.compared or "")
    found += [Suggestion(word, "keyword", text) for word, text in operator_words(document, place)]
    if place.is_operand:
        found += [Suggestion(f'"{name}"', "label", "label") for name in label_names(document)]
    if "NUMBER" in place.terminals:
        found += _names(document, STATE_GUARD if place.is_operand else FIXED)
    if place.is_operand:
        found += [*_functions(), *_keywords(["false", "true"])]
    unique: dict[str, Suggestion] = {}
    for suggestion in found:
        unique.setdefault(suggestion.text, suggestion)
    return list(unique.values()), Span(offset - (len(query) - start), offset)


def _suggestions(
    document: Document, place: Continuation, is_at_margin: bool
) -> Iterator[Suggestion]:
    if not place.terminals:  # after a syntax error, suggest everything
        yield from _names(document, UPDATE)
        yield from _keywords(KEYWORDS)
        return
    statement = _statement(place)
    if "PRIMED" in place.terminals and ("STAY" in place.terminals or is_at_margin):
        yield from _keywords(["stay"] if "STAY" in place.terminals else [])
        yield from (Suggestion(f"{n}'", "state", "next value") for n in document.declared.variables)
    special = _special_names(document, statement)
    if special is not None:
        if {"NAME", "NUMBER"} & place.terminals:
            yield from special
        is_expression = False
    else:
        is_expression = "NUMBER" in place.terminals
    if is_expression:
        yield from _operands(document, statement)
    if special and statement[-1][0] == "ASSIGN":
        return  # only these values are possible
    words = {t.lower() for t in place.terminals} & KEYWORDS
    may_start = {"MDP", "STATE"} <= place.terminals
    if may_start and not is_at_margin:
        words -= set(STATEMENT_KEYWORDS)
    if "RBRACE" in place.terminals and special is not None:
        words -= {
            "action",
            "label",
            "log",
            "reward",
            "seed",
            "state",
        }  # these are suggested as keys
    if not may_start and is_expression:
        words -= {"action"}  # suggested as an operand if there are named actions
    yield from _keywords(sorted(words))


def _statement(place: Continuation) -> Sequence[tuple[str, str]]:
    """Return the tokens of the last statement; others may precede it on the same line."""
    start = depth = 0
    tokens = place.tokens
    for index, (kind, _) in enumerate(tokens):
        depth += (kind in ("LBRACE", "LBRACKET", "LPAREN")) - (
            kind in ("RBRACE", "RBRACKET", "RPAREN")
        )
        following = tokens[index + 1][0] if index + 1 < len(tokens) else None
        previous = tokens[index - 1][0] if index else None
        if depth:
            continue
        before_last = tokens[index - 2][0] if index > 1 else None
        is_rewarded = "REWARD" in (previous, before_last if previous == "NAME" else None)
        is_start = kind in _STARTERS and not (kind == "ON" and is_rewarded)
        if kind == "ACTION":
            is_start = following == "NAME" or (following is None and place.terminals == {"NAME"})
        elif kind == "LOG":
            is_start = following in ("LBRACE", None)
        elif kind == "PRIMED":
            is_start = following == "ASSIGN" and previous not in _BEFORE_UPDATE
        if is_start:
            start = index
    return tokens[start:]


def _special_names(
    document: Document, statement: Sequence[tuple[str, str]]
) -> list[Suggestion] | None:
    """Return the suggestions for a position that takes only certain names; None for expressions."""
    kinds = [kind for kind, _ in statement]
    first, last = (kinds[0], kinds[-1]) if kinds else ("", "")
    match first:
        case "MDP" | "LABEL" | "LET" | "PARAM" | "UNKNOWN" if len(kinds) == 1:
            return []  # a new name
        case "STATE" | "NOISE" if len(kinds) == 1:
            return []
        case "ACTION" if "IN" not in kinds:
            return []
        case "ON" | "TABLE" if not {"WHEN", "OTHERWISE", "ARROW", "LBRACE"} & set(kinds):
            return _actions(document) if last in ("ON", "TABLE", "COMMA") else None
        case "REWARD" if len(kinds) == 1:
            return [Suggestion(name, "label", "reward") for name in reward_names(document)]
        case "PROPERTY" if len(kinds) == 1:
            return []
        case "REWARD" if last in ("ON", "COMMA") and not {"WHEN", "COLON"} & set(kinds):
            return _actions(document)
        case "INIT" | "NOISE" if last == "TILDE":
            table = vocabulary.DISTRIBUTIONS.items()
            return [Suggestion(name, "function", form) for name, (form, _) in table]
        case "INIT" if last == "INIT" or (last == "COMMA" and _depth(kinds) == 0):
            return [Suggestion(n, "state") for n in document.declared.variables]
        case "INIT" if last == "ASSIGN" and "WHEN" not in kinds:
            return _members(document, statement[-2][1]) or None
        case "EXPLORE" if last == "ASSIGN" and statement[-2][1] in _CHOICES:
            return [Suggestion(text, "value") for text in _CHOICES[statement[-2][1]]]
        case "EXPLORE" if last != "ASSIGN" and "LBRACE" in kinds:
            return [Suggestion(n, "setting", text) for n, text in vocabulary.SETTINGS.items()]
        case "LOG" if last != "ASSIGN" and "LBRACE" in kinds:
            return _log_keys(document)
    return None


def _operands(document: Document, statement: Sequence[tuple[str, str]]) -> Iterator[Suggestion]:
    """Suggest how an expression may begin; members of an enumeration compared with come first."""
    if len(statement) > 1 and statement[-1][0] in ("COMPARE", "ASSIGN"):
        yield from _members(document, statement[-2][1].removesuffix("'"))
    place = _place(statement)
    yield from _names(document, place)
    if "next" in place.kinds:
        states = document.declared.variables
        yield from (Suggestion(f"{name}'", "state", "next value") for name in states)
    if statement and statement[0][0] == "TABLE":
        return
    yield from _functions()
    yield from (Suggestion(n, "value", text) for n, text in vocabulary.CONSTANTS.items())


def _place(statement: Sequence[tuple[str, str]]) -> Place:
    """Return what an expression may read, given its statement and the tokens before it."""
    kinds = [kind for kind, _ in statement]
    match kinds[0] if kinds else "":
        case "LABEL" | "RESTART" | "END" | "INIT" if kinds[0] != "INIT" or "WHEN" in kinds:
            return STATE_GUARD
        case "ON":
            return _place_in_rule(kinds)
        case "NOISE" if "LPAREN" in kinds:
            return SPREAD
        case "TABLE" if "ASSIGN" not in kinds[-2:]:  # a truth is known
            return SPREAD
        case "REWARD":
            return REWARD
        case "LET" | "PRIMED":
            return UPDATE
        case _:
            return FIXED


def _place_in_rule(kinds: Sequence[str]) -> Place:
    """Return what an expression of an `on` line may read, given the kinds of tokens before it."""
    marks = [k for k in kinds if k in ("WHEN", "ARROW", "BAR", "ASSIGN", "QUESTION")]
    if marks[-1:] == ["ASSIGN"]:
        return TRUTH if marks[-2:-1] == ["QUESTION"] else UPDATE
    return PROBABILITY if marks[-1:] in (["ARROW"], ["BAR"]) else GUARD


def _names(document: Document, place: Place) -> Iterator[Suggestion]:
    """Suggest the names that may be read here: variables first, constants last."""
    known = document.declared.scope.definitions.items()
    for name, definition in sorted(known, key=lambda item: _RANKS.index(item[1].kind)):
        if _may_read(document, name, definition, place):
            yield Suggestion(name, definition.kind)


def _may_read(document: Document, name: str, definition: Definition, place: Place) -> bool:
    if definition.kind == "let":
        term = document.declared.scope.definition_term(name)
        return term is None or {kind for kind, _ in reads(term)} <= place.kinds
    term = definition.term
    if isinstance(term, Read) and term.kind != "column":
        return term.kind in place.kinds
    if definition.kind in ("state", "action", "noise"):  # its declaration has an error
        return definition.kind in place.kinds
    return definition.kind != "member" or "state" in place.kinds


def _actions(document: Document) -> list[Suggestion]:
    named = [f.members for f in document.declared.action_factors if f.name == "action"]
    return [Suggestion(name, "member", "action") for name in (named[0] if named else ())]


def _members(document: Document, name: str) -> list[Suggestion]:
    variables = [*document.declared.variables.values(), *document.declared.action_factors]
    members = [v.members for v in variables if v.name == name and v.kind == "enum"]
    return [Suggestion(member, "member", name) for member in (members[0] if members else ())]


def _log_keys(document: Document) -> list[Suggestion]:
    states = [Suggestion(name, "state") for name in document.declared.variables]
    actions = [Suggestion(factor.name, "action") for factor in document.declared.action_factors]
    keys = [Suggestion(n, "setting", text) for n, text in vocabulary.LOG_KEYS.items()]
    return [*states, *actions, *keys]


def _functions() -> Iterator[Suggestion]:
    yield from (Suggestion(n, "function", form) for n, (form, _) in vocabulary.FUNCTIONS.items())


def _keywords(words: Sequence[str] | frozenset[str]) -> Iterator[Suggestion]:
    for word in sorted(words):
        detail = vocabulary.STATEMENTS[word][0] if word in vocabulary.STATEMENTS else ""
        yield Suggestion(word, "keyword", detail or vocabulary.WORDS.get(word, ""))


def _depth(kinds: Sequence[str]) -> int:
    opened = sum(kind in ("LBRACE", "LBRACKET", "LPAREN") for kind in kinds)
    return opened - sum(kind in ("RBRACE", "RBRACKET", "RPAREN") for kind in kinds)


def _is_in_comment(text: str) -> bool:
    line = text[text.rfind("\n") + 1 :]
    return re.sub(r'"[^"]*"', "", line).find("#") >= 0


def _is_in_comment_or_text(line: str) -> bool:
    return _is_in_comment(line) or line.count('"') % 2 == 1
