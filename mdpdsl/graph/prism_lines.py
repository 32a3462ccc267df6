"""Files of numbers, line by line, and what is wrong with a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mdpdsl.diagnostics import Diagnostic, ModelError, Source, Span


class Lines:
    """The lines of a file that say something, with their places for messages."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def __iter__(self) -> Iterator[tuple[Span, list[str]]]:
        """Yield each line as its place and its words; empty ones and comments are left out."""
        offset = 0
        for line in self.source.text.split("\n"):
            text = line.strip()
            if text and not text.startswith("#"):
                start = offset + line.index(text)
                yield Span(start, start + len(text)), text.split()
            offset += len(line) + 1

    def error(
        self, message: str, help_text: str | None = None, at: Span | None = None
    ) -> ModelError:
        """Return what is wrong with the file, at a line or with all of it."""
        return ModelError([Diagnostic("E603", message, at, help_text, source=self.source)])


def read_lines(path: Path) -> Lines:
    """Read a text file; raise ModelError where it cannot be read."""
    try:
        return Lines(Source(path.read_text("utf-8"), str(path)))
    except UnicodeDecodeError:
        reason = "it is not a text in UTF-8"
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
    raise ModelError([Diagnostic("E603", f"cannot read {path}: {reason}", None, "check the path")])
