"""Robust values if one theta rules all rows, against all policies at many values of theta."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mdpdsl
from mdpdsl.compile.set_model import FamilySets, SetModel, interval_text
from mdpdsl.compile.stored import StoredModel
from mdpdsl.diagnostics import SolveError
from mdpdsl.graph.objectives import Average, Cumulative, Discounted, Next, Objective, Total, Until
from mdpdsl.graph.row_sets import RowSets, entry_pairs
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import StateArray, TransitionGraph
from mdpdsl.solve.family_cells import Cell
from mdpdsl.solve.policy_value import guaranteed_values, policy_value
from mdpdsl.solve.robust_family import FamilyFound, solve_family
from mdpdsl.solve.robust_objective import set_rows, solve_robust_objective
from mdpdsl.solve.solution import SolveOutcome, SolveStatus, Watch, keep_going
from mdpdsl.solve.solve_objective import solve_objective
from tests.graph.build import graph_from_rows
from tests.solve.families import (
    Boxes,
    LakeFamily,
    TinyFamily,
    TinyModel,
    all_policies,
    at_start,
    chains,
    lake_family,
    tiny_model,
)
from tests.solve.robust_chains import discounted, gain, total, until

N_MODELS = 12
#: The error of equations of a handful of states; that of a cell's robust value; of its search.
EXACT, TOLERANCE = 1e-9, 1e-3
#: What is guaranteed comes this close to the best guarantee of all policies in most models.
CLOSE, MOST = 0.02, 0.9

Evaluate = Callable[[FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Case:
    """An objective, and how it values chains."""

    name: str
    objective: Objective
    evaluate: Evaluate
    reward: FloatArray


def cases(model: TinyModel, rng: np.random.Generator) -> list[Case]:
    graph = model.graph
    goal, safe = graph.labels["goal"], graph.labels["safe"]
    reward = np.asarray(rng.integers(0, 4, graph.n_pairs), np.float64)
    reward[0] = 1.0

    def by_total(P: FloatArray, r: FloatArray) -> FloatArray:
        values = total(P, r, goal)
        return np.where(np.isnan(values), np.inf, values)

    return [
        Case("until", Until(goal, safe), lambda P, r: until(P, goal, safe), 0 * reward),
        Case("total", Total(reward, goal), by_total, reward),
        Case("discounted", Discounted(reward, 0.9), lambda P, r: discounted(P, r, 0.9), reward),
        Case("average", Average(reward), gain, reward),
    ]


def all_values(
    model: TinyModel, case: Case, theta: FloatArray, policies: IntArray, reward: FloatArray
) -> FloatArray:
    """Return the values of policies at a theta, [n_policies, n_corners, n_states].

    The rewards are those of pairs [n_pairs], or of their transitions [n_pairs, n_states].
    """
    P = chains(model, theta, policies)
    if reward.ndim == 1:
        r = np.broadcast_to(reward[np.maximum(policies, 0)][:, None], P.shape[:3])
    else:
        r = (P * reward[np.maximum(policies, 0)][:, None]).sum(axis=3)
    r = np.where((policies >= 0)[:, None], r, 0.0)
    n = P.shape[-1]
    found = case.evaluate(P.reshape(-1, n, n), r.reshape(-1, n))
    return np.asarray(found.reshape(P.shape[:3]))


def check(
    model: TinyModel, case: Case, found: FamilyFound, sign: float, reward: FloatArray, name: str
) -> bool:
    """Check both values by all policies; return whether the guarantee is close to the best."""
    graph, policies = model.graph, all_policies(model.graph)
    thetas = [*model.thetas(), found.worst, found.best]
    signed = [sign * all_values(model, case, theta, policies, reward) for theta in thetas]
    starts = np.stack([at_start(graph, values) for values in signed])
    guarantees = starts.min(axis=(0, 2))  # of the policies
    own = int(np.flatnonzero((policies == found.guaranteed.choice).all(axis=1))[0])
    guaranteed, possible = sign * found.guaranteed.value, sign * found.possible.value
    scale = max(1.0, abs(guarantees[own])) if np.isfinite(guarantees[own]) else 1.0
    assert guaranteed <= guarantees[own] + EXACT * scale, f"{name}: not guaranteed"
    assert possible >= starts.max() - EXACT * scale, f"{name}: more is possible"
    sides = (found.guaranteed.lower, found.guaranteed.upper)
    lower = sides[0] if sign > 0 else -sides[1]
    least = np.min([values[own].min(axis=0) for values in signed], axis=0)
    room = EXACT * np.where(np.isfinite(least), np.maximum(1, np.abs(least)), 0.0)
    assert np.all(lower <= least + room), f"{name}: a state's value"
    if found.guaranteed.status is SolveStatus.OPTIMAL:
        attained = starts[-2, own].min()  # at the worst theta
        assert attained <= guaranteed + 1.1 * TOLERANCE * scale, f"{name}: {attained}"
    if found.possible.status is SolveStatus.OPTIMAL:
        attained = starts[-1].max()
        size = max(1.0, abs(attained)) if np.isfinite(attained) else 1.0
        assert attained >= possible - 1.1 * TOLERANCE * size, f"{name}: {attained}"
    return bool(guaranteed >= guarantees.max() - CLOSE * scale)


@pytest.mark.parametrize("is_minimised", [False, True], ids=["max", "min"])
@pytest.mark.parametrize("n_numbers", [1, 2])
def test_no_theta_is_worse_than_guaranteed_or_better_than_possible(
    n_numbers: int, is_minimised: bool
) -> None:
    close, optimal = [], []
    for number in range(N_MODELS):
        rng = np.random.default_rng([n_numbers, number])
        model = tiny_model(rng, n_numbers)
        for case in cases(model, rng):
            found = solve_family(
                model.graph,
                model.numbers,
                case.objective,
                is_minimised=is_minimised,
                tolerance=TOLERANCE,
            )
            sign = -1.0 if is_minimised else 1.0
            close.append(check(model, case, found, sign, case.reward, f"{number} {case.name}"))
            statuses = {found.guaranteed.status, found.possible.status}
            optimal.append(statuses == {SolveStatus.OPTIMAL})
    assert np.mean(close) >= MOST, np.mean(close)
    assert np.mean(optimal) >= MOST, np.mean(optimal)


def test_rewards_of_transitions_are_those_of_the_rows_of_a_cell() -> None:
    for number in range(N_MODELS // 2):
        rng = np.random.default_rng([5, number])
        model = tiny_model(rng, 1)
        graph = model.graph
        reward = np.asarray(rng.integers(0, 4, (graph.n_pairs, graph.n_states)), np.float64)

        def listed(sets: RowSets, reward: FloatArray = reward) -> tuple[RowSets, FloatArray]:
            return sets, reward[entry_pairs(sets.successor_start), sets.successor]

        for case in cases(model, rng)[1:]:
            found = solve_family(
                graph, model.numbers, case.objective, listed=listed, tolerance=TOLERANCE
            )
            check(model, case, found, 1.0, reward, f"{number} {case.name}")


def stepwise(
    model: TinyModel,
    objective: Next | Until | Cumulative,
    theta: FloatArray,
    sign: float,
    plan: Callable[[int], StateArray] | None,
) -> FloatArray:
    """Return signed values by backward induction, of a plan against nature or of the best with it.

    Nature chooses the corners of open rows anew at every step.
    """
    graph, rows = model.graph, model.rows_at(theta)
    start = graph.pair_start
    acts = np.diff(start) > 0
    V: FloatArray = np.zeros(graph.n_states)
    reward: FloatArray = np.zeros(graph.n_pairs)
    if isinstance(objective, Cumulative):
        reward = sign * objective.reward
    else:
        V = sign * objective.goal.astype(np.float64)
    if isinstance(objective, Until):
        acts &= ~objective.goal
        acts &= True if objective.allowed is None else objective.allowed
    for left in range(1, 1 + (1 if isinstance(objective, Next) else objective.steps or 0)):
        Q = reward + rows @ V  # [n_corners, n_pairs]
        new = V.copy()
        for state in np.flatnonzero(acts):
            if plan is None:
                new[state] = Q[:, start[state] : start[state + 1]].max()
            else:
                new[state] = Q[:, plan(left)[state]].min()
        V = new
    return np.asarray(V)


@pytest.mark.parametrize("is_minimised", [False, True], ids=["max", "min"])
def test_a_limited_number_of_steps_has_a_plan_that_is_guaranteed(is_minimised: bool) -> None:
    sign, optimal = -1.0 if is_minimised else 1.0, []
    for number in range(N_MODELS):
        rng = np.random.default_rng([6, number])
        model = tiny_model(rng, 1 + number % 2)
        graph, numbers = model.graph, model.numbers
        goal, safe = graph.labels["goal"], graph.labels["safe"]
        reward = np.asarray(rng.integers(-2, 4, graph.n_pairs), np.float64)
        objectives: list[Next | Until | Cumulative] = [
            Next(goal),
            Until(goal, safe, steps=4),
            Until(goal, steps=0),
            Cumulative(reward, steps=3),
        ]
        for objective in objectives:
            found = solve_family(
                graph, numbers, objective, is_minimised=is_minimised, tolerance=TOLERANCE
            )
            plan = found.guaranteed.choice_with
            thetas = [*model.thetas(), found.worst, found.best]
            own = [at_start(graph, stepwise(model, objective, x, sign, plan)) for x in thetas]
            best = [at_start(graph, stepwise(model, objective, x, sign, None)) for x in thetas]
            guaranteed, possible = sign * found.guaranteed.value, sign * found.possible.value
            assert guaranteed <= min(own) + EXACT
            assert possible >= max(best) - EXACT
            scale = max(1.0, abs(guaranteed), abs(possible))
            # Values that hardly depend on theta, though the rows do, need more cells.
            is_close = [o.status is SolveStatus.OPTIMAL for o in (found.guaranteed, found.possible)]
            assert own[-2] <= guaranteed + 1.1 * TOLERANCE * scale or not is_close[0]
            assert best[-1] >= possible - 1.1 * TOLERANCE * scale or not is_close[1]
            optimal += is_close
    assert np.mean(optimal) >= MOST


def stopping_after(most: int) -> Watch:
    """Return a watch that stops when it was asked so often."""
    calls = iter(range(most))
    return lambda done, bound: next(calls, None) is not None


def test_a_stopped_search_is_still_guaranteed() -> None:
    for number in range(5):
        rng = np.random.default_rng([7, number])
        model = tiny_model(rng, 2)
        for case in cases(model, rng):
            for most in (0, 1, 3, 30, 300):
                found = solve_family(
                    model.graph,
                    model.numbers,
                    case.objective,
                    tolerance=TOLERANCE,
                    watch=stopping_after(most),
                )
                check(model, case, found, 1.0, case.reward, f"{number} {case.name} {most}")
                assert most > 3 or found.possible.status is SolveStatus.STOPPED


def test_a_time_limit_leaves_time_for_what_is_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = lake_family()
    numbers = lake_numbers(0.2, 0.5, theta=0.35)
    objective = Discounted(expected_reward(lake), 0.99)
    clock = SimpleNamespace(monotonic=itertools.count().__next__)  # a second for each look at it
    monkeypatch.setattr(sys.modules[SolveOutcome.__module__], "time", clock)
    found = solve_family(lake.graph, numbers, objective, tolerance=1e-9, time_limit=1_000)
    assert found.guaranteed.status is found.possible.status is SolveStatus.STOPPED
    assert 0.1 < found.guaranteed.value < found.possible.value < 0.95


# Models made by hand


def arms(low: float, high: float) -> TinyModel:
    """Return a choice between goals with probability x, 1 - x, and 0.4, once."""
    a = np.array([[0, 0, 1.0], [0, 1.0, 0], [0, 0.4, 0.6]])
    b = np.array([[0, 1.0, 0], [0, 0, 1.0], [0, 0.4, 0.6]])
    rows = {i: {1: 0.4, 2: 0.6} for i in range(3)}
    ends = np.array([False, True, True])
    labels = {"goal": np.array([False, True, False])}
    graph = graph_from_rows([rows, {}, {}], ends=ends, labels=labels)
    family = TinyFamily(graph, a, b, (0, 0, None), 1)
    none = np.zeros(3)
    return TinyModel(family, Boxes(np.array([[low]]), np.array([[high]])), none, none)


def test_a_policy_is_sought_that_is_good_for_every_theta() -> None:
    model = arms(0.1, 0.9)
    found = solve_family(model.graph, model.numbers, Until(model.graph.labels["goal"]))
    assert found.guaranteed.choice[0] == 2
    assert found.guaranteed.value == pytest.approx(0.4, abs=1e-6)
    assert found.possible.value == pytest.approx(0.9, abs=1e-5)
    assert found.guaranteed.upper[0] >= 0.4
    assert found.best in ([0.1], [0.9])


def test_boxes_between_which_there_is_nothing_leave_that_out() -> None:
    model = arms(0.1, 0.9)
    boxes = Boxes(np.array([[0.1], [0.8]]), np.array([[0.2], [0.9]]))
    apart = replace(model, boxes=boxes)
    goal = model.graph.labels["goal"]
    # The second arm has 0.8 in the first box and 0.1 in the second: the third is still best.
    found = solve_family(model.graph, apart.numbers, Until(goal))
    assert found.guaranteed.value == pytest.approx(0.4, abs=1e-6)
    only = replace(model, boxes=Boxes(boxes.low[1:], boxes.high[1:]))
    found = solve_family(model.graph, only.numbers, Until(goal))
    assert found.guaranteed.choice[0] == 0
    assert found.guaranteed.value == pytest.approx(0.8, abs=1e-4)


def test_a_policy_that_misses_the_goal_is_bad_even_if_it_only_gains() -> None:
    # From 0 to 1 for a reward of 1; there, stay for nothing or pay 3 for the goal.
    rows = [{0: {0: 0.5, 1: 0.5}}, {0: {1: 1.0}, 1: {2: 1.0}}, {}]
    ends = np.array([False, False, True])
    graph = graph_from_rows(rows, ends=ends, labels={"goal": ends})
    first, second = np.eye(3)[[0, 1, 2]], np.eye(3)[[1, 1, 2]]
    family = TinyFamily(graph, first, second, (0, None, None), 1)
    none = np.zeros(3)
    model = TinyModel(family, Boxes(np.array([[0.4]]), np.array([[0.6]])), none, none)
    numbers, objective = model.numbers, Total(np.array([1.0, 0.0, -3.0]), ends)
    found = solve_family(graph, numbers, objective)
    assert found.guaranteed.choice.tolist() == [0, 2, -1]
    assert found.guaranteed.value == pytest.approx(1 / 0.6 - 3, abs=1e-3)
    assert found.possible.value == pytest.approx(1 / 0.4 - 3, abs=1e-3)
    stays = replace(found.guaranteed, choice=np.array([0, 1, -1]))
    rows_of_hull = set_rows(graph, numbers.hull_rows, "intervals", objective, None, 1.0)
    values = guaranteed_values(
        graph,
        objective,
        rows_of_hull,
        stays,
        1.0,
        tolerance=1e-6,
        floor=1.0,
        watch=keep_going,
    )
    assert values.tolist() == [-np.inf, -np.inf, 0.0]


def test_the_parts_of_a_cell_cover_it() -> None:
    rng = np.random.default_rng(8)
    low = rng.random((7, 3))
    high = low + rng.random((7, 3)) * [1.0, 0.1, 0.0]
    cells, leaves = [Cell.hull(low, high)], []
    for _ in range(40):
        cell = cells.pop(0)
        parts = cell.split(np.array([1.0, 2.0, 3.0]))
        assert parts is not None
        cells += parts
        leaves = cells
    points = low[:, None] + rng.random((7, 50, 1)) * (high - low)[:, None]
    for theta in points.reshape(-1, 3):
        assert any(cell.contains(theta) for cell in leaves)
    for cell in leaves:
        assert Cell.hull(low, high).contains(cell.centre)
        assert cell.contains(cell.corner(np.array([1.0, -1.0, 0.0])))
    assert Cell.hull(low[:1], low[:1]).split(np.ones(3)) is None


# Frozen lake


def lake_numbers(low: float, high: float, theta: float, n_boxes: int = 1) -> FamilySets:
    lake = lake_family()
    edges = np.linspace(low, high, n_boxes + 1)[:, None]
    others = lake.row_sets(np.array([theta]), np.array([theta]), None)
    return FamilySets(lake, Boxes(edges[:-1], edges[1:]), others, np.array([theta]))


def expected_reward(lake: LakeFamily) -> FloatArray:
    reward = lake.graph.reward
    assert reward is not None
    return reward


@pytest.mark.parametrize("n_boxes", [1, 64])
def test_one_slip_for_all_of_frozen_lake_guarantees_more_than_one_for_each_row(
    n_boxes: int,
) -> None:
    low, high = 0.3, 0.37
    lake, numbers = lake_family(), lake_numbers(low, high, 0.335, n_boxes)
    goal = lake.graph.labels["goal"]
    found = solve_family(lake.graph, numbers, Until(goal))
    apart = [
        solve_robust_objective(
            lake.graph, numbers.hull_rows, Until(goal), is_optimistic=is_optimistic
        )
        for is_optimistic in (False, True)
    ]
    thetas = np.linspace(low, high, 141)[:, None]
    graphs = [lake.graph_at(theta) for theta in thetas]
    exact = [policy_value(graph, Until(goal), found.guaranteed) for graph in graphs]
    best = [solve_objective(graph, Until(goal)).value for graph in graphs]
    assert apart[0].value + 0.03 < found.guaranteed.value <= min(exact) + 2e-6
    assert found.guaranteed.value > min(exact) - 5e-4
    assert apart[1].value - 0.02 > found.possible.value >= max(best) - 2e-6
    assert found.possible.value < max(best) + 5e-4
    assert found.worst[0] == pytest.approx(low)
    assert found.best[0] == pytest.approx(high)
    assert found.n_cells <= 100


@dataclass(frozen=True, eq=False)
class Slippery:
    """An estimate of frozen lake whose rows have a law."""

    sets: SetModel

    def as_sets(self, *, support: str | None = None, delta: float | None = None) -> SetModel:
        """Return the estimate with its numbers."""
        return self.sets


@pytest.fixture(scope="module")
def slippery() -> Slippery:
    model = mdpdsl.load("frozen_lake")
    sets = mdpdsl.estimate(model, mdpdsl.simulate(model, steps=5_000, seed=1)).as_sets()
    numbers = lake_numbers(0.31234, 0.36, 1 / 3)
    lake = lake_family().graph
    known = sets.model
    graph = replace(known.graph, **rows_of(lake))
    stored = StoredModel(known.checked, known.source, graph, known.provenance)
    return Slippery(replace(sets, model=stored, numbers=numbers))


def rows_of(graph: TransitionGraph) -> dict[str, Any]:
    names = ("successor_start", "successor", "probability", "reward", "branch_reward")
    return {name: getattr(graph, name) for name in names}


def robust(given: Slippery, **asked: Any) -> mdpdsl.RobustSolution:
    found = mdpdsl.solve(given, robust=True, **asked)  # type: ignore[arg-type]
    assert isinstance(found, mdpdsl.RobustSolution)
    return found


def test_the_answer_says_which_numbers_it_covers(slippery: Slippery) -> None:
    found = robust(slippery, reach="goal")
    assert found.is_optimal
    covered = "success in [0.312, 0.360]"
    assert found.sentence.startswith(
        "With 90 % confidence this policy reaches goal with probability at least 0.815, "
        f"for every {covered}; no policy can do better than 0.835."
    )
    assert "More data on success, for example from these 12 pairs, would" in found.sentence
    assert found.sets_text.startswith(
        f"{covered} (time-uniform, delta = 0.1), one value for all rows; they hold"
    )
    assert found.estimate == pytest.approx(14 / 17, abs=1e-6)
    record = json.loads(json.dumps(found.record(), allow_nan=False))
    (number,) = record["numbers"]
    assert (number["name"], number["low"], number["high"]) == ("success", 0.31234, 0.36)
    assert (number["value"], number["worst"]) == (1 / 3, pytest.approx(0.31234))
    assert record["cells"] > 10
    assert (record["misfit"], record["warning"]) == (0, None)
    assert (record["guaranteed"], record["possible"]) == (found.guaranteed, found.possible)


def test_a_misfit_is_said_with_the_guarantee(slippery: Slippery) -> None:
    found = robust(Slippery(replace(slippery.sets, misfit=3)), reach="goal")
    assert found.warning is not None
    assert "assumes a law that the data contradict in 3 rows" in found.warning
    assert found.warning in found.sentence
    assert found.record()["warning"] == found.warning
    assert slippery.sets.warning is None


QUESTIONS: tuple[dict[str, Any], ...] = (
    {"reach": "goal"},
    {"reach": "hole", "minimise": True},
    {"property": 'Pmax=? [ G !"hole" ]'},
    {"property": "soon"},
    {"property": 'Pmax=? [ X "goal" ]'},
    {"property": 'P>=0.5 [ F "goal" ]'},
    {"property": 'Rmax=? [ F "goal" | "hole" ]'},
    {"horizon": 20},
    {"discount": 0.99},
    {"discount": 0.99, "minimise": True},
    {"average": True},
)


@pytest.mark.parametrize("asked", QUESTIONS, ids=str)
def test_every_question_has_an_answer_for_all_numbers(
    slippery: Slippery, asked: dict[str, Any]
) -> None:
    found = robust(slippery, **asked)
    sign = -1 if found.minimise else 1
    for success in (0.31234, 1 / 3, 0.36):
        exact = mdpdsl.solve(mdpdsl.load("frozen_lake", success=success), **asked)
        if found.question.for_all:
            continue
        assert sign * found.guaranteed <= sign * exact.value + 3e-6
        assert sign * exact.value <= sign * found.possible + 3e-6
    assert sign * found.guaranteed <= sign * found.estimate + 3e-6
    assert found.record()["sentence"] == found.sentence
    assert len(found.pair_lines) == len(found.pairs_to_visit)
    assert np.all(found.gains >= 0)


def test_rows_of_a_law_have_intervals_only(slippery: Slippery) -> None:
    with pytest.raises(SolveError, match="rows that depend on success lie in intervals"):
        robust(slippery, reach="goal", shape="kl")


def test_an_interval_is_rounded_outwards() -> None:
    assert interval_text(0.29341, 0.36209) == "[0.293, 0.363]"
    assert interval_text(-0.5, 12.25) == "[-1, 13]"
    assert interval_text(0.333333, 0.333345) == "[0.333333, 0.333345]"
    assert interval_text(0.25, 0.25) == "[0.25, 0.25]"
