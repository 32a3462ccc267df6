"""The command that a report gives does the run again."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

import mdpdsl
from mdpdsl.report.repeat import repeating_command
from tests.cli.run import quick, written
from tests.report.made_runs import PLANE


@pytest.mark.parametrize(
    "name", ["explore", "single", "estimate", "replay", "bounds", "compare/02-random"]
)
def test_the_command_counts_the_same(made: dict[str, Path], name: str, tmp_path: Path) -> None:
    place = made["compare"] / "02-random" if "/" in name else made[name]
    run = mdpdsl.open_run(place)
    command = repeating_command(run)
    assert command is not None
    out = tmp_path / "again"
    done = quick(*shlex.split(command)[1:], "--out", str(out), "--quiet")
    assert done.status == 0, done.stderr
    again = mdpdsl.open_run(out)
    assert again.configuration.settings == run.configuration.settings
    assert again.configuration.property == run.configuration.property
    assert len(again.trials) == len(run.trials)
    for one, other in zip(run.trials, again.trials, strict=True):
        assert np.array_equal(one.counts.count, other.counts.count)
        assert np.array_equal(one.counts.successor, other.counts.successor)


def test_settings_beside_the_models_own_are_in_the_command(tmp_path: Path) -> None:
    model = written(tmp_path, PLANE)
    given = (
        *("--kappa", "3", "--horizon", "2", "--gamma", "0.9", "--bonus", "none"),
        *("--no-discount-last", "--prior", "0.5", "--steps", "300", "--seed", "7"),
        *("--set", "p=0.25", "--all-states"),
    )
    assert quick("explore", model, *given, "--out", tmp_path / "run").status == 0
    command = repeating_command(mdpdsl.open_run(tmp_path / "run"))
    assert command is not None
    words = shlex.split(command)
    for word in given:
        if word == "--horizon":
            assert words[words.index(word) + 1] == "2"
        elif word.startswith("--"):
            assert word in words
    assert float(words[words.index("--prior") + 1]) == 0.5
    assert "p=0.25" in words


def test_a_system_that_a_program_calls_has_no_command(made: dict[str, Path]) -> None:
    assert repeating_command(mdpdsl.open_run(made["live"])) is None
