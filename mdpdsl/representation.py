"""How objects show themselves in a notebook: pictures and tables that the report layer draws.

`mdpdsl.report` lies above whatever it draws, so nothing below imports it; it is found by its name
when a notebook asks, as backends are, and not before.
"""

from __future__ import annotations

from importlib import import_module

DRAWER = "mdpdsl.report.notebook"


def represented(name: str, thing: object) -> str | None:
    """Return what a function of the report layer makes of a thing; None leaves it to `repr`."""
    found = getattr(import_module(DRAWER), name)(thing)
    return None if found is None else str(found)
