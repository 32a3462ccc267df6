"""The page: whole, self-contained, small, and with the right numbers in it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import mdpdsl
from mdpdsl.estimate.metrics import measure
from mdpdsl.estimate.reference import Reference
from mdpdsl.estimate.run_result import RunResult, RunTrial
from mdpdsl.graph.counts import counts_from
from mdpdsl.report.figures.heat_map import END
from mdpdsl.report.figures.plane_map import AxesError
from mdpdsl.report.markup import number
from mdpdsl.report.page.page import MOST_BYTES, report_page
from mdpdsl.runs.records import RunConfiguration, RunOptions
from tests.report.pages import addresses, parsed

EVERY = (
    *("explore", "single", "estimate", "ends", "replay", "live", "compare", "compare-log"),
    "bounds",
)
MAPS = ("visits", "complexity", "loss", "error")


@pytest.mark.parametrize("name", EVERY)
def test_a_page_is_whole_and_loads_nothing(made: dict[str, Path], name: str) -> None:
    page = report_page(mdpdsl.open_runs(made[name]))
    parsed(page)
    assert addresses(page) == []
    assert len(page.encode()) < MOST_BYTES
    # Namespaces of SVG are the only addresses, and nothing is fetched from them.
    assert set(re.findall(r"https?://[^\s\"'<>]+", page)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


@pytest.mark.parametrize("name", EVERY)
def test_every_element_has_its_own_identifier(made: dict[str, Path], name: str) -> None:
    page = report_page([*mdpdsl.open_runs(made[name]), *mdpdsl.open_runs(made["single"])])
    names = re.findall(r'\bid="([^"]+)"', page)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["explore", "single", "estimate", "ends", "replay", "live"])
def test_every_map_has_a_slice_for_each_button(made: dict[str, Path], name: str) -> None:
    run = mdpdsl.open_run(made[name])
    tree = parsed(report_page([run]))
    maps = tree.every("figure", **{"class": "map"})
    names = [each.attributes["id"].rpartition("-")[2] for each in maps]
    assert names[:4] == list(MAPS)
    buttons = tree.every("input", type="radio")
    n_slices = max(1, len(buttons))
    assert n_slices == (1 if len(run.graph.states.variables) == 1 else 3)
    for each in maps:
        assert len(each.every("image")) == n_slices


def test_cells_of_ends_are_ends_and_have_no_figures(made: dict[str, Path]) -> None:
    run = mdpdsl.open_run(made["ends"])
    page = report_page([run])
    assert "9 states, 2 of them ends" in page
    tree = parsed(page)
    image = tree.every("image")[0]
    shown = json.loads(image.attributes["data-cells"])
    assert [(i, j) for i, row in enumerate(shown["v"]) for j, v in enumerate(row) if v == END] == [
        (1, 1),
        (2, 2),
    ]
    visits = sum(float(v.replace(",", "")) for row in shown["v"] for v in row if v != END)
    assert visits == run.counts.visits.sum()
    assert '<span class="key none"></span>an end</li>' in page
    assert "no such pair</li>" not in page


def test_the_cells_show_the_visits(made: dict[str, Path]) -> None:
    run = mdpdsl.open_run(made["single"])
    (visits, *_) = parsed(report_page([run])).every("figure", **{"class": "map"})
    (image,) = visits.every("image")
    cells = json.loads(image.attributes["data-cells"])
    for state in range(run.graph.n_states):
        for pair in range(run.graph.pair_start[state], run.graph.pair_start[state + 1]):
            page_text = cells["v"][run.graph.pair_action[pair]][state]
            assert page_text == number(float(run.counts.visits[pair]))


def test_the_page_shows_the_ratios_of_the_summary(made: dict[str, Path]) -> None:
    summary = json.loads((made["explore"] / "summary.json").read_text("utf-8"))
    tree = parsed(report_page([mdpdsl.open_run(made["explore"])]))
    cards = {
        card.every("div", **{"class": "title"})[0].text(): card
        for card in tree.every("div", **{"class": "card"})
    }
    for name, title in (("worst", "L_Worst"), ("average", "L_Avg")):
        page_text = cards[title].text()
        assert f"{number(summary['ratio'][name], 3)}×" in page_text
        assert number(summary[name]) in page_text
        assert number(summary["optimum"][name]) in page_text


def test_the_lines_end_at_the_means_of_the_summary(made: dict[str, Path]) -> None:
    summary = json.loads((made["explore"] / "summary.json").read_text("utf-8"))
    tree = parsed(report_page([mdpdsl.open_run(made["explore"])]))
    (chart,) = (f for f in tree.every("figure") if f.attributes.get("id") == "m0-worst")
    last = chart.every("circle")[-1].attributes["data-tip"]
    assert last.endswith(f"2,000 steps: {number(summary['worst'])}")
    assert f"optimum {number(summary['optimum']['worst'])}" in chart.text()
    assert len(chart.every("polygon", **{"class": "band"})) == 1


def test_a_run_with_a_property_shows_its_bounds_and_the_true_optimum(
    made: dict[str, Path],
) -> None:
    run = mdpdsl.open_run(made["bounds"])
    page = report_page([run])
    (chart,) = parsed(page).every("figure", id="m0-value-bounds")
    assert len(chart.every("polyline")) == len(chart.every("li")) == 2
    values = [run.figures.guaranteed, run.figures.possible]
    for line, value in zip(chart.every("polyline"), values, strict=True):
        assert line.attributes["points"]
        assert f"steps: {number(value)}" in page
    assert f"the true optimum is {number(run.true_value)}" in page
    table = report_page([run, mdpdsl.open_run(made["explore"])])
    assert ">guaranteed</th>" in table
    assert "value-bounds" not in report_page([mdpdsl.open_run(made["explore"])])


def test_the_worst_pairs_are_named_by_values(made: dict[str, Path]) -> None:
    run = mdpdsl.open_run(made["single"])
    table = parsed(report_page([run])).every("table")[-1]
    head = [cell.text() for cell in table.every("th")]
    assert head == ["action", "pos", "T", "c", "nc/T", "error"]
    first = [cell.text() for cell in table.every("td")[: len(head)]]
    c, T = run.reference.complexity, run.counts.visits
    pair = int(np.argmax(c / T))
    assert first[0] == run.graph.actions.labels[run.graph.pair_action[pair]]
    assert first[1] == str(run.graph.states.native(int(run.graph.pair_state[pair]))["pos"])
    assert first[2] == number(float(T[pair]))


def test_a_comparison_has_a_row_for_each_run_and_the_optimum(made: dict[str, Path]) -> None:
    runs = mdpdsl.open_runs(made["compare"])
    tree = parsed(report_page(runs))
    rows = tree.every("table")[0].every("tbody")[0].every("tr")
    assert [row.every("td")[0].text() for row in rows] == [
        "kappa-dp (kappa=2)",
        "random",
        "optimum",
    ]
    assert len(tree.every("details")) == 2
    (ratios,) = (f for f in tree.every("figure") if f.attributes.get("id") == "m0-ratios")
    n_known = sum(run.ratio(name) is not None for run in runs for name in ("worst", "average"))
    assert (
        len(
            [e for e in ratios.every("circle") + ratios.every("path") if "data-tip" in e.attributes]
        )
        == n_known
    )


def test_a_page_says_what_a_run_lacks(made: dict[str, Path]) -> None:
    for name in ("estimate", "live"):
        assert "The true model is unknown" in report_page([mdpdsl.open_run(made[name])])
    assert "relative to the whole log" in report_page([mdpdsl.open_run(made["replay"])])
    estimate = report_page([mdpdsl.open_run(made["estimate"])])
    assert "Over time" not in estimate
    assert "l₁ radius" in estimate


def test_texts_of_a_model_are_escaped(made: dict[str, Path]) -> None:
    page = report_page([mdpdsl.open_run(made["explore"])])
    assert "A walk &lt;on&gt; a plane &amp; back" in page
    assert "<on>" not in page


def test_the_same_runs_give_the_same_page(made: dict[str, Path]) -> None:
    assert report_page(mdpdsl.open_runs(made["compare"])) == report_page(
        mdpdsl.open_runs(made["compare"])
    )


def test_wrong_axes_are_an_error_of_the_whole_page(made: dict[str, Path]) -> None:
    with pytest.raises(AxesError, match="no variable `omega`"):
        report_page([mdpdsl.open_run(made["explore"])], "x,omega")


def test_runs_are_grouped_by_model(made: dict[str, Path]) -> None:
    tree = parsed(report_page(mdpdsl.open_runs(made["single"], made["explore"])))
    assert [h.text() for h in tree.every("h1")] == ["riverswim", "plane"]


@pytest.mark.parametrize("n_cells", [40, 400])
def test_a_page_of_many_large_maps_stays_small(n_cells: int) -> None:
    text = (
        f"mdp large state x in [0, 1] bins {n_cells} state y in [0, 1] bins {n_cells} "
        "action a, b, c"
    )
    model = mdpdsl.loads(text)
    runs = [_unknown_run(model, seed) for seed in range(4 if n_cells == 40 else 2)]
    page = report_page(runs)
    assert len(page.encode()) < MOST_BYTES
    tree = parsed(page)
    assert len(tree.every("figure", **{"class": "map"})) == 4 * len(runs)


def _unknown_run(model: mdpdsl.Model, seed: int) -> RunResult:
    """Return a run that has only counts, a few random transitions per pair."""
    graph, generator = model.graph, np.random.default_rng(seed)
    n = graph.n_pairs
    counts = counts_from(
        np.arange(n), generator.integers(0, graph.n_states, n), generator.integers(1, 999, n), n
    )
    c = generator.random(n)
    configuration = RunConfiguration(
        model="large",
        hash=graph.hash,
        parameters={},
        options=RunOptions(),
        settings={"delta": 0.1, "files": [], "radius": "paper", "prior": 0.0}
        | {"time_step": None, "separate_files": False},
        seed=0,
        trials=0,
        versions={},
        command="estimate",
    )
    reference = Reference("estimate", c, np.ones(n, np.bool_))
    trial = RunTrial(0, counts, {}, measure(1, counts.visits, c, 1.0))
    return RunResult(model, configuration, (trial,), reference, None, None, None)
