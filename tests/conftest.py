"""Settings of all tests, and runs that several of them read."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import settings

# A shell that starts tests in the background makes them, and what they start, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

# An example may take long where a loop is compiled or the machine is busy.
settings.register_profile("mdpdsl", deadline=None)
settings.load_profile("mdpdsl")


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs of every kind by name; tests leave them unchanged."""
    from tests.report.made_runs import made_runs

    return made_runs(tmp_path_factory.mktemp("runs"))
