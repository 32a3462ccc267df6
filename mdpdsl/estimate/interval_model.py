"""The interval MDP of a run: a set of models that contains the true one with probability 1 - delta.

Each probability lies in its Clopper-Pearson interval (`estimate.intervals`). The support of a pair,
the set of its possible successors, is one of two:

- `model`: the successors that the pair has in the model file. They are assumed to be the right
  ones; their probabilities are not used. A successor that was never seen has [LEAST, u], where u is
  the upper end for unseen successors: it is known to be possible, so its probability is not 0.
- `all`: any state. The m successors that were never seen after a pair are merged into an extra
  state, `unknown`, with [EPSILON, min(1, m u)]; an unvisited pair leads there with certainty. From
  `unknown`, anything may follow: every state with [EPSILON, 1], and a state `lost` that is never
  left and has no label of the model. So the minimal probability of reaching a label from `unknown`
  is at most S EPSILON and the maximal at least 1 - S EPSILON: both bounds on a reachability hold up
  to that. If rows had S entries [0, u] instead, no tool could check the file: PRISM and Storm need
  lower ends above 0, and raising them would exclude the models in which a state is never left.

A pair whose only successor is known has the probability 1.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from mdpdsl.diagnostics import Diagnostic, ModelError
from mdpdsl.estimate.empirical import too_large_estimate
from mdpdsl.estimate.intervals import Intervals, joint_intervals
from mdpdsl.estimate.run_result import RunResult
from mdpdsl.graph.analysis import reachable_states
from mdpdsl.graph.branches import starts_of
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.describe import pair_text, state_text
from mdpdsl.graph.interval_graph import Bounds, IntervalGraph, probabilities_within
from mdpdsl.graph.space import IntArray, Product, StateSpace, Variable
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.runs.records import RunConfiguration

SUPPORTS = ("auto", "model", "all")

#: The lower end of a possible successor that was never seen; model builders drop smaller numbers.
LEAST = 1e-15

#: The lower end of a transition that may be impossible.
EPSILON = 1e-12


@dataclass(frozen=True, eq=False)
class IntervalModel:
    """The interval MDP of a run, with the assumptions behind it."""

    name: str
    intervals: IntervalGraph
    support: str  # model, or all
    reason: str  # why this support
    delta: float
    pairs_unseen: int

    @property
    def notes(self) -> tuple[str, ...]:
        """Comments for the file: what the intervals mean and which support they assume."""
        notes = [f"interval MDP: it contains the true model with probability {1 - self.delta:g}"]
        if self.support == "model":
            notes.append("the successors of a pair are those of the model file")
        else:
            notes.append("successors that were never seen are merged into `unknown`, from where")
            notes.append("any state may follow, or `lost`, which is never left and has no label")
        return tuple(notes)


def interval_model(
    result: RunResult,
    *,
    support: str = "auto",
    delta: float | None = None,
    all_states: bool = False,
) -> IntervalModel:
    """Return the interval MDP of an estimate or a run; raise ModelError if it has none.

    `delta` defaults to the run's own. `auto` takes the successors of the model if the run simulated
    that model, and all states for logs and live systems, which may differ from the model.
    """
    counts = result.counts
    is_large = too_large_estimate(counts, result.graph) is not None
    spaces = result.graph if is_large else result.as_model(all_states=True).graph
    own_delta = float(result.configuration.settings.get("delta", 0.1))
    if delta is None and result.sets is not None:
        found = result.sets.intervals
    else:
        found = joint_intervals(counts, spaces.n_states, own_delta if delta is None else delta)
    chosen, reason = _support(result.configuration, support)
    if chosen == "model":
        built = with_support(spaces, _dynamics(result.graph, spaces), counts, found)
    else:
        built = with_unknown(spaces, counts, found)
    if not all_states:
        built = built.restricted(reachable_states(built.graph))
    unseen = int(np.count_nonzero(counts.visits == 0))
    total = found.entry_risk * spaces.n_pairs * spaces.n_states
    return IntervalModel(result.model.name, built, chosen, reason, total, unseen)


def with_support(
    spaces: TransitionGraph, known: TransitionGraph, counts: Counts, found: Intervals
) -> IntervalGraph:
    """Return intervals for the successors of another graph; raise ModelError if others occurred."""
    S = spaces.n_states
    n_successors = np.diff(known.successor_start)
    pair = np.repeat(np.arange(known.n_pairs), n_successors)
    seen_pair = np.repeat(np.arange(known.n_pairs), np.diff(counts.successor_start))
    place = np.searchsorted(pair * S + known.successor, seen_pair * S + counts.successor)
    place = np.minimum(place, known.n_branches - 1)
    is_known = (pair[place] == seen_pair) & (known.successor[place] == counts.successor)
    if not is_known.all():
        entry = int(np.flatnonzero(~is_known)[0])
        target = state_text(known, int(counts.successor[entry]))
        raise _error(
            f"in the data, {pair_text(known, int(seen_pair[entry]))} led to {target}, which is "
            "impossible in the model",
            "set `support=` to all: the model's dynamics differ from those of the data",
        )
    lower = np.full(known.n_branches, min(LEAST, float(known.probability.min())))
    upper = found.unseen_upper[pair]
    lower[place] = np.maximum(found.lower, lower[place])
    upper[place] = found.upper
    is_alone = n_successors[pair] == 1
    lower[is_alone] = upper[is_alone] = 1.0
    return _interval_graph(
        replace(
            spaces,
            successor_start=known.successor_start,
            successor=known.successor,
            probability=known.probability,
        ),
        Bounds(lower, np.maximum(lower, upper)),
    )


def with_unknown(spaces: TransitionGraph, counts: Counts, found: Intervals) -> IntervalGraph:
    """Return the intervals of seen successors; all others are merged into `unknown`.

    The probabilities of seen successors may be smaller by the factor 1 - EPSILON, which leaves room
    for the branch to `unknown`.
    """
    S, n_pairs = spaces.n_states, spaces.n_pairs
    n_seen = np.diff(counts.successor_start)
    n_missing = S - n_seen
    has_more = n_missing > 0
    if not has_more.any():
        alone = np.repeat(n_seen, n_seen) == 1
        bounds = Bounds(np.where(alone, 1.0, found.lower), np.where(alone, 1.0, found.upper))
        return _interval_graph(_with_rows(spaces, counts), bounds)
    per_pair = np.concatenate([n_seen + has_more, [S + 1, 1]])
    start = starts_of(per_pair)
    successor = np.empty(start[-1], np.int32)
    lower, upper = np.empty(start[-1]), np.empty(start[-1])
    pair = np.repeat(np.arange(n_pairs), n_seen)
    entry = start[:-1][pair] + np.arange(len(pair)) - counts.successor_start[:-1][pair]
    successor[entry] = counts.successor
    lower[entry] = found.lower * np.where(has_more[pair], 1 - EPSILON, 1.0)
    upper[entry] = found.upper
    elsewhere = start[1 : n_pairs + 1][has_more] - 1
    is_unseen = n_seen[has_more] == 0
    successor[elsewhere] = S
    lower[elsewhere] = np.where(is_unseen, 1.0, EPSILON)
    upper[elsewhere] = np.minimum(1.0, n_missing[has_more] * found.unseen_upper[has_more])
    upper[elsewhere] = np.maximum(lower[elsewhere], upper[elsewhere])
    anywhere = slice(start[n_pairs], start[n_pairs + 1])
    successor[anywhere] = np.append(np.arange(S), S + 1)
    lower[anywhere], upper[anywhere] = EPSILON, 1.0
    successor[-1], lower[-1], upper[-1] = S + 1, 1.0, 1.0
    graph = _with_two_more_states(spaces, start, successor)
    return _interval_graph(graph, Bounds(lower, upper))


def _interval_graph(graph: TransitionGraph, bounds: Bounds) -> IntervalGraph:
    """Put probabilities within the bounds; drop rewards of next states, which are unknown."""
    reward = graph.reward if graph.branch_reward is None else None
    probability = probabilities_within(graph, bounds)
    found = replace(graph, probability=probability, reward=reward, branch_reward=None)
    return IntervalGraph(found, bounds)


def _with_rows(spaces: TransitionGraph, counts: Counts) -> TransitionGraph:
    return replace(
        spaces,
        successor_start=counts.successor_start,
        successor=counts.successor,
        probability=np.ones(len(counts.successor)),
    )


def _with_two_more_states(
    spaces: TransitionGraph, successor_start: IntArray, successor: np.ndarray
) -> TransitionGraph:
    """Return a graph with the states `unknown` and `lost` after the others.

    An extra variable, the slowest, distinguishes them, so that the others keep their numbers.
    """
    product, S = spaces.states.product, spaces.n_states
    name = _free("knowledge", [variable.name for variable in product.variables])
    knowledge = Variable(name, "enum", 3, members=("known", "unknown", "lost"))
    codes = np.concatenate([spaces.states.codes, [product.size, 2 * product.size]])
    nowhere = np.zeros(2, np.bool_)
    labels = {label: np.append(on, nowhere) for label, on in spaces.labels.items()}
    for place, label in enumerate(("unknown", "lost")):
        labels[_free(label, labels)] = np.arange(S + 2) == S + place
    none = np.zeros(2)
    return replace(
        spaces,
        states=StateSpace(Product((knowledge, *product.variables)), codes),
        pair_start=np.append(spaces.pair_start, spaces.n_pairs + np.array([1, 2])),
        pair_action=np.append(spaces.pair_action, np.zeros(2, np.int32)),
        successor_start=successor_start,
        successor=successor,
        probability=np.ones(len(successor)),
        initial=np.append(spaces.initial, none),
        reward=None if spaces.reward is None else np.append(spaces.reward, none),
        labels=labels,
    )


def _support(configuration: RunConfiguration, asked: str) -> tuple[str, str]:
    """Choose the successors that pairs may have, and say why."""
    if asked != "auto":
        return asked, "as requested"
    options, settings = configuration.options, configuration.settings
    if configuration.command != "explore" or configuration.system is not None:
        return "all", (
            "the data do not come from the model; set `support=` to model to trust its successors"
        )
    if options.log is not None or settings.get("simulate", "model") != "model":
        return "all", (
            "the run did not simulate the model; set `support=` to model to trust its successors"
        )
    if configuration.warm_start is not None:
        return "all", (
            "the run started with other data; set `support=` to model to trust its successors"
        )
    return "model", "the run simulated this model"


def _dynamics(graph: TransitionGraph, spaces: TransitionGraph) -> TransitionGraph:
    """Return the model file's own graph, over the pairs of a run."""
    if not graph.has_dynamics:
        raise _error(
            "the model file has no dynamics, so its possible successors are unknown",
            "set `support=` to all",
        )
    same = np.array_equal(graph.states.codes, spaces.states.codes) and np.array_equal(
        graph.pair_action, spaces.pair_action
    )
    if not same or not np.array_equal(graph.pair_start, spaces.pair_start):
        raise _error("the states of the model file and the run differ", "set `support=` to all")
    return graph


def _free(name: str, taken: Collection[str]) -> str:
    return _free(f"{name}_", taken) if name in taken else name


def _error(message: str, help_text: str) -> ModelError:
    return ModelError([Diagnostic("E603", message, None, help_text)])
