"""A model file that is open in an editor: parsed as far as possible, despite its errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.compile.checker import check_declared
from mdpdsl.compile.declare import Declarations
from mdpdsl.compile.expand import Progress
from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import Diagnostic, ModelError, Source, in_source_order
from mdpdsl.editor.occurrences import Occurrence, find_occurrences, occurrence_at
from mdpdsl.syntax.format import format_file
from mdpdsl.syntax.parse import Parsed, parse

#: A model that is evaluated at no more points than this is built while the user types, ...
FEW_POINTS = 20_000
#: ... and one with up to this many points when its file is opened or saved, in a few seconds.
MANY_POINTS = 5_000_000


@dataclass(frozen=True, eq=False)
class Document:
    """One version of a file: its tree, its declarations, and every name in it."""

    source: Source
    parsed: Parsed
    declared: Declarations
    checked: CheckedModel
    occurrences: tuple[Occurrence, ...]

    @property
    def text(self) -> str:
        """The text of the file."""
        return self.source.text

    @property
    def n_points(self) -> float:
        """The number of points at which building would evaluate the model."""
        n_points = float(self.checked.states.size) * self.checked.actions.size
        discretization = self.checked.discretization
        n_real = sum(v.kind == "real" for v in self.checked.states.variables)
        if discretization.method == "sample":
            return n_points * discretization.number
        if discretization.method == "uniform":
            return n_points * float(discretization.number) ** n_real
        return n_points

    def mistakes(self) -> list[Diagnostic]:
        """Return the errors in syntax, names and types."""
        found: Sequence[Diagnostic] = self.checked.diagnostics
        return in_source_order(replace(d, source=self.source) for d in found)

    def mistakes_in_states(self, progress: Progress | None = None) -> list[Diagnostic]:
        """Build the model and return every error; `progress` may raise to stop it."""
        try:
            return Model(self.source, progress=progress).diagnose()
        except ModelError as error:
            return list(error.diagnostics)

    def formatted(self) -> str | None:
        """Return the text in the canonical layout; None if it has syntax errors."""
        if self.parsed.diagnostics:
            return None
        return format_file(self.parsed.file, self.source)

    def name_at(self, offset: int) -> Occurrence | None:
        """Return the name at a position."""
        return occurrence_at(self.occurrences, offset)

    def uses(self, name: Occurrence) -> list[Occurrence]:
        """Return every occurrence of the same name in the same namespace."""
        return [o for o in self.occurrences if (o.text, o.space) == (name.text, name.space)]

    def declarations(self, name: Occurrence) -> list[Occurrence]:
        """Return where a name is declared; for a member, all its enumerations."""
        return [o for o in self.uses(name) if o.is_declaration]


def read_document(text: str, path: str) -> Document:
    """Parse a text as far as possible."""
    source = Source(text, path)
    parsed = parse(source)
    declared = Declarations(parsed, {})
    checked = check_declared(declared)
    return Document(source, parsed, declared, checked, find_occurrences(parsed.file, text))
