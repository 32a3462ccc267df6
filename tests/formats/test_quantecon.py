"""QuantEcon solves our arrays as we do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mdpdsl
from mdpdsl.formats.quantecon import write_quantecon
from mdpdsl.solve.discounted import solve_discounted

DISCOUNT = 0.95


@pytest.mark.parametrize("name", ["riverswim", "frozen_lake", "inventory", "machine_replacement"])
def test_values_agree(name: str) -> None:
    # Imported here and not while tests are collected: two processes that import it for the first
    # time at once leave a cache of gufuncs behind that crashes all later ones (numba #10128).
    quantecon = pytest.importorskip("quantecon")
    model = mdpdsl.load(name)
    arrays = mdpdsl.quantecon_arrays(model)
    problem = quantecon.markov.DiscreteDP(
        arrays.R, arrays.Q, DISCOUNT, arrays.s_indices, arrays.a_indices
    )
    theirs = problem.solve(method="policy_iteration").v
    ours = solve_discounted(model.graph, DISCOUNT).values
    np.testing.assert_allclose(theirs, ours, atol=1e-8)


def test_the_file_holds_the_same_arrays(tmp_path: Path) -> None:
    from scipy.sparse import csr_matrix

    graph = mdpdsl.load("weather").graph  # it declares no rewards
    write_quantecon(graph, tmp_path / "w.npz")
    with np.load(tmp_path / "w.npz", allow_pickle=False) as file:
        parts = (file["Q_data"], file["Q_indices"], file["Q_indptr"])
        Q = csr_matrix(parts, shape=tuple(file["Q_shape"]))
        assert file["R"].tolist() == [0] * 4
        assert file["s_indices"].tolist() == [0, 0, 1, 1]
        assert file["a_indices"].tolist() == [0, 1, 0, 1]
        np.testing.assert_array_equal(file["initial"], graph.initial)
    np.testing.assert_array_equal(Q.toarray(), graph.transition_matrix().toarray())


def test_a_model_without_dynamics_is_refused() -> None:
    with pytest.raises(ValueError, match="no Q"):
        mdpdsl.quantecon_arrays(mdpdsl.load("pendulum_unknown"))
