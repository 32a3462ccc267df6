"""Storm as an oracle: a transition graph in its explicit format, checked with sound methods."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import stormpy

from mdpdsl.graph.ends import absorb
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph


def storm_model(graph: TransitionGraph) -> Any:
    """Return a graph as a model of Storm; rewards are those of pairs, named `r`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.drn"
        path.write_text(drn(graph), encoding="utf-8")
        return stormpy.build_model_from_drn(str(path))


def storm_values(model: Any, formula: str, precision: float) -> FloatArray:
    """Return the value of a formula in every state, at most `precision` off."""
    environment = stormpy.environments.sound()
    solver = environment.solver().min_max()
    solver.precision = stormpy.Rational(precision)
    solver.relative_termination_criterion = False
    (prop,) = stormpy.parse_properties(formula)
    result = stormpy.model_checking(model, prop, environment=environment)
    return np.array([result.get_value(state) for state in range(model.nr_states)])


def drn(graph: TransitionGraph) -> str:
    """Return a graph in the format DRN; an end stays where it is."""
    graph, _ = absorb(graph)
    reward = np.zeros(graph.n_pairs) if graph.reward is None else graph.reward
    lines = ["@type: MDP", "@parameters", "", "@reward_models", "r", "@nr_states"]
    lines += [str(graph.n_states), "@nr_choices", str(graph.n_pairs), "@model"]
    for state in range(graph.n_states):
        names = [name for name, states in graph.labels.items() if states[state]]
        names += ["init"] if graph.initial[state] > 0 else []
        lines.append(" ".join([f"state {state} [0]", *names]))
        first, end = int(graph.pair_start[state]), int(graph.pair_start[state + 1])
        for pair in range(first, end):
            lines.append(f"\taction {pair - first} [{float(reward[pair])!r}]")
            successors, chances = graph.row(pair)
            for target, chance in zip(successors.tolist(), chances.tolist(), strict=True):
                lines.append(f"\t\t{target} : {chance!r}")
    return "\n".join(lines) + "\n"
