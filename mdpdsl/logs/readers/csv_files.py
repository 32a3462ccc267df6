"""CSV files as logs, separated by commas, tabs or semicolons.

Fields stay texts here. Each row shows for itself what is a number, so that a bad field costs one
row and not the whole file.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from mdpdsl.logs.readers.log_file import (
    BLOCK_BYTES,
    READ_ERRORS,
    LogFile,
    LogFileError,
    RawBatch,
    bytes_of,
)

ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_PIECE_BYTES = 1 << 16


def open_csv(path: Path) -> LogFile:
    """Open a file and read its header; raise LogFileError where there is none."""
    with bytes_of(path) as file:
        header = file.readline().decode("utf-8-sig", "replace").rstrip("\r\n")
    delimiter = max(",", "\t", ";", key=header.count)
    names = tuple(next(csv.reader([header], delimiter=delimiter), []))
    if not names:
        raise LogFileError(f"{path} has no header", "name the columns in the first line")

    def read(columns: Sequence[str], batch_rows: int) -> Iterator[RawBatch]:
        yield from _batches(path, delimiter, names, columns, batch_rows)

    return LogFile(str(path), names, read)


def _batches(
    path: Path, delimiter: str, names: Sequence[str], columns: Sequence[str], batch_rows: int
) -> Iterator[RawBatch]:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    broken: list[tuple[int, str]] = []  # lines that Arrow has skipped and no batch contains yet

    def note(line: Any) -> str:
        found = f"{line.actual_columns} fields instead of {line.expected_columns}: {line.text}"
        broken.append((line.number - 1, found[:100]))  # Arrow counts the header as the first line
        return "skip"

    n_lines = 0
    with bytes_of(path) as file:
        file.readline()
        lines = _Lines(file, names, delimiter)
        reader = arrow_csv.open_csv(
            lines,
            # One thread, or broken lines come without their numbers.
            read_options=arrow_csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, invalid_row_handler=note),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=list(columns),
                column_types={name: pa.string() for name in columns},
                check_utf8=False,
            ),
        )
        for block in reader:
            for start in range(0, block.num_rows, batch_rows):
                batch = block.slice(start, batch_rows)
                candidates = n_lines + 1 + np.arange(batch.num_rows + len(broken))
                is_row = ~np.isin(candidates, [number for number, _ in broken])
                rows = candidates[is_row][: batch.num_rows]
                n_lines = int(rows[-1])
                skipped = [line for line in broken if line[0] < n_lines]
                broken[:] = broken[len(skipped) :]
                yield RawBatch({c: batch.column(c) for c in columns}, rows, tuple(skipped))
    if broken:
        nothing = {name: pa.array([], pa.string()) for name in columns}
        yield RawBatch(nothing, np.empty(0, np.int64), tuple(broken))
    if lines.error is not None:
        raise LogFileError(str(lines.error))


class _Lines(io.RawIOBase):
    """A file below its header, with the header written again in front, as it was understood.

    A compressed file that is cut short ends with its last whole line, and `error` says what is
    wrong: the rows before are good.
    """

    def __init__(self, file: IO[bytes], names: Sequence[str], delimiter: str) -> None:
        self.error: Exception | None = None
        self._file = file
        text = io.StringIO()
        csv.writer(text, delimiter=delimiter, lineterminator="\n").writerow(names)
        self._rest = text.getvalue().encode()  # read, and not yet passed on

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Return whole lines, up to a size."""
        if self.error is not None:
            return b""
        pieces, n = [self._rest], len(self._rest)
        is_at_end = False
        while n < size and not is_at_end:
            try:
                piece = self._file.read(min(size - n, _PIECE_BYTES))
            except READ_ERRORS as error:
                self.error = error
                break
            is_at_end = not piece
            pieces.append(piece)
            n += len(piece)
        found = b"".join(pieces)
        end = len(found)
        if not is_at_end:
            end = found.rfind(b"\n") + 1
            if end == 0 and self.error is None:  # a line longer than a block
                end = len(found)
        end = min(end, size)
        self._rest = found[end:]
        return found[:end]
