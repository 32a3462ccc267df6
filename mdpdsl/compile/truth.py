"""Whether a model says enough to be simulated: every number and every probability has a value."""

from __future__ import annotations

from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import SettingsError


def require_truth(model: Model, verb: str, otherwise: str) -> None:
    """Raise SettingsError if the rows of a model only stand for unknown ones.

    The message says what to set to `verb` the model, and what to do `otherwise`.
    """
    graph = model.graph
    if not graph.has_dynamics or graph.has_truth:
        return
    unknowns = {each.name: each for each in model.checked.unknowns if each.name in model.missing}
    found = []
    if unknowns:
        first = next(iter(unknowns.values()))
        values, them = ("values", "them") if len(unknowns) > 1 else ("value", "it")
        found.append(
            f"says nothing of the {values} of {_listed(list(unknowns))}; set {them} to {verb} the "
            f"model (`{first.name}={first.assumed:.3g}`)"
        )
    if "?" in model.missing or not unknowns:
        found.append(
            f"has `?` without a truth; write one for each branch to {verb} the model (`?=0.3: …`)"
        )
    raise SettingsError(f"{model.name} {', and '.join(found)}, or {otherwise}")


def _listed(names: list[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
