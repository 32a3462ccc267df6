"""From text to syntax tree; besides `property_parse`, the only module that reads with a grammar.

A file with a syntax error is parsed again in pieces, each beginning at a line that starts a
statement, so that one error does not hide the others.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from lark import Lark, UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.utils import TextSlice

from mdpdsl.diagnostics import Diagnostic, ModelError, Source, Span, did_you_mean
from mdpdsl.syntax import ast
from mdpdsl.syntax.build import Builder
from mdpdsl.syntax.grammar import grammar_parser
from mdpdsl.syntax.words import CONTEXTUAL_KEYWORDS, KEYWORDS, STATEMENT_KEYWORDS


@dataclass(frozen=True)
class Parsed:
    """The statements of a file that could be parsed, and the errors in the others.

    `lost_names` occur in statements that could not be parsed, so using them is not reported.
    `lost_words` are the first words of those statements.
    """

    file: ast.ModelFile
    diagnostics: tuple[Diagnostic, ...]
    lost_names: frozenset[str] = frozenset()
    lost_words: frozenset[str] = frozenset()


def parse(source: Source) -> Parsed:
    """Parse a model file, collecting all its syntax errors."""
    try:
        return Parsed(_parse_slice(source, 0, len(source.text), "start"), ())
    except ModelError as error:
        first = error.diagnostics
    statements: list[ast.Statement] = []
    diagnostics: list[Diagnostic] = []
    lost_names: set[str] = set()
    lost_words: set[str] = set()
    for start, end in _pieces(source.text):
        try:
            statements += _parse_slice(source, start, end, "start").statements
        except ModelError as error:
            diagnostics += error.diagnostics
            names = _NAME.findall(_without_comments(source.text[start:end]))
            lost_names |= set(names)
            lost_words |= set(names[:1])
    if not diagnostics:  # every piece parses on its own, but the whole file does not
        return Parsed(ast.ModelFile(tuple(statements)), first, frozenset(), KEYWORDS)
    file = ast.ModelFile(tuple(statements))
    lost = frozenset(lost_names - (KEYWORDS - CONTEXTUAL_KEYWORDS))
    return Parsed(file, tuple(diagnostics), lost, frozenset(lost_words))


def parse_expression(source: Source) -> ast.Expr:
    """Parse a single expression, such as a value on the command line."""
    expression = _parse_slice(source, 0, len(source.text), "expr")
    assert isinstance(expression, ast.Expr)
    return expression


@dataclass(frozen=True)
class Continuation:
    """The beginning of a statement up to a position in the text, and what may follow it.

    `terminals` are names in the grammar; there are none if a syntax error precedes the position.
    """

    tokens: tuple[tuple[str, str], ...]  # terminal and text, from the statement's first line on
    terminals: frozenset[str]


def continuation(source: Source, offset: int) -> Continuation:
    """Return what may follow at a position, judging only by the statement before it."""
    before = source.text[:offset]
    if re.search(r"\bend\s*\Z", before):  # only `when` makes it a keyword
        ended = _continuation(f"{before} when")
        if [kind for kind, _ in ended.tokens[-2:]] == ["END", "WHEN"]:
            return Continuation(ended.tokens[:-1], frozenset({"WHEN"}))
    named = re.search(r"\bproperty(\s+[^\W\d]\w*)?\s*\Z", before)
    if named:  # only a name and `=` make it a keyword
        found = _continuation(f"{before}{'' if named.group(1) else ' p'} = P")
        kinds = [kind for kind, _ in found.tokens[-4:]]
        if kinds == ["PROPERTY", "NAME", "ASSIGN", "QUERY"]:
            n_left = -2 if named.group(1) else -3
            accepts = {"ASSIGN"} if named.group(1) else {"NAME"}
            return Continuation(found.tokens[:n_left], frozenset(accepts))
    named = re.search(r"\bunknown(\s+[^\W\d]\w*)?\s*\Z", before)
    if named:  # only a name and `in` make it a keyword
        found = _continuation(f"{before}{'' if named.group(1) else ' p'} in")
        if [kind for kind, _ in found.tokens[-3:]] == ["UNKNOWN", "NAME", "IN"]:
            n_left = -1 if named.group(1) else -2
            accepts = {"IN"} if named.group(1) else {"NAME"}
            return Continuation(found.tokens[:n_left], frozenset(accepts))
    return _continuation(before)


def _continuation(before: str) -> Continuation:
    start, end = list(_pieces(before))[-1]
    text = TextSlice(before, start, end)
    reader: Any = _parser().parse_interactive(text, start="start")
    tokens: list[tuple[str, str]] = []
    try:
        for token in reader.iter_parse():
            tokens.append((token.type, str(token)))
        return Continuation(tuple(tokens), frozenset(reader.accepts()))
    except (UnexpectedInput, ModelError):
        return Continuation(tuple(tokens), frozenset())


def statement_starts(text: str) -> list[int]:
    """Return where lines begin that seem to start a statement, the first one included."""
    return [start for start, _ in _pieces(text)]


_NAME = re.compile(r"[^\W\d]\w*")
#: `end`, and the next word or character on its line.
_AFTER_END = re.compile(r"end[ \t]*([^\W\d]\w*|[^\s#\w]|\d+)?")
#: `property`, the next word, and what follows it.
_AFTER_PROPERTY = re.compile(r"property\s*([^\W\d]\w*)?\s*([^\W\d]\w*|[^\s#\w]+|\d+)?")
#: `unknown`, the next word, and what follows it.
_AFTER_UNKNOWN = re.compile(r"unknown\s*([^\W\d]\w*)?\s*([^\W\d]\w*|[^\s#\w]+|\d+)?")
_UNAMBIGUOUS = [
    word for word in STATEMENT_KEYWORDS if word not in ("action", "log", *CONTEXTUAL_KEYWORDS)
]
#: A line that starts a statement: with a keyword (some are also names and functions),
#: with an assignment to a primed name, or with an unindented word that may be a misspelt keyword.
_PIECE_START = re.compile(
    rf"^[ \t]*(?:(?P<keyword>{'|'.join(_UNAMBIGUOUS)})\b(?!\s*=(?!=))"
    r"|action(?=\s+\w)|log(?=\s*\{)"
    r"|(?P<contextual>end(?=(?:\s|#[^\n]*\n)+when\b)"
    r"|property(?=(?:\s|#[^\n]*\n)+[^\W\d]\w*(?:\s|#[^\n]*\n)*=(?!=))"
    r"|unknown(?=(?:\s|#[^\n]*\n)+[^\W\d]\w*(?:\s|#[^\n]*\n)+in\b))"
    r"|(?P<primed>[^\W\d]\w*'\s*=(?!=)))"
    r"|^(?P<word>(?:end|property|unknown)\b(?!')|[^\W\d]\w+[ \t])",
    re.MULTILINE,
)
#: What cannot end a statement: after one of these, a line that begins with a name continues.
_UNFINISHED = re.compile(r"(?:[-+*/%^<>=,|:({\[~]|->|\b(?:and|or|not|then|else|if|when|in|on))\Z")
#: After this, a line that begins with `on` continues.
_BEFORE_ON = re.compile(r"\breward(?:\s+[^\W\d]\w*)?\Z")
_BEFORE_NAME = re.compile(r"\b(?:mdp|param|state|noise|let|init|label|table|reward|action)\Z")


@cache
def _parser() -> Lark:
    return grammar_parser("mdp.lark", ["start", "expr"], Builder())


def _parse_slice(source: Source, start: int, end: int, rule: str) -> Any:
    try:
        return _parser().parse(TextSlice(source.text, start, end), start=rule)
    except UnexpectedInput as error:
        raise ModelError([_explain(error, source, end)]) from None
    except ModelError as error:
        raise ModelError([replace(d, source=source) for d in error.diagnostics]) from None


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Split a text before each line that seems to start a statement, perhaps a misspelt one."""
    starts = [0]
    for match in _PIECE_START.finditer(text):
        word = (match.group("word") or match.group("contextual") or "").strip()
        if word and not difflib.get_close_matches(word, STATEMENT_KEYWORDS, n=1, cutoff=0.75):
            continue
        before = _without_comments(text[starts[-1] : match.start()]).rstrip()
        continues = match.group("keyword") == "on" and bool(_BEFORE_ON.search(before))
        if match.group("primed") or word in CONTEXTUAL_KEYWORDS:
            continues |= bool(_UNFINISHED.search(before))
        if word in CONTEXTUAL_KEYWORDS:  # it may be a name
            is_in_block = before.count("{") > before.count("}")
            continues |= is_in_block or bool(_BEFORE_NAME.search(before))
        if match.start() > starts[-1] and not continues:
            starts.append(match.start())
    yield from zip(starts, [*starts[1:], len(text)], strict=True)


def _without_comments(text: str) -> str:
    return re.sub(r"#[^\n]*", "", text)


def _explain(error: UnexpectedInput, source: Source, end: int) -> Diagnostic:
    """Describe what was found and what was expected, in words a user knows."""
    if isinstance(error, UnexpectedCharacters):
        at = error.pos_in_stream or 0
        character = source.text[at]
        shown = f"`{character}`" if character.isprintable() else f"U+{ord(character):04X}"
        message = f"unexpected character {shown}"
        if character == '"':
            message = "this string has no closing quote"
        span = Span(at, at + 1)
        return Diagnostic("E102", message, span, _CHARACTER_HINTS.get(character), source=source)
    assert isinstance(error, UnexpectedToken)
    token = error.token
    if token.value == "end" and "END" in (error.accepts or error.expected):
        return _explain_end(source, token.start_pos or 0, end)
    if token.value == "property" and "PROPERTY" in (error.accepts or error.expected):
        return _explain_property(source, token.start_pos or 0, end)
    if token.value == "unknown" and "UNKNOWN" in (error.accepts or error.expected):
        return _explain_unknown(source, token.start_pos or 0, end)
    expected = _expectation(error.accepts or error.expected)
    if token.type == "$END":
        at = len(source.text[:end].rstrip())
        message = f"the statement ends too early: expected {expected}"
        return Diagnostic("E101", message, Span(at, at + 1), source=source)
    span = Span(token.start_pos or 0, token.end_pos or 0)
    message = f"unexpected `{token.value}`: expected {expected}"
    hint = _token_hint(error, source)
    return Diagnostic("E101", message, span, hint, source=source)


def _explain_end(source: Source, at: int, end: int) -> Diagnostic:
    """Describe what follows `end` at the start of a statement, where only `when` can."""
    following = _AFTER_END.match(source.text, at, end)
    assert following is not None
    found = following.group(1)
    if not found:
        after = at + len("end")
        message, span = "the statement ends too early: expected `when`", Span(after, after + 1)
    else:
        message, span = f"unexpected `{found}`: expected `when`", Span(*following.span(1))
    hint = did_you_mean(found or "", ["when"]) or "say where episodes end: `end when x == 3`"
    if found == "=":
        hint = "the next value is written with a prime: `end' = …`"
    return Diagnostic("E101", message, span, hint, source=source)


def _explain_property(source: Source, at: int, end: int) -> Diagnostic:
    """Describe what follows `property` at the start of a statement: a name, and `=`."""
    following = _AFTER_PROPERTY.match(source.text, at, end)
    assert following is not None
    expected = "a name" if following.group(1) is None else "`=`"
    found, span = following.group(2), Span(*following.span(2))
    hint = 'name it and say what is asked: `property safe = Pmax=? [ F "goal" ]`'
    if found == "'" or (following.group(1) is None and found == "="):
        hint = f"{hint}; the next value of a variable is written with a prime: `property' = …`"
    if not found:
        at = len(source.text[at : following.end()].rstrip()) + at
        message = f"the statement ends too early: expected {expected}"
        return Diagnostic("E101", message, Span(at, at + 1), hint, source=source)
    message = f"unexpected `{found}`: expected {expected}"
    return Diagnostic("E101", message, span, hint, source=source)


def _explain_unknown(source: Source, at: int, end: int) -> Diagnostic:
    """Describe what follows `unknown` at the start of a statement: a name, and a range."""
    following = _AFTER_UNKNOWN.match(source.text, at, end)
    assert following is not None
    expected = "a name" if following.group(1) is None else "`in`"
    found, span = following.group(2), Span(*following.span(2))
    name = following.group(1) or "slip"
    if name == "in":
        expected, found, span, name = "a name", "in", Span(*following.span(1)), "slip"
    hint = f"give the range of the number: `unknown {name} in [0, 1]`"
    if found == "'" or (following.group(1) is None and found == "="):
        hint = f"{hint}; the next value of a variable is written with a prime: `unknown' = …`"
    elif found == "=":
        hint = f"{hint}; a value to simulate with may follow: `unknown {name} in [0, 1] = 0.2`"
    if not found:
        at = len(source.text[at : following.end()].rstrip()) + at
        message = f"the statement ends too early: expected {expected}"
        return Diagnostic("E101", message, Span(at, at + 1), hint, source=source)
    message = f"unexpected `{found}`: expected {expected}"
    return Diagnostic("E101", message, span, hint, source=source)


def _token_hint(error: UnexpectedToken, source: Source) -> str | None:
    token = error.token
    accepts = error.accepts or error.expected
    text = source.text[: token.start_pos]
    before = text.rstrip()
    statement = [match.group().split()[0] for match in _PIECE_START.finditer(text)][-1:]
    if token.type == "QUESTION":
        return _question_hint(statement, before, "NUMBER" in accepts)
    if token.type == "ASSIGN" and statement == ["on"] and "COLON" in accepts:
        name = _NAME.findall(before)[-1]
        return f"the next value is written with a prime: `{name}' = …`"
    if token.type == "ASSIGN" and statement == ["reward"]:
        return "write the reward after a colon: `reward when … : 1`"
    if token.type == "ASSIGN" and "COMPARE" in accepts:
        return "`=` sets a value; `==` compares"
    if token.type == "IN" and "COMPARE" in accepts:
        return "compare with each value: `x == 0 or x == 1`"
    if token.type == "COLON" and before.endswith("%"):
        return "write a probability as a number: `0.6`"
    if token.type == "COLON" and "BAR" in accepts:
        return "branches are separated by `|`"
    if token.type == "NUMBER" and before.endswith(",") and "PRIMED" in accepts:
        return "branches are separated by `|`; `,` joins the updates of one branch"
    if statement == ["unknown"] and accepts == {"LBRACKET"}:
        return "its range is an interval: `[0, 1]`"
    if token.type == "COMMA" and "DOTDOT" in accepts:
        return "write a list of values in braces: `{0, 1, 2}`"
    if statement == ["reward"] and "COLON" in accepts:
        word = (_NAME.findall(before) or [""])[-1]
        meant = None if word == "reward" else did_you_mean(word, ["when", "on"])
        return meant or "write the reward after a colon: `reward : 1`"
    if token.type == "NUMBER" and before.endswith("?"):
        return f"write the truth of a `?` after `=`: `?={token.value}:`"
    if statement == ["on"] and token.type in ("NUMBER", "COMPARE") and "NUMBER" not in accepts:
        return "test an action's value in the guard: `on any when u == 1 -> …`"
    if token.type == "NAME" and re.search(r"\d\Z", text):
        return f"multiplication needs a `*`: `{_last_number(text)}*{token.value}`"
    if token.type == "COMPARE" and token.value == "==" and "ASSIGN" in accepts:
        return "`==` compares; `=` sets a value"
    if token.type == "STAR" and before.endswith("*"):
        return "powers are written `x ^ 2`"
    if token.type == "SLASH" and before.endswith("/"):
        return "`#` starts a comment"
    if token.type == "BAR" and before.endswith("|"):
        return "write `or`; `|` separates branches"
    if token.type == "IF":
        return "put `if … then … else …` in parentheses inside an expression"
    if "NUMBER" in accepts and token.value in STATEMENT_KEYWORDS:
        return "the expression before it is incomplete"
    if "NAME" in accepts and token.value in KEYWORDS - CONTEXTUAL_KEYWORDS:
        return f"`{token.value}` is a reserved word; use another name"
    if token.type != "NAME":
        return None
    hint = did_you_mean(token.value, [name.lower() for name in accepts])
    if hint is None and "STATE" in accepts:
        hint = (
            f"a statement starts with a keyword ({', '.join(STATEMENT_KEYWORDS)}), or is an "
            f"equation such as `{token.value}' = …`"
        )
    return hint


def _question_hint(statement: list[str], before: str, is_value: bool) -> str:
    """Say what to write instead of a question mark where it has no meaning, as a value or not."""
    if statement in (["param"], ["let"], ["noise"]) and re.search(r"[=(,~]\Z", before):
        names = _NAME.findall(before)
        name = names[-1] if statement == ["param"] and names else "p"
        return f"declare a number that is not known, with its range: `unknown {name} in [0, 1]`"
    if statement in (["on"], ["table"]):
        return "`?` is the whole probability of a branch: `?: x' = 1`, or `?=0.3: x' = 1`"
    if statement == ["unknown"] and before.endswith("="):
        return "leave out `= ?`: an unknown number needs only a range"
    if is_value:
        return "`?` is the probability of a branch or of a table cell: `on go -> ?: x' = 1 | …`"
    return "write `if … then … else …`; `?` is for probabilities of branches: `?: x' = 1`"


def _last_number(text: str) -> str:
    found = re.search(r"[\d._]+\Z", text)
    return found.group() if found else ""


_CHARACTER_HINTS = {
    ";": "remove it; statements need no terminator",
    "&": "write `and`",
    "!": "write `not` to negate, or `!=` for «not equal»",
    "'": "write a prime directly after a variable's name (`x'`), and strings in double quotes",
    "→": "write `->`",
    "≤": "write `<=`",
    "≥": "write `>=`",
    "≠": "write `!=`",
    "−": "this is a typographic minus sign; write `-`",
    "π": "write `pi`",
    '"': "a string must end on the line where it starts",
}

_OPERAND_STARTS = {"NUMBER", "NAME", "LPAREN", "MINUS"}
_OPERATORS = {"PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "CARET", "COMPARE", "AND", "OR"}
_WORDS = {
    "NAME": "a name",
    "QUERY": 'a property such as `Pmax=? [ F "goal" ]`',
    "PRIMED": "a primed variable such as `x'`",
    "NUMBER": "a number",
    "STRING": "a string in double quotes",
    "ASSIGN": "`=`",
    "TILDE": "`~`",
    "COMMA": "`,`",
    "COLON": "`:`",
    "BAR": "`|`",
    "ARROW": "`->`",
    "DOTDOT": "`..`",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "LBRACKET": "`[`",
    "RBRACKET": "`]`",
    "LPAREN": "`(`",
    "RPAREN": "`)`",
    "COMPARE": "a comparison",
    "QUESTION": "`?`",
    "$END": "the end of the file",
}


def _expectation(accepts: set[str]) -> str:
    """Turn the parser's terminals into a short phrase, grouping related ones."""
    rest = set(accepts)
    phrases: list[str] = []
    is_operand = rest >= _OPERAND_STARTS
    if is_operand:
        phrases.append("an expression")
        rest -= _OPERAND_STARTS | {"IF", "NOT", "TRUE", "FALSE", "PLUS", "STRING"}
        rest -= {"ACTION", "PRIMED"} if "STATE" not in rest else set()
    if "STATE" in rest and "MDP" in rest:
        rest -= {word.upper() for word in STATEMENT_KEYWORDS} | {"PRIMED", "$END"}
        phrases.append("the next statement" if rest else "a statement")
    if rest & _OPERATORS:
        phrases.append("an operator")
        rest -= _OPERATORS | {"LPAREN"}
    named = sorted(_WORDS.get(name, f"`{name.lower()}`") for name in rest)
    phrases = [*named, *phrases] or ["nothing more"]
    if len(phrases) == 1:
        return phrases[0]
    return f"{', '.join(phrases[:-1])} or {phrases[-1]}"
