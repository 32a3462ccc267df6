"""What an experiment is to show, in coordinates in which all of it can be identified.

A direction v of the numbers with F v = 0 in every pair that can be visited again and again is one
along which the law does not change, so no experiment shows it. The other directions are what can be
identified. In units of 1/sqrt(W), numbers of any unit can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.programs.design_search import DesignObjective
from mdpdsl.programs.visitable import AllocationError

CRITERIA = ("a", "d")

#: A direction is flat if it has less than this part of the information that its numbers have on
#: their own. Differences in place of derivatives leave an error of about 1e-12.
FLAT = 1e-10
#: A number is part of a direction, a unit vector, if its component is at least this.
NAMED = 0.01
#: A component below this part of the largest is a rounding error.
SMALL = 1e-6


@dataclass(frozen=True, eq=False)
class DesignTask:
    """What is asked of a design, over all pairs."""

    graph: TransitionGraph  # closed
    information: FloatArray  # [n_pairs, k, k]  F
    names: tuple[str, ...]
    weights: FloatArray  # [k]
    criterion: str
    need: FloatArray  # [n_pairs]
    mix: float
    visits: FloatArray  # [n_pairs]
    steps: float  # m

    @classmethod
    def of(
        cls,
        graph: TransitionGraph,
        information: FloatArray,
        names: Sequence[str],
        weights: FloatArray,
        criterion: str,
        need: FloatArray | None,
        mix: float,
        visits: FloatArray | None,
        steps_left: float | None,
    ) -> DesignTask:
        """Check what is asked."""
        nothing = np.zeros(graph.n_pairs)
        F = np.asarray(information, dtype=np.float64)
        W = np.asarray(weights, dtype=np.float64)
        c = nothing if need is None else np.asarray(need, dtype=np.float64)
        k, steps = len(names), 1.0 if steps_left is None else float(steps_left)
        if k == 0:
            raise AllocationError("the model has no unknown numbers to design an experiment for")
        if criterion not in CRITERIA:
            raise AllocationError(f"there is no criterion `{criterion}`; there are a and d")
        if W.shape != (k,) or not np.all(np.isfinite(W)) or W.min() < 0 or W.max() == 0:
            raise AllocationError(
                f"give each of the {k} numbers a weight of 0 or more, and one of them more than 0"
            )
        if not (mix >= 0 and np.isfinite(mix)):
            raise AllocationError(f"the weight of the rows (`mix=`) must be 0 or more, not {mix}")
        if F.shape != (graph.n_pairs, k, k) or not np.all(np.isfinite(F)):
            raise ValueError("the information must be finite, [n_pairs, k, k]")
        if not steps > 0:
            raise ValueError(f"the number of steps must be positive, not {steps}")
        T = nothing if visits is None else np.asarray(visits, dtype=np.float64)
        c = c if mix > 0 else nothing
        return cls(graph.closed, F, tuple(names), W, criterion, c, mix, T, steps)

    @property
    def is_mixed(self) -> bool:
        """Whether rows are to be estimated as well."""
        return bool(np.any(self.need > 0))


@dataclass(frozen=True, eq=False)
class Identified:
    """A task in coordinates of what can be identified: theta = scale * (basis @ y), y [r]."""

    task: DesignTask
    scale: FloatArray  # [k]
    basis: FloatArray  # [k, r]  orthonormal
    flat: FloatArray  # [n_flat, k]  the rest, over scale

    @cached_property
    def information(self) -> FloatArray:
        """F in these coordinates, [n_pairs, r, r]."""
        way = self.scale[:, None] * self.basis
        F = way.T @ self.task.information @ way
        return np.asarray((F + F.swapaxes(1, 2)) / 2)

    @cached_property
    def weight(self) -> FloatArray | None:
        """W in these coordinates, [r, r]; None for the criterion `d`."""
        if self.task.criterion == "d":
            return None
        weight = (self.task.weights * self.scale**2)[:, None] * self.basis
        return np.asarray(self.basis.T @ weight)

    def objective(self, pairs: IntArray, parts: tuple[float, float]) -> DesignObjective:
        """Return the criterion for x = n d on some pairs, with these weights of A and L."""
        task = self.task
        unit = task.steps / len(pairs)  # visits in a unit of x
        elsewhere = task.visits.copy()
        elsewhere[pairs] = 0.0
        return DesignObjective(
            information=self.information[pairs] * unit,
            weight=self.weight,
            need=task.need[pairs] / unit,
            offset=task.visits[pairs] / unit,
            seen=np.tensordot(elsewhere, self.information, axes=1),
            parts=parts,
        )

    def losses(self, d: FloatArray) -> tuple[float, float]:
        """Return A, for `d` det(M)^(-1/r), and L of some shares, [n_pairs]."""
        u = self.task.visits + self.task.steps * d
        size, axes = np.linalg.eigh(np.tensordot(u, self.information, axes=1))
        task, needed = self.task, self.task.need > 0
        with np.errstate(divide="ignore"):
            L = float(np.sum(task.need[needed] / u[needed]))
        if size[0] <= 0:
            return np.inf, L
        if self.weight is None:
            return float(np.exp(-np.mean(np.log(size)))), L
        return float(np.sum(np.einsum("ki,kl,li->i", axes, self.weight, axes) / size)), L

    def deviations(self, d: FloatArray) -> FloatArray:
        """Return the standard deviations of the best estimates, [k]; infinite if not identified."""
        u = self.task.visits + self.task.steps * d
        M = np.tensordot(u, self.information, axes=1)
        is_hidden = np.any(np.abs(self.flat) >= NAMED, axis=0) | ~np.isfinite(self.losses(d)[0])
        way = self.scale[:, None] * self.basis
        variance = np.einsum("ki,ij,kj->k", way, np.linalg.pinv(M, hermitian=True), way)
        return np.where(is_hidden, np.inf, np.sqrt(np.maximum(variance, 0.0)))


def identified(task: DesignTask, pairs: IntArray, identifiable: bool) -> Identified:
    """Return coordinates of what some pairs show; raise AllocationError if that is not all."""
    W, k = task.weights, len(task.names)
    seen = np.tensordot(task.visits, task.information, axes=1)
    total = task.information[pairs].sum(axis=0)
    M = total / max(float(np.trace(total)), 1e-300) + seen / max(float(np.trace(seen)), 1e-300)
    own = np.sqrt(np.diag(M))
    is_shown = own > 0
    unit = np.where(is_shown, 1 / np.where(is_shown, own, 1.0), 1.0)
    size, axes = np.linalg.eigh(unit[:, None] * M * unit)
    scale = np.where(W > 0, 1 / np.sqrt(np.where(W > 0, W, 1.0)), unit)
    n_flat = int(np.count_nonzero(size <= FLAT))
    if n_flat == 0:
        return Identified(task, scale, np.eye(k), np.zeros((0, k)))
    # In these coordinates, numbers of any unit can be compared.
    flat = np.linalg.qr((unit / scale)[:, None] * axes[:, :n_flat])[0]  # [k, n_flat]
    plain = _plain(flat.T)
    counted = np.ones(k, np.bool_) if task.criterion == "d" else W > 0
    if n_flat == k or (not identifiable and np.any(np.abs(plain[:, counted]) >= NAMED)):
        raise AllocationError(_flat_text(task.names, plain, scale))
    basis = np.linalg.qr(np.hstack([flat, np.eye(k)]))[0][:, n_flat:k]
    return Identified(task, scale, basis, plain)


def _plain(flat: FloatArray) -> FloatArray:
    """Return unit vectors that span the same directions, [n_flat, k], by elimination."""
    rows = flat.copy()
    for i in range(len(rows)):
        column = int(np.argmax(np.abs(rows[i])))
        others = np.arange(len(rows)) != i
        rows[others] -= np.outer(rows[others, column] / rows[i, column], rows[i])
    rows[np.abs(rows) < SMALL * np.abs(rows).max(axis=1, keepdims=True)] = 0.0
    largest = rows[np.arange(len(rows)), np.argmax(np.abs(rows), axis=1)]
    rows *= np.sign(largest)[:, None]
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def _flat_text(names: tuple[str, ...], flat: FloatArray, scale: FloatArray) -> str:
    texts = []
    for direction in flat:
        members = np.flatnonzero(np.abs(direction) >= NAMED)
        named = [names[i] for i in members]
        if len(members) == 1:
            texts.append(f"no transition that can be repeated shows {named[0]}")
            continue
        change = (direction * scale)[members]
        change /= np.linalg.norm(change)
        along = ", ".join(f"{name} {d:+.2g}" for name, d in zip(named, change, strict=True))
        texts.append(
            f"{', '.join(named[:-1])} and {named[-1]} cannot be told apart by any experiment: "
            f"along {along} the law does not change"
        )
    advice = "replace it by a known number" if len(flat) == 1 else "replace them by known numbers"
    if len(flat) < len(names):
        advice += ", give it the weight 0, or set `identifiable=` to design for the others"
    return f"{'; '.join(texts)}; {advice}"
