"""A given policy in a given model: its value, and how often it visits each pair.

If rows are only known to lie in sets, nature is the only player: what the policy is guaranteed is
minus the most that nature can get, which `robust_player` bounds from above.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np

from mdpdsl.graph.objectives import Average, Cumulative, Discounted, Next, Objective, Total, Until
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.set_rows import SetRows, negated, reward_limits, rows_where
from mdpdsl.solve.bellman import ROUNDING
from mdpdsl.solve.policy_iteration import ELIMINATED_STATES
from mdpdsl.solve.qualitative import lost_states
from mdpdsl.solve.solution import SolveOutcome, Watch, value_at_start
from mdpdsl.solve.solve_objective import solve_objective

#: Steps after which visits of a large model are no longer followed.
MOST_STEPS = 5_000


def policy_value(graph: TransitionGraph, objective: Objective, found: SolveOutcome) -> float:
    """Return the value of a policy at the start, in another model over the same pairs."""
    return value_at_start(graph, policy_values(graph, objective, found))


def policy_values(graph: TransitionGraph, objective: Objective, found: SolveOutcome) -> FloatArray:
    """Return the values of a policy, [n_states]; it may depend on the steps left."""
    if isinstance(objective, Until | Cumulative | Next):
        steps = 1 if isinstance(objective, Next) else objective.steps
        if steps is not None:
            return _backed_up(graph, objective, found, steps)
    chosen, pairs = policy_graph(graph, found.choice)
    if isinstance(objective, Total | Discounted | Average):
        objective = replace(objective, reward=objective.reward[pairs])
    return solve_objective(chosen, objective).values


def guaranteed_values(
    graph: TransitionGraph,
    objective: Objective,
    rows: SetRows,
    found: SolveOutcome,
    sign: float,
    *,
    tolerance: float,
    floor: float,
    watch: Watch,
) -> FloatArray:
    """Return what a policy is guaranteed whatever rows nature chooses, [n_states], from below.

    Everything is signed as a maximum. The bounds are certified, and within a tolerance relative to
    their size or `floor`, unless the watch stops. For a limited number of steps nature chooses anew
    at every step.
    """
    if isinstance(objective, Next | Cumulative) or getattr(objective, "steps", None) is not None:
        assert isinstance(objective, Next | Cumulative | Until)
        return _guaranteed_in_steps(graph, objective, rows, found, sign, watch)
    taken = np.zeros(graph.n_pairs, np.bool_)
    taken[found.choice[found.choice >= 0]] = True
    if isinstance(objective, Until | Total):
        from mdpdsl.solve.robust_ending import player_of
        from mdpdsl.solve.robust_objective import ending_of
        from mdpdsl.solve.robust_player import solve_player

        ending = ending_of(graph, objective, rows, sign)
        player = player_of(ending, negated(rows), taken & ending.acts, is_nature=True)
        return 0.0 - solve_player(player, tolerance, watch, floor=floor).upper
    kept = rows_where(rows, taken)
    if isinstance(objective, Average):
        from mdpdsl.solve.robust_average import player_averages
        from mdpdsl.solve.robust_ending import Budget

        most = player_averages(negated(kept), Budget(tolerance, floor, watch))
        lower = np.maximum(0.0 - most, reward_limits(kept)[0])
        return np.where(found.choice >= 0, lower, 0.0)
    from mdpdsl.solve.robust_discounted import solve_robust_discounted

    began = time.perf_counter()
    outcome = solve_robust_discounted(
        graph, objective, kept, sign, -1.0, tolerance * floor, watch, began
    )
    return outcome.lower if sign > 0 else 0.0 - outcome.upper


def policy_graph(graph: TransitionGraph, choice: IntArray) -> tuple[TransitionGraph, IntArray]:
    """Return the graph in which each state has only the pair chosen there, and these pairs."""
    pairs = choice[choice >= 0]
    counts = np.diff(graph.successor_start)[pairs]
    start = np.concatenate([[0], np.cumsum(counts)])
    entry = np.repeat(graph.successor_start[pairs] - start[:-1], counts) + np.arange(start[-1])
    chosen = replace(
        graph,
        pair_start=np.concatenate([[0], np.cumsum(choice >= 0)]),
        pair_action=graph.pair_action[pairs],
        successor_start=start,
        successor=graph.successor[entry],
        probability=graph.probability[entry],
        reward=None,
        branch_reward=None,
        rewards={},
        branch_rewards={},
    )
    return chosen, pairs


def expected_visits(
    graph: TransitionGraph,
    choice: IntArray,
    start: IntArray,
    state: IntArray,
    p: FloatArray,
    is_active: BoolArray,
    discount: float,
) -> FloatArray:
    """Return how often a policy visits each pair, with discounted steps, [n_pairs].

    The rows of all pairs are `start`, `state` and `p`; only active states are left again.
    """
    from scipy.sparse import csc_array, csr_array, eye_array
    from scipy.sparse.linalg import splu

    n = graph.n_states
    acts = (choice >= 0) & is_active
    P = csr_array((p, state, start), shape=(graph.n_pairs, n))[np.where(acts, choice, 0)]
    moves: Any = csr_array(P.multiply(discount * acts[:, None].astype(np.float64))).T
    visits: Any = graph.initial
    if n <= ELIMINATED_STATES:
        visits = splu(csc_array(eye_array(n) - moves)).solve(graph.initial)
    else:
        now = graph.initial
        for _ in range(MOST_STEPS):
            now = moves @ now
            visits = visits + now
            if now.sum() <= 1e-6 * visits.sum():
                break
    found = np.zeros(graph.n_pairs)
    found[choice[acts]] = np.asarray(visits)[acts]
    return found


def _backed_up(
    graph: TransitionGraph,
    objective: Until | Cumulative | Next,
    found: SolveOutcome,
    steps: int,
) -> FloatArray:
    """Return the values of a policy that depends on the steps left, by one backup for each."""
    acts: Any = np.diff(graph.pair_start) > 0
    values = np.zeros(graph.n_states)
    reward = np.zeros(graph.n_pairs)
    if isinstance(objective, Cumulative):
        reward = objective.reward
    else:
        values = objective.goal.astype(np.float64)
    if isinstance(objective, Until):
        acts = acts & ~objective.goal & ~lost_states(graph, objective.goal, objective.allowed)
    P = graph.transition_matrix()
    for left in range(1, steps + 1):
        choice = found.choice_with(left)[acts]
        new = values.copy()
        new[acts] = reward[choice] + P[choice] @ values
        values = new
    return values


def _guaranteed_in_steps(
    graph: TransitionGraph,
    objective: Until | Cumulative | Next,
    rows: SetRows,
    found: SolveOutcome,
    sign: float,
    watch: Watch,
) -> FloatArray:
    """Return what a policy is guaranteed in some steps, by one backup for each, less rounding."""
    from mdpdsl.kernels.set_rows import ranking, room_for
    from mdpdsl.kernels.set_sweeps import step_game

    steps = 1 if isinstance(objective, Next) else objective.steps
    assert steps is not None
    acts: Any = np.diff(graph.pair_start) > 0
    least, terminal = steps * reward_limits(rows)[0], np.zeros(graph.n_states)
    if isinstance(objective, Until | Next):
        least, terminal = min(0.0, sign), np.where(objective.goal, sign, 0.0)
    if isinstance(objective, Until):
        acts = acts & ~objective.goal & ~lost_states(graph, objective.goal, objective.allowed)
    unit = ROUNDING * (8 + 2 * int(np.diff(rows.row_start).max(initial=0)))
    size = float(np.abs(rows.constant).max(initial=0.0) + np.abs(rows.gain).max(initial=0.0))
    order, unused = np.flatnonzero(acts), np.empty(graph.n_states, np.int64)
    values, error, before = terminal, 0.0, None
    for left in range(1, steps + 1):
        choice = found.choice_with(left)[acts]
        if before is None or not np.array_equal(choice, before):
            taken, before = np.zeros(graph.n_pairs, np.bool_), choice
            taken[choice] = True
            kept = rows_where(rows, taken)
            room, ranked = room_for(kept), ranking(kept, values, -1.0)
        elif len(ranked.state):
            ranked = ranking(kept, values, -1.0)
        new = values.copy()
        step_game(kept, order, values, new, unused, ranked, room, 1.0, -1.0)
        rounding = unit * (size + float(np.abs(new).max(initial=0.0)))
        error += rounding
        if np.array_equal(new, values) and _is_settled(found, left):
            error += (steps - left) * rounding
            break
        values = new
        if left < steps and not watch(left, math.inf):
            return np.where(acts, least, terminal)
    return np.where(acts, np.maximum(values - error, least), terminal)


def _is_settled(found: SolveOutcome, left: int) -> bool:
    """Return whether a policy does the same with any larger number of steps left."""
    return found.plan is not None and bool(np.all(found.plan[left:] == found.plan[left - 1]))
