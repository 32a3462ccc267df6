"""A small client for the language server: JSON-RPC with headers over the pipes of a process."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from types import TracebackType
from typing import Any

#: Generous: a server that takes longer must be hanging.
TIMEOUT = 60


class Client:
    """A running server, whose messages are sorted into responses and notifications."""

    def __init__(self, encodings: list[str] | None = None, **options: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mdpdsl", "lsp", "--stdio"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self.notifications: queue.Queue[dict[str, Any]] = queue.Queue()
        self._next_id = 0
        self._n_opened = 0
        self.uri = ""
        threading.Thread(target=self._listen, daemon=True).start()
        general = {"positionEncodings": encodings} if encodings else {}
        params = {"processId": None, "rootUri": None, "capabilities": {"general": general}}
        self.capabilities = self.ask("initialize", {**params, "initializationOptions": options})[
            "capabilities"
        ]
        self.notify("initialized", {})

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(TIMEOUT)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()

    def ask(self, method: str, params: Any) -> Any:
        """Send a request and return the result."""
        self._next_id += 1
        self._send({"id": self._next_id, "method": method, "params": params})
        answer = self._answers.get(timeout=TIMEOUT)
        assert answer["id"] == self._next_id
        assert "error" not in answer, answer
        return answer["result"]

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self._send({"method": method, "params": params})

    def open(self, text: str, version: int = 1) -> list[dict[str, Any]]:
        """Open a document under a new name; return its diagnostics."""
        self._n_opened += 1
        self.uri = f"file:///folder/model-{self._n_opened}.mdp"
        document = {"uri": self.uri, "languageId": "mdp", "version": version, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})
        return self.diagnostics(version)

    def change(self, text: str, version: int) -> None:
        """Replace the text of the document."""
        document = {"uri": self.uri, "version": version}
        changes = [{"text": text}]
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": changes})

    def diagnostics(self, version: int) -> list[dict[str, Any]]:
        """Wait for the diagnostics of a version; those of earlier versions may arrive first."""
        while True:
            params = self.notified("textDocument/publishDiagnostics")
            if (params["uri"], params.get("version")) == (self.uri, version):
                found = params["diagnostics"]
                assert isinstance(found, list)
                return found

    def notified(self, method: str) -> dict[str, Any]:
        """Wait for a notification."""
        while True:
            message = self.notifications.get(timeout=TIMEOUT)
            if message["method"] == method:
                params = message["params"]
                assert isinstance(params, dict)
                return params

    def at(self, method: str, line: int, character: int, **more: object) -> Any:
        """Send a request about a position in the document."""
        place = {"line": line, "character": character}
        params = {"textDocument": {"uri": self.uri}, "position": place, **more}
        return self.ask(f"textDocument/{method}", params)

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.process.stdin.flush()

    def _listen(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while True:
            length = 0
            try:
                while (header := stream.readline().strip()) != b"":
                    name, _, value = header.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                if not length:
                    return
                message = json.loads(stream.read(length))
            except ValueError:  # closed
                return
            (self._answers if "method" not in message else self.notifications).put(message)
