"""Stored models: what survives in an estimate, and what is said where there is none."""

from __future__ import annotations

import os
import stat
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import mdpdsl
from mdpdsl.compile.model import Model
from mdpdsl.compile.stored import Provenance, StoredModel
from mdpdsl.estimate.empirical import estimated_graph
from mdpdsl.estimate.saved import save_estimated_graph
from mdpdsl.files import write_arrays, write_text
from mdpdsl.formats.npz import from_npz, save_graph, to_npz
from mdpdsl.graph.counts import Counts, counts_from
from mdpdsl.load import load_stored
from tests.graph.build import riverswim

#: A reward that reads the next state, one that does not, a label, and blocks.
SHOP = """\
mdp shop "Stock and sales"
param price = 2.0
state stock in 0..3
action sell, order
init stock = 3
on sell -> 0.5: stock' = max(stock - 1, 0) | 0.5: stock' = max(stock - 2, 0)
on order -> stock' = 3
reward on sell : price * (stock - stock')
reward on order : -1
label empty when stock == 0
explore { kappa = 4 }
log { stock = level }
"""


def counts_of(model: Model, *transitions: tuple[int, int, int, int]) -> Counts:
    """Return counts from (state, action, next state, times)."""
    graph = model.graph
    pairs = np.array([graph.pair(s, a) for s, a, _, _ in transitions])
    numbers = np.array([rest for _, _, *rest in transitions])
    return counts_from(pairs, numbers[:, 0], numbers[:, 1], graph.n_pairs)


def test_rewards_of_transitions_are_those_of_the_estimate_not_of_the_truth(tmp_path: Path) -> None:
    model = mdpdsl.loads(SHOP)
    # The log saw sales of 3, which the file says cannot be, and never an order at 3.
    counts = counts_of(model, (3, 0, 2, 1), (3, 0, 0, 3), (2, 0, 1, 1), (2, 1, 3, 1))
    missing = save_estimated_graph(tmp_path, counts, model, model.graph, 0.0)
    assert missing == {"estimate_missing": None, "rewards_missing": None}
    loaded = mdpdsl.load(tmp_path / "estimate.npz")
    graph = loaded.graph
    pair = graph.pair(3, 0)
    assert graph.reward is not None
    assert graph.branch_reward is not None
    assert graph.reward[pair] == pytest.approx(2.0 * (1 * 1 + 3 * 3) / 4)
    assert graph.reward[graph.pair(2, 1)] == -1
    start = graph.successor_start[pair]
    assert graph.branch_reward[start : start + 2].tolist() == [6.0, 2.0]
    # Never seen: the mean over all next states, as its uniform row says.
    assert graph.reward[graph.pair(1, 0)] == pytest.approx(2.0 * np.mean([1, 0, -1, -2]))
    assert graph.labels["empty"].tolist() == [True, False, False, False]


def test_without_the_file_rewards_of_transitions_are_left_out() -> None:
    model = mdpdsl.loads(SHOP)
    counts = counts_of(model, (3, 0, 2, 1))
    estimate = estimated_graph(counts, model.graph)
    assert (estimate.reward, estimate.branch_reward) == (None, None)
    plain = mdpdsl.load("riverswim")
    estimate = estimated_graph(counts_of(plain, (0, 0, 0, 1)), plain.graph)
    assert estimate.reward is plain.graph.reward


def test_rewards_that_cannot_be_evaluated_are_left_out_and_named(tmp_path: Path) -> None:
    lines = [line for line in SHOP.splitlines() if not line.startswith("on ")]
    model = mdpdsl.loads("\n".join(lines).replace("price * (stock - stock')", "price / stock'"))
    everywhere = [(state, action, 1, 5) for state in range(4) for action in (0, 1)]
    missing = save_estimated_graph(tmp_path, counts_of(model, *everywhere), model, model.graph, 0.0)
    assert missing["rewards_missing"] is None
    reward = mdpdsl.load(tmp_path / "estimate.npz").graph.reward
    assert reward is not None
    assert reward.tolist() == [2.0, -1.0] * 4
    # A pair never seen has a uniform row, which leads to an empty stock, too.
    missing = save_estimated_graph(
        tmp_path, counts_of(model, *everywhere[1:]), model, model.graph, 0.0
    )
    assert missing["rewards_missing"] == "division by zero in stock = 0 for sell"
    loaded = mdpdsl.load(tmp_path / "estimate.npz")
    assert (loaded.graph.reward, loaded.graph.branch_reward) == (None, None)
    assert [d.code for d in loaded.diagnose()] == ["W002", "W003"]


def test_a_file_of_a_graph_gives_back_all_that_the_model_said(tmp_path: Path) -> None:
    model = mdpdsl.loads(SHOP, price=5.0)
    save_graph(model, tmp_path / "any.npz")
    loaded = mdpdsl.load(tmp_path / "any.npz")
    assert isinstance(loaded, StoredModel)
    assert loaded.graph.hash == model.graph.hash
    assert (loaded.name, loaded.title) == ("shop", "Stock and sales")
    assert loaded.parameters == {"price": 5.0}
    assert loaded.checked.explore == model.checked.explore
    assert [column.key for column in loaded.checked.log] == ["stock"]
    assert loaded.diagnose() == []
    assert not loaded.is_continuous
    with pytest.raises(ValueError, match="contains a graph"):
        _ = loaded.system


def test_a_file_without_a_text_has_the_spaces_and_its_own_name(tmp_path: Path) -> None:
    to_npz(riverswim(), tmp_path / "bare.npz")
    loaded = mdpdsl.load(tmp_path / "bare.npz")
    assert (loaded.name, loaded.parameters, loaded.checked.log) == ("bare", {}, ())
    assert loaded.graph.hash == riverswim().hash
    save_graph(loaded, tmp_path / "again.npz")
    assert mdpdsl.load(tmp_path / "again.npz").name == "bare"


def test_a_text_that_does_not_fit_the_graph_is_not_believed(tmp_path: Path) -> None:
    to_npz(riverswim(), tmp_path / "odd.npz", {"name": "odd", "source": SHOP})
    assert mdpdsl.load(tmp_path / "odd.npz").checked.states is not None
    assert mdpdsl.load(tmp_path / "odd.npz").name == "odd"
    to_npz(riverswim(), tmp_path / "odd.npz", {"source": "mdp (", "provenance": [1]})
    assert mdpdsl.load(tmp_path / "odd.npz").name == "odd"


def test_parameters_of_a_stored_graph_cannot_be_set(tmp_path: Path) -> None:
    save_graph(mdpdsl.load("riverswim"), tmp_path / "m.npz")
    with pytest.raises(mdpdsl.ModelError, match="`n` cannot be set"):
        mdpdsl.load(tmp_path / "m.npz", n=4)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("probability", lambda a: a * 0.9, "sum to"),
        ("pair_action", lambda a: a + 9, "an action that does not exist"),
        ("successor", lambda a: a + 3, "not a state"),
        ("successor", lambda a: a[:-1], "damaged"),
        ("initial", lambda a: a * np.nan, "initial distribution"),
        ("reward", lambda a: a[1:], "reward must be"),
        ("codes", lambda a: a[::-1], "ascending codes"),
        ("label.goal", lambda a: a[1:], "the label goal"),
        ("pair_start", lambda a: a + 1, "damaged"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, name: str, change: object, message: str) -> None:
    path = tmp_path / "m.npz"
    save_graph(mdpdsl.load("riverswim"), path)
    with np.load(path) as file:
        arrays = {key: file[key] for key in file.files}
    arrays[name] = change(arrays[name])  # type: ignore[operator]
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=message):
        from_npz(path)
    with pytest.raises(mdpdsl.ModelError, match="damaged"):
        mdpdsl.load(path)


def test_what_is_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(mdpdsl.ModelError, match=r"no run\.json"):
        mdpdsl.load(tmp_path)
    with pytest.raises(mdpdsl.ModelError, match="no such file"):
        mdpdsl.load(tmp_path / "none.npz")
    (tmp_path / "run.json").write_text("[]")
    with pytest.raises(mdpdsl.ModelError, match="not a run directory"):
        load_stored(str(tmp_path), {})


def test_the_warning_counts_pairs_and_states() -> None:
    (warning,) = Provenance("run", 37, 500, 2).warnings()
    assert warning.message == "37 of 500 pairs were never visited; their rows are uniform"
    assert warning.help is not None
    assert warning.help.startswith("2 states are left out")
    assert Provenance("run", 0, 500).warnings() == []


def test_too_many_uniform_rows_are_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("mdpdsl.estimate.empirical"), "MOST_UNIFORM_ENTRIES", 10)
    model = mdpdsl.loads(SHOP)
    missing = save_estimated_graph(
        tmp_path, counts_of(model, (3, 0, 2, 1)), model, model.graph, 0.0
    )
    assert missing["estimate_missing"] is not None
    assert "28 entries" in missing["estimate_missing"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_files_of_a_run_have_the_mode_of_the_umask(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write_text(tmp_path / "a.txt", "a")
        write_arrays(tmp_path / "b.npz", {"b": np.arange(3)})
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {0o666 & ~mask}
