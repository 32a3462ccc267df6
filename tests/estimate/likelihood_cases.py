"""Likelihoods with known answers: successes of independent trials, and normal laws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import xlogy

from mdpdsl.diagnostics import SolveError
from mdpdsl.graph.space import FloatArray


@dataclass(frozen=True, eq=False)
class Trials:
    """`k` successes of `n` trials, whose chance is a product, sum, ... of some of the numbers."""

    n_terms = 1

    k: int
    n: int
    names: tuple[str, ...] = ("p",)
    factors: tuple[int, ...] = (0,)  # the numbers in the chance
    low: FloatArray = field(default_factory=lambda: np.zeros(1))
    high: FloatArray = field(default_factory=lambda: np.ones(1))
    can_prove: bool = True
    form: str = "product"  # or sum, difference, ratio

    def chance(self, theta: FloatArray) -> float:
        used = theta[list(self.factors)]
        if self.form == "product":
            return float(np.prod(used))
        if self.form == "sum":
            return float(used.sum())
        first, last = float(used[0]), float(used[-1])
        return first - last if self.form == "difference" else first / last

    def _log(self, p: float) -> float:
        if (self.k and p <= 0) or (self.n > self.k and p >= 1):
            return -np.inf
        return float(xlogy(self.k, p) + xlogy(self.n - self.k, 1 - p))

    def value(self, theta: FloatArray) -> float:
        return self._log(self.chance(theta))

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        p, slope = self.chance(theta), np.zeros(len(theta))
        value = self._log(p)
        if not np.isfinite(value):
            return value, slope
        inner = self.k / max(p, 1e-300) - (self.n - self.k) / max(1 - p, 1e-300)
        slope[list(self.factors)] = inner * self._slopes(theta)
        return value, slope

    def _slopes(self, theta: FloatArray) -> FloatArray:
        used = list(self.factors)
        if self.form == "product":
            return np.array([np.prod(theta[[i for i in used if i != j]]) for j in used])
        if self.form == "sum":
            return np.ones(len(used))
        if self.form == "difference":
            return np.array([1.0, -1.0])
        first, last = theta[used]
        return np.array([1 / last, -first / last**2])

    def information(self, theta: FloatArray) -> FloatArray:
        p, found = self.chance(theta), np.zeros((len(theta), len(theta)))
        weight = self.n / max(p * (1 - p), 1e-12)
        d = self._slopes(theta)
        found[np.ix_(self.factors, self.factors)] = weight * np.outer(d, d)
        return found

    def upper(self, low: FloatArray, high: FloatArray) -> float:
        if not self.can_prove:
            raise SolveError("these rows cannot be enclosed")
        assert self.form == "product"
        best = self.k / max(self.n, 1)
        return self._log(float(np.clip(best, self.chance(low), self.chance(high)))) + 1e-9


def trials(k: int, n: int, low: float = 0.0, high: float = 1.0, can_prove: bool = True) -> Trials:
    """Return the likelihood of one unknown chance."""
    return Trials(
        k, n, low=np.array([float(low)]), high=np.array([float(high)]), can_prove=can_prove
    )


def product_trials(k: int, n: int, names: Sequence[str] = ("gain", "load")) -> Trials:
    """Return the likelihood of numbers of which only the product shows."""
    size = len(names)
    return Trials(k, n, tuple(names), tuple(range(size)), np.zeros(size), np.ones(size))


@dataclass(frozen=True, eq=False)
class Normal:
    """l = -(theta - mean)' precision (theta - mean) / 2 on a box."""

    n_terms = 1

    mean: FloatArray
    precision: FloatArray
    low: FloatArray
    high: FloatArray
    n: int = 100

    @property
    def names(self) -> tuple[str, ...]:
        return tuple("abcdefgh"[: len(self.mean)])

    def value(self, theta: FloatArray) -> float:
        return float(-0.5 * (theta - self.mean) @ self.precision @ (theta - self.mean))

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        return self.value(theta), -self.precision @ (theta - self.mean)

    def information(self, theta: FloatArray) -> FloatArray:
        return self.precision

    def upper(self, low: FloatArray, high: FloatArray) -> float:
        middle, half = (low + high) / 2, (high - low) / 2
        _, gradient = self.value_and_gradient(middle)
        off = np.abs(self.precision) @ half
        # In box-monotone numbers the bound is that of the better end.
        anchor = np.where(gradient - off >= 0, high, np.where(gradient + off <= 0, low, middle))
        moved = np.where(anchor == middle, (np.abs(gradient) + off) * half, 0.0)
        return self.value(anchor) + float(moved.sum()) + 1e-9


@dataclass(frozen=True, eq=False)
class Bounded:
    """Another likelihood with numbers that play no part in it, at the end."""

    n_terms = 1

    inner: Trials
    extra: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.inner.names, *("xyz"[: self.extra]))

    @property
    def low(self) -> FloatArray:
        return np.append(self.inner.low, np.zeros(self.extra))

    @property
    def high(self) -> FloatArray:
        return np.append(self.inner.high, np.full(self.extra, 4.0))

    @property
    def n(self) -> int:
        return self.inner.n

    def value(self, theta: FloatArray) -> float:
        return self.inner.value(theta[: -self.extra])

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = self.inner.value_and_gradient(theta[: -self.extra])
        return value, np.append(gradient, np.zeros(self.extra))

    def information(self, theta: FloatArray) -> FloatArray:
        found = np.zeros((len(theta), len(theta)))
        found[: -self.extra, : -self.extra] = self.inner.information(theta[: -self.extra])
        return found

    def upper(self, low: FloatArray, high: FloatArray) -> float:
        return self.inner.upper(low[: -self.extra], high[: -self.extra])


def inverse(matrix: FloatArray) -> FloatArray:
    """Return the inverse of a matrix."""
    return np.asarray(np.linalg.inv(matrix), np.float64)
