"""Run the command line: as a process of its own, or inside this one where that does not matter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from mdpdsl.cli import main

#: Generous: a process that takes longer hangs.
TIMEOUT = 60

GOOD = """\
mdp good "Two rooms"
param p = 0.5
state room in {left, right}
action go, wait
init room = left
on go when room == left -> p: room' = right | 1 - p: stay
on go otherwise -> room' = left
on wait -> stay
label there when room == right
"""

#: Two mistakes that show before anything is built, and one that shows only in states.
BAD_NAMES = GOOD.replace("room == right", "rom == right").replace(
    "-> room' = left", "-> room' = lft"
)
BAD_SUM = GOOD.replace("1 - p: stay", "0.25: stay")
BAD_SYNTAX = GOOD.replace("state room in", "state room on")


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    status: int
    stdout: str
    stderr: str

    def json(self) -> dict[str, Any]:
        """Return the one JSON object that is all of standard output."""
        record = json.loads(self.stdout, parse_constant=_refuse)
        assert isinstance(record, dict)
        assert self.stdout.count("\n") == 1, "more than one line"
        assert self.stderr == "", "with --json nothing is left for standard error"
        return record


def mdpdsl(
    *arguments: str | Path,
    stdin: bytes = b"",
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Run `python -m mdpdsl` as a process."""
    done = subprocess.run(
        [sys.executable, "-m", "mdpdsl", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        timeout=TIMEOUT,
        check=False,
    )
    outcome = Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert "Traceback" not in outcome.stderr, outcome.stderr
    return outcome


def quick(*arguments: str | Path, stdin: str | bytes = "") -> Outcome:
    """Run a command inside this process, with all that `main` makes of errors and warnings."""
    given, status = sys.argv, None
    with CliRunner().isolation(stdin) as (stdout, stderr, _), warnings.catch_warnings():
        sys.argv = ["mdpdsl", *map(str, arguments)]
        try:
            main()
        except SystemExit as end:
            status = end.code
        finally:
            sys.argv = given
    assert isinstance(status, int)
    return Outcome(status, stdout.getvalue().decode(), stderr.getvalue().decode())


def written(folder: Path, text: str | bytes, name: str = "model.mdp") -> Path:
    """Write a model file."""
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
