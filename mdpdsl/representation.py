"""How notebooks display objects: with pictures and tables that the report layer draws.

`mdpdsl.report` lies above the layers it draws, so they must not import it. As with backends, it is
looked up by name, and only when a notebook asks for a picture.
"""

from __future__ import annotations

from importlib import import_module

DRAWER = "mdpdsl.report.notebook"


def represented(name: str, thing: object) -> str | None:
    """Render an object with the named function of the report layer; None means: use `repr`."""
    found = getattr(import_module(DRAWER), name)(thing)
    return None if found is None else str(found)
