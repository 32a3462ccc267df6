"""The versions of the packages that a result depends on."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def current_versions(*more: str) -> dict[str, str]:
    """Return the versions of the packages that a run depends on, and of `more` packages."""
    found = {}
    for name in ("mdpdsl", "numpy", "numba", "scipy", *more):
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # not every command needs every package
            continue
    return found
