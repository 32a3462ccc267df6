"""A headless Chromium for pages: widths, light and dark, and the messages of its console."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
PHONE, DESKTOP = 390, 1280
HEIGHTS = {PHONE: 844, DESKTOP: 900}


def found_browser() -> tuple[str, str] | None:
    """Return the paths of a Chromium and its driver, if both are installed."""
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    return None if browser is None or driver is None else (browser, driver)


@dataclass(frozen=True)
class Browser:
    """A browser that opens files."""

    driver: Any

    def open(self, path: Path, width: int = DESKTOP, scheme: str = "light") -> None:
        """Open a page with a width in pixels and a preferred scheme of colours."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {
                "width": width,
                "height": HEIGHTS[width],
                "deviceScaleFactor": 1,
                "mobile": width == PHONE,
            },
        )
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
        )
        self.driver.get(path.resolve().as_uri())

    def ask(self, script: str) -> Any:
        """Return the value of a JavaScript expression."""
        return self.driver.execute_script(f"return {script}")

    def complaints(self) -> list[str]:
        """Return the messages of the console since the last call."""
        return [str(entry["message"]) for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Return the addresses that the page loaded."""
        found = self.ask("performance.getEntriesByType('resource').map(e => e.name)")
        return [str(name) for name in found if not str(name).startswith("data:")]

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Save the visible part, or the whole page."""
        import base64

        taken = self.driver.execute_cdp_cmd(
            "Page.captureScreenshot", {"captureBeyondViewport": whole}
        )
        path.write_bytes(base64.b64decode(taken["data"]))


@contextmanager
def running_browser(paths: tuple[str, str], profile: Path) -> Iterator[Browser]:
    """Start a browser without network and with an empty profile; end it afterwards."""
    options = Options()
    options.binary_location = paths[0]
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(paths[1]))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
