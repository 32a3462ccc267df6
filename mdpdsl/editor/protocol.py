"""Convert results about a document to the types of the language server protocol."""

from __future__ import annotations

from collections.abc import Sequence

from lsprotocol import types

from mdpdsl.diagnostics import Diagnostic, Span
from mdpdsl.editor.completion import Suggestion
from mdpdsl.editor.outline import Entry
from mdpdsl.editor.positions import Position, Positions

_SUGGESTION_KINDS = {
    "keyword": types.CompletionItemKind.Keyword,
    "value": types.CompletionItemKind.Constant,
    "member": types.CompletionItemKind.EnumMember,
    "function": types.CompletionItemKind.Function,
    "setting": types.CompletionItemKind.Property,
    "label": types.CompletionItemKind.Value,
    "param": types.CompletionItemKind.Constant,
    "unknown": types.CompletionItemKind.Constant,
    "state": types.CompletionItemKind.Variable,
    "action": types.CompletionItemKind.Variable,
    "noise": types.CompletionItemKind.Variable,
    "let": types.CompletionItemKind.Reference,
}
_ENTRY_KINDS = {
    "model": types.SymbolKind.Module,
    "param": types.SymbolKind.Constant,
    "unknown": types.SymbolKind.Constant,
    "let": types.SymbolKind.Property,
    "state": types.SymbolKind.Variable,
    "action": types.SymbolKind.EnumMember,
    "noise": types.SymbolKind.Event,
    "label": types.SymbolKind.Key,
    "property": types.SymbolKind.Property,
    "rule": types.SymbolKind.Method,
    "block": types.SymbolKind.Object,
}


def place_of(position: types.Position) -> Position:
    """Convert a client's position to ours."""
    return Position(position.line, position.character)


def range_of(positions: Positions, span: Span) -> types.Range:
    """Convert a span to a range."""
    first, last = positions.range(span)
    return types.Range(
        types.Position(first.line, first.character), types.Position(last.line, last.character)
    )


def diagnostic(
    found: Diagnostic, positions: Positions, uri: str, documentation: str | None
) -> types.Diagnostic:
    """Convert a diagnostic; its example state and its help follow the message."""
    notes = [str(found.witness) if found.witness else "", f"help: {found.help}"]
    lines = [found.message, *notes[: 2 if found.help else 1]]
    related = None
    if found.related is not None:
        location = types.Location(uri, range_of(positions, found.related))
        related = [types.DiagnosticRelatedInformation(location, "see also here")]
    href = f"{documentation}#{found.code.lower()}" if documentation else None
    return types.Diagnostic(
        range=range_of(positions, found.span or Span(0, 1)),
        message="\n".join(line for line in lines if line),
        severity=types.DiagnosticSeverity.Error
        if found.is_error
        else types.DiagnosticSeverity.Warning,
        code=found.code,
        code_description=types.CodeDescription(href) if href else None,
        source="mdpdsl",
        related_information=related,
    )


def completion_items(
    suggestions: Sequence[Suggestion], positions: Positions, replaced: Span
) -> list[types.CompletionItem]:
    """Convert suggestions, keeping the order, which clients would otherwise make alphabetical."""
    where = range_of(positions, replaced)
    return [
        types.CompletionItem(
            label=suggestion.text,
            kind=_SUGGESTION_KINDS[suggestion.kind],
            detail=suggestion.detail or None,
            sort_text=f"{index:05}",
            filter_text=suggestion.text,
            text_edit=types.TextEdit(where, suggestion.text),
        )
        for index, suggestion in enumerate(suggestions)
    ]


def symbol(entry: Entry, positions: Positions) -> types.DocumentSymbol:
    """Convert one entry of the outline."""
    return types.DocumentSymbol(
        name=entry.name,
        kind=_ENTRY_KINDS[entry.kind],
        range=range_of(positions, entry.span),
        selection_range=range_of(positions, entry.name_span),
        detail=entry.detail or None,
    )
