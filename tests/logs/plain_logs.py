"""Logs written by hand, and a plain counter to compare with."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import mdpdsl
from mdpdsl.compile.model import Model
from mdpdsl.graph.space import IntArray
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.logs.count import LogCounts, count_logs
from mdpdsl.logs.order import TransitionOrder
from mdpdsl.logs.reading_options import ReadingOptions

#: A model that knows nothing but its spaces.
SPACES = """\
mdp spaces
state x in 0..4
action a, b
"""

Row = Mapping[str, object]


def spaces(text: str = SPACES) -> Model:
    return mdpdsl.loads(text)


def write_csv(path: Path, rows: Sequence[Row]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def counted(model: Model, *paths: object, **options: object) -> LogCounts:
    """Count logs; the values of a short random log may be mostly out of range."""
    options = {"options": ReadingOptions(clip_anyway=True), **options}
    return count_logs(model.checked, model.graph, paths, **options)  # type: ignore[arg-type]


def entries(model: Model, read: LogCounts) -> dict[tuple[int, str, int], int]:
    """Return counts by state, action and successor."""
    graph, counts = model.graph, read.counts
    found = {}
    for pair in range(graph.n_pairs):
        for i in range(counts.successor_start[pair], counts.successor_start[pair + 1]):
            action = graph.actions.labels[graph.pair_action[pair]]
            key = (int(graph.pair_state[pair]), action, int(counts.successor[i]))
            found[key] = int(counts.count[i])
    return found


def plainly_counted(rows: Sequence[Row]) -> dict[tuple[int, str, int], int]:
    """Count rows of `SPACES` with whole times, one apart, by dictionaries."""
    episodes: dict[object, dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        time = row["time"]
        assert isinstance(time, int)
        episodes[row["episode"]][time].append(row)
    found: Counter[tuple[int, str, int]] = Counter()
    for episode in episodes.values():
        for time, here in episode.items():
            after = episode.get(time + 1, [])
            if len(here) != 1 or len(after) != 1:
                continue
            x, action, following = here[0]["x"], here[0]["action"], after[0]["x"]
            if x in range(5) and action in ("a", "b") and following in range(5):
                assert isinstance(x, int)
                assert isinstance(following, int)
                found[x, str(action), following] += 1
    return dict(found)


def add_steps(order: TransitionOrder, graph: TransitionGraph, codes: IntArray) -> None:
    """Keep transitions, each given as pair * n_states + successor; episodes start at breaks."""
    pair, following = np.divmod(codes, graph.n_states)
    state = graph.pair_state[pair]
    order.add_whole(codes, state != np.concatenate([[-1], following[:-1]]))
