"""From the text of properties to their syntax tree: one in a model file, or a file of them.

In a model file `#` starts a comment, in a file of properties `//`. A file with a syntax error is
parsed again in pieces, each beginning at a line that starts an item, so that one error does not
hide the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from lark import Lark, UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.utils import TextSlice

from mdpdsl.diagnostics import Diagnostic, ModelError, Source, Span
from mdpdsl.syntax.grammar import grammar_parser
from mdpdsl.syntax.property_ast import PropertiesFile, Query
from mdpdsl.syntax.property_build import PropertyBuilder


@dataclass(frozen=True)
class ParsedProperties:
    """The items of a file that could be parsed, and the errors in the others.

    `lost_names` occur in items that could not be parsed, so using them is not reported.
    """

    file: PropertiesFile
    diagnostics: tuple[Diagnostic, ...]
    lost_names: frozenset[str] = frozenset()


def parse_query(text: str, offset: int = 0) -> Query:
    """Parse one property; raise ModelError with spans that count from `offset` before the text."""
    padded = " " * offset + _blanked(text, "#")
    query = _parse(padded, offset, len(padded), "query", _IN_MODELS)
    assert isinstance(query, Query)
    return query


def parse_properties(source: Source) -> ParsedProperties:
    """Parse a file of properties, collecting all its syntax errors."""
    text = _blanked(source.text, "//")
    try:
        return ParsedProperties(_parse(text, 0, len(text), "file", _IN_FILES), ())
    except ModelError as error:
        first = error.diagnostics
    items: list[Any] = []
    diagnostics: list[Diagnostic] = []
    lost: set[str] = set()
    for start, end in _pieces(text):
        try:
            items += _parse(text, start, end, "file", _IN_FILES).items
        except ModelError as error:
            diagnostics += error.diagnostics
            lost |= set(re.findall(r"[^\W\d]\w*", text[start:end]))
    located = [replace(d, source=source) for d in diagnostics or first]
    return ParsedProperties(PropertiesFile(tuple(items)), tuple(located), frozenset(lost))


def accepted(text: str) -> frozenset[str]:
    """Return the terminals that may follow the beginning of a property; none after an error."""
    reader: Any = _parser().parse_interactive(_blanked(text, "#"), start="query")
    try:
        reader.exhaust_lexer()
        return frozenset(reader.accepts())
    except (UnexpectedInput, ModelError):
        return frozenset()


#: How comments begin elsewhere, and what to write instead.
_IN_MODELS = ("//", "`#` starts a comment")
_IN_FILES = ("#", "`//` starts a comment in a file of properties")

_PIECE_START = re.compile(r'^[ \t]*(?:(?:const|label|[PR](?:max|min)?)\b|"[^"\n]*"[ \t]*:)', re.M)


@cache
def _parser() -> Lark:
    return grammar_parser("properties.lark", ["file", "query"], PropertyBuilder())


def _blanked(text: str, comment: str) -> str:
    """Replace comments by spaces, so that everything else stays where it is."""
    pattern = rf'"[^"\n]*"|({re.escape(comment)}[^\n]*)'
    return re.sub(pattern, lambda m: " " * len(m.group()) if m.group(1) else m.group(), text)


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    starts = [0, *(match.start() for match in _PIECE_START.finditer(text) if match.start())]
    yield from zip(starts, [*starts[1:], len(text)], strict=True)


def _parse(text: str, start: int, end: int, rule: str, comments: tuple[str, str]) -> Any:
    try:
        return _parser().parse(TextSlice(text, start, end), start=rule)
    except UnexpectedInput as error:
        raise ModelError([_explain(error, text, end, comments)]) from None


def _explain(error: UnexpectedInput, text: str, end: int, comments: tuple[str, str]) -> Diagnostic:
    """Describe what was found and what was expected, in words a user knows."""
    if isinstance(error, UnexpectedCharacters):
        at = error.pos_in_stream or 0
        shown = f"`{text[at]}`" if text[at].isprintable() else f"U+{ord(text[at]):04X}"
        message = f"unexpected character {shown} in a property"
        if text[at] == '"':
            message = "this string has no closing quote"
        hint = comments[1] if text.startswith(comments[0], at) else _CHARACTER_HINTS.get(text[at])
        return Diagnostic("E102", message, Span(at, at + 1), hint)
    assert isinstance(error, UnexpectedToken)
    token, accepts = error.token, set(error.accepts or error.expected or {"$END"})
    if token.type == "$END":
        at = len(text[:end].rstrip())
        what = "property" if comments is _IN_MODELS else "statement"
        message = f"the {what} ends too early: expected {_expectation(accepts)}"
        return Diagnostic("E101", message, Span(at, at + 1), _token_hint(token, accepts, text))
    span = Span(token.start_pos or 0, token.end_pos or 0)
    before = text[: span.start].rstrip()
    if token.type == "SLASH" and before.endswith("/") and comments is _IN_MODELS:
        slashes = Span(len(before) - 1, span.end)
        return Diagnostic("E101", "unexpected `//` in a property", slashes, comments[1])
    unsupported = _unsupported(token, accepts, before)
    if unsupported is not None:
        what, help_text = unsupported
        return Diagnostic("E105", f"{what} not supported", span, help_text)
    message = f"unexpected `{token.value}` in a property: expected {_expectation(accepts)}"
    return Diagnostic("E101", message, span, _token_hint(token, accepts, before))


def _unsupported(token: Any, accepts: set[str], before: str) -> tuple[str, str | None] | None:
    """Name what PRISM or Storm understands here and we do not, and say what to write instead."""
    word, is_operand = token.value, "NUMBER" in accepts
    if word in _OPERATORS and "P" in accepts:
        return _OPERATORS[word]
    if token.type in ("P", "PMAX", "PMIN", "R", "RMAX", "RMIN") and is_operand:
        return "a property within a property is", "ask for one value at a time"
    is_over = accepts <= {"RBRACKET", "RPAREN"}  # after a whole formula
    is_temporal = token.type in ("F", "G", "X", "U", "W", "R")
    if is_temporal and (is_operand or is_over or accepts & _BINARY):
        return _SEVERAL
    if token.type in _BINARY and is_over:
        return _SEVERAL
    if token.type == "LBRACE" and "RBRACKET" in accepts:
        return "a filter is", "the value is that of the initial states"
    if token.type == "NUMBER" and before.endswith("{"):
        return "the number of a reward is", 'write its name: `R{"energy"}max=?`'
    is_complete = bool(accepts & {"SEMICOLON", "$END"})
    if token.type in _BINARY | {"ORDER"} and is_complete:
        return "combining several properties is", "ask for one value at a time"
    if token.type == "OR" and before.endswith("|"):
        return "a conditional probability is", "write a single `|` for «or»"
    return None


def _token_hint(token: Any, accepts: set[str], before: str) -> str | None:
    if token.type in ("EQ", "ASK") and before.endswith("="):
        return "`=` compares in a property"
    if token.type == "AND" and before.endswith("&"):
        return "write a single `&`"
    if token.type == "ORDER" and before[-1:].isalnum() and "AND" in accepts:
        return "compare two values at a time: `0 < x & x < 3`"
    if token.type == "NAME" and token.value in _WORDS_OF_MODELS:
        return _WORDS_OF_MODELS[token.value]
    if token.type == "SEMICOLON":
        return "remove it; statements need no terminator"
    if "ASK" in accepts and token.type in ("EQ", "NEQ"):
        return "ask for the value, `Pmax=?`, or compare it, `Pmax>=0.9`"
    if accepts == {"LBRACKET"}:
        return 'put the formula in brackets: `Pmax=? [ F "goal" ]`'
    if accepts >= {"P", "R"}:
        return 'begin with `Pmax=?`, `Pmin=?`, `P>=0.9`, `Rmax=?` or `R{"energy"}min=?`'
    if accepts >= {"F", "C", "S"}:
        return "write `[ F … ]`, `[ C<=k ]`, `[ Cdiscount=0.95 ]` or `[ S ]`"
    if token.type == "RBRACKET" and "U" in accepts:
        return 'say when: `[ F "goal" ]` for «at some time», `[ G "safe" ]` for «always»'
    return None


_BINARY = {"AND", "OR", "IMPLIES", "IFF", "PLUS", "MINUS", "STAR", "SLASH", "EQ", "NEQ", "QUESTION"}
_SEVERAL = (
    "more than one temporal operator is",
    "a path has one `F`, `G`, `X`, `U`, `W` or `R`; name conditions with `label`",
)
_ROBUST = (
    "an optimum over models is",
    "write `Pmax` or `Pmin`; a robust solution of an estimate covers all its models",
)
_LONG_RUN = ("a long-run probability is", "give the states a reward, and ask for its `[ S ]`")
_OPERATORS: dict[str, tuple[str, str | None]] = {
    "filter": ("a filter is", "the value is that of the initial states"),
    "multi": ("asking for several objectives at once is", "ask for one value at a time"),
    "quantile": ("a quantile is", "ask for a probability with a bound, `Pmax=? [ F<=k … ]`"),
    "A": ("the operator `A` is", "write `P>=1 [ … ]`"),
    "E": ("the operator `E` is", "write `Pmax>0 [ … ]`"),
    **dict.fromkeys(("S", "Smax", "Smin", "LRA", "LRAmax", "LRAmin"), _LONG_RUN),
    **dict.fromkeys(
        ("T", "Tmax", "Tmin"),
        ("an expected time is", "give every step the reward 1, and ask for it"),
    ),
    **{
        f"{quantity}{one}{other}": _ROBUST
        for quantity in "PR"
        for one in ("max", "min")
        for other in ("max", "min")
    },
}

_WORDS_OF_MODELS = {
    "and": "write `&` in a property",
    "or": "write `|` in a property",
    "not": "write `!` in a property",
    "if": "write `condition ? value : value` in a property",
}
_CHARACTER_HINTS = {
    "^": "write `pow(x, 2)` in a property",
    "%": "write `mod(x, 2)` in a property",
    "'": "a property is about states: it has no next values",
    "≤": "write `<=`",
    "≥": "write `>=`",
    "≠": "write `!=`",
    "−": "this is a typographic minus sign; write `-`",
    "∧": "write `&`",
    "∨": "write `|`",
    "¬": "write `!`",
    '"': "a string must end on the line where it starts",
}

_OPERAND_STARTS = {"NUMBER", "NAME", "LPAREN", "MINUS"}
_WORDS = {
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a name in quotes",
    "ASK": "`=?`",
    "EQ": "`=`",
    "ORDER": "a comparison",
    "COLON": "`:`",
    "SEMICOLON": "`;`",
    "COMMA": "`,`",
    "LBRACKET": "`[`",
    "RBRACKET": "`]`",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "LPAREN": "`(`",
    "RPAREN": "`)`",
    "CDISCOUNT": "`Cdiscount`",
    "LRA": "`LRA`",
    "$END": "the end",
    **{word.upper(): f"`{word}`" for word in ("const", "label", "int", "double", "bool")},
    **{word.upper(): f"`{word}`" for word in ("max", "min")},
}


def _expectation(accepts: set[str]) -> str:
    """Turn the parser's terminals into a short phrase, grouping related ones."""
    rest = set(accepts) - ({"I", "LRA"} if "S" in accepts else set())
    phrases: list[str] = []
    if "P" in rest:
        rest -= {"P", "PMAX", "PMIN", "R", "RMAX", "RMIN"}
        phrases.append("`P` or `R`" if not rest else "a property")
    if rest >= {"F", "G", "X"}:
        rest -= {"F", "G", "X"}
        phrases.append("`F`, `G`, `X`")
    if rest >= _OPERAND_STARTS:
        rest -= _OPERAND_STARTS | {"NOT", "TRUE", "FALSE", "STRING"}
        phrases.append("a condition" if "STRING" in accepts else "a number, a name or `(`")
    if rest & (_BINARY - {"EQ"}):
        rest -= _BINARY | {"ORDER", "LPAREN"}
        phrases.append("an operator")
    phrases = [*sorted(_WORDS.get(name, f"`{name}`") for name in rest), *phrases]
    if len(phrases) == 1:
        return phrases[0]
    return f"{', '.join(phrases[:-1])} or {phrases[-1]}"
