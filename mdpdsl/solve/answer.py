"""The answer of `solve`: the best policy for a question, its value, and certified bounds."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from mdpdsl.compile.model import Model
from mdpdsl.compile.properties import Question
from mdpdsl.compile.stored import StoredModel, stored_keys
from mdpdsl.files import require_absent, write_arrays, write_text
from mdpdsl.formats.plan_files import save_plan
from mdpdsl.formats.policy_files import check_policy_path, save_policy
from mdpdsl.graph.analysis import reachable_states
from mdpdsl.graph.objectives import Cumulative, Discounted, Objective, Total, Until
from mdpdsl.graph.policy import Policy
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray, Value
from mdpdsl.graph.tables import Tabular, state_table
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.representation import represented
from mdpdsl.solve.asked import Flags
from mdpdsl.solve.solution import SolveOutcome, SolveStatus
from mdpdsl.versions import current_versions

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class Solution(Tabular):
    """The best policy for a question, its value, and certified bounds of the optimum."""

    model: Model
    question: Question
    flags: Flags | None  # that asked it; None for a property
    outcome: SolveOutcome  # of the question's objective
    status: str  # optimal, time limit, interrupted, precision limit or failed

    @property
    def minimise(self) -> bool:
        """Whether the least value is asked for."""
        return self.question.is_minimised != self.question.is_complement

    @property
    def discount(self) -> float | None:
        """The discount of rewards; None if the question has none."""
        objective = self.question.objective
        return objective.discount if isinstance(objective, Discounted) else None

    @property
    def reach(self) -> str | None:
        """The label to reach, if the question names one by a flag."""
        return None if self.flags is None else self.flags.reach

    @property
    def value(self) -> float:
        """The expected value over the initial states."""
        return self._asked(self.outcome.value)

    @property
    def lower(self) -> float | None:
        """A certified lower bound of the optimum at the start; None if that rests on a guess."""
        return None if self.rests_on_unseen else self._at_start(*self._bounds)[0]

    @property
    def upper(self) -> float | None:
        """A certified upper bound of the optimum at the start; None if that rests on a guess."""
        return None if self.rests_on_unseen else self._at_start(*self._bounds)[1]

    @property
    def bound(self) -> float | None:
        """No state's value is further than this from the optimum; certified.

        For an estimate it is about the estimated model: the uncertainty of the data is not in it.
        None if the optimum rests on pairs that were never visited, whose rows are guessed.
        """
        return None if self.rests_on_unseen else self.outcome.bound

    @property
    def holds(self) -> bool | None:
        """The answer to a property with a threshold; None if the bounds do not decide it."""
        if self.question.comparison is None or self.lower is None or self.upper is None:
            return None
        return compared(self.question, self.lower, self.upper)

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
        if choice is not None and self.outcome.plan is None and self.outcome.replay is None:
            used[:] = False
            used[choice[np.diff(graph.pair_start) > 0]] = True
        objective = self.question.objective
        if isinstance(objective, Until | Total):  # what follows the goal does not matter
            used &= ~objective.goal[graph.pair_state]
        if isinstance(objective, Until) and objective.allowed is not None:
            used &= objective.allowed[graph.pair_state]
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
    def described(self) -> str:
        """The question in words, or the text of the property."""
        return self.question.text if self.flags is None else self.flags.described(self.minimise)

    @property
    def values(self) -> FloatArray:
        """The value of every state, [n_states]."""
        return self._asked(self.outcome.values)

    @property
    def is_optimal(self) -> bool:
        """Whether the bound is within the tolerance."""
        return self.outcome.status is SolveStatus.OPTIMAL

    @cached_property
    def policy(self) -> Policy:
        """The policy: one action in each state; in the first step, if their number is limited."""
        return Policy.deterministic(self.model.name, self.model.graph, self.outcome.choice)

    def actions_with(self, steps_left: int) -> list[str]:
        """Return the action to take in each state with so many steps left, by name."""
        return action_names(self.model.graph, self.outcome.choice_with(steps_left))

    @property
    def actions(self) -> list[str]:
        """The action to take in each state, by name; an empty text in an end."""
        return action_names(self.model.graph, self.outcome.choice)

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
        """Write the policy: `.csv`, `.json` or `.npz`.

        If it depends on the steps left, a table says what to do with each number of them.
        """
        graph, steps = self.model.graph, steps_of(self.question.objective)
        if steps is None:
            save_policy(self.policy, graph, Path(path), overwrite=overwrite)
        else:
            save_plan(
                self.outcome.choice_with,
                steps,
                self.model.name,
                graph,
                Path(path),
                overwrite=overwrite,
            )
        return Path(path)

    def record(self) -> dict[str, Any]:
        """Return the results as `--json` prints them."""
        graph, outcome, question = self.model.graph, self.outcome, self.question
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
            "property": question.text,
            "name": question.name,
            "value": finite_or_text(self.value),
            "lower": finite_or_text(self.lower),
            "upper": finite_or_text(self.upper),
            "holds": self.holds,
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
        error = "no bound" if self.bound is None else f"± {self.bound:.1g}"
        return f"<Solution of {self.model.name}, {self.described}: {self.value:.6g} {error}>"

    def _repr_html_(self) -> str | None:
        return represented("solution_html", self)

    @overload
    def _asked(self, found: float) -> float: ...

    @overload
    def _asked(self, found: FloatArray) -> FloatArray: ...

    def _asked(self, found: float | FloatArray) -> float | FloatArray:
        """Return a value of the question from one of its objective."""
        return 1.0 - found if self.question.is_complement else found

    @property
    def _bounds(self) -> tuple[FloatArray, FloatArray]:
        """Certified bounds of the value asked for, [n_states] each."""
        lower, upper = self.outcome.lower, self.outcome.upper
        return (1.0 - upper, 1.0 - lower) if self.question.is_complement else (lower, upper)

    def _at_start(self, *bounds: FloatArray) -> list[float]:
        initial = self.model.graph.initial
        starts = initial > 0
        return [float(initial[starts] @ values[starts]) for values in bounds]


def compared(asked: Question, lower: float, upper: float) -> bool | None:
    """Return whether a value between bounds satisfies a threshold; None if they do not decide."""
    comparison, threshold = asked.comparison, asked.threshold
    assert threshold is not None
    if comparison in (">=", ">"):
        is_sure = lower >= threshold if comparison == ">=" else lower > threshold
        is_refuted = upper < threshold if comparison == ">=" else upper <= threshold
    else:
        is_sure = upper <= threshold if comparison == "<=" else upper < threshold
        is_refuted = lower > threshold if comparison == "<=" else lower >= threshold
    return True if is_sure else False if is_refuted else None


def steps_of(objective: Objective) -> int | None:
    """Return the number of steps on which the policy depends; None if it does not."""
    if isinstance(objective, Until | Cumulative):
        return objective.steps
    return None


def action_names(graph: TransitionGraph, choice: npt.NDArray[np.integer[Any]]) -> list[str]:
    """Return the action of each chosen pair by name; an empty text where there is none."""
    labels = ["", *graph.actions.labels]
    return [labels[graph.pair_action[p] + 1 if p >= 0 else 0] for p in choice]


def finite_or_text(value: float | None) -> float | str | None:
    """Return a number as JSON has it: infinity is a text."""
    if value is None or math.isfinite(value):
        return value
    return "inf" if value > 0 else "-inf"


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
        listed = [[*row[:-1], finite_or_text(float(row[-1]))] for row in rows]
        text = json.dumps(record | {"columns": names, "rows": listed}, allow_nan=False)
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
