"""The colours in editors follow the grammar of the language."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from lark import Lark

from mdpdsl.compile.scope import ARITY, CONSTANTS
from mdpdsl.syntax.words import CONTEXTUAL_KEYWORDS, KEYWORDS
from tests.grammars.textmate import compiled, expressions, read_grammar, scopes

FOLDER = Path(__file__).parents[2] / "grammars"
GRAMMAR = read_grammar(FOLDER / "mdp.tmLanguage.json")
MODELS = sorted((FOLDER.parent / "models").glob("*.mdp"))
LARK = Lark(
    (FOLDER / "mdp.lark").read_text("utf-8"), parser="lalr", lexer="contextual", start="start"
)

PROPERTIES = Lark(
    (FOLDER / "properties.lark").read_text("utf-8"),
    parser="lalr",
    lexer="contextual",
    start="query",
)

#: The scopes of a keyword, and of a word that is called or set.
KEYWORD_SCOPES = r"keyword\.|storage\.|variable\.language|constant\.language"
CALLED_OR_SET = rf"{KEYWORD_SCOPES}|support\.function|variable\.parameter\.setting"
EXPECTED = {
    "NUMBER": r"constant\.numeric",
    "STRING": r"string\.quoted",
    "PRIMED": r"variable\.other\.primed|variable\.parameter\.setting",
    "NAME": r"variable\.|entity\.name|support\.function|constant\.language",
    "COMPARE": r"keyword\.operator\.comparison",
    "ARROW": r"keyword\.operator\.arrow",
    "DOTDOT": r"keyword\.operator\.range",
    "ASSIGN": r"keyword\.operator\.assignment",
    "TILDE": r"keyword\.operator\.distribution",
    "BAR": r"keyword\.operator\.branch",
    "QUESTION": r"keyword\.operator\.unknown",
} | dict.fromkeys(
    ("PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "CARET"), r"keyword\.operator\.arithmetic"
)


IN_PROPERTIES = {
    "NUMBER": r"constant\.numeric",
    "STRING": r"string\.quoted",
    "NAME": r"variable\.other|support\.function",
    "TRUE": r"constant\.language",
    "FALSE": r"constant\.language",
    "R": r"keyword\.operator\.(quantity|temporal)",
    **dict.fromkeys(("P", "PMAX", "PMIN", "RMAX", "RMIN", "MAX", "MIN"), r"keyword\..*quantity"),
    **dict.fromkeys(
        ("F", "G", "X", "U", "W", "C", "CDISCOUNT", "S", "LRA"), r"keyword\..*temporal"
    ),
    **dict.fromkeys(("ASK", "EQ", "NEQ", "ORDER"), r"keyword\.operator\.comparison"),
    **dict.fromkeys(("IFF", "IMPLIES", "AND", "OR", "NOT"), r"keyword\.operator\.logical"),
    **dict.fromkeys(("QUESTION", "COLON"), r"keyword\.operator\.logical"),
    **dict.fromkeys(("PLUS", "MINUS", "STAR", "SLASH"), r"keyword\.operator\.arithmetic"),
}


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_every_token_of_a_shipped_model_has_the_scope_of_its_terminal(path: Path) -> None:
    text = path.read_text("utf-8")
    found = scopes(GRAMMAR, text)
    tokens = list(LARK.parse_interactive(text).iter_parse())
    assert len(tokens) > 20
    for token in tokens:
        if token.type == "QUERY":  # in its own grammar
            assert_property_is_coloured(text, token.start_pos or 0, token.end_pos or 0)
            continue
        default = CALLED_OR_SET if token.value in KEYWORDS else "punctuation"
        wanted = EXPECTED.get(token.type, default)
        for at in range(token.start_pos or 0, token.end_pos or 0):
            if token.type == "COMMA" and found[at].startswith("entity.name"):
                continue  # a list of actions is one scope
            assert re.match(wanted, found[at]), (token.type, token.value, found[at])
    for comment in re.finditer(r"^#.*$", text, re.MULTILINE):
        assert set(found[slice(*comment.span())]) == {"comment.line.number-sign.mdp"}


def assert_property_is_coloured(text: str, start: int, end: int) -> None:
    """Check every token of a property of a model against its terminal."""
    found = scopes(GRAMMAR, text)
    for token in PROPERTIES.parse_interactive(text[start:end]).iter_parse():
        wanted = IN_PROPERTIES.get(token.type, "punctuation")
        for at in range(start + (token.start_pos or 0), start + (token.end_pos or 0)):
            assert re.match(wanted, found[at]), (token.type, token.value, found[at])


@pytest.mark.parametrize(
    "query",
    [
        'Pmax=? [ F "goal" ]',
        'P max = ? [ !"hole" U<=n "goal" | x>=3 & y!=2 ]',
        "P>=(1-p) [ G[0, n] x+1<2*y => max(x, pow(y, 2))=3 ]",
        'R{"energy"}min=? [ F (x=1 <=> b) ]',
        'Rmax{"energy"}<3.5 [ C<=20 ]',
        "Rmin=? [ Cdiscount=0.95 ]",
        'R{"a # b"}max=? [ S ]',
        "Rmax=? [ LRA ]",
        "Pmin>0.5 [ x=1 ? true : false R C=1 ]",
        "P<1 [ X S=1\n  & b ]",
    ],
)
def test_every_token_of_a_property_has_the_scope_of_its_terminal(query: str) -> None:
    head = "property asked = "
    text = f"{head}{query}  # why\nlabel goal when x == 1\n"
    assert_property_is_coloured(text, len(head), len(head) + len(query))
    found = scopes(GRAMMAR, text)
    assert found[: len("property")] == ["keyword.control.statement.mdp"] * len("property")
    assert found[len("property asked") - 1] == "entity.name.section.mdp"
    assert found[text.index("# why")] == "comment.line.number-sign.mdp"
    assert found[text.index("label")] == "keyword.control.statement.mdp"
    assert found[text.index("goal when")] == "entity.name.section.mdp"


def test_a_property_without_its_bracket_ends_where_a_statement_starts() -> None:
    for query in ("Pmax=?", "Pmax=? [ F x", ""):
        text = f"property p = {query}\nlabel goal when x == 1\n"
        assert scopes(GRAMMAR, text)[text.index("goal")] == "entity.name.section.mdp"


@pytest.mark.parametrize("word", sorted(KEYWORDS))
def test_every_keyword_is_coloured(word: str) -> None:
    following = {"end": "when x", "property": "p = P", "unknown": "p in [0, 1]"}
    text = f"{word} {following[word]}" if word in CONTEXTUAL_KEYWORDS else f"{word} "
    assert re.match(KEYWORD_SCOPES, scopes(GRAMMAR, text)[0])


@pytest.mark.parametrize("word", sorted(ARITY))
def test_every_function_call_is_coloured(word: str) -> None:
    found = scopes(GRAMMAR, f"let y = {word}(x)")
    assert found[8 : 8 + len(word)] == ["support.function.mdp"] * len(word)
    assert found[-2] == "variable.other.mdp"


@pytest.mark.parametrize("word", sorted(CONSTANTS))
def test_every_constant_is_coloured(word: str) -> None:
    assert set(scopes(GRAMMAR, word)) == {"constant.language.mdp"}


@pytest.mark.parametrize(
    ("line", "at", "scope"),
    [
        ("state größe in 0..3", "größe", "variable.other.declaration.mdp"),
        ("state x in 0..n-1", "..", "keyword.operator.range.mdp"),
        ("on a -> .5: x' = 1", ".5", "constant.numeric.mdp"),
        ("reward when inside : 1", "inside", "variable.other.mdp"),
        ('mdp m "a # is no comment"', "#", "string.quoted.double.mdp"),
        ("explore { seed = 3 }", "seed", "variable.parameter.setting.mdp"),
        ('log { x\' = "next x" }', "x'", "variable.parameter.setting.mdp"),
        ("explore { kappa = 2 } state y in bool", "state", "keyword.control.statement.mdp"),
        ("label e1 when x == 1", "e1", "entity.name.section.mdp"),
        ("x' = theta", "theta", "variable.other.mdp"),
        ("end  when x == 1", "end", "keyword.control.statement.mdp"),
        ("  end when end", "end", "keyword.control.statement.mdp"),
        ("let y = end", "end", "variable.other.mdp"),
        ("on end when x == 1 -> stay", "end", "variable.other.mdp"),
        ("on go, end when x == 1 -> stay", "end", "variable.other.mdp"),
        ("reward on go, end when x == 1 : 1", "end", "variable.other.mdp"),
        ("label end when x == 1", "end", "entity.name.section.mdp"),
        ("state end in bool", "end", "variable.other.declaration.mdp"),
        ("reward energy : 1", "energy", "entity.name.section.mdp"),
        ("reward energy on go when x == 1 : 1", "on", "keyword.control.statement.mdp"),
        ("reward end when x == 1 : 1", "end", "entity.name.section.mdp"),
        ("reward when x == 1 : 1", "when", "keyword.control.clause.mdp"),
        ("let y = property", "property", "variable.other.mdp"),
        ("property' = 1", "property'", "variable.other.primed.mdp"),
        ("on property -> stay", "property", "variable.other.mdp"),
        ("label property when x == 1", "property", "entity.name.section.mdp"),
        ("unknown slip in [0, 1]", "unknown", "keyword.control.statement.mdp"),
        ("unknown slip in [0, 1]", "slip", "variable.other.declaration.mdp"),
        ("state unknown in 0..3", "unknown", "variable.other.declaration.mdp"),
        ("let y = unknown", "unknown", "variable.other.mdp"),
        ("on go when unknown > 0 -> stay", "unknown", "variable.other.mdp"),
        ("on unknown -> ?: stay | ?: x' = 1", "unknown", "variable.other.mdp"),
        ("label unknown when x == 1", "unknown", "entity.name.section.mdp"),
        ("unknown' = 1", "unknown'", "variable.other.primed.mdp"),
        ("on go -> ?=0.3: stay | ? : x' = 1", "?", "keyword.operator.unknown.mdp"),
        ("on go -> ?=0.3: stay | ? : x' = 1", "=", "keyword.operator.assignment.mdp"),
        ("on go -> 0.3: stay | ? : x' = 1", "?", "keyword.operator.unknown.mdp"),
        ("  sun ?=0.3 ?=(1 - p)", "?", "keyword.operator.unknown.mdp"),
        ("end' = 1", "end'", "variable.other.primed.mdp"),
        ("reward on end when x == 1 : 1", "when", "keyword.control.clause.mdp"),
    ],
)
def test_a_line_has_these_scopes(line: str, at: str, scope: str) -> None:
    start = line.index(at)
    assert scopes(GRAMMAR, line)[start : start + len(at)] == [scope] * len(at)


def test_a_block_over_several_lines_ends_at_its_brace() -> None:
    text = "explore {\n  seed = 1\n}\nseed"
    found = scopes(GRAMMAR, text)
    assert found[text.index("seed")] == "variable.parameter.setting.mdp"
    assert found[-1] == "keyword.other.option.mdp"


def test_all_expressions_compile() -> None:
    found = expressions(GRAMMAR)
    assert len(found) > 20
    for expression in found:
        compiled(expression)


def test_the_extension_points_to_existing_files() -> None:
    manifest = json.loads((FOLDER / "package.json").read_text("utf-8"))
    (language,) = manifest["contributes"]["languages"]
    (grammar,) = manifest["contributes"]["grammars"]
    assert language["id"] == grammar["language"]
    assert grammar["scopeName"] == json.loads((FOLDER / grammar["path"]).read_text())["scopeName"]
    configuration = json.loads((FOLDER / language["configuration"]).read_text("utf-8"))
    assert configuration["comments"]["lineComment"] == "#"
