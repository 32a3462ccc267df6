"""From checked model to transition graph: find the states and their transitions.

A frontier search finds the states; for small models it is quick. If it takes too long and the
product of all variables is not too large, the whole product is expanded and restricted to its
reachable states. Otherwise the search continues, up to a limit. The result is the same either way.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from queue import SimpleQueue

import numpy as np

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.compile.initial import initial_distribution, no_start
from mdpdsl.compile.known_rows import KnowledgeBuffer, with_truth_of_known_rows
from mdpdsl.compile.laws import at
from mdpdsl.compile.limits import (
    MOST_NODES,
    MOST_STATES,
    TooLargeError,
    check_memory,
    too_many_states,
)
from mdpdsl.compile.merge import Transitions
from mdpdsl.compile.number_faults import at_values, with_assumed_values
from mdpdsl.compile.open_branches import without_truths
from mdpdsl.compile.problems import Problems
from mdpdsl.compile.property_states import property_faults
from mdpdsl.compile.quadrature import n_quadrature_nodes, rough_strata
from mdpdsl.compile.rewards import marked_states, reward_fields, reward_kernels, rewards_in_ends
from mdpdsl.compile.row_batches import RowBuffer
from mdpdsl.compile.search import search_states
from mdpdsl.compile.spreads import corners
from mdpdsl.compile.transitions import TransitionKernel, count_points
from mdpdsl.diagnostics import Diagnostic
from mdpdsl.graph.analysis import reachable_states
from mdpdsl.graph.knowledge import with_possible_rows
from mdpdsl.graph.restrict import restrict
from mdpdsl.graph.space import ActionSpace, BoolArray, FloatArray, IntArray, StateSpace
from mdpdsl.graph.transition_graph import TransitionGraph

#: Points evaluated in one batch.
BATCH = 1 << 15
#: How many states are computed twice to estimate the integration error.
N_PROBES = 8
#: At how many corners of the ranges of unknown numbers rows are checked, in models of few states.
MOST_CORNERS, FEW_STATES = 8, 20_000
#: With fewer batches, a second thread is not worth it; and how many batches are computed ahead.
LEAST_BATCHES_FOR_THREADS = 6
N_AHEAD = 3

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Integration:
    """How cells and noise were integrated, and the estimated error.

    `error` is in total variation of a row, estimated by integrating some rows with a finer rule.
    """

    cells: str
    points: int
    noise: str
    error: float


@dataclass(frozen=True, eq=False)
class Expansion:
    """A graph, or the reasons why it could not be built."""

    graph: TransitionGraph | None
    integration: Integration | None
    diagnostics: tuple[Diagnostic, ...]
    seconds: float


def expand(
    model: CheckedModel,
    *,
    keeps_all_states: bool = False,
    most_states: int | None = None,
    progress: Progress | None = None,
    learns_all: bool = False,
) -> Expansion:
    """Build the transition graph of a model; call `progress` with the states done and in total.

    If the model says what is not known, the graph has that knowledge. Then `learns_all` says that
    rows that are written out are to be learned as well.
    """
    begin = time.perf_counter()
    graph = integration = None
    try:
        expander = _Expander(model, most_states, progress, learns_all)
        graph = expander.graph(keeps_all_states)
        diagnostics = expander.diagnostics
        if any(d.is_error for d in diagnostics):
            graph = None
        elif graph is not None:
            integration = expander.integration(graph)
    except TooLargeError as error:
        diagnostics = [error.diagnostic]
    return Expansion(graph, integration, tuple(diagnostics), time.perf_counter() - begin)


class _Expander:
    def __init__(
        self,
        model: CheckedModel,
        most_states: int | None,
        progress: Progress | None,
        learns_all: bool,
    ) -> None:
        if model.states.size > 2**62:
            raise too_many_states(model, most_states or MOST_STATES)
        self.model = model
        self.most_states = most_states
        self.progress = progress
        self.learns_all = learns_all
        self.actions = ActionSpace(model.actions)
        single = tuple(rule.span for rule in model.rules if len(rule.actions) == 1)
        self.problems = Problems(model.states, self.actions, single)
        n_points = count_points(model)
        if n_points > MOST_NODES:
            help_text = f"use at most {MOST_NODES:,} points: fewer per axis, or `sample N`"
            raise TooLargeError(model, f"{n_points:,} points per cell", help_text)
        self.initial = initial_distribution(model, self.problems, most_states)
        self.kernel = TransitionKernel(model, self.problems, self.initial)
        if self.kernel.n_nodes > MOST_NODES:
            size = f"{self.kernel.n_nodes:,} points and noise values per state and action"
            raise TooLargeError(model, size, "use fewer points per cell, or fewer noise values")
        self.batch = max(1, BATCH // max(self._row_size(), model.actions.size // 8))
        self.knowledge = (
            KnowledgeBuffer(model, self.problems, self.initial) if model.states_knowledge else None
        )
        self.diagnostics: list[Diagnostic] = []

    def graph(self, keeps_all_states: bool) -> TransitionGraph | None:
        """Build the graph and collect the errors in its states."""
        model = self.model
        if len(self.initial[0]) == 0:
            self.diagnostics = [no_start(model)]
            return None
        keeps_all = keeps_all_states or model.keeps_all_states or not model.has_dynamics
        possible = self.kernel if self.knowledge is None else self.knowledge.possible
        codes = (
            None
            if keeps_all
            else search_states(possible, self.initial[0], self.batch, self.most_states)
        )
        limit = self.most_states or MOST_STATES
        if codes is None:
            if model.states.size > limit:
                raise too_many_states(model, limit)
            codes = np.arange(model.states.size)
        self.problems = self.kernel.renew_problems()
        if self.knowledge is not None:
            self.knowledge.possible.renew_open_problems()
        graph = self._assemble(codes)
        if self.knowledge is not None:
            self.problems.adopt(self.knowledge.problems)
        if not keeps_all and model.has_dynamics and len(codes) == model.states.size:
            is_reached = graph.initial > 0
            if graph.has_dynamics:
                is_reached = reachable_states(with_possible_rows(graph))
            graph = restrict(graph, is_reached)
        if graph.knowledge is not None and not self.learns_all:
            knowledge = with_truth_of_known_rows(model, graph.knowledge)
            graph = replace(graph, knowledge=knowledge)
        self._report_stuck(graph)
        self.diagnostics = self.problems.diagnostics(lambda found: graph.states.indices(found) >= 0)
        if model.unknowns and not any(d.is_error for d in self.diagnostics):
            self.diagnostics += self._faults_in_ranges(graph)
        elif model.unknowns:
            self.diagnostics = with_assumed_values(model, self.diagnostics)
        if model.properties:
            self.diagnostics += property_faults(model, graph)
        if graph.ends is not None:
            self.diagnostics += rewards_in_ends(model, graph.states, graph.ends)
        return graph

    def _faults_in_ranges(self, graph: TransitionGraph) -> list[Diagnostic]:
        """Return what is wrong with the rows at the ends of the ranges of the unknown numbers."""
        # The truths of `?` belong to the true numbers, and need not sum to 1 with others.
        model = replace(self.model, rules=without_truths(self.model.rules))
        n_corners = MOST_CORNERS if graph.n_states <= FEW_STATES else 2
        for values in corners(self.model.unknowns, n_corners):
            problems = self.problems.another()
            kernel = TransitionKernel(at(model, values), problems, self.initial)
            codes = graph.states.codes
            for begin in range(0, len(codes), self.batch):
                kernel.transitions(codes[begin : begin + self.batch])
            found = problems.diagnostics(lambda states: graph.states.indices(states) >= 0)
            if found:
                return [at_values(d, values) for d in found]
        return []

    def _row_size(self) -> int:
        """Estimate how many numbers expanding a state takes, by trying a few states."""
        size = self.kernel.n_nodes
        strata = [n_quadrature_nodes(plan, self.kernel.n_points) for plan in self.kernel.plans]
        size = max(size, size * max(strata, default=1) // 16)
        if any(plan.method not in ("none", "exact") for plan in self.kernel.plans):
            codes = np.unique(np.append(self.initial[0][:1], self.model.states.size // 2))
            found = self.kernel.transitions(codes)
            size = max(size, len(found.targets) // (8 * len(codes)))
        return size

    def integration(self, graph: TransitionGraph) -> Integration | None:
        """Describe the integration, with its error estimated by a finer rule on a few states."""
        is_finite = self.model.discretization.method == "none" and not self.model.noises
        if is_finite or not graph.has_dynamics:
            return None
        order = ["none", "exact", "cdf", "quadrature", "sampling"]
        methods = {plan.method for plan in self.kernel.plans}
        method = max(methods, key=order.index, default="none")
        error = 0.0
        if method in ("quadrature", "sampling"):
            step = max(1, graph.n_states // N_PROBES)
            codes = graph.states.codes[::step][:N_PROBES]
            # The error of a first-order rule is twice the change from halving the step.
            error = 2 * self._refinement_change(codes)
            if any(plan.is_rough for plan in self.kernel.plans):
                error = max(error, 1 / rough_strata(self.kernel.n_points))
        elif method == "cdf":
            error = float(np.finfo(np.float64).eps)
        discretization = self.model.discretization
        return Integration(discretization.method, self.kernel.n_points, method, error)

    def _refinement_change(self, codes: IntArray) -> float:
        found = []
        for refinement in (1, 2):
            self.kernel.outcomes.refinement = refinement
            found.append(_dense(self.kernel.transitions(codes)))
        self.kernel.outcomes.refinement = 1
        coarse, fine = found
        change: dict[tuple[int, int], float] = {}
        for key in coarse.keys() | fine.keys():
            distance = abs(coarse.get(key, 0.0) - fine.get(key, 0.0)) / 2
            change[key[:2]] = change.get(key[:2], 0.0) + distance
        return max(change.values(), default=0.0)

    # Assembly

    def _assemble(self, codes: IntArray) -> TransitionGraph:
        model = self.model
        states = StateSpace(model.states, codes)
        initial = np.zeros(len(codes))
        initial[states.indices(self.initial[0])] = self.initial[1]
        labels, ends = marked_states(model, self.problems, codes, BATCH)
        if not model.has_dynamics:
            return self._unknown(states, initial, labels, ends)
        _keep_freed_memory()
        rows = RowBuffer(model, self.problems)
        done = 0
        for batch, found in self._batches(codes):
            rows.add(batch, found, states)
            if self.knowledge is not None:
                self.knowledge.add(batch, states)
            is_first, done = done == 0, done + len(batch)
            check_memory(model, rows.successors.size * (len(codes) / done - 1))
            if is_first:
                rows.reserve(done, len(codes))
            if self.progress is not None:
                self.progress(done, len(codes))
        return TransitionGraph(
            states=states,
            actions=self.actions,
            pair_start=rows.pair_starts.array(),
            pair_action=rows.pair_actions.array(),
            successor_start=rows.successor_starts.array(),
            successor=rows.successors.array(),
            probability=rows.probabilities.array(),
            initial=initial,
            labels=labels,
            ends=ends,
            knowledge=None
            if self.knowledge is None
            else self.knowledge.knowledge(not model.missing, learns_all=self.learns_all),
            **rows.rewards(),
        )

    def _batches(self, codes: IntArray) -> Iterator[tuple[IntArray, Transitions]]:
        """Return the transitions of all states, batch by batch, in order.

        NumPy releases the interpreter lock while it computes, so two threads compute batches ahead
        of the consumer, each with its own kernel.
        """
        batches = [codes[i : i + self.batch] for i in range(0, len(codes), self.batch)]
        if len(batches) < LEAST_BATCHES_FOR_THREADS:
            for batch in batches:
                yield batch, self.kernel.transitions(batch)
            return
        kernels: SimpleQueue[TransitionKernel] = SimpleQueue()
        for problems in (self.problems, self.problems.another()):
            kernels.put(TransitionKernel(self.model, problems, self.initial))

        def compute(batch: IntArray) -> Transitions:
            kernel = kernels.get()
            try:
                return kernel.transitions(batch)
            finally:
                kernels.put(kernel)

        with ThreadPoolExecutor(kernels.qsize()) as pool:
            ahead: deque[Future[Transitions]] = deque()
            for i, batch in enumerate(batches):
                while len(ahead) < N_AHEAD and i + len(ahead) < len(batches):
                    ahead.append(pool.submit(compute, batches[i + len(ahead)]))
                yield batch, ahead.popleft().result()
        while not kernels.empty():
            self.problems.adopt(kernels.get().problems)

    def _unknown(
        self,
        states: StateSpace,
        initial: FloatArray,
        labels: dict[str, BoolArray],
        ends: BoolArray | None,
    ) -> TransitionGraph:
        """Return the graph of a model without dynamics: every action, except in ends."""
        n_states, n_actions = states.n_states, self.actions.n_actions
        acting = np.arange(n_states) if ends is None else np.flatnonzero(~ends)
        n_pairs = len(acting) * n_actions
        check_memory(self.model, n_pairs)
        pair_actions = np.tile(np.arange(n_actions), len(acting))
        starts = np.zeros(n_pairs + 1, np.int64)
        rows = np.repeat(acting, n_actions)
        pairs = Transitions(rows, pair_actions, starts, np.zeros(0, np.int64), np.zeros(0))
        rewards = {
            name: kernel.pair_rewards(states.codes, pairs)
            for name, kernel in reward_kernels(self.model, self.problems).items()
            if not kernel.depends_on_next
        }
        return TransitionGraph(
            states=states,
            actions=self.actions,
            pair_start=np.searchsorted(rows, np.arange(n_states + 1)),
            pair_action=pair_actions.astype(np.int32),
            successor_start=starts,
            successor=np.zeros(0, np.int32),
            probability=np.zeros(0),
            initial=initial,
            labels=labels,
            ends=ends,
            **reward_fields(rewards, {}),
        )

    def _report_stuck(self, graph: TransitionGraph) -> None:
        if self.model.broken_actions:
            return
        is_stuck = np.diff(graph.pair_start) == 0
        if graph.ends is not None:
            is_stuck &= ~graph.ends
        stuck = graph.states.codes[is_stuck]
        stuck = np.setdiff1d(stuck, self.problems.codes(), assume_unique=True)
        if len(stuck):
            self.problems.add(
                "E504",
                self.model.span,
                "no action is available",
                stuck,
                help_text="add an `on` line that applies there, `end when …` or `restart when …`",
            )


def _keep_freed_memory() -> None:
    """Make glibc's allocator reuse the memory of batches instead of returning it every time.

    The allocator adapts its threshold to the largest block freed so far, up to 32 MB. Without this,
    a large expansion spends half its time on page faults.
    """
    np.empty(31 << 20, np.uint8)


def _dense(found: Transitions) -> dict[tuple[int, int, int], float]:
    """Return the probability of each branch by row, action and target."""
    pair = np.repeat(np.arange(len(found.pair_rows)), np.diff(found.starts))
    rows, actions = found.pair_rows[pair].tolist(), found.pair_actions[pair].tolist()
    keys = zip(rows, actions, found.targets.tolist(), strict=True)
    return dict(zip(keys, found.probabilities.tolist(), strict=True))
