"""The verb `solve`: the best policy of a model for a question, with a certified bound."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdpdsl.compile.model import Model, as_model
from mdpdsl.compile.stored import StoredModel, stored_keys
from mdpdsl.diagnostics import SolveError
from mdpdsl.files import require_absent, write_arrays, write_text
from mdpdsl.formats.policy_files import check_policy_path, save_policy
from mdpdsl.graph.analysis import reachable_states
from mdpdsl.graph.policy import Policy
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray, Value
from mdpdsl.graph.tables import Tabular, state_table
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.progress import Progress, Watch, heeding_interrupts, shown
from mdpdsl.representation import represented
from mdpdsl.solve.discounted import DISCOUNT, solve_discounted
from mdpdsl.solve.reachability import solve_reachability
from mdpdsl.solve.solution import SolveOutcome, SolveStatus
from mdpdsl.versions import current_versions

if TYPE_CHECKING:
    import pyarrow as pa

    from mdpdsl.compile.model import Estimating


@dataclass(frozen=True, eq=False)
class Solution(Tabular):
    """The best policy for a question, its value, and a bound on the distance to the optimum."""

    model: Model
    outcome: SolveOutcome
    status: str  # optimal, time limit, interrupted, precision limit or failed
    discount: float | None  # None: the question is a probability
    reach: str | None
    minimise: bool

    @property
    def value(self) -> float:
        """The expected value over the initial states."""
        return self.outcome.value

    @property
    def bound(self) -> float | None:
        """No state's value is further than this from the optimum; certified.

        For an estimate it is about the estimated model: the uncertainty of the data is not in it.
        None if the optimum rests on pairs that were never visited, whose rows are guessed.
        """
        return None if self.rests_on_unseen else self.outcome.bound

    @property
    def is_of_estimate(self) -> bool:
        """Whether the model was estimated from data."""
        return isinstance(self.model, StoredModel) and self.model.provenance.is_estimate

    @cached_property
    def rests_on_unseen(self) -> int:
        """How many pairs can be reached from the start that were never visited in the data."""
        return self._unseen_within(None)

    @cached_property
    def policy_rests_on_unseen(self) -> int:
        """How many of these pairs the policy uses."""
        return self._unseen_within(self.outcome.choice)

    def _unseen_within(self, choice: IntArray | None) -> int:
        if not isinstance(self.model, StoredModel):
            return 0
        graph, guessed = self.model.graph, self.model.guessed
        if not len(guessed):
            return 0
        used = np.ones(graph.n_pairs, np.bool_)
        if choice is not None:
            used[:] = False
            used[choice[np.diff(graph.pair_start) > 0]] = True
        if self.reach is not None:  # what follows the label does not matter
            used &= ~graph.labels[self.reach][graph.pair_state]
        return int(np.count_nonzero(_visited_pairs(graph, used)[guessed]))

    @property
    def bound_text(self) -> str:
        """The bound and what it is about, or why there is none, in a few words."""
        if self.rests_on_unseen:
            n, used = self.rests_on_unseen, self.policy_rests_on_unseen
            pairs = "1 pair that was" if n == 1 else f"{n:,} pairs that were"
            return f"none: the value rests on {pairs} never visited ({used:,} under this policy)"
        about = (
            "of the estimate; the data's own uncertainty is not in it"
            if self.is_of_estimate
            else "no state's value is further from the optimum"
        )
        return f"{self.outcome.bound:.2g} ({about})"

    @property
    def values(self) -> FloatArray:
        """The value of every state, [n_states]."""
        return self.outcome.values

    @property
    def is_optimal(self) -> bool:
        """Whether the bound is within the tolerance."""
        return self.outcome.status is SolveStatus.OPTIMAL

    @cached_property
    def policy(self) -> Policy:
        """The policy: one action in each state."""
        return Policy.deterministic(self.model.name, self.model.graph, self.outcome.choice)

    @property
    def actions(self) -> list[str]:
        """The action to take in each state, by name; an empty text in an end."""
        graph = self.model.graph
        labels = ["", *graph.actions.labels]
        return [labels[graph.pair_action[p] + 1 if p >= 0 else 0] for p in self.outcome.choice]

    def table(self) -> pa.Table:
        """Return one row for each state: its variables, the action to take, its value."""
        return state_table(self.model.graph, {"action": self.actions, "value": self.values})

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the value and the action of every state: `.csv`, `.json` or `.npz`."""
        path = Path(path)
        check_policy_path(path)
        require_absent(path, overwrite)
        _save_values(self, path)
        return path

    def save_policy(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the policy: `.csv`, `.json` or `.npz`."""
        save_policy(self.policy, self.model.graph, Path(path), overwrite=overwrite)
        return Path(path)

    def record(self) -> dict[str, Any]:
        """Return the results as `--json` prints them."""
        graph, outcome = self.model.graph, self.outcome
        return {
            "model": self.model.name,
            "hash": graph.hash,
            "parameters": dict(self.model.parameters),
            "states": graph.n_states,
            "pairs": graph.n_pairs,
            "status": self.status,
            "method": outcome.method,
            "variant": outcome.variant,
            "direction": "min" if self.minimise else "max",
            "discount": self.discount,
            "label": self.reach,
            "value": outcome.value,
            "bound": self.bound,
            "bound_of": "estimate" if self.is_of_estimate else "model",
            "rests_on_unseen": self.rests_on_unseen,
            "policy_rests_on_unseen": self.policy_rests_on_unseen,
            "residual": outcome.residual,
            "iterations": outcome.iterations,
            "seconds": outcome.seconds,
            "message": outcome.message,
            "versions": current_versions(),
            **stored_keys(self.model),
        }

    def __repr__(self) -> str:
        what = f"reach {self.reach}" if self.reach is not None else f"discount {self.discount:g}"
        error = "no bound" if self.bound is None else f"± {self.bound:.1g}"
        return f"<Solution of {self.model.name}, {what}: {self.value:.6g} {error}>"

    def _repr_html_(self) -> str | None:
        return represented("solution_html", self)


def solve(
    model: Model | Estimating,
    *,
    discount: float | None = None,
    reach: str | None = None,
    minimise: bool = False,
    method: str = "auto",
    tolerance: float | None = None,
    backend: str | None = None,
    time_limit: float | None = None,
    progress: bool | Progress | None = None,
) -> Solution:
    """Find the best policy for a model's rewards, or for reaching a label.

    By default, maximise the expected sum of rewards, discounted by `discount` (0.99); with `reach`,
    maximise the probability of reaching that label. `minimise` does the opposite. The method is
    auto, vi, mpi, pi or lp; `backend` names the solver of lp. After Ctrl-C or `time_limit` seconds,
    return what is known by then, with a valid bound.

    >>> import mdpdsl
    >>> solution = mdpdsl.solve(mdpdsl.load("riverswim"), discount=0.95)
    >>> round(solution.value, 3), solution.actions[0]
    (4.669, 'right')
    """
    if reach is not None and discount is not None:
        raise SolveError(
            "`reach=` asks for a probability, which is not discounted; leave out `discount=`"
        )
    if backend is not None and method != "lp":
        raise SolveError("`backend=` names the solver of a linear program; it needs `method=` lp")
    solved = as_model(model)
    rate = None if reach is not None else DISCOUNT if discount is None else discount
    options: dict[str, Any] = {
        "is_minimised": minimise,
        "method": method,
        "tolerance": tolerance,
        "backend": backend or "highs",
        "time_limit": time_limit,
    }
    with shown(progress, "solving", "") as update, heeding_interrupts() as interrupts:
        watch = Watch(interrupts, time_limit, _showing(update, tolerance or 1e-6))
        if reach is not None:
            outcome = solve_reachability(solved.graph, reach, watch=watch, **options)
        else:
            assert rate is not None
            outcome = solve_discounted(solved.graph, rate, watch=watch, **options)
    status = str(outcome.status)
    if outcome.status is SolveStatus.STOPPED:
        status = "interrupted" if watch.is_interrupted else "time limit"
    return Solution(solved, outcome, status, rate, reach, minimise)


def _visited_pairs(graph: TransitionGraph, used: BoolArray) -> BoolArray:
    """Return the pairs that can be visited from the start if only some are used, [n_pairs]."""
    branches = np.repeat(used, np.diff(graph.successor_start))
    if not branches.any():
        return used & (graph.initial > 0)[graph.pair_state]
    moves = replace(
        graph,
        successor_start=np.concatenate([[0], np.cumsum(branches)])[graph.successor_start],
        successor=graph.successor[branches],
        probability=graph.probability[branches],
        branch_reward=None,
    )
    return used & reachable_states(moves)[graph.pair_state]


def _showing(update: Progress | None, tolerance: float) -> Callable[[int, float], None] | None:
    """Return a function that shows how near a bound is to the tolerance, on a logarithmic scale."""
    if update is None:
        return None
    widest = 0.0

    def show(iterations: int, bound: float) -> None:
        nonlocal widest
        if not 0 < bound < math.inf:
            return
        widest = max(widest, bound)
        whole = math.log(max(widest / tolerance, 1 + 1e-9))
        done = min(1.0, max(0.0, math.log(widest / bound) / whole))
        update(round(100 * done), 100, f"{iterations:,} iterations, bound {bound:.1e}")

    return show


def _save_values(solution: Solution, path: Path) -> None:
    graph, values, bound = solution.model.graph, solution.values, solution.bound
    if path.suffix == ".npz":
        header = {"kind": np.array("values"), "hash": np.array(graph.hash)}
        known = np.nan if bound is None else bound
        write_arrays(path, {**header, "values": values, "bound": np.array(known)})
        return
    names = [*(variable.name for variable in graph.states.variables), "action", "value"]
    rows: list[list[Value]] = [
        [*graph.states.native(state).values(), action, float(values[state])]
        for state, action in enumerate(solution.actions)
    ]
    if path.suffix == ".json":
        record = {"kind": "values", "hash": graph.hash, "bound": bound}
        text = json.dumps(record | {"columns": names, "rows": rows}, allow_nan=False)
        write_text(path, text + "\n")
        return
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([[_exact(value) for value in row] for row in rows])
    write_text(path, buffer.getvalue())


def _exact(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)
