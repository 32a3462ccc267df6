"""The report in a browser: it loads nothing else, logs no error, and draws every plot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import mdpdsl
from mdpdsl.report.page.page import report_page
from tests.report.browser import DESKTOP, PHONE, Browser, Tab

EVERY = ("explore", "single", "estimate", "replay", "live", "compare", "compare-log")


@pytest.fixture
def tab(browser: Browser) -> Iterator[Tab]:
    with browser.tab() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(made: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    found = {}
    for name in EVERY:
        found[name] = folder / f"{name}.html"
        found[name].write_text(report_page(mdpdsl.open_runs(made[name])), "utf-8")
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("name", EVERY)
def test_every_plot_is_drawn_and_the_console_stays_empty(
    tab: Tab, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    tab.open(pages[name], width, scheme)
    tab.ask("document.querySelectorAll('details').forEach(d => d.open = 1)")
    drawn = tab.ask(
        "[...document.querySelectorAll('figure svg')].filter(s => s.checkVisibility())"
        ".map(s => [s.getBoundingClientRect().width, s.getBoundingClientRect().height])"
    )
    assert len(drawn) >= 4
    assert all(w > 5 and h > 5 for w, h in drawn)
    assert all(tab.ask("[...document.querySelectorAll('.map')].map(m => m.clientHeight > 100)"))
    # The page fits the screen: what is wider scrolls within its own box.
    assert tab.ask("document.documentElement.scrollWidth") <= width
    ground = tab.ask("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(20, 23, 26)") == (scheme == "dark")
    assert tab.complaints() == []
    assert tab.requests() == []


def test_a_button_shows_the_map_of_its_action(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["explore"])
    shown = (
        "[...document.querySelectorAll('.map:first-child .panel')]"
        ".map(p => getComputedStyle(p).display)"
    )
    assert tab.ask(shown) == ["block", "none", "none"]
    tab.ask("document.querySelectorAll('.choose + label')[2].click()")
    assert tab.ask(shown) == ["none", "none", "block"]


def test_the_cell_under_the_pointer_shows_its_value(
    tab: Tab, pages: dict[str, Path], made: dict[str, Path]
) -> None:
    tab.open(pages["single"])
    run = mdpdsl.open_run(made["single"])
    tab.ask("document.querySelector('.map image').scrollIntoView()")
    left, bottom = tab.ask(
        "(box => [box.left, box.bottom])"
        "(document.querySelector('.map image').getBoundingClientRect())"
    )
    tab.point(left + 2, bottom - 2)
    shown = tab.ask("document.getElementById('tip').textContent").split("\n")
    visits = int(run.counts.visits[run.graph.pair(0, 0)])
    assert shown == ["pos = 0", "action = left", f"{visits:,}"]


def test_the_switch_turns_dark_into_light(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["single"], DESKTOP, "dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    before = tab.ask(ground)
    tab.ask("document.getElementById('theme').click()")
    assert tab.ask(ground) != before
    tab.ask("document.getElementById('theme').click()")
    assert tab.ask(ground) == before


def test_maps_and_charts_are_shown_without_scripts(tab: Tab, pages: dict[str, Path]) -> None:
    tab.open(pages["explore"], scripts=False)
    # The test's own questions are scripts, but the page's did not run: its switch is still hidden.
    assert tab.ask("document.getElementById('theme').hidden")
    assert tab.ask("document.querySelector('.map .panel').clientHeight") > 100
    assert tab.ask("document.querySelectorAll('.chart polyline').length") == 3


def test_what_a_page_logs_and_loads_is_noticed(tab: Tab, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<script>console.log('logged')</script><img src='missing.png'>", "utf-8")
    tab.open(page)
    assert any("logged" in complaint for complaint in tab.complaints())
    assert tab.requests() == [(tmp_path / "missing.png").as_uri()]
    with pytest.raises(RuntimeError, match="nowhere is not defined"):
        tab.ask("nowhere")
