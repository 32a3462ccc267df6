"""Properties: what their text means, where its parts are, and what is wrong with others."""

from __future__ import annotations

import pytest

from mdpdsl.diagnostics import Diagnostic, ModelError, Source
from mdpdsl.syntax import ast, nodes
from mdpdsl.syntax.expression_build import MAX_DEPTH
from mdpdsl.syntax.parse import parse
from mdpdsl.syntax.property_ast import (
    Bound,
    Constant,
    LabelDefinition,
    NamedQuery,
    PathFormula,
    Query,
    RewardFormula,
)
from mdpdsl.syntax.property_format import format_query
from mdpdsl.syntax.property_parse import parse_properties, parse_query


def condition(text: str) -> nodes.Expr:
    formula = parse_query(f"Pmax=? [ F {text} ]").formula
    assert isinstance(formula, PathFormula)
    return formula.right


def grouped(expression: nodes.Expr) -> str:
    """Write a condition with all its parentheses."""
    match expression:
        case nodes.Binary():
            return f"({grouped(expression.left)}{expression.operator}{grouped(expression.right)})"
        case nodes.Unary():
            return f"({expression.operator} {grouped(expression.operand)})"
        case nodes.Logical():
            return f"({f' {expression.operator} '.join(map(grouped, expression.operands))})"
        case nodes.Comparison():
            left, right = expression.operands
            return f"({grouped(left)}{expression.operators[0]}{grouped(right)})"
        case nodes.Implication():
            return f"({grouped(expression.left)}=>{grouped(expression.right)})"
        case nodes.Equivalence():
            return f"({grouped(expression.left)}<=>{grouped(expression.right)})"
        case nodes.Conditional():
            cases = "".join(f"{grouped(c)}?{grouped(v)}:" for c, v in expression.cases)
            return f"({cases}{grouped(expression.otherwise)})"
        case nodes.Name():
            return expression.name
        case nodes.Number():
            return expression.text
    raise AssertionError(expression)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a | b & c", "(a or (b and c))"),
        ("!a = b", "(not (a==b))"),
        ("!a & b", "((not a) and b)"),
        ("a => b => c", "((a=>b)=>c)"),
        ("a <=> b => c", "((a<=>b)=>c)"),
        ("a => b <=> c | d", "(a=>(b<=>(c or d)))"),
        ("a = b = c", "((a==b)==c)"),
        ("x < 2 = y < 2", "((x<2)==(y<2))"),
        ("x + 1 >= 2*y - 1", "((x+1)>=((2*y)-1))"),
        ("1 - 2 - 3 < x", "(((1-2)-3)<x)"),
        ("-x*y < 2", "(((- x)*y)<2)"),
        ("a ? b : c ? d : e", "(a?b:c?d:e)"),
        ("a => b ? c : d", "((a=>b)?c:d)"),
        ("x != 3 & y >= 2", "((x!=3) and (y>=2))"),
    ],
)
def test_operators_bind_as_in_prism(text: str, expected: str) -> None:
    assert grouped(condition(text)) == expected


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ('Pmax=?[F "a"]', 'Pmax=? [ F "a" ]'),
        ('P max =  ? [ (F "a") ]', 'Pmax=? [ F "a" ]'),
        ("Pmin>=.5[G<=k x=1]", "Pmin>=.5 [ G<=k x = 1 ]"),
        ("P<1-p [ X b ]", "P<(1 - p) [ X b ]"),
        ("P>0 [ F<=2*k b ]", "P>0 [ F<=(2*k) b ]"),
        ("P>0 [ F<=k (b) ]", "P>0 [ F<=k b ]"),
        ("P>0 [ F<k -x<2 ]", None),  # the minus sign belongs to the bound, as in PRISM
        ("P>0 [ F<k (-x<2) ]", "P>0 [ F<k (-x < 2) ]"),
        ("P>0 [ F[0,5] b ]", "P>0 [ F[0, 5] b ]"),
        ('Rmax{"e"}=? [ S ]', 'R{"e"}max=? [ S ]'),
        ('R {"e"} max =? [ LRA ]', 'R{"e"}max=? [ S ]'),
        ("Rmin=? [ C<=2*n ]", "Rmin=? [ C<=(2*n) ]"),
        ("Rmax=? [ Cdiscount=9/10 ]", "Rmax=? [ Cdiscount=(9/10) ]"),
        ("R>=3 [ F a|b ]", "R>=3 [ F a | b ]"),
        ("Pmax=? [ a U b ]", "Pmax=? [ a U b ]"),
        ("Pmax=? [ a W<5 b ]", "Pmax=? [ a W<5 b ]"),
        ("Pmax=? [ a R b ]", "Pmax=? [ a R b ]"),
        ("Pmax=? [ F S=1 & C=I ]", "Pmax=? [ F S = 1 & C = I ]"),
    ],
)
def test_a_property_has_one_canonical_text(text: str, canonical: str | None) -> None:
    if canonical is None:
        with pytest.raises(ModelError):
            parse_query(text)
        return
    assert format_query(parse_query(text)) == canonical
    assert parse_query(canonical) == parse_query(text)


def test_a_property_says_what_is_asked() -> None:
    query = parse_query('R{"energy"}min<=n [ F "goal" ]')
    assert (query.direction, query.comparison, query.is_reward) == ("min", "<=", True)
    assert query.reward is not None
    assert query.reward.text == "energy"
    assert isinstance(query.formula, RewardFormula)
    assert isinstance(query.formula.goal, nodes.Text)
    every = parse_query("P>=0.9 [ a U<=k b ]")
    assert (every.direction, every.comparison, every.is_reward) == (None, ">=", False)
    assert isinstance(every.formula, PathFormula)
    assert isinstance(every.formula.bound, Bound)


def test_spans_point_into_the_model_file() -> None:
    text = 'mdp m\nproperty p =  # why\n  Pmax=? [ !"hole" U<=n  # and how\n    (x > 3) ]\n'
    statement = parse(Source(text, "m")).file.statements[1]
    assert isinstance(statement, ast.Property)

    def covered(node: nodes.Node | None) -> str:
        assert node is not None
        return text[node.span.start : node.span.end]

    query = statement.query
    assert covered(statement) == text[6:-1]
    assert covered(statement.name) == "p"
    assert covered(query).startswith("Pmax=?")
    assert covered(query).endswith("]")
    assert isinstance(query.formula, PathFormula)
    assert covered(query.formula.left) == '!"hole"'
    assert covered(query.formula.bound) == "<=n"
    assert covered(query.formula.right) == "(x > 3)"


def test_a_property_ends_with_its_bracket() -> None:
    one, other = 'property p = Pmax=? [ F[0,3] "a]" ]', "property q = P<1 [ X c ]"
    text = f"{one} label b when x == 1 {other} end when c"
    kinds = [type(s).__name__ for s in parse(Source(text, "m")).file.statements]
    assert kinds == ["Property", "Label", "Property", "End"]


def errors(text: str) -> tuple[Diagnostic, ...]:
    return parse(Source(text, "m")).diagnostics


def test_a_property_without_its_bracket_does_not_hide_other_statements() -> None:
    text = "mdp m\nproperty p = Pmax=? [ F x\nstate v in [0, 1] bins 3\nlabel l when\naction a\n"
    parsed = parse(Source(text, "m"))
    assert [d.message for d in parsed.diagnostics] == [
        "the property ends too early: expected `]` or an operator",
        "the statement ends too early: expected an expression",
    ]
    kinds = [type(s).__name__ for s in parsed.file.statements]
    assert kinds == ["Header", "State", "ActionNames"]
    assert errors("property p = Pmax=?\nstate v in [0, 1] bins 3\n")[0].message == (
        "the property ends too early: expected `[`"
    )


@pytest.mark.parametrize(
    ("text", "column", "message", "hint"),
    [
        ("property", 9, "the statement ends too early: expected a name", "property safe ="),
        ("property p", 11, "the statement ends too early: expected `=`", "property safe ="),
        ("property p Pmax=? [ F x ]", 12, "unexpected `Pmax`: expected `=`", "property safe ="),
        ("property p: Pmax=? [ F x ]", 11, "unexpected `:`: expected `=`", "property safe ="),
        ("property = Pmax=? [ F x ]", 10, "unexpected `=`: expected a name", "`property' = …`"),
        ("property p == 3", 12, "unexpected `==`: expected `=`", "property safe ="),
        ("property when = P", 10, "unexpected `when`: expected a name", "reserved word"),
        ("propery p = P", 1, "unexpected `propery`: expected a statement", "`property`"),
    ],
)
def test_an_incomplete_statement_says_what_is_missing(
    text: str, column: int, message: str, hint: str
) -> None:
    source = Source(f"mdp m\n{text}\nlabel l when true", "text")
    (found,) = parse(source).diagnostics
    assert found.span is not None
    assert source.position(found.span.start) == (2, column)
    assert found.message == message
    assert hint in (found.help or "")


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ('filter(max, Pmax=? [ F "a" ], b)', "E105", "a filter"),
        ('Pmax=? [ F "a" {"init"}{max} ]', "E105", "a filter"),
        ('multi(Pmax=? [ F "a" ], P>=0.5 [ F "b" ])', "E105", "several objectives"),
        ("quantile(min k, P>0.5 [ F<=k b ])", "E105", "a quantile"),
        ("A [ F b ]", "E105", "the operator `A`"),
        ("E [ F b ]", "E105", "the operator `E`"),
        ("S>=0.5 [ b ]", "E105", "a long-run probability"),
        ("LRAmax=? [ b ]", "E105", "a long-run probability"),
        ("Tmin=? [ F b ]", "E105", "an expected time"),
        ("Pmaxmin=? [ F b ]", "E105", "an optimum over models"),
        ("Pmax=? [ F P>=0.5 [ X b ] ]", "E105", "a property within a property"),
        ("Pmax=? [ F G b ]", "E105", "more than one temporal operator"),
        ("Pmax=? [ (F a) & (G b) ]", "E105", "more than one temporal operator"),
        ("Pmax=? [ a U b U c ]", "E105", "more than one temporal operator"),
        ("Pmax=? [ !(F a) ]", "E105", "more than one temporal operator"),
        ("Pmax=? [ F a || F b ]", "E105", "a conditional probability"),
        ("P>=0.5 [ F a ] & P<0.1 [ F b ]", "E105", "combining several properties"),
        ("1 - Pmax=? [ F a ]", "E101", "unexpected `1`"),
        ("R{1}max=? [ S ]", "E105", "the number of a reward"),
        ("Rmax=? [ C ]", "E105", "the total reward without an end"),
        ("Rmax=? [ I=5 ]", "E105", "the reward at one step"),
        ("Rmax=? [ F<=5 b ]", "E105", "a bound on the steps of a reward"),
        ("Rmax=? [ a U b ]", "E101", "unexpected `a`"),
        ("Rmax=? [ G b ]", "E101", "unexpected `G`"),
        ("Pmax=? [ C<=5 ]", "E101", "unexpected `]`"),
        ("Pmax=? [ X<=3 b ]", "E101", "unexpected `<=`"),
        ("Pmax=0.5 [ F b ]", "E101", "unexpected `=`"),
        ("Pmax=? [ F x == 3 ]", "E101", "unexpected `=`"),
        ("Pmax=? [ F a && b ]", "E101", "unexpected `&`"),
        ("Pmax=? [ F 0 < x < 3 ]", "E101", "unexpected `<`"),
        ("Pmax=? [ F x' = 3 ]", "E102", "unexpected character `'`"),
        ("Pmax=? [ F x^2 = 3 ]", "E102", "unexpected character `^`"),
        ("Pmax=? [ F +x = 3 ]", "E101", "unexpected `+`"),
        ("Pmax=? [ F x = 3 // why\n ]", "E101", "unexpected `//`"),
        ("Pmax=? [ F x = 3 ]; ", "E101", "unexpected `;`"),
        ('Pmax=? [ F "a ]', "E102", "this string has no closing quote"),
    ],
)
def test_what_is_not_understood_is_named(text: str, code: str, message: str) -> None:
    for query in (text, f"mdp m\nproperty p = {text}\nlabel l when true\n"):
        found = errors(query) if query.startswith("mdp") else _errors_of(query)
        assert [d.code for d in found] == [code], found
        assert message in found[0].message
        assert "__ANON" not in found[0].render()


def _errors_of(query: str) -> tuple[Diagnostic, ...]:
    with pytest.raises(ModelError) as caught:
        parse_query(query)
    return caught.value.diagnostics


def test_conditions_may_be_deep_but_not_bottomless() -> None:
    condition("!" * (MAX_DEPTH - 1) + "a")
    for depth in (MAX_DEPTH + 1, 20_000):
        with pytest.raises(ModelError, match="nested more than"):
            condition("!" * depth + "a")


FILE = """\
// what we ask
const int k;
const double p = 1/2;  // half
const bool flag = true
  & !false;
const n = 3;
label "near" = x > k;

"soon": Pmax=? [ F<=k "goal" ];
P>=p [ G !"near" ]
"cost": R{"energy"}min=? [ F "goal" ]  // no semicolon
"""


def test_a_file_has_constants_labels_and_properties() -> None:
    parsed = parse_properties(Source(FILE, "some.props"))
    assert parsed.diagnostics == ()
    constants = [item for item in parsed.file.items if isinstance(item, Constant)]
    assert [(c.kind, c.name.text, c.value is None) for c in constants] == [
        ("int", "k", True),
        ("double", "p", False),
        ("bool", "flag", False),
        ("int", "n", False),
    ]
    (label,) = (item for item in parsed.file.items if isinstance(item, LabelDefinition))
    assert label.name.text == "near"
    named = [item for item in parsed.file.items if isinstance(item, NamedQuery)]
    assert [item.name.text if item.name else None for item in named] == ["soon", None, "cost"]
    assert all(isinstance(item.query, Query) for item in named)


def test_an_empty_file_has_no_properties() -> None:
    assert parse_properties(Source("// nothing\n", "some.props")).file.items == ()


def test_one_error_in_a_file_does_not_hide_the_others() -> None:
    text = FILE.replace("1/2", "1/").replace('G !"near"', 'F G "near"').replace("//", "#", 1)
    source = Source(text, "some.props")
    found = parse_properties(source)
    places = [source.position(d.span.start)[0] for d in found.diagnostics if d.span]
    assert places == [1, 3, 10]
    assert [d.code for d in found.diagnostics] == ["E102", "E101", "E105"]
    assert found.diagnostics[0].help == "`//` starts a comment in a file of properties"
    assert len([item for item in found.file.items if isinstance(item, NamedQuery)]) == 2
    assert "p" in found.lost_names
