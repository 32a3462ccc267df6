"""An independent interpreter of finite models: one state at a time, in plain Python.

It walks the syntax tree, not the compiler's terms, and supports finite variables, discrete noise,
`on` lines, equations without cycles, restarts, ends, rewards and labels. Unknown numbers and `?`
have the values that they are simulated with.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, TypeVar

from mdpdsl.diagnostics import Source
from mdpdsl.syntax import ast
from mdpdsl.syntax.parse import parse

Env = dict[str, Any]
State = tuple[Any, ...]
N = TypeVar("N", bound=ast.Node)


class NaiveModel:
    """A model file with its states enumerated one by one."""

    def __init__(self, text: str, keeps_all: bool = False) -> None:
        parsed = parse(Source(text, "naive"))
        assert not parsed.diagnostics
        self.statements = parsed.file.statements
        self.constants: Env = {"pi": math.pi, "e": math.e, "inf": math.inf}
        self.lets = {let.name.text: let.value for let in self._all(ast.Let)}
        for param in self._all(ast.Param):
            self.constants[param.name.text] = self.value(param.value, {})
        for unknown in self._all(ast.Unknown):  # as they are simulated
            assert unknown.value is not None
            self.constants[unknown.name.text] = self.value(unknown.value, {})
        self.domains = {s.name.text: self._domain(s.domain) for s in self._all(ast.State)}
        self.names = list(self.domains)
        self.actions = list(self._action_envs())
        keeps_all = keeps_all or bool(self._all(ast.StatesAll))
        starts = {s: p for s, p in self._initial().items() if not self.is_end(s)}
        self.initial = {state: p / sum(starts.values()) for state, p in starts.items()}
        everything = list(itertools.product(*self.domains.values()))
        self.states = everything if keeps_all else self._reachable(everything)

    def _all(self, kind: type[N]) -> list[N]:
        return [s for s in self.statements if isinstance(s, kind)]

    def _domain(self, domain: ast.Domain) -> list[Any]:
        match domain:
            case ast.BoolDomain():
                return [False, True]
            case ast.RangeDomain():
                low, high = self.value(domain.low, {}), self.value(domain.high, {})
                return list(range(int(low), int(high) + 1))
            case ast.SetDomain():
                if all(isinstance(item, ast.Name) for item in domain.items):
                    names = [item.name for item in domain.items if isinstance(item, ast.Name)]
                    self.constants |= {name: name for name in names}
                    return list(names)
                return [self.value(item, {}) for item in domain.items]
        raise AssertionError(domain)

    def _action_envs(self) -> Iterator[Env]:
        factors: dict[str, list[Any]] = {}
        named = [n.text for s in self._all(ast.ActionNames) for n in s.names]
        if named:
            self.constants |= {name: name for name in named}
            factors["action"] = named
        for statement in self._all(ast.ActionFactor):
            factors[statement.name.text] = self._domain(statement.domain)
        for values in itertools.product(*factors.values()):
            yield dict(zip(factors, values, strict=True))

    def _initial(self) -> dict[State, float]:
        everything = list(itertools.product(*self.domains.values()))
        statements = self._all(ast.Init)
        if not statements or not statements[0].items:
            guard = statements[0].guard if statements else None
            chosen = [s for s in everything if guard is None or self.value(guard, self.env(s))]
            return {state: 1 / len(chosen) for state in chosen}
        each: dict[str, dict[Any, float]] = {}
        for item in statements[0].items:
            if isinstance(item.value, ast.DiscreteDistribution):
                weights = item.value.weights
                each[item.name.text] = {self.value(v, {}): self.value(p, {}) for v, p in weights}
            else:
                assert isinstance(item.value, ast.Expr)
                each[item.name.text] = {self.value(item.value, {}): 1.0}
        for name, domain in self.domains.items():
            each.setdefault(name, {value: 1 / len(domain) for value in domain})
        result = {
            state: math.prod(each[n].get(v, 0.0) for n, v in zip(self.names, state, strict=True))
            for state in everything
        }
        return {state: p for state, p in result.items() if p > 0}

    def env(self, state: State) -> Env:
        return dict(zip(self.names, state, strict=True))

    def is_end(self, state: State) -> bool:
        """Return whether episodes are over in a state."""
        return any(self.value(end.guard, self.env(state)) for end in self._all(ast.End))

    def row(self, state: State, action: Env) -> dict[State, float] | None:
        """Return the distribution of the next state; None if the action is not available."""
        here = self.env(state)
        if self.is_end(state):
            return None
        if any(self.value(r.guard, here) for r in self._all(ast.Restart)):
            return dict(self.initial)
        both = here | action
        mine = [r for r in self._all(ast.Rule) if self._concerns(r.actions, action)]
        if not mine:
            return self._spread([(1.0, ())], both)
        for rule in mine:
            if rule.is_otherwise or rule.guard is None or self.value(rule.guard, both):
                branches = [
                    (1.0 if b.probability is None else self.value(b.probability, both), b.updates)
                    for b in rule.branches
                ]
                return self._spread(branches, both)
        return None

    def _concerns(self, names: tuple[ast.Ident, ...], action: Env) -> bool:
        return not names or action.get("action") in [name.text for name in names]

    def _spread(
        self, branches: list[tuple[float, tuple[ast.Update, ...]]], here: Env
    ) -> dict[State, float]:
        found: dict[State, float] = defaultdict(float)
        noises = []
        for noise in self._all(ast.Noise):
            assert isinstance(noise.distribution, ast.DiscreteDistribution)
            weights = noise.distribution.weights
            noises.append(
                [(noise.name.text, self.value(v, {}), self.value(p, {})) for v, p in weights]
            )
        for probability, updates in branches:
            terms = {u.name.text: u.value for u in updates}
            terms |= {q.update.name.text: q.update.value for q in self._all(ast.Equation)}
            for draw in itertools.product(*noises):
                weight = probability * math.prod(p for _, _, p in draw)
                if weight == 0:
                    continue
                env = here | {name: value for name, value, _ in draw} | {"'": terms}
                found[tuple(self._next(name, env) for name in self.names)] += weight
        return dict(found)

    def _next(self, name: str, env: Env) -> Any:
        terms = env["'"]
        value = self.value(terms[name], env) if name in terms else env[name]
        assert value in self.domains[name], (name, value)
        return value

    def reward(self, state: State, action: Env, following: State, name: str = "default") -> float:
        env = self.env(state) | action
        env |= {f"{n}'": v for n, v in zip(self.names, following, strict=True)}
        total = 0.0
        for r in self._all(ast.Reward):
            if (r.name.text if r.name else "default") != name:
                continue
            applies = r.guard is None or self.value(r.guard, env)
            if applies and self._concerns(r.actions or (), action):
                total += self.value(r.value, env)
        return total

    def has_label(self, name: str, state: State) -> bool:
        guards = [s.guard for s in self._all(ast.Label) if s.name.text == name]
        return bool(self.value(guards[0], self.env(state)))

    def _reachable(self, everything: list[State]) -> list[State]:
        seen, pending = set(self.initial), list(self.initial)
        while pending:
            state = pending.pop()
            for action in self.actions:
                for following in self.row(state, action) or {}:
                    if following not in seen:
                        seen.add(following)
                        pending.append(following)
        return [state for state in everything if state in seen]

    # Expressions

    def value(self, expression: ast.Expr, env: Env) -> Any:
        match expression:
            case ast.Open(value=ast.Expr() as truth):
                return self.value(truth, env)
            case ast.Number():
                return int(expression.value) if expression.is_whole else expression.value
            case ast.Boolean():
                return expression.value
            case ast.Name():
                if expression.name in env:
                    return env[expression.name]
                if expression.name in self.lets:
                    return self.value(self.lets[expression.name], env)
                return self.constants[expression.name]
            case ast.Primed():
                if f"{expression.name}'" in env:
                    return env[f"{expression.name}'"]
                return self._next(expression.name, env)
            case ast.Unary():
                operand = self.value(expression.operand, env)
                if expression.operator == "not":
                    return not operand
                return -operand if expression.operator == "-" else operand
            case ast.Binary():
                left, right = self.value(expression.left, env), self.value(expression.right, env)
                return _OPERATIONS[expression.operator](left, right)
            case ast.Comparison():
                values = [self.value(operand, env) for operand in expression.operands]
                links = zip(expression.operators, values, values[1:], strict=False)
                return all(_OPERATIONS[operator](a, b) for operator, a, b in links)
            case ast.Logical():
                combine = all if expression.operator == "and" else any
                return combine(self.value(operand, env) for operand in expression.operands)
            case ast.Conditional():
                for condition, chosen in expression.cases:
                    if self.value(condition, env):
                        return self.value(chosen, env)
                return self.value(expression.otherwise, env)
            case ast.Call():
                arguments = [self.value(argument, env) for argument in expression.arguments]
                return _FUNCTIONS[expression.function.text](*arguments)
        raise AssertionError(expression)


_OPERATIONS: dict[str, Any] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "%": lambda a, b: a % b,
    "^": lambda a, b: math.pow(a, b),
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_FUNCTIONS: dict[str, Any] = {
    "abs": abs,
    "sign": lambda x: (x > 0) - (x < 0),
    "min": min,
    "max": max,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "atan2": math.atan2,
    "tanh": math.tanh,
    "clip": lambda x, low, high: min(max(x, low), high),
    "wrap": lambda x, low, high: low + (x - low) % (high - low),
    "mod": lambda a, b: a % b,
}
