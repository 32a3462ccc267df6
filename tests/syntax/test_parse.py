"""The tree says what was written, and where."""

import pytest

from mdpdsl.diagnostics import ModelError, Source
from mdpdsl.syntax import ast
from mdpdsl.syntax.expression_build import MAX_DEPTH
from mdpdsl.syntax.format import format_expression
from mdpdsl.syntax.parse import parse, parse_expression


def grouped(expression: ast.Expr) -> str:
    """Write an expression with all its parentheses."""
    match expression:
        case ast.Binary():
            return f"({grouped(expression.left)}{expression.operator}{grouped(expression.right)})"
        case ast.Unary():
            return f"({expression.operator}{grouped(expression.operand)})"
        case ast.Logical():
            return f"({f' {expression.operator} '.join(map(grouped, expression.operands))})"
        case ast.Comparison():
            parts = [grouped(expression.operands[0])]
            for operator, operand in zip(
                expression.operators, expression.operands[1:], strict=True
            ):
                parts += [operator, grouped(operand)]
            return f"({''.join(parts)})"
    return format_expression(expression)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 - 2 - 3", "((1-2)-3)"),
        ("1 + 2*3", "(1+(2*3))"),
        ("-2^2", "(-(2^2))"),
        ("2^-1", "(2^(-1))"),
        ("2^3^2", "(2^(3^2))"),
        ("-x*y", "((-x)*y)"),
        ("a or b and not c == d", "(a or (b and (not(c==d))))"),
        ("0 < x + 1 <= n", "(0<(x+1)<=n)"),
        ("10 % 3 / 2", "((10%3)/2)"),
    ],
)
def test_operators_bind_as_the_language_says(text: str, expected: str) -> None:
    assert grouped(parse_expression(Source(text, "text"))) == expected


def test_else_if_is_one_chain() -> None:
    found = parse_expression(Source("if a then 1 else if b then 2 else 3", "text"))
    assert isinstance(found, ast.Conditional)
    assert len(found.cases) == 2


def test_spans_cover_the_text_of_their_nodes() -> None:
    text = "mdp m\non go when x > 1 -> 0.5: x' = (x + 1)*2 | 0.5: stay\n"
    rule = parse(Source(text, "text")).file.statements[1]
    assert isinstance(rule, ast.Rule)

    def covered(node: ast.Node) -> str:
        return text[node.span.start : node.span.end]

    assert covered(rule) == text.splitlines()[1]
    assert rule.guard is not None
    assert covered(rule.guard) == "x > 1"
    assert covered(rule.branches[0]) == "0.5: x' = (x + 1)*2"
    product = rule.branches[0].updates[0].value
    assert isinstance(product, ast.Binary)
    assert covered(product.left) == "(x + 1)"


def test_line_breaks_and_indentation_have_no_meaning() -> None:
    one = "mdp m state x in 0..3 action a on a -> x' = 1 x' = 2 label l when x == 1"
    many = one.replace(" ", "\n   ")
    assert parse(Source(one, "one")).file == parse(Source(many, "many")).file


def test_keywords_may_be_keys_of_a_block() -> None:
    text = 'log { time = t  action = torque  state = "the state"  x\' = next_x } '
    (log,) = parse(Source(text, "text")).file.statements
    assert isinstance(log, ast.Log)
    assert [entry.key.text for entry in log.entries] == ["time", "action", "state", "x'"]


def test_names_may_be_greek() -> None:
    assert parse(Source("mdp m state θ in [0, 1] bins 3 θ' = θ", "text")).diagnostics == ()


def test_expressions_may_be_deep_but_not_bottomless() -> None:
    def nested(depth: int) -> Source:
        return Source("-" * depth + "1", "nested")

    parse_expression(nested(MAX_DEPTH - 1))
    with pytest.raises(ModelError, match="nested more than"):
        parse_expression(nested(MAX_DEPTH + 1))
    with pytest.raises(ModelError, match="nested more than"):
        parse_expression(nested(50_000))


def test_one_error_does_not_hide_the_others() -> None:
    text = "mdp m\nstate x in\naction a\nparam = 3\non a -> x' = 1 +\nlabel l when x == 1\n"
    parsed = parse(Source(text, "text"))
    lines = [d.source.position(d.span.start)[0] for d in parsed.diagnostics if d.source and d.span]
    assert lines == [2, 4, 5]
    assert any(isinstance(s, ast.ActionNames) for s in parsed.file.statements)


#: What version 1 allowed; `end` is a keyword only at the start of a statement, before `when`, and
#: `property` only there, before a name and `=`.
NAMES = [
    "state end in 0..3",
    "action end",
    "action go, end",
    "action end in {0, 1}",
    "param end = 3",
    "noise end ~ {0: 1}",
    "mdp end",
    "state x in {begin, end}",
    "let x = end",
    "let x = not end and 2 < end",
    "let end = true",
    "label end when x == 3",
    "label\nend when x == 3",
    "init end = 0",
    "init any when end",
    "on end when x < 3 -> x' = x + 1",
    "on end -> stay",
    "on go,\nend when x < 3 -> end: stay",
    "on go -> end' = end",
    "end' = end + 1",
    "reward on end when x == 3 : end",
    "reward\n  on\n  end when x == 3 : 1",
    "restart when\nend",
    "table end { end go  end 0.5 0.5  go 1 0 }",
    "table go {\n     end  go\nend  0.5  0.5\ngo   1    0\n}",
    "log {\nend = x\nx = end\n}",
    "log { x = end  y = z }",
    "log {\n  x =\n  end y = z\n}",
    "explore {\nend = 3 }",
]


#: A statement that begins with each of them.
STATEMENTS = {
    "end": ("end when true", ast.End),
    "property": ('property end = Pmax=? [ F "end" ]', ast.Property),
}


@pytest.mark.parametrize("word", STATEMENTS)
@pytest.mark.parametrize("text", NAMES)
def test_a_contextual_keyword_is_still_a_name(text: str, word: str) -> None:
    statement, kind = STATEMENTS[word]
    text = text.replace("end", word)
    parsed = parse(Source(f"{text}\n{statement}", "text"))
    assert parsed.diagnostics == ()
    first, last = parsed.file.statements
    assert isinstance(last, kind)
    assert not isinstance(first, kind)


@pytest.mark.parametrize("word", STATEMENTS)
@pytest.mark.parametrize("text", NAMES)
def test_a_contextual_keyword_is_still_a_name_beside_an_error(text: str, word: str) -> None:
    statement, kind = STATEMENTS[word]
    text = text.replace("end", word)
    parsed = parse(Source(f"param = 3\n{text}\n{statement}\nlabel = 4\n", "text"))
    assert len(parsed.diagnostics) == 2
    first, last = parsed.file.statements
    assert isinstance(last, kind)
    assert not isinstance(first, kind)


def test_a_lost_declaration_of_end_is_not_reported_again() -> None:
    parsed = parse(Source("mdp m\nstate end in\nlabel l when end == 1\n", "text"))
    assert "end" in parsed.lost_names


@pytest.mark.parametrize(
    ("text", "line", "column", "message", "hint"),
    [
        ("end whn x", 3, 5, "unexpected `whn`: expected `when`", "did you mean `when`?"),
        ("end x == 3", 3, 5, "unexpected `x`: expected `when`", "`end when x == 3`"),
        ("end: x == 3", 3, 4, "unexpected `:`: expected `when`", "`end when x == 3`"),
        ("end = 3", 3, 5, "unexpected `=`: expected `when`", "`end' = …`"),
        ("end", 3, 4, "the statement ends too early: expected `when`", "`end when x == 3`"),
        ("end  # why", 3, 4, "the statement ends too early: expected `when`", "`end when"),
        ("  end whn x", 3, 7, "unexpected `whn`: expected `when`", "did you mean `when`?"),
        ("end when", 3, 9, "the statement ends too early: expected an expression", ""),
        ("ends when x", 3, 1, "unexpected `ends`: expected a statement", "did you mean `end`?"),
    ],
)
def test_an_end_without_its_condition_says_what_is_missing(
    text: str, line: int, column: int, message: str, hint: str
) -> None:
    source = Source(f"mdp m\nlet a = 1\n{text}\nlabel l when true", "text")
    (found,) = parse(source).diagnostics
    assert found.span is not None
    assert source.position(found.span.start) == (line, column)
    assert found.message == message
    assert hint in (found.help or "")


def test_comments_may_stand_between_end_and_when() -> None:
    rule = "#" * 200
    text = f"end {rule}\n  # why\n\n  when x == 3  {rule}\n"
    (end,) = parse(Source(text, "text")).file.statements
    assert isinstance(end, ast.End)
    (found,) = parse(Source(f"end {rule}\nlabel l when x == 3\n", "text")).diagnostics
    assert found.message == "the statement ends too early: expected `when`"
