"""Find where the rows of a CSV file end if fields are quoted, and quotes that are never closed.

A quote opens a field only at its start, and `""` in a quoted field is a quote. A quoted field may
contain line ends. If it does, a delimiter or a line end must follow the closing quote: otherwise
that quote belongs to a later row, and the one that opened the field was never closed.

Even so, a quote may be missing: then the field contains whole rows, with as many delimiters on a
line as rows have.
"""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

from mdpdsl.graph.space import IntArray
from mdpdsl.kernels.compiled import inner, reading

_BYTES = nb.types.Array(nb.uint8, 1, "C", readonly=True)
_QUOTE, _NEW_LINE, _RETURN = 34, 10, 13

#: What `scan_rows` writes: where the last whole row ends, the number of broken lines, whether a
#: quote is open at the end, the most line ends in a quoted field, and how many rows precede it;
#: whether a quoted field contains what looks like rows, how many rows precede the first of these
#: fields, and the number of rows.
END, N_BROKEN, IS_OPEN, MOST_LINES, ROWS_BEFORE, HAS_ROWS, ROWS_BEFORE_THESE, N_ROWS = range(8)
N_FOUND = 8


@inner
def _is_line_end(text: npt.NDArray[np.uint8], i: int) -> bool:
    """Return whether a line ends with this byte; of two that end it, with the second."""
    if text[i] == _RETURN:
        return i + 1 == len(text) or text[i + 1] != _NEW_LINE
    return text[i] == _NEW_LINE


@inner
def _has_row_inside(
    text: npt.NDArray[np.uint8], start: int, opened: int, end: int, delimiter: int, n: int
) -> bool:
    """Return whether a line that ends inside a quoted field has as many delimiters as a row.

    The row starts at `start`, its field at `opened`. On the first line, all delimiters count, but
    some must be in the field: otherwise the field is just the last one of a row.
    """
    n_here, is_inside = 0, False
    for i in range(start, end):
        if text[i] == delimiter:
            n_here += 1
            is_inside = is_inside or i > opened
        elif i > opened and _is_line_end(text, i):
            if is_inside and n_here == n:
                return True
            n_here, is_inside = 0, False
    return False


@reading(nb.void(_BYTES, nb.int64, nb.int64, nb.boolean, nb.int64[:, ::1], nb.int64[::1]))
def scan_rows(
    text: npt.NDArray[np.uint8],
    delimiter: int,
    n_delimiters: int,
    is_at_end: bool,
    broken: IntArray,
    found: IntArray,
) -> None:
    """Write start and end of each broken line to `broken`, and what `found` has to hold."""
    n = len(text)
    i = start = n_broken = n_rows = 0
    found[:] = 0
    while i < n and n_broken < len(broken):
        if text[i] == _QUOTE:
            n_lines, first_end = 0, n - 1
            j = i + 1
            while j < n and (text[j] != _QUOTE or (j + 1 < n and text[j + 1] == _QUOTE)):
                if text[j] == _QUOTE:
                    j += 1
                elif _is_line_end(text, j):
                    first_end = j if n_lines == 0 else first_end
                    n_lines += 1
                j += 1
            if j + 1 >= n and not is_at_end:
                found[IS_OPEN] = 1
                break
            after = text[j + 1] if j + 1 < n else _NEW_LINE
            is_clean = after in (delimiter, _NEW_LINE, _RETURN)
            if j >= n or (n_lines > 0 and not is_clean):
                broken[n_broken, 0], broken[n_broken, 1] = start, first_end + 1
                n_broken += 1
                n_rows += 1
                i = start = first_end + 1
                continue
            if n_lines > found[MOST_LINES]:
                found[MOST_LINES], found[ROWS_BEFORE] = n_lines, n_rows
            if n_lines > 0 and found[HAS_ROWS] == 0 and n_delimiters > 0:
                has_row = _has_row_inside(text, start, i, j, delimiter, n_delimiters)
                found[HAS_ROWS], found[ROWS_BEFORE_THESE] = has_row, n_rows
            i = j + 1
        while i < n:
            byte = text[i]
            if byte in (delimiter, _NEW_LINE, _RETURN):
                break
            i += 1
        if i < n and text[i] != delimiter:
            n_rows += 1 if i > start else 0
            i += 1 if _is_line_end(text, i) else 2
            start = i
        else:
            i += 1
    is_whole = is_at_end and i >= n
    found[END] = n if is_whole else start
    found[N_BROKEN], found[N_ROWS] = n_broken, n_rows
