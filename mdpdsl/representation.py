"""How notebooks display objects: with pictures and tables that the report layer draws.

`mdpdsl.report` lies above the layers it draws, so they must not know it. The package itself, which
lies above all, names it here; it is imported when a notebook asks for a picture, and not before.
"""

from __future__ import annotations

from importlib import import_module

_drawers: list[str] = []


def draw_with(module: str) -> None:
    """Have objects drawn by the functions of a module."""
    _drawers.append(module)


def represented(name: str, thing: object) -> str | None:
    """Render an object with the named function of the module that draws; None means: use `repr`."""
    if not _drawers:
        return None
    found = getattr(import_module(_drawers[-1]), name)(thing)
    return None if found is None else str(found)
