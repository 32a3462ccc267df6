"""A browser that the tests of reports share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.report.browser import HOW_TO_GET_ONE, Browser, found_browser, running_browser


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests of a process; each test opens a tab of its own."""
    program = found_browser()
    if program is None:
        pytest.skip(HOW_TO_GET_ONE)
    with running_browser(program, tmp_path_factory.mktemp("profile")) as started:
        yield started
