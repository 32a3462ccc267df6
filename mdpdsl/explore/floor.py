"""Check, before a run, that an oracle can give every pair the share 2 eta of visits.

The explorer itself never sees the true P, which this check uses.
"""

from __future__ import annotations

from mdpdsl.diagnostics import SettingsError
from mdpdsl.explore.algorithms import EPISODIC
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.graph.analysis import pairs_outside_end_components
from mdpdsl.graph.describe import pairs_text
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.programs.direction import ProgramError
from mdpdsl.programs.optimistic import compact_size
from mdpdsl.programs.oracle import LinearOracle
from mdpdsl.programs.program import BackendError, load_backend
from mdpdsl.programs.uncertain import known_model

#: The most states for which the simplex method is quick enough.
MOST_STATES_FOR_SIMPLEX = 1_000
#: In larger programs, finding the true t* would take longer than a warning is worth.
MOST_NONZEROS = 200_000


def require_floor(truth: TransitionGraph, settings: ExploreSettings) -> str | None:
    """Return a warning if D_eta(P) is empty; raise SettingsError if the settings are strict."""
    eta = settings.eta
    if settings.algorithm not in EPISODIC or not eta:
        return None
    lost = pairs_outside_end_components(truth.closed)
    if len(lost):
        named = pairs_text(truth, lost.tolist())
        found = (
            f"eta = {eta:g} is too large: no policy can keep visiting {len(lost):,} of "
            f"{truth.n_pairs:,} pairs ({named}), so t* is 0; "
            "set `eta=` to 0, or add `end when …` to the model"
        )
    else:
        least = _largest_share(truth)
        if least is None or 2 * eta <= least:
            return None
        found = (
            f"eta = {eta:g} is too large: no policy gives every pair a share of 2 eta; t* is "
            f"{least:.4g}, so eta can be at most {least / 2:.4g}"
        )
    if settings.strict:
        raise SettingsError(found)
    return f"{found}; it will be clipped once the confidence sets show it"


def slow_oracle(truth: TransitionGraph, settings: ExploreSettings) -> str | None:
    """Return a warning if linear programs will take long."""
    if settings.algorithm not in EPISODIC or settings.backend == "evi":
        return None
    if truth.n_states <= MOST_STATES_FOR_SIMPLEX:
        return None
    return (
        f"the backend {settings.backend} may take minutes per episode for {truth.n_states:,} "
        "states; the backend evi takes seconds"
    )


def _largest_share(truth: TransitionGraph) -> float | None:
    """Return t* under the true P; None if that would take too long."""
    model = known_model(truth)
    if compact_size(model).nonzeros > MOST_NONZEROS:
        return None
    try:
        return LinearOracle(load_backend("highs")).interior(model).least
    except (ProgramError, BackendError):
        return None
