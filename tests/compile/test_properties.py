"""What a property asks, against an interpreter of its text, brute force, and Storm."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stormpy
from hypothesis import given, settings
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.compile import property_states
from mdpdsl.compile.properties import Question, question
from mdpdsl.compile.stored import Provenance, StoredModel, graph_model
from mdpdsl.diagnostics import ModelError, SolveError, Source
from mdpdsl.formats.explicit import read_prism_files, write_explicit
from mdpdsl.formats.loops import with_distinct_twins
from mdpdsl.formats.prism import to_prism
from mdpdsl.graph.ends import absorb
from mdpdsl.graph.objectives import (
    Average,
    Cumulative,
    Discounted,
    Next,
    Objective,
    Total,
    Until,
)
from mdpdsl.graph.space import BoolArray, FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from tests.graph.twins import settled
from tests.solve.storm import storm_values

MODEL = """\
mdp m
param n = 4
param p = 0.25
state x in 0..n
state y in -1..1
state b in bool
state c in {red, green}
action go, wait
init x = 0, y = 0, b = false, c = red
let far = x >= 3
on go -> 0.5: x' = min(x + 1, n), b' = not b | p: y' = mod(y + 2, 3) - 1 | 0.5 - p: c' = green
on wait -> 0.5: stay | 0.5: x' = max(x - 1, 0), c' = red
end when x == n
reward : 1 + x
reward energy on go : 2
reward energy when x' > x : 1
label goal when x == n
label hole when c == green and y == 1
"""
PRECISION = 1e-9
TOLERANCE = 1e-7


@pytest.fixture(scope="module")
def model() -> mdpdsl.Model:
    return mdpdsl.loads(MODEL)


def asked(model: mdpdsl.Model, text: str) -> Question:
    return question(model, model.graph, text)


def states_where(model: mdpdsl.Model, condition: str) -> BoolArray:
    objective = asked(model, f"Pmax=? [ F {condition} ]").objective
    assert isinstance(objective, Until)
    return objective.goal


# Conditions, with what they mean

Env = dict[str, Any]
Meaning = tuple[str, Callable[[Env], Any]]


def _number(draw: st.DrawFn, depth: int, is_plain: bool) -> Meaning:
    names = ["x", "y", *([] if is_plain else ["n"])]  # parameters are not exported
    kind = draw(st.sampled_from([*names, "literal", "literal", "op", "call", "ite"]))
    if depth == 0 or kind in ("x", "y", "n", "literal"):
        if kind in ("x", "y", "n"):
            return kind, lambda env: env[kind]
        number = draw(st.sampled_from(["0", "1", "2", "0.5", "3"]))
        return number, lambda env: float(number)
    left, right = (_number(draw, depth - 1, is_plain) for _ in range(2))
    if kind == "op":
        sign = draw(st.sampled_from("+-*"))
        table: dict[str, Callable[[float, float], float]] = {
            "+": lambda a, b: a + b,
            "-": lambda a, b: a - b,
            "*": lambda a, b: a * b,
        }
        return f"({left[0]} {sign} {right[0]})", lambda env: table[sign](
            left[1](env), right[1](env)
        )
    if kind == "ite":
        test = _condition(draw, 0, True)
        return (
            f"({test[0]} ? {left[0]} : {right[0]})",
            lambda env: left[1](env) if test[1](env) else right[1](env),
        )
    name = draw(st.sampled_from(["min", "max", "floor", "ceil", "round", "pow", "mod"]))
    one: dict[str, Callable[[float], float]] = {
        "floor": lambda a: math.floor(a),
        "ceil": lambda a: math.ceil(a),
        "round": lambda a: math.floor(a + 0.5),
    }
    if name in one:
        return f"{name}({left[0]})", lambda env: one[name](left[1](env))
    if name == "pow":
        return f"pow({left[0]}, 2)", lambda env: left[1](env) ** 2
    if name == "mod":
        return f"mod({left[0]}, 3)", lambda env: left[1](env) % 3
    two = min if name == "min" else max
    return f"{name}({left[0]}, {right[0]})", lambda env: two(left[1](env), right[1](env))


def _condition(draw: st.DrawFn, depth: int, is_plain: bool) -> Meaning:
    leaves = ["b", "order", "order", "enum", "constant"]
    kind = draw(
        st.sampled_from(
            [*leaves, *([] if is_plain else ["far", "label", "iff"]), "not", "and", "or", "=>"]
        )
    )
    if depth == 0 and kind in ("not", "and", "or", "=>", "iff"):
        kind = "order"
    match kind:
        case "b" | "far":
            return kind, lambda env: env[kind]
        case "constant":
            value = draw(st.booleans())
            return str(value).lower(), lambda env: value
        case "label":
            label = draw(st.sampled_from(["goal", "hole", "end", "init", "deadlock"]))
            return f'"{label}"', lambda env: env[f'"{label}"']
        case "enum":
            member, sign = draw(st.sampled_from(["red", "green"])), draw(st.sampled_from("=!"))
            is_equal = sign == "="
            text = f"c {'=' if is_equal else '!='} {member}"
            return text, lambda env: (env["c"] == member) == is_equal
        case "order":
            left, right = (_number(draw, d, is_plain) for d in (max(depth, 1), 1))
            sign = draw(st.sampled_from(["<", "<=", ">", ">=", "=", "!="]))
            orders: dict[str, Callable[[float, float], bool]] = {
                "<": lambda a, b: a < b,
                "<=": lambda a, b: a <= b,
                ">": lambda a, b: a > b,
                ">=": lambda a, b: a >= b,
                "=": lambda a, b: a == b,
                "!=": lambda a, b: a != b,
            }
            text = f"{left[0]} {sign} {right[0]}"
            return text, lambda env: orders[sign](left[1](env), right[1](env))
        case "not":
            inner = _condition(draw, depth - 1, is_plain)
            return f"!({inner[0]})", lambda env: not inner[1](env)
    one, other = _condition(draw, depth - 1, is_plain), _condition(draw, depth - 1, is_plain)
    joined: dict[str, Callable[[bool, bool], bool]] = {
        "and": lambda a, b: a and b,
        "or": lambda a, b: a or b,
        "=>": lambda a, b: not a or b,
        "iff": lambda a, b: a == b,
    }
    sign = {"and": "&", "or": "|", "=>": "=>", "iff": "<=>"}[kind]
    text = f"({one[0]}) {sign} ({other[0]})"
    return text, lambda env: joined[kind](bool(one[1](env)), bool(other[1](env)))


@st.composite
def conditions(draw: st.DrawFn, is_plain: bool = False) -> Meaning:
    """Draw a condition in PRISM's syntax and what it means; `is_plain`: as Storm reads it, too."""
    return _condition(draw, 3, is_plain)


def environments(graph: TransitionGraph) -> list[Env]:
    ends = graph.ends if graph.ends is not None else np.zeros(graph.n_states, np.bool_)
    found = []
    for state in range(graph.n_states):
        values: Env = dict(graph.states.native(state))
        values |= {"n": 4, "far": values["x"] >= 3}
        values |= {f'"{name}"': bool(on[state]) for name, on in graph.labels.items()}
        values |= {'"end"': bool(ends[state]), '"deadlock"': False}
        found.append(values | {'"init"': bool(graph.initial[state] > 0)})
    return found


@settings(max_examples=300, deadline=None)
@given(conditions())
def test_a_condition_holds_in_the_states_that_an_interpreter_finds(condition: Meaning) -> None:
    model = mdpdsl.loads(MODEL)
    text, meaning = condition
    expected = [bool(meaning(env)) for env in environments(model.graph)]
    assert states_where(model, text).tolist() == expected


def storm_states(folder: Path, model: mdpdsl.Model, condition: str) -> set[tuple[Any, ...]]:
    """Return the values of the variables in the states in which a condition holds for Storm."""
    path = folder / "model.prism"
    path.write_text(to_prism(model.graph), encoding="utf-8")
    program = stormpy.parse_prism_program(str(path))
    # With a single formula, Storm would not explore what follows its states.
    prop, other = stormpy.parse_properties(f"({condition}); Pmax=? [ X x = 0 ]", program)
    options = stormpy.BuilderOptions([prop.get_raw_formula(), other.get_raw_formula()])
    options.set_build_state_valuations()
    options.set_build_all_labels()
    built = stormpy.build_model(program, options=options)
    holds = stormpy.model_checking(built, prop).get_truth_values_vector()
    found = set()
    for state in range(built.nr_states):
        if holds.get(state):
            values = json.loads(str(built.state_valuations.to_json(state)))
            found.add(tuple(int(values[name]) for name in ("x", "y", "b", "c")))
    return found


@settings(max_examples=40, deadline=None)
@given(conditions(is_plain=True))
def test_a_condition_holds_in_the_same_states_for_storm(
    tmp_path_factory: pytest.TempPathFactory, condition: Meaning
) -> None:
    model = mdpdsl.loads(MODEL)
    text, _ = condition
    ours = set()
    for state in np.flatnonzero(states_where(model, text)).tolist():
        values = model.graph.states.native(state)
        member = ("red", "green").index(str(values["c"]))
        ours.add((int(values["x"]), int(values["y"]), int(values["b"]), member))
    assert storm_states(tmp_path_factory.getbasetemp(), model, text) == ours


@pytest.mark.parametrize(
    "text",
    [
        'Pmax=? [ F "goal" ]',
        'Pmin=? [ F "goal" ]',
        'Pmax=? [ F<=5 "goal" ]',
        'Pmax=? [ F<5 "goal" ]',
        'Pmax=? [ F[0,5] "goal" ]',
        'Pmin=? [ !"hole" U "goal" ]',
        'Pmax=? [ !"hole" U<=6 x >= 3 ]',
        "Pmax=? [ G x < 3 ]",
        'Pmin=? [ G !"hole" ]',
        "Pmax=? [ X x = 1 ]",
        "Pmin=? [ X x = 1 & b ]",
        'R{"energy"}max=? [ C<=7 ]',
        'R{"energy"}min=? [ C<7 ]',
        'R{"reward"}min=? [ F "goal" ]',
        'R{"energy"}min=? [ F x = 3 ]',
    ],
)
def test_the_objective_has_the_value_that_storm_finds(
    model: mdpdsl.Model, text: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.prism"
    path.write_text(to_prism(model.graph), encoding="utf-8")
    program = stormpy.parse_prism_program(str(path))
    (prop,) = stormpy.parse_properties(text, program)
    built = stormpy.build_model(program, [prop])
    environment = stormpy.environments.sound()
    environment.solver().min_max().precision = stormpy.Rational(PRECISION)
    theirs = stormpy.model_checking(built, prop, environment=environment)
    ours = asked(model, text.replace('{"reward"}', ""))
    value = float(model.graph.initial @ best(model.graph, ours.objective, ours.is_minimised))
    value = 1 - value if ours.is_complement else value
    assert value == pytest.approx(theirs.get_value(built.initial_states[0]), abs=TOLERANCE)


def test_storm_refuses_or_accepts_the_same_texts(model: mdpdsl.Model, tmp_path: Path) -> None:
    path = tmp_path / "model.prism"
    path.write_text(to_prism(model.graph), encoding="utf-8")
    program = stormpy.parse_prism_program(str(path))

    def storm_reads(text: str) -> bool:
        try:
            return len(stormpy.parse_properties(text, program)) == 1
        except Exception:
            return False

    def we_read(text: str) -> bool:
        try:
            asked(model, text.replace('{"reward"}', ""))
        except ModelError:
            return False
        return True

    both = [
        'Pmax=?[F"goal"]', "P max =? [ F x=1 ]", 'P>=0.5 [ x<3 U<=4 "goal" ]', "P>0 [ X b ]",
        'R{"energy"}max=? [ LRA ]', 'R{"energy"}min=? [ S ]', 'R{"energy"}<=3 [ F b ]',
        'R{"energy"}max=? [ Cdiscount=0.9 ]', 'R{"energy"}max=? [ Cdiscount=9/10 ]',
        "Pmax>=(0.5+0.2) [ F b ]", "Pmax>=0.5+0.2 [ F b ]", "Pmax=? [ F<=1+2 b ]",
        "Pmax=? [ F<=(1+2) b ]", "Pmax=? [ F x=1 => y=1 ]", "Pmax=? [ F !x=1 ]",
        "Pmax=? [ F x>1 ? b : y=1 ]", "Pmax=? [ F min(x,y)=1 & floor(x/2)=1 & mod(x,2)=0 ]",
        "Pmax=? [ F pow(x,2)=4 ]", "Pmax=? [ F x<2 = y<2 ]", "Pmax=? [ (F b) ]", "P<1 [ G !b ]",
        'Pmax=? [ F "goal" & x>1 ]', 'Pmax=? [ F "init" | "deadlock" ]', "Pmin=? [ F -x<2 ]",
    ]  # fmt: skip
    neither = [
        "Pmax=? [ F x ]", "Pmax=? [ F x == 1 ]", "Pmax=? [ F 0<x<2 ]", "Pmax = 0.5 [ F b ]",
        "Pmax=? [ F x=1 && b ]", "Pmax=? [ X<=3 b ]", "Pmax=? [ F z=1 ]", "Pmax=? F b",
        "Pmax=? [ F b", "Rmax=? [ x=1 U b ]", 'R{"energy"}max=? [ G b ]', "Pmax=? [ b U b U b ]",
        "Pmax=? [ F b and b ]", "Pmax=? [ F x'=1 ]",
    ]  # fmt: skip
    for text in both:
        assert (storm_reads(text), we_read(text)) == (True, True), text
    for text in neither:
        assert (storm_reads(text), we_read(text)) == (False, False), text


# Brute force


def best(graph: TransitionGraph, objective: Objective, is_minimised: bool) -> FloatArray:
    """Return the optimum of an objective in every state, by iteration."""
    looped, is_own = absorb(graph)
    P = looped.transition_matrix()
    choose = np.minimum if is_minimised else np.maximum

    def step(values: FloatArray, reward: FloatArray | float = 0.0) -> FloatArray:
        return np.asarray(choose.reduceat(reward + P @ values, looped.pair_start[:-1]))

    def with_ends(reward: FloatArray) -> FloatArray:
        found = np.zeros(looped.n_pairs)
        found[is_own] = reward
        return found

    values = np.zeros(graph.n_states)
    match objective:
        case Next(goal):
            return step(goal.astype(float))
        case Until(goal, allowed, steps):
            values = goal.astype(float)
            on = np.ones(graph.n_states, np.bool_) if allowed is None else allowed
            for _ in range(3_000 if steps is None else steps):
                values = np.where(goal, 1.0, np.where(on, step(values), 0.0))
        case Cumulative(reward, steps):
            for _ in range(steps):
                values = step(values, with_ends(reward))
        case Total(reward, goal):
            # From above: with 0 the least reward could wait for ever.
            values = np.where(goal, 0.0, 1e4)
            for _ in range(20_000):
                values = np.where(goal, 0.0, step(values, with_ends(reward)))
    return values


def recursion(
    graph: TransitionGraph, operator: str, left: BoolArray, right: BoolArray, k: int, sign: int
) -> FloatArray:
    """Return the optimum of a bounded path formula, step by step as its definition says."""
    looped, _ = absorb(graph)
    P = looped.transition_matrix()

    def after(values: FloatArray) -> FloatArray:
        return np.asarray(sign * np.maximum.reduceat(sign * (P @ values), looped.pair_start[:-1]))

    holds: dict[str, Callable[[FloatArray | None], FloatArray]] = {
        "F": lambda v: np.where(right, 1.0, 0.0 if v is None else v),
        "G": lambda v: np.where(right, 1.0 if v is None else v, 0.0),
        "U": lambda v: np.where(right, 1.0, np.where(left, 0.0 if v is None else v, 0.0)),
        "W": lambda v: np.where(right, 1.0, np.where(left, 1.0 if v is None else v, 0.0)),
        # Up to the first state with the left condition, that one included.
        "R": lambda v: np.where(right, np.where(left, 1.0, 1.0 if v is None else v), 0.0),
    }
    values = holds[operator](None)
    for _ in range(k):
        values = holds[operator](after(values))
    return values


@pytest.mark.parametrize("operator", "FGUWR")
@pytest.mark.parametrize("direction", ["max", "min"])
@pytest.mark.parametrize("k", [0, 1, 4])
def test_bounded_formulas_are_what_they_are_defined_to_be(
    model: mdpdsl.Model, operator: str, direction: str, k: int
) -> None:
    graph = model.graph
    one, other = "x < 3 & y <= 0", "b | c = green"
    left, right = states_where(model, one), states_where(model, other)
    formula = f"({one}) {operator}<={k} ({other})"
    if operator in "FG":
        formula = f"{operator}<={k} ({other})"
    found = asked(model, f"P{direction}=? [ {formula} ]")
    values = best(graph, found.objective, found.is_minimised)
    values = 1 - values if found.is_complement else values
    sign = 1 if direction == "max" else -1
    assert values == pytest.approx(recursion(graph, operator, left, right, k, sign))


@pytest.mark.parametrize(
    ("text", "is_minimised", "is_complement", "for_all"),
    [
        ("Pmax=? [ F b ]", False, False, False),
        ("Pmin=? [ F b ]", True, False, False),
        ("Pmax=? [ G b ]", True, True, False),
        ("Pmin=? [ G b ]", False, True, False),
        ("Pmax>=0.9 [ F b ]", False, False, False),
        ("Pmin<0.9 [ F b ]", True, False, False),
        ("P>=0.9 [ F b ]", True, False, True),
        ("P>0 [ F b ]", True, False, True),
        ("P<=0.1 [ F b ]", False, False, True),
        ("P<0.1 [ F b ]", False, False, True),
        ("P>=0.9 [ G b ]", False, True, True),
        ("P<0.9 [ b W far ]", True, True, True),
        ("R>=3 [ C<=5 ]", True, False, True),
        ("R<3 [ S ]", False, False, True),
        ("Rmin=? [ S ]", True, False, False),
    ],
)
def test_the_optimum_that_decides_is_asked_for(
    model: mdpdsl.Model, text: str, is_minimised: bool, is_complement: bool, for_all: bool
) -> None:
    found = asked(model, text)
    assert (found.is_minimised, found.is_complement, found.for_all) == (
        is_minimised,
        is_complement,
        for_all,
    )
    assert (found.comparison is None) == (found.threshold is None) == ("=?" in text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Rmax=? [ F b ]", Total),
        ("Rmax=? [ C<=n ]", Cumulative),
        ("Rmax=? [ Cdiscount=0.5 ]", Discounted),
        ("Rmax=? [ S ]", Average),
        ("Pmax=? [ X b ]", Next),
        ("Pmax=? [ b U far ]", Until),
    ],
)
def test_every_kind_of_question_has_its_objective(
    model: mdpdsl.Model, text: str, kind: type
) -> None:
    assert isinstance(asked(model, text).objective, kind)


def test_rewards_are_those_with_the_name(model: mdpdsl.Model) -> None:
    for head, name in (("R", "default"), ('R{"default"}', "default"), ('R{"energy"}', "energy")):
        objective = asked(model, f"{head}max=? [ S ]").objective
        assert isinstance(objective, Average)
        assert objective.reward is model.graph.reward_of(name)


def test_a_named_property_is_found_with_its_text() -> None:
    text = f'{MODEL}property safe = Pmin>=p [ !"hole" U[0, n] far ]  # why\n'
    model = mdpdsl.loads(text, n=3, p=0.5)
    assert dict(model.properties) == {"safe": 'Pmin>=p [ !"hole" U[0, n] far ]'}
    found = question(model, model.graph, "safe")
    assert (found.name, found.text) == ("safe", model.properties["safe"])
    assert found.threshold == 0.5
    assert isinstance(found.objective, Until)
    assert found.objective.steps == 3
    with pytest.raises(ModelError, match="did you mean `safe`"):
        question(model, model.graph, "saef")
    with pytest.raises(ModelError, match="has no constant `k`"):
        question(model, model.graph, "safe", {"k": 3})
    bare = mdpdsl.loads(MODEL)
    assert bare.properties == {}
    with pytest.raises(ModelError, match="give its text"):
        question(bare, bare.graph, "safe")


def test_conditions_are_evaluated_batch_by_batch(
    model: mdpdsl.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = states_where(model, 'x > 1 & (b | "hole")')
    monkeypatch.setattr(property_states, "BATCH", 7)
    assert states_where(model, 'x > 1 & (b | "hole")').tolist() == whole.tolist()


def test_real_variables_are_judged_at_the_centres_of_their_cells() -> None:
    model = mdpdsl.load("pendulum")
    expected = np.cos(model.graph.states.values("theta")) > 0.9
    assert states_where(model, "cos(theta) > 0.9").tolist() == expected.tolist()


# Other graphs over the same variables


def test_twins_have_the_values_and_labels_of_their_states(model: mdpdsl.Model) -> None:
    graph = settled(model.graph, {5: 0.5, 9: 0.25})
    n_twins = graph.states.n_twins
    assert n_twins == 2
    for twins in (graph, with_distinct_twins(graph)):  # with a variable of their own, too
        objective = question(model, twins, 'Pmax=? [ x >= 0 U x = 1 & !"end" | b ]').objective
        assert isinstance(objective, Until)
        assert objective.allowed is not None
        assert objective.allowed.all()
        for position, state in enumerate((5, 9)):
            values = graph.states.native(state)
            twin = graph.n_states - n_twins + position
            assert objective.goal[twin] == values["b"]
        ends = question(model, twins, 'Pmax=? [ F "end" ]').objective
        assert isinstance(ends, Until)
        assert ends.goal.tolist() == np.asarray(graph.ends).tolist()


def test_an_imported_model_has_the_labels_and_rewards_of_its_files(
    model: mdpdsl.Model, tmp_path: Path
) -> None:
    write_explicit(model.graph, tmp_path / "m")
    imported = graph_model(read_prism_files(tmp_path / "m.tra"), "m")
    objective = question(imported, imported.graph, 'Pmax=? [ !"hole" U x = 4 & c = 1 ]').objective
    ours = asked(model, 'Pmax=? [ !"hole" U x = 4 & c = green ]').objective
    assert isinstance(objective, Until)
    assert isinstance(ours, Until)
    assert objective.goal.tolist() == ours.goal.tolist()
    reward = question(imported, imported.graph, 'R{"energy"}max=? [ S ]').objective
    assert isinstance(reward, Average)
    with pytest.raises(ModelError, match="unknown label `gaol`"):
        question(imported, imported.graph, 'Pmax=? [ F "gaol" ]')


def test_a_graph_may_have_labels_that_the_file_does_not_declare(model: mdpdsl.Model) -> None:
    odd = np.arange(model.graph.n_states) % 2 == 1
    graph = replace(model.graph, labels={**model.graph.labels, "odd one": odd})
    objective = question(model, graph, 'Pmax=? [ F "odd one" ]').objective
    assert isinstance(objective, Until)
    assert objective.goal.tolist() == odd.tolist()


def test_a_reward_that_the_graph_does_not_have_is_an_error_of_the_question(
    model: mdpdsl.Model,
) -> None:
    missing = Provenance("log", 1, rewards_missing="reward `energy`: division by zero in x = 1")
    graph = replace(model.graph, rewards={}, branch_rewards={})
    estimate = StoredModel(model.checked, Source(MODEL, "m.mdp"), graph, missing)
    with pytest.raises(SolveError, match=r"^the estimate has no reward `energy`: division by"):
        question(estimate, graph, 'R{"energy"}max=? [ S ]')
    plain = replace(missing, rewards_missing="division by zero in x = 1")
    none = replace(graph, reward=None, branch_reward=None)
    estimate = StoredModel(model.checked, Source(MODEL, "m.mdp"), none, plain)
    with pytest.raises(SolveError, match=r"^the estimate has no reward: division by zero"):
        question(estimate, none, "Rmax=? [ S ]")
    estimate = StoredModel(model.checked, Source(MODEL, "m.mdp"), graph, missing)
    assert isinstance(question(estimate, graph, "Rmax=? [ S ]").objective, Average)
    unknown = mdpdsl.loads("mdp m state x in 0..1 action a reward : x'")
    with pytest.raises(SolveError, match="dynamics of this model are unknown"):
        question(unknown, unknown.graph, "Rmax=? [ S ]")
    with pytest.raises(SolveError, match="the graph has no reward"):
        question(model, replace(model.graph, reward=None, branch_reward=None), "Rmax=? [ S ]")


def test_a_fault_in_a_let_is_shown_at_the_condition_of_a_text() -> None:
    model = mdpdsl.loads(f"{MODEL}let share = 1/(x - 2)\n")
    with pytest.raises(ModelError) as caught:
        asked(model, "Pmax=? [ b U x > 0 & share > 0 ]")
    (found,) = caught.value.diagnostics
    assert found.render().splitlines()[1:5] == [
        " --> <property>:1:14",
        "  |",
        "1 | Pmax=? [ b U x > 0 & share > 0 ]",
        "  |              ^^^^^^^^^^^^^^^^^",
    ]
    assert found.witness is not None
    assert found.witness.state["x"] == 2


def test_storm_is_asked_about_the_same_model(model: mdpdsl.Model, tmp_path: Path) -> None:
    """The oracle of these tests is not empty: its values differ between properties."""
    path = tmp_path / "model.prism"
    path.write_text(to_prism(model.graph), encoding="utf-8")
    built = stormpy.build_model(stormpy.parse_prism_program(str(path)))
    ours = best(model.graph, asked(model, 'Pmax=? [ F<=5 "goal" ]').objective, False)
    theirs = storm_values(built, 'Pmax=? [ F<=5 "goal" ]', PRECISION)
    np.testing.assert_allclose(np.sort(theirs), np.sort(ours), atol=TOLERANCE)
    assert 0 < ours[0] < 1
