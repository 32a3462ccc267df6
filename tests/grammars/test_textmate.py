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
} | dict.fromkeys(
    ("PLUS", "MINUS", "STAR", "SLASH", "PERCENT", "CARET"), r"keyword\.operator\.arithmetic"
)


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_every_token_of_a_shipped_model_has_the_scope_of_its_terminal(path: Path) -> None:
    text = path.read_text("utf-8")
    found = scopes(GRAMMAR, text)
    tokens = list(LARK.parse_interactive(text).iter_parse())
    assert len(tokens) > 20
    for token in tokens:
        default = CALLED_OR_SET if token.value in KEYWORDS else "punctuation"
        wanted = EXPECTED.get(token.type, default)
        for at in range(token.start_pos or 0, token.end_pos or 0):
            if token.type == "COMMA" and found[at].startswith("entity.name"):
                continue  # a list of actions is one scope
            assert re.match(wanted, found[at]), (token.type, token.value, found[at])
    for comment in re.finditer(r"^#.*$", text, re.MULTILINE):
        assert set(found[slice(*comment.span())]) == {"comment.line.number-sign.mdp"}


@pytest.mark.parametrize("word", sorted(KEYWORDS))
def test_every_keyword_is_coloured(word: str) -> None:
    text = f"{word} when x" if word in CONTEXTUAL_KEYWORDS else f"{word} "
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
