"""Descriptions of states and pairs, for messages and tables."""

from __future__ import annotations

from collections.abc import Sequence

from mdpdsl.graph.transition_graph import TransitionGraph

#: The largest number of pairs named in a message.
MOST_NAMED = 5


def state_text(graph: TransitionGraph, state: int) -> str:
    """Describe a state by the values of its variables: `x = 0.5, v = -1`."""
    values = graph.states.native(state)
    text = ", ".join(f"{name} = {_value_text(value)}" for name, value in values.items())
    return f"{text} (end)" if graph.states.is_twin(state) else text


def states_and_ends(graph: TransitionGraph) -> str:
    """Return the number of states, and how many of them are ends: `16 states, 5 of them ends`."""
    n_ends = 0 if graph.ends is None else int(graph.ends.sum())
    text = "1 state" if graph.n_states == 1 else f"{graph.n_states:,} states"
    if n_ends == 0:
        return text
    return f"{text}, 1 of them an end" if n_ends == 1 else f"{text}, {n_ends:,} of them ends"


def pair_text(graph: TransitionGraph, pair: int) -> str:
    """Describe a pair by its action and the values of its state: `left in pos = 3`."""
    action = graph.actions.labels[graph.pair_action[pair]]
    return f"{action} in {state_text(graph, int(graph.pair_state[pair]))}"


def pairs_text(graph: TransitionGraph, pairs: Sequence[int]) -> str:
    """Describe some pairs; if there are many, only the first few."""
    named = "; ".join(pair_text(graph, int(pair)) for pair in pairs[:MOST_NAMED])
    more = len(pairs) - MOST_NAMED
    return f"{named} and {more:,} more" if more > 0 else named


def _value_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
