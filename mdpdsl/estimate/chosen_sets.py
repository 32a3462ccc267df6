"""The confidence sets of a run: its own, or others for another support or risk."""

from __future__ import annotations

import numpy as np

from mdpdsl.diagnostics import Diagnostic, ModelError
from mdpdsl.estimate.confidence_sets import (
    DEFAULT_SETS,
    DEFAULT_SUPPORT,
    ConfidenceSets,
    confidence_sets,
    settled_sets,
)
from mdpdsl.estimate.intervals import SETS
from mdpdsl.estimate.run_result import RunResult
from mdpdsl.graph.describe import pair_text, state_text
from mdpdsl.graph.row_sets import entry_pairs
from mdpdsl.graph.transition_graph import TransitionGraph

SUPPORTS = ("auto", "model", "seen", "all")


def chosen_sets(
    result: RunResult, spaces: TransitionGraph, support: str = "auto", delta: float | None = None
) -> tuple[ConfidenceSets, str]:
    """Return confidence sets of a run over some spaces, and why they have their support.

    `delta` and the kind of the sets default to the run's own. `auto` takes the support of an
    estimate, the successors of the model if the run simulated that model, and `seen` for logs and
    live systems, which may differ from the model. Raise ModelError if the data contradict a support
    that was asked for.
    """
    own = result.sets
    chosen, reason = _support(result, support)
    if chosen == "model":
        _require_dynamics(result.graph, spaces)
    if own is not None and delta is None and own.support == chosen:
        sets = own
    else:
        kind = own.kind if own is not None and own.kind in SETS else DEFAULT_SETS
        risk = float(result.configuration.settings.get("delta", 0.1)) if delta is None else delta
        if result.settled is not None:
            sets = settled_sets(result.settled, risk, kind, chosen)
        else:
            sets = confidence_sets(result.counts, result.graph, risk, kind, chosen)
    if support == "model":
        _require_agreement(sets)
    return sets, reason


def _support(result: RunResult, asked: str) -> tuple[str, str]:
    """Choose the successors that pairs may have, and say why."""
    if asked != "auto":
        return asked, "as requested"
    configuration, trust = result.configuration, "set `support=` to model to trust its successors"
    if configuration.command == "estimate" and result.sets is not None:
        is_default = result.sets.support != "model"
        return result.sets.support, f"that of the estimate{f'; {trust}' if is_default else ''}"
    if result.graph.knowledge is not None:
        return "model", "the model file says what is not known"
    if configuration.system is not None:
        return DEFAULT_SUPPORT, f"the data do not come from the model; {trust}"
    settings = configuration.settings
    if configuration.options.log is not None or settings.get("simulate", "model") != "model":
        return DEFAULT_SUPPORT, f"the run did not simulate the model; {trust}"
    if configuration.warm_start is not None:
        return DEFAULT_SUPPORT, f"the run started with other data; {trust}"
    return "model", "the run simulated this model"


def _require_dynamics(graph: TransitionGraph, spaces: TransitionGraph) -> None:
    """Raise ModelError unless the model file has dynamics over the pairs of a run."""
    if not graph.has_dynamics:
        raise _error(
            "the model file has no dynamics, so its possible successors are unknown",
            "set `support=` to seen",
        )
    same = np.array_equal(graph.states.codes, spaces.states.codes) and np.array_equal(
        graph.pair_action, spaces.pair_action
    )
    if not same or not np.array_equal(graph.pair_start, spaces.pair_start):
        raise _error("the states of the model file and the run differ", "set `support=` to seen")


def _require_agreement(sets: ConfidenceSets) -> None:
    """Raise ModelError if the data contradict the model."""
    if not len(sets.contradictions):
        return
    entry, graph = int(sets.contradictions[0]), sets.graph
    pair = int(entry_pairs(sets.counts.successor_start)[entry])
    target = state_text(graph, int(sets.counts.successor[entry]))
    raise _error(
        f"in the data, {pair_text(graph, pair)} led to {target}, which is impossible in the model",
        "set `support=` to seen: the model's dynamics differ from those of the data",
    )


def _error(message: str, help_text: str) -> ModelError:
    return ModelError([Diagnostic("E603", message, None, help_text)])
