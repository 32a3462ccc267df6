"""A headless Chromium for pages, driven through its DevTools protocol without a driver.

The browser listens on a websocket at a port of its own choice. Commands are JSON objects with a
number, which the answer repeats; what happens in a tab arrives as events, without a number.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from websocket import WebSocket, create_connection

BROWSERS = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
    *("microsoft-edge", "msedge"),
)
HOW_TO_GET_ONE = (
    "no Chromium was found: install one (`apt install chromium` on Debian), "
    "or set CHROME to the path of Chromium, Chrome or Edge"
)
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # Chromium refuses to run as root with one; it opens our own pages only
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--no-default-browser-check",
    "--no-first-run",
    "--remote-debugging-port=0",
)
PHONE, DESKTOP = 390, 1280
HEIGHTS = {PHONE: 844, DESKTOP: 900}
#: Generous: a browser that takes longer to start or to answer hangs.
TIMEOUT = 60


def found_browser() -> str | None:
    """Return the path of a browser: $CHROME, or the first under the usual names."""
    names = (os.environ.get("CHROME", ""), *BROWSERS)
    return next((path for name in names if (path := shutil.which(name))), None)


@contextmanager
def running_browser(program: str, profile: Path) -> Iterator[Browser]:
    """Start a browser with an empty profile that makes no connections of its own; end it after."""
    process = subprocess.Popen(
        [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        # It accepts no websocket that names a web page as its origin.
        socket = create_connection(
            _address(process, profile),
            timeout=TIMEOUT,
            suppress_origin=True,
            http_no_proxy=["127.0.0.1"],
        )
        browser = Browser(socket)
        try:
            yield browser
            browser.command("Browser.close")
            process.wait(TIMEOUT)
        finally:
            socket.close()
    finally:
        process.kill()
        process.wait()


class Browser:
    """A running browser, which opens tabs."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._n_commands = 0
        self._events: dict[str, list[Event]] = {}  # of each tab, by its session

    @contextmanager
    def tab(self) -> Iterator[Tab]:
        """Open a tab that shares no storage with others; close it afterwards."""
        context = self.command("Target.createBrowserContext")["browserContextId"]
        target = self.command("Target.createTarget", url="about:blank", browserContextId=context)[
            "targetId"
        ]
        session = self.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._events[session] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.command(f"{domain}.enable", session)
        yield Tab(self, session)
        self.command("Target.disposeBrowserContext", browserContextId=context)
        del self._events[session]

    def command(self, method: str, session: str | None = None, **parameters: object) -> Any:
        """Send a command to the browser, or to one of its tabs; return the result."""
        self._n_commands += 1
        message: dict[str, object] = {"id": self._n_commands, "method": method}
        message["params"] = parameters
        if session is not None:
            message["sessionId"] = session
        self._socket.send(json.dumps(message))
        while (answer := self._receive()).get("id") != self._n_commands:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def events(self, session: str) -> list[Event]:
        """Return what has happened in a tab since its list was cleared."""
        return self._events[session]

    def wait_for(self, event: str, session: str) -> None:
        """Wait until something has happened in a tab."""
        while all(found.method != event for found in self._events[session]):
            self._receive()

    def _receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._socket.recv())
        if "method" in message and message.get("sessionId") in self._events:
            event = Event(message["method"], message["params"])
            self._events[message["sessionId"]].append(event)
        return message


@dataclass(frozen=True)
class Event:
    """What happened in a tab."""

    method: str
    parameters: dict[str, Any]


@dataclass(frozen=True)
class Tab:
    """A tab of a browser, which shows one page at a time."""

    browser: Browser
    session: str

    def open(
        self, path: Path, width: int = DESKTOP, scheme: str = "light", *, scripts: bool = True
    ) -> None:
        """Open a page with a width in pixels and a preferred colour scheme."""
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=HEIGHTS[width],
            deviceScaleFactor=1,
            mobile=width == PHONE,
        )
        preferred = {"name": "prefers-color-scheme", "value": scheme}
        self.command("Emulation.setEmulatedMedia", features=[preferred])
        self.command("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.browser.events(self.session).clear()
        self.command("Page.navigate", url=path.resolve().as_uri())
        self.browser.wait_for("Page.loadEventFired", self.session)
        self.command("Emulation.setScriptExecutionDisabled", value=False)

    def ask(self, script: str) -> Any:
        """Return the value of a JavaScript expression."""
        done = self.command("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in done:
            raise RuntimeError(done["exceptionDetails"]["exception"]["description"])
        return done["result"].get("value")

    def point(self, x: float, y: float) -> None:
        """Move the pointer to a place of the window."""
        self.command("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def complaints(self) -> list[str]:
        """Return what the console has said since the page was opened."""
        return [
            json.dumps(event.parameters)
            for event in self._events()
            if event.method
            in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        ]

    def requests(self) -> list[str]:
        """Return the addresses that the page asked for, besides its own."""
        asked = [
            str(event.parameters["request"]["url"])
            for event in self._events()
            if event.method == "Network.requestWillBeSent"
        ]
        return [address for address in asked[1:] if not address.startswith("data:")]

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Save what the window shows, or the whole page."""
        taken = self.command("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(taken["data"]))

    def command(self, method: str, **parameters: object) -> Any:
        """Send a command to this tab; return the result."""
        return self.browser.command(method, self.session, **parameters)

    def _events(self) -> list[Event]:
        self.ask("0")  # its answer arrives after all events so far
        return self.browser.events(self.session)


def _address(process: subprocess.Popen[bytes], profile: Path) -> str:
    """Return the websocket of a browser, which it writes to its profile."""
    file = profile / "DevToolsActivePort"
    end = time.monotonic() + TIMEOUT
    while not file.exists() or len(written := file.read_text().split()) < 2:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with status {process.returncode}")
        if time.monotonic() > end:
            raise RuntimeError(f"{process.args!r} did not start within {TIMEOUT} s")
        time.sleep(0.02)
    port, path = written
    return f"ws://127.0.0.1:{port}{path}"
