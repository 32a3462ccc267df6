"""Whether a graph has rows that can be written: it has dynamics, and they are true."""

from __future__ import annotations

from mdpdsl.diagnostics import FormatError
from mdpdsl.graph.transition_graph import TransitionGraph


def require_rows(
    graph: TransitionGraph,
    otherwise: str = "there is nothing to write",
    *,
    has_bounds: bool = False,
) -> None:
    """Raise FormatError if the rows of a graph are unknown, or only stand for unknown ones.

    The latter is no mistake if bounds of the probabilities are written instead.
    """
    if not graph.has_dynamics:
        raise FormatError(f"the dynamics of this model are unknown, so {otherwise}")
    if not graph.has_truth and not has_bounds:
        raise FormatError(
            f"some probabilities of this model have no value, so {otherwise}; give them values, or "
            "use an estimate"
        )
