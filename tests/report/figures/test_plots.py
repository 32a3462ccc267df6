"""Every figure of every kind of run as a picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib import image

import mdpdsl
from mdpdsl.report.figures.plots import (
    FIGURES,
    FigureError,
    available_figures,
    draw_figure,
    save_figure,
)

MAPS = ["visits", "complexity", "loss", "error"]
TIMES = ["worst", "average", "coverage"]
HAS = {
    "explore": [*TIMES, "ratios", *MAPS, "graph"],
    "single": [*TIMES, "ratios", *MAPS, "graph"],
    "estimate": [*MAPS, "radius", "graph"],
    "ends": [*MAPS, "radius", "graph"],
    "replay": [*MAPS, "graph"],
    "live": [*MAPS, "radius", "graph"],
    "compare": [*TIMES, "ratios", *MAPS, "graph"],
    "bounds": [*TIMES, "value-bounds", "ratios", *MAPS, "graph"],
}


@pytest.mark.parametrize("name", HAS)
def test_a_run_has_the_figures_of_its_kind(made: dict[str, Path], name: str) -> None:
    found = available_figures(mdpdsl.open_runs(made[name]))
    assert set(HAS[name]) <= set(found) <= set(FIGURES)


@pytest.mark.parametrize("name", HAS)
def test_every_figure_that_a_run_has_is_drawn(
    made: dict[str, Path], name: str, tmp_path: Path
) -> None:
    runs = mdpdsl.open_runs(made[name])
    for figure in available_figures(runs):
        if figure == "graph" and len(runs) > 1:
            continue
        path = tmp_path / f"{figure}.png"
        save_figure(draw_figure(runs, figure), path)
        pixels = image.imread(path)
        assert min(pixels.shape[:2]) > 100
        # The picture is not blank: it has more than one shade.
        assert len(np.unique(pixels[::3, ::3, 0])) > 5


@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
def test_the_same_figure_is_the_same_file(
    made: dict[str, Path], tmp_path: Path, ending: str
) -> None:
    runs = mdpdsl.open_runs(made["explore"])
    for name in ("one", "two"):
        save_figure(draw_figure(runs, "loss"), tmp_path / f"{name}.{ending}")
    one, two = ((tmp_path / f"{name}.{ending}").read_bytes() for name in ("one", "two"))
    assert one == two
    assert one.startswith({"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}[ending])


def test_lines_are_the_means_of_the_trials(made: dict[str, Path]) -> None:
    run = mdpdsl.open_run(made["explore"])
    (panel,) = draw_figure([run], "average").axes
    line, optimum = panel.get_lines()
    assert run.optimum is not None
    assert np.asarray(optimum.get_ydata())[0] == run.optimum["average"]
    assert np.asarray(line.get_ydata())[-1] == pytest.approx(run.figures.average)


def test_value_bounds_enclose_the_true_optimum(made: dict[str, Path]) -> None:
    run = mdpdsl.open_run(made["bounds"])
    figure = draw_figure([run], "value-bounds")
    (panel,) = figure.axes
    guaranteed, possible, optimum = (np.asarray(line.get_ydata()) for line in panel.get_lines())
    assert (guaranteed[-1], possible[-1]) == (run.figures.guaranteed, run.figures.possible)
    assert np.all(guaranteed <= optimum[0])
    assert np.all(possible >= optimum[0])
    assert optimum[0] == run.true_value
    twice = draw_figure([run, run], "value-bounds").axes[0].get_lines()
    assert [line.get_color() for line in twice[:2]] == [twice[0].get_color()] * 2


def test_bounds_of_different_properties_are_not_drawn_together(made: dict[str, Path]) -> None:
    run = mdpdsl.open_run(made["bounds"])
    other = replace(run, configuration=replace(run.configuration, property="Pmin=? [ X up ]"))
    with pytest.raises(FigureError, match="different properties"):
        draw_figure([run, other], "value-bounds")


def test_a_map_of_an_action_has_its_visits(made: dict[str, Path]) -> None:
    run = mdpdsl.open_run(made["single"])
    panel = draw_figure([run], "visits", "pos,action").axes[0]
    (mesh,) = [each for each in panel.collections if each.get_array() is not None]
    shown = np.asarray(mesh.get_array()).reshape(2, -1)
    expected = run.counts.visits.reshape(-1, 2).T
    assert np.array_equal(shown, expected)


@pytest.mark.parametrize(
    ("figure", "action", "message"),
    [
        ("los", None, "did you mean `loss`"),
        ("everything", None, "choose from worst, average"),
        ("radius", None, "has no figure `radius`; choose from"),
        ("loss", "jump", "no action `jump`; choose from step, flip"),
    ],
)
def test_an_impossible_figure_is_an_error(
    made: dict[str, Path], figure: str, action: str | None, message: str
) -> None:
    with pytest.raises(FigureError, match=message):
        draw_figure([mdpdsl.open_run(made["explore"])], figure, None, action)
