"""Exploring in episodes: ask an oracle, follow its policy, ask again (paper, FW-general).

Episode m takes tau_m = tau_1 m^2 steps, so it begins after tau_1 (m-1) m (2m-1) / 6 steps (paper,
theorem general_regret_bound). The confidence sets, the weights and the oracle's answer at its start
are functions of the counts alone, so a run that was stopped and resumed is the same run.

Where the model file says something of a row, P = share + w, all but the weights stays where it is:
the radius of the confidence set is at most twice what the shares leave, 0 for a known row. Known
pairs have weight 0. In a state whose rows are all known and which psi does not visit, except for
the floor 2 eta, there is nothing to try: the policy takes the nearest way to where psi goes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from mdpdsl.diagnostics import SettingsError
from mdpdsl.estimate.balls import confidence_balls
from mdpdsl.estimate.confidence import complexity_upper_bound, l1_radius
from mdpdsl.estimate.empirical import estimated_complexity
from mdpdsl.estimate.metrics import utility
from mdpdsl.explore.algorithms import ALGORITHMS
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.ways import passing_by
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.kernels.following import complexity_bounds, follow
from mdpdsl.kernels.incentives import Strategy
from mdpdsl.kernels.known_slots import estimated_rows
from mdpdsl.kernels.memory import TIME, Memory, start_shares
from mdpdsl.programs.direction import Direction, ProgramError
from mdpdsl.programs.interior import Interior, chosen_eta
from mdpdsl.programs.oracle import Oracle, load_oracle
from mdpdsl.programs.program import BackendError
from mdpdsl.programs.uncertain import WHOLE_SIMPLEX, UncertainModel, names_of

#: A share of visits within this factor of the floor is one that psi does not ask for.
FLOOR = 1.01
#: Smaller shares are rounding errors.
NOTHING = 1e-12

#: Returns log w of every pair, from upper bounds of c, T+ and the steps done.
LogWeights = Callable[[FloatArray, FloatArray, int, ExploreSettings], FloatArray]


@dataclass(frozen=True)
class Episode:
    """The record of an episode, made when it began."""

    episode: int  # m
    step: int  # steps done before it, t_m - 1
    steps: int  # tau_m, or the rest of it if a run began with visits
    unvisited: int
    utility: float | None  # U_kappa(d_hat) with the true c, if known and finite
    utility_bound: float | None  # U_kappa(d_hat) with the upper bounds of c
    value: float  # <w, psi>, with the largest weight scaled to 1
    eta: float
    least_share: float | None  # t* of the confidence sets, or a lower bound
    status: str
    seconds: float  # of the oracle
    note: str | None  # says if eta was clipped


class Episodes:
    """The episodes of one run."""

    def __init__(
        self,
        settings: ExploreSettings,
        spaces: TransitionGraph,
        oracle: Oracle,
        log_weights: LogWeights,
    ) -> None:
        self.settings = settings
        self.spaces = spaces
        self.oracle = oracle
        self.log_weights = log_weights
        self.records: list[Episode] = []
        self.steps_before = 0  # in the counts that the run began with

    @property
    def next_start(self) -> int:
        """The number of steps before the next episode."""
        if not self.records:
            return 0
        return start_of(self.records[-1].episode + 1, self.settings.first_episode)

    def begin(
        self, memory: Memory, strategy: Strategy, count: Callable[[], Counts], c: FloatArray | None
    ) -> Strategy:
        """Ask the oracle for the policy of the next episode; return the strategy, unchanged."""
        settings, visits = self.settings, memory.visits
        done = int(memory.integers[TIME])
        m = episode_at(done, settings.first_episode)
        counts = count()
        upper = self._upper_bounds(memory, strategy, counts, done + 1)
        model = self._confidence_sets(memory, counts, done + 1)
        T_plus = np.maximum(visits, settings.epsilon)
        weights = from_logs(self.log_weights(upper, T_plus, done, settings))
        try:
            interior, eta, note = self._eta(model)
            answer = self.oracle.answer(model, weights, eta, interior)
            direction = answer.direction
        except (ProgramError, BackendError) as error:
            raise ProgramError(f"episode {m}, after {done:,} steps: {error}") from None
        follow(memory, self._policy(model, direction, eta, interior))
        memory.upper[:] = upper
        d_hat = T_plus / max(1, done)
        assert answer.value is not None
        self.records.append(
            Episode(
                episode=m,
                step=done,
                steps=start_of(m + 1, settings.first_episode) - done,
                unvisited=int(np.count_nonzero((visits == 0) & (memory.rest > 0))),
                utility=None if c is None or done == 0 else utility(d_hat, c, settings.kappa),
                utility_bound=None if done == 0 else utility(d_hat, upper, settings.kappa),
                value=answer.value,
                eta=eta,
                least_share=None if interior is None else interior.least,
                status=str(answer.status),
                seconds=answer.seconds,
                note=note,
            )
        )
        return strategy

    def rehearse(self, memory: Memory, strategy: Strategy) -> None:
        """Do nothing: the first episode has compiled all that is needed."""

    def saved(self) -> list[dict[str, Any]]:
        """Return the records as plain data."""
        return [asdict(record) for record in self.records]

    def restore(self, records: Sequence[Mapping[str, Any]], strategy: Strategy) -> Strategy:
        """Continue after saved episodes; return the strategy to continue with."""
        self.records = [Episode(**record) for record in records]
        return strategy

    def _confidence_sets(self, memory: Memory, counts: Counts, t: int) -> UncertainModel:
        spaces, settings = self.spaces, self.settings
        radius = l1_radius(memory.visits, spaces.n_states, t, settings.delta, settings.radius)
        starts = start_shares(memory, spaces)
        if spaces.knowledge is None:
            return confidence_balls(counts, spaces, radius, starts)
        successor_start, successor, probability = estimated_rows(memory)
        return UncertainModel(
            pair_start=spaces.pair_start,
            successor_start=successor_start,
            successor=successor,
            probability=probability,
            radius=np.minimum(radius, WHOLE_SIMPLEX * memory.rest),
            label=lambda: names_of(spaces),
            starts=starts,
        )

    def _policy(
        self, model: UncertainModel, direction: Direction, eta: float, interior: Interior | None
    ) -> FloatArray:
        """Return the policy of a direction; see the module's docstring for states to pass by."""
        if self.spaces.knowledge is None:
            return direction.policy
        floor = np.zeros(model.n_pairs)
        if interior is not None and interior.least > 0:
            floor = 2 * eta / interior.least * interior.occupancy
        entries = (model.probability, model.successor, model.successor_start)
        P = csr_array(entries, shape=(model.n_pairs, model.n_states))
        return passing_by(
            direction.policy,
            model.closed_rows(P),
            np.unique(model.pair_start),  # of the states that are no ends
            direction.occupancy > FLOOR * floor + NOTHING,
            model.radius == 0,
        )

    def _upper_bounds(
        self, memory: Memory, strategy: Strategy, counts: Counts, t: int
    ) -> FloatArray:
        if self.settings.bonus in (None, "paper"):
            c_hat, S = estimated_complexity(counts), self.spaces.n_states
            upper = complexity_upper_bound(c_hat, memory.visits, S, t, self.settings.delta)
            return np.where(memory.rest > 0, upper, 0.0)
        bounds: FloatArray = complexity_bounds(memory, strategy)
        return bounds

    def _eta(self, model: UncertainModel) -> tuple[Interior | None, float, str | None]:
        """Return the interior point, the eta to use, and a note if it was clipped."""
        requested = self.settings.eta
        if requested == 0:
            return None, 0.0, None
        interior = self.oracle.interior(model)
        eta, note = chosen_eta(requested, interior, is_strict=self.settings.strict)
        return interior, eta, note


def episodes_for(settings: ExploreSettings, spaces: TransitionGraph) -> Episodes:
    """Return the episodes of an algorithm that plans in episodes."""
    module = import_module(f"mdpdsl.explore.algorithms.{ALGORITHMS[settings.algorithm]}")
    log_weights: LogWeights = module.log_weights
    return Episodes(settings, spaces, oracle_of(settings), log_weights)


def oracle_of(settings: ExploreSettings) -> Oracle:
    """Return the oracle that the settings name; raise SettingsError if there is none."""
    try:
        return load_oracle(settings.backend, settings.formulation, settings.oracle_seconds)
    except BackendError as error:
        raise SettingsError(str(error)) from None


def start_of(episode: int, first_episode: int) -> int:
    """Return the number of steps before an episode, t_m - 1 (paper, the regret theorem)."""
    return first_episode * (episode - 1) * episode * (2 * episode - 1) // 6


def episode_at(step: int, first_episode: int) -> int:
    """Return the episode of the step after `step` steps; a run may begin with visits."""
    m = max(1, int((3 * step / first_episode) ** (1 / 3)) - 1)
    while start_of(m + 1, first_episode) <= step:
        m += 1
    return m


def from_logs(log_weights: FloatArray) -> FloatArray:
    """Return weights scaled to a largest of 1; all are 1 if nothing is left to learn."""
    largest = log_weights.max()
    if largest == -np.inf:
        return np.ones(len(log_weights))
    weights: FloatArray = np.exp(log_weights - largest)
    return weights
