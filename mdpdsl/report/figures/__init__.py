"""Figures of runs: the same numbers, drawn as inline SVG for pages and by matplotlib for files.

Numbers: `series` (measures over time), `pair_figures` and `plane_map` (figures of pairs).
Inline SVG: `line_chart`, `dot_chart`, `heat_map`. matplotlib: `plots`, `plot_lines`.
"""
