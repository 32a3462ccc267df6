"""The next steps for unknown numbers: the best use of them, given the visits so far.

With T the visits so far and m steps left, the plan minimises tr(W (sum (T + m d) F)^-1) over the
occupancies d of what is known of the model, at the most likely values of the numbers: F is the
Fisher information of a visit (`programs.design`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mdpdsl.diagnostics import SettingsError
from mdpdsl.estimate.learned_numbers import LawFit
from mdpdsl.graph.knowledge import Knowledge
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.programs.design import Design, optimal_design, range_weights
from mdpdsl.programs.newton import Watch


@dataclass(frozen=True, eq=False)
class NumbersProspect:
    """The deviations of unknown numbers now, after the plan, and after repeating past visits."""

    names: tuple[str, ...]
    value: FloatArray  # [k]
    now: FloatArray  # [k]  infinite if the data do not determine a number
    planned: FloatArray  # [k]
    continued: FloatArray  # [k]

    def records(self) -> list[dict[str, Any]]:
        """Return the numbers as JSON has them; None for what is infinite."""
        columns = (self.value, self.now, self.planned, self.continued)
        keys = ("value", "deviation", "expected_deviation", "continued_deviation")
        return [
            {
                "name": name,
                **{
                    key: float(column[j]) if np.isfinite(column[j]) else None
                    for key, column in zip(keys, columns, strict=True)
                },
            }
            for j, name in enumerate(self.names)
        ]


@dataclass(frozen=True, eq=False)
class NumbersGoal:
    """What to plan for: the laws of a model, at the most likely values of their numbers."""

    law: LawFit
    criterion: str = "a"
    mix: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what no experiment can be planned for."""
        if np.isnan(self.law.theta).any():
            names = ", ".join(self.law.family.names)
            raise SettingsError(f"no values of {names} fit the data, so there is nothing to plan")

    def informed(self, knowledge: Knowledge) -> Knowledge:
        """Return knowledge in which the rows of laws are known, at the most likely values."""
        entries, is_open = self.law.family.entries, knowledge.is_open.copy()
        share = knowledge.share.copy()
        share[entries] = self.law.family.probabilities(self.law.theta)
        is_open[entries] = False
        return replace(knowledge, share=share, is_open=is_open)

    def designed(
        self,
        graph: TransitionGraph,
        component: int,
        visits: IntArray,
        need: FloatArray,
        steps: float,
        watch: Watch | None,
    ) -> Design:
        """Return the best shares of the steps left, within a part of the model."""
        family = self.law.family
        return optimal_design(
            graph,
            family.information(self.law.theta),
            family.names,
            range_weights(family.low, family.high),
            criterion=self.criterion,
            need=need,
            mix=self.mix,
            visits=visits.astype(np.float64),
            steps_left=steps,
            identifiable=True,
            recurrent=True,
            component=component,
            watch=watch,
        )

    def gains(self, visits: IntArray, added: FloatArray) -> FloatArray:
        """Return how much the added visits of each pair are worth: tr(W M^-1 F M^-1) m d."""
        family = self.law.family
        width = family.high - family.low
        F = family.information(self.law.theta) * np.outer(width, width)
        inverse = np.linalg.pinv(np.tensordot(visits + added, F, axes=1), hermitian=True)
        return np.asarray(np.einsum("nij,ji->n", F, inverse @ inverse) * added)

    def prospect(self, visits: IntArray, added: FloatArray, steps: float) -> NumbersProspect:
        """Return the deviations now and after the plan."""
        n = max(1, int(visits.sum()))
        return NumbersProspect(
            self.law.family.names,
            self.law.theta,
            self._deviations(visits.astype(np.float64)),
            self._deviations(visits + added),
            self._deviations(visits.astype(np.float64) * (1 + steps / n)),
        )

    def _deviations(self, visits: FloatArray) -> FloatArray:
        """Return the deviations of the best estimates after some visits, [k]."""
        family = self.law.family
        width = family.high - family.low
        M = np.tensordot(visits, family.information(self.law.theta), axes=1)
        values, vectors = np.linalg.eigh(M * np.outer(width, width))
        is_flat = values <= 1e-9 * max(float(values[-1]), 1e-300)
        variance = (vectors**2 / np.where(is_flat, np.inf, values)).sum(axis=1)
        is_unknown = (vectors[:, is_flat] ** 2 > 1e-6).any(axis=1)
        return np.where(is_unknown, np.inf, width * np.sqrt(variance))
