"""What estimates and runs of explorers have in common: counts, measured against a reference.

With counts T(s,a,s') of n transitions, L(s,a) = n c(s,a)/T(s,a); L_Worst and L_Avg are its maximum
and mean (paper, section on evaluation metrics). c is that of the truth, of a log, or of the
estimate itself, whichever is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdpdsl.compile.model import Model
from mdpdsl.compile.set_model import FamilySets, SetModel, law_warning
from mdpdsl.compile.stored import Provenance, StoredModel, guessed_pairs
from mdpdsl.diagnostics import SettingsError
from mdpdsl.estimate.confidence_sets import ConfidenceSets, confidence_sets
from mdpdsl.estimate.empirical import estimated_graph, too_large_estimate
from mdpdsl.estimate.metrics import Measures
from mdpdsl.estimate.reference import Reference
from mdpdsl.estimate.saved import graph_with_rewards, guesses
from mdpdsl.graph.analysis import reachable_states
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.ends import Settled
from mdpdsl.graph.restrict import restrict
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.graph.tables import Tabular, pair_columns
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.representation import represented
from mdpdsl.runs.labels import settings_label
from mdpdsl.runs.records import RunConfiguration

if TYPE_CHECKING:
    import pyarrow as pa

    from mdpdsl.estimate.learned_numbers import LawFit, LearnedNumbers
    from mdpdsl.estimate.row_fit import Misfit
    from mdpdsl.logs.raw_steps import RawTransitions


@dataclass(frozen=True, eq=False)
class RunTrial:
    """One trial; an estimate and a live run consist of one trial."""

    index: int
    counts: Counts  # over the pairs of the result's graph
    metrics: Mapping[str, FloatArray]  # name -> [n_checkpoints]; empty for an estimate
    final: Measures


@dataclass(frozen=True)
class RunFigures:
    """The final measures; `worst` and `average` are means over trials that visited all pairs."""

    n_trials: int
    failure_rate: float
    coverage: float  # the share of pairs visited, mean over trials
    transitions: float
    worst: float | None
    average: float | None
    worst_se: float | None
    average_se: float | None
    guaranteed: float | None  # of the run's property, mean over all trials
    possible: float | None


@dataclass(frozen=True, eq=False)
class RunResult(Tabular):
    """Counts over a model's pairs, where they are from, and how good they are."""

    model: Model
    configuration: RunConfiguration
    trials: tuple[RunTrial, ...]
    reference: Reference
    sets: ConfidenceSets | None  # of an estimate, and of a live run
    settled: Settled | None  # the same: the ends that the data show
    path: Path | None  # the folder, if the result was saved or read

    @property
    def kind(self) -> str:
        """What was done: `explore`, `replay` (of a log), `live` or `estimate`."""
        return self.configuration.kind

    @property
    def label(self) -> str:
        """The name of the run in tables."""
        if self.kind == "estimate":
            return "log estimate"
        return settings_label(self.configuration.settings)

    @property
    def radius(self) -> FloatArray | None:
        """The l1 radii of the confidence sets, [n_pairs]."""
        return None if self.sets is None else self.sets.radius

    @property
    def graph(self) -> TransitionGraph:
        """The graph of the model, with the ends found; everything is counted over its pairs."""
        return self.model.graph if self.settled is None else self.settled.graph

    @property
    def counts(self) -> Counts:
        """The counts of the first trial; `trials` has those of all."""
        return self.trials[0].counts

    @property
    def prior(self) -> float:
        """The number that the estimate adds to the count of every successor seen."""
        return float(self.configuration.settings.get("prior", 0.0))

    @property
    def knows_support(self) -> bool:
        """Whether the possible successors are taken from the model."""
        return self.sets is not None and self.sets.support == "model"

    @cached_property
    def estimate(self) -> TransitionGraph:
        """The graph estimated from the counts of the first trial."""
        found = estimated_graph(
            self.counts, self.graph, self.prior, knows_support=self.knows_support
        )
        return found if self.law is None else self.law.rows_of_laws(found)

    @cached_property
    def law(self) -> LawFit | None:
        """The rows of laws at the most likely values of the unknown numbers."""
        from mdpdsl.estimate.learned_numbers import fitted_law

        return fitted_law(self.model.checked, self.graph, self.counts, self._raw_steps)

    @cached_property
    def numbers(self) -> LearnedNumbers | None:
        """The model's unknown numbers, estimated from the first trial; None if it has none."""
        return self._learned(self.delta)

    @cached_property
    def known_misfit(self) -> Misfit | None:
        """The rows of the model that the data contradict; None if it leaves none open."""
        from mdpdsl.estimate.row_fit import known_misfit

        return known_misfit(self.graph, self.counts)

    @property
    def delta(self) -> float:
        """The risk of the run's confidence sets."""
        return float(self.configuration.settings.get("delta", 0.1))

    def _learned(self, delta: float) -> LearnedNumbers | None:
        """Estimate the unknown numbers with sets of another risk."""
        from mdpdsl.estimate.learned_numbers import has_laws, learned_numbers

        if not has_laws(self.graph) or self.counts.n_transitions == 0:
            return None
        settings = self.configuration.settings
        is_finite = self.kind == "explore" and settings.get("simulate", "model") == "model"
        return learned_numbers(
            self.model.checked,
            self.graph,
            self.counts,
            delta,
            self._raw_steps,
            is_finite=is_finite,
        )

    @property
    def _raw_steps(self) -> RawTransitions | None:
        """The raw values of the steps, if they are kept."""
        return None

    def as_model(self, *, all_states: bool = False) -> StoredModel:
        """Return the estimate as a model, over the states that it can reach, or over all."""
        knows = self.knows_support
        too_large = too_large_estimate(self.counts, self.graph, knows_support=knows)
        if too_large is not None:
            raise SettingsError(f"there is no estimate: {too_large}")
        graph, missing = graph_with_rewards(
            self.counts, self.model, self.graph, self.prior, knows, self.law
        )
        kept = np.ones(graph.n_states, np.bool_) if all_states else reachable_states(graph)
        is_guess = guesses(self.counts, self.graph, self.law)
        provenance = Provenance(
            str(self.path or self.label),
            int(np.count_nonzero(is_guess)),
            graph.n_pairs,
            int(np.count_nonzero(~kept)),
            missing,
            guessed_pairs(graph, is_guess, kept),
        )
        model, checked = self.model, self.model.checked
        if checked.unknowns:  # the estimate has its own values, and never the truth
            own, names = {}, [each.name for each in checked.unknowns]
            if self.law is not None and not np.isnan(self.law.theta).any():
                own = dict(zip(names, self.law.theta.tolist(), strict=True))
            given = {k: v for k, v in checked.parameters.items() if k not in names}
            checked = replace(checked, parameters=given | own)
        return StoredModel(checked, model.source, restrict(graph, kept), provenance)

    def as_sets(self, *, support: str | None = None, delta: float | None = None) -> SetModel:
        """Return the estimate over all states, with the rows that the data allow.

        `support` says which successors are possible (seen, all or model), `delta` is the risk that
        the true rows are not all allowed; both default to those of the run.
        """
        from mdpdsl.estimate.chosen_sets import chosen_sets
        from mdpdsl.estimate.intervals import SETS

        model = self.as_model(all_states=True)
        sets, _ = chosen_sets(self, model.graph, support or "auto", delta)
        if sets.kind not in SETS:  # those of version 1 do not hold
            sets, _ = chosen_sets(self, model.graph, support or "auto", sets.delta)
        found = SetModel(
            model,
            sets.rows,
            self.counts.visits,
            sets.delta,
            sets.kind,
            sets.support,
            sets.holds,
        )
        return found if sets.support != "model" else self._with_numbers(found, sets)

    def _with_numbers(self, found: SetModel, sets: ConfidenceSets) -> SetModel:
        """Return sets in which one value of each unknown number rules all rows of its law."""
        knowledge = sets.graph.knowledge
        if knowledge is None:
            return found
        numbers, known = self.family_sets(sets), self.known_misfit
        misfit = 0 if known is None else len(known.pairs)
        learned = self._learned_at(sets.delta)
        if learned is not None:
            found = replace(found, unfitted=_unfitted(learned))
            misfit += learned.n_misfit
        if numbers is not None:
            return replace(found, numbers=numbers, misfit=misfit)
        # Balls take no notice of known shares, which intervals do.
        is_partly_known = bool(knowledge.share[~knowledge.is_known[knowledge.entry_pair]].any())
        has_balls = sets.kind == "time-uniform" and not is_partly_known
        return replace(found, shape="kl" if has_balls else "intervals", misfit=misfit)

    def family_sets(self, sets: ConfidenceSets) -> FamilySets | None:
        """Return the unknown numbers that the data allow, and the sets of all other rows.

        Both hold together with the probability of the given sets. None if no row depends on such
        numbers, or if no values of them fit the data.
        """
        learned, knowledge = self._learned_at(sets.delta), sets.graph.knowledge
        if learned is None or knowledge is None or learned.parameters.is_empty:
            return None
        parameters = learned.parameters
        rest = min(parameters.delta, sets.delta)  # half each, if there are other open rows
        others = confidence_sets(
            sets.counts, sets.graph, rest, sets.kind, "model", left_out=knowledge.is_law
        )
        middle = np.mean(parameters.boxes.hull, axis=0)
        theta = np.where(np.isnan(parameters.value), middle, parameters.value)
        return FamilySets(
            learned.family, parameters.boxes, others.rows, theta, parameters.is_proved
        )

    def law_warning(self, sets: ConfidenceSets) -> str | None:
        """Return what is wrong if the data contradict the model's law, in words."""
        if sets.support != "model" or sets.graph.knowledge is None:
            return None
        learned, known = self._learned_at(sets.delta), self.known_misfit
        misfit = 0 if known is None else len(known.pairs)
        if learned is None:
            return law_warning(misfit, (), ())
        return law_warning(misfit + learned.n_misfit, learned.parameters.names, _unfitted(learned))

    def _learned_at(self, delta: float) -> LearnedNumbers | None:
        return self.numbers if delta == self.delta else self._learned(delta)

    @property
    def optimum(self) -> Mapping[str, float] | None:
        """The least possible `worst` and `average`; None if they are not known."""
        return None

    @property
    def optimum_reason(self) -> str | None:
        """Why no optimum is known."""
        return None

    @property
    def true_value(self) -> float | None:
        """The true optimum of the run's property; None if it is not known."""
        return None

    @property
    def rejected(self) -> Mapping[str, int]:
        """Rows that could not be counted, by reason."""
        return {}

    @property
    def speed(self) -> float | None:
        """Steps, or rows, per second."""
        return None

    @cached_property
    def metrics(self) -> dict[str, FloatArray]:
        """Measures over time: `step` [n_times], others [n_trials, n_times], NaN if not measured."""
        if not all(trial.metrics for trial in self.trials):
            return {}
        steps = np.unique(np.concatenate([trial.metrics["step"] for trial in self.trials]))
        every = dict.fromkeys(name for trial in self.trials for name in trial.metrics)
        names = [name for name in every if name != "step"]
        found = {name: np.full((len(self.trials), len(steps)), np.nan) for name in names}
        for row, trial in enumerate(self.trials):
            place = np.searchsorted(steps, trial.metrics["step"])
            for name in names:
                found[name][row, place] = trial.metrics.get(name, np.nan)
        return {"step": steps, **found}

    @cached_property
    def figures(self) -> RunFigures:
        """The final measures."""
        finals = [trial.final for trial in self.trials]
        worst = [m.worst for m in finals if m.worst is not None]
        average = [m.average for m in finals if m.average is not None]
        guaranteed = [m.guaranteed for m in finals if m.guaranteed is not None]
        possible = [m.possible for m in finals if m.possible is not None]
        n_measured = max(1, int(np.count_nonzero(self.reference.measured)))
        unvisited = np.array([m.unvisited for m in finals])
        return RunFigures(
            n_trials=len(finals),
            failure_rate=float(self._failed(unvisited).mean()),
            coverage=float(1 - np.mean(unvisited) / n_measured),
            transitions=float(np.mean([t.counts.n_transitions for t in self.trials])),
            worst=_mean(worst),
            average=_mean(average),
            worst_se=_standard_error(worst),
            average_se=_standard_error(average),
            guaranteed=_mean(guaranteed) if len(guaranteed) == len(finals) else None,
            possible=_mean(possible) if len(possible) == len(finals) else None,
        )

    def _failed(self, unvisited: IntArray) -> BoolArray:
        """Return which trials left out a pair, [n_trials]; a live system may not reach them all."""
        if self.kind == "live" and self.settled is not None:
            return np.array([len(self.settled.untried) > 0])
        return unvisited > 0

    def ratio(self, name: str) -> float | None:
        """Return `worst` or `average`, divided by the optimum."""
        value, least = getattr(self.figures, name), (self.optimum or {}).get(name)
        return None if value is None or not least else value / least

    def table(self) -> pa.Table:
        """Return one row for each pair of each trial: visits T, complexity c, and L = n c/T."""
        import pyarrow as pa

        c, pairs = self.reference.complexity, np.arange(self.graph.n_pairs)
        parts = []
        for trial in self.trials:
            visits = trial.counts.visits
            with np.errstate(divide="ignore", invalid="ignore"):
                losses = np.where(visits > 0, c * visits.sum() / visits, np.inf)
            losses = np.where(self.graph.to_learn, losses, 0.0)
            columns: dict[str, Any] = {"trial": np.full(len(pairs), trial.index)}
            columns |= pair_columns(self.graph, pairs)
            parts.append(pa.table(columns | {"visits": visits, "complexity": c, "loss": losses}))
        return pa.concat_tables(parts)

    def record(self) -> dict[str, Any]:
        """Return the results as `--json` prints them."""
        raise TypeError(f"{type(self).__name__} has no record")

    def __repr__(self) -> str:
        place = "" if self.path is None else f" in {self.path}"
        return f"<{type(self).__name__} {self.label} of {self.model.name}{place}>"

    def _repr_html_(self) -> str | None:
        return represented("run_html", self)


def _unfitted(learned: LearnedNumbers) -> tuple[str, ...]:
    return tuple(learned.parameters.names) if learned.parameters.is_empty else ()


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _standard_error(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))
