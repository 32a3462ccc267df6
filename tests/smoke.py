"""Run every command of the program once, on something small: `python -m tests.smoke`.

`.ci/lowest` runs this with the lowest versions that pyproject.toml allows. It needs mdpdsl with its
extras (cluster, editor, gym, minari) and no package for development.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from math import isclose
from pathlib import Path
from typing import Any

#: Generous: the first command that needs compiled loops may have to compile them.
TIMEOUT = 300
#: How far results of two solvers for one problem may be apart, relatively.
TOLERANCE = 1e-4
#: Characters shown of what a failed command printed.
LAST = 3_000
FORMATS = ("prism", "explicit", "drn", "gym", "quantecon", "npz", "dot", "lp", "mps")


class Smoke:
    """Runs commands in one folder and stops at the first that fails."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commands: set[str] = set()
        self.environment = os.environ | {"MINARI_DATASETS_PATH": str(folder / "datasets")}

    def text(self, line: str) -> str:
        """Run a command, words separated by spaces; return what it prints."""
        self.commands.add(line.split()[0])
        done = subprocess.run(
            [sys.executable, "-m", "mdpdsl", *line.split()],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        if done.returncode or "Traceback" in done.stderr or "Warning" in done.stderr:
            printed = (done.stdout + done.stderr)[-LAST:]
            sys.exit(f"mdpdsl {line}\nexit status {done.returncode}\n{printed}")
        return done.stdout

    def json(self, line: str) -> dict[str, Any]:
        """Run a command with --json; return its record."""
        record = json.loads(self.text(f"{line} --json"))
        assert isinstance(record, dict), record
        return record

    def agree(self, key: str, *lines: str) -> None:
        """Run commands that find the same number by different methods."""
        found = [float(self.json(line)[key]) for line in lines]
        assert all(isclose(x, found[0], rel_tol=TOLERANCE) for x in found), (lines, found)

    def wrote(self, *names: str) -> None:
        """Require files that a command should have written."""
        for name in names:
            assert (self.folder / name).stat().st_size > 0, name


def models(smoke: Smoke) -> None:
    """List, check, format and show models."""
    assert len(smoke.json("models")["models"]) > 20
    (smoke.folder / "mine.mdp").write_text(smoke.text("models riverswim"), "utf-8")
    assert all(file["ok"] for file in smoke.json("check mine.mdp pendulum")["files"])
    smoke.json("fmt mine.mdp")
    assert not smoke.json("fmt --check mine.mdp")["files"][0]["changed"]
    assert smoke.json("show mine.mdp")["pairs"] == 12
    for ending in ("svg", "png", "dot"):
        smoke.text(f"show mine.mdp --graph shown.{ending}")
        smoke.wrote(f"shown.{ending}")
    assert smoke.json("lsp")


def programs(smoke: Smoke) -> None:
    """Solve and allocate by every method."""
    methods = ("vi", "mpi", "pi", "lp", "lp --backend pyomo-highs", "auto --policy-out policy.csv")
    smoke.agree("value", *(f"solve riverswim --discount 0.9 --method {m}" for m in methods))
    smoke.agree("value", *(f"solve knuth_yao --reach six --method {m}" for m in methods[:4]))
    lp = "allocate riverswim --kappa inf --method lp --backend"
    smoke.agree("objective", "allocate riverswim --kappa inf", f"{lp} highs", f"{lp} pyomo-highs")
    smoke.json("allocate riverswim --kappa 2 --distance root-l2 --out shares.npz")
    smoke.json("allocate gridworld --set n=60 --kappa 2")  # large enough for banded equations
    smoke.wrote("policy.csv", "shares.npz")


def exploration(smoke: Smoke) -> None:
    """Explore simulated and live systems and logs; compare explorers."""
    smoke.json("explore riverswim --steps 2000 --trials 3 --jobs 2 --out run")
    smoke.json("explore --resume run")
    for algorithm in ("tracking", "random", "maxent", "weighted-maxent", "smm", "fw-modest"):
        smoke.json(f"explore riverswim --steps 500 --algorithm {algorithm} --out {algorithm}")
    for backend in ("pyomo-highs", "highs", "evi"):
        lp = f"--algorithm kappa-lp --backend {backend} --out lp-{backend}"
        smoke.json(f"explore riverswim --set n=4 --steps 200 {lp}")
    smoke.json("explore pendulum --simulate continuous --steps 1000 --out continuous")
    smoke.json("explore pendulum_unknown --env Pendulum-v1 --steps 500 --out live")
    smoke.json("simulate riverswim --steps 1000 --out log.csv")
    smoke.json("explore riverswim --log log.csv --trials 2 --out replay")
    algorithms = "--algorithm kappa-dp --algorithm random"
    rows = smoke.json(f"compare riverswim {algorithms} --steps 500 --trials 2 --save table")["rows"]
    assert [row["algorithm"] for row in rows] == ["kappa-dp", "random"]
    smoke.json("compare pendulum --algorithm tracking --steps 1000 --trials 1")


def logs(smoke: Smoke) -> None:
    """Estimate from every kind of log, and plan from what was estimated."""
    for ending in ("csv", "csv.gz", "parquet", "jsonl"):
        smoke.json(f"simulate pendulum --steps 500 --out pendulum.{ending}")
        read = smoke.json(f"estimate pendulum pendulum.{ending} --out from-{ending}")
        assert (read["transitions"], read["rejected"]) == (500, {}), read
    smoke.json("estimate riverswim log.csv --out estimate")
    smoke.json("new log.csv --out drafted.mdp")
    assert smoke.json("estimate drafted.mdp log.csv --out drafted")["rejected"] == {}
    smoke.json("new CartPole-v1")
    smoke.json("explore CartPole-v1.mdp --env CartPole-v1 --steps 100 --out balanced")
    assert smoke.json("plan estimate --kappa 2")["pairs"]
    smoke.json("solve estimate --discount 0.9")
    _write_dataset(smoke)
    read = smoke.json("estimate minari.mdp minari:pendulum/random-v0 --out from-minari")
    assert read["transitions"] == 30, read


def reports(smoke: Smoke) -> None:
    """Report and plot runs of every kind."""
    smoke.json("report run")
    smoke.json("report run estimate replay live table --out all.html")
    smoke.wrote("run/report.html", "all.html")
    for figure in ("worst", "visits", "graph"):
        smoke.json(f"plot run --figure {figure} --out {figure}.png")
    smoke.json("plot continuous --figure complexity --out complexity.pdf")
    smoke.json("plot run table --figure ratios --out ratios.svg")
    smoke.wrote("worst.png", "visits.png", "graph.png", "complexity.pdf", "ratios.svg")


def formats(smoke: Smoke) -> None:
    """Write every format, and read back those that can be."""
    paths = {name: smoke.json(f"export mine.mdp --to {name}")["path"] for name in FORMATS}
    smoke.wrote(*paths.values())
    smoke.json("export estimate --to drn --intervals --out intervals.drn")
    for i, source in enumerate((paths["explicit"], paths["npz"], "gym:FrozenLake-v1")):
        assert smoke.json(f"import {source} --out read-{i}.mdp")["pairs"] >= 12


def cluster(smoke: Smoke) -> None:
    """Run trials on a cluster: the results are those of this machine."""
    from distributed import LocalCluster

    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address=":0"
    ) as started:
        there = f"--cluster {started.scheduler_address}"
        explore = "explore riverswim --steps 2000 --trials 3"
        smoke.agree("worst", f"{explore} {there} --out there", f"{explore} --out here")


def _write_dataset(smoke: Smoke) -> None:
    """Record thirty steps of a pendulum as a Minari dataset, with a model that reads it."""
    model = smoke.text("models pendulum_unknown").replace("= torque", "= round(act_0)")
    (smoke.folder / "minari.mdp").write_text(model, "utf-8")
    os.environ.update(smoke.environment)
    from tests.logs.minari_datasets import lived, written

    written("pendulum/random-v0", lived("Pendulum-v1", [10, 20]))


def main() -> None:
    """Run every part, and require that no command was left out."""
    with tempfile.TemporaryDirectory() as folder:
        smoke = Smoke(Path(folder))
        parts: list[Callable[[Smoke], None]]
        parts = [models, programs, exploration, logs, reports, formats, cluster]
        for part in parts:
            part(smoke)
            print(f"{part.__name__}: passed", flush=True)
        known = re.findall(r"^  (\w+)  ", smoke.text("--help").partition("Commands:")[2], re.M)
        assert set(known) <= smoke.commands, set(known) - smoke.commands


if __name__ == "__main__":
    main()
