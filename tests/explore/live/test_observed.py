"""What a live log's columns are called, and that the model reads them back."""

from __future__ import annotations

import pytest

import mdpdsl
from mdpdsl.diagnostics import SettingsError
from mdpdsl.explore.live.observed import live_columns, suggested_block

SPACES = "mdp rig\nstate x in 0..3\n"
NAMED = SPACES + "action left, right\n"
#: The columns for how an episode stopped, unless the model or the system has others.
FLAGS = ("terminated", "truncated")


def columns(text: str, *observed: str) -> tuple[str, ...]:
    return live_columns(mdpdsl.loads(text).checked, observed, "the rig").all


def texts(text: str, *observed: str) -> tuple[tuple[str, ...], ...]:
    return live_columns(mdpdsl.loads(text).checked, observed, "the rig").action_texts


def test_without_a_block_variables_have_their_own_names() -> None:
    assert columns(NAMED, "x", "more") == ("episode", "time", "x", "more", *FLAGS, "action")
    assert texts(NAMED, "x") == (("left",), ("right",))


def test_a_block_names_the_columns() -> None:
    text = NAMED + "log { episode = run time = t x = floor(obs_0) action = button }"
    assert columns(text, "obs_0") == ("run", "t", "obs_0", *FLAGS, "button")


def test_a_variable_named_like_the_time_or_the_episode_keeps_its_name() -> None:
    text = "mdp rig\nstate episode in 0..3\nstate time in 0..3\naction a"
    assert columns(text, "episode", "time") == (
        *("live_episode", "live_time"),
        *("episode", "time", *FLAGS, "action"),
    )


def test_a_block_names_the_columns_for_how_an_episode_stopped() -> None:
    text = NAMED + "log { ended = broken  cut = late }"
    assert columns(text, "x") == ("episode", "time", "x", "broken", "late", "action")


@pytest.mark.parametrize(
    ("block", "observed", "expected"),
    [
        ("", ("x", "terminated"), ("truncated",)),
        ("", ("x", "truncated"), ("terminated",)),
        ("log { ended = hot > 80 }", ("x", "hot"), ("truncated",)),
        ("log { ended = hot > 80  cut = late }", ("x", "hot", "late"), ()),
    ],
)
def test_what_is_observed_needs_no_column_for_how_an_episode_stopped(
    block: str, observed: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    found = live_columns(mdpdsl.loads(NAMED + block).checked, observed, "the rig")
    assert found.flags == expected


def test_a_variable_named_like_a_flag_keeps_its_name() -> None:
    text = "mdp rig\nstate terminated in bool\naction a"
    assert columns(text, "terminated") == ("episode", "time", "terminated", "truncated", "action")


@pytest.mark.parametrize(
    ("declared", "entry", "expected"),
    [
        ("action u in {-1, 0, 2}", "u = volts", ["-1", "0", "2"]),
        ("action u in {-1, 0.5}", "u = round(2 * volts) / 2", ["-1.0", "0.5"]),
        ("action u in {-1, 0, 2}", "u = 2 * volts - 1", ["0.0", "0.5", "1.5"]),
        ("action left, right", "action = if volts > 5 then right else left", ["0.0", "6.0"]),
        ("action u in 0..2", "u = (if volts < 0 then 0 else if volts < 3 then 1 else 2)", None),
        ("action u in bool", "u = volts > 2", ["0.0", "3.0"]),
    ],
)
def test_an_expression_of_an_action_is_turned_around(
    declared: str, entry: str, expected: list[str] | None
) -> None:
    model = mdpdsl.loads(f"{SPACES}{declared}\nlog {{ {entry} }}")
    found = live_columns(model.checked, ["x"], "the rig")
    assert found.actions == ("volts",)
    if expected is not None:
        assert [row[0] for row in found.action_texts] == expected
    assert len({row[0] for row in found.action_texts}) == model.graph.n_actions


@pytest.mark.parametrize(
    ("text", "observed", "message"),
    [
        (NAMED, ["obs_0"], "has no column `x`.*its columns are obs_0"),
        (NAMED + "log { x = speed + obs_1 }", ["obs_1", "sped"], "`speed`.*did you mean `sped`"),
        (NAMED, ["x", "action"], "`action`, but the log uses that name for an action"),
        (NAMED, ["x", "time"], "`time`, but the log uses that name for the time"),
        (NAMED, ["x", "next_x"], "`next_x`, which a log reads as a next value"),
        (NAMED + "log { x = a next_x = b }", ["a", "b"], "gives next values"),
        (NAMED + "log { time = t episode = t }", ["x"], "both in the column `t`"),
        (NAMED + "log { time = t ended = t }", ["x"], "both in the column `t`"),
        (NAMED + "log { action = truncated }", ["x"], "both in the column `truncated`"),
        (NAMED + "log { ended = hot > 80 }", ["x"], "no column `hot`.*reads for `ended`"),
        (NAMED + "log { time = t^2 }", ["x"], "computes `time`"),
        (NAMED + "log { episode = floor(t / 100) }", ["x"], "computes `episode`"),
        (SPACES + "action u in 0..2\nlog { u = a + b }", ["x"], "cannot be inverted"),
        (SPACES + "action u in 0..2\nlog { u = min(a, 1) }", ["x"], "cannot be inverted"),
        (NAMED, [], "observes nothing"),
        (NAMED, ["x", "a,b"], "names are words"),
    ],
)
def test_what_cannot_be_read_back_is_refused(text: str, observed: list[str], message: str) -> None:
    with pytest.raises(SettingsError, match=f"(?s){message}"):
        live_columns(mdpdsl.loads(text).checked, observed, "the rig")


def test_a_time_in_seconds_can_be_followed() -> None:
    assert columns(NAMED + "log { time = step * 0.05 }", "x")[1] == "step"


@pytest.mark.parametrize("observed", [("obs_0", "obs_1", "obs_2"), ("obs_0",), ("y", "obs_0")])
def test_the_suggested_block_works(observed: tuple[str, ...]) -> None:
    text = "mdp rig\nstate x in 0..3\nstate y in [0, 1] bins 2\naction a"
    block = suggested_block(mdpdsl.loads(text).checked, observed)
    assert columns(f"{text}\n{block}", *observed)[2:-1] == (*observed, *FLAGS)
    assert "y = y" in block or "y" not in observed
