"""The verbs `check` and `format_text`: every mistake in a model file, and its canonical layout."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdpdsl.compile.model import load_file
from mdpdsl.compile.parameters import Override
from mdpdsl.diagnostics import Diagnostic, ModelError, Source
from mdpdsl.syntax.format import format_file
from mdpdsl.syntax.parse import parse


def check(
    path: str | Path,
    /,
    *,
    all_states: bool = False,
    max_states: int | None = None,
    **parameters: Override,
) -> Check:
    """Find every mistake in a model file: in names and types, and in its states.

    >>> import mdpdsl
    >>> mdpdsl.check("riverswim").ok
    True
    """
    size = None
    try:
        model = load_file(path, parameters, all_states=all_states, max_states=max_states)
        found = model.diagnose()
        if not any(d.is_error for d in found):
            size = (model.graph.n_states, model.graph.n_pairs)
    except ModelError as error:
        found = list(error.diagnostics)
    return Check(str(path), tuple(found), size)


@dataclass(frozen=True)
class Check:
    """The diagnostics of a file, and the size of its model if it has no errors."""

    path: str
    diagnostics: tuple[Diagnostic, ...]
    size: tuple[int, int] | None  # states and pairs

    @property
    def errors(self) -> list[Diagnostic]:
        """The mistakes."""
        return [d for d in self.diagnostics if d.is_error]

    @property
    def ok(self) -> bool:
        """Whether there are no mistakes."""
        return not self.errors

    def record(self) -> dict[str, Any]:
        """Return the diagnostics as `--json` prints them."""
        return {
            "path": self.path,
            "ok": self.ok,
            "errors": [d.record() for d in self.errors],
            "warnings": [d.record() for d in self.diagnostics if not d.is_error],
        }


def format_text(text: str, path: str = "<text>") -> str:
    """Return a model's text in the canonical layout; raise ModelError for syntax errors.

    >>> import mdpdsl
    >>> print(mdpdsl.format_text("mdp m  state x in 0..3 action go on go->x'=x"), end="")
    mdp m
    state x in 0..3
    action go
    on go -> x' = x
    """
    source = Source(text, path)
    parsed = parse(source)
    if parsed.diagnostics:
        raise ModelError(parsed.diagnostics)
    return format_file(parsed.file, source)
