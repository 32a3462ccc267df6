"""The transition graph: a finite MDP in compressed rows, which everything else reads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mdpdsl.graph.space import ActionSpace, BoolArray, FloatArray, IntArray, StateSpace, Value
from mdpdsl.representation import represented

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from mdpdsl.graph.knowledge import Knowledge

StateArray = npt.NDArray[np.int32]

#: The name of the reward that is declared without a name.
DEFAULT_REWARD = "default"

#: Rows must sum to 1 with at most this error; builders normalise away rounding errors.
ROW_SUM_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class TransitionGraph:
    """A finite MDP in compressed rows: state -> pairs -> successors.

    A *pair* is a state with one of its available actions; pairs are numbered by state, then by
    action. A graph with unknown dynamics has pairs but no branches. An *end* is a state in which an
    episode is over: it has no pairs, and the next episode starts in an initial state.

    Named rewards belong to these pairs and branches: a copy with others (`dataclasses.replace`)
    loses those that do not fit it, and its knowledge if it has other pairs.
    """

    states: StateSpace
    actions: ActionSpace
    pair_start: IntArray  # [n_states + 1]  pairs of s: pair_start[s]:pair_start[s+1]
    pair_action: StateArray  # [n_pairs]       action index, ascending within a state
    successor_start: IntArray  # [n_pairs + 1]   branches of a pair
    successor: StateArray  # [n_branches]    state index, ascending within a pair
    probability: FloatArray  # [n_branches]    positive, sums to 1 within a pair
    initial: FloatArray  # [n_states]      sums to 1
    reward: FloatArray | None = None  # [n_pairs]       expected, None if none is declared
    branch_reward: FloatArray | None = None  # [n_branches]    if it depends on the next state
    labels: Mapping[str, BoolArray] = field(default_factory=dict)  # name -> [n_states]
    ends: BoolArray | None = None  # [n_states]      None if there are none
    rewards: Mapping[str, FloatArray] = field(default_factory=dict)  # name -> [n_pairs], expected
    branch_rewards: Mapping[str, FloatArray] = field(default_factory=dict)  # name -> [n_branches]
    knowledge: Knowledge | None = None  # of its rows, if the model file says what is not known

    def __post_init__(self) -> None:
        """Check the shapes of the arrays; the builder guarantees their contents, see `validate`."""
        assert len(self.pair_start) == self.n_states + 1
        assert self.pair_start[-1] == self.n_pairs
        assert len(self.successor_start) == self.n_pairs + 1
        assert self.successor_start[-1] == len(self.successor) == len(self.probability)
        assert len(self.initial) == self.n_states
        if self.rewards or self.branch_rewards:
            self._drop_rewards_that_do_not_fit()
        if self.knowledge is not None and self.knowledge.n_pairs != self.n_pairs:
            object.__setattr__(self, "knowledge", None)

    @property
    def n_states(self) -> int:
        """The number of states."""
        return self.states.n_states

    @property
    def n_actions(self) -> int:
        """The number of different actions, whether or not they are available everywhere."""
        return self.actions.n_actions

    @property
    def n_pairs(self) -> int:
        """The number of pairs of a state and an action available there."""
        return len(self.pair_action)

    @property
    def n_branches(self) -> int:
        """The total number of successors stored."""
        return len(self.successor)

    @property
    def has_dynamics(self) -> bool:
        """Whether the transitions are known."""
        return self.n_branches > 0

    @property
    def has_truth(self) -> bool:
        """Whether the transitions are known and true, so that they can be simulated."""
        return self.has_dynamics and (self.knowledge is None or self.knowledge.has_truth)

    @property
    def to_learn(self) -> BoolArray:
        """The pairs whose rows are to be estimated: all but those that are known, [n_pairs]."""
        if self.knowledge is None:
            return np.ones(self.n_pairs, np.bool_)
        return ~self.knowledge.is_known

    @cached_property
    def pair_state(self) -> StateArray:
        """The state of every pair, [n_pairs]."""
        return np.repeat(np.arange(self.n_states, dtype=np.int32), np.diff(self.pair_start))

    @cached_property
    def branch_start(self) -> IntArray:
        """The first branch of every state, [n_states + 1]: states to successors, actions merged."""
        return self.successor_start[self.pair_start]

    @cached_property
    def closed(self) -> TransitionGraph:
        """The graph with each end replaced by the start of the next episode (see `ends`)."""
        from mdpdsl.graph.ends import close

        return close(self)

    @cached_property
    def hash(self) -> str:
        """A hash of the content: spaces, dynamics, initial distribution, rewards and labels."""
        digest = hashlib.sha256()
        for variable in (*self.states.variables, *self.actions.product.variables):
            digest.update(repr((variable.name, variable.kind, variable.size)).encode())
            digest.update(repr((variable.low, variable.members, variable.wraps)).encode())
            for numbers in (variable.numbers, variable.edges):
                digest.update(b"-" if numbers is None else numbers.tobytes())
        arrays: list[npt.NDArray[np.generic] | None] = [
            self.states.codes,
            self.pair_start,
            self.pair_action,
            self.successor_start,
            self.successor,
            self.probability,
            self.initial,
            self.reward,
            self.branch_reward,
        ]
        for array in arrays:
            digest.update(b"-" if array is None else np.ascontiguousarray(array).data)
        for name, states in sorted(self.labels.items()):
            digest.update(name.encode() + states.tobytes())
        if self.ends is not None:
            digest.update(b"ends" + self.ends.tobytes())
        for kind, named in (("reward", self.rewards), ("branch reward", self.branch_rewards)):
            for name, numbers in sorted(named.items()):
                digest.update(f"{kind} {name}".encode() + numbers.tobytes())
        if self.knowledge is not None:
            self.knowledge.add_to(digest)
        return digest.hexdigest()[:16]

    def pair(self, state: int, action: int) -> int:
        """Return the index of a pair; raise ValueError if the action is not available."""
        start, end = self.pair_start[state], self.pair_start[state + 1]
        place = int(start + np.searchsorted(self.pair_action[start:end], action))
        if place == end or self.pair_action[place] != action:
            label = self.actions.labels[action]
            raise ValueError(f"{label} is not available in {self.states.native(state)}")
        return place

    def row(self, pair: int) -> tuple[StateArray, FloatArray]:
        """Return the successors of a pair and their probabilities."""
        start, end = self.successor_start[pair], self.successor_start[pair + 1]
        return self.successor[start:end], self.probability[start:end]

    def reward_of(self, name: str | None = None) -> FloatArray | None:
        """Return the expected rewards of the pairs, [n_pairs]; None if there is no such reward.

        Without a name, it is the reward that is declared without one, `default`.
        """
        if name is None or name == DEFAULT_REWARD:
            return self.reward
        return self.rewards.get(name)

    def state(self, **values: Value) -> int:
        """Return the state with these values of its variables."""
        return self.states.index_of(values)

    def transition_matrix(self) -> csr_array:
        """Return P as a sparse matrix [n_pairs, n_states] that shares this graph's arrays."""
        from scipy.sparse import csr_array

        shape = (self.n_pairs, self.n_states)
        return csr_array((self.probability, self.successor, self.successor_start), shape=shape)

    def pair_incidence(self) -> csr_array:
        """Return the sparse matrix [n_states, n_pairs] with a 1 if a pair belongs to a state."""
        from scipy.sparse import csr_array

        indices = np.arange(self.n_pairs)
        shape = (self.n_states, self.n_pairs)
        return csr_array((np.ones(self.n_pairs), indices, self.pair_start), shape=shape)

    def validate(self) -> None:
        """Raise ValueError unless the arrays are a well-formed MDP; for graphs built by hand."""
        self._validate_ends()
        if self.pair_start[0] != 0 or self.successor_start[0] != 0:
            raise ValueError("pair_start and successor_start must begin with 0")
        if self.n_pairs and not 0 <= self.pair_action.min() <= self.pair_action.max() < (
            self.n_actions
        ):
            raise ValueError("a pair has an action that does not exist")
        self._validate_figures()
        if not self.has_dynamics:
            return
        if np.any(np.diff(self.successor_start) < 1):
            raise ValueError("a pair has no successor")
        if self.successor.min() < 0 or self.successor.max() >= self.n_states:
            raise ValueError("a successor is not a state")
        if not np.all(self.probability > 0):
            raise ValueError("every stored probability must be positive")
        sums = np.add.reduceat(self.probability, self.successor_start[:-1])
        if np.any(np.abs(sums - 1) > ROW_SUM_TOLERANCE):
            pair = int(np.argmax(np.abs(sums - 1)))
            raise ValueError(f"the probabilities of pair {pair} sum to {sums[pair]:.9g}, not 1")

    def _drop_rewards_that_do_not_fit(self) -> None:
        def fits(name: str) -> bool:
            branches = self.branch_rewards.get(name)
            fits_branches = branches is None or len(branches) == self.n_branches
            return fits_branches and len(self.rewards[name]) == self.n_pairs

        kept = {name: numbers for name, numbers in self.rewards.items() if fits(name)}
        branches = {name: numbers for name, numbers in self.branch_rewards.items() if name in kept}
        object.__setattr__(self, "rewards", kept)
        object.__setattr__(self, "branch_rewards", branches)

    def _repr_svg_(self) -> str | None:
        return represented("graph_picture", self)

    def _repr_html_(self) -> str | None:
        return represented("graph_html", self)

    def _validate_ends(self) -> None:
        """Raise ValueError unless the ends, and no other states, have no pairs."""
        n_pairs = np.diff(self.pair_start)
        ends = np.zeros(self.n_states, np.bool_) if self.ends is None else self.ends
        if len(ends) != self.n_states or ends.dtype != np.bool_:
            raise ValueError(f"the ends must be an array of {self.n_states} Booleans")
        if np.any((n_pairs < 1) & ~ends):
            state = int(np.argmax((n_pairs < 1) & ~ends))
            raise ValueError(f"state {self.states.native(state)} has no action and is no end")
        if np.any((n_pairs > 0) & ends):
            state = int(np.argmax((n_pairs > 0) & ends))
            raise ValueError(f"state {self.states.native(state)} is an end and has actions")
        if np.any(self.initial[ends] > 0):
            raise ValueError("an episode cannot start in an end")

    def _validate_figures(self) -> None:
        """Raise ValueError unless the data of states, pairs and branches are well formed."""
        codes = self.states.own_codes
        if np.any(np.diff(codes) <= 0) or codes[0] < 0 or codes[-1] >= self.states.product.size:
            raise ValueError("the states are not ascending codes of their product")
        if not abs(self.initial.sum() - 1) <= ROW_SUM_TOLERANCE or np.any(self.initial < 0):
            raise ValueError("the initial distribution does not sum to 1")
        sizes = (("reward", self.n_pairs), ("branch_reward", self.n_branches))
        for name, size in sizes:
            numbers = getattr(self, name)
            if numbers is not None and (len(numbers) != size or not np.isfinite(numbers).all()):
                raise ValueError(f"{name} must be an array of {size} finite numbers")
        if DEFAULT_REWARD in self.rewards:
            raise ValueError(f"the reward `{DEFAULT_REWARD}` must be in the field reward")
        for name, numbers in (*self.rewards.items(), *self.branch_rewards.items()):
            if not np.isfinite(numbers).all():
                raise ValueError(f"the reward {name} must be an array of finite numbers")
        for name, states in self.labels.items():
            if len(states) != self.n_states or states.dtype != np.bool_:
                raise ValueError(f"the label {name} must be an array of {self.n_states} Booleans")
