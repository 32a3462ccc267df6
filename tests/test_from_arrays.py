"""Models of matrices and tables, with the states in which episodes end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import mdpdsl
from mdpdsl.formats.loops import TERMINAL

AHEAD = np.array([[0.0, 0.5, 0.5], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]])
STAY = np.eye(3)


@pytest.mark.parametrize("ends", [[2], (2,), np.array([2]), [False, False, True], 2])
def test_ends_are_numbers_or_truth_values(ends: Any) -> None:
    graph = mdpdsl.from_arrays([AHEAD, STAY], reward=[1, 2, 3], ends=ends).graph
    assert graph.ends is not None
    assert graph.ends.tolist() == graph.labels[TERMINAL].tolist() == [False, False, True]
    assert graph.n_pairs == 4
    assert graph.initial.tolist() == [0.5, 0.5, 0.0]
    assert graph.reward is not None
    assert graph.reward.tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize("filler", [0.0, 7.0, np.nan, -1.0])
def test_rows_of_ends_may_hold_anything(filler: float) -> None:
    expected = mdpdsl.from_arrays([AHEAD, STAY], reward=[1, 2, 0], ends=[2]).graph
    ahead, stay = AHEAD.copy(), STAY.copy()
    ahead[2], stay[2] = filler, filler
    rewards = [1.0, 2.0, filler]
    for matrices in ([ahead, stay], [csr_array(ahead), csr_array(stay)], np.stack([ahead, stay])):
        graph = mdpdsl.from_arrays(matrices, reward=rewards, ends=[2]).graph
        assert graph.hash == expected.hash


def test_rewards_by_action_and_by_transition_are_read_beside_ends() -> None:
    by_action = np.array([[1.0, 2.0], [3.0, 4.0], [np.nan, np.nan]])
    graph = mdpdsl.from_arrays([AHEAD, STAY], reward=by_action, ends=[2]).graph
    assert graph.reward is not None
    assert graph.reward.tolist() == [1, 2, 3, 4]
    by_transition = np.broadcast_to(by_action.T[:, :, None], (2, 3, 3))
    for reward in (by_transition, by_transition.transpose(1, 0, 2)):
        found = mdpdsl.from_arrays([AHEAD, STAY], reward=reward, ends=[2]).graph
        assert found.hash == graph.hash


def test_without_ends_nothing_ends() -> None:
    plain = mdpdsl.from_arrays([AHEAD, STAY]).graph
    assert plain.ends is None
    assert mdpdsl.from_arrays([AHEAD, STAY], ends=[]).graph.hash == plain.hash
    none = np.zeros(3, np.bool_)
    assert mdpdsl.from_arrays([AHEAD, STAY], ends=none).graph.hash == plain.hash


def test_episodes_start_in_the_other_states() -> None:
    graph = mdpdsl.from_arrays([AHEAD, STAY], ends=[2], initial=[0.25, 0.25, 0.5]).graph
    assert graph.initial.tolist() == [0.5, 0.5, 0.0]
    assert mdpdsl.from_arrays([AHEAD, STAY], ends=[2], initial=1).graph.initial.tolist() == [
        0,
        1,
        0,
    ]


def test_a_value_ends_with_its_episode() -> None:
    model = mdpdsl.from_arrays([AHEAD, STAY], reward=[1, 1, 100], ends=[2], initial=0)
    # Staying for ever pays 1 in each step; 100 is never paid.
    assert mdpdsl.solve(model, discount=0.9).value == pytest.approx(10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ends": [3]}, r"`ends=` has 3; the states are 0 to 2"),
        ({"ends": [-1]}, r"`ends=` has -1; the states are 0 to 2"),
        ({"ends": [True, False]}, r"`ends=` has the shape \[2\]; there are 3 states"),
        ({"ends": [0.5]}, r"give the numbers of states, or a truth value for each state"),
        ({"ends": ["last"]}, r"`ends=` is \['last'\]"),
        ({"ends": [[0, 1]]}, r"give the numbers of states"),
        ({"ends": [0, 1, 2]}, "every state is an end"),
        ({"ends": [2], "initial": 2}, "every initial state is an end"),
        ({"initial": 3}, r"`initial=` is 3; the states are 0 to 2"),
        ({"initial": [1, 0]}, r"`initial=` has the shape \[2\]; there are 3 states"),
        ({"reward": [1, 2]}, r"shape \[2\]; with 3 states and 2 actions, give \[3\], \[3, 2\] or"),
        ({"reward": [[1, 2, 3]]}, r"the rewards have the shape \[1, 3\]"),
    ],
)
def test_mistakes_say_what_was_found_and_expected(arguments: Any, message: str) -> None:
    with pytest.raises(mdpdsl.FormatError, match=message):
        mdpdsl.from_arrays([AHEAD, STAY], **arguments)


def test_a_state_without_a_row_is_advised_to_be_an_end() -> None:
    ahead = AHEAD.copy()
    ahead[2] = 0
    with pytest.raises(mdpdsl.FormatError, match=r"state 2 has no action: .* list it in `ends=`"):
        mdpdsl.from_arrays([ahead])
    assert mdpdsl.from_arrays([ahead], ends=[2]).graph.n_pairs == 2


def test_a_table_has_its_own_ends() -> None:
    table = {0: {0: [(1.0, 1, 1.0, True)]}, 1: {0: [(1.0, 1, 0.0, True)]}}
    graph = mdpdsl.from_arrays(table).graph
    assert graph.ends is not None
    assert graph.ends.tolist() == [False, True]
    with pytest.raises(mdpdsl.FormatError, match="has its own rewards and ends"):
        mdpdsl.from_arrays(table, ends=[1])
