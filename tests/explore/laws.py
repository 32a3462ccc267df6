"""Models with unknown numbers that random actions show badly, for tests of experiment design."""

from __future__ import annotations

import mdpdsl
from mdpdsl.compile.model import Model

#: Swimming succeeds with one probability, and with another at the end, which is rarely reached.
RIVER = """
mdp river
unknown swim in [0.05, 0.95] = 0.35
unknown last in [0.05, 0.95] = 0.6
state x in 0..7
action left, right
init x = 0
on left -> x' = max(x - 1, 0)
on right when x == 0 -> swim: x' = 1 | 1 - swim: stay
on right when x > 0 and x < 7 -> 0.9*swim: x' = x + 1 | 0.9*(1 - swim): stay | 0.1: x' = x - 1
on right when x == 7 -> last: stay | 1 - last: x' = 6
"""

#: A corridor with certain moves and a coin at either end.
COINS = """
mdp coins
unknown west in [0, 1] = 0.2
unknown east in [0, 1] = 0.6
state x in 0..29
action left, right, toss
init x = 0
on left -> x' = max(x - 1, 0)
on right -> x' = min(x + 1, 29)
on toss when x == 0 -> west: x' = 1 | 1 - west: stay
on toss when x == 29 -> east: x' = 28 | 1 - east: stay
"""

#: The same with a coin everywhere, which says little of `drift`: the best design walks about.
LABORATORY = """
mdp laboratory
unknown first in [0, 1] = 0.3
unknown second in [0, 0.5] = 0.1
unknown drift in [-1, 1] = 0.2
state x in 0..11
action left, right, toss
init x = 0
on left -> x' = max(x - 1, 0)
on right -> x' = min(x + 1, 11)
on toss when x == 0 -> first: x' = 1 | 1 - first: stay
on toss when x > 0 and x < 11 -> 0.5 + 0.1*drift: stay | 0.5 - 0.1*drift: x' = x - 1
on toss when x == 11 -> second: x' = 10 | 1 - second: stay
"""

#: Who slips falls, and the next episode begins.
LEDGE = """
mdp ledge
unknown slip in [0.01, 0.6] = 0.3
unknown grip in [0, 1] = 0.7
state x in 0..10
action careful, hasty, hang
init x = 0
end when x == 10
on careful when x < 9 -> 0.5: stay | 0.5: x' = x + 1
on careful when x == 9 -> stay
on hasty when x < 9 -> 1 - slip: x' = x + 1 | slip: x' = 10
on hasty when x == 9 -> 1 - slip: stay | slip: x' = 10
on hang when x == 8 or x == 9 -> grip: stay | 1 - grip: x' = 10
"""

#: A number, and a door of which only the two outcomes are known.
DOOR = """
mdp door
unknown slip in [0, 0.5] = 0.1
state x in 0..5
action left, right, knock
init x = 0
on left -> x' = max(x - 1, 0)
on right when x < 5 -> 1 - slip: x' = x + 1 | slip: stay
on knock when x == 0 -> ?=0.3: x' = 5 | ?=0.7: stay
"""


def law_model(text: str) -> Model:
    """Return a model, with the true values of its unknown numbers."""
    return mdpdsl.loads(text)
