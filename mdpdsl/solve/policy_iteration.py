"""Policy iteration (Howard 1960): evaluate a policy exactly, improve it, until it is optimal.

The linear system (I - W_pi) V = c_pi is solved by elimination if that is cheap, otherwise by
BiCGSTAB from the last values, and by sweeps if that breaks down. A pair is replaced only by one
that is better by more than rounding, so that ties cannot cause a cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.kernels.affine_rows import Rows, first_best, weight_matrix
from mdpdsl.solve.bellman import ROUNDING
from mdpdsl.solve.solution import Iterate

if TYPE_CHECKING:
    from scipy.sparse import csr_array

#: A dense solution takes milliseconds up to the first, and about a second, if rows are full, up to
#: the second.
DENSE_STATES = 400
FULL_DENSE_STATES = 2_000
#: Sparse elimination is used up to here; fill-in makes larger systems impractical.
ELIMINATED_STATES = 3_000
#: The relative residual of BiCGSTAB, and the largest number of its steps.
LINEAR_TOLERANCE = 1e-13
MOST_STEPS = 500
#: Sweeps between two calls of the watch.
SWEEPS_AT_ONCE = 50
#: A pair counts as better if its value is higher by this many units of rounding.
BETTER = 64 * ROUNDING

Continue = Callable[[], bool]


class StoppedError(Exception):
    """The watch asked a linear solution to stop."""


def policy_iteration(
    rows: Rows,
    choice: IntArray,
    bound_of: Callable[[FloatArray], float],
    goes_on: Continue = lambda: True,
    start: FloatArray | None = None,
) -> Iterator[Iterate]:
    """Yield the values of better and better policies; the last cannot be improved.

    `bound_of` returns a bound on the error of given values, for the watch; `start` are values close
    to those of the first policy, if known.
    """
    matrix = weight_matrix(rows)
    values = np.zeros(len(rows.pair_start) - 1) if start is None else start
    iterations = 0
    seen: set[bytes] = set()
    while True:
        try:
            values = evaluated(matrix, rows.constant, choice, values, goes_on)
        except StoppedError:
            yield Iterate(values, iterations, bound_of(values))
            return
        iterations += 1
        worth = rows.constant + matrix @ values
        best, greedy = first_best(rows, worth)
        scale = np.abs(rows.constant).max() + np.abs(values).max()
        is_better = best > worth[choice] + BETTER * scale
        yield Iterate(values, iterations, bound_of(values))
        improved = np.where(is_better, greedy, choice)
        # Errors of BiCGSTAB may exceed what counts as better, so a policy may come up again: stop.
        seen.add(choice.tobytes())
        if not is_better.any() or improved.tobytes() in seen:
            return
        choice = improved


def evaluated(
    matrix: csr_array,
    constant: FloatArray,
    choice: IntArray,
    start: FloatArray,
    goes_on: Continue = lambda: True,
) -> FloatArray:
    """Return the values of the policy that takes one pair per state, by W_pi and c_pi."""
    chosen = matrix[choice]
    reward = constant[choice]
    n_states = len(choice)
    is_full = chosen.nnz > 0.05 * n_states**2
    if n_states <= DENSE_STATES or (is_full and n_states <= FULL_DENSE_STATES):
        return np.asarray(np.linalg.solve(np.eye(n_states) - chosen.toarray(), reward))
    from scipy.sparse import eye_array

    system = (eye_array(n_states, format="csr") - chosen).tocsr()
    if n_states <= ELIMINATED_STATES and not is_full:
        from scipy.sparse.linalg import splu

        return np.asarray(splu(system.tocsc()).solve(reward))
    found = _by_bicgstab(system, reward, start, goes_on)
    return found if found is not None else _by_sweeps(chosen, reward, start, goes_on)


def _by_bicgstab(
    system: csr_array, reward: FloatArray, start: FloatArray, goes_on: Continue
) -> FloatArray | None:
    """Return the solution of a large system; None if BiCGSTAB breaks down or takes too long."""
    from scipy.sparse.linalg import bicgstab

    def watch(_: FloatArray) -> None:
        if not goes_on():
            raise StoppedError

    with np.errstate(all="ignore"):
        found, failure = bicgstab(
            system, reward, x0=start, rtol=LINEAR_TOLERANCE, maxiter=MOST_STEPS, callback=watch
        )
    return np.asarray(found) if failure == 0 and np.isfinite(found).all() else None


def _by_sweeps(
    chosen: csr_array, reward: FloatArray, start: FloatArray, goes_on: Continue
) -> FloatArray:
    """Solve a large system by sweeps in place, which never break down."""
    from mdpdsl.kernels.solving import evaluate_in_place, order_from, reordered

    rows = Rows(
        np.arange(len(reward) + 1, dtype=np.uint32),
        chosen.indptr.astype(np.uint32),
        chosen.indices.astype(np.uint32),
        chosen.data,
        reward,
    )
    order = order_from(rows, np.flatnonzero(reward == reward.max()).astype(np.uint32))
    ordered, _ = reordered(rows, order)
    values, found = start[order], np.empty_like(start)
    least = ROUNDING * (np.abs(ordered.constant).max() + np.abs(values).max())
    while evaluate_in_place(ordered, values, SWEEPS_AT_ONCE, least) == SWEEPS_AT_ONCE:
        if not goes_on():
            raise StoppedError
        least = ROUNDING * max(1.0, float(np.abs(values).max()))
    found[order] = values
    return found
