"""Runs shared by the tests of reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.made_runs import made_runs


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs of every kind by name; tests must not change them."""
    return made_runs(tmp_path_factory.mktemp("runs"))
