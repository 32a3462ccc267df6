"""Intervals of single transition probabilities, from k of n visits to a pair.

The risk r of an interval is the probability with which it may miss p. Risks can be smaller than any
float, so that functions take `exponent` = log(1/r). With p_hat = k/n, the kinds are

- `time-uniform`: {p : B(k+1/2, n-k+1/2)/B(1/2,1/2) < p^k (1-p)^(n-k) / r}. The left side is the
  likelihood of the outcomes, mixed over p by Jeffreys' prior (Robbins 1970); divided by the true
  likelihood it is a martingale, which ever reaches 1/r with probability r at most (Ville 1939). So
  the interval holds for all n at once, whoever chooses what is visited, and when to stop. Divided
  by the largest likelihood, it reads

      n kl(p_hat, p) <= 1/2 log(pi n/2) - g(k) - g(n-k) + h(n) + log(1/r),

  where g and h are the remainders of Stirling's formula for log Gamma(x + 1/2) and log n!.
- `clopper-pearson` (Clopper and Pearson 1934): the r/2 quantile of Beta(k, n-k+1) to the 1 - r/2
  quantile of Beta(k+1, n-k). Exact for one look at a number of visits that was fixed beforehand.
- `weissman`: |p_hat - p| <= sqrt(log(2/r_n)/(2n)), the bound of Weissman et al. (2003) for two
  outcomes (which is Hoeffding's), with r_n = r/(n(n+1)) at the n-th visit. These risks sum to r, so
  that it holds for all n at once, too.

Without visits, every interval is [0, 1].
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mdpdsl.graph.space import FloatArray, IntArray

SETS = ("time-uniform", "clopper-pearson", "weissman")

#: Newton's method starts outside the root of a convex function and needs about 6 steps.
MOST_STEPS = 60

#: From here on, three terms of Stirling's series are exact to the last digit.
LARGE = 200.0

Exponent = float | npt.NDArray[np.float64]
Ends = tuple[FloatArray, FloatArray]


def interval(kind: str, counts: IntArray, n: IntArray, exponent: Exponent) -> Ends:
    """Return lower and upper ends for counts out of n, each with the risk exp(-exponent)."""
    k, n, e = np.broadcast_arrays(
        np.asarray(counts, np.float64), np.asarray(n, np.float64), np.asarray(exponent, np.float64)
    )
    lower, upper = _KINDS[kind](k, np.maximum(n, 1.0), e)
    return np.where(n > 0, lower, 0.0), np.where(n > 0, upper, 1.0)


def time_uniform(counts: IntArray, n: IntArray, delta: float) -> Ends:
    """Return ends that hold for all n at once with probability 1 - delta."""
    return interval("time-uniform", counts, n, -np.log(delta))


def clopper_pearson(counts: IntArray, n: IntArray, delta: float) -> Ends:
    """Return ends that hold at one look with probability 1 - delta; [0, 1] if n = 0."""
    return interval("clopper-pearson", counts, n, -np.log(delta))


def unseen_upper(kind: str, n: IntArray, exponent: Exponent) -> FloatArray:
    """Return the upper end of what never happened in n visits; the exponent may be any number."""
    return interval(kind, np.zeros(np.shape(n), np.int64), n, exponent)[1]


def _time_uniform(k: FloatArray, n: FloatArray, exponent: FloatArray) -> Ends:
    p = k / n
    regret = 0.5 * np.log(np.pi * n / 2) - _half(k) - _half(n - k) + _stirling(n)
    level = regret + exponent
    lower = p * np.exp(-_shrinking(k, n, level))
    upper = p - (1 - p) * np.expm1(-_shrinking(n - k, n, level))
    return np.where(k > 0, lower, 0.0), np.where(k < n, upper, 1.0)


def _shrinking(k: FloatArray, n: FloatArray, level: FloatArray) -> FloatArray:
    """Return t >= 0 with n kl(p, p e^-t) = level for p = k/n: how far p may shrink.

    n kl = k t - (n-k) log(1 + p (1 - e^-t)/(1 - p)) is convex and increasing in t, so that Newton's
    method descends to the root from any t beyond it. One such t drops the logarithm's dependence on
    t, another uses kl(p, q) >= (p - q)^2/(2p) for q <= p.
    """
    t = np.asarray(level / n)  # exact if k = n; of no use if k = 0
    inside = (k > 0) & (k < n)
    k, n, level = k[inside], n[inside], level[inside]
    p, rest = k / n, (n - k) / n
    far = (level - (n - k) * np.where(p < 0.5, np.log1p(-p), np.log(rest))) / k
    share = np.sqrt(2 * level / k)
    near = np.where(share < 1, -np.log1p(-np.minimum(share, 0.999_999)), np.inf)
    x = np.where(share < 0.999_999, np.minimum(far, near), far)
    for _ in range(MOST_STEPS):
        moved = -p * np.expm1(-x) / rest
        value = k * x - (n - k) * np.log1p(moved) - level
        slope = k - (n - k) * p * np.exp(-x) / (rest * (1 + moved))
        step = value / np.maximum(slope, np.finfo(float).tiny)
        x = np.maximum(x - np.maximum(step, 0.0), 0.0)
        if not np.any(step > 1e-14 * x):
            break
    t[inside] = x
    return t


def _half(x: FloatArray) -> FloatArray:
    """Return log Gamma(x + 1/2) - (x log x - x + log(2 pi)/2)."""
    from scipy.special import gammaln, xlogy

    y = np.maximum(x, 1.0)
    series = -1 / (24 * y) + 7 / (2880 * y**3) - 31 / (40320 * y**5)
    small = np.minimum(x, LARGE)
    exact = gammaln(small + 0.5) - (xlogy(small, small) - small + 0.5 * np.log(2 * np.pi))
    return np.where(x < LARGE, exact, series)


def _stirling(n: FloatArray) -> FloatArray:
    """Return log n! - (n log n - n + log(2 pi n)/2), for n of at least 1."""
    from scipy.special import gammaln

    small = np.minimum(n, LARGE)
    exact = gammaln(small + 1) - (small * np.log(small) - small + 0.5 * np.log(2 * np.pi * small))
    series = 1 / (12 * n) - 1 / (360 * n**3) + 1 / (1260 * n**5)
    return np.where(n < LARGE, exact, series)


def _clopper_pearson(k: FloatArray, n: FloatArray, exponent: FloatArray) -> Ends:
    """Invert the binomial tails; a tail of k = 0 or k = n is a power, whatever its risk."""
    from scipy.special import betainccinv, betaincinv

    tail = np.exp(-exponent) / 2
    power = -(exponent + np.log(2)) / n
    with np.errstate(all="ignore"):
        low: FloatArray = np.asarray(betaincinv(np.maximum(k, 1), n - k + 1, tail), np.float64)
        high: FloatArray = np.asarray(betainccinv(k + 1, np.maximum(n - k, 1), tail), np.float64)
    low = np.where(k == n, np.exp(power), np.where(k > 0, low, 0.0))
    return low, np.where(k == 0, -np.expm1(power), np.where(k < n, high, 1.0))


def _weissman(k: FloatArray, n: FloatArray, exponent: FloatArray) -> Ends:
    width: FloatArray = np.sqrt((np.log(2) + exponent + np.log(n) + np.log1p(n)) / (2 * n))
    return np.maximum(0.0, k / n - width), np.minimum(1.0, k / n + width)


_KINDS = {
    "time-uniform": _time_uniform,
    "clopper-pearson": _clopper_pearson,
    "weissman": _weissman,
}
