"""`mdpdsl show`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.run import BAD_SUM, GOOD, mdpdsl, quick, written

KEYS = {
    "name",
    "hash",
    "parameters",
    "states",
    "ends",
    "actions",
    "pairs",
    "branches",
    "classes",
    "communicating",
    "unreachable",
    "complexity",
    "discretization",
    "build_seconds",
}


def test_json_has_the_keys_of_the_contract_and_the_right_numbers() -> None:
    outcome = mdpdsl("show", "riverswim", "--json")
    assert outcome.status == 0
    shown = outcome.json()
    assert shown.keys() >= KEYS
    expected = {
        "name": "riverswim",
        "parameters": {"n": 6, "drift": 0.05},
        "states": 6,
        "ends": 0,
        "actions": 2,
        "pairs": 12,
        "branches": 6 + 2 + 2 + 4 * 3,
        "classes": 1,
        "communicating": True,
        "unreachable": 0,
        "discretization": None,
    }
    assert {key: shown[key] for key in expected} == expected
    assert shown["complexity"].keys() >= {"min", "mean", "max"}
    assert shown["build_seconds"] >= 0


def test_text_says_the_same_for_people() -> None:
    outcome = mdpdsl("show", "riverswim")
    assert outcome.status == 0
    assert outcome.stderr == ""
    for expected in ("riverswim", "pos in 0..5", "left", "n = 6", "12", "communicating", "goal"):
        assert expected in outcome.stdout


ENDING = """\
mdp m
state x in 0..4
action a
init x = 1
on a -> 0.5: x' = x + 1 | 0.5: x' = x - 1
end when x == 0
end when x == 4
"""


def test_ends_are_counted_and_followed_by_the_next_episode(tmp_path: Path) -> None:
    model = written(tmp_path, ENDING)
    shown = quick("show", model, "--json").json()
    assert (shown["states"], shown["ends"], shown["pairs"], shown["branches"]) == (5, 2, 3, 6)
    assert (shown["classes"], shown["communicating"], shown["unreachable"]) == (1, True, 0)
    text = quick("show", model).stdout
    assert "ends" in text
    assert "1: communicating" in text
    assert "ends" not in quick("show", "riverswim").stdout


def test_an_end_that_no_start_follows_leaves_classes_apart(tmp_path: Path) -> None:
    text = ENDING.replace("x - 1", "x").replace("end when x == 0\n", "")
    shown = quick("show", written(tmp_path, f"{text}states all\n"), "--json").json()
    assert (shown["states"], shown["ends"], shown["classes"], shown["unreachable"]) == (5, 1, 2, 1)


def test_a_continuous_model_says_how_it_was_discretized() -> None:
    shown = quick("show", "pendulum", "--json").json()
    assert shown["states"] == 100
    assert shown["discretization"]["noise"] == "cdf"
    assert "cdf" in quick("show", "pendulum").stdout


def test_a_model_without_dynamics_is_all_its_spaces() -> None:
    shown = quick("show", "pendulum_unknown", "--json").json()
    assert (shown["states"], shown["pairs"], shown["branches"]) == (100, 500, 0)
    assert shown["classes"] is None
    assert "unknown" in quick("show", "pendulum_unknown").stdout


def test_the_hash_is_of_the_content_not_of_the_text(tmp_path: Path) -> None:
    plain = quick("show", written(tmp_path, GOOD), "--json").json()["hash"]
    commented = written(tmp_path, f"# a comment\n{GOOD}", "commented.mdp")
    assert quick("show", commented, "--json").json()["hash"] == plain
    assert quick("show", commented, "--set", "p=0.25", "--json").json()["hash"] != plain


def test_mistakes_go_to_standard_error_or_into_json(tmp_path: Path) -> None:
    path = written(tmp_path, BAD_SUM)
    outcome = mdpdsl("show", path)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert "0.75" in outcome.stderr
    outcome = mdpdsl("show", path, "--json")
    assert outcome.status == 2
    assert [record["code"] for record in outcome.json()["errors"]] == ["E501"]


def test_a_missing_model_gets_a_hint() -> None:
    outcome = mdpdsl("show", "riversim")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert "did you mean `riverswim`?" in outcome.stderr


# Pictures


@pytest.mark.parametrize(
    ("suffix", "start"),
    [(".svg", b"<?xml"), (".png", b"\x89PNG\r\n"), (".dot", b"digraph")],
)
def test_the_suffix_says_the_kind_of_picture(tmp_path: Path, suffix: str, start: bytes) -> None:
    path = tmp_path / f"picture{suffix}"
    outcome = quick("show", "riverswim", "--graph", path)
    assert outcome.status == 0
    assert f"Wrote {path}" in outcome.stdout
    assert path.read_bytes().lstrip().startswith(start)


def test_json_names_the_picture(tmp_path: Path) -> None:
    path = tmp_path / "picture.dot"
    outcome = mdpdsl("show", "riverswim", "--graph", path, "--json")
    assert outcome.status == 0
    assert outcome.json()["graph"] == str(path)
    assert path.exists()


@pytest.mark.parametrize("name", ["picture.pdf", "picture", "svg", "picture.svg.gz"])
def test_another_suffix_is_a_usage_error_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    outcome = mdpdsl("show", "riverswim", "--graph", tmp_path / name)
    assert (outcome.status, outcome.stdout) == (2, "")
    for suffix in (".svg", ".png", ".dot"):
        assert suffix in outcome.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".svg", ".png", ".dot"])
def test_a_path_that_cannot_be_written_fails_the_run(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "nowhere" / f"picture{suffix}"
    outcome = quick("show", "riverswim", "--graph", path)
    assert outcome.status == 1
    assert f"cannot write {path}" in outcome.stderr


def test_a_path_that_cannot_be_written_is_an_error_in_json_too(tmp_path: Path) -> None:
    outcome = mdpdsl("show", "riverswim", "--graph", tmp_path / "nowhere" / "x.dot", "--json")
    assert outcome.status == 1
    (record,) = outcome.json()["errors"]
    assert "cannot write" in record["message"]


def test_a_mistaken_model_is_not_drawn(tmp_path: Path) -> None:
    path = tmp_path / "picture.svg"
    assert quick("show", written(tmp_path, BAD_SUM), "--graph", path).status == 2
    assert not path.exists()


def test_named_rewards_and_properties_are_listed() -> None:
    outcome = quick("show", "zeroconf")
    assert 'property error  Pmax=? [ F "clash" ]' in outcome.stdout
    assert "rewards         probes" in outcome.stdout
    assert "rewards" not in quick("show", "riverswim").stdout
    record = quick("show", "zeroconf", "--json").json()
    assert record["rewards"] == ["probes"]
    assert record["properties"]["error"] == 'Pmax=? [ F "clash" ]'
