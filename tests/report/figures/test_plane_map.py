"""Maps: how pairs are combined, and which axes are available."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.graph.space import FloatArray
from mdpdsl.report.figures.colours import ColourRange, colour_ranges
from mdpdsl.report.figures.pair_figures import PairFigure, pair_figures
from mdpdsl.report.figures.plane_map import AxesError, axis_names, plane_of
from tests.graph.twins import settled

TAXI = mdpdsl.load("taxi").graph


def figure(values: FloatArray, is_summed: bool) -> PairFigure:
    return PairFigure("figure", "Figure", "", values, is_summed)


@pytest.mark.parametrize("axes", [None, "row,col", "passenger,action", "destination,row"])
def test_visits_are_added_up_and_none_is_lost(axes: str | None) -> None:
    visits = np.random.default_rng(0).integers(0, 9, TAXI.n_pairs).astype(float)
    if axes is not None and not set(axes.split(",")) <= set(axis_names(TAXI)):
        axes = ",".join(axis_names(TAXI)[:2])
    found = plane_of(TAXI, axes).map(figure(visits, True))
    assert np.nansum(found.slices[0].values) == visits.sum()
    for piece in found.slices[1:]:
        action = TAXI.actions.labels.index(piece.label)
        assert np.nansum(piece.values) == visits[TAXI.pair_action == action].sum()


def test_other_figures_are_the_largest_of_a_cell() -> None:
    values = np.random.default_rng(1).random(TAXI.n_pairs)
    plane = plane_of(TAXI)
    found = plane.map(figure(values, False)).slices[0].values
    for (row, column), value in np.ndenumerate(found):
        here = values[(plane.up_cell == row) & (plane.across_cell == column)]
        assert value == here.max() if len(here) else np.isnan(value)


@given(most=st.integers(1, 12), seed=st.integers(0, 99))
def test_pooling_keeps_sums_and_maxima(most: int, seed: int) -> None:
    graph = mdpdsl.load("riverswim", n=11).graph
    values = np.random.default_rng(seed).random(graph.n_pairs)
    plane = plane_of(graph, None, most)
    assert plane.across.size <= most
    summed = plane.map(figure(values, True)).slices[0].values
    largest = plane.map(figure(values, False)).slices[0].values
    assert np.nansum(summed) == pytest.approx(values.sum())
    assert np.nanmax(largest) == values.max()


@pytest.mark.parametrize("most", [2, 4, 5, 256])
def test_cells_with_ends_are_marked_and_pooled(most: int) -> None:
    graph = settled(mdpdsl.load("riverswim", n=9).graph, {3: 0.5, 8: 1.0})
    values = np.ones(graph.n_pairs)
    plane = plane_of(graph, None, most)
    found = plane.map(figure(values, True))
    factor = -(-9 // most)
    assert found.has_end.all(axis=0).tolist() == [
        c in (3 // factor, 8 // factor) for c in range(plane.across.size)
    ]
    assert (found.has_end.any(axis=0) == found.has_end.all(axis=0)).all()  # for every action
    assert np.nansum(found.slices[0].values) == graph.n_pairs


def test_a_map_says_how_pairs_were_combined(made: dict[str, Path]) -> None:
    run = mdpdsl.open_run(made["explore"])
    figures = pair_figures(run)
    plane = plane_of(run.graph)
    assert plane.map(figures["visits"]).rule == "sum over actions"
    assert plane.map(figures["loss"]).rule == "maximum over actions"
    by_action = plane_of(run.graph, "x,action")
    assert by_action.map(figures["loss"]).rule == "maximum over up"
    assert len(by_action.map(figures["loss"]).slices) == 1


def test_a_model_of_one_variable_is_drawn_with_its_actions() -> None:
    plane = plane_of(mdpdsl.load("riverswim").graph)
    assert (plane.across.name, plane.up.name) == ("pos", "action")
    assert plane.up.labels == ("left", "right")


def test_an_unvisited_pair_marks_its_cell() -> None:
    graph = mdpdsl.load("riverswim").graph
    values = np.ones(graph.n_pairs)
    values[3] = np.inf
    found = plane_of(graph).map(figure(values, False)).slices[0].values
    assert np.isinf(found).sum() == 1


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ("x,y", "no variable `y`"),
        ("x", "two different names of x, up, action"),
        ("x,x", "two different names"),
        ("x,up,action", "two different names"),
        ("", "no variable ``"),
        ("upp,x", "did you mean `up`"),
    ],
)
def test_an_error_about_axes_lists_the_right_ones(
    made: dict[str, Path], axes: str, message: str
) -> None:
    with pytest.raises(AxesError, match=message):
        plane_of(mdpdsl.open_run(made["explore"]).graph, axes)


@given(st.lists(st.floats(1e-9, 1e9), min_size=2, max_size=20), st.booleans())
def test_colours_keep_the_order_of_values(values: list[float], is_log: bool) -> None:
    array = np.sort(np.array(values))
    found = ColourRange(float(array[0]), float(array[-1]) * 1.5, is_log).shares(array)
    assert np.all((found >= 0) & (found <= 1))
    assert np.all(np.diff(found) >= 0)


def test_actions_share_a_range_of_colours(made: dict[str, Path]) -> None:
    run = mdpdsl.open_run(made["explore"])
    ranges = colour_ranges(plane_of(run.graph).map(pair_figures(run)["visits"]))
    assert ranges[1] == ranges[2] != ranges[0]
