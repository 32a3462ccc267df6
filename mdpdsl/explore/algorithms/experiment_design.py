"""Exploring for unknown numbers: design the experiment, follow it, design again.

In stages, each with more data than the last:

1. *Estimate* the numbers by maximum likelihood (`designed_law`). Before any data, they are at the
   centres of their ranges.
2. *Design* the m steps left: the shares d of visits that minimise tr(W (sum (T + m d) F)^-1) over
   the occupancies of the model with these numbers (`programs.design`). T are the visits so far and
   F is the Fisher information of a visit, its mean over points around the estimate that are about
   as likely, because a design for wrong numbers may miss what would show that they are wrong. The
   mean may seem to show what none of its points does, say two numbers of which a place shows a
   product. If the design is much worse at the estimate, it is made for the mean of the criteria at
   the points. If some rows have unknown probabilities, both losses count, each in units of its own
   optimum.
3. *Follow* the policy of d in the part of the model that has the most visits left (`design_parts`).
   A share of the visits, which vanishes as data grow, goes to all pairs.

W is 1/range^2. As estimates converge, so do designs; for a finite budget there is no guarantee.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from mdpdsl.compile.family import Family
from mdpdsl.estimate.metrics import utility
from mdpdsl.explore.algorithms import common_strategy
from mdpdsl.explore.algorithms.design_parts import next_part
from mdpdsl.explore.algorithms.designed_law import SeenLaw, guess
from mdpdsl.explore.algorithms.tracking.rule import without_targets
from mdpdsl.explore.algorithms.tracking.tracked_complexity import planning_bounds
from mdpdsl.explore.algorithms.tracking.tracked_model import tracked_model
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.graph.analysis import end_components, reachable_states
from mdpdsl.graph.convert import scaled_rows, with_rows
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.following import follow
from mdpdsl.kernels.incentives import POLICY, Strategy
from mdpdsl.kernels.memory import TIME, Memory, start_shares
from mdpdsl.kernels.merging import plan_afresh
from mdpdsl.programs.design import criterion_of, optimal_design, range_weights
from mdpdsl.programs.visitable import AllocationError

#: The kinds of stages, the values of `DesignStage.stage`.
DESIGNED, UNPLANNED = "design", "no design"

#: The steps of the first stages.
FIRST = 50
#: A design is followed for this part of the steps done or this part of those left, the smaller, ...
GROWTH = 0.5
SHRINKAGE = 0.5
#: ... but near the end at least for this part of the budget.
LEAST_SHARE = 0.03
#: The share of visits to all pairs is this over the root of the steps done, ...
SPREAD = 1.0
#: ... and no more than this.
MOST_SPREAD = 0.2
#: Of the program: more would be wasted on an estimate.
TOLERANCE = 1e-3
#: A design for the mean information of some points may be worse at the estimate by this factor.
MUCH_WORSE = 1_000.0
#: The most entries of the information at all points together, if a design is made for all of them.
MOST_ENTRIES = 20_000_000


@dataclass(frozen=True)
class DesignStage:
    """The record of a stage, made when it began."""

    stage: str
    step: int  # steps done before it
    steps: int  # its length
    theta: Mapping[str, float]  # the estimate
    deviations: Mapping[str, float]  # of the estimate, from the data and the ranges
    utility: float | None  # U_kappa(d_hat) with the true c, if known and finite
    objective: float | None = None  # the criterion at the end of the budget, as designed
    gap: float | None = None
    status: str | None = None
    parts: int | None = None  # places that the design visits one after the other
    seconds: float = 0.0  # of estimating and designing
    note: str | None = None  # the reason if there is no design


class DesignStages:
    """The stages of one run."""

    def __init__(self, settings: ExploreSettings, spaces: TransitionGraph, family: Family) -> None:
        self.settings = settings
        self.spaces = spaces
        self.family = family
        self.steps_before = 0  # in the counts that the run began with
        self.records: list[DesignStage] = []

    @property
    def next_start(self) -> int:
        """The number of steps before the next stage."""
        return self.records[-1].step + self.records[-1].steps if self.records else 0

    def begin(
        self, memory: Memory, strategy: Strategy, count: Callable[[], Counts], c: FloatArray | None
    ) -> Strategy:
        """Estimate and design; return the strategy to follow from now on."""
        began = time.perf_counter()
        counts = count()
        seen = SeenLaw(self.family, self.spaces, counts)
        before = np.array(list(self.records[-1].theta.values())) if self.records else None
        found, names = guess(seen.likelihood, before), self.family.names
        done = int(memory.integers[TIME])
        lasts, left = self._lengths(done)
        stage = DesignStage(
            stage=DESIGNED,
            step=done,
            steps=lasts,
            theta=dict(zip(names, found.theta.tolist(), strict=True)),
            deviations=dict(zip(names, found.deviations.tolist(), strict=True)),
            utility=self._utility(memory, c),
        )
        try:
            graph = planning_graph(memory, counts, seen, found.theta)
            information = seen.information(found.points)
            stage = self._designed(stage, memory, graph, information, seen, left)
        except (AllocationError, LinAlgError, FloatingPointError) as error:
            stage = replace(stage, stage=UNPLANNED, note=str(error))
        self.records.append(replace(stage, seconds=time.perf_counter() - began))
        strategy = self._followed(stage)
        plan_afresh(memory, strategy)
        return strategy

    def rehearse(self, memory: Memory, strategy: Strategy) -> None:
        """Compile or load what a stage needs, with a memory that is not used again."""
        follow(memory, np.ones(len(memory.visits)))
        plan_afresh(memory, strategy)

    def saved(self) -> list[dict[str, Any]]:
        """Return the records as plain data."""
        return [asdict(record) for record in self.records]

    def restore(self, records: Sequence[Mapping[str, Any]], strategy: Strategy) -> Strategy:
        """Continue after saved stages; return the strategy to continue with."""
        self.records = [DesignStage(**record) for record in records]
        return self._followed(self.records[-1]) if self.records else strategy

    def _utility(self, memory: Memory, c: FloatArray | None) -> float | None:
        done = int(memory.integers[TIME])
        T_plus = np.maximum(memory.visits, self.settings.epsilon)
        return None if c is None or done == 0 else utility(T_plus / done, c, self.settings.kappa)

    def _lengths(self, done: int) -> tuple[int, int]:
        """Return the number of steps a design is followed for, and the number it is made for."""
        budget = self.settings.steps
        left = budget + self.steps_before - done
        lasts = max(FIRST, int(GROWTH * done))
        if self.settings.anytime or left <= 0:
            return lasts, lasts
        least = max(1, int(LEAST_SHARE * budget))
        lasts = min(lasts, max(int(SHRINKAGE * left), least))
        return (left if left - lasts < least else lasts), left

    def _designed(
        self,
        stage: DesignStage,
        memory: Memory,
        graph: TransitionGraph,
        information: FloatArray,
        seen: SeenLaw,
        left: int,
    ) -> DesignStage:
        """Design the steps left, and let the memory follow the design."""
        mean, T = information.mean(axis=0), memory.visits.astype(np.float64)
        names, criterion = self.family.names, self.settings.criterion
        W = range_weights(self.family.low, self.family.high)
        asked: dict[str, Any] = {
            "criterion": criterion,
            "need": np.where(seen.is_open, planning_bounds(memory.visits, memory.squares), 0.0),
            "mix": self.settings.mix,
            "visits": T,
            "steps_left": float(left),
            "identifiable": True,
            "recurrent": True,
            "component": informative_component(graph, mean),
            "tolerance": TOLERANCE,
        }
        design = optimal_design(graph, mean, names, W, **asked)
        n_points, n_pairs, k, _ = information.shape
        if k > 1 and not len(design.flat) and n_pairs * (n_points * k) ** 2 <= MOST_ENTRIES:
            after = T + left * design.occupancy
            hoped, found = (criterion_of(after, F, W, criterion) for F in (mean, information[0]))
            if found > MUCH_WORSE * hoped:
                together = np.zeros((n_pairs, n_points * k, n_points * k))
                for i, at_point in enumerate(information):
                    block = slice(i * k, (i + 1) * k)
                    together[:, block, block] = at_point
                weights = np.tile(W, n_points) / n_points
                design = optimal_design(graph, together, names * n_points, weights, **asked)
        spread = min(MOST_SPREAD, SPREAD / float(np.sqrt(max(stage.step, 1))))
        part = next_part(graph, design, spread, left, T)
        follow(memory, part.policy)
        steps = stage.steps
        if part.n_parts > 1:
            steps = min(steps, max(1, round(part.share * left)))
        return replace(
            stage,
            steps=steps,
            objective=design.objective,
            gap=design.gap,
            status=str(design.status),
            parts=part.n_parts,
        )

    def _followed(self, stage: DesignStage) -> Strategy:
        """Return the strategy of a stage."""
        n_states = self.spaces.n_states
        if stage.stage == DESIGNED:
            return common_strategy(self.settings, n_states, POLICY)
        return without_targets(self.settings, n_states)


def planning_graph(
    memory: Memory, counts: Counts, seen: SeenLaw, theta: FloatArray
) -> TransitionGraph:
    """Return the closed graph to design on: rows of the law at theta, others known or estimated."""
    from scipy.sparse import csr_array

    spaces, starts = seen.spaces, start_shares(memory, seen.spaces)
    graph = tracked_model(counts, spaces, int(memory.here[0]), starts).graph
    rows: Any = seen.rows(theta)
    if spaces.ends is not None:
        kept = ~spaces.ends
        ending = csr_array((rows @ spaces.ends.astype(np.float64))[:, None])
        starts = starts[kept]
        rows = csr_array(rows[:, kept] + ending @ csr_array(starts[None, :]))
    others = (np.diff(rows.indptr) == 0).astype(np.float64)
    initial = graph.initial if graph.initial.any() else starts  # nothing has happened yet
    return with_rows(graph, rows + scaled_rows(graph.transition_matrix(), others), initial)


def informative_component(graph: TransitionGraph, information: FloatArray) -> int | None:
    """Return the number, from 1, of the end component to stay in: the one that shows most.

    None if there is none.
    """
    number = end_components(graph)
    usable = (number >= 0) & reachable_states(graph)[graph.pair_state]
    if not usable.any():
        return None
    shown = np.trace(information, axis1=1, axis2=2)
    by_component = np.bincount(number[usable], shown[usable])
    by_component[np.setdiff1d(np.arange(len(by_component)), number[usable])] = -1.0
    return int(np.argmax(by_component)) + 1
