"""The paper's measures of a run (paper, section on evaluation metrics).

L(s,a) = n c(s,a) / T(s,a); L_Worst and L_Avg are its maximum and mean over the available pairs,
with the true c if it is known. A run that never visited some pair has failed. Pairs whose rows the
model file states (`graph.to_learn`) are left out of all of these; n counts their visits, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields

import numpy as np

from mdpdsl.estimate.empirical import knowledge_rows
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.row_sets import entry_pairs
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph

#: The measures of runs that have a property.
BOUNDS = ("guaranteed", "possible")


@dataclass(frozen=True)
class Measures:
    """The measures of a run at one time; `worst` and `average` are None if it has failed.

    `transitions` is n, the number of visits, including those that the run began with.
    """

    step: int
    unvisited: int
    worst: float | None
    average: float | None
    utility: float | None  # U_kappa(d_hat), None if it is not finite
    squared_error: float | None = None  # mean over visited pairs of ||P - P_hat||^2, if P is known
    transitions: int | None = None
    # of the run's property, at the checkpoints where they are computed
    guaranteed: float | None = None
    possible: float | None = None


def measure(
    step: int,
    visits: IntArray,
    c: FloatArray,
    kappa: float,
    transitions: int | None = None,
    *,
    over_visited: bool = False,
) -> Measures:
    """Measure visits of the pairs to learn against their complexities c(s,a).

    `transitions` is n, if other pairs were visited as well. A pair with c = 0 needs no estimate,
    only a visit. `over_visited` leaves out pairs that were never visited: in a real system it may
    be impossible to visit them.
    """
    unvisited = int(np.count_nonzero(visits == 0))
    n = int(visits.sum()) if transitions is None else transitions
    if unvisited == len(visits) or (unvisited and not over_visited):
        return Measures(step, unvisited, None, None, None, transitions=n)
    visits, c = visits[visits > 0], c[visits > 0]
    L = c * (n / visits)
    U = utility(visits / n, c, kappa)
    return Measures(step, unvisited, float(L.max()), float(L.mean()), U, transitions=n)


def utility(d: FloatArray, c: FloatArray, kappa: float) -> float | None:
    """Return U_kappa(d) (paper, eq. Ukappa_definition); None if it overflows."""
    if kappa == 1:
        return float(np.sum(c * np.log(d)))
    with np.errstate(over="ignore", invalid="ignore"):
        value = float(np.sum(c**kappa * d ** (1 - kappa)) / (1 - kappa))
    return value if np.isfinite(value) else None


def history_arrays(history: Sequence[Measures]) -> dict[str, FloatArray]:
    """Return measures over time as columns, NaN for missing values."""
    rows = [asdict(measures) for measures in history]
    names = [field.name for field in fields(Measures)]
    return {
        name: np.array([np.nan if row[name] is None else row[name] for row in rows], float)
        for name in names
        if name not in BOUNDS or any(row[name] is not None for row in rows)
    }


def measures_record(measures: Measures) -> dict[str, float | None]:
    """Return measures by name, without the bounds of a property if there are none."""
    found = asdict(measures)
    return {k: v for k, v in found.items() if k not in BOUNDS or v is not None}


def mean_squared_error(truth: TransitionGraph, counts: Counts) -> float | None:
    """Return the mean over visited pairs of ||P - P_hat||_2^2; known ones are left out."""
    seen = (counts.visits > 0) & truth.to_learn
    return float(squared_errors(truth, counts)[seen].mean()) if seen.any() else None


def squared_errors(truth: TransitionGraph, counts: Counts) -> FloatArray:
    """Return ||P - P_hat||_2^2 of every pair, [n_pairs].

    P_hat = 0 if it was never visited, unless the model file says where it can lead.
    """
    if truth.knowledge is None:
        start, successor = counts.successor_start, counts.successor
        pair = entry_pairs(start)
        estimate = counts.count / counts.visits[pair]
    else:
        start, successor, estimate = knowledge_rows(counts, truth.knowledge)
        pair = entry_pairs(start)
    # ||P - P_hat||^2 = sum P^2 - 2 sum P P_hat + sum P_hat^2; the last two sums need only the
    # successors that were seen.
    P = truth.transition_matrix()
    true_squares = np.add.reduceat(truth.probability**2, truth.successor_start[:-1])
    keys = pair * np.int64(truth.n_states) + successor
    branch_pair = entry_pairs(truth.successor_start)
    branch_keys = branch_pair * np.int64(truth.n_states) + truth.successor
    place = np.minimum(np.searchsorted(branch_keys, keys), len(branch_keys) - 1)
    matching = np.where(branch_keys[place] == keys, P.data[place], 0.0)
    n_pairs = truth.n_pairs
    mixed = np.bincount(pair, matching * estimate, minlength=n_pairs)
    squares = np.bincount(pair, estimate**2, minlength=n_pairs)
    return np.asarray(true_squares - 2 * mixed + squares)


def checkpoints(steps: int, per_decade: int = 6) -> list[int]:
    """Return logarithmically spaced steps, the last one included."""
    n = max(1, round(per_decade * np.log10(max(steps, 10))))
    times = np.unique(np.round(np.logspace(0, np.log10(steps), n + 1)).astype(np.int64))
    return sorted({*times.tolist(), steps})
