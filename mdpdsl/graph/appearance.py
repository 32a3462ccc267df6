"""The look of graphs in all pictures: colours of actions, and how many states to draw."""

from __future__ import annotations

import numpy as np

from mdpdsl.graph.transition_graph import TransitionGraph

#: With more states than this, a picture shows communicating classes instead.
MOST_STATES = 200
# Okabe and Ito (2008): distinguishable for colour-blind readers, too.
NAMED = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A5C00", "#444444")
MOST_COLOURS = 9


def action_colours(graph: TransitionGraph) -> list[str]:
    """Return a colour per action: a scale if actions are numbers, else as distinct as possible."""
    n_actions = graph.n_actions
    variables = graph.actions.product.variables
    is_scale = len(variables) == 1 and variables[0].kind in ("int", "set", "real")
    if n_actions <= len(NAMED) and not (is_scale and n_actions > 3):
        return list(NAMED[:n_actions])
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    name, low, high = ("plasma", 0.02, 0.82) if is_scale else ("turbo", 0.05, 0.92)
    return [to_hex(colormaps[name](x)) for x in np.linspace(low, high, n_actions)]


def shorten(text: str, length: int) -> str:
    """Shorten a text to at most `length` characters."""
    return text if len(text) <= length else text[: length - 1] + "…"
