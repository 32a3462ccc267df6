"""The page in a browser: nothing is loaded, no errors in the console, every plot is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import mdpdsl
from mdpdsl.report.page.page import report_page
from tests.report.browser import DESKTOP, PHONE, Browser, found_browser, running_browser

EVERY = ("explore", "single", "estimate", "replay", "live", "compare", "compare-log")

pytestmark = pytest.mark.skipif(
    found_browser() is None, reason="Chromium or its chromedriver is not installed"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    paths = found_browser()
    assert paths is not None
    with running_browser(paths, tmp_path_factory.mktemp("profile")) as found:
        yield found


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
def test_every_plot_is_drawn_without_errors(
    browser: Browser, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    browser.open(pages[name], width, scheme)
    browser.driver.execute_script("document.querySelectorAll('details').forEach(d => d.open = 1)")
    drawn = browser.ask(
        "[...document.querySelectorAll('figure svg')].filter(s => s.checkVisibility())"
        ".map(s => [s.getBoundingClientRect().width, s.getBoundingClientRect().height])"
    )
    assert len(drawn) >= 4
    assert all(w > 5 and h > 5 for w, h in drawn)
    assert all(browser.ask("[...document.querySelectorAll('.map')].map(m => m.clientHeight > 100)"))
    # Nothing is wider than the screen: wide parts scroll on their own.
    assert browser.ask("document.documentElement.scrollWidth") <= width
    ground = browser.ask("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(20, 23, 26)") == (scheme == "dark")
    assert browser.complaints() == []
    assert browser.requests() == []


def test_a_button_shows_the_map_of_its_action(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["explore"])
    shown = (
        "[...document.querySelectorAll('.map:first-child .panel')]"
        ".map(p => getComputedStyle(p).display)"
    )
    assert browser.ask(shown) == ["block", "none", "none"]
    browser.driver.execute_script("document.querySelectorAll('.choose + label')[2].click()")
    assert browser.ask(shown) == ["none", "none", "block"]


def test_a_cell_under_the_pointer_shows_its_value(
    browser: Browser, pages: dict[str, Path], made: dict[str, Path]
) -> None:
    browser.open(pages["single"])
    run = mdpdsl.open_run(made["single"])
    browser.driver.execute_script(
        "const image = document.querySelector('.map image'), box = image.getBoundingClientRect();"
        "image.dispatchEvent(new PointerEvent('pointermove', {bubbles: true,"
        "clientX: box.left + 2, clientY: box.bottom - 2}))"
    )
    tip = browser.ask("document.getElementById('tip').textContent").split("\n")
    visits = int(run.counts.visits[run.graph.pair(0, 0)])
    assert tip == ["pos = 0", "action = left", f"{visits:,}"]


def test_the_switch_turns_dark_into_light(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["single"], DESKTOP, "dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    before = browser.ask(ground)
    browser.driver.execute_script("document.getElementById('theme').click()")
    assert browser.ask(ground) != before
    browser.driver.execute_script("document.getElementById('theme').click()")
    assert browser.ask(ground) == before
    browser.driver.execute_script("localStorage.clear()")


def test_maps_and_charts_need_no_scripts(browser: Browser, pages: dict[str, Path]) -> None:
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.open(pages["explore"])
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    # The test needs scripts, but the page's own did not run: its switch is still hidden.
    assert browser.ask("document.getElementById('theme').hidden")
    assert browser.ask("document.querySelector('.map .panel').clientHeight") > 100
    assert browser.ask("document.querySelectorAll('.chart polyline').length") == 3
