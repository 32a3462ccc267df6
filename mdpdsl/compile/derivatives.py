"""The derivative of a term along an unknown number, as a term.

The rules are those of a calculus textbook. At a kink (`abs`, `min`, `max`, `clip`) the derivative
is that of one side; where a function jumps (`floor`, `sign`, a condition), the jump is ignored.
"""

from __future__ import annotations

from mdpdsl.compile.terms import BOOL, REAL, Apply, Choose, Constant, Named, Read, Term, reads

#: Functions that are constant between their jumps.
_STEPS = frozenset({"floor", "ceil", "round", "sign"})


class Derivatives:
    """Differentiates terms along one unknown number; uses of a `let` share its derivative."""

    def __init__(self, name: str) -> None:
        self._key = ("unknown", name)
        self._definitions: dict[int, tuple[Term, Term | None]] = {}  # by id

    def __call__(self, term: Term) -> Term | None:
        """Return the derivative of a term; None if it is 0 everywhere."""
        if term.type.kind == "bool" or self._key not in reads(term):
            return None
        match term:
            case Read():
                return _number(1.0, term)
            case Named():
                return self._named(term)
            case Choose():
                values = [self(value) for _, value in term.cases]
                rest = self(term.otherwise)
                conditions = [condition for condition, _ in term.cases]
                cases = tuple(
                    (condition, value or _number(0.0, term))
                    for condition, value in zip(conditions, values, strict=True)
                )
                return Choose(cases, rest or _number(0.0, term), type=REAL, span=term.span)
            case Apply():
                return self._applied(term)
        raise AssertionError(term)

    def _named(self, term: Named) -> Term | None:
        key = id(term.definition)
        if key not in self._definitions:
            self._definitions[key] = term.definition, self(term.definition)
        slope = self._definitions[key][1]
        if slope is None:
            return None
        return Named(f"{term.name}'", slope, reads(slope), type=REAL, span=term.span)

    def _applied(self, term: Apply) -> Term | None:
        function, arguments = term.function, term.arguments
        if function in _STEPS:
            return None
        slopes = [self(argument) for argument in arguments]
        if function in ("min", "max"):
            return self._extreme(function, arguments, slopes, term)
        if function == "clip":
            x, low, high = arguments
            return self(_apply("min", _apply("max", x, low), high))
        if function == "wrap":
            x, low, high = arguments
            turned = _apply("mod", _apply("-", x, low), _apply("-", high, low))
            return self(_apply("+", low, turned))
        if len(arguments) == 1:
            slope = slopes[0]
            return None if slope is None else _chained(function, arguments[0], slope)
        return _of_two(function, *arguments, *slopes)

    def _extreme(
        self, function: str, arguments: tuple[Term, ...], slopes: list[Term | None], term: Term
    ) -> Term:
        """Return the derivative of the argument that is the smallest or largest."""
        sign = "<=" if function == "min" else ">="
        best, slope = arguments[0], slopes[0] or _number(0.0, term)
        for other, its_slope in zip(arguments[1:], slopes[1:], strict=True):
            is_best = Apply(sign, (best, other), type=BOOL, span=term.span)
            rest = its_slope or _number(0.0, term)
            slope = Choose(((is_best, slope),), rest, type=REAL, span=term.span)
            best = _apply(function, best, other)
        return slope


def _chained(function: str, x: Term, slope: Term) -> Term:
    """Return f'(x) times the slope of x."""
    one, two = _number(1.0, x), _number(2.0, x)
    if function == "negative":
        return _apply("negative", slope)
    if function in ("sqrt", "log", "tan", "atan", "asin", "acos"):
        square = _apply("*", x, x)
        cosine = _apply("cos", x)
        divisor = {
            "sqrt": _apply("*", two, _apply("sqrt", x)),
            "log": x,
            "tan": _apply("*", cosine, cosine),
            "atan": _apply("+", one, square),
            "asin": _apply("sqrt", _apply("-", one, square)),
            "acos": _apply("negative", _apply("sqrt", _apply("-", one, square))),
        }[function]
        return _apply("/", slope, divisor)
    tangent = _apply("tanh", x)
    factor = {
        "abs": _apply("sign", x),
        "exp": _apply("exp", x),
        "sin": _apply("cos", x),
        "cos": _apply("negative", _apply("sin", x)),
        "tanh": _apply("-", one, _apply("*", tangent, tangent)),
    }[function]
    return _apply("*", factor, slope)


def _of_two(
    function: str, x: Term, y: Term, x_slope: Term | None, y_slope: Term | None
) -> Term | None:
    """Return the derivative of a function of two numbers."""
    match function:
        case "+":
            return _sum(x_slope, y_slope)
        case "-":
            return _difference(x_slope, y_slope)
        case "*":
            return _sum(_times(x_slope, y), _times(y_slope, x))
        case "/":
            quotient = _apply("/", x, y)
            change = _difference(x_slope, _times(y_slope, quotient))
            return None if change is None else _apply("/", change, y)
        case "%" | "mod":  # x - floor(x/y) y
            turns = _apply("floor", _apply("/", x, y))
            return _difference(x_slope, _times(y_slope, turns))
        case "^":
            less = _apply("^", x, _apply("-", y, _number(1.0, y)))
            along_x = _times(x_slope, _apply("*", y, less))
            along_y = _apply("*", _apply("^", x, y), _apply("log", x))
            return _sum(along_x, _times(y_slope, along_y))
        case "atan2":  # the angle of the point (y, x), as the arguments come in this order
            size = _apply("+", _apply("*", x, x), _apply("*", y, y))
            change = _difference(_times(x_slope, y), _times(y_slope, x))
            return None if change is None else _apply("/", change, size)
    raise AssertionError(function)


def _sum(one: Term | None, other: Term | None) -> Term | None:
    if one is None or other is None:
        return one or other
    return _apply("+", one, other)


def _difference(one: Term | None, other: Term | None) -> Term | None:
    if other is None:
        return one
    return _apply("negative", other) if one is None else _apply("-", one, other)


def _times(slope: Term | None, factor: Term) -> Term | None:
    return None if slope is None else _apply("*", slope, factor)


def _apply(function: str, *arguments: Term) -> Term:
    return Apply(function, arguments, type=REAL, span=arguments[0].span)


def _number(value: float, term: Term) -> Term:
    return Constant(value, type=REAL, span=term.span)
