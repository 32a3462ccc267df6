"""Unknown numbers and known rows in reports and figures."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import mdpdsl
from mdpdsl.estimate.run_result import RunResult
from mdpdsl.report.figures.likelihood_profiles import profile_panels
from mdpdsl.report.figures.pair_figures import pair_figures
from mdpdsl.report.figures.plots import FigureError, available_figures, draw_figure
from mdpdsl.report.page.page import report_page
from tests.report.pages import Element, parsed

#: A step forward fails with the unknown number; `back` is known.
WALK = """\
mdp walk
unknown slip in [0, 0.5] = 0.2
state x in 0..3
action go, back
init x = 0
on go when x < 3 -> 1 - slip: x' = x + 1 | slip: stay
on go otherwise -> stay
on back -> x' = 0
"""
#: The same, but every second step from 2 fails.
WORSE = WALK.replace("on go when x < 3", "on go when x < 2").replace(
    "on go otherwise", "on go when x == 2 -> 0.5: x' = 3 | 0.5: stay\non go otherwise"
)
#: Only the product of its numbers shows.
PRODUCT = """\
mdp product
unknown p in [0, 1] = 0.6
unknown q in [0, 1] = 0.5
state x in 0..1
action go
init x = 0
on go -> p*q: x' = 1 | 1 - p*q: x' = 0
"""
#: Half of the rows are known, the others are open.
OPEN = """\
mdp open
state x in 0..2
action go, back
init x = 0
on go -> ?=0.7: x' = min(x + 1, 2) | ?=0.3: x' = 0
on back -> x' = 0
"""


def estimated(text: str, truth: str | None = None, steps: int = 600) -> RunResult:
    log = mdpdsl.simulate(mdpdsl.loads(truth or text), steps=steps, seed=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mdpdsl.MdpdslWarning)
        return mdpdsl.estimate(mdpdsl.loads(text), log)


@pytest.fixture(scope="module")
def walk() -> RunResult:
    return estimated(WALK)


@pytest.fixture(scope="module")
def explored() -> RunResult:
    return mdpdsl.explore(mdpdsl.loads(WALK), steps=400, trials=2, seed=1)


def section(run: RunResult, title: str = "Unknown numbers") -> Element | None:
    for each in parsed(report_page([run])).every("section"):
        if any(heading.text() == title for heading in each.every("h2")):
            return each
    return None


def test_the_page_has_the_numbers_with_their_intervals(walk: RunResult) -> None:
    found = section(walk)
    assert found is not None
    (row,) = found.every("tbody")[0].every("tr")
    cells = [cell.text() for cell in row.every("td")]
    (record,) = walk.numbers.parameters.records()  # type: ignore[union-attr]
    assert cells[0] == "slip"
    value, deviation = (float(part) for part in cells[1].split(" ± "))
    assert value == pytest.approx(record["value"], abs=10 * deviation / 100)
    assert deviation == pytest.approx(record["deviation"], rel=0.1)
    low, high = (float(part) for part in cells[2].strip("[]").split(", "))
    assert low <= record["low"] < record["high"] <= high  # rounded outwards
    assert cells[4] == "[0, 0.5]"
    assert "No row contradicts the law (3 rows tested)." in found.text()


def test_an_estimate_never_shows_the_truth(walk: RunResult) -> None:
    assert all(not panel.truths for panel in profile_panels([walk], ["log"]))
    found = section(walk)
    assert found is not None
    assert "truth" not in found.text()
    settings = section(walk, "Settings")
    assert settings is not None
    assert "slip" not in settings.text()


def test_a_simulated_run_shows_the_truth(explored: RunResult) -> None:
    (panel,) = profile_panels([explored], ["run"])
    assert panel.truths == [0.2]
    found = section(explored)
    assert found is not None
    assert "truth 0.2" in " ".join(found.text().split())
    assert "of the first trial" in found.text()


def test_profiles_are_zero_at_the_estimate_and_cross_the_threshold_at_the_interval(
    walk: RunResult,
) -> None:
    (panel,) = profile_panels([walk], ["log"])
    (profile,) = panel.profiles
    values, drops = np.array(profile.curve(-np.inf)).T
    assert drops.max() == 0.0
    assert values[np.argmax(drops)] == profile.estimate
    at_ends = np.interp([profile.every_look.low, profile.every_look.high], values, drops)
    assert at_ends == pytest.approx([profile.threshold] * 2, rel=0.05)
    at_ends = np.interp([profile.one_look.low, profile.one_look.high], values, drops)
    assert at_ends == pytest.approx([-2.7055 / 2] * 2, rel=0.1)  # the 90 % quantile of chi-squared
    assert profile.every_look.low < profile.one_look.low < profile.one_look.high


def test_a_curve_ends_at_the_height_asked_for(walk: RunResult) -> None:
    (panel,) = profile_panels([walk], ["log"])
    curve = panel.profiles[0].curve(-2.0)
    assert curve[0][1] == curve[-1][1] == -2.0
    assert all(drop >= -2.0 for _, drop in curve)
    assert [value for value, _ in curve] == sorted(value for value, _ in curve)


def test_both_renderers_draw_the_same_curve(walk: RunResult) -> None:
    found = section(walk)
    assert found is not None
    (line,) = found.every("polyline")
    drawn = np.array([point.split(",") for point in line.attributes["points"].split()], float)
    (axes,) = draw_figure([walk], "likelihood").axes
    curve = np.array(axes.get_lines()[0].get_data()).T
    assert len(drawn) == len(curve)
    for j in range(2):  # the same up to a change of scale, to a tenth of a pixel
        scaled = np.polyval(np.polyfit(curve[:, j], drawn[:, j], 1), curve[:, j])
        assert np.abs(scaled - drawn[:, j]).max() < 0.11


def test_the_figure_marks_estimate_threshold_and_truth(explored: RunResult) -> None:
    (axes,) = draw_figure([explored], "likelihood").axes
    (profile,) = profile_panels([explored], [""])[0].profiles
    lines = [(np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for line in axes.lines]
    assert any(len(y) == 2 and np.all(y == profile.threshold) for _, y in lines)
    assert any(len(x) == 1 and x[0] == profile.estimate for x, _ in lines)
    assert any(len(x) == 2 and np.all(x == 0.2) for x, _ in lines)


def test_several_runs_share_a_panel(walk: RunResult, explored: RunResult) -> None:
    figure = draw_figure([walk, explored], "likelihood")
    (axes,) = figure.axes
    assert axes.get_xlabel() == "slip"
    (legend,) = figure.legends
    assert len(legend.get_texts()) == 2


def test_rows_that_contradict_the_law_are_listed_with_their_p_values() -> None:
    run = estimated(WALK, WORSE, steps=2_000)
    found = section(run)
    assert found is not None
    listed = [item.text() for item in found.every("ul", **{"class": "rows"})[0].every("li")]
    assert run.numbers is not None
    assert len(listed) == run.numbers.n_misfit > 0
    assert "go in x = 2" in listed[0]
    assert all(re.search(r"p = [\de.-]+", each) for each in listed)


def test_numbers_that_cannot_be_told_apart_are_said_to_be_undetermined() -> None:
    found = section(estimated(PRODUCT))
    assert found is not None
    assert found.text().count("not determined") == 4  # in the table and above the curves
    assert "cannot be told apart" in found.text()
    assert len(found.every("svg")) == 2


def test_if_no_value_fits_nothing_is_drawn() -> None:
    run = estimated(WALK, WALK.replace("x' = x + 1", "x' = 3"))
    assert run.numbers is not None
    assert run.numbers.parameters.is_empty
    found = section(run)
    assert found is not None
    assert "no value fits" in found.text()
    assert found.every("svg") == []
    with pytest.raises(FigureError, match="no values of the unknown numbers fit"):
        draw_figure([run], "likelihood")


def test_runs_without_unknown_numbers_have_neither_section_nor_figure() -> None:
    run = estimated(OPEN)
    assert section(run) is None
    assert "likelihood" not in available_figures([run])
    with pytest.raises(FigureError, match="has no figure `likelihood`"):
        draw_figure([run], "likelihood")


@pytest.mark.parametrize(
    ("text", "words"),
    [(OPEN, "3 known, 3 with ?"), (WALK, "5 known, 3 with unknown numbers")],
)
def test_the_settings_say_how_many_rows_are_known(text: str, words: str) -> None:
    settings = section(estimated(text), "Settings")
    assert settings is not None
    assert words in settings.text()


def test_a_file_that_leaves_nothing_open_has_no_such_line() -> None:
    plain = OPEN.replace("?=", "")
    settings = section(estimated(plain), "Settings")
    assert settings is not None
    assert "rows" not in [name.text() for name in settings.every("dt")]


def test_known_rows_that_the_data_contradict_are_named() -> None:
    run = estimated(OPEN, OPEN.replace("on back -> x' = 0", "on back -> stay"))
    page = report_page([run])
    assert "that the model file writes out – back in x = " in page


def test_cells_of_known_pairs_are_called_known() -> None:
    page = report_page([estimated(OPEN)])
    assert '<span class="key none"></span>known</li>' in page
    assert '<span class="key none"></span>no such pair' not in page


def test_the_largest_loss_is_the_worst_one_if_rows_are_known() -> None:
    run = mdpdsl.explore(mdpdsl.loads(OPEN), steps=300, seed=1)
    losses = pair_figures(run)["loss"].values
    assert np.nanmax(losses) == pytest.approx(run.worst)


def test_the_report_of_the_command_is_that_of_the_api(walk: RunResult, tmp_path: Path) -> None:
    saved = walk.save(tmp_path / "run")  # type: ignore[attr-defined]
    again = section(mdpdsl.open_run(saved.path))
    assert again is not None
    first = section(walk)
    assert first is not None
    assert again.text() == first.text()
