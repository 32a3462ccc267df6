"""Nodes and weights for noise that a distribution function cannot integrate exactly.

The expectation E f(w) is approximated by a weighted sum over nodes, sum_i weight_i f(w_i).

- One noise: strata that end at the breakpoints where some next value enters another cell, with a
  few Gauss-Legendre nodes in each. Jumps at breakpoints are exact, and smooth parts converge with
  high order.
- Two or three noises: the product of equally likely strata.
- More: random draws.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from mdpdsl.compile.cells import NORMAL_REACH, normal_cdf
from mdpdsl.compile.checked import Noise, Spread
from mdpdsl.compile.noise import OutcomePlan
from mdpdsl.graph.space import FloatArray

#: Strata for a smooth integrand, and for one with unknown jumps (fewer if there are many points).
SMOOTH_STRATA = 24
ROUGH_STRATA = 1024
LEAST_ROUGH_STRATA = 64
#: Nodes per stratum of a smooth integrand.
GAUSS_NODES = 4
#: Total nodes for two or three noises, and draws for more.
MOST_NODES = 4096


def support(spread: Spread) -> tuple[float, float]:
    """Return the interval outside which a continuous noise is negligible."""
    if spread.family == "uniform":
        return spread.a, spread.b
    return spread.a - NORMAL_REACH * spread.b, spread.a + NORMAL_REACH * spread.b


def rough_strata(n_points: int) -> int:
    """Return the number of strata for an integrand with jumps that is averaged over points."""
    return max(LEAST_ROUGH_STRATA, min(ROUGH_STRATA, 16 * ROUGH_STRATA // n_points))


def n_quadrature_nodes(plan: OutcomePlan, n_points: int) -> int:
    """Return the approximate number of nodes for the noise of an outcome."""
    if len(plan.quadrature) > 1:
        return MOST_NODES
    if plan.quadrature:
        return rough_strata(n_points) if plan.is_rough else 2 * SMOOTH_STRATA * GAUSS_NODES
    return 1


def stratified_nodes(
    spread: Spread, breakpoints: FloatArray, n_rough: int | None, n_gauss: int, refinement: int
) -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights [n, m] of one noise, with strata that end at [n, b] breakpoints.

    Without `n_rough`, the integrand is taken to be smooth between breakpoints; otherwise there are
    `n_rough` equally likely strata in addition.
    """
    if n_rough is not None:
        base = _quantiles(spread, np.linspace(0, 1, n_rough * refinement + 1))
    else:
        base = np.linspace(*support(spread), SMOOTH_STRATA * refinement + 1)
    low, high = base[0], base[-1]
    tiled = np.broadcast_to(base, (len(breakpoints), len(base)))
    bounds = np.sort(np.concatenate([tiled, np.clip(breakpoints, low, high)], axis=1), axis=1)
    points, gauss_weights = np.polynomial.legendre.leggauss(n_gauss)
    middle, half = (bounds[:, 1:] + bounds[:, :-1]) / 2, np.diff(bounds, axis=1) / 2
    nodes = middle[:, :, None] + half[:, :, None] * points
    density = _density(spread, nodes) * gauss_weights
    mass = np.diff(_cdf(spread, bounds), axis=1)[:, :, None]
    total = density.sum(axis=2, keepdims=True)
    weights = mass * np.divide(density, total, out=np.zeros_like(density), where=total > 0)
    shape = (len(bounds), -1)
    return nodes.reshape(shape), weights.reshape(shape)


def product_nodes(noises: tuple[Noise, ...], refinement: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes [m, n_noises] and weights [m] of two or three noises."""
    per_axis = max(2, round((MOST_NODES * refinement) ** (1 / len(noises))))
    middles = (np.arange(per_axis) + 0.5) / per_axis
    axes = [_quantiles(noise.spread, middles) for noise in noises]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    return grid, np.full(len(grid), 1 / len(grid))


def sampled_nodes(
    noises: tuple[Noise, ...], seed: int, refinement: int
) -> tuple[FloatArray, FloatArray]:
    """Return random nodes [m, n_noises] with equal weights [m]."""
    generator = np.random.default_rng([seed, refinement])
    n_draws = MOST_NODES * refinement
    draws = [
        generator.normal(noise.spread.a, noise.spread.b, n_draws)
        if noise.spread.family == "normal"
        else generator.uniform(noise.spread.a, noise.spread.b, n_draws)
        for noise in noises
    ]
    return np.stack(draws, axis=1), np.full(n_draws, 1 / n_draws)


def discrete_nodes(noises: tuple[Noise, ...]) -> tuple[FloatArray, FloatArray]:
    """Return all combinations [m, n_noises] of discrete noises and their probabilities [m]."""
    nodes, weights = np.zeros((1, 0)), np.ones(1)
    for noise in noises:
        values, probabilities = noise.spread.values, noise.spread.probabilities
        assert values is not None
        assert probabilities is not None
        n = len(values)
        nodes = np.column_stack([np.repeat(nodes, n, axis=0), np.tile(values, len(nodes))])
        weights = np.repeat(weights, n) * np.tile(probabilities, len(weights))
    possible = weights > 0
    return nodes[possible], weights[possible]


def _quantiles(spread: Spread, probabilities: FloatArray) -> FloatArray:
    if spread.family == "uniform":
        return spread.a + (spread.b - spread.a) * probabilities
    normal = NormalDist(spread.a, spread.b)
    low, high = support(spread)
    return np.array(
        [low if p <= 0 else high if p >= 1 else normal.inv_cdf(p) for p in probabilities.tolist()]
    )


def _density(spread: Spread, values: FloatArray) -> FloatArray:
    if spread.family == "uniform":
        return np.ones_like(values)
    return np.exp(-0.5 * ((values - spread.a) / spread.b) ** 2)


def _cdf(spread: Spread, values: FloatArray) -> FloatArray:
    if spread.family == "uniform":
        return np.clip((values - spread.a) / (spread.b - spread.a), 0, 1)
    return normal_cdf((values - spread.a) / spread.b)
