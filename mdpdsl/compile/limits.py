"""Limits on the size of a model, and the diagnostic for one that is too large."""

from __future__ import annotations

import os

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.diagnostics import Diagnostic

#: The largest number of states, unless the caller allows more.
MOST_STATES = 20_000_000
MOST_ACTIONS = 10_000
#: The largest number of points of a cell times values of the discrete noise of an outcome.
MOST_NODES = 200_000
#: The share of the free memory that building a graph may use.
MEMORY_SHARE = 0.6
#: Memory per branch, including what sorting and joining take.
BYTES_PER_BRANCH = 28


class TooLargeError(Exception):
    """A model that is too large; carries the diagnostic."""

    def __init__(self, model: CheckedModel, size: str, help_text: str) -> None:
        message = f"the model is too large to build: {size}"
        super().__init__(message)
        self.diagnostic = Diagnostic("E701", message, model.span, help_text)


def too_many_states(model: CheckedModel, limit: int, n_found: int | None = None) -> TooLargeError:
    """Return the error for a model with too many states."""
    sizes = " x ".join(f"{v.size:,}" for v in model.states.variables)
    size = (
        f"{model.states.size:,} states ({sizes})"
        if len(model.states.variables) > 1
        else (f"{model.states.size:,} states")
    )
    if n_found is not None:
        size = f"up to {size}; the search stopped after finding {n_found:,}"
    smaller = "use smaller ranges or fewer bins"
    if model.parameters:
        smaller += f" (for example with `--set {next(iter(model.parameters))}=…`)"
    return TooLargeError(
        model, size, f"{smaller}, or allow more states with `max_states=` (now {limit:,})"
    )


def check_memory(model: CheckedModel, n_branches: float) -> None:
    """Raise TooLargeError if this many branches do not fit into the free memory."""
    needed = n_branches * BYTES_PER_BRANCH
    free = _free_memory()
    if needed > MEMORY_SHARE * free:
        size = f"about {n_branches:,.0f} branches would need {needed / 1e9:.1f} GB"
        raise TooLargeError(
            model,
            size,
            f"{free / 1e9:.1f} GB are free; use fewer states, coarser cells or narrower noise",
        )


def _free_memory() -> float:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return float(line.split()[1]) * 1024
    except OSError:
        pass
    return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")) / 2
