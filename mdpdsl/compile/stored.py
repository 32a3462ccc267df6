"""Models whose graph was read or estimated instead of built; they can be used like any model.

They keep the other parts of the model file: name, parameters, rewards, labels, and the `log` and
`explore` blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mdpdsl.compile.checked import CheckedModel, spaces_alone
from mdpdsl.compile.expand import Expansion
from mdpdsl.compile.model import Model
from mdpdsl.compile.parameters import Override
from mdpdsl.compile.system import RawSystem
from mdpdsl.diagnostics import Diagnostic, ModelError, Source
from mdpdsl.graph.space import BoolArray, IntArray, Product
from mdpdsl.graph.transition_graph import TransitionGraph

#: The text of a model that came without a file.
NO_FILE = "# This run's model is the transition graph in model.npz.\n"


@dataclass(frozen=True)
class Provenance:
    """Where a stored graph comes from, and what its users should know."""

    path: str  # where it was first read from
    unseen_pairs: int | None = None  # pairs never visited; None: the graph is not an estimate
    estimated_pairs: int = 0  # visited or not
    states_left_out: int = 0  # no observed transition leads to them
    rewards_missing: str | None = None  # why a reward of the file is not in the graph
    guessed: Sequence[int] | None = None  # pairs whose row is a guess; None: not recorded

    @property
    def is_estimate(self) -> bool:
        """Whether the graph was estimated from data."""
        return self.unseen_pairs is not None

    def warnings(self) -> list[Diagnostic]:
        """Return the warnings to show to users of the graph."""
        found = []
        if self.unseen_pairs:
            message = (
                f"{self.unseen_pairs:,} of {self.estimated_pairs:,} pairs were never visited; "
                "their rows are uniform"
            )
            n_out = self.states_left_out
            states = "1 state is" if n_out == 1 else f"{n_out:,} states are"
            hint = (
                f"{states} left out, as no observed transition leads there; `all_states=` keeps all"
            )
            found.append(Diagnostic("W002", message, None, hint if n_out else None))
        if self.rewards_missing is not None:
            missing = self.rewards_missing
            what = missing if missing.startswith("reward `") else f"rewards: {missing}"
            found.append(Diagnostic("W003", f"the estimate has no {what}"))
        return found


def guessed_pairs(
    graph: TransitionGraph, is_guess: BoolArray, kept: BoolArray | None = None
) -> tuple[int, ...]:
    """Return the pairs of an estimate whose row is a guess, unless it has one successor only.

    They are numbered as in the graph restricted to the states that are kept.
    """
    guessed = is_guess & (np.diff(graph.successor_start) > 1)
    return tuple(
        np.flatnonzero(guessed if kept is None else guessed[kept[graph.pair_state]]).tolist()
    )


class StoredModel(Model):
    """A model whose graph is given."""

    def __init__(
        self,
        checked: CheckedModel,
        source: Source,
        graph: TransitionGraph,
        provenance: Provenance,
        seconds: float = 0.0,
    ) -> None:
        self.checked = checked
        self.source = source
        self.provenance = provenance
        self.learns_all = False
        self._options = (False, None, None)
        self._graph = graph
        self._seconds = seconds

    @property
    def guessed(self) -> IntArray:
        """The pairs whose row is a guess, because they were never visited.

        Files of version 1 only have their number; there they are the rows that are uniform.
        """
        known, graph = self.provenance, self.graph
        if known.guessed is not None:
            return np.asarray(known.guessed, np.int64)
        if not known.unseen_pairs or graph.n_states == 1:
            return np.empty(0, np.int64)
        is_uniform = np.diff(graph.successor_start) == graph.n_states
        first = np.minimum(graph.successor_start[:-1], graph.n_branches - 1)
        lowest = np.minimum.reduceat(graph.probability, first)
        highest = np.maximum.reduceat(graph.probability, first)
        return np.flatnonzero(is_uniform & (lowest == highest))

    @property
    def is_continuous(self) -> bool:
        """False: an estimate contains no equations of a continuous system."""
        return False

    @cached_property
    def system(self) -> RawSystem:
        """Raise ValueError: a stored graph has no continuous system."""
        raise ValueError(f"{self.provenance.path} contains a graph, not a continuous system")

    @property
    def is_built(self) -> bool:
        """True: the graph is given."""
        return True

    def diagnose(self) -> list[Diagnostic]:
        """Return the warnings to show to users of this model."""
        return self.provenance.warnings()

    def __repr__(self) -> str:
        return f"<StoredModel {self.name} from {self.provenance.path}>"

    @cached_property
    def _expansion(self) -> Expansion:
        return Expansion(self._graph, None, (), self._seconds)


def graph_model(
    graph: TransitionGraph, name: str, path: str = "", seconds: float = 0.0
) -> StoredModel:
    """Return a graph as a model without a file."""
    checked = spaces_alone(name, graph.states.product, graph.actions.product)
    return StoredModel(checked, Source(NO_FILE, path), graph, Provenance(path), seconds)


def stored_keys(model: Model) -> dict[str, object]:
    """Return what a record says about a stored model: where it is from, and the unvisited pairs."""
    if not isinstance(model, StoredModel):
        return {}
    known = model.provenance
    return {"stored": known.path, "unseen_pairs": known.unseen_pairs or 0}


def checked_or_spaces(
    name: str, source: Source, parameters: Mapping[str, Override], graph: TransitionGraph
) -> CheckedModel:
    """Return the names and blocks of a file, or only the spaces if the text does not fit them."""
    if source.text != NO_FILE:
        try:
            checked = Model(source, parameters).checked
            if _spaces(checked.states, checked.actions) == _spaces(
                graph.states.product, graph.actions.product
            ):
                return checked
        except (ModelError, TypeError):
            pass
    return spaces_alone(name, graph.states.product, graph.actions.product)


def _spaces(*products: Product) -> list[tuple[str, str, int]]:
    return [(v.name, v.kind, v.size) for product in products for v in product.variables]
