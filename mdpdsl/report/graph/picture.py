"""A picture of a model: states and branches, or communicating classes above 200 states."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mdpdsl.graph.appearance import MOST_STATES
from mdpdsl.graph.shown_rows import simulated_or_possible
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.report.graph.classes import draw_classes
from mdpdsl.report.graph.network import draw_network
from mdpdsl.report.graph.plane import draw_plane, is_plane

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PNG_DOTS_PER_INCH = 150
FORMATS = (".svg", ".png", ".pdf")


def draw_graph(graph: TransitionGraph, path: str | Path, title: str = "") -> None:
    """Draw a graph to an `.svg`, `.png` or `.pdf` file; equal graphs give equal files."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"a picture must end in {', '.join(FORMATS)}, not {path.name!r}")
    figure = graph_figure(graph, title)
    # Otherwise the file would contain the time of day and random names.
    undated = {".svg": {"Date": None, "Creator": None}, ".pdf": {"CreationDate": None}}
    with saving_options():
        figure.savefig(
            path,
            dpi=PNG_DOTS_PER_INCH,
            metadata=undated.get(path.suffix.lower(), {"Software": None}),
        )


def inline_svg(graph: TransitionGraph, title: str = "") -> str:
    """Return the picture of a graph as SVG for a page; equal graphs give equal texts."""
    buffer = io.StringIO()
    with saving_options():
        undated = {"Date": None, "Creator": None}
        graph_figure(graph, title).savefig(buffer, format="svg", metadata=undated)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # Identifiers must differ from those of other pictures on the page.
    prefix = f"g{graph.hash[:8]}-"
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}\1)", svg)
    return re.sub(r'(xlink:href|href)="#([^"]+)"', rf'\1="#{prefix}\2"', svg)


@contextmanager
def saving_options() -> Iterator[None]:
    """Write SVG with text as text, and with reproducible identifiers."""
    from matplotlib import rc_context

    with warnings.catch_warnings(), rc_context({"svg.hashsalt": "mdpdsl", "svg.fonttype": "none"}):
        # Letters that the font lacks are drawn as boxes, or with the browser's own font.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def graph_figure(graph: TransitionGraph, title: str = "") -> Figure:
    """Return the picture of a graph as a matplotlib figure, chosen by its size and variables."""
    if graph.n_states > MOST_STATES:
        return draw_classes(simulated_or_possible(graph), title).figure()
    if is_plane(graph):
        return draw_plane(simulated_or_possible(graph), title).figure()
    return draw_network(graph, title).figure()
