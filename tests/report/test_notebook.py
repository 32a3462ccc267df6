"""What notebooks show."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

import mdpdsl
from mdpdsl.explore.executor import run_trials
from mdpdsl.explore.live.session import explore_live
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.summary import summarize
from mdpdsl.report.markup import number
from mdpdsl.report.policy_table import policy_lines
from tests.report.made_runs import HEATER, POND, Heater
from tests.report.pages import parsed


def shown(thing: object) -> str:
    found = thing._repr_html_()  # type: ignore[attr-defined]
    assert isinstance(found, str)
    return parsed(found).text()


def test_a_model_is_shown_without_being_built() -> None:
    model = mdpdsl.load("riverswim", n=7)
    text = shown(model)
    assert "A chain against the current" in text
    assert "n = 7" in text
    assert "pos in 0..6" in text
    assert not model.is_built
    _ = model.graph
    assert "7 states, 14 pairs" in shown(model)


def test_a_small_graph_is_a_picture_and_a_large_one_a_table() -> None:
    small, large = (mdpdsl.load("riverswim", n=n).graph for n in (6, 500))
    assert small._repr_html_() is None
    picture = small._repr_svg_()
    assert picture is not None
    assert parsed(picture).every("svg")
    assert large._repr_svg_() is None
    assert "500 states, 1,000 pairs" in shown(large)


def test_ends_are_counted_and_have_no_action() -> None:
    graph = mdpdsl.loads(POND).graph
    picture = graph._repr_svg_()
    assert picture is not None
    assert "2 ends" in parsed(picture).text()
    many = mdpdsl.loads(POND.replace("0..2", "0..20").replace("% 3", "% 21")).graph
    assert "441 states, 2 of them ends, 878 pairs" in shown(many)
    assert graph.ends is not None
    choice = np.where(graph.ends, -1, graph.pair_start[:-1])
    lines = policy_lines(graph, choice, np.zeros(9), 0.0, np.arange(9))
    assert [line[2] for line in lines[1:]] == ["down"] * 4 + ["(end)"] + ["down"] * 3 + ["(end)"]


def test_a_graph_without_dynamics_is_a_table() -> None:
    graph = mdpdsl.loads(HEATER).graph
    assert graph._repr_svg_() is None
    assert "dynamics unknown" in shown(graph)


def test_a_run_shows_its_figures(made: dict[str, Path]) -> None:
    summary = json.loads((made["explore"] / "summary.json").read_text("utf-8"))
    text = shown(mdpdsl.open_run(made["explore"]))
    assert number(summary["worst"]) in text
    assert f"{number(summary['ratio']['average'], 3)} times the optimum" in text
    assert "with ĉ" in shown(mdpdsl.open_run(made["estimate"]))


def test_runs_are_a_table_with_a_row_each(made: dict[str, Path]) -> None:
    text = shown(mdpdsl.open_runs(made["compare"]))
    assert "kappa-dp (kappa=2)" in text
    assert "random" in text


def test_a_summary_a_live_run_and_a_plan_are_shown(made: dict[str, Path], tmp_path: Path) -> None:
    settings = ExploreSettings(steps=200)
    graph = mdpdsl.load("riverswim").graph
    results = run_trials(graph, settings, seed=0, trials=2, jobs=1)
    summary = summarize(settings, results)
    assert number(summary.worst) in shown(summary)
    live = explore_live(mdpdsl.loads(HEATER), Heater(), tmp_path / "live", steps=50)
    assert "50" in shown(live)
    plan = mdpdsl.plan(made["estimate"])
    assert "where it adds most" in shown(plan)


def test_nothing_of_the_report_is_loaded_before_a_notebook_asks() -> None:
    code = (
        "import sys, mdpdsl\n"
        "graph = mdpdsl.load('riverswim').graph\n"
        "assert not any(name.startswith('mdpdsl.report') for name in sys.modules)\n"
        "assert graph._repr_svg_()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
