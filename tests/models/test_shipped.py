"""Every shipped model: the claims in its opening comment, and facts known independently."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

import mdpdsl
from mdpdsl.compile.properties import question
from mdpdsl.graph.analysis import communicating_classes, is_communicating, reachable_states
from mdpdsl.graph.ends import absorb
from mdpdsl.graph.objectives import Total, Until
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph

MODELS = Path(__file__).parents[2] / "models"
NAMES = sorted(path.stem for path in MODELS.glob("*.mdp"))

EXACT = 1e-12  # for sums of a few numbers in the file
CDF = 1e-9  # for cell probabilities that are differences of normal CDFs
ITERATED = 1e-9  # for values from iterating until nothing changes

#: The language reference has this model without a title.
UNTITLED = {"weather"}
#: These declare only their spaces, by design.
WITHOUT_DYNAMICS = {"pendulum_unknown"}
#: This one has states that are only in the table of the source.
NOT_COMMUNICATING = {"cliff_walking"}
#: The models whose episodes end.
EPISODIC = {
    "bayes_bandit",
    "cart_pole",
    "cliff_walking",
    "frozen_lake",
    "frozen_lake_8x8",
    "gambler",
    "knuth_yao",
    "slippery_lake",
    "taxi",
    "windy_gridworld",
    "zeroconf",
}


@cache
def load(name: str, **params: Any) -> TransitionGraph:
    return mdpdsl.load(MODELS / f"{name}.mdp", **params).graph


# What every file must contain


def opening_comment(name: str) -> str:
    text = (MODELS / f"{name}.mdp").read_text(encoding="utf-8")
    lines = itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())
    return "\n".join(line[1:].strip() for line in lines)


def test_there_are_at_least_twenty_models() -> None:
    assert len(NAMES) >= 20


@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_named_as_its_file_and_has_a_title(name: str) -> None:
    text = (MODELS / f"{name}.mdp").read_text(encoding="utf-8")
    header = re.search(r'^mdp (\w+)(?: "(.+)")?$', text, re.MULTILINE)
    assert header is not None
    assert header[1] == name
    assert bool(header[2]) == (name not in UNTITLED)


@pytest.mark.parametrize("name", NAMES)
def test_the_opening_comment_names_source_with_year_and_purpose(name: str) -> None:
    comment = opening_comment(name)
    source = re.search(r"^Source:(.*?)^Size:", comment, re.MULTILINE | re.DOTALL)
    assert source is not None
    assert re.search(r"(19|20)\d\d", source[1])
    assert re.search(r"^Good for: +\S", comment, re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_the_size_in_the_opening_comment_is_that_of_the_model(name: str) -> None:
    size = re.search(r"^Size: +(\d+) states, (\d+) pairs$", opening_comment(name), re.MULTILINE)
    graph = load(name)
    assert size is not None
    assert (int(size[1]), int(size[2])) == (graph.n_states, graph.n_pairs)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_well_formed(name: str) -> None:
    graph = load(name)
    graph.validate()
    assert graph.has_dynamics == (name not in WITHOUT_DYNAMICS)
    if graph.has_dynamics:
        sums = np.asarray(graph.transition_matrix().sum(axis=1)).ravel()
        np.testing.assert_allclose(sums, 1, rtol=0, atol=EXACT)
    np.testing.assert_allclose(graph.initial.sum(), 1, rtol=0, atol=EXACT)


@pytest.mark.parametrize("name", sorted(set(NAMES) - WITHOUT_DYNAMICS))
def test_a_reward_of_branches_has_the_expectation_that_is_stored(name: str) -> None:
    graph = load(name)
    if graph.branch_reward is not None:
        weighted = graph.probability * graph.branch_reward
        expected = np.add.reduceat(weighted, graph.successor_start[:-1])
        np.testing.assert_allclose(rewards_of(graph), expected, rtol=0, atol=ITERATED)


@pytest.mark.parametrize("name", sorted(set(NAMES) - WITHOUT_DYNAMICS))
def test_a_model_can_be_explored_for_ever_unless_it_says_otherwise(name: str) -> None:
    assert is_communicating(load(name).closed) == (name not in NOT_COMMUNICATING)


@pytest.mark.parametrize("name", NAMES)
def test_episodic_models_have_ends_and_no_switch_for_them(name: str) -> None:
    model = mdpdsl.load(MODELS / f"{name}.mdp")
    assert (model.graph.ends is not None) == (name in EPISODIC)
    assert "episodic" not in model.parameters
    if name in EPISODIC:
        assert "restart when" not in (MODELS / f"{name}.mdp").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(EPISODIC))
def test_no_reward_is_lost_in_an_end(name: str) -> None:
    assert not mdpdsl.load(MODELS / f"{name}.mdp").diagnose()


def test_episodes_end_in_the_states_that_the_labels_name() -> None:
    named = {
        "cart_pole": ("fallen",),
        "cliff_walking": ("goal",),
        "frozen_lake": ("hole", "goal"),
        "frozen_lake_8x8": ("hole", "goal"),
        "gambler": ("won", "lost"),
        "knuth_yao": ("done",),
        "slippery_lake": ("hole", "goal"),
        "taxi": ("delivered",),
        "windy_gridworld": ("goal",),
        "zeroconf": ("clash", "fine"),
    }
    for name, labels in named.items():
        graph = load(name)
        expected = np.any([graph.labels[label] for label in labels], axis=0)
        np.testing.assert_array_equal(graph.ends, expected, err_msg=name)


# Finite models


def test_riverswim_has_the_matrix_of_the_paper() -> None:
    left = np.array(
        [
            [1, 0, 0, 0, 0, 0],
            [1, 0, 0, 0, 0, 0],
            [0, 1, 0, 0, 0, 0],
            [0, 0, 1, 0, 0, 0],
            [0, 0, 0, 1, 0, 0],
            [0, 0, 0, 0, 1, 0],
        ]
    )
    right = np.array(
        [
            [0.40, 0.60, 0.00, 0.00, 0.00, 0.00],
            [0.05, 0.60, 0.35, 0.00, 0.00, 0.00],
            [0.00, 0.05, 0.60, 0.35, 0.00, 0.00],
            [0.00, 0.00, 0.05, 0.60, 0.35, 0.00],
            [0.00, 0.00, 0.00, 0.05, 0.60, 0.35],
            [0.00, 0.00, 0.00, 0.00, 0.40, 0.60],
        ]
    )
    assert_rows("riverswim", [left, right])
    rewards = np.zeros((6, 2))
    rewards[0, 0], rewards[5, 1] = 0.005, 1
    np.testing.assert_allclose(rewards_of(load("riverswim")), rewards.ravel(), rtol=0, atol=EXACT)


def test_riverswim_pays_most_for_always_swimming_right() -> None:
    weights = np.array([1, 12, 84, 588, 4116, 3601.5])  # detailed balance, from the left
    np.testing.assert_allclose(best_gain("riverswim"), weights[-1] / weights.sum(), atol=ITERATED)


def test_weather_is_its_two_tables() -> None:
    walk, drive = np.array([[0.8, 0.2], [0.4, 0.6]]), np.array([[0.9, 0.1], [0.5, 0.5]])
    assert_rows("weather", [walk, drive])
    np.testing.assert_allclose(load("weather").initial, [0.5, 0.5], rtol=0, atol=EXACT)


def test_forest_equals_the_toolboxs_closed_form() -> None:
    for n_ages, fire in [(3, 0.1), (7, 0.25)]:
        wait, cut = np.zeros((n_ages, n_ages)), np.zeros((n_ages, n_ages))
        wait[:, 0] = fire
        for age in range(n_ages):
            wait[age, min(age + 1, n_ages - 1)] += 1 - fire
        cut[:, 0] = 1
        rewards = np.zeros((n_ages, 2))
        rewards[1:-1, 1] = 1
        rewards[-1] = [4, 2]
        assert_rows("forest", [wait, cut], ages=n_ages, fire=fire)
        reward = rewards_of(load("forest", ages=n_ages, fire=fire))
        np.testing.assert_allclose(reward, rewards.ravel(), rtol=0, atol=EXACT)


def test_forest_has_the_values_that_the_toolbox_documents() -> None:
    values = optimal_values(load("forest"), discount=0.9)
    np.testing.assert_allclose(values, [26.244, 29.484, 33.484], rtol=0, atol=1e-8)


def test_chain_is_worth_what_strens_reports_per_thousand_steps() -> None:
    np.testing.assert_allclose(best_gain("chain"), 3.6768, rtol=0, atol=ITERATED)


def test_double_loop_is_worth_two_fifths_and_one_fifth_on_the_right() -> None:
    np.testing.assert_allclose(best_gain("double_loop"), 2 / 5, rtol=0, atol=ITERATED)
    always_a = np.zeros(9, dtype=np.int64)
    np.testing.assert_allclose(gain(load("double_loop"), always_a), 1 / 5, rtol=0, atol=ITERATED)


def test_toymaker_earns_one_by_waiting_and_two_by_spending() -> None:
    graph = load("toymaker")
    np.testing.assert_allclose(gain(graph, np.array([0, 0])), 1, rtol=0, atol=ITERATED)
    np.testing.assert_allclose(best_gain("toymaker"), 2, rtol=0, atol=ITERATED)


def test_six_arms_has_the_paper_s_chances_and_prizes() -> None:
    graph = load("six_arms")
    chances, prizes = [1, 0.15, 0.1, 0.05, 0.03, 0.01], [50, 133, 300, 800, 1660, 6000]
    P, reward = dense(graph), rewards_of(graph)
    for arm, chance in enumerate(chances):
        expected = np.zeros(7)
        expected[arm + 1] += chance
        expected[0] += 1 - chance
        np.testing.assert_allclose(P[graph.pair(0, arm)], expected, rtol=0, atol=EXACT)
    for room, prize in enumerate(prizes, start=1):
        for arm in range(6):
            holds = arm != 4 if room == 1 else arm == room - 1
            pair = graph.pair(room, arm)
            assert P[pair, room if holds else 0] == 1
            assert reward[pair] == (prize if holds else 0)


def test_inventory_has_puterman_s_table() -> None:
    graph = load("inventory")
    after = np.array([[4, 0, 0, 0], [3, 1, 0, 0], [1, 2, 1, 0], [0, 1, 2, 1]]) / 4
    rewards = {
        (0, 0): 0, (0, 1): -1, (0, 2): -2, (0, 3): -5,
        (1, 0): 5, (1, 1): 0, (1, 2): -3,
        (2, 0): 6, (2, 1): -1,
        (3, 0): 5,
    }  # fmt: skip
    P, paid = dense(graph), rewards_of(graph)
    assert graph.n_pairs == len(rewards)
    for (stock, order), reward in rewards.items():
        pair = graph.pair(stock, order)
        np.testing.assert_allclose(P[pair], after[stock + order], rtol=0, atol=EXACT)
        np.testing.assert_allclose(paid[pair], reward, rtol=0, atol=EXACT)


def test_machine_replacement_is_best_run_by_a_threshold() -> None:
    graph = load("machine_replacement")
    damage = [0.5, 0.3, 0.2]
    run = np.zeros((8, 8))
    for wear, hit in itertools.product(range(8), range(3)):
        run[wear, min(wear + hit, 7)] += damage[hit]
    assert_rows("machine_replacement", [run, np.tile(run[0], (8, 1))])
    replaces = best_actions(graph, discount=0.95)
    assert 0 < replaces.sum() < 8
    np.testing.assert_array_equal(replaces, np.sort(replaces))


def test_two_machines_are_independent_when_no_one_repairs() -> None:
    graph = load("two_machines")
    ageing = [np.array([[1 - p, p, 0], [0, 1 - p, p], [0, 0, 1]]) for p in (0.1, 0.2)]  # of a, of b
    repair_a = np.array([[1, 0, 0], [0.8, 0.2, 0], [0.8, 0, 0.2]])
    P = dense(graph)
    np.testing.assert_allclose(P[0::3], np.kron(*ageing), rtol=0, atol=EXACT)
    np.testing.assert_allclose(P[1::3], np.kron(repair_a, ageing[1]), rtol=0, atol=EXACT)


def test_a_queue_that_admits_all_has_a_geometric_length() -> None:
    graph = load("queue")
    weights = (0.4 / 0.5) ** np.arange(11)
    long_run = stationary(dense(graph)[0::2])
    np.testing.assert_allclose(long_run, weights / weights.sum(), rtol=0, atol=ITERATED)


def test_a_queue_is_best_run_by_a_threshold() -> None:
    rejects = best_actions(load("queue"), discount=0.99)[:10]  # a full queue has no choice
    assert 0 < rejects.sum() < 10
    np.testing.assert_array_equal(rejects, np.sort(rejects))


def test_gambler_wins_as_often_as_bold_play_does() -> None:
    graph = load("gambler")
    expected = [bold_play(capital, 100, 0.4) for capital in range(1, 100)]
    values = optimal_values(graph)
    np.testing.assert_allclose(values[1:100], expected, rtol=0, atol=ITERATED)
    assert values[50] == pytest.approx(0.4)
    assert values[25] == pytest.approx(0.16)


def bold_play(capital: int, goal: int, heads: float) -> float:
    """Return the probability of reaching the goal by bold play (Dubins, Savage 1965)."""
    # The binary fraction capital/goal need not end; 60 digits are beyond rounding.
    value, chance = 0.0, 1.0
    for _ in range(60):
        capital *= 2
        if capital >= goal:
            value += chance * heads
            capital -= goal
            chance *= 1 - heads
        else:
            chance *= heads
        if capital == 0:
            break
    return value


def test_frozen_lake_is_crossed_14_times_in_17() -> None:
    assert optimal_values(load("frozen_lake"))[0] == pytest.approx(14 / 17, abs=ITERATED)


def test_the_large_frozen_lake_can_be_crossed_for_sure() -> None:
    assert optimal_values(load("frozen_lake_8x8"))[0] == pytest.approx(1, abs=1e-6)


def test_cliff_walking_takes_thirteen_steps() -> None:
    graph = load("cliff_walking")
    values = optimal_values(graph)
    assert graph.initial @ values == -13


def test_a_taxi_ride_returns_793_hundredths_on_average() -> None:
    graph = load("taxi")
    assert graph.initial @ optimal_values(graph) == pytest.approx(7.93, abs=ITERATED)


def test_windy_gridworld_takes_fifteen_steps() -> None:
    graph = load("windy_gridworld")
    values = optimal_values(graph)
    assert graph.initial @ values == -15


def test_a_gridworld_slips_to_both_sides() -> None:
    n, slip = 4, 0.3
    graph = load("gridworld", n=n, slip=slip)
    moves = [(0, 1), (1, 0), (0, -1), (-1, 0)]  # north, east, south, west
    P = dense(graph)
    assert graph.n_states == n * n
    for x, y in itertools.product(range(n), repeat=2):
        for action, (dx, dy) in enumerate(moves):
            expected = np.zeros((n, n))
            if x == y == n - 1:
                expected[0, 0] = 1
            else:
                chances = [(dx, dy, 1 - slip), (dy, dx, slip / 2), (-dy, -dx, slip / 2)]
                for step_x, step_y, chance in chances:
                    to = np.clip([x + step_x, y + step_y], 0, n - 1)
                    expected[to[0], to[1]] += chance
            row = P[graph.pair(graph.state(x=x, y=y), action)]
            np.testing.assert_allclose(row, expected.ravel(), rtol=0, atol=EXACT)


def test_four_rooms_has_the_walls_of_its_picture() -> None:
    graph = load("four_rooms")
    picture = [line.split() for line in opening_comment("four_rooms").splitlines()]
    rows = [line[:11] for line in picture if len(line) >= 11 and set(line[:11]) <= {".", "#"}]
    assert len(rows) == 11
    free = {(r, c) for r in range(11) for c in range(11) if rows[r][c] == "."}
    states = [tuple(graph.states.native(s).values()) for s in range(graph.n_states)]
    assert set(states) == free
    steps = [(-1, 0), (0, 1), (1, 0), (0, -1)]  # north, east, south, west
    P = dense(graph)
    for state, (row, col) in enumerate(states):
        for heading, taken in itertools.product(range(4), repeat=2):
            assert isinstance(row, int)
            assert isinstance(col, int)
            to = (row + steps[taken][0], col + steps[taken][1])
            target = states.index(to if to in free else (row, col))
            P[graph.pair(state, heading), target] -= 2 / 3 if heading == taken else 1 / 9
    np.testing.assert_allclose(P, 0, rtol=0, atol=EXACT)


def test_knuth_and_yao_throw_a_fair_die_with_eleven_thirds_tosses() -> None:
    graph = load("knuth_yao")
    step = dense(absorb(graph)[0])
    for _ in range(10):
        step = step @ step
    faces = graph.states.values("d")
    chances = [graph.initial @ step @ (faces == face) for face in range(1, 7)]
    np.testing.assert_allclose(chances, 1 / 6, rtol=0, atol=EXACT)
    tosses = optimal_values(graph)
    assert graph.initial @ tosses == pytest.approx(11 / 3, abs=ITERATED)


def test_zeroconf_clashes_as_rarely_as_the_closed_form_says() -> None:
    for n, lost in [(4, 0.1), (2, 0.5)]:
        graph = load("zeroconf", n=n, lost=lost)
        step = dense(absorb(graph)[0])
        for _ in range(10):
            step = step @ step
        q, p = 1000 / 65024, lost
        expected = q * p**n / (1 - q * (1 - p**n))
        chance = graph.initial @ step @ graph.labels["clash"]
        assert chance == pytest.approx(expected, rel=1e-9)
        probes = q * (1 - p**n) / ((1 - p) * (1 - q * (1 - p**n)))
        counted = replace(graph, reward=graph.rewards["probes"])
        assert graph.initial @ optimal_values(counted) == pytest.approx(probes, rel=1e-9)


def test_models_ask_what_their_comments_answer() -> None:
    found = {name: dict(mdpdsl.load(name).properties) for name in mdpdsl.shipped_models()}
    assert {name: list(asked) for name, asked in found.items() if asked} == {
        "frozen_lake": ["safe", "soon"],
        "knuth_yao": ["fair", "tosses"],
        "slippery_lake": ["safe"],
        "zeroconf": ["error", "cost"],
    }
    for name, asked in found.items():
        model = mdpdsl.load(name)
        for each in asked:
            objective = question(model, model.graph, each).objective
            if isinstance(objective, Until | Total):
                assert objective.goal.any()


def test_bayes_bandit_is_worth_what_recursion_gives() -> None:
    @cache
    def worth(wins_a: int, losses_a: int, wins_b: int, losses_b: int) -> float:
        if wins_a + losses_a + wins_b + losses_b == 8:
            return 0.0
        a, b = (wins_a + 1) / (wins_a + losses_a + 2), (wins_b + 1) / (wins_b + losses_b + 2)
        lost_a = worth(wins_a, losses_a + 1, wins_b, losses_b)
        lost_b = worth(wins_a, losses_a, wins_b, losses_b + 1)
        pull_a = a * (1 + worth(wins_a + 1, losses_a, wins_b, losses_b)) + (1 - a) * lost_a
        pull_b = b * (1 + worth(wins_a, losses_a, wins_b + 1, losses_b)) + (1 - b) * lost_b
        return max(pull_a, pull_b)

    graph = load("bayes_bandit")
    assert graph.n_states == math.comb(8 + 4, 4)
    value = graph.initial @ optimal_values(graph)
    assert value == pytest.approx(worth(0, 0, 0, 0), abs=ITERATED)
    assert value == pytest.approx(4.7595, abs=5e-5)


def test_jacks_cars_move_as_enumerated_by_hand() -> None:
    graph = load("jacks_car_rental")
    poisson = [math.exp(-1), math.exp(-1), math.exp(-1) / 2]
    poisson.append(1 - sum(poisson))
    P, rewards = dense(graph), rewards_of(graph)
    n_pairs = 0
    for a, b, shift in itertools.product(range(6), range(6), range(-2, 3)):
        if not -b <= shift <= a:
            continue
        n_pairs += 1
        expected, earned = np.zeros((6, 6)), -2.0 * abs(shift)
        for ask_a, ask_b, back_a, back_b in itertools.product(range(4), repeat=4):
            chance = poisson[ask_a] * poisson[ask_b] * poisson[back_a] * poisson[back_b]
            open_a, open_b = min(a - shift, 5), min(b + shift, 5)
            rented_a, rented_b = min(ask_a, open_a), min(ask_b, open_b)
            to = min(open_a - rented_a + back_a, 5), min(open_b - rented_b + back_b, 5)
            expected[to] += chance
            earned += chance * 10 * (rented_a + rented_b)
        pair = graph.pair(6 * a + b, shift + 2)
        np.testing.assert_allclose(P[pair], expected.ravel(), rtol=0, atol=EXACT)
        np.testing.assert_allclose(rewards[pair], earned, rtol=0, atol=1e-10)
    assert graph.n_pairs == n_pairs


# Models that say what is not known


def test_a_slippery_lake_is_frozen_lake_whatever_its_ice() -> None:
    for slip in (0, 0.3, 2 / 3, 1):
        lake, known = load("slippery_lake", slip=slip), load("frozen_lake", success=1 - slip)
        np.testing.assert_allclose(dense(lake), dense(known), rtol=0, atol=EXACT)
    assert load("slippery_lake").knowledge is not None
    assert load("slippery_lake").to_learn.all()


def test_the_possible_steps_on_ice_are_those_of_some_ice() -> None:
    graph = load("slippery_lake")
    known = graph.knowledge
    assert known is not None
    reached = np.zeros((graph.n_pairs, graph.n_states), np.bool_)
    for slip in (0, 0.5, 1):
        reached |= dense(load("slippery_lake", slip=slip)) > 0
    possible = np.zeros_like(reached)
    possible[known.entry_pair, known.successor] = True
    np.testing.assert_array_equal(possible, reached)


def test_the_frictionless_pendulum_with_an_honest_motor_is_the_plain_one() -> None:
    graph = load("pendulum_friction", friction=0, gain=1, shake=0.2)
    angle_edges, speed_edges = np.linspace(-np.pi, np.pi, 11), np.linspace(-8, 8, 11)
    theta, omega, u = np.meshgrid(
        centers(angle_edges), centers(speed_edges), [-2.0, -1, 0, 1, 2], indexing="ij"
    )
    speed = omega + 0.05 * (15 * np.sin(theta) + 3 * u)
    angle = wrapped_cells(theta + 0.05 * omega, 0.12, angle_edges)
    expected = np.einsum("...i,...j->...ij", angle, clipped_cells(speed, 0.2, speed_edges))
    np.testing.assert_allclose(dense(graph), expected.reshape(500, 100), rtol=0, atol=CDF)


def test_a_queue_in_a_hurry_has_a_geometric_length() -> None:
    graph = load("queue_rates")
    weights = (0.3 / 0.5) ** np.arange(11)
    long_run = stationary(dense(graph)[1::2])
    np.testing.assert_allclose(long_run, weights / weights.sum(), rtol=0, atol=ITERATED)


def test_maintenance_leaves_repairs_and_wear_open_and_nothing_else() -> None:
    graph = load("maintenance")
    known = graph.knowledge
    assert known is not None
    names = [str(graph.states.native(s)["machine"]) for s in range(graph.n_states)]
    unknown = {
        (names[graph.pair_state[pair]], graph.actions.labels[graph.pair_action[pair]])
        for pair in np.flatnonzero(~known.is_known)
    }
    used = {"worn", "failing", "broken"}
    assert unknown == {
        *((state, "run") for state in ("new", "worn")),  # if it fails, the next state is certain
        *((state, crew) for state in used for crew in ("first_crew", "second_crew")),
    }
    new, run = graph.state(machine="new"), 0
    np.testing.assert_allclose(dense(graph)[graph.pair(new, run)], [0.6, 0.35, 0, 0.05], atol=EXACT)


@pytest.mark.parametrize(
    "name", ["maintenance", "pendulum_friction", "queue_rates", "slippery_lake"]
)
def test_a_model_with_unknown_numbers_can_be_simulated_and_is_short(name: str) -> None:
    assert mdpdsl.load(MODELS / f"{name}.mdp").missing == ()
    text = (MODELS / f"{name}.mdp").read_text(encoding="utf-8")
    assert sum(not line.startswith("#") for line in text.splitlines()) < 40


# Continuous models


def test_pendulum_and_mountain_car_are_the_sizes_of_the_paper_and_communicate() -> None:
    for name, n_states, n_pairs in [("pendulum", 100, 500), ("mountain_car", 169, 507)]:
        graph = load(name)
        assert (graph.n_states, graph.n_pairs) == (n_states, n_pairs)
        assert communicating_classes(graph).n_classes == 1


def test_pendulum_has_the_cell_probabilities_of_its_equations() -> None:
    angle_edges, speed_edges = np.linspace(-np.pi, np.pi, 11), np.linspace(-8, 8, 11)
    theta, omega, u = np.meshgrid(
        centers(angle_edges), centers(speed_edges), [-2.0, -1, 0, 1, 2], indexing="ij"
    )
    speed = np.clip(omega + 0.05 * (15 * np.sin(theta) + 3 * u), -8, 8)
    angle = wrapped_cells(theta + 0.05 * speed, 0.12, angle_edges)
    expected = np.einsum("...i,...j->...ij", angle, clipped_cells(speed, 0.1, speed_edges))
    np.testing.assert_allclose(
        dense(load("pendulum")), expected.reshape(500, 100), rtol=0, atol=CDF
    )


def test_pendulum_starts_hanging_and_at_rest() -> None:
    graph = load("pendulum")
    start = graph.states.native(int(np.argmax(graph.initial)))
    assert graph.initial.max() == 1
    assert abs(float(start["theta"])) > 0.9 * np.pi - EXACT
    assert abs(float(start["omega"])) <= 0.8 + EXACT


def test_mountain_car_has_the_cell_probabilities_of_its_equations() -> None:
    x_edges, v_edges = np.linspace(-1.2, 0.6, 14), np.linspace(-0.07, 0.07, 14)
    x, v, push = np.meshgrid(centers(x_edges), centers(v_edges), [-1.0, 0, 1], indexing="ij")
    speed = np.clip(v + 0.001 * push - 0.0025 * np.cos(3 * x), -0.07, 0.07)
    place = np.clip(x + speed, -1.2, 0.6)
    after = np.where((place <= -1.2) & (speed < 0), 0, speed)
    expected = np.einsum(
        "...i,...j->...ij", clipped_cells(place, 0.05, x_edges), clipped_cells(after, 0.02, v_edges)
    )
    start = np.outer(uniform_cells(-0.6, -0.4, x_edges), np.eye(13)[6])
    expected[12] = start  # the only cells whose centre lies beyond the flag at 0.5
    graph = load("mountain_car")
    np.testing.assert_allclose(graph.initial, start.ravel(), rtol=0, atol=CDF)
    np.testing.assert_allclose(dense(graph), expected.reshape(507, 169), rtol=0, atol=CDF)


def test_double_integrator_has_the_averages_over_points_of_its_cells() -> None:
    edges = np.linspace(-1, 1, 16)
    graph = load("double_integrator")
    P = dense(graph)
    for pair in range(0, graph.n_pairs, 7):
        p_cell, v_cell = divmod(int(graph.pair_state[pair]), 15)
        u = float(graph.pair_action[pair] - 1)
        p, v = np.meshgrid(points(edges, p_cell, 5), points(edges, v_cell, 5), indexing="ij")
        place = clipped_cells(p + 0.2 * v + 0.2**2 / 2 * u, 0, edges)
        speed = clipped_cells(v + 0.2 * u, 0.05, edges)
        expected = np.einsum("abi,abj->ij", place, speed) / 25
        np.testing.assert_allclose(P[pair], expected.ravel(), rtol=0, atol=CDF)


def test_thermostat_remembers_whether_it_heats() -> None:
    graph = load("thermostat")
    edges = np.linspace(14, 24, 41)
    P = dense(graph).reshape(40, 2, 2, 40, 2)  # temperature, heating, action, and both again
    for cell, heats in itertools.product(range(40), range(2)):
        warmth = points(edges, cell, 5)
        mean = warmth + 0.0375 * (6 - warmth) + 0.65 * heats
        expected = clipped_cells(mean, 0.25, edges).mean(axis=0)
        action = 1 - heats  # `heat` comes first
        for heating in range(2):
            row = P[cell, heating, action]
            np.testing.assert_allclose(row[:, heats], expected, rtol=0, atol=CDF)
            assert not row[:, 1 - heats].any()


def test_fishery_multiplies_by_the_year() -> None:
    graph = load("fishery")
    edges = np.linspace(0, 1.2, 25)
    cells = graph.states.cells("stock")
    P = dense(graph)
    for pair, share in enumerate(np.tile([0, 0.2, 0.4, 0.6, 0.8], graph.n_states)):
        escaped = points(edges, int(cells[graph.pair_state[pair]]), 5) * (1 - share)
        mean = escaped * np.exp(1 - escaped)
        below = np.clip((edges[1:-1] - 0.8 * mean[:, None]) / (0.4 * mean[:, None]), 0, 1)
        ends = np.ones((5, 1))
        expected = np.diff(np.hstack([0 * ends, below, ends]), axis=1).mean(axis=0)
        np.testing.assert_allclose(P[pair], expected[cells], rtol=0, atol=CDF)


def test_cart_pole_ends_exactly_where_it_has_failed() -> None:
    graph = load("cart_pole")
    x, theta = graph.states.values("x"), graph.states.values("theta")
    fallen = (np.abs(x) > 2.4) | (np.abs(theta) > np.radians(12))
    np.testing.assert_array_equal(graph.labels["fallen"], fallen)
    np.testing.assert_array_equal(graph.ends, fallen)
    assert reachable_states(graph).all()


def test_the_unknown_pendulum_has_the_spaces_of_the_known_one() -> None:
    known, unknown = load("pendulum"), load("pendulum_unknown")
    assert not unknown.has_dynamics
    assert [v.describe() for v in unknown.states.variables] == [
        v.describe() for v in known.states.variables
    ]
    assert unknown.actions.labels == known.actions.labels


# Reference algorithms: small, dense and slow


def dense(graph: TransitionGraph) -> FloatArray:
    """Return P, [n_pairs, n_states]."""
    return np.asarray(graph.transition_matrix().toarray())


def rewards_of(graph: TransitionGraph) -> FloatArray:
    """Return the expected reward of every pair."""
    assert graph.reward is not None
    return graph.reward


def assert_rows(name: str, matrices: list[FloatArray], **params: float) -> None:
    """Compare a model with one matrix per action, every action available everywhere."""
    expected = np.stack(matrices, axis=1).reshape(-1, len(matrices[0]))
    np.testing.assert_allclose(dense(load(name, **params)), expected, rtol=0, atol=EXACT)


def optimal_values(graph: TransitionGraph, discount: float = 1.0) -> FloatArray:
    """Return the optimal values by value iteration; ends are worth 0."""
    graph, _ = absorb(graph)
    P, reward = graph.transition_matrix(), rewards_of(graph)
    values = np.zeros(graph.n_states)
    for _ in range(100_000):
        worth = reward + discount * (P @ values)
        new = np.maximum.reduceat(worth, graph.pair_start[:-1])
        if np.max(np.abs(new - values)) < 1e-12:
            return new
        values = new
    raise AssertionError("value iteration did not settle")


def best_actions(graph: TransitionGraph, discount: float) -> IntArray:
    """Return the index of the best action of each state, every action available everywhere."""
    values = optimal_values(graph, discount)
    worth = rewards_of(graph) + discount * (graph.transition_matrix() @ values)
    return np.asarray(np.argmax(worth.reshape(graph.n_states, graph.n_actions), axis=1))


def best_gain(name: str) -> float:
    """Return the largest reward per step of all deterministic policies."""
    graph = load(name)
    choices = [range(n) for n in np.diff(graph.pair_start)]
    return max(gain(graph, np.array(policy)) for policy in itertools.product(*choices))


def gain(graph: TransitionGraph, policy: IntArray) -> float:
    """Return the reward per step from the start, of the i-th available action in each state."""
    pairs = graph.pair_start[:-1] + policy
    lazy = (dense(graph)[pairs] + np.eye(graph.n_states)) / 2  # aperiodic, the same long run
    for _ in range(40):
        lazy = lazy @ lazy
        lazy /= lazy.sum(axis=1, keepdims=True)
    return float(graph.initial @ lazy @ rewards_of(graph)[pairs])


def stationary(P: FloatArray) -> FloatArray:
    """Return the stationary distribution of an irreducible chain."""
    n = len(P)
    balance = np.vstack([P.T - np.eye(n), np.ones(n)])
    return np.asarray(np.linalg.lstsq(balance, np.append(np.zeros(n), 1), rcond=None)[0])


def centers(edges: FloatArray) -> FloatArray:
    return (edges[:-1] + edges[1:]) / 2


def points(edges: FloatArray, cell: int, number: int) -> FloatArray:
    """Return the middles of the equal parts of a cell."""
    ends = np.linspace(edges[cell], edges[cell + 1], number + 1)
    return centers(ends)


def clipped_cells(mean: FloatArray, deviation: float, edges: FloatArray) -> FloatArray:
    """Return the probability of each cell for normal values clipped at the ends, [..., cell]."""
    inner, mean = edges[1:-1], mean[..., None]
    below = ndtr((inner - mean) / deviation) if deviation else (mean < inner).astype(float)
    ends = np.ones_like(mean)
    return np.diff(np.concatenate([0 * ends, below, ends], axis=-1), axis=-1)


def wrapped_cells(mean: FloatArray, deviation: float, edges: FloatArray) -> FloatArray:
    """Return the probability of each cell for normal values on a circle, [..., cell]."""
    span = edges[-1] - edges[0]
    chances = np.zeros((*mean.shape, len(edges) - 1))
    for turn in range(-3, 4):
        shifted = (edges + turn * span - mean[..., None]) / deviation
        chances += np.diff(ndtr(shifted), axis=-1)
    return chances


def uniform_cells(low: float, high: float, edges: FloatArray) -> FloatArray:
    """Return the probability of each cell for a uniform value."""
    return np.diff(np.clip((edges - low) / (high - low), 0, 1))
