"""The unknown numbers of a model, as the data of a run determine them.

The likelihood is that of the counts, or that of the raw values of a log if the model is continuous:
cells blur where a step came from, so that counts alone would be biased. The estimate is a model at
the most likely values, and a family of models over the set of values that the data allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.compile.family import Family
from mdpdsl.estimate.count_likelihood import CountLikelihood
from mdpdsl.estimate.likelihood import TWO_DEVIATIONS, Likelihood, Peak
from mdpdsl.estimate.parameter_estimate import ParameterEstimate, parameter_estimate
from mdpdsl.estimate.parameter_fit import fit
from mdpdsl.estimate.raw_law import NoRawLaw, raw_law
from mdpdsl.estimate.raw_likelihood import RawLikelihood
from mdpdsl.estimate.raw_misfit import raw_misfit
from mdpdsl.estimate.row_fit import Misfit, holm, row_misfit
from mdpdsl.graph.counts import Counts
from mdpdsl.graph.describe import pair_text
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.logs.raw_steps import RawTransitions

#: The risk of reporting any row although its law holds.
MISFIT_LEVEL = 0.01

COUNTS, RAW = "counts", "raw values"


@dataclass(frozen=True, eq=False)
class LawFit:
    """The most likely values of unknown numbers, and the rows that follow from them."""

    family: Family
    theta: FloatArray  # [k]  NaN if no values fit

    def rows_of_laws(self, graph: TransitionGraph) -> TransitionGraph:
        """Return a graph over the same pairs, with the rows of laws at these values.

        It is returned as it is if no values fit the data.
        """
        return graph if np.isnan(self.theta).any() else self.family.graph_at(self.theta, graph)


@dataclass(frozen=True, eq=False)
class LearnedNumbers:
    """Estimates of the unknown numbers of a model, and where its laws do not hold."""

    family: Family
    parameters: ParameterEstimate
    misfit: Misfit
    source: str  # what the likelihood is of: counts or raw values
    note: str | None  # why it is not of the raw values of a continuous model

    @property
    def n_misfit(self) -> int:
        """How many rows contradict the law: all of them if only all of them together do.

        It is at least 1 if no values fit the data.
        """
        rows = len(self.misfit.pairs)
        if self.misfit.overall and not rows:
            rows = self.misfit.n_tests
        return max(rows, int(self.parameters.is_empty))

    @property
    def values(self) -> dict[str, float]:
        """The most likely values by name."""
        return dict(zip(self.parameters.names, self.parameters.value.tolist(), strict=True))

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know about the numbers, a sentence each."""
        notes = [*self.parameters.notes]
        if self.note is not None:
            notes.append(self.note)
        return tuple(notes)

    @property
    def law(self) -> LawFit:
        """The rows at the most likely values."""
        return LawFit(self.family, self.parameters.value)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything but the family as plain arrays; see `from_arrays`."""
        misfit = self.misfit
        return self.parameters.arrays() | {
            "source": np.array(self.source),
            "note": np.array(self.note or ""),
            "misfit_pairs": misfit.pairs,
            "misfit_p_values": misfit.p_values,
            "misfit_statistic": misfit.statistic,
            "misfit_visits": misfit.visits,
            "misfit_sentences": np.array(misfit.sentences, np.str_),
            "misfit_overall": np.array(misfit.overall, np.str_),
            "misfit_overall_p_values": np.array(misfit.overall_p_values, np.float64),
            "misfit_tests": np.array([misfit.n_tests, misfit.level]),
        }

    @staticmethod
    def from_arrays(family: Family, arrays: Mapping[str, npt.NDArray[Any]]) -> LearnedNumbers:
        """Return what was saved; KeyError if something is missing."""
        n_tests, level = arrays["misfit_tests"].tolist()
        misfit = Misfit(
            pairs=arrays["misfit_pairs"],
            p_values=arrays["misfit_p_values"],
            statistic=arrays["misfit_statistic"],
            visits=arrays["misfit_visits"],
            sentences=tuple(arrays["misfit_sentences"].tolist()),
            n_tests=int(n_tests),
            level=level,
            overall=tuple(arrays["misfit_overall"].tolist()),
            overall_p_values=tuple(arrays["misfit_overall_p_values"].tolist()),
        )
        parameters = ParameterEstimate.from_arrays(arrays)
        return LearnedNumbers(
            family, parameters, misfit, str(arrays["source"]), str(arrays["note"]) or None
        )


def misfit_text(learned: LearnedNumbers) -> str:
    """Say that the data contradict the law of a model."""
    if learned.parameters.is_empty:
        return f"{learned.parameters.notes[0]}; the law of the model does not hold"
    misfit = learned.misfit
    if not misfit.sentences:
        return f"the data contradict the law of the model; {misfit.overall[0]}"
    rows = "1 row" if learned.n_misfit == 1 else f"{learned.n_misfit:,} rows"
    return f"the data contradict the law of the model in {rows}; {misfit.sentences[0]}"


def contradicted_text(known: Misfit) -> str:
    """Say that the data contradict rows that the model writes out."""
    rows = "1 row" if len(known.pairs) == 1 else f"{len(known.pairs):,} rows"
    return f"the data contradict {rows} that the model writes out; {known.sentences[0]}"


def has_laws(graph: TransitionGraph) -> bool:
    """Return whether rows of a graph depend on unknown numbers."""
    return graph.knowledge is not None and bool(graph.knowledge.is_law.any())


def fitted_law(
    model: CheckedModel,
    graph: TransitionGraph,
    counts: Counts,
    steps: RawTransitions | None = None,
) -> LawFit | None:
    """Return the most likely values of unknown numbers, without sets; None if there are none."""
    if not has_laws(graph) or counts.n_transitions == 0:
        return None
    family = Family(model, graph)
    likelihood, _ = _likelihood(model, family, graph, counts, steps)
    return LawFit(family, fit(likelihood).theta)


def numbers_risk(graph: TransitionGraph, delta: float) -> float:
    """Return the share of delta that the unknown numbers have: half if other rows are open, too."""
    knowledge = graph.knowledge
    assert knowledge is not None
    is_open = ~knowledge.is_known & ~knowledge.is_law
    return delta / 2 if is_open.any() else delta


def learned_numbers(
    model: CheckedModel,
    graph: TransitionGraph,
    counts: Counts,
    delta: float,
    steps: RawTransitions | None = None,
    *,
    is_finite: bool = False,
) -> LearnedNumbers:
    """Estimate the unknown numbers of a model from counts over a graph's pairs, or from raw steps.

    The graph must have laws; the data may have shown no ends that it does not declare. `delta` is
    the risk of all sets of the run. `is_finite` says that the finite model itself was simulated, so
    that counts say all.
    """
    family = Family(model, graph)
    likelihood, note = _likelihood(model, family, graph, counts, steps, is_finite)
    found = parameter_estimate(likelihood, numbers_risk(graph, delta))
    if isinstance(likelihood, RawLikelihood):
        misfit = _raw_misfit(likelihood, found, graph)
        return LearnedNumbers(family, found, misfit, RAW, None)
    middle = (family.low + family.high) / 2
    theta = np.where(np.isnan(found.value), middle, found.value)
    misfit = row_misfit(family, counts, graph, theta, MISFIT_LEVEL)
    return LearnedNumbers(family, found, misfit, COUNTS, note)


def _likelihood(
    model: CheckedModel,
    family: Family,
    graph: TransitionGraph,
    counts: Counts,
    steps: RawTransitions | None,
    is_finite: bool = False,
) -> tuple[Likelihood, str | None]:
    """Return the likelihood of raw steps if that is possible, else of counts, and why."""
    if is_finite or not any(variable.kind == "real" for variable in model.states.variables):
        return CountLikelihood(family, counts, graph), None
    if steps is not None and steps.are_centres(graph):
        note = (
            "all values of the log are centres of cells, as the finite model simulates them, so "
            "the numbers are estimated from counts of cells"
        )
        return CountLikelihood(family, counts, graph), note
    if steps is None:
        reason = "only the cells of states are known"
    else:
        law = raw_law(model)
        if not isinstance(law, NoRawLaw):
            return RawLikelihood(law, steps), None
        reason = law.reason
    note = f"the numbers are estimated from cells, which blur the continuous states: {reason}"
    return CountLikelihood(family, counts, graph), note


def _typical(likelihood: RawLikelihood, found: ParameterEstimate) -> FloatArray:
    """Return values of the numbers at which to test the law: the most likely ones, if possible.

    The most likely uniform law ends where the extreme observations are, which is too improbable.
    """
    edges = likelihood.edges
    if edges is None or not np.isfinite(found.log_likelihood):
        return found.value
    peak = Peak(found.value, found.log_likelihood, np.zeros(len(found.value)))
    theta = edges.middle(peak, peak.value - TWO_DEVIATIONS)
    return theta if np.isfinite(likelihood.value(theta)) else found.value


def _raw_misfit(
    likelihood: RawLikelihood, found: ParameterEstimate, graph: TransitionGraph
) -> Misfit:
    """Return the pairs whose raw steps contradict the law, the least likely first."""
    tested = raw_misfit(likelihood, _typical(likelihood, found))
    p_values = np.append(tested.p_value, [trend.p_value for trend in tested.trends])
    rejected = np.flatnonzero(holm(p_values, MISFIT_LEVEL))
    rejected = rejected[np.argsort(p_values[rejected], kind="stable")]
    n = len(tested.pair)
    named, together = rejected[rejected < n], rejected[rejected >= n] - n
    return Misfit(
        pairs=tested.pair[named],
        p_values=tested.p_value[named],
        statistic=np.full(len(named), np.nan),
        visits=tested.n[named].astype(np.float64),
        sentences=tuple(
            f"{pair_text(graph, int(tested.pair[i]))}: {tested.words[i]}" for i in named
        ),
        n_tests=n,
        level=MISFIT_LEVEL,
        overall=tuple(
            f"in all {n:,} rows together, {tested.trends[i].words} (p = {p_values[n + i]:.1g})"
            for i in together
        ),
        overall_p_values=tuple(p_values[n + together].tolist()),
    )
