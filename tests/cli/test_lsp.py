"""`mdpdsl lsp` as a command; tests/editor has the protocol."""

from __future__ import annotations

import sys

import pytest

from tests.cli.run import mdpdsl, quick


def test_json_says_what_the_server_offers() -> None:
    record = quick("lsp", "--json").json()
    assert record["transport"] == "stdio"
    assert {"textDocument/hover", "textDocument/completion"} <= set(record["features"])


def test_without_its_package_the_server_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "mdpdsl.editor.server", raising=False)
    monkeypatch.setitem(sys.modules, "pygls.lsp.server", None)
    outcome = quick("lsp")
    assert (outcome.status, outcome.stdout) == (1, "")
    assert 'the server needs `pygls`: pip install "mdpdsl[editor]"' in outcome.stderr


def test_a_client_that_goes_away_ends_the_server() -> None:
    outcome = mdpdsl("lsp", stdin=b"")
    assert outcome.stdout == ""
