"""Names that PRISM and Storm accept, for variables, actions, constants and labels of a model."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from mdpdsl.graph.reward_fields import all_rewards
from mdpdsl.graph.transition_graph import DEFAULT_REWARD, TransitionGraph

#: Keywords of the PRISM language and of Storm's dialect of it.
RESERVED = frozenset(
    re.findall(
        r"\w+",
        """
    A C E F G I P Pmax Pmin R Rmax Rmin S U W X bool ceil clock const ctmc ctmdp deadlock double
    dtmc endcomponents endinit endinvariant endmodule endobservables endplayer endrewards endsystem
    false filter floor formula func global idtmc imdp init int invariant label log ma max maxmax
    maxmin mdp min minmax minmin mod module multi nondeterministic observable observables of player
    pomdp popta pow prob probabilistic pta rate rewards round sgn smg stochastic stpg system true
    tsg
""",
    )
)

#: Labels that PRISM and Storm define themselves.
RESERVED_LABELS = frozenset({"init", "deadlock"})


#: The name of the default reward in other languages.
REWARD = "reward"


@dataclass(frozen=True)
class Names:
    """The names of a model in another language, all distinct."""

    variables: tuple[str, ...]  # as the state variables of the graph
    actions: tuple[str, ...]  # as the labels of the actions
    members: tuple[tuple[str, ...], ...]  # by variable; empty if it is not an enumeration
    labels: dict[str, str]  # by the label's own name
    rewards: dict[str, str]  # by the reward's own name
    module: str
    renamed: tuple[tuple[str, str], ...]  # what, and its new name


def prism_names(graph: TransitionGraph, module: str) -> Names:
    """Return names for everything in a graph; names that PRISM does not allow are changed."""
    renamed: list[tuple[str, str]] = []
    taken: set[str] = set(RESERVED)

    def named(text: str, what: str, preferred: str | None = None) -> str:
        name = free_name(identifier(preferred or text), taken)
        taken.add(name)
        if name != text:
            renamed.append((f"{what} `{text}`", name))
        return name

    variables = tuple(named(v.name, "variable") for v in graph.states.variables)
    actions = tuple(named(label, "action") for label in graph.actions.labels)
    members = []
    for variable, name in zip(graph.states.variables, variables, strict=True):
        used = taken | set(variables)
        members.append(
            tuple(
                named(m, f"value of {name}", m if identifier(m) not in used else f"{name}_{m}")
                for m in variable.members
            )
        )
    taken_labels: set[str] = set(RESERVED_LABELS)
    labels = {}
    for label in graph.labels:
        labels[label] = free_name(identifier(label), taken_labels)
        taken_labels.add(labels[label])
        if labels[label] != label:
            renamed.append((f"label `{label}`", labels[label]))
    rewards: dict[str, str] = {}
    for reward in all_rewards(graph):
        preferred = REWARD if reward == DEFAULT_REWARD else identifier(reward)
        rewards[reward] = free_name(preferred, rewards.values())
        if rewards[reward] not in (reward, REWARD):
            renamed.append((f"reward `{reward}`", rewards[reward]))
    name = free_name(identifier(module), taken)
    return Names(variables, actions, tuple(members), labels, rewards, name, tuple(renamed))


def identifier(text: str) -> str:
    """Turn a text into letters, digits and underscores, starting with no digit."""
    text = re.sub(r"-(?=[0-9.])", "m", text)
    text = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_") if not _is_plain(text) else text
    return text if text and not text[0].isdigit() else f"_{text}"


def _is_plain(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text) is not None


def free_name(name: str, taken: Iterable[str]) -> str:
    """Return a name that is not taken, with a number appended if necessary."""
    known, number, free = set(taken), 1, name
    while free in known:
        number += 1
        free = f"{name}_{number}"
    return free
