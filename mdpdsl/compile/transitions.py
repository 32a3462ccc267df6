"""The transitions of any set of states, computed for all of them at once.

States are arrays of product codes; nothing here loops over states. An error in some states is
recorded, and the computation continues.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from mdpdsl.compile.branch_probabilities import branch_probabilities
from mdpdsl.compile.checked import Branch, CheckedModel, Discretization, Rule
from mdpdsl.compile.expressions import Array, Frame, evaluate
from mdpdsl.compile.limits import check_memory
from mdpdsl.compile.merge import Merged, MergedRows, Transitions, join_rows, merge_rows
from mdpdsl.compile.noise import OutcomePlan, plan_outcome
from mdpdsl.compile.outcome import Moves, OutcomeKernel, Start, report_faults
from mdpdsl.compile.problems import Problems
from mdpdsl.compile.terms import Term
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray, Product


class TransitionKernel:
    """Computes the transitions of one model, at the values that it has for unknown numbers."""

    is_whole = True  # whether the probabilities of a pair sum to 1

    def __init__(
        self, model: CheckedModel, problems: Problems, initial: tuple[IntArray, FloatArray]
    ) -> None:
        self.model = model
        self.problems = problems
        self.initial = initial
        self.outcomes = OutcomeKernel(model, problems)
        self._points = cell_points(model)
        variables = {v.name: v for v in model.states.variables}
        self._rules = [rules_of(model, action) for action in range(model.actions.size)]
        self._plans: dict[int, OutcomePlan] = {}
        for rules in self._rules:
            for rule in rules:
                for branch in rule.branches:
                    if id(branch) not in self._plans:
                        terms = {**model.equations, **branch.updates}
                        self._plans[id(branch)] = plan_outcome(terms, variables, model.noises)
        self._action_values = action_values(model)

    def renew_problems(self) -> Problems:
        """Start a new collection of problems, and return it."""
        self.problems = self.problems.another()
        self.outcomes.problems = self.problems
        return self.problems

    @property
    def n_points(self) -> int:
        """The number of points at which a cell is evaluated."""
        return len(self._points)

    @property
    def n_outcomes(self) -> int:
        """The number of branches of all lines of all actions."""
        return sum(len(rule.branches) for rules in self._rules for rule in rules)

    @property
    def plans(self) -> list[OutcomePlan]:
        """How the outcomes integrate their noise."""
        return list(self._plans.values())

    @property
    def n_nodes(self) -> int:
        """The largest number of points times discrete noise values of an outcome."""
        discrete = [
            math.prod(noise.spread.n_values for noise in plan.discrete) for plan in self.plans
        ]
        return len(self._points) * max(discrete, default=1)

    def frame(self, codes: IntArray) -> Frame:
        """Return the values of all variables in some states; real ones at the centres of cells."""
        values = state_values(self.model, codes) | self.model.unknown_values
        return Frame(len(codes), values)

    def holds(self, guard: Term, frame: Frame, codes: IntArray, action: int | None) -> BoolArray:
        """Evaluate a condition; report its faults."""
        result = evaluate(guard, frame)
        report_faults(self.problems, result, frame, codes, action)
        return frame.full(result.values).astype(np.bool_, copy=False)

    def transitions(self, codes: IntArray) -> Transitions:
        """Return the transitions of a batch of states; ends have none."""
        parts: list[Merged] = []
        frame = self.frame(codes)
        restarts = any_holds(self.model.restarts, frame, codes, self.problems)
        ends = any_holds(self.model.ends, frame, codes, self.problems)
        both = np.flatnonzero(restarts & ends)
        if len(both):
            self._report_both(frame.take(both, len(both)), codes[both])
        moving = np.flatnonzero(~(restarts | ends))
        if len(moving) < len(codes):
            parts += self.restarting(np.flatnonzero(restarts & ~ends))
            frame = frame.take(moving, len(moving))
        moving_codes = codes[moving]
        for action in range(self.model.actions.size):
            parts += self._merged(moving_codes, moving, frame, action)
        return join_rows(parts, len(codes), self.model.actions.size, is_whole=self.is_whole)

    def _report_both(self, frame: Frame, codes: IntArray) -> None:
        """Report states that end and restart, at each pair of lines that say so."""
        for end, restart in itertools.product(self.model.ends, self.model.restarts):
            both = self.holds(end, frame, codes, None) & self.holds(restart, frame, codes, None)
            if both.any():
                self.problems.add(
                    "E510",
                    end.span,
                    "the state both ends and restarts",
                    codes[both],
                    help_text="make the guards exclude each other; after an end, the next episode "
                    "starts by itself, without a step",
                    related=restart.span,
                )

    def restarting(self, rows: IntArray) -> Iterator[MergedRows]:
        """Return the branches of states that restart, whatever the action."""
        targets, probabilities = self.initial
        counts = np.full(len(rows), len(targets))
        check_memory(self.model, len(rows) * len(targets) * self.model.actions.size)
        for action in range(self.model.actions.size):
            yield MergedRows(
                action, rows, counts, np.tile(targets, len(rows)), np.tile(probabilities, len(rows))
            )

    def _merged(
        self, codes: IntArray, rows: IntArray, frame: Frame, action: int
    ) -> Iterator[Merged]:
        """Return the branches of one action from states that do not restart."""
        if len(codes) == 0:
            return
        frame = frame.extended(self._action_values[action])
        claimed: BoolArray | None = None
        claims: list[tuple[Rule, BoolArray]] = []
        for rule in self._rules[action]:
            if rule.is_otherwise:
                here = np.ones(len(codes), np.bool_) if claimed is None else ~claimed
            elif rule.guard is None:
                here = np.ones(len(codes), np.bool_)
            else:
                here = self.holds(rule.guard, frame, codes, action)
            if claimed is not None and not rule.is_otherwise and (here & claimed).any():
                self._report_overlap(rule, here, claims, codes, action)
                here = here & ~claimed
            claims.append((rule, here))
            claimed = here if claimed is None else claimed | here
            if here.all():
                moves = list(self.rule_moves(rule, codes, rows, frame, action))
            elif here.any():
                chosen = np.flatnonzero(here)
                part = frame.take(chosen, len(chosen))
                moves = list(self.rule_moves(rule, codes[chosen], rows[chosen], part, action))
            else:
                continue
            merged = merge_rows(action, moves, self.model.states.size)
            if merged is not None:
                yield merged

    def _report_overlap(
        self,
        rule: Rule,
        here: BoolArray,
        claims: list[tuple[Rule, BoolArray]],
        codes: IntArray,
        action: int,
    ) -> None:
        label = self.problems.actions.labels[action]
        for earlier, there in claims:
            if (here & there).any():
                self.problems.add(
                    "E503",
                    rule.span,
                    f"overlapping guards: two lines for `{label}` apply",
                    codes[here & there],
                    action=action,
                    help_text="guards of one action must not overlap; `otherwise` covers the rest",
                    related=earlier.span,
                )

    def rule_moves(
        self, rule: Rule, codes: IntArray, rows: IntArray, frame: Frame, action: int
    ) -> Iterator[Moves]:
        n, k = len(codes), len(self._points)
        if k > 1 or self._points.shape[1]:
            frame = self.at_points(codes, frame)
        if len(rule.branches) == 1 and rule.branches[0].probability is None:
            start = Start(codes, rows, frame, np.full((n, k), 1 / k))
            yield from self.outcomes.moves(self._plan(rule.branches[0]), start, action)
            return
        probabilities = branch_probabilities(rule, codes, frame, action, self.problems)
        for branch, probability in zip(rule.branches, probabilities, strict=True):
            yield from self.branch_moves(branch, probability, codes, rows, frame, action)

    def branch_moves(
        self,
        branch: Branch,
        probability: FloatArray,
        codes: IntArray,
        rows: IntArray,
        frame: Frame,
        action: int,
    ) -> Iterator[Moves]:
        """Return where a branch leads from the rows in which it has a probability."""
        n, k = len(codes), len(self._points)
        weights = np.broadcast_to(probability, (n * k,)).reshape(n, k) / k
        possible = weights.any(axis=1)
        if possible.all():
            start = Start(codes, rows, frame, weights)
        elif possible.any():
            chosen = np.flatnonzero(possible)
            nodes = (chosen[:, None] * k + np.arange(k)).ravel()
            part = frame.take(nodes, len(nodes))
            start = Start(codes[chosen], rows[chosen], part, weights[chosen])
        else:
            return
        yield from self.outcomes.moves(self._plan(branch), start, action)

    def _plan(self, branch: Branch) -> OutcomePlan:
        return self._plans[id(branch)]

    def at_points(self, codes: IntArray, frame: Frame) -> Frame:
        """Return a frame with all points of each state's cell instead of its centre."""
        k = len(self._points)
        size = len(codes) * k
        values = frame.take(np.repeat(np.arange(len(codes)), k), size).values
        moved: dict[tuple[str, str], Array] = {}
        axis = 0
        for position, variable in enumerate(self.model.states.variables):
            if variable.edges is None:
                continue
            cells = self.model.states.cells(codes, position)
            low, high = variable.edges[cells], variable.edges[cells + 1]
            offsets = self._points[:, axis]
            points = low[:, None] + (high - low)[:, None] * offsets
            moved["state", variable.name] = points.ravel()
            axis += 1
        return Frame(size, {**values, **moved})


def any_holds(
    guards: tuple[Term, ...], frame: Frame, codes: IntArray, problems: Problems
) -> BoolArray:
    """Return in which states at least one of some conditions holds; report their faults."""
    holds = np.zeros(len(codes), np.bool_)
    for guard in guards:
        result = evaluate(guard, frame)
        report_faults(problems, result, frame, codes, None)
        holds |= frame.full(result.values).astype(np.bool_, copy=False)
    return holds


def count_points(model: CheckedModel) -> int:
    """Return the number of points at which a cell is evaluated."""
    plan = model.discretization
    n_axes = sum(variable.kind == "real" for variable in model.states.variables)
    if plan.method == "uniform":
        return int(plan.number**n_axes)
    return plan.number if plan.method == "sample" else 1


def cell_points(model: CheckedModel) -> FloatArray:
    """Return the points of a cell as offsets in the unit cube, [k, n_real_variables]."""
    n_axes = sum(variable.kind == "real" for variable in model.states.variables)
    plan: Discretization = model.discretization
    if n_axes == 0 or plan.method == "center":
        return np.full((1, n_axes), 0.5)
    if plan.method == "sample":
        return np.random.default_rng(plan.seed).random((plan.number, n_axes))
    middles = (np.arange(plan.number) + 0.5) / plan.number
    grid = np.meshgrid(*[middles] * n_axes, indexing="ij")
    return np.stack([axis.ravel() for axis in grid], axis=1)


def state_values(
    model: CheckedModel, codes: IntArray, kind: str = "state", product: Product | None = None
) -> dict[tuple[str, str], Array]:
    """Return the values of all variables in some states, as expressions read them.

    The codes are those of the model's own product, or of another one with the same variables.
    """
    product = model.states if product is None else product
    values: dict[tuple[str, str], Array] = {}
    for position, variable in enumerate(product.variables):
        cells = product.cells(codes, position)
        if variable.kind == "enum":
            symbols = np.array([model.symbols[m] for m in variable.members], np.float64)
            values[kind, variable.name] = symbols[cells]
        elif variable.kind == "bool":
            values[kind, variable.name] = cells != 0
        else:
            values[kind, variable.name] = variable.values(cells)
    return values


def action_values(model: CheckedModel) -> list[dict[tuple[str, str], Array]]:
    """Return the values of the factors of each action, as expressions read them."""
    found = []
    for action in range(model.actions.size):
        values: dict[tuple[str, str], Array] = {}
        for position, factor in enumerate(model.actions.variables):
            cell = int(model.actions.cells(np.array([action]), position)[0])
            value = np.asarray(factor.values(np.array([cell]))[0])
            if factor.kind == "enum":
                value = np.asarray(float(model.symbols[factor.members[cell]]))
            values["action", factor.name] = value != 0 if factor.kind == "bool" else value
        found.append(values)
    return found


def rules_of(model: CheckedModel, action: int) -> list[Rule]:
    """Return the lines of an action; if it has none, a line with the equations only."""
    rules = [rule for rule in model.rules if action in rule.actions]
    if rules or action in model.broken_actions:
        return rules
    nothing = Branch(None, {}, model.span)
    return [Rule(frozenset({action}), None, False, (nothing,), model.span, model.span)]
