"""Rewards with names, from the file to the rewards of an estimate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import mdpdsl
from mdpdsl.compile.stored import Provenance
from mdpdsl.compile.transition_rewards import with_transition_rewards
from mdpdsl.estimate.empirical import estimated_graph
from mdpdsl.graph.counts import counts_from
from tests.graph.test_rewards import TRIP


def test_names_of_rewards_are_those_of_the_file() -> None:
    checked = mdpdsl.loads(TRIP).checked
    assert checked.reward_names == ("default", "energy", "time")
    # A reward may have the name of anything else: it has a namespace of its own.
    text = "mdp m state x in 0..1 action a on a -> stay reward x : 1 reward a on a : 2"
    assert mdpdsl.loads(text).checked.reward_names == ("x", "a")


def test_an_estimate_evaluates_each_reward_on_its_own_transitions() -> None:
    model = mdpdsl.loads(TRIP)
    # From 0, running was seen to lead to 4 once and nowhere three times.
    counts = counts_from(np.array([1, 1]), np.array([0, 4]), np.array([3, 1]), model.graph.n_pairs)
    estimate, faults = with_transition_rewards(model.checked, estimated_graph(counts, model.graph))
    assert faults == []
    estimate.validate()
    pair = estimate.pair(0, 1)
    assert estimate.reward is not None
    assert estimate.reward[pair] == pytest.approx(10 / 4 - 1)
    assert estimate.rewards["energy"].tolist() == model.graph.rewards["energy"].tolist()
    assert estimate.rewards["time"][pair] == pytest.approx((3 * 2 + 1) / 4)
    first = estimate.successor_start[pair]
    assert estimate.branch_rewards["time"][first : first + 2].tolist() == [2, 1]


def test_a_reward_that_has_no_value_is_left_out_and_the_others_stay() -> None:
    model = mdpdsl.loads(f"{TRIP}reward odd : 1/(x' - x - 3)\n")
    counts = counts_from(np.array([0]), np.array([1]), np.array([3]), model.graph.n_pairs)
    estimate, faults = with_transition_rewards(model.checked, estimated_graph(counts, model.graph))
    assert list(estimate.rewards) == ["energy", "time"]
    (fault,) = faults
    assert fault.message == "reward `odd`: division by zero"
    missing = replace(Provenance("log", 1), rewards_missing=f"{fault.message} {fault.witness}")
    (_, warning) = missing.warnings()
    assert warning.code == "W003"
    assert warning.message.startswith("the estimate has no reward `odd`: division by zero in x = 0")


def test_faults_of_a_named_reward_have_a_witness() -> None:
    text = "mdp m state x in 0..2 action a on a -> stay reward cost : 1/(1 - x)"
    with pytest.raises(mdpdsl.ModelError) as caught:
        _ = mdpdsl.loads(text).graph
    (found,) = caught.value.diagnostics
    assert found.code == "E507"
    assert str(found.witness) == "in x = 1 for a"
