"""The `explore` block: settings of a run that are part of a model file."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mdpdsl.compile import domains
from mdpdsl.compile.terms import INT, REAL, Type
from mdpdsl.compile.typecheck import Scope
from mdpdsl.diagnostics import did_you_mean
from mdpdsl.graph.space import Value
from mdpdsl.syntax import ast
from mdpdsl.syntax.format import format_expression

_POSITIVE: tuple[str, Callable[[float], bool]] = ("positive", lambda x: x > 0)
_PROPORTION: tuple[str, Callable[[float], bool]] = ("between 0 and 1", lambda x: 0 < x < 1)
_COUNT: tuple[str, Callable[[float], bool]] = ("1 or more", lambda x: x >= 1)
_NATURAL: tuple[str, Callable[[float], bool]] = ("0 or more", lambda x: x >= 0)

_NUMBERS: dict[str, tuple[Type, tuple[str, Callable[[float], bool]]]] = {
    "kappa": (REAL, _POSITIVE),
    "steps": (INT, _COUNT),
    "gamma": (REAL, _PROPORTION),
    "delta": (REAL, _PROPORTION),
    "trials": (INT, _COUNT),
    "seed": (INT, _NATURAL),
    "power": (REAL, _COUNT),
}
#: Settings that may be words or numbers (`algorithm = kappa-dp`, `horizon = inf`), kept as text.
WORDS = ("algorithm", "horizon", "bonus", "radius", "eta", "simulate")
#: All settings of the block.
SETTINGS = (*_NUMBERS, *WORDS)


def explore_settings(scope: Scope, blocks: Sequence[ast.Explore]) -> dict[str, Value]:
    """Evaluate the settings; report unknown ones and invalid values."""
    settings: dict[str, Value] = {}
    for entry in (entry for block in blocks for entry in block.entries):
        key = entry.key.text
        if key in settings:
            scope.report("E404", f"`{key}` is set twice", entry.span)
        elif key in WORDS:
            settings[key] = _word(entry.value)
        elif key in _NUMBERS:
            kind, (words, is_allowed) = _NUMBERS[key]
            value = domains.fixed_number(scope, entry.value, kind)
            if value is not None and not is_allowed(value):
                scope.report("E404", f"`{key}` must be {words}, not {value:g}", entry.span)
            elif value is not None:
                settings[key] = int(value) if kind == INT else value
        else:
            help_text = did_you_mean(key, SETTINGS) or f"the settings are {', '.join(SETTINGS)}"
            scope.report("E404", f"unknown setting `{key}`", entry.key.span, help_text)
    return settings


def _word(expression: ast.Expr) -> str:
    if isinstance(expression, ast.Text):
        return expression.value
    return format_expression(expression).replace(" ", "")
