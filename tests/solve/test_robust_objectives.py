"""Every objective on tiny models with sets of rows, against the values of all policies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from mdpdsl.diagnostics import SolveError
from mdpdsl.graph.objectives import Average, Cumulative, Discounted, Next, Objective, Total, Until
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.solve.solution import SolveOutcome
from mdpdsl.solve.solve_objective import solve_objective
from tests.solve.exhaustive import tiny_graph
from tests.solve.robust_chains import EXACT, may_stay
from tests.solve.robust_checks import check_attained, check_bounds, solve
from tests.solve.robust_exhaustive import (
    MODES,
    Answer,
    Evaluate,
    Mode,
    Options,
    answers,
    backed_up,
    by_average,
    by_discounting,
    by_total,
    by_until,
    kl_chances,
)
from tests.solve.robust_games import Game, points, tiny_game, tiny_hub

#: The number of models of each shape.
N_MODELS = {"intervals": 180, "l1": 70, "kl": 50}
#: Ranges of random rewards: costs, gains, both, and often none.
REWARDS = {"costs": (-3, 0), "gains": (0, 3), "both": (-2, 2)}

all_shapes = pytest.mark.parametrize("shape", N_MODELS)


@cache
def game(shape: str, number: int) -> Game:
    """Return one of the models; every other one has all possible successors listed."""
    rng = np.random.default_rng([21, list(N_MODELS).index(shape), number])
    return tiny_game(rng, shape, lists_all=number % 2 == 0)


@cache
def hub(number: int, is_absorbing: bool) -> Game:
    """Return one of the models with balls of KL whose chains are simple without discounting."""
    return tiny_hub(np.random.default_rng([22, number, is_absorbing]), is_absorbing)


def cases(shape: str, is_absorbing: bool | None = None) -> Iterator[tuple[str, Game]]:
    """Yield models with their names; those of balls of KL are simple if they absorb or do not."""
    for number in range(N_MODELS[shape]):
        if shape == "kl" and is_absorbing is not None:
            yield f"hub({number}, {is_absorbing})", hub(number, is_absorbing)
        else:
            yield f"game({shape!r}, {number})", game(shape, number)


@dataclass(frozen=True, eq=False)
class Reward:
    """A reward of pairs or, if they have any, of entries."""

    pairs: FloatArray  # [n_pairs]
    entries: FloatArray | None  # [n_entries]
    worth: FloatArray  # [n_pairs] or [n_pairs, n_states]

    def before(self, game: Game, goal: BoolArray) -> FloatArray:
        """Return all numbers that can be earned before a goal."""
        is_before = ~goal[game.graph.pair_state]
        if self.entries is None:
            return self.pairs[is_before]
        return self.entries[np.repeat(is_before, np.diff(game.sets.successor_start))]


def random_reward(game: Game, rng: np.random.Generator, kind: str) -> Reward:
    """Return whole rewards; those of entries only if all possible successors have one."""
    low, high = REWARDS[kind]

    def drawn(n: int) -> FloatArray:
        return np.asarray(rng.integers(low, high + 1, n) * (rng.random(n) < 0.7), np.float64)

    pairs = drawn(len(game.rows))
    is_listed = all(row.others_upper == 0 or row.other_upper == 0 for row in game.rows)
    if not is_listed or rng.random() < 0.4:
        return Reward(pairs, None, pairs)
    entries = drawn(len(game.sets.successor))
    return Reward(pairs, entries, game.matrix(entries))


def check(
    name: str,
    game: Game,
    objective: Objective,
    mode: Mode,
    answer: Answer,
    reward: Reward | None = None,
) -> None:
    """Compare bounds with the value of the game, and the policy with what it gets."""
    found = solve(game, objective, mode, None if reward is None else reward.entries)
    name = f"{name}, {type(objective).__name__}, {mode}"
    check_bounds(found, answer.values, name)
    if not mode.is_optimistic:
        check_attained(answer.of_policy(game.graph, found.choice), answer.values, name)
    has_no_pairs = np.diff(game.graph.pair_start) == 0
    np.testing.assert_array_equal(found.choice < 0, has_no_pairs, name)


@all_shapes
def test_until_is_the_value_of_the_game(shape: str) -> None:
    for name, game in cases(shape):
        goal, safe = game.graph.labels["goal"], game.graph.labels["safe"]
        if shape == "kl":
            found = kl_chances(game, goal, safe)
        else:
            found = answers(game, np.zeros(len(game.rows)), by_until(goal, safe))
        for mode, answer in found.items():
            check(name, game, Until(goal, safe), mode, answer)


@all_shapes
def test_averages_are_the_value_of_the_game(shape: str) -> None:
    for number, (name, game) in enumerate(cases(shape, is_absorbing=False)):
        reward = random_reward(game, np.random.default_rng([23, number]), "both")
        for mode, answer in answers(game, reward.worth, by_average(shape)).items():
            check(name, game, Average(reward.pairs), mode, answer, reward)


@all_shapes
def test_discounted_rewards_are_the_value_of_the_game(shape: str) -> None:
    for number, (name, game) in enumerate(cases(shape)):
        reward = random_reward(game, np.random.default_rng([24, number]), "both")
        discount = (0.5, 0.9, 0.99, 0.0)[number % 4]
        found = answers(game, reward.worth, by_discounting(discount), discount)
        for mode, answer in found.items():
            check(name, game, Discounted(reward.pairs, discount), mode, answer, reward)


@all_shapes
@pytest.mark.parametrize("kind", REWARDS)
def test_totals_are_the_value_of_the_game(kind: str, shape: str) -> None:
    n_finite, n_infinite, n_refused = 0, 0, 0
    for number, (name, game) in enumerate(cases(shape, is_absorbing=True)):
        if number % 2 and kind != "both":
            continue  # to be faster
        goal = game.graph.labels["goal"].copy()
        if shape == "kl":
            goal[-1] = True  # which all chains reach
        rng = np.random.default_rng([25, number])
        reward = random_reward(game, rng, kind)
        earned = reward.before(game, goal)
        has_gains, has_losses = bool(np.any(earned > 0)), bool(np.any(earned < 0))
        for is_minimised in (False, True):
            if has_gains and has_losses:
                missed = np.inf if is_minimised else -np.inf
            else:
                missed = -np.inf if has_losses else np.inf
            found = answers(game, reward.worth, by_total(goal, missed))
            is_refused = has_gains and has_losses and stays(game, reward, goal, is_minimised)
            n_refused += is_refused
            for mode, answer in found.items():
                if mode.is_minimised != is_minimised:
                    continue
                objective = Total(reward.pairs, goal)
                if is_refused:
                    assert is_refusing(game, objective, mode, reward), f"{name}, {mode}"
                    continue
                n_finite += int(np.isfinite(answer.values[~goal]).sum())
                n_infinite += int(np.isinf(answer.values).sum())
                check(name, game, objective, mode, answer, reward)
    assert n_finite > 100
    assert n_infinite > 100 or shape == "kl"
    assert n_refused < N_MODELS[shape]


def is_refusing(game: Game, objective: Objective, mode: Mode, reward: Reward) -> bool:
    try:
        solve(game, objective, mode, reward.entries)
    except SolveError:
        return True
    return False


def stays(game: Game, reward: Reward, goal: BoolArray, is_minimised: bool) -> bool:
    """Return whether both sides together can stay outside a goal without a loss."""
    if game.shape == "kl":
        return False  # all chains reach it
    options = Options.of(game)
    r, size = options.earned(reward.worth), options.earned(np.abs(reward.worth))
    return may_stay(options.matrices, -r if is_minimised else r, size, goal)


@all_shapes
@pytest.mark.parametrize("kind", ["until", "next", *REWARDS])
def test_a_limited_number_of_steps_is_backward_induction(kind: str, shape: str) -> None:
    for number, (name, game) in enumerate(cases(shape)):
        if number % 3:
            continue  # to be faster
        rng = np.random.default_rng([26, number])
        n, goal, safe = game.n_states, game.graph.labels["goal"], game.graph.labels["safe"]
        reward, steps = random_reward(game, rng, "both"), int(rng.integers(0, 8))
        stopped, first = np.full(n, np.nan), np.zeros(n)
        objective: Objective
        if kind in REWARDS:
            reward = random_reward(game, rng, kind)
            objective = Cumulative(reward.pairs, steps)
        else:
            none = np.zeros(len(game.rows))
            reward, first = Reward(none, None, none), goal.astype(np.float64)
            if kind == "until":
                objective = Until(goal, safe, steps)
                stopped = np.where(goal, 1.0, np.where(safe, np.nan, 0.0))
            else:
                objective, steps = Next(goal), 1
        for mode in MODES:
            expected = backed_up(game, reward.worth, stopped, first, steps, mode)
            found = solve(game, objective, mode, reward.entries)
            label = f"{name}, {kind}, {steps} steps, {mode}"
            check_bounds(found, expected, label)
            if mode.is_optimistic or not steps:
                continue

            def plan(left: int, found: SolveOutcome = found) -> IntArray:
                return found.choice_with(left).astype(np.int64)

            attained = backed_up(game, reward.worth, stopped, first, steps, mode, plan)
            check_attained(attained, expected, label)


@all_shapes
@pytest.mark.parametrize("is_minimised", [False, True])
def test_without_a_choice_of_nature_values_are_exact(is_minimised: bool, shape: str) -> None:
    for number in range(20):
        rng = np.random.default_rng([27, number])
        graph = tiny_graph(rng)
        goal, safe = graph.labels["goal"], graph.labels["safe"]
        reward = np.asarray(rng.integers(0, 4, graph.n_pairs), np.float64)
        objectives: list[Objective] = [
            Until(goal, safe),
            Until(goal, safe, 4),
            Next(goal),
            Total(reward, goal),
            Total(-reward, goal),
            Cumulative(reward, 5),
            Discounted(reward, 0.9),
            Average(reward),
        ]
        objective = objectives[number % len(objectives)]
        exact = solve_objective(graph, objective, is_minimised=is_minimised)
        for is_optimistic in (False, True):
            found = solve(points(graph, shape), objective, Mode(is_minimised, is_optimistic))
            np.testing.assert_allclose(found.values, exact.values, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("shape", ["intervals", "l1"])
def test_bounds_hold_wherever_solving_is_stopped(shape: str) -> None:
    for number, (name, game) in enumerate(cases(shape)):
        if number % 5:
            continue
        rng = np.random.default_rng([28, number])
        goal, safe = game.graph.labels["goal"], game.graph.labels["safe"]
        reward = random_reward(game, rng, "gains")
        tasks: list[tuple[Objective, Evaluate, float]] = [
            (Until(goal, safe), by_until(goal, safe), 1.0),
            (Total(reward.pairs, goal), by_total(goal, np.inf), 1.0),
            (Average(reward.pairs), by_average(shape), 1.0),
            (Discounted(reward.pairs, 0.9), by_discounting(0.9), 0.9),
        ]
        for objective, evaluate, discount in tasks:
            for mode, answer in answers(game, reward.worth, evaluate, discount).items():
                looks = iter(range(int(rng.integers(0, 4))))
                found = solve(
                    game,
                    objective,
                    mode,
                    None if isinstance(objective, Until) else reward.entries,
                    watch=lambda *_, n=looks: next(n, None) is not None,
                )
                label = f"{name}, {type(objective).__name__}, {mode}"
                size = np.abs(answer.values[np.isfinite(answer.values)])
                margin = EXACT * max(1.0, size.max(initial=0.0))
                assert np.all(found.lower <= answer.values + margin), label
                assert np.all(found.upper >= answer.values - margin), label
