"""The verbs `describe` and `draw`: a model in numbers, and as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mdpdsl.compile.known_rows import needed
from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import FormatError
from mdpdsl.files import staged
from mdpdsl.graph.analysis import communicating_classes, reachable_states
from mdpdsl.graph.complexity import squared_l2_complexity
from mdpdsl.graph.describe import state_text
from mdpdsl.graph.knowledge import Knowledge
from mdpdsl.graph.reward_fields import all_rewards
from mdpdsl.graph.shown_rows import simulated_or_possible
from mdpdsl.graph.space import Value
from mdpdsl.graph.transition_graph import TransitionGraph

#: If there are more actions, they are counted, not listed.
MOST_LISTED = 12
PICTURES = (".svg", ".png", ".dot")


@dataclass(frozen=True)
class UnknownNumber:
    """A number that a model declares as unknown, and its value for simulation, if it has one."""

    name: str
    low: float
    high: float
    value: float | None

    @property
    def described(self) -> str:
        """Its range, and its value for simulation: `slip in [0, 0.5], simulated with 0.2`."""
        text = f"{self.name} in [{self.low:.6g}, {self.high:.6g}]"
        return text if self.value is None else f"{text}, simulated with {self.value:.6g}"


@dataclass(frozen=True)
class KnowledgeSummary:
    """What a model file says of its rows, in numbers of pairs."""

    known: int  # the whole row is known
    open: int  # the row has `?`
    laws: int  # the row depends on unknown numbers
    joined: int  # of those with `?`: some of their branches lead to the same state
    unknowns: list[UnknownNumber]
    missing: list[str]  # what has no value, so that the model cannot be simulated
    example: str | None = None  # a sentence about one of `joined`; not in the record

    def record(self) -> dict[str, Any]:
        """Return the numbers as `--json` prints them."""
        return {name: value for name, value in asdict(self).items() if name != "example"}

    @property
    def described(self) -> list[tuple[str, str]]:
        """What is known of the transitions, in words, and what is missing to simulate them."""
        pairs = {
            "known": self.known,
            "with `?`": self.open,
            "with unknown numbers": self.laws,
        }
        rows = [("rows", ", ".join(f"{n:,} {what}" for what, n in pairs.items() if n))]
        if self.unknowns:
            rows.append(("unknown", "; ".join(number.described for number in self.unknowns)))
        if self.joined:
            count = "1 pair" if self.joined == 1 else f"{self.joined:,} pairs"
            rows.append(("ambiguous", f"{count}; {self.example}"))
        missing = [f"a value of {name}" for name in self.missing if name != "?"]
        missing += ["the probabilities of `?`"] * ("?" in self.missing)
        return [*rows, ("to simulate", f"missing: {', '.join(missing)}")] if missing else rows


@dataclass(frozen=True)
class ModelSummary:
    """A model in numbers; some are None if the dynamics are unknown.

    Classes are those of the closed graph: after an end, the next episode starts. The complexity is
    that of the transitions that are simulated; without them, classes are those of all transitions
    that are possible.
    """

    name: str
    title: str | None
    hash: str
    parameters: Mapping[str, Value]
    variables: list[str]
    action_list: list[str]
    states: int
    ends: int
    actions: int
    pairs: int
    branches: int
    classes: int | None
    communicating: bool | None
    unreachable: int | None
    complexity: dict[str, float] | None
    labels: dict[str, int]
    rewards: list[str]
    properties: dict[str, str]
    discretization: dict[str, str | int | float] | None
    build_seconds: float
    knowledge: KnowledgeSummary | None = None  # None if the file leaves nothing open

    def record(self) -> dict[str, Any]:
        """Return the numbers as `--json` prints them."""
        record = asdict(self)
        del record["knowledge"]
        return record if self.knowledge is None else record | {"knowledge": self.knowledge.record()}


def describe(model: Model) -> ModelSummary:
    """Build a model and measure it: sizes, classes, complexity.

    >>> import mdpdsl
    >>> mdpdsl.describe(mdpdsl.load("riverswim")).pairs
    12
    """
    graph = simulated_or_possible(model.graph)
    classes = unreachable = complexity = None
    if graph.has_dynamics:
        classes = communicating_classes(graph.closed).n_classes
        unreachable = graph.n_states - int(reachable_states(graph).sum())
    if graph.has_truth:
        c = squared_l2_complexity(graph)
        complexity = {"min": float(c.min()), "mean": float(c.mean()), "max": float(c.max())}
    names = graph.actions.labels
    listed = list(names) if len(names) <= MOST_LISTED else [f"{len(names)} combinations"]
    integration = model.integration
    return ModelSummary(
        name=model.name,
        title=model.title,
        hash=model.graph.hash,
        parameters=dict(model.parameters),
        variables=[variable.describe() for variable in graph.states.variables],
        action_list=listed,
        states=graph.n_states,
        ends=0 if graph.ends is None else int(np.count_nonzero(graph.ends)),
        actions=graph.n_actions,
        pairs=graph.n_pairs,
        branches=graph.n_branches,
        classes=classes,
        communicating=None if classes is None else classes == 1,
        unreachable=unreachable,
        complexity=complexity,
        labels={name: int(np.count_nonzero(states)) for name, states in graph.labels.items()},
        rewards=list(all_rewards(graph)),
        properties=dict(model.properties),
        discretization=None if integration is None else asdict(integration),
        build_seconds=model.build_seconds,
        knowledge=None if graph.knowledge is None else _knowledge(model, graph, graph.knowledge),
    )


def _knowledge(model: Model, graph: TransitionGraph, known: Knowledge) -> KnowledgeSummary:
    n_laws = int(np.count_nonzero(known.is_law & ~known.is_known))
    n_known = int(np.count_nonzero(known.is_known))
    joined = np.flatnonzero(known.is_joined & ~known.is_known[known.entry_pair])
    example = None
    if len(joined):
        pair, successor = int(known.entry_pair[joined[0]]), int(known.successor[joined[0]])
        where = state_text(graph, int(graph.pair_state[pair]))
        action = graph.actions.labels[graph.pair_action[pair]]
        example = (
            f"in {where}, `{action}`: several branches lead to {state_text(graph, successor)} "
            "and cannot be told apart"
        )
    return KnowledgeSummary(
        known=n_known,
        open=graph.n_pairs - n_known - n_laws,
        laws=n_laws,
        joined=len(np.unique(known.entry_pair[joined])),
        unknowns=[
            UnknownNumber(each.name, each.low, each.high, each.value)
            for each in model.checked.unknowns
        ],
        missing=[] if known.has_truth else list(needed(model.checked, known)),
        example=example,
    )


def draw(model: Model, path: str | Path, *, overwrite: bool = False) -> Path:
    """Draw a model, or the classes of a large one, to a .svg, .png or .dot file.

    A file that is there is replaced only if you `overwrite` it.

    >>> import mdpdsl
    >>> mdpdsl.draw(mdpdsl.load("riverswim"), "river.svg").exists()
    True
    """
    target = Path(path)
    if target.suffix not in PICTURES:
        raise FormatError(f"a picture is a file ending in {', '.join(PICTURES)}")
    with staged(target, overwrite) as place:
        if target.suffix == ".dot":
            from mdpdsl.formats.dot import Dot

            Dot().write(model, place)
        else:
            from mdpdsl.report.graph.picture import draw_graph

            draw_graph(model.graph, place, model.title or model.name)
    return target
