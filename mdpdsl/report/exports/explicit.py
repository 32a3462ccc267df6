"""PRISM's explicit files: transitions, states, labels and rewards, as `prism -importmodel` reads.

A reward is a pair's. PRISM wants it on every transition of the choice and the same on all of them,
so a reward that depends on the next state is written as what is expected of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mdpdsl.graph.interval_graph import Bounds
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.report.exports.names import Names, prism_names
from mdpdsl.report.exports.numbers import branch_chances, number_texts
from mdpdsl.report.exports.prism import REWARD
from mdpdsl.report.exports.rules import cells_of
from mdpdsl.results import write_text


def write_explicit(graph: TransitionGraph, path: Path, bounds: Bounds | None = None) -> list[Path]:
    """Write the files of a model beside each other, and return their paths, the `.tra` first.

    `path` is the `.tra` file or the stem that all have in common. Files of rewards are written
    where the model has rewards.
    """
    texts = explicit_texts(graph, bounds)
    stem = path.with_suffix("") if path.suffix == ".tra" else path
    if not stem.parent.is_dir():
        raise FileNotFoundError(2, "No such file or directory", str(stem.parent))
    written = []
    for suffix, text in texts.items():
        file = stem.with_name(stem.name + suffix)
        write_text(file, text)
        written.append(file)
    return written


def explicit_texts(graph: TransitionGraph, bounds: Bounds | None = None) -> dict[str, str]:
    """Return the text of each file by its ending; raise ValueError without dynamics."""
    if not graph.has_dynamics:
        raise ValueError("the dynamics of this model are unknown: there are no files to write")
    names = prism_names(graph, "model")
    parts = {
        ".tra": _transitions(graph, names, bounds),
        ".sta": _states(graph, names),
        ".lab": _labels(graph, names),
    }
    if graph.reward is not None:
        parts[".srew"] = iter([*_header("State"), f"{graph.n_states} 0"])
        parts[".trew"] = _transition_rewards(graph)
    return {suffix: "\n".join(lines) + "\n" for suffix, lines in parts.items()}


def _transitions(graph: TransitionGraph, names: Names, bounds: Bounds | None) -> Iterator[str]:
    yield f"{graph.n_states} {graph.n_pairs} {graph.n_branches}"
    columns = (*_branch_columns(graph), branch_chances(graph, bounds))
    per_branch = np.repeat(graph.pair_action, np.diff(graph.successor_start)).tolist()
    for state, choice, target, chance, action in zip(*columns, per_branch, strict=True):
        yield f"{state} {choice} {target} {chance} {names.actions[action]}"


def _states(graph: TransitionGraph, names: Names) -> Iterator[str]:
    """List the states; a bool as PRISM says it, anything else as in PRISM source, a number."""
    yield f"({','.join(names.variables)})"
    variables = graph.states.variables
    for state, row in enumerate(cells_of(graph.states).tolist()):
        values = [
            ("true" if cell else "false") if v.kind == "bool" else str(v.low + cell)
            for v, cell in zip(variables, row, strict=True)
        ]
        yield f"{state}:({','.join(values)})"


def _labels(graph: TransitionGraph, names: Names) -> Iterator[str]:
    columns = [graph.initial > 0, np.zeros(graph.n_states, np.bool_), *graph.labels.values()]
    known = ["init", "deadlock", *(names.labels[label] for label in graph.labels)]
    yield " ".join(f'{number}="{label}"' for number, label in enumerate(known))
    for state, row in enumerate(np.stack(columns, axis=1).tolist()):
        carried = [str(number) for number, holds in enumerate(row) if holds]
        if carried:
            yield f"{state}: {' '.join(carried)}"


def _transition_rewards(graph: TransitionGraph) -> Iterator[str]:
    assert graph.reward is not None
    n_successors = np.diff(graph.successor_start)
    per_branch = np.repeat(graph.reward, n_successors)
    yield from _header("Transition")
    n_rewarded = int(n_successors[graph.reward != 0].sum())
    yield f"{graph.n_states} {graph.n_pairs} {n_rewarded}"
    columns = (*_branch_columns(graph), number_texts(per_branch))
    for state, choice, target, reward in zip(*columns, strict=True):
        if reward != "0":
            yield f"{state} {choice} {target} {reward}"


def _branch_columns(graph: TransitionGraph) -> tuple[list[int], list[int], list[int]]:
    """Return the state of every branch, the place of its pair among the state's, and its target."""
    n_successors = np.diff(graph.successor_start)
    choice = np.arange(graph.n_pairs) - graph.pair_start[graph.pair_state]
    return (
        np.repeat(graph.pair_state, n_successors).tolist(),
        np.repeat(choice, n_successors).tolist(),
        graph.successor.tolist(),
    )


def _header(kind: str) -> list[str]:
    return [f'# Reward structure "{REWARD}"', f"# {kind} rewards"]
