"""Progress of trials in words: steps, pairs visited, and L beside the optimum."""

from __future__ import annotations

from collections.abc import Sequence

from mdpdsl.explore.executor import Progress as Looks
from mdpdsl.explore.optimum import Limits
from mdpdsl.explore.standing import Standing
from mdpdsl.progress import Progress


def trials_progress(
    update: Progress | None, total: int, n_pairs: int, limits: Limits | None = None
) -> Looks | None:
    """Return a function that shows the progress of trials; None if it is not shown.

    The steps are up to date; the pairs visited and L are those of each trial's last checkpoint, of
    which there are six per decade of steps, so that showing progress costs next to nothing.
    """
    if update is None:
        return None

    def look(found: list[Standing]) -> None:
        done = sum(trial.steps for trial in found)
        update(done, total, standing_text(found, n_pairs, limits))

    return look


def standing_text(found: Sequence[Standing], n_pairs: int, limits: Limits | None) -> str:
    """Return the measures of trials as text: pairs visited, and L beside the optimum, as means."""
    unvisited = [s.unvisited for s in found if s.unvisited is not None]
    if not unvisited:
        return ""
    share = 1 - sum(unvisited) / (len(unvisited) * n_pairs)
    # 99.99% is not rounded to 100%.
    parts = [f"{min(share, 0.999) if share < 1 else 1:.1%} of pairs visited"]
    for name, title in (("worst", "L_Worst"), ("average", "L_Avg")):
        values = [v for s in found if (v := getattr(s, name)) is not None]
        if not values:
            continue
        mean = sum(values) / len(values)
        text = f"{title} {mean:,.4g}"
        ratio = getattr(limits, f"ratio_{name}")(mean) if limits is not None else None
        if ratio is not None:
            text += f" ({ratio:.2f}× the optimum)" if name == "worst" else f" ({ratio:.2f}×)"
        parts.append(text)
    return ", ".join(parts)
