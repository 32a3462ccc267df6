"""Names from other tools, changed into names that the `.mdp` language allows."""

from __future__ import annotations

from dataclasses import replace

from mdpdsl.compile.scope import allowed_name
from mdpdsl.graph.space import ActionSpace, Product, StateSpace, Variable
from mdpdsl.graph.transition_graph import DEFAULT_REWARD, TransitionGraph

Renamed = list[tuple[str, str]]


def language_names(graph: TransitionGraph, name: str) -> tuple[TransitionGraph, Renamed, str]:
    """Return a graph with names that the language allows, the changes, and a name for the model."""
    renamed: Renamed = []
    taken: set[str] = set()

    def named(text: str, what: str) -> str:
        new = allowed_name(text)
        number, base = 1, new
        while new in taken:
            number += 1
            new = f"{base}_{number}"
        taken.add(new)
        if new != text:
            renamed.append((f"{what} `{text}`", new))
        return new

    states = [replace(v, name=named(v.name, "variable")) for v in graph.states.variables]
    actions = [
        v if _names_actions(v) else replace(v, name=named(v.name, "variable"))
        for v in graph.actions.product.variables
    ]
    members: dict[str, str] = {}  # enumerations may share names: equal texts get equal names

    def with_members(variable: Variable) -> Variable:
        for member in variable.members:
            if member not in members:
                members[member] = named(member, "value")
        return replace(variable, members=tuple(members[m] for m in variable.members))

    states = [with_members(v) for v in states]
    actions = [with_members(v) for v in actions]
    labels = {}
    for label, on in graph.labels.items():
        new = allowed_name(label)
        while new in labels:
            new += "_"
        labels[new] = on
        if new != label:
            renamed.append((f"label `{label}`", new))
    rewards: dict[str, str] = {}
    for reward in graph.rewards:
        new = allowed_name(reward)
        while new in rewards.values() or new == DEFAULT_REWARD:
            new += "_"
        rewards[reward] = new
        if new != reward:
            renamed.append((f"reward `{reward}`", new))
    found = replace(
        graph,
        states=StateSpace(Product(tuple(states)), graph.states.codes),
        actions=ActionSpace(Product(tuple(actions))),
        labels=labels,
        rewards={rewards[reward]: of for reward, of in graph.rewards.items()},
        branch_rewards={rewards[reward]: of for reward, of in graph.branch_rewards.items()},
    )
    return found, renamed, allowed_name(name)


def _names_actions(variable: Variable) -> bool:
    return variable.name == "action" and variable.kind == "enum"
