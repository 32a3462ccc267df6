"""Explorers use what the model file says: known rows, possible successors, known shares."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.diagnostics import MdpdslWarning, SettingsError
from mdpdsl.estimate.empirical import estimated_graph
from mdpdsl.explore.algorithms import ALGORITHMS
from mdpdsl.explore.algorithms.lookahead import action_values
from mdpdsl.explore.algorithms.tracking.tracked_model import tracked_model
from mdpdsl.explore.explorer import Explorer
from mdpdsl.explore.feasible import require_explorable
from mdpdsl.explore.optimum import best_utility, exploration_limits
from mdpdsl.explore.plugins import without_dynamics
from mdpdsl.explore.settings import ExploreSettings, settings_from
from mdpdsl.explore.trial import Trial, continue_trial, load_trial, new_trial
from mdpdsl.graph.complexity import squared_l2_complexity
from mdpdsl.graph.counts import Counts, counts_from
from mdpdsl.graph.knowledge import Knowledge
from mdpdsl.graph.space import BoolArray, FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.known_slots import estimated_rows
from mdpdsl.kernels.loop import choose_pair
from mdpdsl.kernels.memory import N_UNSEEN, Memory
from mdpdsl.programs.allocation import optimal_allocation

#: A corridor of certain moves to a door that opens and shuts by chance.
CORRIDOR = """\
mdp corridor
param n = 20
state x in 0..n
state open in {no, yes}
action left, right, door
init x = 0, open = no
on left -> x' = max(x - 1, 0)
on right -> x' = min(x + 1, n)
on door when x == n -> ?=0.3: open' = yes | ?=0.7: open' = no
"""
#: Rows of every kind: known ones, with known shares, with known successors only.
MIXED = """\
mdp mixed
state x in 0..5
action left, right, jump, rest
init x = 0
on left -> 0.8: x' = max(x - 1, 0) | 0.2: stay
on right -> 0.5: x' = min(x + 1, 5) | ?=0.2: stay | ?=0.2: x' = 0 | ?=0.1: x' = min(x + 1, 5)
on jump -> ?=0.6: x' = mod(x + 2, 6) | ?=0.3: x' = mod(x + 3, 6) | ?=0.1: stay
on rest when x > 0 -> stay
"""
MIXED_GRAPH = mdpdsl.loads(MIXED).graph

#: Values are solved to this, relative to their span.
SOLVED = 1e-9

quick = settings(max_examples=60, deadline=None)


def known_except(graph: TransitionGraph, *pairs: int) -> TransitionGraph:
    """Return a graph whose file states all rows but some, of which it states the successors."""
    is_known = np.ones(graph.n_pairs, np.bool_)
    is_known[list(pairs)] = False
    return with_known(graph, is_known)


def with_known(graph: TransitionGraph, is_known: BoolArray) -> TransitionGraph:
    pair = np.repeat(np.arange(graph.n_pairs), np.diff(graph.successor_start))
    knowledge = Knowledge(
        successor_start=graph.successor_start,
        successor=graph.successor.astype(np.int64),
        share=np.where(is_known[pair], graph.probability, 0.0),
        is_open=~is_known[pair],
        is_joined=np.zeros(len(pair), np.bool_),
        is_law=np.zeros(graph.n_pairs, np.bool_),
        has_truth=True,
    )
    return replace(graph, knowledge=knowledge)


def explored(graph: TransitionGraph, steps: int, seed: int = 0, **chosen: Any) -> Trial:
    """Return a finished trial."""
    trial = new_trial(graph, settings_from({"steps": steps}, chosen), np.random.SeedSequence(seed))
    continue_trial(trial, graph, lambda _: True, None)
    return trial


def plain_row(knowledge: Knowledge, pair: int, counts: Mapping[int, int]) -> dict[int, float]:
    """Return the estimate of a row, entry by entry."""
    entries = range(knowledge.successor_start[pair], knowledge.successor_start[pair + 1])
    possible = {int(knowledge.successor[e]): e for e in entries}
    T = sum(counts.values())
    if any(state not in possible for state in counts):
        return {state: n / T for state, n in counts.items()}
    rest = 1 - sum(knowledge.share[e] for e in entries)
    excess = {
        state: max(counts.get(state, 0) / T - knowledge.share[e], 0.0) if T else 0.0
        for state, e in possible.items()
        if knowledge.is_open[e]
    }
    total, row = sum(excess.values()), {}
    for state, e in possible.items():
        row[state] = float(knowledge.share[e])
        if state in excess:
            row[state] += rest * (excess[state] / total if total else 1 / len(excess))
    return {state: p for state, p in row.items() if p > 0}


def rows_of(arrays: tuple[Any, Any, Any]) -> list[dict[int, float]]:
    start, successor, probability = arrays
    return [
        dict(zip(successor[a:b].tolist(), probability[a:b].tolist(), strict=True))
        for a, b in zip(start[:-1].tolist(), start[1:].tolist(), strict=True)
    ]


def agree(found: list[dict[int, float]], expected: list[dict[int, float]]) -> bool:
    return all(one == pytest.approx(other) for one, other in zip(found, expected, strict=True))


@st.composite
def transitions(draw: st.DrawFn, *, possible: bool = True) -> list[tuple[int, int]]:
    """Draw pairs and successors, impossible ones among them if so asked."""
    graph, known = MIXED_GRAPH, MIXED_GRAPH.knowledge
    assert known is not None
    pairs = draw(st.lists(st.integers(0, graph.n_pairs - 1), max_size=120))
    found = []
    for pair in pairs:
        start, end = known.successor_start[pair : pair + 2]
        states = known.successor[start:end].tolist()
        if not possible and draw(st.integers(0, 9)) == 0:
            states = list(range(graph.n_states))
        found.append((pair, draw(st.sampled_from(states))))
    return found


def observed(graph: TransitionGraph, steps: list[tuple[int, int]], **chosen: Any) -> Explorer:
    explorer = Explorer(graph, seed=0, **chosen)
    for pair, following in steps:
        explorer.observe(int(graph.pair_state[pair]), int(graph.pair_action[pair]), following)
    return explorer


def counted(steps: list[tuple[int, int]], pair: int) -> dict[int, int]:
    found = [following for p, following in steps if p == pair]
    return {state: found.count(state) for state in dict.fromkeys(found)}


@quick
@given(transitions(possible=False), st.sampled_from(["full", "prioritized"]))
def test_the_memory_and_the_estimate_have_the_rows_of_counts_and_shares(
    steps: list[tuple[int, int]], planner: str
) -> None:
    graph = MIXED_GRAPH
    assert graph.knowledge is not None
    explorer = observed(graph, steps, planner=planner)
    expected = [plain_row(graph.knowledge, p, counted(steps, p)) for p in range(graph.n_pairs)]
    assert agree(rows_of(estimated_rows(explorer.memory)), expected)
    estimate = explorer.estimate()
    estimate.validate()
    rows = (estimate.successor_start, estimate.successor, estimate.probability)
    assert agree(rows_of(rows), expected)
    assert explorer.counts.n_transitions == len(steps)
    assert (explorer.counts.count > 0).all()


@quick
@given(transitions(possible=False))
def test_counts_learned_at_once_give_the_same_rows(steps: list[tuple[int, int]]) -> None:
    one = observed(MIXED_GRAPH, steps)
    other = Explorer(MIXED_GRAPH, seed=0)
    other.learn_counts(one.counts)
    found, expected = (rows_of(estimated_rows(each.memory)) for each in (one, other))
    assert agree(found, expected)
    assert other.memory.rest.tolist() == one.memory.rest.tolist()
    assert other.memory.squares.tolist() == one.memory.squares.tolist()


def test_a_row_of_known_successors_is_exactly_its_counts() -> None:
    graph = with_known(mdpdsl.load("riverswim").graph, np.zeros(12, np.bool_))
    trial = explored(graph, 2_000)
    counts = trial.counts
    share = counts.count / np.repeat(counts.visits, np.diff(counts.successor_start))
    _, _, probability = estimated_rows(trial.explorer.memory)
    assert np.array_equal(trial.explorer.estimate().probability, share)
    assert probability == pytest.approx(share, rel=1e-15)


def test_before_any_data_rows_are_what_the_file_says() -> None:
    graph = MIXED_GRAPH
    assert graph.knowledge is not None
    explorer = Explorer(graph)
    _, successor, probability = estimated_rows(explorer.memory)
    possible = graph.knowledge.placeholder > 0
    assert probability == pytest.approx(graph.knowledge.placeholder[possible])
    assert successor.tolist() == graph.knowledge.successor[possible].tolist()
    assert explorer.memory.integers[N_UNSEEN] == 0
    assert explorer.counts.n_transitions == 0
    assert (explorer.memory.rest == 0).tolist() == graph.knowledge.is_known.tolist()


@pytest.mark.parametrize("planner", ["full", "prioritized"])
@pytest.mark.parametrize("kappa", [1.0, 10.0])
def test_the_first_plan_takes_the_shortest_way_to_what_is_unknown(
    planner: str, kappa: float
) -> None:
    graph = mdpdsl.loads(CORRIDOR).graph
    informed = explored(graph, 21, planner=planner, kappa=kappa)
    assert informed.explorer.visits[graph.to_learn].sum() == 1
    ignorant = explored(replace(graph, knowledge=None), 60, planner=planner, kappa=kappa)
    assert ignorant.explorer.visits[graph.to_learn].sum() == 0


@pytest.mark.parametrize(
    ("algorithm", "most"),
    [
        ("kappa-dp", 21),
        ("weighted-maxent", 21),
        ("smm", 21),
        ("tracking", 21),
        ("maxent", 100),  # a share of its actions is random
        ("kappa-lp", 60),  # where something is to be learned, its policy is random at first
        ("fw-modest", 60),
    ],
)
def test_every_explorer_finds_the_door(algorithm: str, most: int) -> None:
    graph = mdpdsl.loads(CORRIDOR).graph
    trial = explored(graph, most, algorithm=algorithm, backend="highs")
    assert trial.explorer.visits[graph.to_learn].sum() >= 1


@pytest.mark.parametrize("horizon", [1, 2, 3])
def test_a_short_horizon_wanders_through_known_rows(horizon: int) -> None:
    graph = mdpdsl.loads(CORRIDOR, n=8).graph
    trial = explored(graph, 500, horizon=horizon)
    assert trial.history[-1].unvisited == 0


@pytest.mark.parametrize("algorithm", ["kappa-dp", "weighted-maxent", "smm", "tracking"])
def test_a_single_unknown_pair_is_visited_at_the_best_rate(algorithm: str) -> None:
    graph = mdpdsl.load("riverswim").graph
    graph = known_except(graph, graph.pair(5, 1))
    found = explored(graph, 5_000, algorithm=algorithm).history[-1]
    limits = exploration_limits(graph)
    assert found.unvisited == 0
    assert found.worst is not None
    assert limits.worst is not None
    assert found.worst == pytest.approx(limits.worst, rel=0.05)
    assert found.average == found.worst
    assert limits.average == pytest.approx(limits.worst, rel=1e-5)


@pytest.mark.parametrize("algorithm", ["kappa-dp", "tracking", "smm", "maxent", "weighted-maxent"])
@pytest.mark.parametrize("planner", ["full", "prioritized"])
def test_knowledge_helps_and_no_number_is_lost(algorithm: str, planner: str) -> None:
    graph = mdpdsl.load("gridworld", n=6).graph
    is_known = np.random.default_rng(0).random(graph.n_pairs) < 0.9
    informed = explored(with_known(graph, is_known), 4_000, algorithm=algorithm, planner=planner)
    memory: Memory = informed.explorer.memory
    for array in (memory.reward, memory.value, memory.q, memory.upper):
        assert not np.isnan(array).any()
    assert (memory.upper[is_known] == 0).all()
    assert informed.history[-1].unvisited == 0
    assert informed.history[-1].transitions == 4_000
    ignorant = explored(graph, 4_000, algorithm=algorithm, planner=planner)
    learned = ~is_known
    assert informed.explorer.visits[learned].sum() > 2 * ignorant.explorer.visits[learned].sum()


@quick
@given(
    st.sampled_from(["kappa-dp", "maxent", "weighted-maxent", "smm"]),
    st.sampled_from([1.0, 2.0, 10.0]),
    st.sampled_from(["paper", "bernstein", "none"]),
    st.sampled_from([None, 1, 2, 4]),
    st.sampled_from(["full", "prioritized"]),
    transitions(),
)
def test_rewards_and_choices_are_those_of_the_rule(
    algorithm: str,
    kappa: float,
    bonus: str,
    horizon: int | None,
    planner: str,
    steps: list[tuple[int, int]],
) -> None:
    chosen = ExploreSettings(
        algorithm=algorithm, kappa=kappa, bonus=bonus, horizon=horizon, planner=planner,
        gamma=0.9, xi=0.0, tolerance=SOLVED, steps=5_000,
    )  # fmt: skip
    graph = MIXED_GRAPH
    explorer = Explorer(graph, chosen, seed=0)
    for pair, following in steps:
        explorer.observe(int(graph.pair_state[pair]), int(graph.pair_action[pair]), following)
    memory = explorer.memory
    rule = import_module(f"mdpdsl.explore.algorithms.{ALGORITHMS[algorithm]}").rewards
    known: tuple[BoolArray, ...] = (~graph.to_learn,) if algorithm in ("maxent", "smm") else ()
    expected: FloatArray = rule(memory.upper, explorer.visits, graph.pair_state, chosen, *known)
    found = memory.reward
    if algorithm == "kappa-dp" and found.max() > 0:
        found = found / found.max()
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-280)
    q = action_values(memory.reward, explorer.estimate(), chosen)
    for state in range(graph.n_states):
        pair = choose_pair(memory, explorer.strategy, state, explorer.generator)
        first, end = graph.pair_start[state : state + 2]
        assert first <= pair < end
        assert q[pair] >= q[first:end].max() - 100 * SOLVED * max(np.ptp(q), np.abs(q).max())


@pytest.mark.parametrize("algorithm", ["kappa-dp", "tracking", "kappa-lp", "maxent"])
def test_a_trial_that_was_stopped_is_the_same_trial(algorithm: str, tmp_path: Path) -> None:
    chosen = settings_from({}, {"algorithm": algorithm, "steps": 600, "backend": "highs"})
    graph, seeds = MIXED_GRAPH, np.random.SeedSequence(4)
    whole = new_trial(graph, chosen, np.random.SeedSequence(4))
    continue_trial(whole, graph, lambda _: True, None)
    parts = new_trial(graph, chosen, np.random.SeedSequence(4))
    continue_trial(parts, graph, lambda found: found.steps < 100, tmp_path)
    assert not parts.is_finished
    again = load_trial(graph, chosen, seeds, tmp_path)
    continue_trial(again, graph, lambda _: True, None)
    for name in Memory._fields:
        one, other = (getattr(each.explorer.memory, name) for each in (whole, again))
        assert one.tobytes() == other.tobytes(), name
    assert [m.worst for m in again.history] == [m.worst for m in whole.history]


def test_a_row_that_was_proved_wrong_stays_so_when_a_trial_is_resumed(tmp_path: Path) -> None:
    graph = MIXED_GRAPH
    chosen = settings_from({}, {"steps": 100})
    pair = graph.pair(3, 3)  # rest: known to stay
    begun = counts_from(np.array([pair]), np.array([0]), np.ones(1, np.int64), graph.n_pairs)
    trial = new_trial(graph, chosen, np.random.SeedSequence(0), None, begun)
    trial.save(tmp_path)
    again = load_trial(graph, chosen, np.random.SeedSequence(0), tmp_path)
    assert again.explorer.memory.rest[pair] == 1
    assert again.explorer.memory.rest.tolist() == trial.explorer.memory.rest.tolist()
    with np.load(tmp_path / "state.npz") as saved:
        assert not {"rest", "share", "is_open"} & set(saved.files)


def test_known_pairs_are_no_pairs_to_learn() -> None:
    model = mdpdsl.loads(MIXED)
    graph = model.graph
    run = mdpdsl.explore(model, steps=3_000, kappa=2, seed=1)
    assert run.failure_rate == 0
    assert run.reference.measured.tolist() == graph.to_learn.tolist()
    visits, c = run.counts.visits, squared_l2_complexity(graph)
    losses = (c * 3_000 / np.maximum(visits, 1))[graph.to_learn]
    assert visits[~graph.to_learn].sum() > 0
    assert run.worst == pytest.approx(losses.max())
    assert run.average == pytest.approx(losses.mean())
    assert run.optimum is not None
    assert losses.max() >= run.optimum["worst"] * 0.99
    assert run.figures.coverage == 1


def test_a_known_pair_that_was_never_visited_is_no_failure() -> None:
    graph = mdpdsl.load("riverswim").graph
    graph = known_except(graph, graph.pair(0, 1))
    trial = explored(graph, 200, kappa=10)
    assert (trial.explorer.visits == 0).any()
    assert trial.history[-1].unvisited == 0
    assert trial.history[-1].worst is not None


def test_the_optimum_is_that_of_no_complexity_where_rows_are_known() -> None:
    model = mdpdsl.loads(MIXED)
    graph = model.graph
    learned = graph.to_learn
    c = np.where(learned, squared_l2_complexity(graph), 0.0)
    best = mdpdsl.allocate(model, kappa=np.inf)
    expected = optimal_allocation(graph, c, np.inf)
    assert best.worst == pytest.approx(expected.worst, rel=1e-5)
    assert set(np.flatnonzero(~learned)) <= set(best.without_need)
    shares = best.occupancy
    needed = learned & (c > 0)
    assert best.average == pytest.approx((c[needed] / shares[needed]).sum() / learned.sum())
    assert best.worst < mdpdsl.allocate(mdpdsl.loads(MIXED, learn="all"), kappa=np.inf).worst
    assert best_utility(graph, 2.0) is not None


#: The same without a truth.
UNSAID = re.sub(r"\?=[0-9.]+", "?", MIXED)
SLIP = """\
mdp lake
unknown slip in [0, 0.5]
state x in 0..3
action left, right
init x = 0
on right -> 1 - slip: x' = min(x + 1, 3) | slip: stay
on left -> x' = max(x - 1, 0)
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [(SLIP, "says nothing of the value of slip; set it to"), (UNSAID, "has `?` without a truth")],
)
def test_a_model_without_a_truth_cannot_be_simulated(text: str, said: str) -> None:
    model = mdpdsl.loads(text)
    with pytest.raises(SettingsError, match=f"{re.escape(said)}.*explore a log or a live system"):
        mdpdsl.explore(model, steps=10)
    with pytest.raises(SettingsError, match=re.escape(said)):
        mdpdsl.compare(model, ["random"], steps=10, trials=1)
    for verb in (mdpdsl.simulate, mdpdsl.allocate):
        with pytest.raises(SettingsError, match=re.escape(said)):
            verb(model)


def test_with_its_numbers_set_a_model_can_be_simulated() -> None:
    model = mdpdsl.loads(SLIP, slip=0.2)
    run = mdpdsl.explore(model, steps=300)
    assert run.worst is not None
    assert run.model.graph.to_learn.sum() == 3


class Board:
    """A system that moves as `MIXED` says, and sometimes jumps to where it cannot go."""

    def __init__(self, jumps: tuple[int, ...] = ()) -> None:
        self.graph = MIXED_GRAPH
        self.generator = np.random.default_rng(0)
        self.jumps = jumps
        self.done = 0
        self.x = 0

    def reset(self) -> dict[str, Any]:
        self.x = 0
        return {"x": 0}

    def step(self, action: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        index = self.graph.actions.labels.index(action["action"])
        successor, probability = self.graph.row(self.graph.pair(self.x, index))
        self.x = int(self.generator.choice(successor, p=probability))
        self.done += 1
        if self.done in self.jumps:
            self.x = (self.x + 4) % 6
        return {"x": self.x}, False


@pytest.mark.parametrize("algorithm", ["kappa-dp", "tracking", "kappa-lp", "smm", "random"])
def test_a_live_system_is_explored_without_a_truth(algorithm: str) -> None:
    model = mdpdsl.loads(UNSAID)
    run = mdpdsl.explore(model, system=Board(), steps=400, algorithm=algorithm, backend="highs")
    assert run.worst is not None
    assert run.reference.measured.tolist() == model.graph.to_learn.tolist()
    known = int(np.flatnonzero(~model.graph.to_learn)[0])
    assert run.estimate.row(known)[1] == pytest.approx(model.graph.row(known)[1])


@pytest.mark.parametrize("algorithm", ["kappa-dp", "tracking", "kappa-lp", "maxent"])
def test_a_system_may_contradict_its_file(algorithm: str) -> None:
    model = mdpdsl.loads(UNSAID)
    board = Board(jumps=(30, 31, 80, 120))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = mdpdsl.explore(model, system=board, steps=300, algorithm=algorithm, backend="highs")
    texts = [str(w.message) for w in caught if issubclass(w.category, MdpdslWarning)]
    texts = [text for text in texts if "impossible" in text]
    assert len(texts) == 1
    assert " led to x = " in texts[0]
    knowledge, counts = run.graph.knowledge, run.counts
    assert knowledge is not None
    pair = np.repeat(np.arange(run.graph.n_pairs), np.diff(counts.successor_start))
    wrong = int(pair[knowledge.excludes(pair, counts.successor)][0])
    _, probability = run.estimate.row(wrong)
    start, end = counts.successor_start[wrong : wrong + 2]
    assert probability == pytest.approx(counts.count[start:end] / counts.visits[wrong])


def test_ends_that_the_file_does_not_declare_end_what_is_known() -> None:
    graph = MIXED_GRAPH
    explorer = Explorer(graph, seed=0)
    explorer.observe(0, 1, 1)
    explorer.observe(1, 1, 2, ended=True)
    assert explorer.graph.knowledge is None
    assert explorer.graph.n_pairs < graph.n_pairs
    assert (explorer.memory.rest == 1).all()
    for _ in range(20):
        action = explorer.act(0)
        explorer.observe(0, action, 0)
    assert explorer.counts.n_transitions == 22


def log_of(model: mdpdsl.Model, path: Path, steps: int) -> Path:
    mdpdsl.simulate(model, steps=steps, seed=3, out=path)
    return path


@pytest.mark.parametrize("offer", ["logged", "all"])
def test_a_log_is_replayed_without_a_truth(tmp_path: Path, offer: str) -> None:
    log = log_of(mdpdsl.loads(MIXED), tmp_path / "log.csv", 2_000)
    model = mdpdsl.loads(UNSAID)
    run = mdpdsl.explore(model, log=log, offer=offer, kappa=2)
    assert run.reference.measured.tolist() == run.graph.to_learn.tolist()
    assert run.failure_rate == 0
    visits, c = run.counts.visits, run.reference.complexity
    learned = run.graph.to_learn
    assert run.worst == pytest.approx((c * visits.sum() / np.maximum(visits, 1))[learned].max())


def test_a_log_with_few_states_keeps_what_is_known_of_them(tmp_path: Path) -> None:
    rows = ["episode,time,x,action", "0,0,0,right", "0,1,1,left", "0,2,0,jump", "0,3,2,jump"]
    rows += ["0,4,5,left", "0,5,4,rest", "0,6,1,rest", "0,7,1,"]  # 4 led to 1 by resting
    path = tmp_path / "log.csv"
    path.write_text("\n".join(rows) + "\n")
    with pytest.warns(MdpdslWarning, match="rest in x = 4 led to x = 1"):
        run = mdpdsl.explore(mdpdsl.loads(UNSAID), log=path)
    assert run.counts.n_transitions <= 7
    assert run.reference.measured.sum() == 3


def test_a_plan_knows_the_rows_and_leaves_known_pairs_out() -> None:
    model = mdpdsl.loads(CORRIDOR, n=6)
    graph = model.graph
    run = mdpdsl.explore(model, steps=200)
    plan = mdpdsl.plan(run, steps=100)
    assert (plan.complexity[~graph.to_learn] == 0).all()
    assert plan.is_learned.tolist() == graph.to_learn.tolist()
    assert plan.added_visits[graph.to_learn].sum() > 95
    assert plan.warnings == []
    # A state far from the door is left by the shortest way.
    right = [graph.pair(graph.state(x=x, open="no"), 1) for x in range(6)]
    assert plan.policy.probability[right] == pytest.approx(1.0, abs=0.01)


def test_a_plan_of_a_saved_run_is_the_same(tmp_path: Path) -> None:
    run = mdpdsl.explore(mdpdsl.loads(MIXED), steps=300, out=tmp_path / "run")
    one, other = mdpdsl.plan(run, steps=50), mdpdsl.plan(tmp_path / "run", steps=50)
    assert one.added_visits == pytest.approx(other.added_visits)
    assert other.is_learned.tolist() == MIXED_GRAPH.to_learn.tolist()


def test_tracking_plans_with_what_is_known() -> None:
    graph = MIXED_GRAPH
    assert graph.knowledge is not None
    counts: Counts = explored(graph, 500).counts
    model = tracked_model(counts, graph, 0, graph.initial)
    estimate = estimated_graph(counts, graph).transition_matrix().toarray()
    said = np.zeros_like(estimate)
    said[graph.knowledge.entry_pair, graph.knowledge.successor] = graph.knowledge.placeholder
    T, w = counts.visits[:, None], model.weight
    expected = (T * estimate + w * said) / (T + w)
    assert model.graph.transition_matrix().toarray() == pytest.approx(expected)
    assert model.is_seen.all()


def test_explorers_of_third_parties_get_the_same_spaces() -> None:
    spaces = without_dynamics(MIXED_GRAPH)
    assert spaces.knowledge is None
    assert not spaces.has_dynamics
    run = mdpdsl.explore(mdpdsl.loads(MIXED), algorithm=Lazy, steps=200)
    assert run.failure_rate == 1  # rows to learn were left out
    assert run.estimate.row(0)[1] == pytest.approx(MIXED_GRAPH.row(0)[1])


class Lazy:
    """Always takes the first action."""

    def __init__(self, spaces: TransitionGraph) -> None:
        assert spaces.knowledge is None
        self.spaces = spaces

    def act(self, state: int) -> int:
        return int(self.spaces.pair_action[self.spaces.pair_start[state]])

    def observe(self, state: int, action: int, next_state: int) -> None:
        pass


def test_nothing_changes_where_the_file_states_nothing() -> None:
    graph = mdpdsl.load("riverswim").graph
    memory = Explorer(graph).memory
    assert memory.integers[N_UNSEEN] == graph.n_pairs
    assert (memory.rest == 1).all()
    assert len(memory.share) == len(memory.is_open) == 0


def test_a_model_without_anything_to_learn_is_refused() -> None:
    graph = mdpdsl.load("riverswim").graph
    known = with_known(graph, np.ones(graph.n_pairs, np.bool_))
    assert exploration_limits(known).reason is not None
    trial = explored(known, 50)
    assert trial.history[-1].worst is None
    assert trial.history[-1].unvisited == 0
    with pytest.raises(SettingsError, match="every row of the model is known"):
        require_explorable(known)
