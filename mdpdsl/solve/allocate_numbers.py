"""The best possible experiment for a model's unknown numbers: `allocate(purpose="parameters")`.

How much a visit shows depends on the values of the numbers (`programs.design`). The design is for
the values that the data of an estimate or a run determine, or for those that a model gives its
numbers; for the middles of their ranges if it gives none. If the model has rows of unknown
probabilities (`?`), the design is for both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from mdpdsl.compile.family import Family
from mdpdsl.compile.model import Model, as_model
from mdpdsl.compile.set_model import value_text
from mdpdsl.compile.stored import stored_keys
from mdpdsl.diagnostics import SettingsError, did_you_mean
from mdpdsl.graph.complexity import squared_l2_complexity
from mdpdsl.graph.knowledge import Knowledge
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.programs.design import Design, optimal_design, random_design, range_weights
from mdpdsl.programs.newton import Watch
from mdpdsl.solve.visit_shares import VisitShares
from mdpdsl.versions import current_versions

if TYPE_CHECKING:
    from mdpdsl.compile.model import Estimating

PURPOSES = ("parameters",)
CRITERIA = ("a", "d")
#: The weights that have names: errors relative to the range, or to the value of a number.
WEIGHTS = ("range", "value")
#: The steps of an experiment, unless they are given or in the model's `explore` block.
STEPS = 100_000
#: Estimates keep off the ends of their ranges by this many deviations: where the data have not
#: shown an outcome, it seems impossible, and the information of a visit infinite.
MARGIN = 0.5


@dataclass(frozen=True, eq=False, kw_only=True)
class ExperimentDesign(Design, VisitShares):
    """The best shares of visits for unknown numbers, and the deviations that they promise.

    No experiment of so many steps estimates the numbers better, but for the `gap`. `random` is the
    same for actions drawn at random.
    """

    model: Model
    steps: int
    theta: FloatArray  # [k]  the values that the design is for
    weights: FloatArray  # [k]
    mix: float | None  # the weight of rows of unknown probabilities; None if there are none
    random: Design

    def record(self) -> dict[str, Any]:
        """Return the results as `--json` prints them."""
        graph = self.model.graph
        columns = zip(self.names, self.theta, self.deviations, self.random.deviations, strict=True)
        return {
            "model": self.model.name,
            "hash": graph.hash,
            "purpose": PURPOSES[0],
            "criterion": self.criterion,
            "mix": self.mix,
            "steps": self.steps,
            "status": str(self.status),
            "objective": _number(self.objective),
            "gap": _number(self.gap),
            "parameters": [
                {
                    "name": name,
                    "value": float(value),
                    "deviation": _number(deviation),
                    "random_deviation": _number(random),
                }
                for name, value, deviation, random in columns
            ],
            "assumed": [each.name for each in self.model.checked.unknowns if each.value is None],
            "random": {"objective": _number(self.random.objective)},
            "iterations": self.iterations,
            "seconds": self.seconds,
            "pairs": graph.n_pairs,
            "left_out": len(self.left_out),
            "versions": current_versions(),
            **stored_keys(self.model),
        }

    def __repr__(self) -> str:
        numbers = zip(self.names, self.theta, self.deviations, strict=True)
        shown = ", ".join(f"{name} {value_text(value, d)}" for name, value, d in numbers)
        return f"<ExperimentDesign of {self.model.name}, {self.steps:,} steps: {shown}>"


def experiment_design(
    given: Model | Estimating,
    *,
    criterion: str = "a",
    weights: str | Mapping[str, float] | None = None,
    mix: float = 1.0,
    steps: int | None = None,
    identifiable: bool = False,
    recurrent: bool = False,
    component: int | None = None,
    time_limit: float | None = None,
    watch: Watch | None = None,
) -> ExperimentDesign:
    """Design the best experiment for the unknown numbers of a model.

    `weights` are those of the squared errors: `range` (the default) for errors relative to the
    ranges of the numbers, `value` for errors relative to their values, or one for each name.
    """
    if criterion not in CRITERIA:
        raise SettingsError(f"there is no criterion `{criterion}`; there are {', '.join(CRITERIA)}")
    model, family, theta = _designed(given)
    graph, knowledge = model.graph, family.graph.knowledge
    assert knowledge is not None
    if steps is None:
        steps = int(model.checked.explore.get("steps", STEPS))
    if steps < 1 or steps != int(steps):
        raise SettingsError(f"`steps=` must be a whole number, 1 or more; not {steps}")
    W = _weights(family, theta, weights)
    needs = open_needs(graph, knowledge)
    is_mixed = bool(needs.any()) and mix > 0
    F = family.information(theta)
    asked: dict[str, Any] = {
        "criterion": criterion,
        "need": needs,
        "mix": mix,
        "steps_left": float(steps),
        "identifiable": identifiable,
    }
    found = optimal_design(
        graph, F, family.names, W, **asked,
        recurrent=recurrent, component=component, time_limit=time_limit, watch=watch,
    )  # fmt: skip
    asked["need"] = np.where(found.occupancy > 0, needs, 0.0)
    random = random_design(graph, F, family.names, W, **asked, units=found.units)
    values = {field.name: getattr(found, field.name) for field in fields(Design)}
    return ExperimentDesign(
        **values,
        model=model,
        steps=steps,
        theta=theta,
        weights=W,
        mix=mix if is_mixed else None,
        random=random,
    )


def open_needs(graph: TransitionGraph, knowledge: Knowledge) -> FloatArray:
    """Return the complexities of rows of unknown probabilities, [n_pairs]; 0 for all others."""
    is_open = ~knowledge.is_known & ~knowledge.is_law
    return np.where(is_open, squared_l2_complexity(graph), 0.0)


def _designed(given: Model | Estimating) -> tuple[Model, Family, FloatArray]:
    """Return a model, its laws over the same pairs, and the numbers to design for."""
    learned = getattr(given, "numbers", None)
    if learned is not None:
        found = learned.parameters
        if np.isnan(found.value).any():
            raise SettingsError(f"there is nothing to design for: {found.notes[0]}")
        stored = given.as_model(all_states=True)  # type: ignore[union-attr, call-arg]
        margin = np.minimum(MARGIN * found.deviation, (found.high - found.low) / 2)
        theta = np.clip(found.value, found.low + margin, found.high - margin)
        return stored, learned.family, theta
    model = as_model(given)
    unknowns = model.checked.unknowns
    if not unknowns:
        raise SettingsError(
            f"{model.name} has no unknown numbers to design an experiment for; declare one, as in "
            "`unknown slip in [0, 0.5]`, or leave out `purpose=`"
        )
    if model.graph.knowledge is None:
        raise SettingsError(
            f"the stored estimate of {model.name} does not say what its numbers were estimated to "
            "be; give the run or the estimate itself (`mdpdsl.open_run`), or the model file"
        )
    theta = np.array([each.assumed for each in unknowns])
    return model, Family(model.checked, model.graph), theta


def _weights(
    family: Family, theta: FloatArray, weights: str | Mapping[str, float] | None
) -> FloatArray:
    """Return the weights of squared errors, [k]."""
    if weights is None or weights == "range":
        return range_weights(family.low, family.high)
    if weights == "value":
        zero = [name for name, value in zip(family.names, theta, strict=True) if value == 0]
        if zero:
            raise SettingsError(f"{zero[0]} is 0: no error is relative to that; give other weights")
        return np.asarray(1 / theta**2)
    if isinstance(weights, str):
        raise SettingsError(f"there are no weights `{weights}`; there are {', '.join(WEIGHTS)}")
    for name in weights:
        if name not in family.names:
            hint = did_you_mean(name, family.names) or f"there are {', '.join(family.names)}"
            raise SettingsError(f"there is no unknown number `{name}` to weigh; {hint}")
    try:
        found = np.array([float(weights.get(name, 0.0)) for name in family.names])
    except (TypeError, ValueError):
        raise SettingsError(f"weights must be numbers, not {dict(weights)}") from None
    if not (np.all(np.isfinite(found)) and np.all(found >= 0) and found.any()):
        raise SettingsError("weights must be 0 or more, and one of them more than 0")
    return found


def _number(value: float) -> float | None:
    """Return a number for JSON; None if it is infinite."""
    return float(value) if math.isfinite(value) else None
