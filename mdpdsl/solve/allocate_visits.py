"""The verb `allocate`: the best possible shares of visits for a known model.

Pairs whose rows the model file states need no visits, and have no part in the mean of L_Avg.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from mdpdsl.compile.model import Model, as_model
from mdpdsl.compile.stored import stored_keys
from mdpdsl.compile.truth import require_truth
from mdpdsl.diagnostics import SettingsError
from mdpdsl.graph.complexity import RATES, complexity, squared_l2_complexity
from mdpdsl.graph.space import BoolArray, IntArray
from mdpdsl.graph.tables import pair_records
from mdpdsl.programs.allocation import Allocation as Shares
from mdpdsl.programs.allocation import optimal_allocation
from mdpdsl.programs.newton import Watch
from mdpdsl.programs.program import load_backend
from mdpdsl.progress import Progress, shown
from mdpdsl.representation import represented
from mdpdsl.solve.allocate_numbers import PURPOSES, ExperimentDesign, experiment_design
from mdpdsl.solve.visit_shares import VisitShares
from mdpdsl.versions import current_versions

if TYPE_CHECKING:
    from mdpdsl.compile.model import Estimating

METHODS = ("newton", "lp")

#: Pairs listed at each end.
N_LISTED = 3


@dataclass(frozen=True, eq=False, kw_only=True)
class Allocation(Shares, VisitShares):
    """The best shares of visits of a model, how good they are, and a bound on the gap to the best.

    No explorer can do better than its `worst` (kappa = inf) and `average` (kappa = 2 with the
    distance root-l2): they are the limits that explorers are measured against.
    """

    model: Model
    distance: str
    method: str

    @cached_property
    def extremes(self) -> tuple[list[int], list[int]]:
        """The pairs with the most visits, and those with the fewest among those in need."""
        d = self.occupancy
        most = np.argsort(-d, kind="stable")[:N_LISTED]
        others = np.concatenate([self.without_need, self.left_out])
        in_need = np.setdiff1d(np.flatnonzero(d > 0), others)
        rarest = in_need[np.argsort(d[in_need], kind="stable")][:N_LISTED]
        return most.tolist(), rarest.tolist()

    def record(self) -> dict[str, Any]:
        """Return the results as `--json` prints them."""
        graph = self.model.graph
        most, rarest = self.extremes
        shares = {"occupancy": self.occupancy}
        return {
            "model": self.model.name,
            "hash": graph.hash,
            "parameters": dict(self.model.parameters),
            "kappa": _number(self.kappa) or "inf",
            "distance": self.distance,
            "method": self.method,
            "status": str(self.status),
            "objective": _number(self.objective),
            "gap": _number(self.gap),
            "worst": _number(self.worst),
            "average": _number(self.average),
            "residual": self.residual,
            "iterations": self.iterations,
            "seconds": self.seconds,
            "pairs": graph.n_pairs,
            "without_need": len(self.without_need),
            "left_out": len(self.left_out),
            "most_visited": pair_records(graph, most, shares),
            "rarest": pair_records(graph, rarest, shares),
            "versions": current_versions(),
            **stored_keys(self.model),
        }

    def __repr__(self) -> str:
        figures = f"L_Worst {self.worst:,.6g}, L_Avg {self.average:,.6g}, gap {self.gap:.1e}"
        return f"<Allocation of {self.model.name}, kappa = {self.kappa:g}: {figures}>"

    def _repr_html_(self) -> str | None:
        return represented("allocation_html", self)


@overload
def allocate(
    model: Model | Estimating,
    *,
    kappa: float | None = ...,
    distance: str = ...,
    recurrent: bool = ...,
    component: int | None = ...,
    method: str = ...,
    backend: str | None = ...,
    time_limit: float | None = ...,
    progress: bool | Progress | None = ...,
    purpose: None = ...,
) -> Allocation: ...


@overload
def allocate(
    model: Model | Estimating,
    *,
    recurrent: bool = ...,
    component: int | None = ...,
    time_limit: float | None = ...,
    progress: bool | Progress | None = ...,
    purpose: str,
    criterion: str = ...,
    weights: str | Mapping[str, float] | None = ...,
    mix: float = ...,
    steps: int | None = ...,
    identifiable: bool = ...,
) -> ExperimentDesign: ...


def allocate(
    model: Model | Estimating,
    *,
    kappa: float | None = None,
    distance: str = "squared-l2",
    recurrent: bool = False,
    component: int | None = None,
    method: str = "newton",
    backend: str | None = None,
    time_limit: float | None = None,
    progress: bool | Progress | None = None,
    purpose: str | None = None,
    criterion: str = "a",
    weights: str | Mapping[str, float] | None = None,
    mix: float = 1.0,
    steps: int | None = None,
    identifiable: bool = False,
) -> Allocation | ExperimentDesign:
    """Find the best possible allocation of visits for a known model.

    `kappa` is 1 or more, or `math.inf` for the worst case; it defaults to the one in the model's
    `explore` block, or 1. `recurrent` leaves out pairs that no policy can keep visiting; then
    `component` chooses the part of the model to stay in. The method lp solves kappa = inf as a
    linear program.

    With `purpose="parameters"`, find the best experiment of so many `steps` for the unknown
    numbers: `criterion` a minimises the sum of their variances, with `weights` (`range`, `value` or
    one for each name), d the volume of their confidence set. `mix` is the weight of rows of unknown
    probabilities beside the numbers. `identifiable` leaves out what no experiment can show.

    >>> import math, mdpdsl
    >>> best = mdpdsl.allocate(mdpdsl.load("riverswim"), kappa=math.inf)
    >>> round(best.worst, 2), best.gap < 1e-6
    (3.78, True)
    """
    if purpose is not None:
        if purpose not in PURPOSES:
            raise SettingsError(f"there is no purpose `{purpose}`; there is {PURPOSES[0]}")
        is_given = {"kappa": kappa is not None, "distance": distance != "squared-l2"}
        is_given["method"] = method != "newton"
        given = [name for name, is_set in is_given.items() if is_set]
        if given:
            raise SettingsError(f"`{given[0]}=` is about rows; leave it out with `purpose=`")
        with shown(progress, "designing") as update:
            return experiment_design(
                model,
                criterion=criterion,
                weights=weights,
                mix=mix,
                steps=steps,
                identifiable=identifiable,
                recurrent=recurrent,
                component=component,
                time_limit=time_limit,
                watch=_watch(update),
            )
    is_given = {"criterion": criterion != "a", "weights": weights is not None, "mix": mix != 1}
    is_given |= {"steps": steps is not None, "identifiable": identifiable}
    given = [name for name, is_set in is_given.items() if is_set]
    if given:
        raise SettingsError(f"`{given[0]}=` is about unknown numbers; set `purpose=`, too")
    allocated = as_model(model)
    if component is not None and not recurrent:
        raise SettingsError("`component=` needs `recurrent=`")
    if method not in METHODS:
        raise SettingsError(f"there is no method `{method}`; there are {', '.join(METHODS)}")
    if distance not in RATES:
        raise SettingsError(f"there is no distance `{distance}`; there are {', '.join(RATES)}")
    if kappa is None:
        kappa = float(allocated.checked.explore.get("kappa", 1))
    if method == "lp" and not math.isinf(kappa):
        raise SettingsError("`method=` lp needs `kappa=` inf")
    graph = allocated.graph
    if not graph.has_dynamics:
        raise SettingsError(
            "the model has no dynamics, so there is nothing to allocate; estimate them from a log, "
            "or add `on` lines or equations"
        )
    require_truth(allocated, "allocate visits to", "estimate it from data")
    learned = graph.to_learn
    with shown(progress, "allocating") as update:
        shares = optimal_allocation(
            graph,
            np.where(learned, complexity(graph, distance), 0.0),
            kappa,
            losses=np.where(learned, squared_l2_complexity(graph), 0.0),
            recurrent=recurrent,
            component=component,
            time_limit=time_limit,
            backend=load_backend(backend or "highs") if method == "lp" else None,
            watch=_watch(update),
        )
    values = {field.name: getattr(shares, field.name) for field in fields(Shares)}
    values["average"] = shares.average * _average_factor(learned, shares.left_out, recurrent)
    return Allocation(**values, model=allocated, distance=distance, method=method)


def _watch(update: Progress | None) -> Watch | None:
    """Return what shows the gap after every step."""
    if update is None:
        return None
    return lambda steps, gap: update(steps, None, f"gap {gap:.1e}")


def _average_factor(learned: BoolArray, left_out: IntArray, recurrent: bool) -> float:
    """Return what turns a mean over all pairs into one over those to learn; 1 if all are."""
    is_counted = np.ones(len(learned), np.bool_)
    if recurrent:
        is_counted[left_out] = False
    return int(is_counted.sum()) / max(1, int((is_counted & learned).sum()))


def _number(value: float) -> float | None:
    """Return a number for JSON; None if it is infinite."""
    return value if math.isfinite(value) else None
