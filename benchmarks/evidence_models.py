"""The models of the evidence, their budgets, and the losses of visits relative to the optimum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import mdpdsl
from mdpdsl.graph.analysis import reachable_states
from mdpdsl.graph.complexity import squared_l2_complexity
from mdpdsl.graph.convert import from_scipy
from mdpdsl.graph.restrict import restrict
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.programs.allocation import optimal_allocation

#: The sizes of the random model.
STATES, ACTIONS, MOST_SUCCESSORS = 100, 4, 6
MODEL_SEED = 7
#: The values of `EvidenceModel.group`: the models chosen at the start, one added later, and those
#: that were not used to choose anything.
EIGHT, ADDED, HELD_OUT = "the eight", "thermostat", "held out"
GROUPS = (EIGHT, ADDED, HELD_OUT)
#: The models in which all states are close to each other.
SWEPT = ("random sparse", "car rental")


@dataclass(frozen=True)
class Figures:
    """The results of one trial, as multiples of the optimum."""

    worst: float
    average: float
    failed: bool


@dataclass(frozen=True, eq=False)
class EvidenceModel:
    """A model with three budgets; only pairs that the optimum visits count."""

    name: str
    graph: TransitionGraph
    budgets: tuple[int, int, int]
    complexity: FloatArray  # [n_pairs]
    counted: BoolArray  # [n_pairs]
    worst: float  # the optimum
    average: float
    group: str

    @property
    def is_held_out(self) -> bool:
        """Whether the model was not used to choose anything."""
        return self.group == HELD_OUT

    @property
    def planner(self) -> str:
        """The method of planning: on some models, whole sweeps cost less."""
        return "full" if self.name in SWEPT else "auto"

    def measured(self, visits: IntArray, steps: int) -> Figures:
        """Measure visits [n_pairs]; an unvisited pair counts as half a visit."""
        T = np.maximum(visits[self.counted], 0.5)
        L = steps * self.complexity[self.counted] / T
        failed = bool(np.any(visits[self.counted] == 0))
        return Figures(float(L.max()) / self.worst, float(L.mean()) / self.average, failed)


def evidence_models(is_quick: bool) -> list[EvidenceModel]:
    """Return the nine models, and four that were not used to choose anything."""
    eight: list[tuple[str, TransitionGraph, tuple[int, int, int]]] = [
        ("pendulum", mdpdsl.load("pendulum").graph, (25_000, 50_000, 100_000)),
        ("mountain car", mdpdsl.load("mountain_car").graph, (250_000, 500_000, 1_000_000)),
        ("riverswim 20", mdpdsl.load("riverswim", n=20).graph, (5_000, 10_000, 20_000)),
        ("frozen lake 8x8", _restarting("frozen_lake_8x8"), (20_000, 40_000, 80_000)),
        ("taxi", _reachable(_restarting("taxi")), (15_000, 30_000, 60_000)),
        ("cart pole", _restarting("cart_pole"), (50_000, 100_000, 200_000)),
        ("grid 20x20", mdpdsl.load("gridworld", n=20).graph, (10_000, 20_000, 40_000)),
        ("random sparse", random_model(), (10_000, 20_000, 40_000)),
    ]
    added = [(ADDED, mdpdsl.load("thermostat").graph, (10_000, 20_000, 40_000))]
    held_out: list[tuple[str, TransitionGraph, tuple[int, int, int]]] = [
        ("four rooms", mdpdsl.load("four_rooms").graph, (10_000, 20_000, 40_000)),
        ("car rental", mdpdsl.load("jacks_car_rental").graph, (5_000, 10_000, 20_000)),
        ("fishery", mdpdsl.load("fishery").graph, (3_000, 6_000, 12_000)),
        (
            "double integrator",
            mdpdsl.load("double_integrator").graph,
            (100_000, 200_000, 400_000),
        ),
    ]
    models: list[EvidenceModel] = []
    for group, chosen in zip(GROUPS, (eight, added, held_out), strict=True):
        for name, graph, budgets in chosen:
            if is_quick:
                budgets = (budgets[0] // 10, budgets[0] // 5, budgets[0] // 2)
            models.append(_with_optimum(name, graph, budgets, group))
    return models


def random_model() -> TransitionGraph:
    """Return a random sparse model, with pairs from nearly certain to nearly uniform."""
    rng = np.random.default_rng(MODEL_SEED)
    matrices = np.zeros((ACTIONS, STATES, STATES))
    for action in range(ACTIONS):
        for state in range(STATES):
            n = int(rng.integers(2, MOST_SUCCESSORS + 1))
            successors = rng.choice(STATES, n, replace=False)
            # From nearly certain to nearly uniform.
            spread = 10 ** rng.uniform(-1, 1)
            matrices[action, state, successors] = rng.dirichlet(np.full(n, spread))
        matrices[action, np.arange(STATES), (np.arange(STATES) + 1) % STATES] += 0.01
    matrices /= matrices.sum(axis=2, keepdims=True)
    return from_scipy(list(matrices))


def _restarting(name: str) -> TransitionGraph:
    """Return a shipped model in which the next episode starts by a step of its own.

    The figures of the page were measured with such models: explorers also have to learn that step.
    """
    text = mdpdsl.load(name).source.text
    return mdpdsl.loads(text.replace("\nend when", "\nrestart when")).graph


def _reachable(graph: TransitionGraph) -> TransitionGraph:
    return restrict(graph, reachable_states(graph))


def _with_optimum(
    name: str, graph: TransitionGraph, budgets: tuple[int, int, int], group: str
) -> EvidenceModel:
    """Find the optimum over the pairs that the best average visits once in the largest budget."""
    c = squared_l2_complexity(graph)
    root = np.sqrt(c)
    best = optimal_allocation(graph, root, 2.0, losses=c)
    counted = (best.occupancy * budgets[-1] >= 1) | (c == 0)
    if not counted.all():
        root = np.where(counted, root, 0.0)
        best = optimal_allocation(graph, root, 2.0, losses=np.where(counted, c, 0.0))
    worst = optimal_allocation(graph, np.where(counted, c, 0.0), np.inf, start=best.center)
    average = best.average * graph.n_pairs / np.count_nonzero(counted)
    return EvidenceModel(name, graph, budgets, c, counted, worst.worst, float(average), group)
