"""One observation at a time is read as the log's reader reads them all."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.compile.model import Model
from mdpdsl.explore.live.journal import LiveLog
from mdpdsl.explore.live.observed import live_columns
from mdpdsl.explore.live.observer import Observer, plain, texts_of
from mdpdsl.graph.space import Value
from mdpdsl.logs.rejections import MOST_EXAMPLES

TEXT = """\
mdp mixed
state angle in [-pi, pi] wrap bins 7
state speed in [-2, 2] clip edges [-2, -0.1, 0.1, 2]
state level in -1..3
state gear in {low, high}
state lamp in bool
state volt in {0.1, 0.2, 5}
state side in {near, far}
action a, b
log {
  angle = atan2(s, c)
  speed = min(1 / v, 5)
  level = k
  gear = g
  lamp = on_
  side = if c > 0 then near else far
}
"""
#: One that is worked out directly where nothing is odd, and one that is left to the reader.
MODELS = [
    mdpdsl.loads("\n".join(line for line in TEXT.splitlines() if "side" not in line)),
    mdpdsl.loads(TEXT),
]
NUMBERS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(-3, 3),
    st.sampled_from([0, 1, -1, 2, 0.0, -0.0, 1e-300, 10**400, True, False, None, "", "nan", "x"]),
    st.sampled_from([np.float32(0.1), np.int64(2), np.array(1.5), np.bool_(True), "1.5", " 2 "]),
)
OBSERVATIONS = st.fixed_dictionaries(
    {
        "s": NUMBERS,
        "c": NUMBERS,
        "v": NUMBERS,
        "k": st.one_of(NUMBERS, st.integers(-2, 4), st.integers(-1, 3)),
        "g": st.one_of(st.sampled_from(["low", "high", " high", "top"]), NUMBERS),
        "on_": st.one_of(st.booleans(), st.sampled_from(["true", "False", 0, 1]), NUMBERS),
        "volt": st.one_of(st.sampled_from([0.1, np.float32(0.2), 5, 5.0, 0.1 + 1e-8]), NUMBERS),
    }
)
#: Without anything odd, so that many are states.
GOOD = st.fixed_dictionaries(
    {
        "s": st.floats(-1, 1),
        "c": st.floats(-1, 1),
        "v": st.floats(0.1, 100),
        "k": st.integers(-1, 3),
        "g": st.sampled_from(["low", "high", 0, 1]),
        "on_": st.booleans(),
        "volt": st.sampled_from([0.1, np.float32(0.2), 5]),
    }
)

#: Good but for one value, or all of it.
ONE_ODD = st.builds(
    lambda row, name, value: {**row, name: value},
    GOOD,
    st.sampled_from(["s", "c", "v", "k", "g", "on_", "volt"]),
    NUMBERS,
)


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(MODELS), st.lists(OBSERVATIONS | ONE_ODD | GOOD, min_size=1, max_size=12))
def test_states_and_rejections_are_those_of_the_log(
    model: Model, rows: list[dict[str, Any]]
) -> None:
    observed = [{name: plain(row[name], name) for name in rows[0]} for row in rows]
    columns = live_columns(model.checked, observed[0], "the rig")
    with tempfile.TemporaryDirectory() as folder:
        log = LiveLog(Path(folder) / "log.csv", columns)
        live = Observer(model.checked, model.graph, columns, log.path)
        states = []
        for row, seen in enumerate(observed):
            values = seen | dict.fromkeys(columns.flags, False)
            texts = texts_of(values)
            # Each row an action after the last: so all but the first are where a step led to.
            if row == 0:
                log.begin(0, 0, texts)
            else:
                log.step(row % 2, 0, row, texts)
            found = live.read(values, texts, row + 1)
            states.append(-1 if found is None else found.state)
        log.close()
        reader = Observer(model.checked, model.graph, columns, log.path)
        replay = reader.replay()
    acted = [row for row in range(len(rows) - 1) if states[row] >= 0]
    assert replay.arrival.tolist() == [states[row + 1] for row in acted]
    assert model.graph.pair_state[replay.pair].tolist() == [states[row] for row in acted]
    assert live.rejected.counts == reader.rejected.counts
    for reason, number in live.rejected.counts.items():
        if number <= MOST_EXAMPLES:  # else the reader, which takes column by column, keeps others
            kept = (live.rejected.examples[reason], reader.rejected.examples[reason])
            assert sorted(map(str, kept[0])) == sorted(map(str, kept[1]))
    assert live.clipped == reader.clipped


@pytest.mark.parametrize("value", [np.zeros(2), [1], {"x": 1}, 1j])
def test_what_is_no_value_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match=r"column `x`.*each number in a column of its own"):
        plain(value, "x")


@pytest.mark.parametrize(
    ("value", "expected"), [(np.float32(0.5), 0.5), (np.array(3), 3), (np.bool_(True), True)]
)
def test_numbers_of_numpy_are_numbers(value: object, expected: Value) -> None:
    found = plain(value, "x")
    assert (found, type(found)) == (expected, type(expected))


def test_nothing_is_a_missing_value() -> None:
    found = plain(None, "x")
    assert isinstance(found, float)
    assert math.isnan(found)
