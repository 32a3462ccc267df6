"""HTML pages as trees, read with the standard library only."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "input", "br", "img", "link", "hr"}


@dataclass
class Element:
    """An element with its content."""

    tag: str
    attributes: dict[str, str]
    children: list[Element] = field(default_factory=list)
    words: str = ""

    def every(self, tag: str, **attributes: str) -> list[Element]:
        """Return all elements below with a tag, and with these words in their attributes."""
        found = []
        for child in self.children:
            given = {k: child.attributes.get(k, "").split() for k in attributes}
            if child.tag == tag and all(v in given[k] for k, v in attributes.items()):
                found.append(child)
            found += child.every(tag, **attributes)
        return found

    def text(self) -> str:
        """Return all words below, in no particular order of nesting."""
        return " ".join([self.words, *(child.text() for child in self.children)]).strip()


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> ends <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].words += data


def parsed(page: str) -> Element:
    """Read a page; every element must be closed, in order."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == [reader.root], f"never closed: {[e.tag for e in reader.open]}"
    return reader.root


def addresses(page: str) -> list[str]:
    """Return all addresses in a page."""
    found = re.findall(r"(?:src|href|srcset|action|data)=\"([^\"]*)\"", page)
    found += re.findall(r"url\(([^)]*)\)", page)
    found += re.findall(r"@import[^;]*;", page)
    return [a for a in found if not a.startswith(("#", "data:image/png;base64,"))]
