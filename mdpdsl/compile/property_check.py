"""Names, types and numbers of a property: from its syntax tree to a checked property.

Expressions are those of the language, with PRISM's `=>` and `<=>`, labels in quotes, and PRISM's
meaning of `pow(x, y)`, `log(x, base)` and `round(x)`, which rounds halves up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mdpdsl.compile.checked import CheckedProperty
from mdpdsl.compile.domains import fixed_number
from mdpdsl.compile.scope import PROPERTY, Definition, Place
from mdpdsl.compile.terms import (
    BOOL,
    INT,
    REAL,
    Apply,
    Constant,
    Logic,
    Named,
    Read,
    Term,
    reads,
)
from mdpdsl.compile.typecheck import Scope
from mdpdsl.diagnostics import Span, did_you_mean, with_article
from mdpdsl.graph.transition_graph import DEFAULT_REWARD
from mdpdsl.syntax import nodes
from mdpdsl.syntax.property_ast import Bound, Interval, PathFormula, Query, RewardFormula
from mdpdsl.syntax.property_format import format_query

#: Labels that every model has, unless it declares them itself: the states in which a run may start,
#: those in which an episode is over, and PRISM's states without a move, which are none here.
BUILT_IN_LABELS = ("init", "end", "deadlock")

#: Functions of PRISM, with the numbers of arguments for which they are meant.
_PRISM_CALLS = {"pow": (2,), "round": (1,), "log": (1, 2)}
#: Help texts for models, as they should be for properties.
_HELP = {
    "use `==` or `!=`": "use `=` or `!=`",
    "write `if … then 1 else 0`": "write `… ? 1 : 0`",
    "conditions on the action belong in an `on` line": "a property is about states; an action has "
    "no place in it",
    "next values can be used only in updates, equations and rewards": "a property is about states: "
    "it has no next values",
}


@dataclass(eq=False)
class PropertyScope(Scope):
    """The names that properties may use, and the types of expressions that use them.

    A label with a term is defined in a file of properties; the others are those of the graph.
    """

    labels: dict[str, Term | None] = field(default_factory=dict)
    rewards: tuple[str, ...] = ()

    def report(self, code: str, message: str, span: Span, help_text: str | None = None) -> None:
        """Add a diagnostic, with a help text in the syntax of properties."""
        super().report(code, message, span, _HELP.get(help_text or "", help_text))

    def report_unknown(self, name: str, span: Span, help_text: str | None) -> None:
        """Report an unknown name; if it is a label, say how labels are written."""
        if name in self.labels:
            help_text = f'write a label in quotes: `"{name}"`'
        super().report_unknown(name, span, help_text)

    def infer(self, expression: nodes.Expr, place: Place) -> Term | None:
        """Type an expression of a property, whatever its type."""
        match expression:
            case nodes.Text() if "label" in place.kinds:
                return self._label(expression)
            case nodes.Implication():
                sides = self._all((expression.left, expression.right), place, BOOL)
                if sides is None:
                    return None
                unless = Apply("not", (sides[0],), type=BOOL, span=expression.left.span)
                return Logic("or", (unless, sides[1]), type=BOOL, span=expression.span)
            case nodes.Equivalence():
                sides = self._all((expression.left, expression.right), place, BOOL)
                if sides is None:
                    return None
                return Apply("==", sides, type=BOOL, span=expression.span)
            case nodes.Call() if expression.function.text in _PRISM_CALLS:
                return self._prism_call(expression, place)
        return super().infer(expression, place)

    def _label(self, expression: nodes.Text) -> Term | None:
        """Return the states of a label, or of a condition that a file of properties names."""
        name, span = expression.value, expression.span
        if name in self.labels or name in BUILT_IN_LABELS:
            term = self.labels.get(name)
            if term is not None:
                return Named(name, term, reads(term), type=BOOL, span=span)
            return Read("label", name, type=BOOL, span=span)
        if name in self.lost_names:
            return None
        help_text = did_you_mean(name, [*self.labels, *BUILT_IN_LABELS])
        if name in self.definitions:
            kind = {"state": "state variable"}.get(self.definitions[name].kind)
            what = with_article(kind or self.definitions[name].kind)
            help_text = f"`{name}` is {what}: write it without quotes"
        elif help_text is None:
            listed = ", ".join(self.labels)
            help_text = f"the labels are {listed}" if listed else f"add `label {name} when …`"
        self.report("E201", f"unknown label `{name}`", span, help_text)
        return None

    def _prism_call(self, expression: nodes.Call, place: Place) -> Term | None:
        name, span, given = expression.function.text, expression.span, expression.arguments
        if len(given) not in _PRISM_CALLS[name]:
            needs = " or ".join(str(n) for n in _PRISM_CALLS[name])
            word = "argument" if needs == "1" else "arguments"
            self.report("E206", f"`{name}` takes {needs} {word}, not {len(given)}", span)
            return None
        if name == "pow":
            power = nodes.Binary("^", given[0], given[1], span=span)
            return super().infer(power, place)
        if name == "log" and len(given) == 1:
            return super().infer(expression, place)
        arguments = self._all(given, place, REAL)
        if arguments is None:
            return None
        if name == "round":
            half = Constant(0.5, type=REAL, span=span)
            raised = Apply("+", (arguments[0], half), type=REAL, span=span)
            return Apply("floor", (raised,), type=INT, span=span)
        logarithms = tuple(Apply("log", (a,), type=REAL, span=span) for a in arguments)
        return Apply("/", logarithms, type=REAL, span=span)


def property_scope(
    definitions: Mapping[str, Definition],
    symbols: Mapping[str, int],
    labels: Iterable[str],
    rewards: Iterable[str],
    lost_names: frozenset[str] = frozenset(),
) -> PropertyScope:
    """Return the names of a model, for its properties."""
    return PropertyScope(
        dict(definitions),
        dict(symbols),
        lost_names,
        labels=dict.fromkeys(labels),
        rewards=tuple(rewards),
    )


def check_query(scope: PropertyScope, query: Query, name: str | None) -> CheckedProperty | None:
    """Check a property; report its errors to the scope, and return None if there are any."""
    n_before = len(scope.diagnostics)
    start = query.span.start
    if query.direction is None and query.comparison is None:
        what, letter = ("expected reward", "R") if query.is_reward else ("probability", "P")
        scope.report(
            "E406",
            f"the {what} depends on the policy: say which one is meant",
            Span(start, start + 1),
            f"write `{letter}max=?` for the largest, or `{letter}min=?` for the least",
        )
    threshold = _threshold(scope, query)
    formula = query.formula
    left = right = discount = None
    if isinstance(formula, PathFormula):
        left = None if formula.left is None else scope.term(formula.left, PROPERTY, BOOL)
        right = scope.term(formula.right, PROPERTY, BOOL)
    else:
        _check_reward(scope, query)
        right = None if formula.goal is None else scope.term(formula.goal, PROPERTY, BOOL)
        discount = _discount(scope, formula)
    steps = _steps(scope, formula.bound)
    if len(scope.diagnostics) > n_before or any(
        syntax is not None and term is None
        for syntax, term in zip(_conditions(formula), (left, right), strict=True)
    ):
        return None
    reward = query.reward.text if query.reward is not None else None
    return CheckedProperty(
        name=name,
        text=format_query(query),
        span=query.span,
        is_reward=query.is_reward,
        direction=query.direction,
        comparison=query.comparison,
        threshold=threshold,
        operator=formula.operator,
        left=left,
        right=right,
        steps=steps,
        discount=discount,
        reward=None if reward == DEFAULT_REWARD else reward,
    )


def _conditions(
    formula: PathFormula | RewardFormula,
) -> tuple[nodes.Expr | None, nodes.Expr | None]:
    if isinstance(formula, PathFormula):
        return formula.left, formula.right
    return None, formula.goal


def _threshold(scope: PropertyScope, query: Query) -> float | None:
    if query.threshold is None:
        return None
    threshold = fixed_number(scope, query.threshold, REAL)
    if threshold is not None and not query.is_reward and not 0 <= threshold <= 1:
        span = query.threshold.span
        scope.report("E402", f"the probability {threshold:g} is outside [0, 1]", span)
    return threshold


def _discount(scope: PropertyScope, formula: RewardFormula) -> float | None:
    if formula.discount is None:
        return None
    discount = fixed_number(scope, formula.discount, REAL)
    if discount is not None and not 0 <= discount < 1:
        span, help_text = formula.discount.span, None
        if discount == 1:
            help_text = "write `[ S ]` for the long-run average, or `[ C<=k ]` for the next k steps"
        scope.report("E402", f"the discount {discount:g} is outside [0, 1)", span, help_text)
    return discount


def _check_reward(scope: PropertyScope, query: Query) -> None:
    """Report a reward that the model does not have."""
    if query.reward is None and DEFAULT_REWARD not in scope.rewards:
        named = [name for name in scope.rewards if name != DEFAULT_REWARD]
        message, help_text = "the model has no reward", "declare one: `reward : …`"
        if named:
            message = "the model has no reward without a name"
            help_text = f'say which one: `R{{"{named[0]}"}}{query.direction or ""}`'
        start = query.span.start
        scope.report("E201", message, Span(start, start + 1), help_text)
    elif query.reward is not None and query.reward.text not in scope.rewards:
        name = query.reward.text
        listed = ", ".join(scope.rewards)
        help_text = did_you_mean(name, scope.rewards) or (
            f"the rewards are {listed}" if listed else f"declare it: `reward {name} : …`"
        )
        scope.report("E201", f"unknown reward `{name}`", query.reward.span, help_text)


def _steps(scope: PropertyScope, bound: Bound | Interval | None) -> int | None:
    """Return the largest number of steps; None if there is no bound, or after an error."""
    if bound is None:
        return None
    if isinstance(bound, Interval):
        low, high = fixed_number(scope, bound.low, INT), fixed_number(scope, bound.high, INT)
        if low is None or high is None:
            return None
        if low > 0:
            _refuse_lower_bound(scope, bound.low.span)
        elif low < 0 or high < low:
            what = "has a negative end" if low < 0 else "is empty"
            scope.report("E402", f"the interval [{low:g}, {high:g}] {what}", bound.span)
        return int(high)
    steps = fixed_number(scope, bound.value, INT)
    if steps is None:
        return None
    if steps < 0 or (steps == 0 and bound.operator == "<"):
        what = f"`{bound.operator}{steps:.0f}`"
        scope.report("E402", f"the bound {what} allows no number of steps", bound.span)
    elif bound.operator == ">" or (bound.operator in (">=", "=") and steps > 0):
        _refuse_lower_bound(scope, bound.span)
    if bound.operator == ">=":
        return None
    return int(steps) - (bound.operator == "<")


def _refuse_lower_bound(scope: PropertyScope, span: Span) -> None:
    scope.report(
        "E105",
        "a lower bound on the number of steps is not supported",
        span,
        "write an upper bound: `<=k`, `<k` or `[0, k]`",
    )
