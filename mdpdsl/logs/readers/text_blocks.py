"""Text files in blocks of whole lines, as UTF-8, whatever their encoding.

A byte order mark at the beginning says that a file is UTF-8, UTF-16 or UTF-32. Without one, and
without an encoding that the user gives, a file is UTF-8; a line that is not is read as
Windows-1252, which contains what is usually meant by Latin-1.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from mdpdsl.logs.readers.log_file import BLOCK_BYTES, READ_ERRORS, bytes_of, is_compressed, shown

#: A line longer than this is skipped, and counted as broken.
MOST_LINE_BYTES = 128_000_000
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins like UTF-16
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

#: Returns where the last whole line of some text ends, given whether the file ends there.
FindEnd = Callable[[bytes, bool], int]


class TextStream:
    """The bytes of a text file as UTF-8, without a byte order mark.

    A file that cannot be read to its end seems to end there, and `error` says what is wrong: the
    lines before are good.
    """

    def __init__(self, path: Path, encoding: str | None) -> None:
        self.error: Exception | None = None
        self.has_known_encoding = encoding is not None
        self._file = bytes_of(path)
        # Reads no more than can be unpacked at once: an error loses what its own call has read.
        self._read_some = self._file.read1 if is_compressed(path) else self._file.read
        self._decoder: Any = None
        try:
            self._rest = self._file.read(4)
        except BaseException:
            self._file.close()
            raise
        for mark, name in _MARKS:
            if self._rest.startswith(mark):
                self._rest = self._rest[len(mark) :]
                self.has_known_encoding = mark != codecs.BOM_UTF8
                encoding = name if self.has_known_encoding else None
                break
        if encoding is not None:
            self._decoder = codecs.getincrementaldecoder(encoding)()

    def __enter__(self) -> TextStream:
        """Return the stream itself."""
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        """Close the file."""
        self._file.close()

    def read(self, size: int) -> bytes:
        """Return about as many bytes as asked for; fewer only at the end."""
        pieces: list[bytes] = []
        n = 0
        while n < size and self.error is None:
            try:
                piece = self._rest or self._read_some(min(size - n, BLOCK_BYTES))
                self._rest = b""
                is_at_end = not piece
                if self._decoder is not None:
                    piece = self._decoded(piece, is_at_end)
            except READ_ERRORS as error:
                self.error = error
                break
            pieces.append(piece)
            n += len(piece)
            if is_at_end:
                break
        return b"".join(pieces)

    def _decoded(self, piece: bytes, is_at_end: bool) -> bytes:
        """Return a piece as UTF-8, up to the first byte that means nothing in its encoding."""
        n_kept = len(self._decoder.getstate()[0])  # bytes of a character that began before
        try:
            text = self._decoder.decode(piece, is_at_end)
        except UnicodeDecodeError as error:
            self.error = error
            text = self._decoder.decode(piece[: max(0, error.start - n_kept)])
        return bytes(text.encode("utf-8", "replace"))


@dataclass(frozen=True)
class LongLine:
    """A line that is too long to be read."""

    n_bytes: int
    start: bytes

    @property
    def text(self) -> str:
        """What to show of the line."""
        return shown(f"a line of {self.n_bytes:,} bytes: {self.start.decode('utf-8', 'replace')}")


def whole_lines(
    stream: TextStream, find_end: FindEnd, newline: bytes = b"\n", least: int = BLOCK_BYTES
) -> Iterator[bytes | LongLine]:
    """Return blocks of whole lines of at least some bytes, and the lines that are too long."""
    rest = b""
    while True:
        size = max(least, len(rest))  # twice as much each time that no line ends
        new = stream.read(size)
        is_at_end = len(new) < size and stream.error is None
        text = rest + new if rest else new
        end = find_end(text, is_at_end)
        if end:
            yield text[:end]
        rest = text[end:]
        if len(new) < size:
            if is_at_end and rest:
                yield rest
            return
        if len(rest) > MOST_LINE_BYTES:
            line, rest = _skipped(stream, rest, newline)
            yield line


def as_utf8(text: bytes) -> tuple[bytes, int | None]:
    """Return lines as UTF-8, and how many rows precede the first that was not; None if all were."""
    if text.isascii() or _is_utf8(text):
        return text, None
    lines = text.splitlines(keepends=True)
    bad = [i for i, line in enumerate(lines) if not _is_utf8(line)]
    for i in bad:
        lines[i] = _from_windows(lines[i])
    n_before = sum(bool(line.strip(b"\r\n")) for line in lines[: bad[0]])
    return b"".join(lines), n_before


def _skipped(stream: TextStream, rest: bytes, newline: bytes) -> tuple[LongLine, bytes]:
    """Skip a long line; return it, and what follows."""
    start, n = rest[:100], 0
    while True:
        end = rest.find(newline)
        if end >= 0:
            return LongLine(n + end, start), rest[end + 1 :]
        n += len(rest)
        rest = stream.read(BLOCK_BYTES)
        if not rest:
            return LongLine(n, start), b""


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _from_windows(line: bytes) -> bytes:
    try:
        return line.decode("cp1252").encode()
    except UnicodeDecodeError:  # five bytes mean nothing there
        return line.decode("latin-1").encode()
