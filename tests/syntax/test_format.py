"""Parsing formatted text gives the same tree, and nothing in a file is lost."""

import re

import pytest
from hypothesis import given, settings

import mdpdsl
from mdpdsl.compile.model import read_source
from mdpdsl.diagnostics import Source
from mdpdsl.syntax import ast
from mdpdsl.syntax.format import format_expression, format_file
from mdpdsl.syntax.parse import parse, parse_expression
from mdpdsl.syntax.property_ast import Query
from mdpdsl.syntax.property_format import format_query
from mdpdsl.syntax.property_parse import parse_query
from tests.syntax.trees import expressions, files, queries


@settings(max_examples=400, deadline=None)
@given(expressions)
def test_parse_after_format_is_the_identity_on_expressions(expression: ast.Expr) -> None:
    assert parse_expression(Source(format_expression(expression), "formatted")) == expression


@settings(max_examples=600, deadline=None)
@given(queries)
def test_parse_after_format_is_the_identity_on_properties(query: Query) -> None:
    text = format_query(query)
    assert parse_query(text) == query
    assert format_query(parse_query(text)) == text


@settings(max_examples=400, deadline=None)
@given(files)
def test_parse_after_format_is_the_identity_on_files(file: ast.ModelFile) -> None:
    text = format_file(file)
    parsed = parse(Source(text, "formatted"))
    assert parsed.diagnostics == ()
    assert parsed.file == file
    assert format_file(parsed.file) == text


def comments(text: str) -> list[str]:
    return [comment.strip() for comment in re.findall(r"#.*", text)]


@pytest.mark.parametrize("name", mdpdsl.shipped_models())
def test_formatting_a_shipped_model_keeps_meaning_and_comments(name: str) -> None:
    source = read_source(name)
    once = format_file(parse(source).file, source)
    again = Source(once, "again")
    assert parse(again).file == parse(source).file
    assert comments(once) == comments(source.text)
    assert format_file(parse(again).file, again) == once


CASES = [
    ("mdp  m   # name\n\n\n\nparam n=1", "mdp m  # name\n\nparam n = 1\n"),
    ("# top\n\nmdp m\n# end", "# top\n\nmdp m\n# end\n"),
    ("mdp m param n = 1 state x in 0..n - 1", "mdp m\nparam n = 1\nstate x in 0..n-1\n"),
    ("let a = ((1+2))*3 ^-2", "let a = (1 + 2)*3^-2\n"),
    ("let a = a or (b and c)", "let a = a or b and c\n"),
    ("let a = (-1)^2", "let a = (-1)^2\n"),
    ("let a = 2^3^2 let b = (2^3)^2", "let a = 2^3^2\nlet b = (2^3)^2\n"),
    ("let a = 1-(2-3)", "let a = 1 - (2 - 3)\n"),
    ("let a = x +\n  # inside\n  1", "# inside\nlet a = x + 1\n"),
    (
        "log { a = b # one\n  longer = c }",
        "log {\n  a      = b  # one\n  longer = c\n}\n",
    ),
    ("explore{kappa=10 steps=5}", "explore { kappa = 10  steps = 5 }\n"),
    (
        "table a { s t  s 0.5 (1/2)  t 1 0 }",
        "table a {\n" + " " * 9 + "s      t\n  s      0.5    (1/2)\n  t      1      0\n}\n",
    ),
    ("on a,b when x>0->0.5:x'=1,y'=2|0.5:stay", None),
    ("end  when( x==3 )  # over", "end when x == 3  # over\n"),
    ("end # why\n  when x == 3", "# why\nend when x == 3\n"),
    ("let a = end end when end end' = end", "let a = end\nend when end\nend' = end\n"),
    ("", ""),
    ("# only a comment", "# only a comment\n"),
    ("mdp m\r\nparam n = 1\r\n", "mdp m\nparam n = 1\n"),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_the_layout_is_canonical(text: str, expected: str | None) -> None:
    source = Source(text, "case")
    expected = (
        expected
        if expected is not None
        else ("on a, b when x > 0 -> 0.5: x' = 1, y' = 2 | 0.5: stay\n")
    )
    assert format_file(parse(source).file, source) == expected
    again = Source(expected, "again")
    assert format_file(parse(again).file, again) == expected


def test_long_lines_are_broken_before_branches() -> None:
    branch = "0.25: position' = position + velocity"
    source = Source(f"on go -> {' | '.join([branch] * 4)}", "long")
    text = format_file(parse(source).file, source)
    assert text.splitlines()[0] == "on go ->"
    assert len(text.splitlines()) == 5
    assert parse(Source(text, "again")).file == parse(source).file
