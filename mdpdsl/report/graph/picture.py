"""A model as a picture: its states and branches, or above 200 states its communicating classes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mdpdsl.graph.appearance import MOST_STATES
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.report.graph.classes import draw_classes
from mdpdsl.report.graph.network import draw_network
from mdpdsl.report.graph.plane import draw_plane, is_plane

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PNG_DOTS_PER_INCH = 150
FORMATS = (".svg", ".png", ".pdf")


def draw_graph(graph: TransitionGraph, path: str | Path, title: str = "") -> None:
    """Draw a graph into an `.svg`, `.png` or `.pdf` file; the same graph gives the same file."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"a picture ends in {', '.join(FORMATS)}; got {path.name!r}")
    figure = graph_figure(graph, title)
    # Without these, the file would hold the time of day and random names.
    undated = {".svg": {"Date": None, "Creator": None}, ".pdf": {"CreationDate": None}}
    with saving_options():
        figure.savefig(
            path,
            dpi=PNG_DOTS_PER_INCH,
            metadata=undated.get(path.suffix.lower(), {"Software": None}),
        )


@contextmanager
def saving_options() -> Iterator[None]:
    """Have SVG with text as text, and with the same names each time."""
    from matplotlib import rc_context

    with warnings.catch_warnings(), rc_context({"svg.hashsalt": "mdpdsl", "svg.fonttype": "none"}):
        # A name in a script that the font lacks is drawn as boxes, or by the browser's own font.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def graph_figure(graph: TransitionGraph, title: str = "") -> Figure:
    """Return the picture of a graph as a matplotlib figure, chosen by its size and variables."""
    if graph.n_states > MOST_STATES:
        return draw_classes(graph, title).figure()
    if is_plane(graph):
        return draw_plane(graph, title).figure()
    return draw_network(graph, title).figure()
