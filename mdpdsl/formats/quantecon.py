"""QuantEcon's state-action-pair arrays: `DiscreteDP(R, Q, beta, s_indices, a_indices)`.

QuantEcon needs an action in every state: in an end, the first one stays there, with the reward 0.
It has one reward, so named ones are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mdpdsl.compile.model import Model
from mdpdsl.files import write_bytes
from mdpdsl.formats.foreign import Format
from mdpdsl.formats.written_rows import require_rows
from mdpdsl.graph.convert import to_pair_matrix
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


@dataclass(frozen=True, eq=False)
class QuantEconArrays:
    """The arrays of `DiscreteDP(a.R, a.Q, beta, a.s_indices, a.a_indices)`."""

    s_indices: IntArray  # [n_pairs]
    a_indices: IntArray  # [n_pairs]
    R: FloatArray  # [n_pairs]  expected rewards; 0 if the model declares none, and in ends
    Q: csr_matrix  # [n_pairs, n_states]


def quantecon_arrays(model: Model | TransitionGraph) -> QuantEconArrays:
    """Return a model, or its graph, as QuantEcon's arrays; raise FormatError without dynamics.

    >>> import mdpdsl
    >>> arrays = mdpdsl.quantecon_arrays(mdpdsl.load("riverswim"))
    >>> arrays.R.shape, arrays.Q.shape
    ((12,), (12, 6))
    """
    from scipy.sparse import csr_matrix

    graph = model.graph if isinstance(model, Model) else model
    require_rows(graph, "there is no Q")
    pairs = to_pair_matrix(graph)
    rewards = np.zeros(len(pairs.states)) if pairs.rewards is None else pairs.rewards
    # QuantEcon multiplies with `*`, which is the matrix product only for the older class.
    return QuantEconArrays(pairs.states, pairs.actions, rewards, csr_matrix(pairs.transitions))


def write_quantecon(graph: TransitionGraph, path: Path) -> None:
    """Write the arrays as an `.npz` file.

    It has `s_indices`, `a_indices`, `R`, the initial distribution `initial`, and Q as `Q_data`,
    `Q_indices`, `Q_indptr` and `Q_shape`, the parts of a `scipy.sparse.csr_matrix`.
    """
    import io

    arrays = quantecon_arrays(graph)
    Format.require_folder(path)
    content = io.BytesIO()
    np.savez(
        content,
        allow_pickle=False,
        s_indices=arrays.s_indices,
        a_indices=arrays.a_indices,
        R=arrays.R,
        Q_data=arrays.Q.data,
        Q_indices=arrays.Q.indices,
        Q_indptr=arrays.Q.indptr,
        Q_shape=np.array(arrays.Q.shape),
        initial=graph.initial,
    )
    write_bytes(path, content.getvalue())


class QuantEcon(Format):
    """QuantEcon's arrays."""

    name, title, suffix = "quantecon", "QuantEcon's state-action pairs", ".quantecon.npz"

    def write(self, model: Model, path: Path, **options: object) -> list[Path]:
        """Write the arrays of a model."""
        self.require_truth(model)
        write_quantecon(model.graph, path)
        return [path]
