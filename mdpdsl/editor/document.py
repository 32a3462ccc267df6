"""A model file as an editor has it open: read as far as it can be, whatever is wrong with it."""

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

#: Points at which a model is evaluated to be built: so many are done between two keystrokes, ...
FEW_POINTS = 20_000
#: ... and so many when a file is opened or saved, in a few seconds.
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
        """The text itself."""
        return self.source.text

    @property
    def n_points(self) -> float:
        """At how many points the model would have to be evaluated to be built."""
        n_points = float(self.checked.states.size) * self.checked.actions.size
        discretization = self.checked.discretization
        n_real = sum(v.kind == "real" for v in self.checked.states.variables)
        if discretization.method == "sample":
            return n_points * discretization.number
        if discretization.method == "uniform":
            return n_points * float(discretization.number) ** n_real
        return n_points

    def mistakes(self) -> list[Diagnostic]:
        """Return the mistakes of syntax, names and types."""
        found: Sequence[Diagnostic] = self.checked.diagnostics
        return in_source_order(replace(d, source=self.source) for d in found)

    def mistakes_in_states(self, progress: Progress | None = None) -> list[Diagnostic]:
        """Build the model and return every mistake; `progress` may raise to stop it."""
        try:
            return Model(self.source, progress=progress).diagnose()
        except ModelError as error:
            return list(error.diagnostics)

    def formatted(self) -> str | None:
        """Return the text in the canonical layout; None while its syntax is wrong."""
        if self.parsed.diagnostics:
            return None
        return format_file(self.parsed.file, self.source)

    def name_at(self, offset: int) -> Occurrence | None:
        """Return the name that stands at a place."""
        return occurrence_at(self.occurrences, offset)

    def uses(self, name: Occurrence) -> list[Occurrence]:
        """Return every place that has the same name in the same space."""
        return [o for o in self.occurrences if (o.text, o.space) == (name.text, name.space)]

    def declarations(self, name: Occurrence) -> list[Occurrence]:
        """Return where a name is declared; a member of several enumerations in each of them."""
        return [o for o in self.uses(name) if o.is_declaration]


def read_document(text: str, path: str) -> Document:
    """Read a text as far as it can be read."""
    source = Source(text, path)
    parsed = parse(source)
    declared = Declarations(parsed, {})
    checked = check_declared(declared)
    return Document(source, parsed, declared, checked, find_occurrences(parsed.file, text))
