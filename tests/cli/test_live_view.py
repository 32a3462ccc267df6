"""What is shown while explorers run."""

from __future__ import annotations

import itertools
import os
import pty
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from mdpdsl.cli.console import ProgressLines
from mdpdsl.explore import executor
from mdpdsl.explore.optimum import Limits
from mdpdsl.explore.standing import Standing
from mdpdsl.explore.trial_progress import standing_text
from tests.cli.run import quick

ARGUMENTS = ("explore", "riverswim", "--kappa", "10", "--steps", "60_000", "--jobs", "1")
#: The command line, looking after every part of a run, however soon the whole is done.
WATCHFUL = (
    "from mdpdsl import progress; progress.RATE_SECONDS = 0.0; "
    "from mdpdsl.explore import executor; executor.LOOK_SECONDS = 0.0; "
    "from mdpdsl.cli import main; main()"
)
#: As wide as a line of figures.
WIDE = {"COLUMNS": "140", "TERM": "xterm"}


def test_the_figures_are_means_over_the_trials_that_have_them() -> None:
    found = [Standing(10, 0, 30.0, 8.0), Standing(10, 5, None, None), Standing(0)]
    said = standing_text(found, 10, Limits(10.0, 4.0))
    assert said == "75.0% of pairs visited, L_Worst 30 (3.00× the optimum), L_Avg 8 (2.00×)"
    assert standing_text(found, 10, None) == "75.0% of pairs visited, L_Worst 30, L_Avg 8"
    assert standing_text([Standing(3)], 10, None) == ""


def test_not_quite_all_pairs_are_not_reported_as_all() -> None:
    assert standing_text([Standing(1, 1)], 10**6, None) == "99.9% of pairs visited"
    assert standing_text([Standing(1, 0)], 10**6, None) == "100.0% of pairs visited"


def test_lines_come_at_growing_intervals(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(import_module("mdpdsl.cli.console").time, "perf_counter", lambda: now)
    lines = ProgressLines()
    lines.begin("random")
    said = []
    for tenth in range(3_000):
        now = tenth / 10
        lines(tenth, 1_000, "")
        if capsys.readouterr().err:
            said.append(now)
    waits = [b - a for a, b in itertools.pairwise(said)]
    assert said[0] == 1.0
    assert waits[:5] == pytest.approx([2, 4, 8, 16, 32])
    assert max(waits) == pytest.approx(60)


def test_a_log_has_lines_only_if_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(import_module("mdpdsl.cli.console"), "FIRST_WAIT", 0.0)
    monkeypatch.setattr(executor, "LOOK_SECONDS", 0.0)
    run = ("explore", "riverswim", "--algorithm", "random", "--steps", "5e6", "--jobs", "1")
    asked = quick(*run, "--out", tmp_path / "asked", "--progress")
    line = r"random: [\d,]+ of 5,000,000 steps, [\d,]+ steps/s; 100\.0% of pairs visited, L_Worst"
    assert re.search(line, asked.stderr)
    assert quick(*run, "--out", tmp_path / "silent").stderr == ""
    assert quick(*run, "--out", tmp_path / "quiet", "--progress", "--quiet").stderr == ""
    quick(*run, "--out", tmp_path / "json", "--progress", "--json").json()


def test_a_terminal_shows_coverage_figures_and_rate(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", WATCHFUL, *ARGUMENTS, "--out", "run"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, **WIDE},
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.wait() == 0
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode())
    assert "steps/s" in text
    assert "% of pairs visited" in text
    assert re.search(r"L_Worst [\d,.]+ \(\d+\.\d\d× the optimum\), L_Avg", text)
