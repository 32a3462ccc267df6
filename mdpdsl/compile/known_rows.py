"""What a model file says of its rows: which successors are possible, and what is known of them.

The rows are computed as those of the truth are, with other weights for the branches: each counts as
one wherever it may lead, or has its known share. An unknown number has any value of its range.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum

import numpy as np

from mdpdsl.compile.checked import Branch, CheckedModel, Rule
from mdpdsl.compile.covering import CoveringKernel
from mdpdsl.compile.enclosures import enclose
from mdpdsl.compile.expressions import Frame, evaluate
from mdpdsl.compile.laws import Laws
from mdpdsl.compile.merge import MergedColumns, MergedRows, Transitions, merge_rows
from mdpdsl.compile.outcome import Moves
from mdpdsl.compile.problems import Problems
from mdpdsl.compile.transitions import TransitionKernel
from mdpdsl.graph.knowledge import Knowledge
from mdpdsl.graph.row_sets import places
from mdpdsl.graph.space import FloatArray, IntArray, StateSpace

#: A branch with a smaller probability, whatever the unknown numbers are, does not exist; a row that
#: changes less over their ranges does not depend on them.
NEGLIGIBLE = 1e-12


class View(Enum):
    """What is asked: branches that lead to a state, those with `?`, those of laws, known shares."""

    POSSIBLE = "possible"
    OPEN = "open"
    LAW = "law"
    SHARE = "share"


class ViewKernel(TransitionKernel):
    """Computes what a model file says of its rows; they need not sum to 1."""

    is_whole = False

    def __init__(
        self,
        model: CheckedModel,
        problems: Problems,
        initial: tuple[IntArray, FloatArray],
        view: View,
    ) -> None:
        super().__init__(model, problems, initial)
        self.view = view
        self.laws = Laws(model)
        self.open_problems = problems.another()
        if view is not View.SHARE:
            self.outcomes = CoveringKernel(model, problems, self.laws)

    def renew_open_problems(self) -> None:
        """Forget what has been found wrong with the open branches."""
        self.open_problems = self.problems.another()

    def restarting(self, rows: IntArray) -> Iterator[MergedRows]:
        """Return the branches of states that restart, which are known."""
        for merged in super().restarting(rows):
            if self.view is View.SHARE:
                yield merged
            elif self.view is View.POSSIBLE:
                ones = np.ones(len(merged.targets))
                yield MergedRows(merged.action, merged.rows, merged.counts, merged.targets, ones)

    def rule_moves(
        self, rule: Rule, codes: IntArray, rows: IntArray, frame: Frame, action: int
    ) -> Iterator[Moves]:
        """Return what the view asks of the branches of a rule."""
        frame = self.at_points(codes, frame)
        depends = self._depends(rule, frame, len(codes))
        for branch in rule.branches:
            weight = self._weight(branch, depends, frame)
            # An update must have a value wherever its `?` is possible, whatever its truth is.
            self.outcomes.problems = self.open_problems if branch.is_open else self.problems
            moves = list(self.branch_moves(branch, weight, codes, rows, frame, action))
            if self.view is View.SHARE:
                yield from moves
                continue
            merged = merge_rows(action, moves, self.model.states.size)
            if merged is not None:
                flat = merged.flat() if isinstance(merged, MergedColumns) else merged
                places_of = np.repeat(flat.rows, flat.counts)
                yield Moves(places_of, flat.targets, np.ones(len(places_of)))

    def _depends(self, rule: Rule, frame: Frame, n: int) -> FloatArray:
        """Return 1 at the points of states in which the row depends on unknown numbers, else 0."""
        if not self.laws.is_law(rule):
            return np.zeros(frame.size)
        if any(self.laws.moves(self._plan(branch)) for branch in rule.branches):
            return np.ones(frame.size)
        widest = np.zeros(frame.size)
        for branch in rule.branches:
            if branch.probability is not None:
                found = enclose(branch.probability, frame, self.laws.box)
                widest = np.maximum(widest, frame.full(found.upper - found.lower))
        by_state = (widest > NEGLIGIBLE).reshape(n, -1).any(axis=1)
        return np.repeat(by_state, frame.size // n).astype(np.float64)

    def _weight(self, branch: Branch, depends: FloatArray, frame: Frame) -> FloatArray:
        """Return the weight of a branch at every point."""
        if branch.is_open:
            return np.ones(()) if self.view in (View.POSSIBLE, View.OPEN) else np.zeros(())
        is_counted = {
            View.POSSIBLE: np.ones(()),
            View.OPEN: np.zeros(()),
            View.LAW: depends,
            View.SHARE: 1.0 - depends,
        }[self.view]
        if branch.probability is None:
            return np.asarray(is_counted)
        values = np.asarray(evaluate(branch.probability, frame).values, np.float64)
        if self.view is View.SHARE:
            return np.asarray(np.clip(values, 0.0, 1.0) * is_counted)
        is_possible = values > 0
        if self.laws.reads_numbers(branch.probability):
            upper = enclose(branch.probability, frame, self.laws.box).upper
            is_possible = is_possible | (np.asarray(upper) > NEGLIGIBLE)
        return np.asarray(is_possible * is_counted)


class KnowledgeBuffer:
    """The knowledge of a model, collected batch by batch."""

    def __init__(
        self, model: CheckedModel, problems: Problems, initial: tuple[IntArray, FloatArray]
    ) -> None:
        # What is wrong with the rows is reported by those who compute the truth, except where an
        # open branch has a truth of 0.
        quiet = problems.another()
        self.model = model
        self.kernels = {view: ViewKernel(model, quiet, initial, view) for view in View}
        self._parts: list[tuple[IntArray | FloatArray, ...]] = []

    @property
    def possible(self) -> ViewKernel:
        """The transitions that are possible."""
        return self.kernels[View.POSSIBLE]

    @property
    def problems(self) -> Problems:
        """What is wrong with the updates of open branches."""
        return self.possible.open_problems

    def add(self, codes: IntArray, states: StateSpace) -> None:
        """Add the rows of a batch of states, in order."""
        with np.errstate(all="ignore"):  # values that are no numbers are errors, reported elsewhere
            found = {view: kernel.transitions(codes) for view, kernel in self.kernels.items()}
        possible = found[View.POSSIBLE]
        keys = self._keys(possible)
        aligned = []
        for view in (View.OPEN, View.LAW, View.SHARE):
            place = places(keys, self._keys(found[view]))
            values = np.zeros(len(keys))
            values[place[place >= 0]] = found[view].probabilities[place >= 0]
            aligned.append(values)
        counts = np.diff(possible.starts)
        indices = states.indices(possible.targets)
        self._parts.append((counts, indices, possible.probabilities, *aligned))

    def _keys(self, found: Transitions) -> IntArray:
        pair = found.pair_rows * self.model.actions.size + found.pair_actions
        return np.repeat(pair, np.diff(found.starts)) * self.model.states.size + found.targets

    def knowledge(self, has_truth: bool, *, learns_all: bool) -> Knowledge:
        """Return the knowledge of all rows; if all are to be learned, only of their successors."""
        counts, successor, n_possible, n_open, n_law, share = (
            np.concatenate([part[i] for part in self._parts]) for i in range(6)
        )
        start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        pair = np.repeat(np.arange(len(counts)), counts)
        is_open = n_open + n_law > 0
        is_law = np.bincount(pair, n_law, len(counts)) > 0
        is_joined = (n_possible > 1) & (n_open > 0)
        # All open branches of such a row lead to one state, which has what the others leave.
        is_settled = np.bincount(pair[is_open], minlength=len(counts)) == 1
        left = 1.0 - np.bincount(pair, share, len(counts))
        share = np.where(is_open & is_settled[pair], share + left[pair], share)
        is_open, is_law = is_open & ~is_settled[pair], is_law & ~is_settled
        if learns_all:
            is_written = np.bincount(pair[is_open], minlength=len(counts)) == 0
            is_open = is_open | is_written[pair]
            share = np.where(is_written[pair], 0.0, share)
        return Knowledge(start, successor, share, is_open, is_joined, is_law, has_truth)


def with_truth_of_known_rows(model: CheckedModel, known: Knowledge) -> Knowledge:
    """Return knowledge that has a truth even if something has no value that no row needs."""
    return replace(known, has_truth=known.has_truth or not needed(model, known))


def needed(model: CheckedModel, known: Knowledge) -> tuple[str, ...]:
    """Return what has no value but is needed to simulate the rows: unknown numbers, and `?`.

    Continuous states need the probability of every branch: those that lead to one cell may lead to
    different points of it.
    """
    if any(variable.kind == "real" for variable in model.states.variables):
        return model.missing
    is_any_open = bool((~known.is_known & ~known.is_law).any())
    is_any_unknown = not known.is_known.all()
    return tuple(name for name in model.missing if (is_any_open if name == "?" else is_any_unknown))
