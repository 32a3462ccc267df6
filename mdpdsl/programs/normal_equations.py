"""Weighted normal equations of flow balance, N diag(k) N^T h = r, solved by Cholesky.

N has one row per state, and its columns sum to 0, so the null space of the matrix is the constants.
To fix h to 0 in one state, the largest diagonal entry is doubled; h is otherwise unique up to a
constant. The matrix is scaled to a unit diagonal. It is stored as a band in reverse Cuthill-McKee
order if that is much cheaper than a full matrix, as on grids.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve_banded, cholesky_banded
from scipy.linalg.lapack import dpotrs
from scipy.sparse import csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from mdpdsl.graph.space import FloatArray

#: Added to the unit diagonal: each is tried if the one before failed. Refinement removes the error.
RIDGES = (1e-15, 1e-13, 1e-11, 1e-9)

#: Seconds per multiplication, in full matrices and in sparse products. Only their ratio matters.
FULL_SECONDS = 1e-10
SPARSE_SECONDS = 1.5e-8

#: Flow rows with more entries than this (400 MB) stay sparse.
MOST_FULL = 5e7

#: A band is used if it costs less than this fraction of a full matrix.
BAND_PART = 0.25


class NormalEquations:
    """Flow rows whose weighted normal equations are factorised again and again."""

    def __init__(self, flow: csr_array, most_entries: float = np.inf) -> None:
        self.flow = flow  # [n_states, n_pairs]
        self.transpose = flow.T.tocsr()
        n_states, n_pairs = flow.shape
        per_pair = np.diff(self.transpose.indptr).astype(np.float64)
        products = float(np.sum(per_pair**2))
        self._full: FloatArray | None = None
        self._order: Any = None
        self._bandwidth = n_states - 1
        full_seconds = FULL_SECONDS * n_pairs * n_states**2
        is_small = n_pairs * n_states <= MOST_FULL
        # On small models, full rows avoid the fixed cost of a sparse product.
        self._rows: Any = flow
        self._columns: Any = self.transpose
        if is_small and full_seconds < SPARSE_SECONDS * products + 1e-3:
            self._full = flow.toarray()
            self._rows, self._columns = self._full, self._full.T
        elif products < min(n_states**2, 10 * most_entries):
            self._reorder()
        self._sizes: Any = abs(self._rows)
        self._factor: Any = None
        self._scale: FloatArray = np.ones(n_states)

    @property
    def is_banded(self) -> bool:
        """Whether the matrix is stored as a band."""
        return self._order is not None

    @property
    def multiplications(self) -> float:
        """The approximate number of multiplications of a factorisation."""
        n_states = self.flow.shape[0]
        if self.is_banded:
            return float(n_states) * self._bandwidth**2
        return n_states**3 / 3

    @property
    def n_entries(self) -> float:
        """The number of stored entries."""
        width = self._bandwidth + 1 if self.is_banded else self.flow.shape[0]
        return float(self.flow.shape[0]) * width

    def imbalance(self, x: FloatArray) -> FloatArray:
        """Return N x, [n_states]."""
        return np.asarray(self._rows @ x)

    def residual(self, x: FloatArray) -> float:
        """Return the largest imbalance of a state relative to its outflow; 0 if x = 0."""
        leaving = np.asarray(self._sizes @ x)
        share = np.abs(self.imbalance(x)) / np.where(leaving > 0, leaving, 1.0)
        return float(np.max(share, initial=0.0))

    def worth(self, h: FloatArray) -> FloatArray:
        """Return N^T h, [n_pairs]."""
        return np.asarray(self._columns @ h)

    def factorize(self, k: FloatArray) -> None:
        """Factorise N diag(k) N^T for positive weights k, [n_pairs]."""
        for ridge in RIDGES:
            # Rebuilt on every attempt, because a factorisation overwrites its matrix.
            matrix = self._scaled(k, ridge)
            try:
                if self.is_banded:
                    self._factor = cholesky_banded(
                        matrix, overwrite_ab=True, lower=True, check_finite=False
                    )
                else:
                    self._factor = cho_factor(
                        matrix.T, lower=True, overwrite_a=True, check_finite=False
                    )
            except LinAlgError:
                continue
            return
        raise LinAlgError("the normal equations of the flow are singular")

    def solve(self, r: FloatArray) -> FloatArray:
        """Solve for h, [n_states] or one column for each of r; r must sum to 0."""
        scale = self._scale if r.ndim == 1 else self._scale[:, None]
        if self.is_banded:
            scaled = scale * r[self._order]
            h = np.empty_like(r)
            h[self._order] = scale * cho_solve_banded(
                (self._factor, True), scaled, check_finite=False
            )
            return h
        solution, _ = dpotrs(self._factor[0], scale * r, lower=True, overwrite_b=True)
        return np.asarray(scale * solution)

    def _reorder(self) -> None:
        """Find an order of the states with a small bandwidth, and keep it if it saves time."""
        n_states = self.flow.shape[0]
        ones = csr_array(
            (np.ones(self.flow.nnz), self.flow.indices, self.flow.indptr), shape=self.flow.shape
        )
        pattern = (ones @ ones.T).tocsr()
        order = reverse_cuthill_mckee(pattern, symmetric_mode=True)
        place = np.empty(n_states, dtype=np.int64)
        place[order] = np.arange(n_states)
        row = np.repeat(np.arange(n_states), np.diff(pattern.indptr))
        bandwidth = int(np.abs(place[row] - place[pattern.indices]).max(initial=0))
        if n_states * bandwidth**2 < BAND_PART * n_states**3 / 3:
            self._order, self._bandwidth = order, bandwidth
            self._ordered = self.flow[order].tocsr()

    def _scaled(self, k: FloatArray, ridge: float) -> FloatArray:
        """Return the matrix with a unit diagonal and h fixed to 0 in one state."""
        matrix = self._banded(k) if self.is_banded else self._dense(k)
        unit = matrix[0] if self.is_banded else np.einsum("ii->i", matrix)
        ground = int(np.argmax(unit))
        scale = self._scale = 1 / np.sqrt(np.where(unit > 0, unit, 1.0))
        if self.is_banded:
            for offset in range(len(matrix)):
                end = matrix.shape[1] - offset
                matrix[offset, :end] *= scale[:end] * scale[offset:]
        else:
            matrix *= scale[:, None]
            matrix *= scale
        unit[:] = 1.0 + ridge
        unit[ground] += 1.0
        return matrix

    def _dense(self, k: FloatArray) -> FloatArray:
        if self._full is not None:
            root = self._full * np.sqrt(k)
            return np.asarray(root @ root.T)
        return np.asarray((_weighted(self.flow, k) @ self.transpose).toarray())

    def _banded(self, k: FloatArray) -> FloatArray:
        product = (_weighted(self._ordered, k) @ self._ordered.T).tocoo()
        row, column = product.coords
        below = row >= column
        band = np.zeros((self._bandwidth + 1, self.flow.shape[0]))
        band[(row - column)[below], column[below]] = product.data[below]
        return band


def _weighted(flow: csr_array, k: FloatArray) -> csr_array:
    return csr_array((flow.data * k[flow.indices], flow.indices, flow.indptr), shape=flow.shape)
