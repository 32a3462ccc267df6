"""The picture of a graph as SVG inside a page or a notebook."""

from __future__ import annotations

import io
import re

from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.report.graph.picture import graph_figure, saving_options


def inline_svg(graph: TransitionGraph, title: str = "") -> str:
    """Return the picture of a graph as SVG for a page; the same graph gives the same text."""
    buffer = io.StringIO()
    with saving_options():
        undated = {"Date": None, "Creator": None}
        graph_figure(graph, title).savefig(buffer, format="svg", metadata=undated)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # Names within a picture must not meet those of another on the page.
    prefix = f"g{graph.hash[:8]}-"
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}\1)", svg)
    return re.sub(r'(xlink:href|href)="#([^"]+)"', rf'\1="#{prefix}\2"', svg)
