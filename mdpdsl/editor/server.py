"""The language server, which talks to an editor over standard input and output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

import mdpdsl
from mdpdsl.diagnostics import Diagnostic, Span
from mdpdsl.editor import protocol
from mdpdsl.editor.checking import Checks
from mdpdsl.editor.completion import complete
from mdpdsl.editor.document import Document, read_document
from mdpdsl.editor.meaning import meaning_at
from mdpdsl.editor.outline import outline
from mdpdsl.editor.positions import Positions


class Server(LanguageServer):
    """A server that holds the open documents of an editor, each parsed once per version."""

    def __init__(self) -> None:
        # Synchronise whole texts: pygls applies partial changes with Python's line breaks, of which
        # there are more than in the protocol.
        super().__init__(
            "mdpdsl",
            mdpdsl.__version__,
            text_document_sync_kind=types.TextDocumentSyncKind.Full,
        )
        self.documentation = documentation_page()
        self.checks = Checks(self._publish, self._notify)
        self._documents: dict[str, Document] = {}

    def document(self, uri: str) -> Document:
        """Return the newest version of a document."""
        text = self.workspace.get_text_document(uri).source
        known = self._documents.get(uri)
        if known is None or known.text != text:
            known = read_document(text, to_fs_path(uri) or uri)
            self._documents[uri] = known
        return known

    def positions(self, document: Document) -> Positions:
        """Return the positions in a document, in the encoding agreed with the client."""
        encoding = self.server_capabilities.position_encoding or "utf-16"
        name = encoding.value if isinstance(encoding, types.PositionEncodingKind) else encoding
        return Positions(document.text, name)

    def check(self, uri: str, *, is_typing: bool) -> None:
        """Look for errors and publish them."""
        self.checks.start(uri, lambda: self.document(uri), is_typing=is_typing)

    def forget(self, uri: str) -> None:
        """Drop a closed document and its diagnostics."""
        self.checks.stop(uri)
        self._documents.pop(uri, None)
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    def place(self, params: Any) -> tuple[Document, Positions, int]:
        """Return the document of a request, its positions, and the offset of the request."""
        document = self.document(params.text_document.uri)
        positions = self.positions(document)
        return document, positions, positions.offset(protocol.place_of(params.position))

    def _publish(self, document: Document, found: list[Diagnostic]) -> None:
        positions = self.positions(document)
        for uri, known in self._documents.items():
            if known is document:
                shown = [protocol.diagnostic(d, positions, uri, self.documentation) for d in found]
                version = self.workspace.get_text_document(uri).version
                params = types.PublishDiagnosticsParams(uri, shown, version)
                self.text_document_publish_diagnostics(params)

    def _notify(self, message: str) -> None:
        params = types.LogMessageParams(types.MessageType.Info, message)
        self.window_log_message(params)


def documentation_page() -> str | None:
    """Return the address of the diagnostics page, if the documentation is next to the package."""
    page = Path(mdpdsl.__file__).parents[1] / "docs" / "diagnostics.md"
    return page.as_uri() if page.exists() else None


def make_server() -> Server:
    """Return a server with all its features."""
    server = Server()

    @server.feature(types.INITIALIZE)
    def initialize(ls: Server, params: types.InitializeParams) -> None:
        options = params.initialization_options
        if isinstance(options, dict) and isinstance(options.get("documentation"), str):
            ls.documentation = options["documentation"]

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def opened(ls: Server, params: types.DidOpenTextDocumentParams) -> None:
        ls.check(params.text_document.uri, is_typing=False)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(ls: Server, params: types.DidChangeTextDocumentParams) -> None:
        ls.check(params.text_document.uri, is_typing=True)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def saved(ls: Server, params: types.DidSaveTextDocumentParams) -> None:
        ls.check(params.text_document.uri, is_typing=False)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    async def closed(ls: Server, params: types.DidCloseTextDocumentParams) -> None:
        ls.forget(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(ls: Server, params: types.HoverParams) -> types.Hover | None:
        document, positions, offset = ls.place(params)
        found = meaning_at(document, offset)
        if found is None:
            return None
        content = types.MarkupContent(types.MarkupKind.Markdown, found[0])
        return types.Hover(content, protocol.range_of(positions, found[1]))

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def definition(ls: Server, params: types.DefinitionParams) -> list[types.Location]:
        document, positions, offset = ls.place(params)
        name = document.name_at(offset)
        found = document.declarations(name) if name is not None else []
        uri = params.text_document.uri
        return [types.Location(uri, protocol.range_of(positions, o.span)) for o in found]

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    def references(ls: Server, params: types.ReferenceParams) -> list[types.Location]:
        document, positions, offset = ls.place(params)
        name = document.name_at(offset)
        found = document.uses(name) if name is not None else []
        if not params.context.include_declaration:
            found = [o for o in found if not o.is_declaration]
        uri = params.text_document.uri
        return [types.Location(uri, protocol.range_of(positions, o.span)) for o in found]

    @server.feature(
        types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=[" ", "'", '"'])
    )
    def completion(ls: Server, params: types.CompletionParams) -> types.CompletionList:
        document, positions, offset = ls.place(params)
        suggestions, replaced = complete(document, offset)
        items = protocol.completion_items(suggestions, positions, replaced)
        return types.CompletionList(is_incomplete=False, items=items)

    @server.feature(types.TEXT_DOCUMENT_FORMATTING)
    def formatting(
        ls: Server, params: types.DocumentFormattingParams
    ) -> list[types.TextEdit] | None:
        document = ls.document(params.text_document.uri)
        text = document.formatted()
        if text is None or text == document.text:
            return None
        whole = Span(0, len(document.text))
        return [types.TextEdit(protocol.range_of(ls.positions(document), whole), text)]

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def symbols(ls: Server, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        document = ls.document(params.text_document.uri)
        positions = ls.positions(document)
        return [protocol.symbol(entry, positions) for entry in outline(document)]

    return server
