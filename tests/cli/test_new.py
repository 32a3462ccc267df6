"""`mdpdsl new`: what it prints and writes."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.run import quick, written

RIG = "run,k,temp_C,valve\n" + "".join(
    f"{run},{k},{20 + (7 * run + 3 * k) % 11}.5,{50 * (k * k % 3)}\n"
    for run in range(5)
    for k in range(60)
)


@pytest.fixture(autouse=True)
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return written(tmp_path, RIG, "rig.csv")


def test_the_draft_checks_and_reads_its_log() -> None:
    outcome = quick("new", "rig.csv")
    assert (outcome.status, outcome.stdout) == (0, "Wrote rig.mdp (10 states, 20 pairs)\n")
    assert quick("check", "rig.mdp").status == 0
    assert quick("fmt", "--check", "rig.mdp").status == 0
    record = quick("estimate", "rig.mdp", "rig.csv", "--json").json()
    assert (record["transitions"], record["rejected"]) == (5 * 59, {})


def test_json_has_the_variables_and_notes() -> None:
    record = quick("new", "rig.csv", "--json").json()
    assert record["path"] == "rig.mdp"
    assert [(v["name"], v["role"], v["column"]) for v in record["variables"]] == [
        ("temp_C", "state", "temp_C"),
        ("valve", "action", "valve"),
        ("episode", "episode", "run"),
        ("time", "time", "k"),
    ]
    assert record["notes"] == []


def test_a_dash_prints_the_draft() -> None:
    outcome = quick("new", "rig.csv", "--out", "-")
    assert outcome.stdout.startswith("# Drafted by `mdpdsl new` from rig.csv, 300 rows.")
    assert not Path("rig.mdp").exists()
    record = quick("new", "rig.csv", "--out", "-", "--json").json()
    assert (record["path"], record["text"]) == (None, outcome.stdout)


def test_options_name_columns_and_messages_name_options() -> None:
    outcome = quick("new", "rig.csv", "--action", "valve", "--ignore", "run", "--out", "-")
    assert "# `run` is not used: ignored, as you asked" in outcome.stdout
    written(Path(), RIG.replace("valve", "v").replace("50", "51.5"), "other.csv")
    Path("other.csv").write_text("x,y\n" + "".join(f"{k / 7},{k / 3}\n" for k in range(99)))
    outcome = quick("new", "other.csv")
    assert outcome.status == 2
    assert "say which columns are actions with --action, as in --action x" in outcome.stderr
    outcome = quick("new", "rig.csv", "--action", "vlave")
    assert "did you mean `valve`" in outcome.stderr


def test_a_name_that_is_neither_a_file_nor_an_environment_is_explained() -> None:
    outcome = quick("new", "CartPole")
    assert outcome.status == 2
    assert "there is no file CartPole" in outcome.stderr
    assert "as in CartPole-v1" in outcome.stderr


def test_an_existing_file_is_kept() -> None:
    Path("rig.mdp").write_text("mine", "utf-8")
    outcome = quick("new", "rig.csv")
    assert outcome.status == 2
    assert "rig.mdp exists already" in outcome.stderr
    assert "--overwrite" in outcome.stderr
    assert Path("rig.mdp").read_text("utf-8") == "mine"
    assert quick("new", "rig.csv", "--overwrite").status == 0
    assert "state temp_C" in Path("rig.mdp").read_text("utf-8")


def test_an_environment_is_named_by_its_id() -> None:
    outcome = quick("new", "FrozenLake-v1", "--env-arg", "map_name=8x8")
    assert outcome.stdout == "Wrote FrozenLake-v1.mdp (64 states, 256 pairs)\n"
    assert "mdpdsl explore FrozenLake-v1.mdp --env" in Path("FrozenLake-v1.mdp").read_text("utf-8")


def plant(date: str, decimal: str = ",") -> str:
    """Return a log of three days, with decimal commas and dates in some layout."""
    rows = ["Zeit;Druck;Ventil"]
    for minute in range(300):
        when = datetime(2026, 3, 1) + timedelta(minutes=minute)
        pressure = f"{2 + (7 * minute) % 101 / 40:.2f}".replace(".", decimal)
        rows.append(f"{when:{date}};{pressure};{('auf', 'zu')[minute * minute % 3 == 1]}")
    return "\n".join(rows) + "\n"


def test_decimal_commas_and_days_first_are_noticed_and_said(tmp_path: Path) -> None:
    written(tmp_path, plant("%d.%m.%Y %H:%M"), "plant.csv")
    outcome = quick("new", "plant.csv")
    assert "the log is read with --dayfirst --decimal ,; give this to `estimate`" in outcome.stderr
    assert "time   = Zeit  # guessed from its values" in Path("plant.mdp").read_text()
    record = quick(
        "estimate", "plant.mdp", "plant.csv", "--dayfirst", "--decimal", ",", "--json"
    ).json()
    assert (record["transitions"], record["rejected"], record["time_step"]) == (299, {}, 60)
    assert record["reading"] == {"dayfirst": True, "decimal": ","}


def test_dates_that_may_mean_two_things_are_asked_about(tmp_path: Path) -> None:
    written(tmp_path, plant("%m/%d/%Y %H:%M"), "plant.csv")
    outcome = quick("new", "plant.csv")
    assert "say how they are written with --dayfirst, or with --time-format" in outcome.stderr
    quick("new", "plant.csv", "--time-format", "%m/%d/%Y %H:%M", "--overwrite")
    assert "time   = Zeit" in Path("plant.mdp").read_text()


def test_commas_that_may_be_thousands_are_not_taken_for_decimal_commas(tmp_path: Path) -> None:
    rows = "".join(f"1,{100 + k};{k % 3}\n" for k in range(300))
    written(tmp_path, f"mass;valve\n{rows}", "scale.csv")
    assert "--decimal" not in quick("new", "scale.csv").stderr


def test_an_estimate_that_counts_nothing_leaves_no_folder(tmp_path: Path) -> None:
    written(tmp_path, plant("%d.%m.%Y %H:%M"), "plant.csv")
    quick("new", "plant.csv")
    outcome = quick("estimate", "plant.mdp", "plant.csv", "--out", "run")
    assert (outcome.status, Path("run").exists()) == (1, False)
    assert "set --dayfirst" in outcome.stderr
    outcome = quick(
        "estimate", "plant.mdp", "plant.csv", "--out", "run", "--dayfirst", "--decimal", ","
    )
    assert (outcome.status, Path("run").exists()) == (0, True)
