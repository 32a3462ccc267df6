"""The speed of building a model from its file, against Storm on the same machine and run.

    python benchmarks/build.py [--rounds 3] [--side 1000] [--json]

Every measurement is a separate process: it imports, then is timed from text to model. The two sides
alternate, so that a busy machine slows both, and medians are reported. The grid is the same model
in both languages: `side` x `side` places, 4 actions, 3 branches each.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TypedDict

GRID_MDP = """\
mdp grid
param n = {side}
param slip = 0.2
state row in 0..n-1
state col in 0..n-1
action up, right, down, left
init row = 0, col = 0
let u = max(row - 1, 0)
let d = min(row + 1, n - 1)
let l = max(col - 1, 0)
let r = min(col + 1, n - 1)
on up    -> 1 - slip: row' = u | slip/2: col' = l | slip/2: col' = r
on down  -> 1 - slip: row' = d | slip/2: col' = l | slip/2: col' = r
on left  -> 1 - slip: col' = l | slip/2: row' = u | slip/2: row' = d
on right -> 1 - slip: col' = r | slip/2: row' = u | slip/2: row' = d
label goal when row == n-1 and col == n-1
"""

GRID_PRISM = """\
mdp
const int n = {side};
const double slip = 0.2;
formula u = max(r-1,0);
formula d = min(r+1,n-1);
formula l = max(c-1,0);
formula e = min(c+1,n-1);
module grid
  r : [0..n-1] init 0;
  c : [0..n-1] init 0;
  [up] true -> 1-slip : (r'=u) + slip/2 : (c'=l) + slip/2 : (c'=e);
  [down] true -> 1-slip : (r'=d) + slip/2 : (c'=l) + slip/2 : (c'=e);
  [left] true -> 1-slip : (c'=l) + slip/2 : (r'=u) + slip/2 : (r'=d);
  [right] true -> 1-slip : (c'=e) + slip/2 : (r'=u) + slip/2 : (r'=d);
endmodule
label "goal" = r=n-1 & c=n-1;
"""

#: A product of 9 * 10^6 states, too large to be expanded completely, of which only a strip along
#: the diagonal is reachable: about 300,000 states, found in 6,000 rounds of the search.
STRIP_MDP = """\
mdp strip
param n = 3000
param width = 50
state row in 0..n-1
state col in 0..n-1
action right, down
init row = 0, col = 0
on right when col - row < width and col < n-1 -> 0.9: col' = col + 1 | 0.1: stay
on right otherwise -> stay
on down when row - col < width and row < n-1 -> 0.9: row' = row + 1 | 0.1: stay
on down otherwise -> stay
"""

#: A vast product (10^12 states) of which 10^6 are reachable, found in 300 rounds.
CORNER_MDP = """\
mdp corner
state x in 0..9_999
state y in 0..9_999
state z in 0..9_999
action a, b, c
init x = 0, y = 0, z = 0
on a -> 0.5: x' = min(x + 1, 99) | 0.5: stay
on b -> 0.5: y' = min(y + 1, 99) | 0.5: stay
on c -> 0.5: z' = min(z + 1, 99) | 0.5: stay
"""

#: The same product, nearly all of it reachable.
VAST_MDP = CORNER_MDP.replace("mdp corner", "mdp vast").replace("99)", "9_999)")

#: Each program prints one JSON object: n_states, and the seconds from text to model. What a build
#: would import on its way is imported before, as Storm's libraries are.
MDPDSL = """\
import json, resource, sys, time
import numpy, scipy.sparse.csgraph, mdpdsl.compile.model
from mdpdsl.diagnostics import ModelError
begin = time.perf_counter()
try:
    model = mdpdsl.load(sys.argv[1], max_states=int(sys.argv[2]) or None)
    graph = model.graph
    sizes = [graph.n_states, graph.n_branches]
except ModelError as error:
    assert error.diagnostics[0].code == "E701", error
    sizes = [0, 0]
seconds = time.perf_counter() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"states": sizes[0], "branches": sizes[1], "seconds": seconds, "peak": peak}))
"""
STORM = """\
import json, resource, sys, time
import stormpy
begin = time.perf_counter()
model = stormpy.build_model(stormpy.parse_prism_program(sys.argv[1]))
seconds = time.perf_counter() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
sizes = {"states": model.nr_states, "branches": model.nr_transitions}
print(json.dumps({**sizes, "seconds": seconds, "peak": peak}))
"""


class Build(TypedDict):
    """One build: sizes, seconds from text to model, peak memory of its process in kB."""

    states: int
    branches: int
    seconds: float
    peak: int


class Speed(TypedDict):
    """Several builds of one model."""

    states: int
    branches: int
    seconds: float  # median
    spread: list[float]  # all of them, ascending
    states_per_second: float
    peak_megabytes: float


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", type=int, default=1000, help="of the grid shared with Storm")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = measure(Path(folder), options.rounds, options.side)
    if options.json:
        print(json.dumps(results))
    else:
        report(results)


def measure(folder: Path, rounds: int, side: int) -> dict[str, object]:
    """Run everything; the two sides of a comparison alternate."""
    grid = written(folder, "grid.mdp", GRID_MDP.format(side=side))
    prism = written(folder, "grid.prism", GRID_PRISM.format(side=side))
    strip = written(folder, "strip.mdp", STRIP_MDP)
    corner = written(folder, "corner.mdp", CORNER_MDP)
    vast = written(folder, "vast.mdp", VAST_MDP)
    ours, storms = [], []
    for _ in range(rounds):
        ours.append(child(MDPDSL, grid, "0"))
        storms.append(child(STORM, prism))
    assert {b["states"] for b in ours + storms} == {side * side}
    assert len({b["branches"] for b in ours + storms}) == 1, "not the same model"
    mine, theirs = speed(ours), speed(storms)
    return {
        "grid": mine,
        "storm": theirs,
        "ratio": mine["states_per_second"] / theirs["states_per_second"],
        "strip": speed([child(MDPDSL, strip, "0") for _ in range(rounds)]),
        "corner": speed([child(MDPDSL, corner, "2000000") for _ in range(rounds)]),
        "refusal": speed([child(MDPDSL, vast, "0") for _ in range(rounds)]),
    }


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def child(program: str, *arguments: str | Path) -> Build:
    """Run a program in a separate process and return its measurements."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: Build = json.loads(done.stdout.splitlines()[-1])
    return found


def speed(builds: list[Build]) -> Speed:
    seconds = statistics.median(b["seconds"] for b in builds)
    return {
        "states": builds[0]["states"],
        "branches": builds[0]["branches"],
        "seconds": seconds,
        "spread": sorted(b["seconds"] for b in builds),
        "states_per_second": builds[0]["states"] / seconds,
        "peak_megabytes": statistics.median(b["peak"] for b in builds) / 1e3,
    }


def report(results: dict[str, object]) -> None:
    titles = {
        "grid": "grid, mdpdsl",
        "storm": "grid, Storm",
        "strip": "strip of 3000 x 3000",
        "corner": "10^6 of 10^12 states",
        "refusal": "refusing 10^12 states",
    }
    for key, title in titles.items():
        found: Speed = results[key]  # type: ignore[assignment]
        spread = f"{found['spread'][0]:.2f}..{found['spread'][-1]:.2f} s"
        print(
            f"{title:22} {found['states']:>10,} states {found['seconds']:7.2f} s ({spread})"
            f" {found['states_per_second']:>11,.0f} states/s {found['peak_megabytes']:7,.0f} MB"
        )
    print(f"mdpdsl / Storm         {results['ratio']:.2f} x the states per second")


if __name__ == "__main__":
    main()
