"""Random syntax trees for properties of the formatter and the compiler."""

from __future__ import annotations

from hypothesis import strategies as st

from mdpdsl.diagnostics import Span
from mdpdsl.syntax import ast, property_ast
from mdpdsl.syntax.words import CONTEXTUAL_KEYWORDS, KEYWORDS

NOWHERE = Span(0, 0)

names = st.sampled_from(sorted(CONTEXTUAL_KEYWORDS)) | st.from_regex(
    r"[a-zA-Z_θ][a-zA-Z0-9_θ]{0,5}", fullmatch=True
).filter(lambda name: name not in KEYWORDS)
idents = names.map(lambda text: ast.Ident(text, span=NOWHERE))
numbers = st.sampled_from(["0", "1", "42", "100_000", "1e-3", "2.5", ".5", "7E+2"]).map(
    lambda text: ast.Number(text, span=NOWHERE)
)
leaves: st.SearchStrategy[ast.Expr] = st.one_of(
    numbers,
    st.booleans().map(lambda value: ast.Boolean(value, span=NOWHERE)),
    names.map(lambda name: ast.Name(name, span=NOWHERE)),
    names.map(lambda name: ast.Primed(name, span=NOWHERE)),
    st.just(ast.Name("action", span=NOWHERE)),
)


def _larger(parts: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Expr]:
    several = st.lists(parts, min_size=2, max_size=3).map(tuple)
    plain = parts.filter(lambda part: not isinstance(part, ast.Conditional))
    comparison = st.tuples(parts, parts, parts).flatmap(
        lambda operands: st.lists(
            st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), min_size=1, max_size=2
        ).map(
            lambda operators: ast.Comparison(
                operands[: len(operators) + 1], tuple(operators), span=NOWHERE
            )
        )
    )
    return st.one_of(
        st.builds(ast.Unary, st.sampled_from(["-", "+", "not"]), parts, span=st.just(NOWHERE)),
        st.builds(ast.Binary, st.sampled_from(list("+-*/%^")), parts, parts, span=st.just(NOWHERE)),
        comparison,
        st.builds(ast.Logical, st.sampled_from(["and", "or"]), several, span=st.just(NOWHERE)),
        # The last case is never itself a conditional: `else if` belongs to the same chain.
        st.builds(
            ast.Conditional,
            st.lists(st.tuples(parts, parts), min_size=1, max_size=2).map(tuple),
            plain,
            span=st.just(NOWHERE),
        ),
        st.builds(ast.Call, idents, st.lists(parts, max_size=3).map(tuple), span=st.just(NOWHERE)),
    )


expressions = st.recursive(leaves, _larger, max_leaves=12)


def _node(kind: type, *parts: st.SearchStrategy[object]) -> st.SearchStrategy[ast.Node]:
    return st.builds(kind, *parts, span=st.just(NOWHERE))


def _some(parts: st.SearchStrategy[object], least: int = 1) -> st.SearchStrategy[object]:
    return st.lists(parts, min_size=least, max_size=3).map(tuple)


_pairs = st.tuples(expressions, expressions)
_optional = st.none() | expressions
_options = st.one_of(
    st.sampled_from(["wrap", "clip"]).map(lambda kind: ast.RealOption(kind, span=NOWHERE)),
    _node(ast.RealOption, st.just("bins"), expressions.map(lambda e: (e,))),
    _node(ast.RealOption, st.just("edges"), _some(expressions)),
)
domains = st.one_of(
    _node(ast.RangeDomain, expressions, expressions),
    _node(ast.SetDomain, _some(expressions)),
    _node(ast.BoolDomain),
    _node(ast.RealDomain, expressions, expressions, _some(_options, 0)),
)
distributions = st.one_of(
    _node(ast.NamedDistribution, idents, _some(expressions, 0)),
    _node(ast.DiscreteDistribution, _some(_pairs)),
)
_updates = _node(ast.Update, idents, expressions)
_branches = st.one_of(_node(ast.Branch, _optional, _some(_updates, 0)))
_entries = _node(ast.Entry, idents, expressions)
_cells = st.one_of(
    names.map(lambda name: ast.Name(name, span=NOWHERE)),
    numbers,
    expressions,
)


def _rule(
    actions: tuple[ast.Ident, ...],
    guard: ast.Expr | None,
    is_otherwise: bool,
    branches: tuple[ast.Branch, ...],
) -> ast.Rule:
    guard = None if is_otherwise else guard
    return ast.Rule(actions, guard, is_otherwise, branches, span=NOWHERE)


# Properties, in their own syntax

#: Names that are no operators of properties.
_state_names = names.filter(
    lambda name: name not in {"P", "Pmax", "Pmin", "R", "Rmax", "Rmin", "F", "G", "X", "U", "W"}
)
_texts = st.text(st.characters(exclude_characters='"\n', codec="utf-8"), max_size=5)
_condition_leaves: st.SearchStrategy[ast.Expr] = st.one_of(
    numbers,
    st.booleans().map(lambda value: ast.Boolean(value, span=NOWHERE)),
    _state_names.map(lambda name: ast.Name(name, span=NOWHERE)),
    _texts.map(lambda text: ast.Text(text, span=NOWHERE)),
)


def _larger_conditions(parts: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Expr]:
    several = st.lists(parts, min_size=2, max_size=3).map(tuple)
    plain = parts.filter(lambda part: not isinstance(part, ast.Conditional))
    order = st.sampled_from(["==", "!=", "<", "<=", ">", ">="]).map(lambda sign: (sign,))
    functions = _state_names.map(lambda text: ast.Ident(text, span=NOWHERE))
    return st.one_of(
        _node(ast.Unary, st.sampled_from(["-", "not"]), parts),
        _node(ast.Binary, st.sampled_from(list("+-*/")), parts, parts),
        _node(ast.Comparison, st.tuples(parts, parts), order),
        _node(ast.Logical, st.sampled_from(["and", "or"]), several),
        _node(ast.Implication, parts, parts),
        _node(ast.Equivalence, parts, parts),
        _node(
            ast.Conditional,
            st.lists(st.tuples(parts, parts), min_size=1, max_size=2).map(tuple),
            plain,
        ),
        _node(ast.Call, functions, st.lists(parts, max_size=3).map(tuple)),
    )


conditions = st.recursive(_condition_leaves, _larger_conditions, max_leaves=10)
_bounds = st.one_of(
    st.none(),
    _node(property_ast.Bound, st.sampled_from(["<=", "<", "=", ">=", ">"]), conditions),
    _node(property_ast.Interval, conditions, conditions),
)
_paths = st.one_of(
    _node(property_ast.PathFormula, st.sampled_from("FG"), st.none(), conditions, _bounds),
    _node(property_ast.PathFormula, st.just("X"), st.none(), conditions),
    _node(property_ast.PathFormula, st.sampled_from("UWR"), conditions, conditions, _bounds),
)
_reward_formulas = st.one_of(
    st.builds(property_ast.RewardFormula, st.just("F"), goal=conditions, span=st.just(NOWHERE)),
    st.builds(
        property_ast.RewardFormula,
        st.just("C"),
        bound=_node(property_ast.Bound, st.sampled_from(["<=", "<", ">=", ">"]), conditions),
        span=st.just(NOWHERE),
    ),
    st.builds(property_ast.RewardFormula, st.just("D"), discount=conditions, span=st.just(NOWHERE)),
    _node(property_ast.RewardFormula, st.just("S")),
)
_directions = st.sampled_from(["max", "min", None])
_quoted = _texts.map(lambda text: ast.Ident(text, span=NOWHERE))


def _queries(
    formulas: st.SearchStrategy[ast.Node], rewards: st.SearchStrategy[ast.Ident | None]
) -> st.SearchStrategy[ast.Node]:
    compared = st.sampled_from([">=", ">", "<=", "<"])
    return st.one_of(
        _node(property_ast.Query, _directions, st.none(), st.none(), formulas, rewards),
        _node(property_ast.Query, _directions, compared, conditions, formulas, rewards),
    )


queries = st.one_of(_queries(_paths, st.none()), _queries(_reward_formulas, st.none() | _quoted))

_titles = st.none() | st.text(st.characters(exclude_characters='"\n', codec="utf-8"), max_size=9)
statements = st.one_of(
    _node(ast.Header, idents, _titles),
    _node(ast.Param, idents, expressions),
    _node(ast.State, idents, domains),
    _node(ast.ActionNames, _some(idents)),
    _node(ast.ActionFactor, idents, domains),
    _node(ast.Noise, idents, distributions),
    _node(ast.Let, idents, expressions),
    _node(ast.Init, st.just(()), _optional),
    _node(ast.Init, _some(_node(ast.InitItem, idents, expressions | distributions))),
    st.builds(_rule, _some(idents, 0), _optional, st.booleans(), _some(_branches)),
    _node(ast.Equation, _updates),
    _node(ast.Reward, st.none() | idents, st.none() | _some(idents, 0), _optional, expressions),
    _node(ast.Label, idents, expressions),
    _node(ast.Property, idents, queries),
    _node(ast.Restart, expressions),
    _node(ast.End, expressions),
    _node(ast.StatesAll),
    _node(ast.Discretize, st.just("center")),
    _node(ast.Discretize, st.just("uniform"), _optional),
    _node(ast.Discretize, st.just("sample"), expressions, _optional),
    _node(ast.Explore, _some(_entries, 0)),
    _node(ast.Log, _some(_entries, 0)),
    _node(ast.Table, _some(idents, 0), _some(_cells)),
)
files = st.lists(statements, max_size=5).map(lambda found: ast.ModelFile(tuple(found)))
