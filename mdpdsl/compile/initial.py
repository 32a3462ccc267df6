"""The initial distribution of a model over the codes of its product space."""

from __future__ import annotations

import numpy as np

from mdpdsl.compile.cells import spread_masses
from mdpdsl.compile.checked import CheckedModel, Spread
from mdpdsl.compile.expressions import Frame
from mdpdsl.compile.limits import MOST_STATES, too_many_states
from mdpdsl.compile.problems import Problems
from mdpdsl.compile.transitions import any_holds, state_values
from mdpdsl.diagnostics import Diagnostic
from mdpdsl.graph.space import FloatArray, IntArray, Variable

_BATCH = 1 << 16


def initial_distribution(
    model: CheckedModel, problems: Problems, most_states: int | None
) -> tuple[IntArray, FloatArray]:
    """Return the codes of the possible initial states, ascending, and their probabilities.

    No episode starts in an end: the distribution is conditioned on the other states.
    """
    limit = most_states or MOST_STATES
    codes, probabilities = np.zeros(1, np.int64), np.ones(1)
    for variable, stride in zip(model.states.variables, model.states.strides, strict=True):
        spread = model.init.spreads.get(variable.name)
        if spread is None:
            if len(codes) * variable.size > limit:
                raise too_many_states(model, limit)
            cells = np.arange(variable.size)
            masses = _uniform(variable)
        else:
            cells, masses = _start_cells(variable, spread)
        codes = (codes[:, None] + stride * cells).ravel()
        probabilities = (probabilities[:, None] * masses).ravel()
        if len(codes) > limit:
            raise too_many_states(model, limit)
    if model.init.guard is None and not model.ends:
        return codes, probabilities
    chosen = np.zeros(len(codes), np.bool_)
    for begin in range(0, len(codes), _BATCH):
        batch = codes[begin : begin + _BATCH]
        frame = Frame(len(batch), state_values(model, batch))
        holds = [any_holds((model.init.guard,), frame, batch, problems)] if model.init.guard else []
        holds.append(~any_holds(model.ends, frame, batch, problems))
        chosen[begin : begin + _BATCH] = np.logical_and.reduce(holds)
    kept = probabilities[chosen]
    return codes[chosen], kept / kept.sum() if len(kept) else kept


def no_start(model: CheckedModel) -> Diagnostic:
    """Report that no state satisfies the guard of `init any when`, or that all are ends."""
    if model.init.guard is None:
        message, help_text = "every initial state is an end", "start where `end when` does not hold"
    else:
        message, help_text = "no state satisfies the guard of `init`", "weaken the guard"
        if model.ends:
            message += " without being an end"
    span = model.init.span if model.init.is_declared else model.ends[0].span
    return Diagnostic("E509", message, span, help_text)


def _uniform(variable: Variable) -> FloatArray:
    """Give every cell the same weight: `init any` is uniform over states, not over their widths."""
    return np.full(variable.size, 1 / variable.size)


def _start_cells(variable: Variable, spread: Spread) -> tuple[IntArray, FloatArray]:
    """Return the possible initial cells of a variable, ascending, and their probabilities."""
    if spread.family == "discrete":
        assert spread.values is not None and spread.probabilities is not None
        cells, place = np.unique(variable.indices(spread.values), return_inverse=True)
        masses = np.bincount(place, spread.probabilities).astype(np.float64)
    else:
        masses = spread_masses(variable, spread)
        cells = np.arange(variable.size)
    return cells[masses > 0], masses[masses > 0]
