"""Whether an oracle can do what is asked of it: said before a run.

Every pair must be able to have the share 2 eta. The explorer itself never sees the truth; whoever
runs it on a simulated system may.
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

#: Up to so many states the simplex method is quick enough.
MOST_STATES_FOR_SIMPLEX = 1_000
#: Above this, finding t* of the truth would take longer than a warning is worth.
MOST_NONZEROS = 200_000


def require_floor(truth: TransitionGraph, settings: ExploreSettings) -> str | None:
    """Return a warning where D_eta(P) is empty, and raise SettingsError where that is forbidden."""
    eta = settings.eta
    if settings.algorithm not in EPISODIC or not eta:
        return None
    lost = pairs_outside_end_components(truth)
    if len(lost):
        named = pairs_text(truth, lost.tolist())
        told = (
            f"eta = {eta:g} is too large: t* is 0, as no policy can visit {len(lost):,} of "
            f"{truth.n_pairs:,} pairs for ever ({named}); "
            "take --eta 0, or `restart when …` in the model"
        )
    else:
        least = _largest_share(truth)
        if least is None or 2 * eta <= least:
            return None
        told = (
            f"eta = {eta:g} is too large: no policy gives every pair a share of 2 eta; t* is "
            f"{least:.4g}, so eta can be {least / 2:.4g} at the most"
        )
    if settings.strict:
        raise SettingsError(told)
    return f"{told}; it is clipped as soon as the confidence sets tell"


def slow_oracle(truth: TransitionGraph, settings: ExploreSettings) -> str | None:
    """Return a warning where linear programs will take long."""
    if settings.algorithm not in EPISODIC or settings.backend == "evi":
        return None
    if truth.n_states <= MOST_STATES_FOR_SIMPLEX:
        return None
    return (
        f"a plan for {truth.n_states:,} states may take the backend {settings.backend} minutes; "
        "the backend evi takes seconds"
    )


def _largest_share(truth: TransitionGraph) -> float | None:
    """Return t* under the true P; None where it is not known in time."""
    model = known_model(truth)
    if compact_size(model).nonzeros > MOST_NONZEROS:
        return None
    try:
        return LinearOracle(load_backend("highs")).interior(model).least
    except (ProgramError, BackendError):
        return None
