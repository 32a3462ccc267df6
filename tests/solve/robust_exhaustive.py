"""The values of tiny games against nature, by the definitions.

The agent takes a pair in each state, then nature a row of the pair's set. Sets that are polytopes
have finitely many corners, and each choice of corners is a chain whose values are solutions of
linear equations: the value of a game is the best of all policies against the worst (or with the
best) corners. Balls of KL have no corners. There, nature improves its rows by policy iteration.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from tests.solve.robust_chains import discounted, gain, gain_and_bias, total, until
from tests.solve.robust_games import Game
from tests.solve.robust_kl import best_rows

#: Nature has improved its rows enough when no value changes by more than this.
IMPROVEMENT = 1e-11


# Games over corners


@dataclass(frozen=True, eq=False)
class Options:
    """All choices of pairs and corners, and the chains they make."""

    row: FloatArray  # [n_options, n_states]  of all states, one after the other
    pair: IntArray  # [n_options]  -1 in an end
    choices: tuple[IntArray, ...]  # [n_states] of the options of each state
    pick: IntArray  # [n_chains, n_states]  option

    @staticmethod
    def of(game: Game) -> Options:
        """Return the options of a game; an end stays where it is."""
        graph, n = game.graph, game.n_states
        rows: list[FloatArray] = []
        pairs: list[int] = []
        choices: list[IntArray] = []
        for state in range(n):
            first = len(pairs)
            for pair in range(graph.pair_start[state], graph.pair_start[state + 1]):
                rows.append(game.corners[pair])
                pairs += [pair] * len(game.corners[pair])
            if len(pairs) == first:
                rows.append(np.eye(n)[[state]])
                pairs.append(-1)
            choices.append(np.arange(first, len(pairs)))
        pick = np.stack(np.meshgrid(*choices, indexing="ij"), axis=-1).reshape(-1, n)
        return Options(np.concatenate(rows), np.array(pairs), tuple(choices), pick)

    @cached_property
    def matrices(self) -> FloatArray:
        """The chains P, [n_chains, n_states, n_states]."""
        return self.row[self.pick]

    def earned(self, reward: FloatArray) -> FloatArray:
        """Return what the chains earn, [n_chains, n_states], by rewards of pairs or branches.

        These are [n_pairs] or [n_pairs, n_states].
        """
        acts, found = self.pair >= 0, np.zeros(len(self.pair))
        if reward.ndim == 1:
            found[acts] = reward[self.pair[acts]]
        else:
            found[acts] = (self.row[acts] * reward[self.pair[acts]]).sum(axis=1)
        return found[self.pick]

    def against(self, values: FloatArray, nature_maximises: bool) -> FloatArray:
        """Return what each policy gets, [n_actions, ..., n_states], from values of chains."""
        n = len(self.choices)
        found = values.reshape(*(len(each) for each in self.choices), n)
        combine = np.maximum if nature_maximises else np.minimum
        for state, options in enumerate(self.choices):
            starts = np.flatnonzero(np.diff(self.pair[options], prepend=-2))
            found = combine.reduceat(found, starts, axis=state)
        return found


@dataclass(frozen=True)
class Mode:
    """Which way both sides play: nature is against the agent unless it is optimistic."""

    is_minimised: bool
    is_optimistic: bool

    @property
    def nature_maximises(self) -> bool:
        """Whether nature maximises."""
        return self.is_minimised != self.is_optimistic


MODES = tuple(Mode(*flags) for flags in itertools.product([False, True], repeat=2))


@dataclass(frozen=True, eq=False)
class Answer:
    """The value of a game, and what each policy gets."""

    policies: FloatArray  # [actions of state 0, ..., n_states]
    values: FloatArray  # [n_states]

    def of_policy(self, graph: TransitionGraph, choice: IntArray) -> FloatArray:
        """Return what a policy gets."""
        action = np.maximum(choice - graph.pair_start[:-1], 0)
        return np.asarray(self.policies[tuple(action)])


#: Returns the values of chains P, r, and what nature compares rows by: the values, or the biases.
Evaluate = Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]


def answers(
    game: Game, reward: FloatArray, evaluate: Evaluate, discount: float = 1.0
) -> dict[Mode, Answer]:
    """Return the values of a game in all modes, by the values of chains."""
    if game.shape == "kl":
        sides = [kl_policies(game, reward, evaluate, side, discount) for side in (False, True)]
    else:
        options = Options.of(game)
        values, _ = evaluate(options.matrices, options.earned(reward))
        sides = [options.against(values, side) for side in (False, True)]
    return _in_all_modes(sides)


def _in_all_modes(sides: list[FloatArray]) -> dict[Mode, Answer]:
    """Return the best of all policies, if nature minimises and if it maximises."""
    found = {}
    for mode in MODES:
        policies = sides[mode.nature_maximises]
        best = np.min if mode.is_minimised else np.max
        values = np.asarray(best(policies, axis=tuple(range(policies.ndim - 1))))
        found[mode] = Answer(policies, values)
    return found


def by_until(goal: BoolArray, allowed: BoolArray) -> Evaluate:
    """Evaluate chains by their chance of reaching a goal through allowed states."""

    def evaluate(P: FloatArray, _: FloatArray) -> tuple[FloatArray, FloatArray]:
        values = until(P, goal, allowed)
        return values, values

    return evaluate


def by_total(goal: BoolArray, missed: float) -> Evaluate:
    """Evaluate chains by their rewards before a goal; a chain that may miss it has a given one."""

    def evaluate(P: FloatArray, r: FloatArray) -> tuple[FloatArray, FloatArray]:
        values = total(P, r, goal)
        values = np.where(np.isnan(values), missed, values)
        return values, values

    return evaluate


def by_discounting(discount: float) -> Evaluate:
    """Evaluate chains by their discounted rewards."""

    def evaluate(P: FloatArray, r: FloatArray) -> tuple[FloatArray, FloatArray]:
        values = discounted(P, r, discount)
        return values, values

    return evaluate


def by_average(shape: str) -> Evaluate:
    """Evaluate chains by their averages; with balls of KL, these must have one class."""

    def evaluate(P: FloatArray, r: FloatArray) -> tuple[FloatArray, FloatArray]:
        values = gain(P, r)
        return values, values

    return gain_and_bias if shape == "kl" else evaluate


# A limited number of steps


def backed_up(
    game: Game,
    reward: FloatArray,
    stopped: FloatArray,
    first: FloatArray,
    steps: int,
    mode: Mode,
    plan: Callable[[int], IntArray] | None = None,
) -> FloatArray:
    """Return values by backward induction from the first ones; `stopped` ones are kept unless nan.

    With a plan, the agent takes its pairs instead of the best.
    """
    V = np.where(np.isnan(stopped), first, stopped)
    for left in range(1, steps + 1):
        backed = backup(game, branch_rewards(game, reward) + V, V, mode, plan and plan(left))
        V = np.where(np.isnan(stopped), backed, stopped)
    return V


def backup(
    game: Game, worth: FloatArray, ends: FloatArray, mode: Mode, choice: IntArray | None = None
) -> FloatArray:
    """Return the best worth [n_pairs, n_states] of a step, or a choice's; ends keep theirs."""
    Q = rows_worth(game, worth, mode.nature_maximises)
    V, start = ends.copy(), game.graph.pair_start
    acts = np.flatnonzero(np.diff(start))
    best = np.minimum if mode.is_minimised else np.maximum
    V[acts] = best.reduceat(Q, start[acts]) if choice is None else Q[choice[acts]]
    return V


def branch_rewards(game: Game, reward: FloatArray) -> FloatArray:
    """Return rewards of pairs or branches as those of branches, [n_pairs, n_states]."""
    return reward if reward.ndim == 2 else np.repeat(reward[:, None], game.n_states, axis=1)


def rows_worth(game: Game, worth: FloatArray, is_maximised: bool) -> FloatArray:
    """Return the best expected worth [n_pairs, n_states] of every pair's row, [n_pairs]."""
    if game.shape == "kl":
        rows = best_rows(game, np.arange(len(game.rows)), worth, is_maximised)
        return np.asarray((rows * worth).sum(axis=1))
    found = [rows @ each for rows, each in zip(game.corners, worth, strict=True)]
    return np.array([each.max() if is_maximised else each.min() for each in found])


# Balls of KL


def kl_policies(
    game: Game,
    reward: FloatArray,
    evaluate: Evaluate,
    is_maximised: bool,
    discount: float = 1.0,
) -> FloatArray:
    """Return what each policy gets, [n_actions, ..., n_states], as nature improves its rows.

    Every chain must be such that its values, and what rows are compared by, are unique.
    """
    graph, n = game.graph, game.n_states
    choices = [list(range(graph.pair_start[s], graph.pair_start[s + 1])) or [-1] for s in range(n)]
    policies = np.array(list(itertools.product(*choices)))  # [n_policies, n_states]
    acts = policies >= 0
    rewards = branch_rewards(game, reward)
    P = np.broadcast_to(np.eye(n), (len(policies), n, n)).copy()
    P[acts] = _first_rows(game)[policies[acts]]
    before = np.full((2, *policies.shape), np.inf)
    for _ in range(100):
        r = np.zeros(policies.shape)
        r[acts] = (P[acts] * rewards[policies[acts]]).sum(axis=1)
        values, compared = now = np.stack(evaluate(P, r))
        if np.all(np.abs(now - before) <= IMPROVEMENT * np.maximum(1, np.abs(now))):
            break
        before = now
        worth = rewards[policies[acts]] + discount * compared[np.nonzero(acts)[0]]
        P[acts] = best_rows(game, policies[acts], worth, is_maximised)
    else:
        raise AssertionError("nature does not stop improving")
    return np.asarray(values.reshape(*(len(each) for each in choices), n))


def kl_chances(game: Game, goal: BoolArray, allowed: BoolArray) -> dict[Mode, Answer]:
    """Return the chances of a goal with balls of KL and any end components, for a few states.

    For each policy, nature has finitely many rows of every set: those that avoid or prefer any set
    of states as well as possible, which decides where a chance is 0, and then the best rows for the
    values found so far, until these do not change. Then no other row is any better.
    """
    graph, n = game.graph, game.n_states
    choices = [list(range(graph.pair_start[s], graph.pair_start[s + 1])) or [-1] for s in range(n)]
    pairs = np.arange(len(game.rows))
    sides = []
    for side in (False, True):
        first = [
            best_rows(game, pairs, np.tile(np.array(each, np.float64), (len(pairs), 1)), side)
            for each in itertools.product([0.0, 1.0], repeat=n)
        ]
        found = []
        for policy in itertools.product(*choices):
            rows = [_distinct([each[pair] for each in first]) for pair in pairs]
            before = np.full(n, np.nan)
            while True:
                taken = [np.eye(n)[[s]] if policy[s] < 0 else rows[policy[s]] for s in range(n)]
                picks = np.stack(np.meshgrid(*map(range, map(len, taken)), indexing="ij"), -1)
                P = np.stack([taken[s][picks[..., s].ravel()] for s in range(n)], axis=1)
                every = until(P, goal, allowed)
                values = every.max(axis=0) if side else every.min(axis=0)
                if np.all(np.abs(values - before) <= IMPROVEMENT):
                    break
                before = values
                better = best_rows(game, pairs, np.tile(values, (len(pairs), 1)), side)
                rows = [_distinct([*rows[pair], better[pair]]) for pair in pairs]
            found.append(values)
        sides.append(np.reshape(found, (*(len(each) for each in choices), n)))
    return _in_all_modes(sides)


def _distinct(rows: list[FloatArray]) -> FloatArray:
    return np.unique(np.array(rows), axis=0)


def _first_rows(game: Game) -> FloatArray:
    """Return a row of every set: the estimate, or any possible state."""
    n = game.n_states
    rows: FloatArray = np.array([row.estimates(n) for row in game.rows])
    possible = np.array([row.possible(n, "kl") for row in game.rows])
    has_none = rows.sum(axis=1) == 0
    rows[has_none] = np.eye(n)[np.argmax(possible[has_none], axis=1)]
    return rows
