"""The oracle of robust values: exact solutions where nature has no choice, and plain iteration."""

from __future__ import annotations

import numpy as np
import pytest

from mdpdsl.graph.objectives import Average, Discounted, Objective, Total, Until
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.solve.solve_objective import solve_objective
from tests.graph.build import graph_from_rows
from tests.solve.exhaustive import tiny_graph
from tests.solve.robust_chains import EXACT, may_stay
from tests.solve.robust_exhaustive import (
    MODES,
    Answer,
    Evaluate,
    Mode,
    Options,
    answers,
    backup,
    by_average,
    by_discounting,
    by_total,
    by_until,
    kl_chances,
)
from tests.solve.robust_games import Entry, Game, RowSet, points, tiny_game, tiny_hub
from tests.solve.robust_kl import best_rows

N_MODELS = 40
#: Exact solutions are so precise, in units of a value but at least 1.
SOLVED = 2e-6
#: Iteration from below comes so close to the value.
CLOSE = 1e-3


def test_the_corners_of_intervals_fill_from_either_end() -> None:
    row = RowSet({0: Entry(0, 0.6), 1: Entry(0, 0.7)})
    np.testing.assert_allclose(row.corners(2, "intervals"), [[0.3, 0.7], [0.6, 0.4]])
    with_others = RowSet({0: Entry(0.5, 1.0)}, other_upper=0.25, others_upper=0.4)
    found = with_others.corners(3, "intervals")
    expected = [[60, 15, 25], [60, 25, 15], [75, 0, 25], [75, 25, 0], [100, 0, 0]]
    np.testing.assert_allclose(found, np.array(expected) / 100)


def test_the_corners_of_l1_balls_move_half_of_the_radius() -> None:
    row = RowSet({0: Entry(0, 1, 0.75), 1: Entry(0, 1, 0.25)}, l1=1.0)
    np.testing.assert_allclose(row.corners(3, "l1"), [[0.25, 0.75, 0.0], [1.0, 0.0, 0.0]])
    with_others = RowSet({0: Entry(0, 1, 1.0)}, 1.0, 1.0, l1=0.5)
    expected = [[75, 0, 25], [75, 25, 0], [100, 0, 0]]
    np.testing.assert_allclose(with_others.corners(3, "l1"), np.array(expected) / 100)


@pytest.mark.parametrize("shape", ["intervals", "l1", "kl"])
def test_without_a_choice_of_nature_the_oracle_is_the_exact_solution(shape: str) -> None:
    for number in range(N_MODELS):
        rng = np.random.default_rng([11, number])
        graph = tiny_graph(rng)
        game = points(graph, shape)
        goal, safe = graph.labels["goal"], graph.labels["safe"]
        reward = np.asarray(rng.integers(0, 4, graph.n_pairs), np.float64)
        reward[0] = 1.0
        cases: list[tuple[Objective, Evaluate, float]] = [
            (Discounted(reward, 0.9), by_discounting(0.9), 0.9)
        ]
        if shape != "kl":  # of which there may be several classes only without discounting
            cases += [
                (Until(goal, safe), by_until(goal, safe), 1.0),
                (Average(reward), by_average(shape), 1.0),
                (Total(reward, goal), by_total(goal, np.inf), 1.0),
            ]
        for objective, evaluate, discount in cases:
            found = answers(game, reward, evaluate, discount)
            for mode in MODES:
                exact = solve_objective(graph, objective, is_minimised=mode.is_minimised)
                values = found[mode].values
                np.testing.assert_allclose(exact.values, values, rtol=SOLVED, atol=SOLVED)


@pytest.mark.parametrize("kind", ["gains", "costs", "both"])
@pytest.mark.parametrize("shape", ["intervals", "l1"])
def test_a_helpful_nature_is_an_agent_with_more_actions(shape: str, kind: str) -> None:
    low, high = {"gains": (0, 3), "costs": (-3, 0), "both": (-2, 2)}[kind]
    for number in range(N_MODELS):
        rng = np.random.default_rng([16, number])
        game = tiny_game(rng, shape, lists_all=False)
        goal, safe = game.graph.labels["goal"], game.graph.labels["safe"]
        options = Options.of(game)
        graph = joint_graph(game, options)
        reward = np.asarray(rng.integers(low, high + 1, (len(game.rows), game.n_states)), float)
        joint = (options.row * reward[options.pair]).sum(axis=1)[options.pair >= 0]
        r, size = options.earned(reward), options.earned(np.abs(reward))
        before = joint[~goal[graph.pair_state]]
        gains, costs = bool(np.any(before > 0)), bool(np.any(before < 0))
        kinds = "both" if gains and costs else "gains" if gains else "costs" if costs else "none"
        for mode in MODES:
            is_minimised, sign = not mode.nature_maximises, 1 if mode.nature_maximises else -1
            if not mode.is_optimistic and np.any(np.diff(game.graph.pair_start) > 1):
                continue  # nature alone must choose
            missed = {"gains": np.inf, "costs": -np.inf, "both": -sign * np.inf}[kind]
            cases: list[tuple[Objective, Evaluate]] = [
                (Until(goal, safe), by_until(goal, safe)),
                (Average(joint), by_average(shape)),
            ]
            if kinds == kind and (
                kind != "both" or not may_stay(options.matrices, sign * r, size, goal)
            ):
                cases.append((Total(joint, goal), by_total(goal, missed)))
            for objective, evaluate in cases:
                exact = solve_objective(graph, objective, is_minimised=is_minimised)
                values = answers(game, reward, evaluate)[mode].values
                np.testing.assert_allclose(exact.values, values, rtol=SOLVED, atol=SOLVED)


def joint_graph(game: Game, options: Options) -> TransitionGraph:
    """Return the graph in which pairs and corners are chosen together."""
    rows: list[dict[int, dict[int, float]]] = []
    for choices in options.choices:
        chances = [dict(enumerate(options.row[i].tolist())) for i in choices]
        positive = [{s: p for s, p in row.items() if p > 0} for row in chances]
        rows.append({} if options.pair[choices[0]] < 0 else dict(enumerate(positive)))
    return graph_from_rows(rows, ends=game.graph.ends)


@pytest.mark.parametrize("shape", ["intervals", "l1", "kl"])
def test_another_step_does_not_change_discounted_values(shape: str) -> None:
    for number in range(N_MODELS):
        rng = np.random.default_rng([12, number])
        game = tiny_game(rng, shape, lists_all=bool(number % 2))
        reward = np.asarray(rng.integers(-2, 3, (len(game.rows), game.n_states)), np.float64)
        for mode, found in answers(game, reward, by_discounting(0.9), 0.9).items():
            again = backup(game, reward + 0.9 * found.values, np.zeros(game.n_states), mode)
            np.testing.assert_allclose(again, found.values, rtol=0, atol=EXACT)


@pytest.mark.parametrize("shape", ["intervals", "l1", "kl"])
def test_another_step_does_not_change_the_chance_of_a_goal(shape: str) -> None:
    for number in range(N_MODELS):
        game = game_without_discount(shape, number, is_absorbing=True)
        for mode, found in chances(game).items():
            values = step_to_goal(game, found.values, mode)
            np.testing.assert_allclose(values, found.values, rtol=0, atol=EXACT)


def test_both_ways_to_find_chances_with_balls_of_kl_agree() -> None:
    for number in range(N_MODELS):
        game = game_without_discount("kl", number, is_absorbing=True)
        goal, safe = game.graph.labels["goal"], game.graph.labels["safe"]
        found = kl_chances(game, goal, safe)
        for mode, expected in chances(game).items():
            np.testing.assert_allclose(found[mode].policies, expected.policies, rtol=0, atol=EXACT)


@pytest.mark.parametrize("shape", ["intervals", "l1"])
def test_the_chance_of_a_goal_is_the_limit_of_more_and_more_steps(shape: str) -> None:
    for number in range(N_MODELS // 2):
        game = game_without_discount(shape, number, is_absorbing=True)
        for mode, found in chances(game).items():
            V = game.graph.labels["goal"].astype(np.float64)
            for _ in range(2_000):
                V = step_to_goal(game, V, mode)
            assert np.all(found.values + EXACT >= V)
            assert np.all(found.values - CLOSE <= V)


@pytest.mark.parametrize("shape", ["intervals", "l1", "kl"])
def test_averages_are_the_growth_of_the_rewards_of_many_steps(shape: str) -> None:
    n_steps, n_models = (100, 3) if shape == "kl" else (2_000, 8)
    for number in range(n_models):
        game = game_without_discount(shape, number, is_absorbing=False)
        rng = np.random.default_rng([14, number])
        reward = np.asarray(rng.integers(-2, 3, (len(game.rows), game.n_states)), np.float64)
        for mode, found in answers(game, reward, by_average(shape)).items():
            V = [np.zeros(game.n_states)]
            for _ in range(n_steps):
                V.append(backup(game, reward + V[-1], V[-1], mode))
            growth = (V[n_steps] - V[n_steps // 2]) / (n_steps - n_steps // 2)
            np.testing.assert_allclose(growth, found.values, rtol=0, atol=10 / n_steps)


def game_without_discount(shape: str, number: int, is_absorbing: bool) -> Game:
    rng = np.random.default_rng([13, number])
    return tiny_hub(rng, is_absorbing) if shape == "kl" else tiny_game(rng, shape, False)


def chances(game: Game) -> dict[Mode, Answer]:
    labels = game.graph.labels
    return answers(game, np.zeros(len(game.rows)), by_until(labels["goal"], labels["safe"]))


def step_to_goal(game: Game, V: FloatArray, mode: Mode) -> FloatArray:
    goal, safe = game.graph.labels["goal"], game.graph.labels["safe"]
    backed = backup(game, np.repeat(V[None], len(game.rows), axis=0), V, mode)
    return np.where(goal | ~safe, goal, backed)


def test_no_row_of_a_kl_ball_is_better_than_the_best() -> None:
    rng = np.random.default_rng(14)
    n_rows = 300
    for _ in range(N_MODELS):
        game = tiny_game(rng, "kl", lists_all=False)
        n, n_pairs = game.n_states, len(game.rows)
        worth = np.asarray(rng.integers(-2, 3, (n_pairs, n)), np.float64)
        best = (best_rows(game, np.arange(n_pairs), worth, True) * worth).sum(axis=1)
        for pair, row in enumerate(game.rows):
            e, possible = row.estimates(n), row.possible(n, "kl")
            drawn = rng.dirichlet(np.full(n, rng.choice([0.2, 1.0, 5.0])), n_rows) * possible
            share = rng.random((n_rows, 1))
            rows = share * e + (1 - share) * drawn / drawn.sum(axis=1)[:, None]
            with np.errstate(divide="ignore", invalid="ignore"):
                kl = np.where(e > 0, e * np.log(e / rows), 0.0).sum(axis=1)
            is_inside = (kl <= row.kl) | (e.sum() == 0)
            is_inside &= np.abs(rows.sum(axis=1) - 1) < EXACT
            assert np.all(rows[is_inside] @ worth[pair] <= best[pair] + EXACT)
