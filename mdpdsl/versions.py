"""The versions of the packages that compute a result."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def current_versions(*more: str) -> dict[str, str]:
    """Return the versions of what computes a run, and of more packages."""
    found = {}
    for name in ("mdpdsl", "numpy", "numba", "scipy", *more):
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # not every command needs all of them
            continue
    return found
