"""Completions inside a property: what its own grammar allows there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mdpdsl.compile.property_check import BUILT_IN_LABELS
from mdpdsl.editor import vocabulary
from mdpdsl.editor.document import Document
from mdpdsl.syntax.parse import statement_starts
from mdpdsl.syntax.property_parse import accepted

_HEAD = re.compile(r"\bproperty\s+[^\W\d]\w*\s*=(?!=)")
_STRING = re.compile(r'"[^"\n]*"')
_COMPARED = re.compile(r"([^\W\d]\w*)\s*!?=\s*\Z")


@dataclass(frozen=True)
class PropertyPlace:
    """The text of a property before a position, and what may follow."""

    text: str
    terminals: frozenset[str]

    @property
    def is_operand(self) -> bool:
        """Whether a condition may begin here."""
        return {"NUMBER", "STRING"} <= self.terminals

    @property
    def compared(self) -> str | None:
        """The name with which the next value is compared."""
        found = _COMPARED.search(self.text)
        return found.group(1) if found else None


def open_property(before: str) -> str | None:
    """Return the text of the property that a position is in; None if it is in none."""
    heads = list(_HEAD.finditer(before))
    if not heads:
        return None
    body = before[heads[-1].end() :]
    bare = _STRING.sub("", re.sub(r"#[^\n]*", "", body))
    has_more = any(start > 0 for start in statement_starts(body))
    is_closed = "[" in bare and bare.count("[") <= bare.count("]")
    return None if has_more or is_closed else body


def quoted_names(document: Document, text: str) -> tuple[list[str], int] | None:
    """Return the names that may be in quotes if a string is open, and the length of its part."""
    line = text[text.rfind("\n") + 1 :]
    if line.count('"') % 2 == 0:
        return None
    head, _, part = text.rpartition('"')
    if head.rstrip().endswith("{"):
        return list(reward_names(document)), len(part)
    return [*label_names(document), *BUILT_IN_LABELS], len(part)


def property_place(text: str) -> PropertyPlace:
    """Return what may follow the beginning of a property."""
    return PropertyPlace(text, accepted(text))


def operator_words(document: Document, place: PropertyPlace) -> Iterator[tuple[str, str]]:
    """Return the words that begin or continue a property here, with what they mean."""
    terminals = place.terminals
    if "PMAX" in terminals:
        yield from vocabulary.QUERIES.items()
        for name in reward_names(document):
            yield f'R{{"{name}"}}max=?', f"the largest expected sum of the reward {name}"
        return
    if {"C", "S"} <= terminals:
        yield from vocabulary.REWARD_FORMULAS.items()
        return
    yield from (
        (word, text) for word, text in vocabulary.PATH_OPERATORS.items() if word in terminals
    )
    yield from ((word, "") for word in ("max", "min") if word.upper() in terminals)


def label_names(document: Document) -> Iterator[str]:
    """Return the labels of a model."""
    yield from document.checked.labels


def reward_names(document: Document) -> Iterator[str]:
    """Return the named rewards of a model."""
    yield from (name for name in document.checked.reward_names if name != "default")
