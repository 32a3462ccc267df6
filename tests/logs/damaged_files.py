"""Count Parquet and Arrow files with changed bytes, and print what became of them.

    python -m tests.logs.damaged_files FOLDER N_CHANGES

This is a process of its own, as an array whose offsets are wrong may crash the whole of Python.
"""

from __future__ import annotations

import io
import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import compute, parquet

import mdpdsl
from mdpdsl.diagnostics import LogError
from mdpdsl.logs.count import count_logs

N_ROWS = 200
MODEL = "mdp spaces\nstate x in 0..4\naction a, b\n"


def _table() -> pa.Table:
    return pa.table(
        {
            "episode": [f"run {i // 20}" for i in range(N_ROWS)],
            "time": list(range(N_ROWS)),
            "x": [None if i % 7 == 0 else i % 5 for i in range(N_ROWS)],
            "action": ["ab"[i % 2] for i in range(N_ROWS)],
        }
    )


def _parquet(**options: Any) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(_table(), sink, **options)
    return sink.getvalue()


def _arrow(new: Callable[..., Any], table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    with new(sink, table.schema, **options) as writer:
        writer.write_table(table, max_chunksize=100)
    return sink.getvalue()


def _with(table: pa.Table, name: str, change: Callable[[Any], Any]) -> pa.Table:
    place = table.column_names.index(name)
    return table.set_column(place, name, change(table[name].combine_chunks()))


def contents() -> dict[str, bytes]:
    """Return files by name, in the forms that Parquet and Arrow have for the same rows."""
    table, new_file, new_stream = _table(), pa.ipc.new_file, pa.ipc.new_stream
    packed = pa.ipc.IpcWriteOptions(compression="lz4")
    delta = {"time": "DELTA_BINARY_PACKED", "episode": "DELTA_BYTE_ARRAY"}
    names = _with(table, "episode", compute.dictionary_encode)
    views = _with(table, "episode", lambda column: column.cast(pa.string_view()))
    runs = _with(table, "x", compute.run_end_encode)
    return {
        "packed.parquet": _parquet(),
        "plain.parquet": _parquet(compression="none", use_dictionary=False),
        "delta.parquet": _parquet(use_dictionary=False, column_encoding=delta),
        "summed.parquet": _parquet(compression="none", write_page_checksum=True),
        "plain.arrow": _arrow(new_file, table),
        "packed.arrow": _arrow(new_file, table, options=packed),
        "stream.arrow": _arrow(new_stream, table),
        "names.arrow": _arrow(new_stream, names),
        "views.arrow": _arrow(new_file, views),
        "runs.arrow": _arrow(new_file, runs),
    }


def outcome(path: Path) -> str:
    """Return whether a file is refused, counted as a whole, or said to break off."""
    model = mdpdsl.loads(MODEL)
    try:
        read = count_logs(model.checked, model.graph, [path])
    except LogError as error:
        return "refused" if str(path) in str(error) else "unclear"
    if any("breaks off after row" in problem.message for problem in read.problems):
        return "breaks off" if read.rows < N_ROWS else "unclear"
    return "whole" if read.rows == N_ROWS else f"{read.rows} rows without a word"


def main(folder: Path, n_changes: int) -> None:
    """Print how often each outcome occurred, by file."""
    found = {}
    for name, content in contents().items():
        draw = random.Random(name)
        outcomes: Counter[str] = Counter()
        for _ in range(n_changes):
            changed = bytearray(content)
            for _ in range(draw.choice([1, 1, 8])):
                place = draw.randrange(len(changed))
                flipped = changed[place] ^ (1 << draw.randrange(8))
                changed[place] = draw.choice([flipped, 0, 255])
            (folder / name).write_bytes(changed)
            outcomes[outcome(folder / name)] += 1
        found[name] = outcomes
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
