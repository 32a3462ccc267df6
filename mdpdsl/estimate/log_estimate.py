"""An estimate from logs: in memory, in its folder, and read from there again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import RunError
from mdpdsl.estimate.confidence_sets import ConfidenceSets
from mdpdsl.estimate.learned_numbers import LawFit, LearnedNumbers, has_laws, learned_numbers
from mdpdsl.estimate.metrics import measure
from mdpdsl.estimate.reference import estimate_reference
from mdpdsl.estimate.run_result import RunResult, RunTrial
from mdpdsl.estimate.saved import (
    save_estimate,
    saved_numbers,
    saved_steps,
    steps_arrays,
    stored_sets,
    with_data_starts,
)
from mdpdsl.files import write_arrays
from mdpdsl.graph.ends import Settled
from mdpdsl.graph.tables import transition_table
from mdpdsl.logs.raw_steps import RawTransitions
from mdpdsl.logs.rejections import Example, Rejections
from mdpdsl.runs.arrays import read_settled
from mdpdsl.runs.directory import COUNTS, NUMBERS, STEPS, RunDirectory
from mdpdsl.runs.records import EstimateRecord, RunConfiguration, decoded, encoded
from mdpdsl.runs.run_models import resumed_model

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False, repr=False)
class Estimate(RunResult):
    """A model estimated from logs: counts, confidence sets, and what could not be counted."""

    sets: ConfidenceSets
    settled: Settled
    summary: EstimateRecord
    learned: LearnedNumbers | None = None
    steps: RawTransitions | None = None  # the raw values behind the unknown numbers

    @cached_property
    def numbers(self) -> LearnedNumbers | None:
        """The estimates of the model's unknown numbers; None if it has none."""
        return self.learned

    @cached_property
    def law(self) -> LawFit | None:
        """The rows of laws at the most likely values of the unknown numbers."""
        return None if self.learned is None else self.learned.law

    @property
    def _raw_steps(self) -> RawTransitions | None:
        return self.steps

    @property
    def transitions(self) -> int:
        """The number of transitions counted."""
        return self.counts.n_transitions

    @property
    def rejected(self) -> dict[str, int]:
        """Rows that could not be counted, by reason."""
        return dict(self.summary.rejected)

    @property
    def rejections(self) -> Rejections:
        """Rows that could not be counted, by reason, with examples."""
        examples = {
            reason: [Example(each.file, each.row, each.found) for each in kept]
            for reason, kept in self.summary.examples.items()
        }
        return Rejections(self.rejected, examples)

    @property
    def speed(self) -> float | None:
        """Rows per second."""
        return self.summary.rows_per_second

    def table(self) -> pa.Table:
        """Return one row for each transition that was seen, with its interval of probability."""
        counts, intervals = self.counts, self.sets.intervals
        pair = np.repeat(np.arange(self.graph.n_pairs), np.diff(counts.successor_start))
        columns = {
            "count": counts.count,
            "probability": counts.count / counts.visits[pair],
            "lower": intervals.lower,
            "upper": intervals.upper,
        }
        return transition_table(self.graph, pair, counts.successor.astype(np.int64), columns)

    def record(self) -> dict[str, Any]:
        """Return the results as `--json` prints them."""
        found = encoded(self.summary)
        if self.summary.numbers is not None:
            found |= {"params": found["parameters"], "parameters": found["numbers"]}
        return found | {"run": None if self.path is None else str(self.path)}

    def save(self, path: str | Path, *, overwrite: bool = False) -> Estimate:
        """Write a folder that `mdpdsl.open_run` reads; return the result with its path."""
        with RunDirectory.create(
            Path(path), self.configuration, self.model.source.text, overwrite=overwrite
        ) as run:
            saved = replace(self, path=run.path)
            save_estimate(
                run.path,
                self.settled,
                self.sets,
                self.model,
                self.prior,
                self.rejections,
                self.law,
            )
            if self.learned is not None:
                write_arrays(run.path / NUMBERS, self.learned.arrays())
            if self.steps is not None:
                write_arrays(run.path / STEPS, steps_arrays(self.steps))
            run.write_summary(saved.record())
        return saved


def open_estimate(run: RunDirectory, configuration: RunConfiguration) -> Estimate:
    """Read an estimate from its folder; raise RunError, ModelError or ValueError."""
    record = run.summary()
    if record is None:
        raise RunError(f"the run {run.path} was not finished; run it again")
    model = resumed_model(run, configuration)
    settled = with_data_starts(model, read_settled(run.path / COUNTS, model.graph))
    sets = stored_sets(run.path, settled, configuration.settings)
    # Version 1 had radii, did not say what its sets assume, and knew no ends.
    said = {"sets": sets.kind, "support": sets.support, "holds": sets.holds}
    unsaid: dict[str, Any] = {"contradictions": None, "episodes": None, "ends": [], "reading": {}}
    given = {"parameters": record["params"]} if "params" in record else {}
    summary = decoded(EstimateRecord, {"says_ends": False} | unsaid | said | record | given)
    found = estimate_of(model, configuration, settled, sets, summary, run.path)
    if not has_laws(settled.graph):
        return found
    steps = saved_steps(run.path)
    learned = saved_numbers(run.path, model, settled)
    if learned is None:
        delta = float(configuration.settings["delta"])
        learned = learned_numbers(model.checked, settled.graph, settled.counts, delta, steps)
    return replace(found, learned=learned, steps=steps)


def estimate_of(
    model: Model,
    configuration: RunConfiguration,
    settled: Settled,
    sets: ConfidenceSets,
    summary: EstimateRecord,
    path: Path | None,
) -> Estimate:
    """Return an estimate from its counts and sets, without its unknown numbers."""
    counts = settled.counts
    reference = estimate_reference([counts], settled.graph)
    measured, n = reference.measured, counts.n_transitions
    final = measure(n, counts.visits[measured], reference.complexity[measured], 1.0, n)
    trial = RunTrial(0, counts, {}, final)
    return Estimate(model, configuration, (trial,), reference, sets, settled, path, summary=summary)
