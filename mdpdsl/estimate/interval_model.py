"""The interval MDP of a run: a set of models that contains the true one with probability 1 - delta.

Each probability lies in its interval (`estimate.intervals`). Which successors a pair may have is
the support of the confidence sets (`estimate.confidence_sets`):

- `model`: the successors that the pair has in the model file. They are assumed to be the right
  ones; their probabilities are not used. A successor that was never seen has [LEAST, u], where u is
  the upper end for unseen successors: it is known to be possible, so its probability is not 0.
- `seen` and `all`: any state. The successors that were never seen after a pair are merged into an
  extra state, `unknown`, with [EPSILON, u], where u bounds all of them together; an unvisited pair
  leads there with certainty. From `unknown`, anything may follow: every state with [EPSILON, 1],
  and a state `lost` that is never left and has no label of the model. So the minimal probability of
  reaching a label from `unknown` is at most S EPSILON and the maximal at least 1 - S EPSILON: both
  bounds on a reachability hold up to that. The detour takes a step, so bounds on numbers of steps
  do not hold. If rows had S entries [0, u] instead, no tool could check the file: PRISM and Storm
  need lower ends above 0, and raising them would exclude the models in which a state is never left.

A pair whose only successor is known has the probability 1.

Rows with `?` or unknown numbers may have successors that the model file names and that are
impossible nevertheless, because the set of their probabilities contains 0. A lower end of LEAST
alone would be wrong: whatever is tried for ever then happens with probability 1. Such a row also
leads to `lost`, with [LEAST, LOSS]: nature may leave it that way before such a successor follows.
So the minimal probability of reaching a label is at most S LEAST/LOSS if it is 0 in truth, and no
bound excludes a model by more than that. Rewards are not bounded, since `lost` is never left.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from mdpdsl.estimate.chosen_sets import chosen_sets
from mdpdsl.estimate.confidence_sets import HOLDS, ConfidenceSets
from mdpdsl.estimate.empirical import too_large_estimate
from mdpdsl.estimate.intervals import SETS
from mdpdsl.estimate.run_result import RunResult
from mdpdsl.graph.analysis import reachable_states
from mdpdsl.graph.branches import starts_of
from mdpdsl.graph.interval_graph import Bounds, IntervalGraph, probabilities_within
from mdpdsl.graph.reward_fields import mapped_rewards, rewards_of_pairs
from mdpdsl.graph.row_sets import RowSets, entry_pairs
from mdpdsl.graph.space import BoolArray, IntArray, Product, StateSpace, Variable
from mdpdsl.graph.transition_graph import TransitionGraph

#: The lower end of a possible successor that was never seen; model builders drop smaller numbers.
LEAST = 1e-15

#: The lower end of a transition that may be impossible.
EPSILON = 1e-12

#: The upper end of the transition to `lost` beside successors that may be impossible.
LOSS = 1e-9


@dataclass(frozen=True, eq=False)
class IntervalModel:
    """The interval MDP of a run, with the assumptions behind it."""

    name: str
    intervals: IntervalGraph
    sets: ConfidenceSets
    reason: str  # why this support
    pairs_unseen: int
    numbers: str | None = None  # the unknown numbers behind some rows, with their intervals
    caveat: str | None = None  # what is missing if the set of these numbers is not proved
    warning: str | None = None  # what is wrong if the data contradict the model's law
    pairs_vanishing: int = 0  # with successors that may be impossible, which may lead to `lost`

    @property
    def support(self) -> str:
        """Which successors are possible: model, seen or all."""
        return self.sets.support

    @property
    def delta(self) -> float:
        """The risk that the true model is not in the set."""
        return self.sets.delta

    @property
    def kind(self) -> str:
        """The kind of the intervals; those of version 1 are Clopper and Pearson's."""
        return self.sets.kind if self.sets.kind in SETS else "clopper-pearson"

    @property
    def holds(self) -> str:
        """When the intervals hold, in words."""
        return HOLDS[self.kind]

    @property
    def notes(self) -> tuple[str, ...]:
        """Comments for the file: what the intervals mean and which support they assume."""
        sets = self.sets
        notes = [
            f"interval MDP: it contains the true model with probability {1 - self.delta:g}",
            f"sets: {replace(sets, kind=self.kind).described}",
            f"they hold {self.holds}",
        ]
        if n_contrary := len(np.unique(_contrary_pairs(sets))):
            pairs = "1 pair" if n_contrary == 1 else f"{n_contrary:,} pairs"
            notes.append(f"the data of {pairs} contradict the model: there, any state may follow")
        if _has_others(sets.rows):
            notes.append("successors that were never seen are merged into `unknown`, from where")
            notes.append("any state may follow, or `lost`, which is never left and has no label;")
            notes.append("this detour takes one more step, so bounds on steps do not hold")
        else:
            notes.append("the successors of a pair are those of the model file")
        if n := self.pairs_vanishing:
            pairs = "1 pair" if n == 1 else f"{n:,} pairs"
            notes.append(f"{pairs} may have successors with probability 0, which no lower end can")
            notes.append(
                f"say: they also lead to `lost` with at most {LOSS:g}; so probabilities of"
            )
            notes.append("reaching a label are bounded up to 1e-6 per state, and rewards are not")
        if self.numbers is not None:
            notes.append(f"rows of laws are bounded for {self.numbers}, each row on its own:")
            notes.append("intervals cannot share a number, so bounds from this file are wider than")
            notes.append("those of `solve --robust` on the run, where one value rules all rows")
        if self.caveat is not None:
            notes.append(self.caveat)
        if self.warning is not None:
            notes.append(self.warning)
        return tuple(notes)


def interval_model(
    result: RunResult,
    *,
    support: str = "auto",
    delta: float | None = None,
    all_states: bool = False,
) -> IntervalModel:
    """Return the interval MDP of an estimate or a run; raise ModelError if it has none.

    `delta` and the kind of the sets default to the run's own. `auto` takes the support of an
    estimate, the successors of the model if the run simulated that model, and `seen` for logs and
    live systems, which may differ from the model.
    """
    counts = result.counts
    is_large = too_large_estimate(counts, result.graph) is not None
    spaces = result.graph if is_large else result.as_model(all_states=True).graph
    sets, reason = chosen_sets(result, spaces, support, delta)
    is_known = sets.support == "model"
    numbers = result.family_sets(sets) if is_known else None
    rows = sets.rows if numbers is None else numbers.hull_rows
    least = LEAST
    if is_known and result.graph.knowledge is None:
        least = float(result.graph.probability.min(initial=LEAST))
    may_vanish = is_known and result.graph.knowledge is not None
    n_vanishing = int(np.count_nonzero(_vanishing(rows, least))) if may_vanish else 0
    built = interval_graph(spaces, rows, least, may_vanish=may_vanish)
    if not all_states:
        built = built.restricted(reachable_states(built.graph))
    unseen = int(np.count_nonzero((counts.visits == 0) & result.graph.to_learn))
    described = None if numbers is None else numbers.described
    return IntervalModel(
        result.model.name,
        built.absorbing(),
        sets,
        reason,
        unseen,
        numbers=described,
        caveat=None if numbers is None else numbers.caveat,
        warning=result.law_warning(sets),
        pairs_vanishing=n_vanishing,
    )


def interval_graph(
    spaces: TransitionGraph, rows: RowSets, least: float = LEAST, *, may_vanish: bool = False
) -> IntervalGraph:
    """Return the intervals of sets of rows; successors that are not listed become `unknown`.

    No lower end is below `least`, but for the factor 1 - EPSILON that leaves room for the branch to
    `unknown`. If listed successors may be impossible, their rows may also lead to `lost`.
    """
    S, n_pairs = spaces.n_states, spaces.n_pairs
    has_more = rows.others_upper > 0
    n_listed = np.diff(rows.successor_start)
    pair = entry_pairs(rows.successor_start)
    is_alone = (n_listed == 1)[pair] & ~has_more[pair]
    low = np.where(is_alone, 1.0, np.maximum(rows.lower, least))
    high = np.where(is_alone, 1.0, np.maximum(low, rows.upper))
    vanishes = _vanishing(rows, least) & may_vanish
    if not (has_more | vanishes).any():
        graph = replace(
            spaces,
            successor_start=rows.successor_start,
            successor=rows.successor,
            probability=np.ones(len(rows.successor)),
        )
        return _interval_graph(graph, Bounds(low, high))
    start = starts_of(np.concatenate([n_listed + has_more + vanishes, [S + 1, 1]]))
    successor = np.empty(start[-1], np.int32)
    lower, upper = np.empty(start[-1]), np.empty(start[-1])
    entry = start[:-1][pair] + np.arange(len(pair)) - rows.successor_start[:-1][pair]
    successor[entry] = rows.successor
    lower[entry] = low * np.where((has_more | vanishes)[pair], 1 - EPSILON, 1.0)
    upper[entry] = high
    elsewhere = (start[:n_pairs] + n_listed)[has_more]
    is_unseen = n_listed[has_more] == 0
    successor[elsewhere] = S
    lower[elsewhere] = np.where(is_unseen, 1.0, EPSILON)
    upper[elsewhere] = np.maximum(lower[elsewhere], rows.others_upper[has_more])
    away = start[1 : n_pairs + 1][vanishes] - 1
    successor[away], lower[away], upper[away] = S + 1, LEAST, LOSS
    anywhere = slice(start[n_pairs], start[n_pairs + 1])
    successor[anywhere] = np.append(np.arange(S), S + 1)
    lower[anywhere], upper[anywhere] = EPSILON, 1.0
    successor[-1], lower[-1], upper[-1] = S + 1, 1.0, 1.0
    graph = _with_two_more_states(spaces, start, successor)
    return _interval_graph(graph, Bounds(lower, upper))


def _vanishing(rows: RowSets, least: float) -> BoolArray:
    """Return which pairs have successors, among several, that may be impossible, [n_pairs]."""
    n_listed = np.diff(rows.successor_start)
    found = np.zeros(len(n_listed), np.bool_)
    found[entry_pairs(rows.successor_start)[rows.lower < least]] = True
    return found & ((n_listed > 1) | (rows.others_upper > 0))


def _interval_graph(graph: TransitionGraph, bounds: Bounds) -> IntervalGraph:
    """Put probabilities within the bounds; drop rewards of next states, which are unknown."""
    probability = probabilities_within(graph, bounds)
    found = replace(graph, probability=probability, **rewards_of_pairs(graph))
    return IntervalGraph(found, bounds)


def _with_two_more_states(
    spaces: TransitionGraph, successor_start: IntArray, successor: np.ndarray
) -> TransitionGraph:
    """Return a graph with the states `unknown` and `lost` after the others.

    An extra variable, the slowest, distinguishes them, so that the others keep their numbers.
    """
    product, S = spaces.states.product, spaces.n_states
    name = _free("knowledge", [variable.name for variable in product.variables])
    n_twins = spaces.states.n_twins
    members = ("known", *(("ended",) if n_twins else ()), "unknown", "lost")
    knowledge = Variable(name, "enum", len(members), members=members)
    codes = spaces.states.codes + product.size * (np.arange(S) >= S - n_twins)
    codes = np.append(codes, product.size * np.array([len(members) - 2, len(members) - 1]))
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
        labels=labels,
        ends=None if spaces.ends is None else np.append(spaces.ends, nowhere),
        **mapped_rewards(spaces, lambda r: np.append(r, none), lambda r: r),
    )


def _contrary_pairs(sets: ConfidenceSets) -> IntArray:
    return entry_pairs(sets.counts.successor_start)[sets.contradictions]


def _has_others(rows: RowSets) -> bool:
    return bool((rows.others_upper > 0).any())


def _free(name: str, taken: Collection[str]) -> str:
    return _free(f"{name}_", taken) if name in taken else name
