"""Ends for tools that have none: an end becomes a state that a further action never leaves.

The action is `end`, as is the label of these states; if a model already uses that name, both are
`end_2`, and so on. Files that we wrote are recognised by this pair of names when they are read. A
twin, which has the values of another state, gets a value of its own: a further variable `ended`,
the first one, is true in twins only, so states keep their numbers.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from mdpdsl.formats.names import free_name, identifier
from mdpdsl.graph.branches import named_actions, starts_of, starts_outside
from mdpdsl.graph.ends import absorb
from mdpdsl.graph.interval_graph import Bounds
from mdpdsl.graph.reward_fields import chosen_rewards
from mdpdsl.graph.space import BoolArray, Product, StateSpace, Variable
from mdpdsl.graph.transition_graph import TransitionGraph

END, ENDED = "end", "ended"

#: A label that version 1 gave to states where episodes end.
TERMINAL = "terminal"


def with_loops(
    graph: TransitionGraph, bounds: Bounds | None = None
) -> tuple[TransitionGraph, Bounds | None]:
    """Return the graph without ends, and its bounds: ends have one action, which stays there."""
    graph = with_distinct_twins(graph)
    if graph.ends is None:
        return graph, bounds
    name = _free(graph, END)
    absorbing, is_own = absorb(graph)
    # Named by their labels, actions can have one more.
    actions = named_actions((*graph.actions.labels, name))
    looped = replace(
        absorbing,
        actions=actions,
        pair_action=np.where(is_own, absorbing.pair_action, graph.n_actions).astype(np.int32),
        labels={**graph.labels, name: graph.ends},
    )
    if bounds is not None:
        places = graph.branch_start[:-1][graph.ends]
        bounds = Bounds(np.insert(bounds.lower, places, 1.0), np.insert(bounds.upper, places, 1.0))
    return looped, bounds


def loop_notes(graph: TransitionGraph, looped: TransitionGraph) -> tuple[str, ...]:
    """Return comments on what `with_loops` added to a graph."""
    if graph.ends is None:
        return ()
    name = looped.actions.labels[-1]
    what = f'episodes are over in the states with the label "{name}", where the action {name} stays'
    if graph.states.n_twins == 0:
        return (what,)
    variable = looped.states.variables[0].name
    return (what, f"{variable} is true in ends that have the values of another state")


def without_loops(graph: TransitionGraph) -> TransitionGraph:
    """Return the graph with the ends that a file has: those that we wrote, and `terminal` states.

    A state with the label `terminal` is an end if no action leaves it and it has no reward. In a
    file of another tool, nothing else is an end.
    """
    ends = np.zeros(graph.n_states, np.bool_)
    if TERMINAL in graph.labels:
        ends = graph.labels[TERMINAL] & absorbing_states(graph)
    for label in [label for label in graph.labels if _is_ours(graph, label)]:
        ends |= graph.labels[label]
        graph = _without_action(graph, label)
    return with_ends(graph, ends)


def with_ends(graph: TransitionGraph, ends: BoolArray) -> TransitionGraph:
    """Return the graph without the pairs of some states, which are ends.

    Raise ValueError if episodes can start nowhere else.
    """
    if not ends.any():
        return graph
    kept = ~ends[graph.pair_state]
    branches = np.repeat(kept, np.diff(graph.successor_start))
    found = replace(
        graph,
        pair_start=starts_of(np.where(ends, 0, np.diff(graph.pair_start))),
        pair_action=graph.pair_action[kept],
        successor_start=starts_of(np.diff(graph.successor_start)[kept]),
        successor=graph.successor[branches],
        probability=graph.probability[branches],
        initial=starts_outside(ends, graph.initial),
        ends=ends,
        **chosen_rewards(graph, kept, branches),
    )
    found.validate()
    return found


def with_distinct_twins(graph: TransitionGraph) -> TransitionGraph:
    """Return the graph with twins that have values of their own, by the variable `ended`."""
    n_twins = graph.states.n_twins
    if n_twins == 0:
        return graph
    product = graph.states.product
    name = _free(graph, ENDED)
    codes = graph.states.codes.copy()
    codes[graph.n_states - n_twins :] += product.size
    wider = Product((Variable(name, "bool", 2), *product.variables))
    return replace(graph, states=StateSpace(wider, codes))


def absorbing_states(graph: TransitionGraph) -> BoolArray:
    """Return which states no action leaves and have no reward, [n_states]; ends are among them."""
    leaves = np.zeros(graph.n_states, np.bool_)
    origin = np.repeat(graph.pair_state, np.diff(graph.successor_start))
    leaves[origin[graph.successor != origin]] = True
    for reward in (graph.reward, *graph.rewards.values()):
        if reward is not None:
            leaves[graph.pair_state[reward != 0]] = True
    return ~leaves


def _is_ours(graph: TransitionGraph, label: str) -> bool:
    """Return whether a label and an action of this name are those of our ends."""
    if not re.fullmatch(rf"{END}(_\d+)?", label) or label not in graph.actions.labels:
        return False
    ends, action = graph.labels[label], graph.actions.labels.index(label)
    has_action = np.zeros(graph.n_states, np.bool_)
    has_action[graph.pair_state[graph.pair_action == action]] = True
    has_another = np.zeros(graph.n_states, np.bool_)
    has_another[graph.pair_state[graph.pair_action != action]] = True
    is_end = has_action & ~has_another & absorbing_states(graph)
    return bool(ends.any() and np.array_equal(has_action, ends) and np.array_equal(is_end, ends))


def _without_action(graph: TransitionGraph, name: str) -> TransitionGraph:
    """Return the graph without a label and its action; the pairs of the action lose it later."""
    action = graph.actions.labels.index(name)
    names = tuple(label for label in graph.actions.labels if label != name)
    new_number = np.arange(graph.n_actions) - (np.arange(graph.n_actions) > action)
    return replace(
        graph,
        actions=named_actions(names),
        pair_action=new_number[graph.pair_action].astype(np.int32),
        labels={label: on for label, on in graph.labels.items() if label != name},
    )


def _free(graph: TransitionGraph, name: str) -> str:
    """Return a name that nothing in the graph has, in any language."""
    variables = (*graph.states.variables, *graph.actions.product.variables)
    taken = {v.name for v in variables} | {m for v in variables for m in v.members}
    taken |= {*graph.actions.labels, *graph.labels}
    return free_name(name, taken | {identifier(text) for text in taken})
