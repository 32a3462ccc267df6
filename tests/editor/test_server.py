"""The language server, started as editors start it and used over its protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mdpdsl.diagnostics import Source
from mdpdsl.syntax.format import format_file
from mdpdsl.syntax.parse import parse
from tests.editor.client import TIMEOUT, Client

#: Line 4 has characters of one, two and four bytes in UTF-8; 𝜋 is two UTF-16 code units.
MODEL = """\
mdp rooms "Two rooms"
param p = 0.5  # how often the door opens
state room in {left, right}
action go, wait
init room = left  on go when (room == left) -> p: room' = right | 1 - p: stay
on go otherwise -> room' = left
on wait -> stay
let größe = 2*p  let 𝜋𝜋 = größe + p  label there when room == right
"""
LINES = MODEL.splitlines()


@pytest.fixture(scope="module")
def server() -> Iterator[Client]:
    with Client() as started:
        yield started


@pytest.fixture
def client(server: Client) -> Client:
    assert server.open(MODEL) == []
    return server


def units(line: int, text: str, occurrence: int = 0) -> int:
    """Return the position of a text in a line, in UTF-16 code units."""
    at = -1
    for _ in range(occurrence + 1):
        at = LINES[line].index(text, at + 1)
    return len(LINES[line][:at].encode("utf-16-le")) // 2


def hover(client: Client, line: int, text: str, occurrence: int = 0) -> str:
    answer = client.at("hover", line, units(line, text, occurrence))
    assert answer["range"]["start"] == {"line": line, "character": units(line, text, occurrence)}
    content = answer["contents"]["value"]
    assert isinstance(content, str)
    return content


def labels(answer: dict[str, Any]) -> list[str]:
    """Return the suggestions in the order in which editors show them."""
    return [item["label"] for item in sorted(answer["items"], key=lambda item: item["sortText"])]


def test_the_server_lists_its_features(client: Client) -> None:
    offered = client.capabilities
    for feature in ("hover", "definition", "references", "documentFormatting", "documentSymbol"):
        assert offered[f"{feature}Provider"], feature
    assert offered["completionProvider"]["triggerCharacters"]
    assert offered["positionEncoding"] == "utf-16"


def test_hover_shows_types_values_and_comments(client: Client) -> None:
    text = hover(client, 1, "p =")
    assert "param p = 0.5" in text
    assert "a real number, value **0.5**" in text
    assert "how often the door opens" in text
    assert "`room in {left, right}`, 2 values" in hover(client, 2, "room")
    assert "action 2 of 2: `go`, `wait`" in hover(client, 6, "wait")
    assert "a value of `room in {left, right}`" in hover(client, 5, "left")
    assert "room == right" in hover(client, 7, "there")


def test_hover_counts_in_utf_16(client: Client) -> None:
    assert units(7, "größe", 1) != LINES[7].index("größe", 10)
    assert "value **1**" in hover(client, 7, "größe", 1)
    assert "value **1.5**" in hover(client, 7, "𝜋𝜋")
    end = client.at("hover", 7, units(7, "𝜋𝜋"))["range"]["end"]["character"]
    assert end - units(7, "𝜋𝜋") == 4


def test_hover_over_nothing_is_null(client: Client) -> None:
    assert client.at("hover", 2, units(2, "{")) is None


def test_a_definition_is_found_after_wide_characters(client: Client) -> None:
    (found,) = client.at("definition", 7, units(7, "p  label"))
    assert found["uri"] == client.uri
    assert found["range"]["start"] == {"line": 1, "character": 6}
    assert found["range"]["end"] == {"line": 1, "character": 7}


def test_references_are_all_occurrences_of_a_name(client: Client) -> None:
    place = 2, units(2, "room")
    context = {"includeDeclaration": False}
    found = client.at("references", *place, context=context)
    starts = [(r["range"]["start"]["line"], r["range"]["start"]["character"]) for r in found]
    room = "room"
    assert starts == [
        (4, units(4, room)),
        (4, units(4, room, 1)),
        (4, units(4, room, 2)),
        (5, units(5, room)),
        (7, units(7, room)),
    ]
    everywhere = client.at("references", *place, context={"includeDeclaration": True})
    assert len(everywhere) == len(found) + 1


def test_symbols_are_the_outline(client: Client) -> None:
    found = client.ask("textDocument/documentSymbol", {"textDocument": {"uri": client.uri}})
    names = [symbol["name"] for symbol in found]
    assert names[:6] == ["rooms", "p", "room", "go", "wait", "on go"]
    assert {"größe", "𝜋𝜋", "there"} <= set(names)
    for symbol in found:
        first, last = symbol["range"], symbol["selectionRange"]
        assert _before(first["start"], last["start"])
        assert _before(last["end"], first["end"])


def test_formatting_is_the_canonical_layout(client: Client) -> None:
    source = Source(MODEL, "rooms")
    params = {"textDocument": {"uri": client.uri}, "options": {"tabSize": 4, "insertSpaces": True}}
    (edit,) = client.ask("textDocument/formatting", params)
    assert edit["newText"] == format_file(parse(source).file, source) != MODEL
    assert edit["range"]["start"] == {"line": 0, "character": 0}
    assert edit["range"]["end"] == {"line": len(LINES), "character": 0}
    client.change(edit["newText"], 2)
    assert client.ask("textDocument/formatting", params) is None
    client.change(MODEL.replace("param p", "parm p"), 3)
    assert client.ask("textDocument/formatting", params) is None


def test_diagnostics_follow_the_changes(client: Client) -> None:
    assert client.open(MODEL) == []
    client.change(MODEL.replace("1 - p: stay", "0.25: stay"), 2)
    (found,) = client.diagnostics(2)
    assert found["code"] == "E501"
    assert found["severity"] == 1
    assert found["source"] == "mdpdsl"
    assert "in room = left" in found["message"]
    assert found["codeDescription"]["href"].endswith("diagnostics.md#e501")
    page = Path(found["codeDescription"]["href"].removeprefix("file://").partition("#")[0])
    assert "\n## E501" in page.read_text("utf-8")
    client.change(MODEL.replace("größe + p", "größe + q"), 3)
    (found,) = client.diagnostics(3)
    assert found["code"] == "E201"
    assert found["range"]["start"] == {"line": 7, "character": units(7, "p  label")}
    client.change(MODEL, 4)
    assert client.diagnostics(4) == []


def test_only_the_last_of_several_quick_changes_is_checked(client: Client) -> None:
    client.open(MODEL)
    for version in range(2, 12):
        client.change(MODEL + f"let x{version} = unknown_{version}\n", version)
    (found,) = client.diagnostics(11)
    assert "unknown_11" in found["message"]
    assert client.notifications.empty()


def test_closing_removes_the_diagnostics(client: Client) -> None:
    assert client.open(MODEL.replace("param p = 0.5", "param p ="))
    client.notify("textDocument/didClose", {"textDocument": {"uri": client.uri}})
    assert client.notified("textDocument/publishDiagnostics")["diagnostics"] == []


def test_a_larger_model_is_built_when_it_is_saved(client: Client) -> None:
    large = MODEL.replace("init room = left", "init any").replace(
        "action go", "state clock in 0..99_999\naction go"
    )
    wrong = large.replace("1 - p: stay", "0.25: stay")
    assert client.open(large, 1) == []  # at once, before it is built
    assert client.diagnostics(1) == []
    client.change(wrong, 2)
    assert client.diagnostics(2) == []
    client.notify("textDocument/didSave", {"textDocument": {"uri": client.uri}})
    assert client.diagnostics(2) == []
    assert [found["code"] for found in client.diagnostics(2)] == ["E501"]


def test_a_model_too_large_to_check_gives_a_message(client: Client) -> None:
    large = MODEL.replace("init room = left", "init any").replace("0.5", "0.5 state t in 0..10^8")
    assert client.open(large) == []
    message = client.notified("window/logMessage")["message"]
    assert "too large to check all states" in message


def test_an_unfinished_statement_does_not_stop_the_others(client: Client) -> None:
    text = MODEL + "on go when ro\nreward on \n"
    codes = [found["code"] for found in client.open(text)]
    assert codes
    assert set(codes) == {"E101"}
    answer = client.at("completion", len(LINES), len("on go when ro"))
    assert labels(answer)[0] == "room"
    edit = answer["items"][0]["textEdit"]["range"]
    assert edit["start"] == {"line": len(LINES), "character": len("on go when ")}
    assert labels(client.at("completion", len(LINES) + 1, 10)) == ["go", "wait", "any"]
    assert "2 values" in client.at("hover", 2, 7)["contents"]["value"]
    (found,) = client.at("definition", len(LINES), 4)
    assert found["range"]["start"] == {"line": 3, "character": 7}


def test_another_encoding_is_agreed_upon_and_kept() -> None:
    with Client(encodings=["utf-8", "utf-16"]) as client:
        assert client.capabilities["positionEncoding"] == "utf-8"
        client.open(MODEL)
        at = len(LINES[7][: LINES[7].index("𝜋𝜋")].encode())
        answer = client.at("hover", 7, at)
        assert "value **1.5**" in answer["contents"]["value"]
        assert answer["range"]["end"]["character"] == at + 8


def test_the_client_may_say_where_the_documentation_is() -> None:
    with Client(documentation="https://example.org/diagnostics/") as client:
        (found,) = client.open(MODEL.replace("init room", "init rom"))
        assert found["codeDescription"]["href"] == "https://example.org/diagnostics/#e201"


def test_the_server_exits_on_request() -> None:
    with Client() as client:
        client.open(MODEL)
        assert client.ask("shutdown", None) is None
        client.notify("exit", None)
        assert client.process.wait(TIMEOUT) == 0


def _before(one: dict[str, int], other: dict[str, int]) -> bool:
    return (one["line"], one["character"]) <= (other["line"], other["character"])
