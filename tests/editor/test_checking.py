"""When documents are checked, and for what."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from mdpdsl.diagnostics import Diagnostic
from mdpdsl.editor.checking import Checks, mistakes_unless_stopped
from mdpdsl.editor.document import FEW_POINTS, MANY_POINTS, Document, read_document

URI = "file:///model.mdp"


def model(n_states: int) -> Document:
    """Return a model with an error that occurs only in certain states."""
    text = f"mdp m state x in 1..{n_states} action a init any on a -> 0.5: stay | 0.4: x' = 1"
    return read_document(text, "model.mdp")


def published(act: Callable[[Checks], None], *, stops: bool = False) -> tuple[list[list[str]], str]:
    """Run checks to their end; return the published codes and the messages."""
    found: list[list[str]] = []
    messages: list[str] = []

    def publish(_document: Document, diagnostics: list[Diagnostic]) -> None:
        found.append([d.code for d in diagnostics])
        if stops:
            checks.stop(URI)

    checks = Checks(publish, messages.append)

    async def run() -> None:
        act(checks)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)

    asyncio.run(run())
    return found, "".join(messages)


def test_a_small_model_is_built_while_it_is_typed_and_published_once() -> None:
    small = model(FEW_POINTS)
    assert published(lambda c: c.start(URI, lambda: small, is_typing=True)) == ([["E501"]], "")
    assert published(lambda c: c.start(URI, lambda: small, is_typing=False)) == ([["E501"]], "")


def test_a_larger_model_is_built_when_it_is_saved_only() -> None:
    large = model(FEW_POINTS + 1)
    assert published(lambda c: c.start(URI, lambda: large, is_typing=True)) == ([[]], "")
    found, message = published(lambda c: c.start(URI, lambda: large, is_typing=False))
    assert (found, message) == ([[], ["E501"]], "")


def test_a_model_that_is_too_large_is_not_built_and_saving_it_says_so() -> None:
    vast = model(MANY_POINTS + 1)
    assert published(lambda c: c.start(URI, lambda: vast, is_typing=True)) == ([[]], "")
    found, message = published(lambda c: c.start(URI, lambda: vast, is_typing=False))
    assert found == [[]]
    assert "too large to check all states" in message


def test_of_several_changes_only_the_last_is_checked() -> None:
    small = model(5)

    def type_fast(checks: Checks) -> None:
        for _ in range(5):
            checks.start(URI, lambda: small, is_typing=True)
        checks.start("file:///another.mdp", lambda: small, is_typing=True)

    assert published(type_fast) == ([["E501"], ["E501"]], "")


def test_a_stopped_check_publishes_nothing_more() -> None:
    large = model(FEW_POINTS + 1)
    found, _ = published(lambda c: c.start(URI, lambda: large, is_typing=False), stops=True)
    assert found == [[]]


def test_building_stops_for_a_newer_version() -> None:
    stop = threading.Event()
    found = mistakes_unless_stopped(model(FEW_POINTS + 1), stop)
    assert found is not None
    assert [d.code for d in found] == ["E501"]
    stop.set()
    assert mistakes_unless_stopped(model(FEW_POINTS + 1), stop) is None
