"""The targets of `tracking`: the best use of the steps left, on what is known of the model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mdpdsl.explore.algorithms.tracking.rule import SHORT, following
from mdpdsl.explore.algorithms.tracking.tracked_complexity import planning_bounds
from mdpdsl.explore.algorithms.tracking.tracked_model import TrackedModel, tracked_model
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.ways import passing_by
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.following import complexity_bounds
from mdpdsl.kernels.memory import Memory, start_shares
from mdpdsl.programs.allocation import remaining_allocation
from mdpdsl.programs.normal_equations import NormalEquations
from mdpdsl.programs.occupancy import flow_rows
from mdpdsl.programs.visitable import AllocationError

#: Of the program: more would be wasted on an estimate.
TOLERANCE = 1e-2
#: A solution whose flow is further out of balance than this is rejected.
BALANCED = 1e-6
#: Larger models, whose programs would take more than about a second, are explored without targets.
#: Models of few states never take so long.
MOST_MULTIPLICATIONS = 2e8
MOST_STATES = 10_000
FEW_STATES = 500
#: The largest part of the worth of all visits that a single state may have, unless the power is
#: 1, ...
MOST_SPENT = 0.5
#: ... or the steps left are fewer than this multiple of those done, if a pair was never visited,
UNVISITED_LATE = 2.0
#: or this multiple otherwise.
LATE = 0.25
#: Smaller powers become 1.
LEAST_POWER = 1.1


@dataclass(frozen=True, eq=False)
class Targets:
    """The solution of a program."""

    target: FloatArray  # [n_pairs]   visits at the end, 0 for pairs outside the plan
    center: FloatArray  # [states that are no ends]  where the search for the next solution starts
    spent: float  # the part of the worth of all visits that the largest state has
    worst: float  # L_Worst and L_Avg at the end, with the bounds of c
    average: float
    status: str


@dataclass(frozen=True, eq=False)
class TargetProgram:
    """The program that finds the best use of the steps left."""

    model: TrackedModel
    c: FloatArray  # [n_pairs]  0 outside the plan, and for known pairs
    visits: FloatArray  # [n_pairs]
    left: int
    start: FloatArray  # [states that are no ends]

    def solve(self, power: float) -> Targets:
        """Return the targets for a power; raise AllocationError if there are none."""
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
            raise AllocationError("the program for the targets was not solved")
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
        """Return the largest part of one state in sum d (c/u)^p / u, the worth of all visits."""
        losses = self.c / np.maximum(u, 1e-300)
        worth = d / np.maximum(u, 1e-300) * (losses / max(losses.max(), 1e-300)) ** power
        by_state = np.bincount(self.model.graph.pair_state, worth)
        return float(by_state.max() / max(by_state.sum(), 1e-300))


def target_program(
    memory: Memory, counts: Counts, spaces: TransitionGraph, left: int, settings: ExploreSettings
) -> TargetProgram:
    """Return the program for the steps left; raise AllocationError if there can be none."""
    if spaces.n_states > MOST_STATES:
        raise AllocationError(f"{spaces.n_states:,} states are too many to plan for")
    model = tracked_model(counts, spaces, int(memory.here[0]), start_shares(memory, spaces))
    if not model.is_planned.any():
        raise AllocationError("no part of the model seen so far can be visited again and again")
    if spaces.n_states > FEW_STATES:
        equations = NormalEquations(flow_rows(model.graph))
        if equations.multiplications > MOST_MULTIPLICATIONS:
            raise AllocationError("the model is too large to plan for")
    learned = memory.rest > 0  # the others are known, and have c = 0
    if settings.bonus in (None, "bernstein") and settings.beta is None:
        upper = np.zeros(spaces.n_pairs)
        upper[learned] = planning_bounds(memory.visits[learned], memory.squares[learned])
    else:
        upper = complexity_bounds(memory, following(settings, spaces.n_states))
    visits = memory.visits.astype(np.float64)
    # The pairs of states never seen count as much as the worst pair that is known. If they counted
    # more, a state that cannot be reached would take all visits from the others.
    is_known = model.is_planned & (visits > 0)
    worst = float(np.max(upper[is_known] / visits[is_known], initial=0.0))
    is_hoped_for = ~model.is_seen[spaces.pair_state] & learned
    upper = np.where(is_hoped_for, 1.0, upper)
    visits = np.where(is_hoped_for, 1 / worst if worst > 0 else 1.0, visits)
    center = memory.center if spaces.ends is None else memory.center[~spaces.ends]
    return TargetProgram(model, np.where(model.is_planned, upper, 0.0), visits, left, center)


def planned_visits(program: TargetProgram, found: Targets, memory: Memory) -> FloatArray:
    """Return the visits that targets leave to be done, if some rows are known, [n_pairs].

    Where there is nothing to learn and a plan does not pass, all of them lead to where it does.
    """
    planned = np.maximum(found.target - memory.visits, 0.0)
    graph = program.model.graph
    ways = passing_by(
        np.zeros(graph.n_pairs),
        graph.transition_matrix(),
        graph.pair_start,
        planned >= SHORT,
        memory.rest == 0,
    )
    return np.where(ways > 0, float(program.left), planned)


def affordable(program: TargetProgram, power: float) -> tuple[float, Targets]:
    """Return targets for a power, or a smaller one if one state would take most of the budget.

    A large power spends everything on the worst pair. If that is in a state that seems hard to
    reach, nothing else would be explored.
    """
    found = program.solve(power)
    has_unvisited = not program.visits[program.model.is_planned & (program.c > 0)].all()
    late = UNVISITED_LATE if has_unvisited else LATE
    is_late = program.left < late * float(program.visits.sum())
    while power > 1 and found.spent > MOST_SPENT and not is_late:
        power = 1 + (power - 1) / 2
        power = power if power > LEAST_POWER else 1.0
        found = program.solve(power)
    return power, found
