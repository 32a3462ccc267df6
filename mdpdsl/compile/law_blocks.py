"""Rows of one line of a model as functions of its unknown numbers: P = sum_b w_b(theta)·K_b(theta).

A line has branches b with probabilities w_b; `law_branches` computes where they lead, K_b. All
pairs to which a line applies, with any of its actions, make one block.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mdpdsl.compile.cell_laws import Point, Region
from mdpdsl.compile.checked import CheckedModel, Rule
from mdpdsl.compile.enclosures import Box, Enclosure
from mdpdsl.compile.expressions import Frame, evaluate
from mdpdsl.compile.law_branches import BlockRows, CellBranch, FixedBranch, NumericBranch
from mdpdsl.compile.laws import Laws, at
from mdpdsl.compile.merge import ROUNDING
from mdpdsl.compile.outcome import OutcomeKernel
from mdpdsl.compile.problems import Problems
from mdpdsl.compile.rewriting import Known
from mdpdsl.compile.slopes import add, divide, exactly, maximum, minimum
from mdpdsl.compile.terms import Term
from mdpdsl.compile.transitions import TransitionKernel, action_values, rules_of
from mdpdsl.graph.row_sets import entry_pairs
from mdpdsl.graph.space import ActionSpace, FloatArray, IntArray
from mdpdsl.graph.transition_graph import TransitionGraph

#: How far probabilities may be from a distribution at some theta and still count as one.
PROBABILITY_TOLERANCE = 1e-9
#: Where it is tested whether the probabilities of a line are a distribution for all theta.
_N_TRIALS = 16


class LawBlock:
    """The rows of one line, with their branches."""

    def __init__(self, rows: BlockRows, rule: Rule, outcomes: OutcomeKernel, laws: Laws) -> None:
        self.rows = rows
        model = rows.model
        known = Known(rows.frame)
        self.probabilities: list[Term | None] = []
        self.branches: list[FixedBranch | CellBranch | NumericBranch] = []
        for branch in rule.branches:
            chance = branch.probability
            self.probabilities.append(None if chance is None else known(chance))
            terms = {**model.equations, **branch.updates}
            plan = laws.plan(terms)
            steady = [plan.terms[name] for name in plan.order if name not in plan.exact]
            if not laws.moves(plan):
                self.branches.append(FixedBranch(rows, plan, outcomes))
            elif plan.quadrature or laws.reads_numbers(*steady):
                self.branches.append(NumericBranch(rows, terms))
            else:
                self.branches.append(CellBranch(rows, plan, outcomes))
        self.known = Frame(rows.frame.size, known.values)
        self.is_distribution = self._is_distribution(laws.box)

    @property
    def is_numeric(self) -> bool:
        """Whether some branch has neither exact derivatives nor bounds."""
        return any(isinstance(branch, NumericBranch) for branch in self.branches)

    def at(self, point: Point, model: CheckedModel | None) -> FloatArray:
        """Return the rows for one theta, [m]; a numeric block needs the model with its values."""
        found = np.zeros(len(self.rows.entries))
        weights = self._weights(point)
        for branch, weight in zip(self.branches, weights, strict=True):
            if isinstance(branch, FixedBranch):
                found += branch.at(weight)
            elif isinstance(branch, CellBranch):
                found += branch.at(point, weight)
            else:
                assert model is not None
                found += branch.at(model, OutcomeKernel(model, _no_problems(model)), weight)
        return found

    def slopes_at(self, point: Point) -> FloatArray:
        """Return the derivatives of the rows, [k, m]; NaN where there is none."""
        found = np.zeros((len(point.box.names), len(self.rows.entries)))
        weights, rises = self._weights(point), self._rises(point)
        for branch, weight, rise in zip(self.branches, weights, rises, strict=True):
            if isinstance(branch, FixedBranch):
                found += branch.at(rise)
            else:
                assert isinstance(branch, CellBranch)
                found += branch.slopes_at(point, weight, rise)
        return found

    def over(self, region: Region) -> Enclosure:
        """Enclose the rows over a box, [m]."""
        parts: list[Enclosure] = []
        for branch, weight in zip(self.branches, self._enclosed_weights(region), strict=True):
            if isinstance(branch, FixedBranch):
                parts.append(branch.over(weight))
            else:
                assert isinstance(branch, CellBranch)
                parts.append(branch.over(region, weight))
        found = parts[0]
        for part in parts[1:]:
            found = add(found, part)
        return found

    def _chances(self, point: Point) -> list[FloatArray]:
        """Return the probabilities of the branches at each point, or one for all points."""
        return [
            np.ones(()) if term is None else point.value(term, self.known)
            for term in self.probabilities
        ]

    def _weights(self, point: Point) -> list[FloatArray]:
        """Return the weights of the branches, as expansion has them."""
        chances = [np.clip(each, 0.0, 1.0) for each in self._chances(point)]
        total = sum(chances, np.zeros(()))
        if np.abs(total - 1).max() > ROUNDING:
            safe = np.where((total > 0) & (np.abs(total - 1) > ROUNDING), total, 1.0)
            chances = [each / safe for each in chances]
        return [each / self.rows.n_points for each in chances]

    def _rises(self, point: Point) -> list[FloatArray]:
        """Return the derivatives of the weights, [k, ...]."""
        n_numbers = len(point.box.names)
        chances = self._chances(point)
        rises = [
            np.zeros((n_numbers, 1))
            if term is None
            else np.where((each < 0) | (each > 1), 0.0, point.slope(term, self.known))
            for term, each in zip(self.probabilities, chances, strict=True)
        ]
        if not self.is_distribution:
            chances = [np.clip(each, 0.0, 1.0) for each in chances]
            total, rise = sum(chances, np.zeros(())), sum(rises, np.zeros(()))
            pairs = zip(chances, rises, strict=True)
            rises = [(each_rise - each / total * rise) / total for each, each_rise in pairs]
        return [rise / self.rows.n_points for rise in rises]

    def _enclosed_weights(self, region: Region) -> list[Enclosure]:
        n_numbers = len(region.box.names)
        zero, one = exactly(np.zeros(1), n_numbers), exactly(np.ones(1), n_numbers)
        found = [
            one if term is None else region.term(term, self.known) for term in self.probabilities
        ]
        if not self.is_distribution:
            found = [minimum(maximum(each, zero), one) for each in found]
            total = found[0]
            for each in found[1:]:
                total = add(total, each)
            found = [divide(each, total) for each in found]
        count = exactly(np.full(1, float(self.rows.n_points)), n_numbers)
        found = [
            Enclosure(np.clip(each.lower, 0.0, 1.0), np.clip(each.upper, 0.0, 1.0), *each.slope)
            for each in found
        ]
        return found if self.rows.n_points == 1 else [divide(each, count) for each in found]

    def _is_distribution(self, box: Box) -> bool:
        """Return whether the probabilities are in [0, 1] and sum to 1 wherever they are tried."""
        for theta in _trials(box):
            chances = self._chances(Point(Box(box.names, theta, theta)))
            total = sum(chances, np.zeros(()))
            outside = [np.maximum(-each, each - 1).max() for each in chances]
            if not max(np.abs(total - 1).max(), *outside) <= PROBABILITY_TOLERANCE:
                return False
        return True


def law_blocks(
    model: CheckedModel,
    graph: TransitionGraph,
    pairs: IntArray,
    start: IntArray,
    successor: IntArray,
) -> list[LawBlock]:
    """Return the blocks of all laws, for compressed rows of their pairs."""
    laws = Laws(model)
    centre = laws.box.low / 2 + laws.box.high / 2
    model = at(model, dict(zip(laws.box.names, centre.tolist(), strict=True)))
    model = replace(model, noises=laws.noises)
    kernel = TransitionKernel(model, _no_problems(model), (np.zeros(0, np.int64), np.zeros(0)))
    entry_row = entry_pairs(start)
    values = action_values(model)
    factors = {key: np.array([each[key] for each in values]) for key in values[0]}
    blocks = []
    for rule, rows in _applying(kernel, graph, pairs):
        codes = graph.states.codes[graph.pair_state[pairs[rows]]]
        actions = graph.pair_action[pairs[rows]]
        chosen = {key: numbers[actions] for key, numbers in factors.items()}
        frame = kernel.at_points(codes, kernel.frame(codes).extended(chosen))
        new_row = np.full(len(pairs), -1)
        new_row[rows] = np.arange(len(rows))
        entries = np.flatnonzero(new_row[entry_row] >= 0)
        block = BlockRows(
            model,
            graph.states,
            codes,
            frame,
            entries,
            new_row[entry_row[entries]],
            successor[entries].astype(np.int64),
        )
        blocks.append(LawBlock(block, rule, kernel.outcomes, laws))
    return blocks


def _applying(
    kernel: TransitionKernel, graph: TransitionGraph, pairs: IntArray
) -> Iterator[tuple[Rule, IntArray]]:
    """Return every line with the pairs to which it applies, as rows among some pairs, ascending."""
    model, values = kernel.model, action_values(kernel.model)
    found: dict[int, tuple[Rule, list[IntArray]]] = {}
    for action in np.unique(graph.pair_action[pairs]).tolist():
        rows = np.flatnonzero(graph.pair_action[pairs] == action)
        codes = graph.states.codes[graph.pair_state[pairs[rows]]]
        frame = kernel.frame(codes).extended(values[action])
        left = np.ones(len(rows), np.bool_)
        for rule in rules_of(model, action):
            here = left
            if not rule.is_otherwise and rule.guard is not None:
                here = left & frame.full(evaluate(rule.guard, frame).values).astype(np.bool_)
            left = left & ~here
            # Actions without lines share one: the equations alone.
            key = id(rule) if rule in model.rules else 0
            found.setdefault(key, (rule, []))[1].append(rows[here])
    for rule, parts in found.values():
        together = np.sort(np.concatenate(parts))
        if len(together):
            yield rule, together


def _trials(box: Box) -> Iterator[FloatArray]:
    """Return the centre of a box, some of its corners, and points inside."""
    yield box.low / 2 + box.high / 2
    for corner in itertools.islice(
        itertools.product(*zip(box.low, box.high, strict=True)), _N_TRIALS
    ):
        yield np.array(corner)
    rng = np.random.default_rng(0)
    for _ in range(_N_TRIALS):
        yield rng.uniform(box.low, box.high)


def _no_problems(model: CheckedModel) -> Problems:
    return Problems(model.states, ActionSpace(model.actions))
