"""The names of explorers, spelt alike in tables, on pages and in the names of folders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: The explorers that have a kappa.
WITH_KAPPA = ("kappa-dp", "kappa-lp", "tracking")


def explorer_label(algorithm: str, kappa: float, horizon: object = None) -> str:
    """Return the name of an explorer with its main settings: `kappa-dp (kappa=10, H=2)`."""
    if algorithm not in WITH_KAPPA:
        return algorithm
    has_horizon = algorithm == "kappa-dp" and horizon not in (None, "inf")
    return f"{algorithm} (kappa={kappa:g}{f', H={horizon}' if has_horizon else ''})"


def settings_label(settings: Mapping[str, Any]) -> str:
    """Return the label of a run with these settings."""
    if settings.get("purpose") is not None:
        return f"{settings['algorithm']} for {settings['purpose']}"
    return explorer_label(
        str(settings["algorithm"]), float(settings.get("kappa", 1)), settings.get("horizon")
    )


def row_folder(number: int, settings: Mapping[str, Any]) -> str:
    """Return the name of the folder of a comparison's row: `02-kappa-dp-kappa10-h2`."""
    words = [f"{number:02d}", str(settings["algorithm"])]
    if settings["algorithm"] in WITH_KAPPA:
        words.append(f"kappa{settings['kappa']:g}")
    if settings.get("horizon") is not None:
        words.append(f"h{settings['horizon']}")
    return "-".join(words)
