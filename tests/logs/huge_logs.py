"""Write and count logs with huge parts, and print what was counted, the time and the memory.

    python -m tests.logs.huge_logs FOLDER

Each log is counted in a process of its own, so that its memory can be measured.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import mdpdsl
from mdpdsl.logs.count import count_logs

N_COLUMNS = 1_000_000
FIELD_BYTES = 70_000_000
N_ROWS = 400_000
#: Makes the rows long enough that the file does not fit in what is read at once.
NOTE = "n" * 40
#: Rows, from 1, in which a quote is never closed, in two of the logs.
OPEN_QUOTES = {"an open quote": [1], "open quotes": [1, N_ROWS // 2, N_ROWS]}


def rows_with_open_quotes(rows: list[int]) -> Iterator[str]:
    """Return the lines of a log in which some rows have an open quote."""
    yield "note,episode,time,x,action\n"
    for row in range(1, N_ROWS + 1):
        quote = '"' if row in rows else ""
        yield f"{quote}{NOTE},0,{row},{row * row % 5},a\n"


def _wide() -> Iterator[str]:
    yield ",".join(f"c{i}" for i in range(N_COLUMNS)) + ",x,action\n"
    for x in range(2):
        yield "1," * N_COLUMNS + f"{x},a\n"


def _wide_objects() -> Iterator[str]:
    keys = ", ".join(f'"c{i}": 1' for i in range(N_COLUMNS))
    for x in range(2):
        yield f'{{{keys}, "x": {x}, "action": "a"}}\n'


def _long_note(quote: str) -> Iterator[str]:
    yield "note,x,action\nn,0,a\n" + quote
    for _ in range(70):
        yield "y" * (FIELD_BYTES // 70)
    yield f"{quote},1,a\nn,2,a\n"


def _long_value() -> Iterator[str]:
    yield "x,action\n0,a\n"
    for _ in range(70):
        yield "1" * (FIELD_BYTES // 70)
    yield ",a\n2,a\n3,a\n"


def _long_object() -> Iterator[str]:
    yield '{"x": 0, "action": "a"}\n{"x": "'
    for _ in range(70):
        yield "y" * (FIELD_BYTES // 70)
    yield '", "action": "a"}\n{"x": 2, "action": "a"}\n{"x": 3, "action": "a"}\n'


LOGS: dict[str, tuple[str, Callable[[], Iterator[str]]]] = {
    "wide": ("wide.csv", _wide),
    "wide objects": ("wide.jsonl", _wide_objects),
    "a long field": ("field.csv", lambda: _long_note("")),
    "a long quoted field": ("quoted.csv", lambda: _long_note('"')),
    "a long number": ("number.csv", _long_value),
    "a long text": ("text.jsonl", _long_object),
    "an open quote": ("quote.csv", partial(rows_with_open_quotes, OPEN_QUOTES["an open quote"])),
    "open quotes": ("quotes.csv", partial(rows_with_open_quotes, OPEN_QUOTES["open quotes"])),
}


def counted(folder: Path, name: str) -> dict[str, Any]:
    """Write a log and count it; return what was found, the seconds and the megabytes."""
    file, lines = LOGS[name]
    path = folder / file
    with path.open("w") as opened:
        opened.writelines(lines())
    model = mdpdsl.loads("mdp spaces\nstate x in 0..4\naction a, b\n")
    began = time.perf_counter()
    read = count_logs(model.checked, model.graph, [path])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "seconds": time.perf_counter() - began,
        "megabytes": peak / (1e6 if sys.platform == "darwin" else 1e3),
        "rows": read.rows,
        "transitions": read.counts.n_transitions,
        "rejected": read.rejected.counts,
        "places": {why: [e.row for e in kept] for why, kept in read.rejected.examples.items()},
        "problems": len(read.problems),
    }


def main(folder: Path) -> None:
    """Print what was counted in each log, as one JSON object."""
    # A process for each log, as memory that was used once is kept; where it can be, a copy of this
    # one, which has everything imported.
    context = get_context("fork" if sys.platform == "linux" else "spawn")
    with context.Pool(1, maxtasksperchild=1) as pool:
        found = pool.map(partial(counted, folder), LOGS, chunksize=1)
    print(json.dumps(dict(zip(LOGS, found, strict=True))))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
