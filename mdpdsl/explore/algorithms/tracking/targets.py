"""A plan of `tracking`: the best use of the steps left, by what is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpdsl.explore.algorithms.tracking.rule import following
from mdpdsl.explore.algorithms.tracking.tracked_complexity import planning_bounds
from mdpdsl.explore.algorithms.tracking.tracked_model import TrackedModel, tracked_model
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.following import complexity_bounds
from mdpdsl.kernels.memory import Memory
from mdpdsl.programs.allocation import remaining_allocation
from mdpdsl.programs.normal_equations import NormalEquations
from mdpdsl.programs.occupancy import flow_rows
from mdpdsl.programs.visitable import AllocationError

#: Of the program: its plan is for an estimate.
TOLERANCE = 1e-2
#: A plan whose flow is further out of balance than this is none.
BALANCED = 1e-6
#: Larger models, whose plans would take more than about a second, are explored without; up to so
#: many states they never do.
MOST_MULTIPLICATIONS = 2e8
MOST_STATES = 10_000
FEW_STATES = 500
#: The largest part of the worth of a plan that a single state may have, unless the power is 1, ...
MOST_SPENT = 0.5
#: ... or no more steps are left than so many times those done, while a pair was never visited,
UNVISITED_LATE = 2.0
#: or so many times.
LATE = 0.25
#: Smaller powers are 1.
LEAST_POWER = 1.1


@dataclass(frozen=True, eq=False)
class Targets:
    """What a plan says."""

    target: FloatArray  # [n_pairs]   visits in the end, 0 where nothing is planned
    center: FloatArray  # [n_states]  where the search for the next plan starts
    spent: float  # the largest part of what its visits are worth that is one state's
    worst: float  # L_Worst and L_Avg in the end, with the bounds of c
    average: float
    status: str


@dataclass(frozen=True, eq=False)
class TrackedPlan:
    """A program for the steps left."""

    model: TrackedModel
    c: FloatArray  # [n_pairs]  0 outside the plan
    visits: FloatArray  # [n_pairs]
    left: int
    start: FloatArray  # [n_states]

    def solve(self, power: float) -> Targets:
        """Plan for one power; raise AllocationError where that fails."""
        found = remaining_allocation(
            self.model.graph,
            self.c,
            self.visits,
            float(self.left),
            power,
            start=self.start,
            tolerance=TOLERANCE,
        )
        if not found.residual <= BALANCED:
            raise AllocationError("the program for a plan was not solved")
        u = self.visits + self.left * found.occupancy
        return Targets(
            target=np.where(self.model.is_planned, u, 0.0),
            center=found.center,
            spent=self._spent(u, found.occupancy, power),
            worst=found.worst,
            average=found.average,
            status=str(found.status),
        )

    def _spent(self, u: FloatArray, d: FloatArray, power: float) -> float:
        """Return the largest part of sum d (c/u)^p / u, what the visits are worth, of a state."""
        losses = self.c / np.maximum(u, 1e-300)
        worth = d / np.maximum(u, 1e-300) * (losses / max(losses.max(), 1e-300)) ** power
        by_state = np.bincount(self.model.graph.pair_state, worth)
        return float(by_state.max() / max(by_state.sum(), 1e-300))


def planning_problem(
    memory: Memory, counts: Counts, spaces: TransitionGraph, left: int, settings: ExploreSettings
) -> TrackedPlan:
    """Put together what is known; raise AllocationError where there is nothing to plan with."""
    if spaces.n_states > MOST_STATES:
        raise AllocationError(f"{spaces.n_states:,} states are too many to plan for")
    model = tracked_model(counts, spaces, int(memory.here[0]))
    if not model.is_planned.any():
        raise AllocationError("no part of what was seen can be returned to for ever")
    if spaces.n_states > FEW_STATES:
        equations = NormalEquations(flow_rows(model.graph))
        if equations.multiplications > MOST_MULTIPLICATIONS:
            raise AllocationError("the model is too large to plan for")
    if settings.bonus in (None, "bernstein") and settings.beta is None:
        upper = planning_bounds(memory.visits, memory.squares)
    else:
        upper = complexity_bounds(memory, following(settings, spaces.n_states))
    visits = memory.visits.astype(np.float64)
    # States never seen are taken to be as badly off as the worst that is known: were they worse,
    # a state that is there in name only would be the end of everything else.
    is_known = model.is_planned & (visits > 0)
    worst = float(np.max(upper[is_known] / visits[is_known], initial=0.0))
    is_hoped_for = ~model.is_seen[spaces.pair_state]
    upper = np.where(is_hoped_for, 1.0, upper)
    visits = np.where(is_hoped_for, 1 / worst if worst > 0 else 1.0, visits)
    return TrackedPlan(model, np.where(model.is_planned, upper, 0.0), visits, left, memory.center)


def affordable(problem: TrackedPlan, power: float) -> tuple[float, Targets]:
    """Plan for a power, or for a smaller one where most would be spent on a single state.

    A large power puts all into the pair that is worst off. Where that is in a state hard to reach,
    as far as is known, it would be the end of exploring anything else.
    """
    found = problem.solve(power)
    has_unvisited = not problem.visits[problem.model.is_planned].all()
    late = UNVISITED_LATE if has_unvisited else LATE
    is_late = problem.left < late * float(problem.visits.sum())
    while power > 1 and found.spent > MOST_SPENT and not is_late:
        power = 1 + (power - 1) / 2
        power = power if power > LEAST_POWER else 1.0
        found = problem.solve(power)
    return power, found
