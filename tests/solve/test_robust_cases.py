"""Robust values that are known in advance: each is a way to get them wrong."""

from __future__ import annotations

import numpy as np
import pytest

from mdpdsl.diagnostics import SolveError
from mdpdsl.graph.objectives import Average, Cumulative, Discounted, Objective, Total, Until
from tests.solve.robust_checks import TOLERANCE, check_bounds, solve
from tests.solve.robust_exhaustive import Mode
from tests.solve.robust_games import Entry, Game, RowSet, between, game_of, point
from tests.solve.robust_kl import best_rows

GUARANTEED, POSSIBLE = Mode(False, False), Mode(False, True)

all_shapes = pytest.mark.parametrize("shape", ["intervals", "l1", "kl"])


def test_a_goal_that_cannot_be_avoided_has_what_the_trap_leaves_over() -> None:
    # An upper end below 1 elsewhere forces some probability onto the goal.
    row = between({1: (0.0, 0.6), 2: (0.0, 0.7)})
    expect(reaching([{0: row}, {}, {}], goal=1), guaranteed=[0.3, 1, 0], possible=[0.6, 1, 0])
    again = between({0: (0.0, 0.5), 1: (0.0, 0.6), 2: (0.0, 0.3)})
    game = reaching([{0: again}, {}, {}], goal=1)
    expect(game, guaranteed=[0.2 / 0.5, 1, 0], possible=[1, 1, 0])


def test_uppers_that_sum_to_1_only_up_to_rounding_let_nature_avoid_a_goal() -> None:
    assert 0.7 + 0.2 + 0.1 < 1
    row = between({0: (0.0, 0.7), 1: (0.0, 0.5), 2: (0.0, 0.2), 3: (0.0, 0.1)})
    rows = [{0: row}, {}, {0: point({0: 1.0})}, {0: point({0: 1.0})}]
    expect(reaching(rows, goal=1), guaranteed=[0, 1, 0, 0], possible=[1, 1, 1, 1])


def test_nature_may_stay_where_the_agent_would_leave() -> None:
    # Collapsed, or iterated from above without deflating, both states would have 1.
    rows = [
        {0: between({0: (0.0, 1.0), 1: (0.0, 1.0)})},
        {0: point({0: 1.0}), 1: point({2: 1.0})},
        {},
    ]
    game = reaching(rows, goal=2)
    expect(game, guaranteed=[0, 1, 1], possible=[1, 1, 1])
    found = solve(game, Until(game.graph.labels["goal"]), GUARANTEED)
    assert found.upper[0] <= TOLERANCE
    assert found.choice[1] == game.graph.pair(1, 1)


def test_the_agent_leaves_an_end_component_for_what_is_guaranteed_outside() -> None:
    # Both may stay for ever in {0, 1}; leaving is worth 0.3 from state 1, and 0.2 from state 0.
    rows = [
        {0: point({1: 1.0}), 1: between({2: (0.2, 0.5), 3: (0.5, 0.8)})},
        {0: point({0: 1.0}), 1: between({2: (0.3, 0.4), 3: (0.5, 0.7)})},
        {},
        {},
    ]
    game = reaching(rows, goal=2)
    expect(game, guaranteed=[0.3, 0.3, 1, 0], possible=[0.5, 0.5, 1, 0])


def test_a_bound_for_each_other_makes_the_rest_spread() -> None:
    spread = RowSet({}, other_upper=0.25, others_upper=1.0)
    four = reaching([{0: spread}, {}, {}, {}], goal=1)  # a quarter each
    expect(four, guaranteed=[1 / 3, 1, 0, 0], possible=[1 / 3, 1, 0, 0])
    five = reaching([{0: spread}, {}, {}, {}, {}], goal=1)
    expect(five, guaranteed=[0, 1, 0, 0, 0], possible=[1 / 3, 1, 0, 0, 0])


def test_others_that_are_listed_share_the_bound_of_the_others() -> None:
    entries = {1: Entry(0.5, 1.0), 2: Entry(0, 0.3, is_other=True), 3: Entry(0, 0.3, is_other=True)}
    game = reaching([{0: RowSet(entries, 0.0, 0.4)}, {}, {}, {}], goal=1)
    expect(game, guaranteed=[0.6, 1, 0, 0], possible=[1, 1, 0, 0])
    unlisted = RowSet({k: e for k, e in entries.items() if k < 3}, 0.3, 0.4)
    game = reaching([{0: unlisted}, {}, {}, {}], goal=1)
    expect(game, guaranteed=[0.6, 1, 0, 0], possible=[1, 1, 0, 0])


@all_shapes
def test_a_pair_without_visits_may_lead_anywhere(shape: str) -> None:
    nowhere = RowSet({}, 1.0, 1.0, kl=0.1, l1=0.1)
    game = game_of([{0: nowhere}, {}, {}], shape, goal=[1], ends=np.array([False, True, True]))
    expect(game, guaranteed=[0, 1, 0], possible=[1, 1, 0])
    reward = np.array([1.0])
    worst, best = (solve(game, Discounted(reward, 0.9), m).values for m in (GUARANTEED, POSSIBLE))
    np.testing.assert_allclose(worst, [1, 0, 0], atol=TOLERANCE)  # to an end at once
    np.testing.assert_allclose(best, [10, 0, 0], atol=TOLERANCE)  # never


@pytest.mark.parametrize("shape", ["l1", "kl"])
def test_a_pair_without_visits_leads_only_to_known_successors(shape: str) -> None:
    known = RowSet({1: Entry(0.0, 1.0), 2: Entry(0.0, 1.0)}, kl=0.1, l1=0.1)
    rows = [{0: known}, {}, {}, {}]
    game = game_of(rows, shape, goal=[1, 2], ends=np.array([False, True, True, True]))
    expect(game, guaranteed=[1, 1, 1, 0], possible=[1, 1, 1, 0])


@pytest.mark.parametrize(("radius", "least"), [(0.5, 0.0), (0.4, 0.05), (0.0, 0.25), (2.0, 0.0)])
def test_an_l1_ball_avoids_a_goal_of_at_most_half_its_radius(radius: float, least: float) -> None:
    row = RowSet({1: Entry(0, 1, 0.25), 2: Entry(0, 1, 0.75)}, l1=radius)
    game = game_of([{0: row}, {}, {}], "l1", goal=[1], ends=np.array([False, True, True]))
    most = min(1.0, 0.25 + radius / 2)
    expect(game, guaranteed=[least, 1, 0], possible=[most, 1, 0])


def test_a_kl_ball_never_avoids_what_was_seen() -> None:
    row = RowSet({0: Entry(0, 1, 0.9), 1: Entry(0, 1, 0.1)}, kl=2.0)
    game = game_of([{0: row}, {}], "kl", goal=[1], ends=np.array([False, True]))
    expect(game, guaranteed=[1, 1], possible=[1, 1])


@pytest.mark.parametrize("kl", [1e-6, 0.01, 0.3, 3.0])
def test_the_best_rows_of_a_kl_ball_are_on_its_border(kl: float) -> None:
    row = RowSet({1: Entry(0, 1, 0.25), 2: Entry(0, 1, 0.75)}, kl=kl)
    game = game_of([{0: row}, {}, {}], "kl", goal=[1], ends=np.array([False, True, True]))
    for mode, side in ((GUARANTEED, -1), (POSSIBLE, 1)):
        p = solve(game, Until(game.graph.labels["goal"]), mode).values[0]
        assert (p - 0.25) * side > 0
        distance = 0.25 * np.log(0.25 / p) + 0.75 * np.log(0.75 / (1 - p))
        assert distance == pytest.approx(kl, rel=0.01)


def test_a_kl_ball_reaches_others_that_were_never_seen() -> None:
    row = RowSet({2: Entry(0, 1, 1.0)}, 1.0, 1.0, kl=0.5)
    game = game_of([{0: row}, {}, {}], "kl", goal=[1], ends=np.array([False, True, True]))
    expect(game, guaranteed=[0, 1, 0], possible=[1 - np.exp(-0.5), 1, 0])


@pytest.mark.parametrize("mode", [GUARANTEED, POSSIBLE])
@pytest.mark.parametrize("kl", [0.1, 0.5, 1.0, 2.0])
def test_a_kl_ball_has_its_best_row_wherever_the_unseen_successor_ranks(
    kl: float, mode: Mode
) -> None:
    # A search for the best row must not end before it settles, as with kl = 1 and 1.985.
    row = RowSet({1: Entry(0, 1, 0.5), 2: Entry(0, 1, 0.5), 3: Entry(0, 1)}, kl=kl)
    game = game_of([{0: row}, {}, {}, {}], "kl", ends=np.array([False, True, True, True]))
    for unseen in [*np.arange(-2600, -2000, 5) / 1000, *np.arange(1900, 2500, 5) / 1000]:
        entry_reward = np.array([-2.0, 1.895, unseen])
        rows = best_rows(game, np.array([0]), game.matrix(entry_reward), mode.nature_maximises)
        expected = float(rows[0, 1:] @ entry_reward)
        found = solve(game, Cumulative(np.zeros(1), 1), mode, entry_reward)
        check_bounds(found, np.array([expected, 0, 0, 0]), f"{unseen}")


def test_a_search_for_the_best_row_of_a_kl_ball_stops_where_it_settles() -> None:
    # Here Newton's method reaches the root exactly, from above, and must not leap away from it.
    row = RowSet({s + 1: Entry(0, 1, p) for s, p in enumerate([0.0, 0.2, 0.3, 0.5])}, kl=1.0)
    ends = np.array([False, True, True, True, True])
    game = game_of([{0: row}, {}, {}, {}, {}], "kl", ends=ends)
    rng = np.random.default_rng(31)
    for _ in range(200):
        entry_reward = np.array([-3.175, -10.0, -4.74, -3.276]) + 0.01 * rng.random(4)
        rows = best_rows(game, np.array([0]), game.matrix(entry_reward), True)
        expected = float(rows[0, 1:] @ entry_reward)
        found = solve(game, Cumulative(np.zeros(1), 1), POSSIBLE, entry_reward)
        check_bounds(found, np.array([expected, 0, 0, 0, 0]), f"{entry_reward}")


def test_costs_are_endless_if_nature_can_stay() -> None:
    rows = [{0: between({0: (0.0, 1.0), 1: (0.0, 1.0)})}, {0: point({2: 1.0})}, {}]
    game = reaching(rows, goal=2)
    goal = game.graph.labels["goal"]
    for first in (0.0, 1.0):  # without costs in the loop, too: nature need not leave it
        objective = Total(np.array([first, 2.0]), goal)
        worst = solve(game, objective, Mode(is_minimised=True, is_optimistic=False))
        best = solve(game, objective, Mode(is_minimised=True, is_optimistic=True))
        np.testing.assert_allclose(worst.values, [np.inf, 2, 0], atol=TOLERANCE)
        np.testing.assert_allclose(best.values, [first + 2, 2, 0], atol=TOLERANCE)


def test_the_policy_misses_the_goal_where_that_is_worth_infinity() -> None:
    rows = [
        {0: point({1: 1.0})},
        {0: point({0: 1.0}), 1: between({1: (0.0, 1.0), 3: (0.0, 1.0)})},
        {},
        {0: RowSet({2: Entry(0.0, 1.0)}, other_upper=0.25, others_upper=0.5)},
    ]
    game = reaching(rows, goal=0)
    found = solve(game, Total(np.zeros(4), game.graph.labels["goal"]), GUARANTEED)
    np.testing.assert_array_equal(found.values, [0, np.inf, np.inf, np.inf])
    assert found.choice[1] == game.graph.pair(1, 1)


def test_nature_leaves_a_component_for_a_worse_average() -> None:
    # Both bounds must move: from 0 towards state 1, where nature stays with -1.
    free = (0.0, 1.0)
    rows = [
        {0: between({2: (0.0, 0.8), 3: free})},
        {0: RowSet({}, 1.0, 1.0)},
        {0: between({0: (0.5, 1.0), 1: free})},
        {0: point({3: 1.0})},
    ]
    game = game_of(rows)
    reward = np.array([0.0, -1.0, 0.0, 0.0])
    found = solve(game, Average(reward), GUARANTEED)
    check_bounds(found, np.array([-2 / 3, -1, -5 / 6, 0]), "guaranteed")
    again = solve(game, Average(-reward), Mode(is_minimised=True, is_optimistic=False))
    check_bounds(again, np.array([2 / 3, 1, 5 / 6, 0]), "minimised")


def test_averages_of_components_that_only_nature_tells_apart() -> None:
    rows = [
        {0: between({0: (0.0, 1.0), 1: (0.15, 1.0)})},
        {0: between({2: (0.0, 1.0), 3: (0.0, 0.6)})},
        {0: point({2: 1.0})},
        {0: point({3: 1.0})},
    ]
    reward = np.array([0.0, 0.0, -1.0, 2.0])
    for mode, expected in (
        (Mode(is_minimised=True, is_optimistic=False), [0.8, 0.8, -1, 2]),
        (Mode(is_minimised=True, is_optimistic=True), [-1, -1, -1, 2]),
    ):
        check_bounds(solve(game_of(rows), Average(reward), mode), np.array(expected), str(mode))


def test_nature_pays_once_to_leave_a_loop_without_rewards() -> None:
    # The agent minimises. Whatever it does in state 1, nature can have 1 for ever.
    rows = [
        {0: point({1: 1.0})},
        {0: between({0: (0.0, 1.0), 3: (0.0, 1.0)}), 1: point({1: 1.0})},
        {},
        {0: point({3: 1.0})},
    ]
    game = game_of(rows, ends=np.array([False, False, True, False]))
    entry_reward = np.array([0.0, 0.0, -2.0, 1.0, 1.0])
    mode = Mode(is_minimised=True, is_optimistic=False)
    found = solve(game, Average(np.zeros(4)), mode, entry_reward)
    check_bounds(found, np.array([1.0, 1, 0, 1]), "guaranteed")


def test_gains_and_losses_without_end_are_refused() -> None:
    rows = [{0: between({0: (0.0, 1.0), 1: (0.0, 1.0)})}, {0: between({0: (0, 1), 2: (0, 1)})}, {}]
    game = reaching(rows, goal=2)
    goal = game.graph.labels["goal"]
    for rewards in ([1.0, -1.0], [-1.0, 1.0], [1.0, -2.0]):
        with pytest.raises(SolveError):
            solve(game, Total(np.array(rewards), goal), GUARANTEED)
    found = solve(game, Total(np.array([-2.0, 1.0]), goal), POSSIBLE)
    np.testing.assert_allclose(found.values, [-1, 1, 0], atol=TOLERANCE)
    worst = solve(game, Total(np.array([-2.0, 1.0]), goal), GUARANTEED)
    np.testing.assert_array_equal(worst.values, [-np.inf, -np.inf, 0])


def test_rewards_of_next_states_change_the_worst_row() -> None:
    row = between({1: (0.2, 0.8), 2: (0.2, 0.8)})
    game = reaching([{0: row}, {}, {}], goal=2)
    entry_reward = np.array([1.0, 5.0])
    for objective in all_sums(game):
        for mode, expected in ((GUARANTEED, 1.8), (POSSIBLE, 4.2)):
            found = solve(game, objective, mode, entry_reward)
            assert found.values[0] == pytest.approx(expected, abs=TOLERANCE)


def test_rewards_of_next_states_and_their_values_count_together() -> None:
    # State 1 is worth 3 more steps of reward 1, which outweighs the reward of going to state 2.
    row = between({1: (0.0, 1.0), 2: (0.0, 1.0)})
    rows = [{0: row}, {0: point({3: 1.0})}, {}, {0: point({2: 1.0})}]
    game = game_of(rows, goal=[2], ends=np.array([False, False, True, False]))
    entry_reward = np.array([0.0, 1.5, 1.0, 1.0])
    for mode, expected in ((GUARANTEED, 1.5), (POSSIBLE, 2.0)):
        found = solve(game, Total(np.zeros(3), game.graph.labels["goal"]), mode, entry_reward)
        np.testing.assert_allclose(found.values, [expected, 2, 0, 1], atol=TOLERANCE)


@pytest.mark.parametrize("shape", ["intervals", "l1"])
def test_rewards_of_others_are_earned_by_their_entries(shape: str) -> None:
    entries = {
        1: Entry(0.5, 1.0, estimate=1.0),
        2: Entry(0.0, 0.25, is_other=True),
        3: Entry(0.0, 0.25, is_other=True),
    }
    row = RowSet(entries, 0.0, 0.4, l1=0.8)
    ends = np.array([False, True, True, True])
    game = game_of([{0: row}, {}, {}, {}], shape, goal=[1, 2, 3], ends=ends)
    entry_reward = np.array([1.0, -10.0, -20.0])
    worst = 0.6 - 0.15 * 10 - 0.25 * 20 if shape == "intervals" else 0.6 - 0.4 * 20
    for objective in all_sums(game):
        for mode, expected in ((GUARANTEED, worst), (POSSIBLE, 1.0)):
            found = solve(game, objective, mode, entry_reward)
            assert found.values[0] == pytest.approx(expected, abs=TOLERANCE * 10)


def reaching(rows: list[dict[int, RowSet]], goal: int) -> Game:
    """Return a game with one goal, in which states without pairs are ends."""
    return game_of(rows, goal=[goal], ends=np.array([not row for row in rows]))


def expect(game: Game, guaranteed: list[float], possible: list[float]) -> None:
    """Check the chances of reaching the goal, and of avoiding it by the other mode."""
    objective = Until(game.graph.labels["goal"])
    for is_minimised in (False, True):
        for is_optimistic in (False, True):
            mode = Mode(is_minimised, is_optimistic)
            found = solve(game, objective, mode)
            n_actions = np.diff(game.graph.pair_start).max()
            if is_minimised and n_actions > 1:
                continue  # the agent would choose otherwise
            expected = possible if mode.nature_maximises else guaranteed
            check_bounds(found, np.array(expected, np.float64), str(mode))


def all_sums(game: Game) -> list[Objective]:
    """Return objectives that all earn the rewards of the first step, and no others."""
    none, goal = np.zeros(len(game.rows)), game.graph.labels["goal"].copy()
    goal[1:] = True
    return [Total(none, goal), Cumulative(none, 1), Cumulative(none, 7), Discounted(none, 0.5)]
