"""Rows per second of `estimate` against DuckDB on the same transitions, in the same run.

    python benchmarks/logs.py [--rows 10_000_000] [--rounds 5] [--log model] [--table] [--json]

* sorted: mdpdsl reads a Parquet file of raw values, sorted by episode and time, checks every value
  and the order, finds cells and counts. DuckDB reads the states, actions and next states of the
  same rows as whole numbers, and only groups and counts them (`GROUP BY`).
* shuffled: the same rows in random order. DuckDB finds next states by `LEAD` over episodes ordered
  by time, and groups.

The log has either the cells' centres, as `simulate` writes them for the finite pendulum, or the
values of the continuous one, which take seven times the bytes. Both sides use all cores and take
turns; each is run once before the clock starts, and both must count the same. Peak memory is that
of a separate process that reads the file once. With `--table`, mdpdsl counts the rows of a table in
memory, so that its time does not include reading the file, and DuckDB's does.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
from pyarrow import parquet

import mdpdsl
from mdpdsl.logs.count import count_logs

MODEL = "pendulum"
LOGS = ("model", "continuous")
EPISODE_LENGTH = 1000
_SHUFFLE = "ORDER BY hash(episode * 1000003 + time)"
#: The states and actions of MODEL, as a query of DuckDB.
_BINNED = """
    SELECT episode, time, u::INT + 2 AS a,
           (10 * least(9, greatest(0, floor((theta + pi()) / (2 * pi()) * 10)))
            + least(9, greatest(0, floor((omega + 8) / 16 * 10))))::INT AS s
"""
_GROUP = "SELECT s, a, n, count(*) FROM {} WHERE n IS NOT NULL AND a IS NOT NULL GROUP BY ALL"
_LEAD = "(SELECT s, a, LEAD(s) OVER (PARTITION BY episode ORDER BY time) AS n FROM '{}')"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=lambda t: int(float(t.replace("_", ""))), default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--log", dest="logs", action="append", choices=LOGS, help="one of them")
    parser.add_argument("--table", action="store_true", help="read a table in memory")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--peak", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak is not None:
        print(json.dumps(peak_of(options.peak)))
        return
    results = []
    with tempfile.TemporaryDirectory() as name:
        for kind in options.logs or LOGS:
            folder = Path(name) / kind
            write_logs(folder, kind, options.rows)
            for order in ("sorted", "shuffled"):
                results.append(measured(kind, folder, order, options.rounds, options.table))
                if not options.json:
                    show(results[-1])
    if options.json:
        print(json.dumps(results))


def show(r: dict[str, Any]) -> None:
    print(
        f"{r['log']}, {r['order']}: mdpdsl {r['rows_per_second']:,.0f} rows/s, DuckDB "
        f"{r['duckdb_rows_per_second']:,.0f}: {r['ratio']:.2f} of it "
        f"({r['least_ratio']:.2f} to {r['largest_ratio']:.2f}); CPU {r['cpu_ratio']:.2f}; "
        f"peak {r['peak_megabytes']:,.0f} MB ({r['idle_megabytes']:,.0f} MB before reading)",
        flush=True,
    )


def write_logs(folder: Path, kind: str, n_rows: int) -> None:
    folder.mkdir()
    n_steps = n_rows * EPISODE_LENGTH // (EPISODE_LENGTH + 1)
    arguments = ["--steps", str(n_steps), "--episode-length", str(EPISODE_LENGTH), "--quiet"]
    arguments += ["--simulate", kind, "--out", str(folder / "sorted.parquet"), "--json"]
    line = [sys.executable, "-m", "mdpdsl", "simulate", MODEL, *arguments]
    subprocess.run(line, check=True, capture_output=True)
    raw, binned = folder / "sorted.parquet", folder / "binned.parquet"
    with duckdb.connect(config={"preserve_insertion_order": True}) as connection:

        def copy(query: str, path: Path) -> None:
            connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")

        copy(f"SELECT * FROM '{raw}' {_SHUFFLE}", folder / "shuffled.parquet")
        copy(f"{_BINNED} FROM '{raw}'", binned)
        copy(f"SELECT * FROM '{binned}' {_SHUFFLE}", folder / "binned-shuffled.parquet")
        lead = "LEAD(s) OVER (PARTITION BY episode ORDER BY time)"
        copy(
            f"SELECT s, a, {lead} AS n FROM '{binned}' ORDER BY episode, time",
            folder / "binned-sorted.parquet",
        )


def measured(kind: str, folder: Path, order: str, rounds: int, is_table: bool) -> dict[str, Any]:
    raw, binned = folder / f"{order}.parquet", folder / f"binned-{order}.parquet"
    table = f"'{binned}'" if order == "sorted" else _LEAD.format(binned)
    query = _GROUP.format(table)
    model = mdpdsl.load(MODEL)
    log = parquet.read_table(raw) if is_table else raw

    def ours() -> tuple[int, int]:
        read = count_logs(model.checked, model.graph, [log])
        return read.rows, read.counts.n_transitions

    def theirs() -> int:
        with duckdb.connect() as connection:
            return sum(row[-1] for row in connection.execute(query).fetchall())

    n_rows, n_counted = ours()
    assert theirs() == n_counted, "both sides must count the same"
    times = [(timed(ours), timed(theirs)) for _ in range(rounds)]
    ratios = [their[0] / our[0] for our, their in times]
    peak = json.loads(
        subprocess.run(
            [sys.executable, __file__, "--peak", str(raw)], check=True, capture_output=True
        ).stdout
    )
    return {
        "log": kind,
        "order": order,
        "rows": n_rows,
        "bytes": raw.stat().st_size,
        "rows_per_second": n_rows / statistics.median(our[0] for our, _ in times),
        "duckdb_rows_per_second": n_rows / statistics.median(their[0] for _, their in times),
        "ratio": statistics.median(ratios),
        "least_ratio": min(ratios),
        "largest_ratio": max(ratios),
        "cpu_ratio": statistics.median(their[1] / our[1] for our, their in times),
        **peak,
    }


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return wall-clock and CPU seconds."""
    clock, processors = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - clock, time.process_time() - processors


def peak_of(path: str) -> dict[str, float]:
    def peak() -> float:  # ru_maxrss would be that of the process that started this one
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1e3

    model = mdpdsl.load(MODEL)
    _ = model.graph
    idle = peak()
    count_logs(model.checked, model.graph, [path])
    return {"peak_megabytes": peak(), "idle_megabytes": idle}


if __name__ == "__main__":
    main()
