"""What a property asks of a graph: an objective over its states and pairs, and what it decides.

`P [ G safe ]` is 1 - P [ F !safe ], so its maximum is 1 minus the minimum of an objective that can
be solved. In the same way,

    left W right    is 1 minus    !right U (!left & !right),
    left R right    is 1 minus    !left U !right,

also with a bound on the steps. Nothing follows an end: a path that arrives there stays.

A threshold compares the optimum: `Pmax>=0.9` asks whether the largest probability is at least 0.9,
so whether some policy achieves it. `P>=0.9` must hold for every policy, so the least one decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mdpdsl.compile.checked import CheckedProperty
from mdpdsl.compile.model import Model
from mdpdsl.compile.parameters import constant_of
from mdpdsl.compile.property_check import PropertyScope, check_query, property_scope
from mdpdsl.compile.property_file import declare_items
from mdpdsl.compile.property_states import Conditions
from mdpdsl.compile.scope import Definition
from mdpdsl.compile.stored import StoredModel
from mdpdsl.diagnostics import Diagnostic, ModelError, SolveError, Source, Span, did_you_mean
from mdpdsl.graph.objectives import (
    Average,
    Cumulative,
    Discounted,
    Next,
    Objective,
    Total,
    Until,
)
from mdpdsl.graph.reward_fields import all_rewards
from mdpdsl.graph.space import FloatArray, Value
from mdpdsl.graph.transition_graph import DEFAULT_REWARD, TransitionGraph
from mdpdsl.syntax.property_ast import Constant
from mdpdsl.syntax.property_parse import parse_properties, parse_query

#: A text that can only be the name of a property.
_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, eq=False)
class Question:
    """What a property asks of one graph.

    The value asked for is the optimum of the objective, or 1 minus it if `is_complement`. With a
    comparison, the answer is whether the value is `>=`, `>`, `<=` or `<` the threshold.
    """

    objective: Objective
    is_minimised: bool  # the objective itself, not the value
    is_complement: bool
    comparison: str | None  # None: the value is asked for
    threshold: float | None
    for_all: bool  # whether every policy is meant: the optimum is then that of the worst one
    name: str | None
    text: str  # the property in its canonical layout
    reward: str | None = None  # the name of the reward; None: `default`, or a probability


def question(
    model: Model,
    graph: TransitionGraph,
    asked: str,
    constants: Mapping[str, Value] | None = None,
) -> Question:
    """Return what a property asks: one of the model's by its name, or any by its text.

    The graph is the model's own, or another one over the same variables, such as an estimate.
    `constants` are further names that a text may use. Raise ModelError if the property has an
    error, and SolveError if the graph does not have its reward.
    """
    own = model.checked.properties
    if asked in own:
        _require_no_constants(constants, f"the property `{asked}`")
        return _questions(model, graph, [own[asked]], model.source, is_own=True)[0]
    if _NAME.fullmatch(asked.strip()):
        raise ModelError([_unknown_property(asked.strip(), list(own))])
    source = Source(asked, "<property>")
    scope = _scope(model, graph)
    _declare(scope, constants or {})
    try:
        checked = check_query(scope, parse_query(asked), None)
    except ModelError as error:
        raise ModelError([replace(d, source=source) for d in error.diagnostics]) from None
    _raise(scope.diagnostics, source)
    assert checked is not None
    return _questions(model, graph, [checked], source)[0]


def questions_of_file(
    model: Model,
    graph: TransitionGraph,
    path: str | Path,
    constants: Mapping[str, Value] | None = None,
) -> list[Question]:
    """Return what the properties of a file ask, in order.

    `constants` are values for those that the file only declares, as in `const int k;`.
    """
    source = _read(path)
    parsed = parse_properties(source)
    scope = _scope(model, graph, parsed.lost_names)
    scope.diagnostics += parsed.diagnostics
    checked = declare_items(scope, parsed.file, constants or {})
    _raise(scope.diagnostics, source)
    return _questions(model, graph, checked, source)


def undefined_constants(path: str | Path) -> tuple[str, ...]:
    """Return the names of the constants in a file of properties that have no value there."""
    items = parse_properties(_read(path)).file.items
    return tuple(
        item.name.text for item in items if isinstance(item, Constant) and item.value is None
    )


# Names


def _scope(
    model: Model, graph: TransitionGraph, lost_names: frozenset[str] = frozenset()
) -> PropertyScope:
    """Return the names of a model and of its graph, which may have more labels and rewards."""
    checked = model.checked
    labels = {*checked.labels, *graph.labels}
    rewards = dict.fromkeys([*checked.reward_names, *all_rewards(graph)])
    return property_scope(checked.definitions, checked.symbols, sorted(labels), rewards, lost_names)


def _declare(scope: PropertyScope, constants: Mapping[str, Value]) -> None:
    """Declare the names that come with a text."""
    nowhere = Span(0, 0)
    for name, given in constants.items():
        value = constant_of(name, given)
        if name in scope.definitions:
            message = f"`{name}` is a name of the model, so it cannot be a constant of a property"
            scope.diagnostics.append(Diagnostic("E601", message))
        elif value is None:
            message = f"the constant `{name}` must be a number or a truth value, not `{given}`"
            scope.diagnostics.append(Diagnostic("E602", message))
        else:
            scope.definitions[name] = Definition("param", nowhere, value)


def _require_no_constants(constants: Mapping[str, Value] | None, what: str) -> None:
    if constants:
        names = ", ".join(f"`{name}`" for name in constants)
        hint = "the parameters of a model are set when it is loaded"
        raise ModelError([Diagnostic("E601", f"{what} has no constant {names}", None, hint)])


def _unknown_property(name: str, known: list[str]) -> Diagnostic:
    listed = f"the model's properties are {', '.join(known)}"
    hint = did_you_mean(name, known) or (
        listed if known else 'give its text: `Pmax=? [ F "goal" ]`'
    )
    return Diagnostic("E201", f"the model has no property `{name}`", None, hint)


def _read(path: str | Path) -> Source:
    try:
        return Source(Path(path).read_bytes().decode("utf-8"), str(path))
    except UnicodeDecodeError as error:
        reason = f"byte {error.start} is not UTF-8"
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
    raise ModelError([Diagnostic("E603", f"cannot read {path}: {reason}", None, "check the path")])


def _raise(diagnostics: list[Diagnostic], source: Source) -> None:
    """Raise the errors among some diagnostics, if there are any."""
    if any(d.is_error for d in diagnostics):
        raise ModelError(
            [d if d.source is not None else replace(d, source=source) for d in diagnostics]
        )


# Objectives


def _questions(
    model: Model,
    graph: TransitionGraph,
    properties: list[CheckedProperty],
    source: Source,
    is_own: bool = False,
) -> list[Question]:
    conditions = Conditions(model.checked, graph)
    found = []
    for checked in properties:
        value_is_minimised = checked.direction == "min"
        for_all = checked.direction is None
        if for_all:  # the worst policy decides
            value_is_minimised = checked.comparison in (">=", ">")
        is_complement = not checked.is_reward and checked.operator in "GWR"
        found.append(
            Question(
                objective=_objective(model, graph, conditions, checked, is_own),
                is_minimised=value_is_minimised != is_complement,
                is_complement=is_complement,
                comparison=checked.comparison,
                threshold=checked.threshold,
                for_all=for_all,
                name=checked.name,
                text=checked.text,
                reward=checked.reward if checked.is_reward else None,
            )
        )
    _raise(conditions.diagnostics(), source)
    return found


def _objective(
    model: Model,
    graph: TransitionGraph,
    conditions: Conditions,
    checked: CheckedProperty,
    is_own: bool,
) -> Objective:
    # A let of the model is in another text, so a fault in it is reported at the condition.
    left, right = (
        None if term is None else conditions.states(term, None if is_own else term.span)
        for term in (checked.left, checked.right)
    )
    if checked.is_reward:
        reward = _reward(model, graph, checked.reward)
        if checked.operator == "F":
            assert right is not None
            return Total(reward, right)
        if checked.operator == "C":
            assert checked.steps is not None
            return Cumulative(reward, checked.steps)
        if checked.operator == "D":
            assert checked.discount is not None
            return Discounted(reward, checked.discount)
        return Average(reward)
    assert right is not None
    match checked.operator:
        case "X":
            return Next(right)
        case "F":
            return Until(right, None, checked.steps)
        case "G":
            return Until(~right, None, checked.steps)
    assert left is not None
    match checked.operator:
        case "U":
            return Until(right, left, checked.steps)
        case "W":
            return Until(~left & ~right, ~right, checked.steps)
        case _:
            return Until(~right, ~left, checked.steps)


def _reward(model: Model, graph: TransitionGraph, name: str | None) -> FloatArray:
    """Return the rewards of the pairs; raise SolveError if the graph does not have them."""
    found = graph.reward_of(name)
    if found is not None:
        return found
    what = "reward" if name is None or name == DEFAULT_REWARD else f"reward `{name}`"
    if isinstance(model, StoredModel) and model.provenance.rewards_missing is not None:
        missing = model.provenance.rewards_missing
        reason = f": {missing}" if what == "reward" and not missing.startswith("reward `") else ""
        reason = missing.removeprefix(what) if missing.startswith(f"{what}:") else reason
        raise SolveError(f"the estimate has no {what}{reason}")
    if not graph.has_dynamics:
        raise SolveError(
            f"the {what} depends on the next state, and the dynamics of this model are unknown"
        )
    raise SolveError(f"the graph has no {what}")
