"""CPU seconds that a command takes from its start to its end: the first time, and every time after.

    python benchmarks/startup.py [--rounds 3] [--json]

Every measurement is a process of its own, with its children: user and system time, which a busy
machine changes less than the clock. A first run compiles its kernels into an empty cache; a
repeated run loads them. `import numba` is measured beside them, as a yardstick for the machine.
Bytecode and parser tables are cached, as they are for a user.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TypedDict

FIFTY_LINES = "\n".join(
    [
        "mdp fifty",
        *[f"param p{i} = 0.{i + 10}" for i in range(10)],
        "state x in 0..9",
        "state y in 0..9",
        "action a, b, c",
        "init x = 0, y = 0",
        *[f"let v{i} = min(x + {i}, 9)" for i in range(10)],
        *[
            f"on {action} when x == {i} -> p{i}: x' = v1 | 1 - p{i}: y' = (y + {i} + 1) % 10"
            for i in range(7)
            for action in "abc"
        ],
        "on any otherwise -> x' = 0, y' = v0",
        "reward on a : x",
        "reward when y == 3 : v2",
        "label goal when x == 9 and y == 9",
    ]
)
PENDULUM = Path(__file__).parents[1] / "models" / "pendulum.mdp"
EXPLORE = ["-m", "mdpdsl", "explore", str(PENDULUM), "--kappa", "10", "--quiet"]


class Row(TypedDict):
    """The CPU seconds of one command."""

    command: str
    cpu_seconds: float  # median
    spread: list[float]  # all of them, ascending
    target: float | None


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Path(folder), options.rounds)
    if options.json:
        print(json.dumps(rows))
        return
    for row in rows:
        spread = f"{row['spread'][0]:.2f} to {row['spread'][-1]:.2f}"
        target = "" if row["target"] is None else f"  target {row['target']:g}"
        print(f"{row['command']:32} {row['cpu_seconds']:7.2f} s CPU ({spread}){target}")


def measure(folder: Path, rounds: int) -> list[Row]:
    """Run every command once per round, so that a busy minute slows all of them."""
    fifty = folder / "fifty.mdp"
    fifty.write_text(FIFTY_LINES, encoding="utf-8")
    n_lines = len(FIFTY_LINES.splitlines())
    commands: list[tuple[str, list[str], float | None]] = [
        ("import numba", ["-c", "import numba"], None),
        ("mdpdsl --help", ["-m", "mdpdsl", "--help"], 0.15),
        (f"mdpdsl check, {n_lines} lines", ["-m", "mdpdsl", "check", str(fifty)], 0.5),
        ("mdpdsl explore, first run", EXPLORE, 15.0),
        ("mdpdsl explore, repeated", EXPLORE, 2.0),
    ]
    found: dict[str, list[float]] = {title: [] for title, _, _ in commands}
    for number in range(1 + rounds):  # the first fills the caches of bytecode and does not count
        kernels = folder / f"kernels-{number}"
        for title, arguments, _ in commands:
            seconds = cpu_seconds(arguments, folder, kernels)
            if number > 0:
                found[title].append(seconds)
    return [
        {
            "command": title,
            "cpu_seconds": statistics.median(found[title]),
            "spread": sorted(found[title]),
            "target": target,
        }
        for title, _, target in commands
    ]


def cpu_seconds(arguments: list[str], folder: Path, kernels: Path) -> float:
    """Return the user and system time of Python with these arguments, and of its children."""
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(kernels),
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, *arguments]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, f"{arguments}: {done.stderr}"
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


if __name__ == "__main__":
    main()
