"""The rule of tracking: plan the rest of the budget, follow the plan, plan again.

In stages (`stages`):

1. *Cold start*: kappa-Explorer-DP with Bernstein's bonus and a kappa between 1 and 1.5, which heads
   for the least visited pairs and treats unknown ones as the best, until there is enough to plan
   with.
2. *Plans*: the shares d of visits that minimise sum (UCB(c) / (T + m d))^p over the occupancies of
   the estimated model, T being the visits so far and m the steps left (`planned_loss`). T + m d are
   the targets for the visits of pairs.
3. *Following*: between two plans the action is, of those short of their target, the one with the
   largest UCB(c)/T (`followed_pair`). States need no steering as long as the actions, taken in
   their shares, lead to them often enough. A pair whose row is known is only passed through: it
   keeps its share of the planned visits of its state.
4. *Steering*: if they do not, plans promise less and less. Then kappa-Explorer-DP heads for the
   pairs far from their targets, with (target - T) / (target + T) in place of UCB(c)/T
   (`steering_rewards`).

p = 1 is the average L_Avg, a large p the worst case L_Worst. By default it is
max(1, 1.5 (kappa - 1)), more than U_kappa has, because chance and caution blunt what is planned.
The first plans, when little is known, have a smaller p. A plan that would spend most of the budget
on one state is made with a smaller p, too. There is no guarantee.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mdpdsl.explore.algorithms import common_strategy
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.graph.space import FloatArray, IntArray
from mdpdsl.kernels.incentives import KAPPA, LEAST_SHORTFALL, TRACKING, Strategy

#: Of kappa - 1, for p.
POWER_FACTOR = 1.5
#: Of the cold start, and of stages without a plan. With a smaller gamma it takes longer to find all
#: states, with a larger kappa it spends too much on pairs that are hard to reach. This kappa is for
#: plans with p = 10 or more; the smaller p is, the nearer kappa is to 1.
COLD_KAPPA = 1.5
COLD_POWER = 10.0
COLD_GAMMA = 0.99
#: Of steering. A larger kappa would head only for the pair furthest behind.
STEERING_KAPPA = 1.0
STEERING_GAMMA = 0.95
#: Of Bernstein's bonus. With 2, pairs whose first visits happen to agree get too few visits.
BETA = 2.5
#: A pair is short of its target if at least so much of a visit is missing.
SHORT = 0.5


def planned_loss(d: FloatArray, c: FloatArray, visits: FloatArray, left: int, p: float) -> float:
    """Return what a plan minimises: sum (c / (T + m d))^p, to the power 1/p."""
    losses = c[c > 0] / (visits + left * d)[c > 0]
    return float(losses.max() * np.sum((losses / losses.max()) ** p) ** (1 / p))


def followed_pair(pairs: IntArray, weight: FloatArray, target: FloatArray, visits: IntArray) -> int:
    """Return the pair of a state that follows a plan; `weight` is log UCB(c) - log T+.

    Of the pairs short of their target it is the one with the largest weight: as the state may be
    reached less often than planned, the pairs that matter most come first. If none is short, it is
    the one least beyond its target.
    """
    missing = (target - visits)[pairs]
    short = pairs[missing >= SHORT]
    if len(short):
        return int(short[np.argmax(weight[short])])
    return int(pairs[np.argmax(missing)])


def steering_rewards(
    upper: FloatArray, visits: IntArray, target: FloatArray, settings: ExploreSettings
) -> FloatArray:
    """Return r = x^kappa, x = (target - T) / (target + T); x = UCB(c)/T+ for a pair never visited.

    A pair that has reached its target is worth next to nothing, and the less the more visits it
    has. The largest reward is scaled to 1.
    """
    T = np.maximum(visits, 1)
    shortfall = np.maximum((target - T) / (target + T), LEAST_SHORTFALL / T)
    x = np.where(visits > 0, shortfall, upper / settings.epsilon)
    scaled: FloatArray = (x / x.max()) ** STEERING_KAPPA
    return scaled


def strategy(settings: ExploreSettings, n_states: int) -> Strategy:
    """Return the strategy of the cold start."""
    share = min(1.0, full_power(settings) / COLD_POWER)
    kappa = 1 + share * (COLD_KAPPA - 1)
    return _kappa_dp(settings, n_states, kappa, COLD_GAMMA)


def full_power(settings: ExploreSettings) -> float:
    """Return the power p of the last plans."""
    return settings.power or max(1.0, POWER_FACTOR * (settings.kappa - 1))


def following(settings: ExploreSettings, n_states: int) -> Strategy:
    """Return the strategy that follows targets, action by action."""
    return common_strategy(_with_bonus(settings), n_states, TRACKING)._replace(horizon=0)


def steering(settings: ExploreSettings, n_states: int) -> Strategy:
    """Return the strategy that heads for pairs far from their targets."""
    by_values = _kappa_dp(settings, n_states, STEERING_KAPPA, STEERING_GAMMA)
    return by_values._replace(is_steering=True)


def without_targets(settings: ExploreSettings, n_states: int) -> Strategy:
    """Return the strategy of stages without a plan: kappa-Explorer-DP."""
    return _kappa_dp(settings, n_states, min(settings.kappa, COLD_KAPPA), COLD_GAMMA)


def _kappa_dp(settings: ExploreSettings, n_states: int, kappa: float, gamma: float) -> Strategy:
    settings = replace(_with_bonus(settings), kappa=kappa, gamma=gamma, horizon=None)
    return common_strategy(settings, n_states, KAPPA)


def _with_bonus(settings: ExploreSettings) -> ExploreSettings:
    bonus = settings.bonus or "bernstein"
    return replace(settings, bonus=bonus, beta=BETA if settings.beta is None else settings.beta)
