"""The maps of a run: visits, complexity, loss and error, as detailed as there is room for."""

from __future__ import annotations

from mdpdsl.estimate.run_result import RunResult
from mdpdsl.report.figures.pair_figures import pair_figures
from mdpdsl.report.figures.plane_map import PlaneMap, plane_of
from mdpdsl.report.page.heat_map import heat_map, selector

#: More actions than this are told all together; `mdpdsl plot --action` draws one of them.
MOST_ACTIONS = 24
#: Most cells along an axis, from the best on; fewer where a page would be too large.
CELLS = (256, 128, 64, 32, 16)


def maps_section(run: RunResult, name: str, axes: str | None, most_bytes: int) -> tuple[str, int]:
    """Return the maps of a run within so many bytes, and how many slices they have.

    Values of cells go first where there is no room, then single actions, then resolution.
    """
    figures = pair_figures(run)
    is_few = run.graph.n_actions <= MOST_ACTIONS
    for cells in CELLS:
        plane = plane_of(run.graph, axes, cells)
        detail = ((is_few, True), (is_few, False), (False, True), (False, False))
        for by_action, has_values in detail:
            maps = [plane.map(figure, by_action=by_action) for figure in figures.values()]
            made = _maps(maps, name, has_values, is_few or plane.has_action_axis)
            if len(made) <= most_bytes:
                return made, len(maps[0].slices)
    return made, len(maps[0].slices)


def _maps(maps: list[PlaneMap], name: str, has_values: bool, are_actions_told: bool) -> str:
    labels = [piece.label for piece in maps[0].slices]
    single = " single" if len(labels) == 1 else ""
    drawn = "".join(
        heat_map(each, f"{name}-{each.figure.name}", has_values=has_values) for each in maps
    )
    more = (
        ""
        if are_actions_told
        else f'<p class="quiet">There are more than {MOST_ACTIONS} actions; <code>mdpdsl plot '
        "--action …</code> draws the map of one.</p>"
    )
    return (
        f'<div class="choice">{selector(labels, name)}'
        f'<div class="maps{single}">{drawn}</div></div>{more}'
    )
