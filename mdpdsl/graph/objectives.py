"""What may be asked of a model: objectives as plain data, over the states and pairs of one graph.

In PRISM's notation, with `goal` and `allowed` sets of states and rewards of pairs:

    Until(goal)                     P [ F goal ]
    Until(goal, allowed, steps=k)   P [ allowed U<=k goal ]
    Next(goal)                      P [ X goal ]
    Total(reward, goal)             R [ F goal ]
    Cumulative(reward, steps=k)     R [ C<=k ]
    Discounted(reward, gamma)       R [ Cdiscount=gamma ]
    Average(reward)                 R [ S ], also written LRA

An objective does not say whether it is maximised or minimised. `P [ G safe ]` is the complement of
`P [ F !safe ]`, and its maximum comes from the minimum of that.
"""

from __future__ import annotations

from dataclasses import dataclass

from mdpdsl.graph.space import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class Until:
    """The probability of reaching a goal through allowed states, within some steps if given."""

    goal: BoolArray  # [n_states]
    allowed: BoolArray | None = None  # [n_states]  None: all states
    steps: int | None = None


@dataclass(frozen=True, eq=False)
class Next:
    """The probability that the next state is in a goal; an end stays where it is."""

    goal: BoolArray  # [n_states]


@dataclass(frozen=True, eq=False)
class Total:
    """The expected sum of rewards until a goal is reached; infinite where it may not be."""

    reward: FloatArray  # [n_pairs]
    goal: BoolArray  # [n_states]


@dataclass(frozen=True, eq=False)
class Cumulative:
    """The expected sum of the rewards of the next steps."""

    reward: FloatArray  # [n_pairs]
    steps: int


@dataclass(frozen=True, eq=False)
class Discounted:
    """The expected sum of discount^t reward_t."""

    reward: FloatArray  # [n_pairs]
    discount: float


@dataclass(frozen=True, eq=False)
class Average:
    """The long-run average of the rewards."""

    reward: FloatArray  # [n_pairs]


Objective = Until | Next | Total | Cumulative | Discounted | Average
