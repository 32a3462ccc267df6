"""Graphviz DOT: states and their actions, or communicating classes if there are over 200 states.

Ends have a double outline. If the model says what is not known, every possible transition is there,
with `?` for its probability.
"""

from __future__ import annotations

from mdpdsl.compile.model import Model
from mdpdsl.formats.foreign import Format
from mdpdsl.graph.appearance import MOST_STATES, action_colours, shorten
from mdpdsl.graph.class_structure import class_structure
from mdpdsl.graph.shown_rows import shown_rows, simulated_or_possible
from mdpdsl.graph.transition_graph import TransitionGraph

HEADER = [
    "  rankdir=LR",
    '  node [fontname="Helvetica", fontsize=11]',
    '  edge [fontname="Helvetica", fontsize=9, arrowsize=0.7]',
]


def to_dot(graph: TransitionGraph, name: str = "mdp") -> str:
    """Return a graph as DOT text: a node per state, a point per action with its probabilities."""
    body = _states(graph) if graph.n_states <= MOST_STATES else _classes(graph)
    return "\n".join([f"digraph {_quote(name)} {{", *HEADER, *body, "}"]) + "\n"


def _states(graph: TransitionGraph) -> list[str]:
    rows = shown_rows(graph)
    graph = rows.graph
    lines = [line for state in range(graph.n_states) for line in _state(graph, state)]
    colours = action_colours(graph)
    for pair in range(graph.n_pairs):
        state, action = int(graph.pair_state[pair]), int(graph.pair_action[pair])
        look = f"color={_quote(colours[action])}, fontcolor={_quote(colours[action])}"
        text = graph.actions.labels[action]
        reward = rows.expected_reward(pair)
        if reward != 0:
            text += f" ({reward:+.4g})"
        lines.append(f"  p{pair} [shape=point, width=0.08, {look}]")
        lines.append(f"  s{state} -> p{pair} [label={_quote(text)}, arrowhead=none, {look}]")
        for branch in range(*graph.successor_start[pair : pair + 2].tolist()):
            target, p = graph.successor[branch], rows.probability_text(branch, ".4g")
            lines.append(f"  p{pair} -> s{target} [label={_quote(p)}, {look}]")
    return lines


def _state(graph: TransitionGraph, state: int) -> list[str]:
    names = [name for name, states in graph.labels.items() if states[state]]
    text = _escape(graph.states.label(state))
    look = "shape=ellipse"
    if names:
        text += "\\n" + _escape(", ".join(names))
        look += ', style=filled, fillcolor="#FFE39A"'
    if graph.ends is not None and graph.ends[state]:
        look += ", peripheries=2"
    p = float(graph.initial[state])
    if p == 0:
        return [f'  s{state} [label="{text}", {look}]']
    chance = "" if p == 1 else f" [label={_quote(f'{p:.4g}')}]"
    return [
        f'  s{state} [label="{text}", {look}, penwidth=2]',
        f'  start{state} [shape=none, label="", width=0]',
        f"  start{state} -> s{state}{chance}",
    ]


def _classes(graph: TransitionGraph) -> list[str]:
    if not graph.has_dynamics:
        return [f'  c0 [label="{graph.n_states} states\\ndynamics unknown", shape=ellipse]']
    structure = class_structure(simulated_or_possible(graph))
    lines = []
    for number, node in enumerate(structure.nodes):
        text = f"{node.n_states} state{'s' if node.n_states != 1 else ''}"
        if node.n_classes > 1:
            text = f"{node.n_classes} classes\\n{text}"
        elif node.name:
            text = _escape(shorten(node.name, 40))
        look = "shape=doublecircle" if node.is_closed else "shape=ellipse"
        if node.is_closed:
            text += "\\nclosed"
        if node.has_start:
            look += ", penwidth=2"
            lines.append(f'  start{number} [shape=none, label="", width=0]')
            lines.append(f"  start{number} -> c{number}")
        lines.append(f'  c{number} [label="{text}", {look}]')
    lines += [f"  c{origin} -> c{target}" for origin, target in structure.edges]
    return lines


def _quote(text: str) -> str:
    return f'"{_escape(text)}"'


def _escape(text: str) -> str:
    """Escape characters that are special in DOT strings: quotes, backslashes and line breaks."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")


class Dot(Format):
    """Graphviz's language."""

    name, title, suffix = "dot", "Graphviz", ".dot"

    def text(self, model: Model) -> str:
        """Return the graph of a model as DOT text."""
        return to_dot(model.graph)
