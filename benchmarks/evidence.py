"""All explorers compared with the optimum on thirteen models; writes docs/evidence.md.

    python benchmarks/evidence.py [--quick] [--jobs 2] [--cache FOLDER] [--out docs]

Each explorer has one setting for all models: the candidate with the least geometric mean of
L_Worst / optimum on tuning seeds of nine models. The reported results are from other seeds, on
these and four more models. Finished cells are kept in the cache as JSON, so that a run that was
stopped continues from there; after a change to an explorer, choose another folder.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from evidence_models import EvidenceModel, evidence_models
from evidence_oracle import run_knowing
from evidence_report import Cell, Evidence, write_report

from mdpdsl.explore.executor import run_trials
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.graph.space import IntArray

TUNING_SEED, REPORT_SEED = 1000, 4711
TUNING_TRIALS, TRIALS = 5, 30

#: The candidate settings of each explorer.
CANDIDATES: dict[str, list[dict[str, Any]]] = {
    "tracking": [{"kappa": 10.0}, {"kappa": 4.0}, {"power": 3.0}],
    "kappa-dp": [
        {"kappa": kappa, "gamma": gamma, "bonus": bonus}
        for gamma, kappas in ((0.95, (1.0, 2.0, 4.0, 10.0)), (0.99, (1.0, 2.0)))
        for kappa in kappas
        for bonus in ("paper", "bernstein")
    ],
    "random": [{}],
    "weighted-maxent": [
        {"gamma": 0.95, "epsilon": 1e-3, "bonus": "paper"},
        {"gamma": 0.95, "epsilon": 1e-30, "bonus": "paper"},
        {"gamma": 0.95, "epsilon": 1e-3, "bonus": "bernstein"},
        {"gamma": 0.99, "epsilon": 1e-3, "bonus": "bernstein"},
    ],
    "smm": [
        {"gamma": 0.95, "bonus": "paper"},
        {"gamma": 0.95, "bonus": "bernstein"},
        {"gamma": 0.99, "bonus": "bernstein"},
    ],
    "maxent": [{"gamma": gamma, "xi": xi} for gamma in (0.95, 0.99) for xi in (0.1, 0.3)],
    "kappa-lp": [
        {"kappa": kappa, "bonus": bonus, "backend": "evi"}
        for kappa in (1.0, 2.0)
        for bonus in ("paper", "bernstein")
    ],
    "fw-modest": [{"bonus": bonus, "backend": "evi"} for bonus in ("paper", "bernstein")],
}
#: For these, every step changes all rewards, so whole sweeps cost less on small models.
SWEEPING = ("weighted-maxent", "smm", "maxent")
#: The explorer that knows the model, with these powers.
KNOWING = "knows P"
POWERS = (1.0, 4.0, 9.0)
#: The models of the paper; on their last budget, all candidates of these explorers with the gamma
#: of these models are run.
PAPER_MODELS = ("pendulum", "mountain car")
IN_DETAIL = ("tracking", "kappa-dp")
PAPER_GAMMA = 0.95
#: The best explorers on Mountain Car, where chance matters most, get this many times the trials.
CLOSE_MODEL, TIMES = "mountain car", 4
CLOSE: list[tuple[str, dict[str, Any]]] = [
    ("tracking", {"kappa": 10.0}),
    ("kappa-dp", {"kappa": 1.0, "gamma": 0.95, "bonus": "paper"}),
    ("kappa-dp", {"kappa": 2.0, "gamma": 0.95, "bonus": "paper"}),
    ("kappa-dp", {"kappa": 2.0, "gamma": 0.95, "bonus": "bernstein"}),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small trial run; writes no page")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cache", type=Path, default=Path("runs/evidence"))
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--only", help="run only these explorers (comma-separated); write nothing")
    arguments = parser.parse_args()
    models = evidence_models(arguments.quick)
    trials = 3 if arguments.quick else TRIALS
    tuning_trials = 1 if arguments.quick else TUNING_TRIALS
    runner = Runner(arguments.cache / ("quick" if arguments.quick else "full"), arguments.jobs)
    known = [*CANDIDATES, KNOWING]
    names = arguments.only.split(",") if arguments.only else known
    if not set(names) <= set(known):
        parser.error(f"--only must be among {', '.join(known)}")
    details = [
        runner.cell(model, model.budgets[-1], name, settings, REPORT_SEED, trials)
        for model in models
        if model.name in PAPER_MODELS
        for name, candidates in [*CANDIDATES.items(), (KNOWING, [{"power": p} for p in POWERS])]
        if name in names and name in (*IN_DETAIL, KNOWING)
        for settings in candidates
        if settings.get("gamma", PAPER_GAMMA) == PAPER_GAMMA
    ]
    tuning: list[tuple[str, dict[str, Any], float]] = []
    cells = []
    for name in [name for name in CANDIDATES if name in names]:
        scores = []
        for settings in CANDIDATES[name] if len(CANDIDATES[name]) > 1 else []:
            tuned = [
                runner.cell(model, model.budgets[1], name, settings, TUNING_SEED, tuning_trials)
                for model in models
                if not model.is_held_out
            ]
            scores.append(geometric_mean([float(np.mean(cell.worst)) for cell in tuned]))
            tuning.append((name, settings, scores[-1]))
        chosen = CANDIDATES[name][int(np.argmin(scores)) if scores else 0]
        cells += [
            runner.cell(model, steps, name, chosen, REPORT_SEED, trials)
            for model in models
            for steps in model.budgets
        ]
    close = [
        runner.cell(model, model.budgets[-1], name, settings, REPORT_SEED, TIMES * trials)
        for model in models
        if model.name == CLOSE_MODEL
        for name, settings in CLOSE
        if name in names
    ]
    if arguments.only is None and not arguments.quick:
        write_report(arguments.out, Evidence(models, cells, details, close, tuning))


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))


class Runner:
    """Runs cells, or reads them from the cache."""

    def __init__(self, folder: Path, jobs: int) -> None:
        self.folder, self.jobs = folder, jobs

    def cell(
        self,
        model: EvidenceModel,
        steps: int,
        algorithm: str,
        settings: dict[str, Any],
        seed: int,
        trials: int,
    ) -> Cell:
        """Return a cell from the cache, or run it."""
        words = [model.name, steps, algorithm, *(f"{k}={v}" for k, v in settings.items()), seed]
        path = self.folder / ("_".join(map(str, words)).replace(" ", "-") + f"_{trials}.json")
        if path.exists():
            return Cell(**json.loads(path.read_text("utf-8")))
        began = time.perf_counter()
        visits, seconds = self._visits(model, steps, algorithm, settings, seed, trials)
        figures = [model.measured(v, steps) for v in visits]
        cell = Cell(
            model=model.name,
            steps=steps,
            algorithm=algorithm,
            settings=settings,
            seed=seed,
            worst=[f.worst for f in figures],
            average=[f.average for f in figures],
            failed=[f.failed for f in figures],
            seconds=seconds,
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(cell)), "utf-8")
        result = f"{path.stem}: {np.mean(cell.worst):.3f} / {np.mean(cell.average):.3f}"
        print(f"{result} in {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
        return cell

    def _visits(
        self,
        model: EvidenceModel,
        steps: int,
        algorithm: str,
        settings: dict[str, Any],
        seed: int,
        trials: int,
    ) -> tuple[list[IntArray], float]:
        """Return the visits of every trial, and the total seconds."""
        if algorithm == KNOWING:
            began = time.perf_counter()
            found = run_knowing(model.graph, steps, settings["power"], seed, trials, self.jobs)
            return found, (time.perf_counter() - began) * self.jobs
        planner = "full" if algorithm in SWEEPING and model.graph.n_states <= 500 else model.planner
        chosen = ExploreSettings(algorithm=algorithm, steps=steps, planner=planner, **settings)
        results = run_trials(model.graph, chosen, seed=seed, trials=trials, jobs=self.jobs)
        if len(results) < trials or not all(result.is_finished for result in results):
            raise SystemExit("stopped; run the same command again to continue")
        return [r.counts.visits for r in results], sum(r.seconds for r in results)


if __name__ == "__main__":
    main()
