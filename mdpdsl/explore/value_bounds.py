"""What the data of a run guarantee about a property, and what they leave possible.

At some checkpoints of a trial, the counts so far give confidence sets, and these give two values:
with confidence 1 - delta, some policy achieves the guaranteed one, and no policy exceeds the
possible one. Both are those of `solve(run, property, robust=True)`.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mdpdsl.compile.model import Model
from mdpdsl.compile.properties import question
from mdpdsl.diagnostics import ModelError, SettingsError, SolveError
from mdpdsl.estimate.metrics import Measures, checkpoints
from mdpdsl.estimate.reference import estimate_reference
from mdpdsl.estimate.run_result import RunResult, RunTrial
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.ends import Settled
from mdpdsl.runs.records import RunConfiguration
from mdpdsl.solve.answer import finite_or_text

if TYPE_CHECKING:
    from mdpdsl.solve.robust_answer import RobustSolution

#: A trial has bounds at no more than this many of its checkpoints, the last one included.
MOST_TIMES = 12


def require_property(model: Model, asked: str) -> None:
    """Raise ModelError or SolveError if a model has no such property, or its text is wrong."""
    graph = model.graph
    try:
        question(model, graph, asked)
    except SolveError:
        # Without dynamics, rewards of transitions are known only once transitions were seen.
        if graph.has_dynamics or not model.checked.reward_names:
            raise


@dataclass(frozen=True, eq=False)
class ValueBounds:
    """The guaranteed and the possible value of a run's property, given counts."""

    model: Model
    configuration: RunConfiguration  # has the property

    @cached_property
    def times(self) -> frozenset[int]:
        """The checkpoints that have bounds: the last ones, as little is known at the first."""
        return frozenset(checkpoints(int(self.configuration.settings["steps"]))[-MOST_TIMES:])

    def add_to(
        self, measures: Measures, counts: Counts, settled: Settled | None = None
    ) -> Measures:
        """Return measures with the bounds; without them if these counts give none."""
        try:
            found = self._solved(counts, settled)
        except (ModelError, SettingsError, SolveError):
            return measures
        return replace(measures, guaranteed=found.guaranteed, possible=found.possible)

    def record(
        self, finals: Sequence[Measures], counts: Counts, settled: Settled | None = None
    ) -> dict[str, Any]:
        """Return the fields of a run's record: means over trials, or why there are none.

        `counts` are those of the last trial.
        """
        known = [m for m in finals if m.guaranteed is not None and m.possible is not None]
        is_known = bool(known) and len(known) == len(finals)
        return {
            "property": self.configuration.property,
            "guaranteed": _mean([m.guaranteed for m in known]) if is_known else None,
            "possible": _mean([m.possible for m in known]) if is_known else None,
            "bounds_missing": None if is_known else self._missing(counts, settled),
        }

    def _missing(self, counts: Counts, settled: Settled | None) -> str:
        """Return why there are no bounds."""
        try:
            self._solved(counts, settled)
        except (ModelError, SettingsError, SolveError) as error:
            return str(error)
        return "the counts of another trial give none"

    def _solved(self, counts: Counts, settled: Settled | None) -> RobustSolution:
        from mdpdsl.solve.robust_answer import RobustSolution
        from mdpdsl.solve.solve_model import solve

        nothing = Measures(0, 0, None, None, None)
        run = RunResult(
            model=self.model,
            configuration=self.configuration,
            trials=(RunTrial(0, counts, {}, nothing),),
            reference=estimate_reference([counts], None if settled is None else settled.graph),
            sets=None,
            settled=settled,
            path=None,
        )
        found = solve(run, self.configuration.property, robust=True)
        if found.status == "interrupted":
            # Let the run know that it has to stop after this checkpoint, and complete that first:
            # a resumed run has the same values as one that was never stopped.
            signal.raise_signal(signal.SIGINT)
            found = solve(run, self.configuration.property, robust=True)
            if found.status == "interrupted":
                raise KeyboardInterrupt
        assert isinstance(found, RobustSolution)
        return found


def bounds_of(model: Model, configuration: RunConfiguration) -> ValueBounds | None:
    """Return what computes the bounds of a run; None if it has no property."""
    return None if configuration.property is None else ValueBounds(model, configuration)


def bound_rows(run: RunResult) -> list[tuple[str, str]]:
    """Return what is guaranteed and what is possible in words; nothing if there are no bounds."""
    from mdpdsl.solve.robust_answer import outward_text

    guaranteed, possible = run.figures.guaranteed, run.figures.possible
    if guaranteed is None or possible is None:
        return []
    is_maximum, n = guaranteed <= possible, len(run.trials)
    mean = f", mean of {n} trials" if n > 1 else ""
    numbers = run.numbers
    if numbers is not None and not numbers.parameters.is_proved and not numbers.parameters.is_empty:
        names = " and ".join(numbers.parameters.names)
        mean += f"; the set of {names} is computed numerically, without proof"
    return [
        (
            "guaranteed",
            f"{outward_text(guaranteed, is_maximum)} (with confidence {1 - run.delta:g}{mean})",
        ),
        ("possible", f"{outward_text(possible, not is_maximum)} (no policy can do better)"),
    ]


def trial_bounds(measures: Measures | None) -> dict[str, Any]:
    """Return the bounds in the record of a trial; nothing if it has none."""
    if measures is None or measures.guaranteed is None:
        return {}
    return {
        "guaranteed": finite_or_text(measures.guaranteed),
        "possible": finite_or_text(measures.possible),
    }


def _mean(values: Sequence[float | None]) -> float | str | None:
    return finite_or_text(float(np.mean(np.array(values, np.float64))))
