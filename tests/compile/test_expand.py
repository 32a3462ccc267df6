"""Expansion of finite models against an independent interpreter, state by state."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.compile import search
from mdpdsl.graph.transition_graph import TransitionGraph
from tests.compile.naive import NaiveModel, State

#: How far sums in different orders may differ.
TOLERANCE = 1e-12


def states_of(graph: TransitionGraph) -> list[State]:
    return [tuple(graph.states.native(s).values()) for s in range(graph.n_states)]


def assert_same(graph: TransitionGraph, naive: NaiveModel) -> None:
    states = states_of(graph)
    assert states == naive.states
    index = {state: i for i, state in enumerate(states)}
    graph.validate()
    ends = [naive.is_end(state) for state in states]
    assert (graph.ends is not None) == any(ends)
    assert graph.ends is None or graph.ends.tolist() == ends
    for i, state in enumerate(states):
        assert graph.initial[i] == pytest.approx(naive.initial.get(state, 0.0), abs=TOLERANCE)
        for name, has_it in graph.labels.items():
            assert has_it[i] == naive.has_label(name, state)
        for a, action in enumerate(naive.actions):
            row = naive.row(state, action)
            available = graph.pair_action[graph.pair_start[i] : graph.pair_start[i + 1]]
            assert (row is not None) == (a in available)
            if row is None:
                continue
            pair = graph.pair(i, a)
            successors, probabilities = graph.row(pair)
            found = dict(zip(successors.tolist(), probabilities.tolist(), strict=True))
            expected = {index[s]: p for s, p in row.items()}
            assert found == pytest.approx(expected, abs=TOLERANCE)
            for name in ("default", *graph.rewards):
                reward = sum(p * naive.reward(state, action, s, name) for s, p in row.items())
                of_pairs = graph.reward_of(name)
                stored = 0.0 if of_pairs is None else of_pairs[pair]
                assert stored == pytest.approx(reward, abs=1e-9)


FINITE = [
    name
    for name in mdpdsl.shipped_models()
    if mdpdsl.load(name).checked.discretization.method == "none"
    and name not in ("weather", "gambler", "taxi", "bayes_bandit")  # a table; and the large ones
]


@pytest.mark.parametrize("name", FINITE)
def test_shipped_models_mean_what_they_say(name: str) -> None:
    model = mdpdsl.load(name)
    assert_same(model.graph, NaiveModel(model.source.text))


@st.composite
def model_texts(draw: st.DrawFn) -> str:
    """Draw a finite model whose updates stay in range and whose guards do not overlap."""
    sizes = draw(st.lists(st.integers(2, 4), min_size=1, max_size=2))
    lines = ["mdp random", "param k = 2", "param p = 0.25"]
    names = [f"x{i}" for i in range(len(sizes))]
    low = draw(st.integers(-2, 1))
    for name, size in zip(names, sizes, strict=True):
        lines.append(f"state {name} in {low}..{low + size - 1}")
    lines += ["state flag in bool", "state hue in {red, green, blue}"]
    lines.append(draw(st.sampled_from(["action a, b", "action a\naction u in {-1, 0.5, 2}"])))
    has_noise = draw(st.booleans())
    if has_noise:
        lines.append("noise w ~ {-1: 0.25, 0: 0.5, 2: 0.25}")
    number = st.sampled_from([*names, "k", "1", "2", *(["w"] if has_noise else [])])
    state_number = st.sampled_from([*names, "k", "1", "-1"])

    def condition() -> str:
        x, y = draw(state_number), draw(state_number)
        return draw(
            st.sampled_from(
                [
                    f"{x} < {y}",
                    f"{x} + {y} == k",
                    f"not flag or {x} != {y}",
                    "hue == red",
                    f"hue != blue and {low} <= {x} < {y} + 2",
                    "action == a",
                    "flag == (hue == green)",
                ]
            )
        )

    def update() -> str:
        index = draw(st.integers(0, len(names) + 1))
        if index == len(names):
            return f"flag' = {draw(st.sampled_from(['not flag', 'true', 'hue == red']))}"
        if index == len(names) + 1:
            mixed = "if flag then hue else green"
            return f"hue' = {draw(st.sampled_from(['red', 'hue', mixed]))}"
        x, y = draw(number), draw(number)
        wrapped = f"wrap({x} + 2*{y}, {low}, {low + sizes[index]})"
        clipped = f"clip({x} - {y}, {low}, {low + sizes[index] - 1})"
        return f"{names[index]}' = {draw(st.sampled_from([wrapped, clipped]))}"

    def branches() -> str:
        weights = draw(
            st.sampled_from([["1"], ["p", "1 - p"], ["0.5", "0.5"], ["p", "0", "0.5", "p"]])
        )
        return " | ".join(
            f"{w}: {draw(st.just('stay')) if draw(st.booleans()) else update()}" for w in weights
        )

    for action in ("a", "b") if "action a, b" in lines else ("a",):
        if draw(st.booleans()):
            lines.append(f"on {action} when {condition()} -> {branches()}")
            lines.append(f"on {action} otherwise -> {branches()}")
        else:
            lines.append(f"on {action} -> {branches()}")
    if draw(st.booleans()):
        lines.append(f"restart when {names[0]} == {low} and flag")
    if draw(st.booleans()):  # neither every initial state nor one that restarts
        lines.append(f"end when {names[0]} == {low + sizes[0] - 1} and not flag")
    if draw(st.booleans()):
        lines.append(f"end when {names[0]} > {low} and hue == blue")
    every = ", ".join(f"{name} = {low}" for name in names)
    mixed = f"{every}, hue ~ {{red: 0.5, green: 0.5}}, flag = false"
    lines.append(draw(st.sampled_from(["init any", "init any when flag", f"init {mixed}"])))
    reward = st.sampled_from(["reward", "reward", "reward default", "reward energy", "reward end"])
    lines.append(f"{draw(reward)} on a when {names[0]} > {low} : {names[0]}/2")
    lines.append(f"{draw(reward)} when {names[0]}' == {low} : {draw(st.integers(-2, 2))}")
    lines.append(f"{draw(reward)} when {names[-1]} + 1 == {names[0]}' : 1 + {names[0]}'")
    lines.append(f"label low when {names[0]} == {low}")
    return "\n".join(lines)


@settings(max_examples=150, deadline=None)
@given(model_texts())
def test_random_models_mean_what_they_say(text: str) -> None:
    assert_same(mdpdsl.loads(text).graph, NaiveModel(text))


@settings(max_examples=40, deadline=None)
@given(model_texts())
def test_all_states_are_kept_on_demand(text: str) -> None:
    graph = mdpdsl.loads(text, all_states=True).graph
    assert_same(graph, NaiveModel(text, keeps_all=True))


@settings(max_examples=40, deadline=None)
@given(model_texts())
def test_every_way_of_finding_the_states_gives_the_same_graph(text: str) -> None:
    whole = mdpdsl.loads(text).graph
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "QUICK_STATES", 0)
        patch.setattr(search, "MOST_DENSE", 0)
        by_bitmap = mdpdsl.loads(text).graph
        patch.setattr(search, "VAST", 0)
        by_sorted_codes = mdpdsl.loads(text, max_states=1000).graph
    assert whole.hash == by_bitmap.hash == by_sorted_codes.hash


def test_a_few_states_of_a_vast_product_are_found() -> None:
    graph = mdpdsl.loads("""
        mdp sparse
        state x in 0..999_999_999
        state y in 0..999_999_999
        action a
        init x = 0, y = 0
        on a -> x' = (x*7 + 1) % 50, y' = (y + 3) % 40
    """).graph
    x, y = graph.states.values("x"), graph.states.values("y")
    seen, state = set(), (0, 0)
    while state not in seen:
        seen.add(state)
        state = ((state[0] * 7 + 1) % 50, (state[1] + 3) % 40)
    assert set(zip(x.tolist(), y.tolist(), strict=True)) == seen
    assert graph.n_states == len(seen)


def test_a_model_too_large_says_how_large() -> None:
    with pytest.raises(mdpdsl.ModelError, match="1,000,000,000,000 states"):
        _ = mdpdsl.loads("mdp v  state x in 1..10^12  action a  on a -> stay  init any").graph


def test_values_and_states_convert_both_ways() -> None:
    graph = mdpdsl.load("taxi").graph
    for state in (0, 17, 499):
        assert graph.state(**graph.states.native(state)) == state
    with pytest.raises(ValueError, match="give a value for each of"):
        graph.state(row=1)
    with pytest.raises(ValueError, match=r"is not a value of row in 0\.\.4"):
        graph.state(row=9, col=0, passenger=0, destination=0)


def test_a_graph_hash_distinguishes_models() -> None:
    assert mdpdsl.load("riverswim").graph.hash == mdpdsl.load("riverswim", n=6).graph.hash
    assert mdpdsl.load("riverswim").graph.hash != mdpdsl.load("riverswim", n=7).graph.hash
    assert mdpdsl.load("riverswim").graph.hash != mdpdsl.load("riverswim", drift=0.1).graph.hash


#: Hashes of version 1, for models in whose numbers no library has a part.
UNCHANGED = {
    "chain": "7a4695d30bd0b5f4",
    "double_loop": "d394e3fa68d23c00",
    "forest": "9daf60fbf3b0233f",
    "four_rooms": "332e233727b60682",
    "inventory": "00d6dfebe24ce9da",
    "jacks_car_rental": "f4c99ddb4db9004b",
    "machine_replacement": "45361ec1fc5c5104",
    "queue": "2cddf441dc433fdc",
    "riverswim": "de8bce0856533af1",
    "six_arms": "72c3096dec9a9035",
    "toymaker": "3beda77452521bc7",
    "two_machines": "38797329d46b1ccc",
    "weather": "9faa8d39e358acfd",
}


@pytest.mark.parametrize("name", UNCHANGED)
def test_a_model_without_ends_builds_to_the_same_bytes_as_ever(name: str) -> None:
    assert mdpdsl.load(name).graph.hash == UNCHANGED[name]


def test_parameters_are_given_by_keyword() -> None:
    assert mdpdsl.load("riverswim", n=20).graph.n_states == 20
    assert mdpdsl.load("riverswim", n="2*4").parameters["n"] == 8
    assert mdpdsl.load("pendulum", g=9).parameters["g"] == 9.0
    for wrong in (2.5, "x", None, True, math.nan):
        with pytest.raises(mdpdsl.ModelError, match="must be an integer"):
            mdpdsl.load("riverswim", n=wrong)  # type: ignore[arg-type]
    with pytest.raises(mdpdsl.ModelError, match="did you mean `n`"):
        mdpdsl.load("riverswim", nn=3)


def test_a_model_without_dynamics_has_all_pairs_and_no_branch() -> None:
    graph = mdpdsl.loads("""
        mdp unknown
        state x in 0..3
        state y in [0, 1] bins 5
        action u in {-1, 1}
        reward when x == 3 : 2*u
    """).graph
    assert (graph.n_states, graph.n_pairs, graph.n_branches) == (20, 40, 0)
    assert not graph.has_dynamics
    assert graph.reward is not None
    assert np.unique(graph.reward).tolist() == [-2.0, 0.0, 2.0]


def test_the_start_is_conditioned_on_not_being_an_end() -> None:
    text = """
        mdp m
        state x in 0..3
        action a
        init x ~ {0: 0.2, 2: 0.3, 3: 0.5}
        on a -> x' = 3 - x
        end when x == 3
    """
    graph = mdpdsl.loads(text).graph
    assert graph.initial == pytest.approx([0.4, 0.0, 0.6, 0.0])
    assert graph.ends is not None
    assert graph.ends.tolist() == [False, False, False, True]
    assert np.diff(graph.pair_start).tolist() == [1, 1, 1, 0]


def test_states_behind_an_end_are_not_reached_unless_all_are_kept() -> None:
    text = "mdp m state x in 0..5 action a init x = 0 on a -> x' = min(x + 1, 5) end when x == 2"
    graph = mdpdsl.loads(text).graph
    assert states_of(graph) == [(0,), (1,), (2,)]
    everything = mdpdsl.loads(f"{text} states all").graph
    assert (everything.n_states, everything.n_pairs) == (6, 5)
    assert everything.ends is not None
    assert np.flatnonzero(everything.ends).tolist() == [2]
    assert mdpdsl.loads(text, all_states=True).graph.hash == everything.hash


def test_an_end_that_is_never_reached_leaves_no_trace() -> None:
    text = "mdp m state x in 0..5 action a init x = 0 on a -> x' = (x + 1) % 3"
    assert mdpdsl.loads(f"{text} end when x == 5").graph.hash == mdpdsl.loads(text).graph.hash


def test_an_end_changes_the_hash() -> None:
    text = "mdp m state x in 0..2 action a init x = 0 on a when x < 2 -> x' = x + 1"
    ended = mdpdsl.loads(f"{text} end when x == 2").graph
    looped = mdpdsl.loads(f"{text} on a otherwise -> stay").graph
    assert ended.hash != looped.hash
    assert (ended.n_pairs, looped.n_pairs) == (2, 3)


def test_errors_of_lines_that_apply_only_in_an_end_do_not_count() -> None:
    text = """
        mdp m
        state x in 0..3
        action a, b
        init x = 0
        on a -> x' = x + 1
        on b when x < 2 -> x' = round(6/(3 - x))
        on b when x > 2 -> 0.5: stay
        on b when x == 3 -> stay
        reward : 1/(3 - x)
    """
    model = mdpdsl.loads(f"{text} end when x > 2")
    assert model.diagnose() == []
    assert model.graph.n_pairs == 5
    with pytest.raises(mdpdsl.ModelError) as error:
        _ = mdpdsl.loads(text).graph
    assert {d.code for d in error.value.diagnostics} == {"E501", "E503", "E505", "E507"}


def test_a_model_without_dynamics_may_have_ends() -> None:
    graph = mdpdsl.loads("""
        mdp unknown
        state x in 0..3
        state y in [0, 1] bins 5
        action u in {-1, 1}
        reward : x*u
        end when x == 3 and y > 0.5
        init any when x > 1
        label top when y > 0.8
    """).graph
    assert (graph.n_states, graph.n_pairs, graph.n_branches) == (20, 36, 0)
    graph.validate()
    assert graph.ends is not None
    x, y = graph.states.values("x"), graph.states.values("y")
    assert graph.ends.tolist() == ((x == 3) & (y > 0.5)).tolist()
    assert graph.reward is not None
    assert graph.reward.tolist() == (x[graph.pair_state] * np.tile([-1, 1], 18)).tolist()
    assert graph.initial[graph.ends].sum() == 0
    assert np.count_nonzero(graph.initial) == 8
    assert graph.labels["top"].sum() == 4


@pytest.mark.parametrize("how", ["center", "uniform points 4", "sample 50 seed 1"])
def test_cells_end_by_their_centres(how: str) -> None:
    text = f"""
        mdp walk
        state x in [0, 1] clip bins 10
        action u in {{-0.1, 0.1}}
        noise w ~ normal(0, 0.05)
        init x = 0.5
        x' = x + u + w
        discretize {how}
    """
    graph = mdpdsl.loads(f"{text} end when x > 0.82").graph
    plain = mdpdsl.loads(text).graph
    assert graph.ends is not None
    assert np.flatnonzero(graph.ends).tolist() == [8, 9]  # centres 0.85 and 0.95
    spread = text.replace("x = 0.5", "x ~ uniform(0.6, 1)")
    start = mdpdsl.loads(f"{spread} end when x > 0.82", all_states=True).graph.initial
    assert start == pytest.approx([0] * 6 + [0.5, 0.5, 0, 0])
    inside = ~graph.ends[plain.pair_state]
    assert graph.transition_matrix().toarray() == pytest.approx(
        plain.transition_matrix().toarray()[inside]
    )
