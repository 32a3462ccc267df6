"""`mdpdsl models`."""

from __future__ import annotations

from pathlib import Path

import mdpdsl as package
from tests.cli.run import mdpdsl, quick, written

MODELS = Path(__file__).parents[2] / "models"
NAMES = sorted(path.stem for path in MODELS.glob("*.mdp"))


def test_the_list_names_every_file() -> None:
    outcome = mdpdsl("models")
    assert (outcome.status, outcome.stderr) == (0, "")
    assert [line.split()[0] for line in outcome.stdout.splitlines() if line[:1] != " "] == [
        "name",
        *NAMES,
    ]


def test_json_lists_names_titles_and_sizes() -> None:
    outcome = mdpdsl("models", "--json")
    assert outcome.status == 0
    records = {record["name"]: record for record in outcome.json()["models"]}
    assert sorted(records) == NAMES
    assert all(record.keys() >= {"name", "title", "states", "pairs"} for record in records.values())
    assert (records["riverswim"]["states"], records["riverswim"]["pairs"]) == (6, 12)
    assert records["riverswim"]["title"] == "A chain against the current"


def test_a_name_prints_the_file_as_it_is() -> None:
    outcome = mdpdsl("models", "riverswim")
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.stdout == (MODELS / "riverswim.mdp").read_text("utf-8")


def test_what_is_printed_loads_again(tmp_path: Path) -> None:
    path = written(tmp_path, quick("models", "weather").stdout, "mine.mdp")
    assert package.load(path).graph.hash == package.load("weather").graph.hash


def test_json_of_a_name_holds_its_text() -> None:
    (record,) = quick("models", "riverswim", "--json").json()["models"]
    assert package.loads(record["text"]).graph.n_states == record["states"] == 6


def test_an_unknown_name_gets_a_hint() -> None:
    outcome = mdpdsl("models", "riversim")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert "did you mean `riverswim`?" in outcome.stderr
    outcome = mdpdsl("models", "riversim", "--json")
    assert outcome.status == 2
    assert outcome.json()["errors"][0]["help"] == "did you mean `riverswim`?"


def test_a_name_that_resembles_none_points_at_the_list() -> None:
    assert "mdpdsl models" in quick("models", "qqqqqqqq").stderr


def test_a_path_is_not_the_name_of_a_shipped_model() -> None:
    assert quick("models", "../models/riverswim").status == 2
