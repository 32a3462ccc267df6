"""The plan of an experiment: a policy for the next steps, and what it is expected to bring."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import SettingsError
from mdpdsl.explore.numbers_plan import NumbersProspect
from mdpdsl.formats.policy_files import save_policy
from mdpdsl.graph.describe import pairs_text
from mdpdsl.graph.policy import Policy
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.tables import Tabular, pair_records, pair_table
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.programs.program import Status
from mdpdsl.representation import represented
from mdpdsl.versions import current_versions

if TYPE_CHECKING:
    import pyarrow as pa

    from mdpdsl.solve.robust_answer import RobustSolution

#: The most pairs to try by hand that a record lists.
LISTED_BY_HAND = 1000


class PlanError(SettingsError):
    """No plan is possible with these counts or settings; the message says why and what to do."""


@dataclass(frozen=True)
class Figures:
    """The error of an estimate, over the pairs that the plan covers.

    `worst` and `average` are L_Worst and L_Avg, n c/T (paper, evaluation metrics); the errors are
    c/T = E ||P - P_hat||^2 itself. They are infinite if a pair was never visited.
    """

    worst: float
    average: float
    worst_error: float
    average_error: float


@dataclass(frozen=True, eq=False)
class Prospect:
    """The figures now, after the plan, and after as many steps that repeat past visits."""

    now: Figures
    planned: Figures
    continued: Figures


@dataclass(frozen=True, eq=False)
class ExperimentPlan(Tabular):
    """A policy for the next steps, and the visits it is expected to add."""

    graph: TransitionGraph  # the arrays are over its pairs
    kappa: float
    steps: float  # m, the next ones
    transitions: int  # n, so far
    episode_length: float  # steps between two starts; infinite for one long run
    visits: IntArray  # [n_pairs]  T
    added_visits: FloatArray  # [n_pairs]  m d
    policy: Policy
    complexity: FloatArray  # [n_pairs]  c+
    order: IntArray  # [n_pairs]  pairs, the most important first
    by_hand: IntArray  # unvisited pairs that the plan does not reach, the nearest first
    is_planned: BoolArray  # [n_pairs]  whether the plan covers the pair
    is_known: BoolArray  # [n_states]  whether it was reached so far, or is an end
    is_learned: BoolArray  # [n_pairs]  whether its row is to be learned
    status: Status
    gap: float  # bounds F/F* - 1, if the status is OPTIMAL
    bounded: Prospect  # with c+
    estimated: Prospect  # with the plug-in c_hat, which is 0 for a pair visited once
    model: Model | None = None
    origin: str | None = None  # the folder of the run
    path: Path | None = None  # where the policy was written
    solution: RobustSolution | None = None  # of the property
    bounds_missing: str | None = None  # why the run's own property has none
    numbers: NumbersProspect | None = None  # of a plan for unknown numbers

    @property
    def guaranteed(self) -> float | None:
        """What some policy achieves, with confidence 1 - delta; None without a property."""
        return None if self.solution is None else self.solution.guaranteed

    @property
    def possible(self) -> float | None:
        """What no policy exceeds, with confidence 1 - delta; None without a property."""
        return None if self.solution is None else self.solution.possible

    @property
    def expected_visits(self) -> FloatArray:
        """T + m d, [n_pairs]."""
        return self.visits + self.added_visits

    @property
    def warnings(self) -> list[str]:
        """What the plan cannot do, and what you can do about it."""
        return _warnings(self)

    def table(self) -> pa.Table:
        """Return one row for each pair, the most important first."""
        columns = {
            "visits": self.visits[self.order],
            "added_visits": self.added_visits[self.order],
            "expected_visits": self.expected_visits[self.order],
            "complexity": self.complexity[self.order],
            "probability": self.policy.probability[self.order],
        }
        return pair_table(self.graph, columns, self.order)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the policy: `.csv`, `.json` or `.npz`."""
        save_policy(self.policy, self.graph, Path(path), overwrite=overwrite)
        return Path(path)

    def record(self) -> dict[str, Any]:
        """Return the plan as `--json` prints it."""
        return _record(self)

    def __repr__(self) -> str:
        name = "" if self.model is None else f" for {self.model.name}"
        return f"<ExperimentPlan{name}: {self.steps:,.0f} steps, kappa = {self.kappa:g}>"

    def _repr_html_(self) -> str | None:
        return represented("plan_html", self)


def _warnings(found: ExperimentPlan) -> list[str]:
    graph = found.graph
    warnings = []
    is_out = ~found.is_planned & found.is_learned
    n_out = int(is_out.sum())
    if n_out:
        share = f"{n_out:,} of {int(found.is_learned.sum()):,} pairs"
        n_unknown = int((~found.is_known).sum())
        why = []
        if n_unknown:
            states = "1 state" if n_unknown == 1 else f"{n_unknown:,} states"
            why.append(f"nothing seen so far leads to {states}")
        if found.is_known[graph.pair_state[is_out]].any():
            lost = "no way back is known from the states where a run ends up"
            if math.isinf(found.episode_length):
                lost += " (if experiments start again, say so with `episode_length=`)"
            why.append(lost)
        warnings.append(f"the plan cannot keep visiting {share}: {'; '.join(why)}")
    if len(found.by_hand):
        nearest = pairs_text(graph, found.by_hand.tolist())
        warnings.append(f"never seen and out of reach; try by hand, the nearest first: {nearest}")
    if found.bounds_missing is not None:
        warnings.append(f"there are no bounds for the run's property: {found.bounds_missing}")
    return warnings


def _record(found: ExperimentPlan) -> dict[str, Any]:
    graph = found.graph
    figures = {
        "visits": found.visits.astype(np.float64),
        "added_visits": found.added_visits,
        "expected_visits": found.expected_visits,
        "complexity": found.complexity,
    }
    order, length = found.order.tolist(), found.episode_length
    return {
        "model": None if found.model is None else found.model.name,
        "hash": graph.hash,
        "parameters": {} if found.model is None else dict(found.model.parameters),
        "run": found.origin,
        "kappa": found.kappa if math.isfinite(found.kappa) else "inf",
        "steps": int(found.steps),
        "transitions": found.transitions,
        "episode_length": length if math.isfinite(length) else None,
        "status": str(found.status),
        "gap": found.gap,
        "unseen_pairs": int(((found.visits == 0) & found.is_learned).sum()),
        "left_out": int((~found.is_planned & found.is_learned).sum()),
        "by_hand": pair_records(graph, found.by_hand[:LISTED_BY_HAND].tolist(), {}),
        **_prospect_record(found.bounded),
        "with_c_hat": _prospect_record(found.estimated),
        "warnings": found.warnings,
        "pairs": [
            record | {"visits": int(found.visits[pair])}
            for pair, record in zip(order, pair_records(graph, order, figures), strict=True)
        ],
        "policy": None if found.path is None else str(found.path),
        **_bounds_record(found.solution),
        **({} if found.numbers is None else _numbers_record(found.numbers)),
        "versions": current_versions(),
    }


def _bounds_record(found: RobustSolution | None) -> dict[str, Any]:
    if found is None:
        return {}
    kept = ("property", "guaranteed", "possible", "delta", "support", "pairs_to_visit")
    record = found.record()
    return {name: record[name] for name in kept}


def _numbers_record(found: NumbersProspect) -> dict[str, Any]:
    return {"purpose": "parameters", "parameters": found.records()}


def _prospect_record(prospect: Prospect) -> dict[str, dict[str, float | None]]:
    return {
        name: {k: v if math.isfinite(v) else None for k, v in asdict(figures).items()}
        for name, figures in vars(prospect).items()
    }
