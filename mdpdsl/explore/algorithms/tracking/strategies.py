"""Tracking: plan the rest of the budget on what is known, follow the plan, plan again.

In stages, see `mdpdsl.explore.algorithms.tracking.stages`:

1. *Cold start*: kappa-Explorer-DP with Bernstein's bonus and a kappa between 1 and 1.5, which goes
   for the least visited pairs and takes unknown ones for the best, until there is enough to plan
   with.
2. *Plans*: the shares d of visits that minimise sum (UCB(c) / (T + m d))^p over the occupancies of
   the estimated model, T being the visits so far and m the steps left (`mdpdsl.programs`). T + m d
   are the targets that the visits of pairs shall come to.
3. Between two plans the action is, of those short of their target, the one with the largest
   UCB(c)/T. States need no steering as long as actions that have their shares bring them along.
4. *Steering*: where they do not, plans promise less and less. Then kappa-Explorer-DP heads for the
   pairs far from their targets, with (target - T) / (target + T) in place of UCB(c)/T.

p = 1 is the average L_Avg, a large p the worst case L_Worst; it is max(1, 1.5 (kappa - 1)) unless
given, more than U_kappa has: chance and caution blunt what is planned.
The first plans, when little is known, have less, the last p; a plan that would spend most of the
budget on one state is made with a smaller p. There is no guarantee.
"""

from __future__ import annotations

from dataclasses import replace

from mdpdsl.explore.algorithms import common_strategy
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.kernels.incentives import KAPPA, TRACKING, Strategy

#: Of kappa - 1, for p.
POWER_FACTOR = 1.5
#: Of the cold start, and where no plan can be made. With a smaller gamma it takes longer to find
#: all states, with a larger kappa it spends too much on pairs that are hard to reach. Before plans
#: with p = 10 or more it is this kappa, for those nearer to the average one nearer to 1.
COLD_KAPPA = 1.5
COLD_POWER = 10.0
COLD_GAMMA = 0.99
#: Of steering. A larger kappa would go for the pair furthest behind alone.
STEERING_KAPPA = 1.0
STEERING_GAMMA = 0.95
#: Of Bernstein's bonus. With 2, pairs whose first visits happen to agree are the worst off.
BETA = 2.5


def strategy(settings: ExploreSettings, n_states: int) -> Strategy:
    """Return the plan of the cold start."""
    share = min(1.0, full_power(settings) / COLD_POWER)
    kappa = 1 + share * (COLD_KAPPA - 1)
    return _kappa_dp(settings, n_states, kappa, COLD_GAMMA)


def full_power(settings: ExploreSettings) -> float:
    """Return the power p that plans have in the end."""
    return settings.power or max(1.0, POWER_FACTOR * (settings.kappa - 1))


def following(settings: ExploreSettings, n_states: int) -> Strategy:
    """Return the plan by which targets are followed, action by action."""
    return common_strategy(_with_bonus(settings), n_states, TRACKING)._replace(horizon=0)


def steering(settings: ExploreSettings, n_states: int) -> Strategy:
    """Return the plan by which pairs far from their targets are headed for."""
    by_values = _kappa_dp(settings, n_states, STEERING_KAPPA, STEERING_GAMMA)
    return by_values._replace(is_steering=True)


def without_targets(settings: ExploreSettings, n_states: int) -> Strategy:
    """Return the plan where there are no targets: kappa-Explorer-DP."""
    return _kappa_dp(settings, n_states, min(settings.kappa, COLD_KAPPA), COLD_GAMMA)


def _kappa_dp(settings: ExploreSettings, n_states: int, kappa: float, gamma: float) -> Strategy:
    settings = replace(_with_bonus(settings), kappa=kappa, gamma=gamma, horizon=None)
    return common_strategy(settings, n_states, KAPPA)


def _with_bonus(settings: ExploreSettings) -> ExploreSettings:
    bonus = settings.bonus or "bernstein"
    return replace(settings, bonus=bonus, beta=BETA if settings.beta is None else settings.beta)
