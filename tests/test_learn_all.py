"""`learn="all"`: rows that a file states are to be learned as well, here and in runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mdpdsl
from mdpdsl.report.repeat import repeating_command
from mdpdsl.runs.records import RunOptions, decoded, encoded
from tests.cli.run import quick, written

MODEL = """\
mdp walk
state x in 0..2
action go, rest
init x = 0
on go -> ?=0.7: x' = mod(x + 1, 3) | ?=0.3: stay
on rest -> 0.5: stay | 0.5: x' = 0
"""
NAMED = "mdp m  param learn = 3  state x in 0..learn  action a  on a -> stay"


def test_all_pairs_are_to_be_learned_if_you_say_so(tmp_path: Path) -> None:
    path = written(tmp_path, MODEL)
    assert mdpdsl.load(path).graph.to_learn.sum() == 3
    for model in (mdpdsl.load(path, learn="all"), mdpdsl.loads(MODEL, learn="all")):
        assert model.graph.to_learn.all()
        assert model.options["learn"] == "all"
        assert model.over_all_states().graph.to_learn.all()
    assert "learn" not in mdpdsl.loads(MODEL, learn=None).options


def test_any_other_choice_is_refused() -> None:
    with pytest.raises(mdpdsl.SettingsError, match=r"`learn` cannot be 'some'; it is \"all\""):
        mdpdsl.loads(MODEL, learn="some")
    with pytest.raises(mdpdsl.SettingsError, match="cannot be 'none'"):
        mdpdsl.load("riverswim", learn="none")


def test_a_file_that_leaves_nothing_open_is_the_same() -> None:
    plain, learned = mdpdsl.load("riverswim"), mdpdsl.load("riverswim", learn="all")
    assert plain.graph.hash == learned.graph.hash


def test_a_run_is_read_again_with_what_it_learned(tmp_path: Path) -> None:
    model = mdpdsl.loads(MODEL, learn="all")
    run = mdpdsl.explore(model, steps=200, out=tmp_path / "all")
    again = mdpdsl.open_run(tmp_path / "all")
    assert again.model.graph.hash == run.model.graph.hash == model.graph.hash
    assert again.configuration.options.learn == "all"
    assert isinstance(again, mdpdsl.ExploreRun)
    assert again.worst == run.worst
    assert "--learn all" in str(repeating_command(again))
    plain = mdpdsl.explore(mdpdsl.loads(MODEL), steps=200, out=tmp_path / "plain")
    assert plain.model.graph.hash != model.graph.hash
    assert "learn" not in (tmp_path / "plain" / "run.json").read_text("utf-8")
    assert "--learn" not in str(repeating_command(mdpdsl.open_run(tmp_path / "plain")))


def test_replays_and_estimates_record_it_too(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("x,action\n" + "0,go\n1,rest\n0,rest\n0,go\n0,go\n1,go\n2,rest\n" * 5)
    model = mdpdsl.loads(MODEL, learn="all")
    mdpdsl.explore(model, log=log, out=tmp_path / "replay")
    mdpdsl.estimate(model, log, out=tmp_path / "estimate")
    for name in ("replay", "estimate"):
        record = json.loads((tmp_path / name / "run.json").read_text("utf-8"))
        assert record["options"]["learn"] == "all"
        assert mdpdsl.open_run(tmp_path / name).configuration.options.learn == "all"


def test_records_of_earlier_runs_are_unchanged() -> None:
    assert encoded(RunOptions()) == {"all_states": False}
    assert decoded(RunOptions, {"all_states": True}).learn is None
    assert encoded(RunOptions(learn="all"))["learn"] == "all"


@pytest.mark.parametrize("command", ["explore", "compare", "allocate"])
def test_commands_take_the_option(command: str, tmp_path: Path) -> None:
    model = written(tmp_path, MODEL)
    given = {
        "explore": ("--steps", "200", "--out", tmp_path / "run"),
        "compare": ("--steps", "200", "--trials", "1", "--algorithm", "random"),
        "allocate": (),
    }[command]
    plain = quick(command, model, *given, *(["--overwrite"] if command == "explore" else []))
    assert plain.status == 0
    learned = quick(command, model, *given, "--learn", "all", "--overwrite")
    assert learned.status == 0
    assert plain.stdout != learned.stdout
    refused = quick(command, model, *given, "--learn", "some")
    assert refused.status == 2
    assert "'all'" in refused.stderr


def test_estimate_takes_the_option(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("x,action\n0,go\n1,rest\n0,rest\n0,go\n")
    model = written(tmp_path, MODEL)
    made = ("estimate", model, tmp_path / "log.csv", "--out", tmp_path / "run", "--learn", "all")
    assert quick(*made).status == 0
    assert mdpdsl.open_run(tmp_path / "run").configuration.options.learn == "all"


def test_a_parameter_may_have_the_name_of_an_option(tmp_path: Path) -> None:
    model = written(tmp_path, NAMED)
    assert quick("check", model, "--set", "learn=5").status == 0
    assert quick("show", model, "--set", "learn=5", "--json").json()["states"] == 6
    refused = quick("show", model, "--set", "all_states=1")
    assert refused.status == 2
    assert "E601" in refused.stderr
