"""Tracking: plan the rest of the budget on what is known, follow the plan, plan again.

In stages, see `mdpdsl.explore.tracking`:

1. *Cold start*: kappa-Explorer-DP with kappa = 2 and Bernstein's bonus, which goes for the least
   visited pairs and takes unknown ones for the best, until there is enough to plan with.
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

from mdpdsl.explore.algorithms import common_plan
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.kernels.rewards import KAPPA, TRACKING, Plan

#: Of the cold start, and where no plan can be made. Nothing found all pairs sooner.
COLD_KAPPA = 2.0
COLD_GAMMA = 0.95
#: Of steering. A larger one would go for the pair furthest behind alone.
STEERING_KAPPA = 1.0
#: Of Bernstein's bonus. With 2, pairs whose first visits happen to agree are the worst off.
BETA = 2.5


def plan(settings: ExploreSettings, n_states: int) -> Plan:
    """Return the plan of the cold start."""
    return _kappa_dp(settings, n_states, COLD_KAPPA)


def following(settings: ExploreSettings, n_states: int) -> Plan:
    """Return the plan by which targets are followed, action by action."""
    return common_plan(_with_bonus(settings), n_states, TRACKING)._replace(horizon=0)


def steering(settings: ExploreSettings, n_states: int) -> Plan:
    """Return the plan by which pairs far from their targets are headed for."""
    return _kappa_dp(settings, n_states, STEERING_KAPPA)._replace(is_steering=True)


def without_targets(settings: ExploreSettings, n_states: int) -> Plan:
    """Return the plan where there are no targets: kappa-Explorer-DP."""
    return _kappa_dp(settings, n_states, min(settings.kappa, COLD_KAPPA))


def _kappa_dp(settings: ExploreSettings, n_states: int, kappa: float) -> Plan:
    settings = replace(_with_bonus(settings), kappa=kappa, gamma=COLD_GAMMA, horizon=None)
    return common_plan(settings, n_states, KAPPA)


def _with_bonus(settings: ExploreSettings) -> ExploreSettings:
    # Bounds that are pooled are made for plans; between them those of single pairs serve.
    bonus = "bernstein" if settings.bonus in (None, "pooled") else settings.bonus
    return replace(settings, bonus=bonus, beta=BETA if settings.beta is None else settings.beta)
