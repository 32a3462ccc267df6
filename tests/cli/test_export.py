"""`mdpdsl export`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mdpdsl as package
from mdpdsl.graph.npz import from_npz
from tests.cli.run import BAD_SUM, mdpdsl, quick, written


def test_npz_holds_the_same_graph(tmp_path: Path) -> None:
    path = tmp_path / "out.npz"
    outcome = mdpdsl("export", "riverswim", "--to", "npz", "--out", path)
    assert (outcome.status, outcome.stderr) == (0, "")
    assert str(path) in outcome.stdout
    assert from_npz(path).hash == package.load("riverswim").graph.hash


def test_npz_opens_without_pickle(tmp_path: Path) -> None:
    path = tmp_path / "out.npz"
    quick("export", "weather", "--to", "npz", "--out", path)
    with np.load(path, allow_pickle=False) as arrays:
        assert len([arrays[name] for name in arrays.files]) > 0


def test_dot_is_a_directed_graph_with_every_state(tmp_path: Path) -> None:
    path = tmp_path / "out.dot"
    assert quick("export", "weather", "--to", "dot", "--out", path).status == 0
    text = path.read_text("utf-8")
    assert text.startswith("digraph")
    assert "sunny" in text
    assert "rainy" in text


@pytest.mark.parametrize("target", ["npz", "dot"])
def test_json_says_path_and_format(tmp_path: Path, target: str) -> None:
    path = tmp_path / "out"
    outcome = mdpdsl("export", "weather", "--to", target, "--out", path, "--json")
    assert outcome.status == 0
    assert outcome.json() == {"path": str(path), "format": target}
    assert path.exists(), "the name is taken as it is given"


def test_the_model_names_the_file_by_default(tmp_path: Path) -> None:
    outcome = mdpdsl("export", "weather", "--to", "dot", "--json", folder=tmp_path)
    assert outcome.json()["path"] == "weather.dot"
    assert (tmp_path / "weather.dot").exists()


def test_parameters_apply(tmp_path: Path) -> None:
    path = tmp_path / "out.npz"
    quick("export", "riverswim", "--to", "npz", "--out", path, "--set", "n=9")
    assert from_npz(path).n_states == 9


def test_a_mistaken_model_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "out.dot"
    outcome = mdpdsl("export", written(tmp_path, BAD_SUM), "--to", "dot", "--out", path)
    assert (outcome.status, outcome.stdout) == (2, "")
    assert "0.75" in outcome.stderr
    assert not path.exists()
    outcome = quick("export", written(tmp_path, BAD_SUM), "--to", "dot", "--json")
    assert [record["code"] for record in outcome.json()["errors"]] == ["E501"]


@pytest.mark.parametrize("target", ["npz", "dot"])
def test_a_path_that_cannot_be_written_fails_the_run(tmp_path: Path, target: str) -> None:
    path = tmp_path / "nowhere" / "out"
    outcome = mdpdsl("export", "weather", "--to", target, "--out", path)
    assert outcome.status == 1
    assert f"cannot write {path}" in outcome.stderr
    outcome = mdpdsl("export", "weather", "--to", target, "--out", path, "--json")
    assert outcome.status == 1
    assert "cannot write" in outcome.json()["errors"][0]["message"]


def test_an_unknown_format_lists_the_known_ones() -> None:
    outcome = mdpdsl("export", "weather", "--to", "xml")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert "npz" in outcome.stderr
    assert "dot" in outcome.stderr


def test_the_format_must_be_given() -> None:
    outcome = mdpdsl("export", "weather", "--json")
    assert outcome.status == 2
    assert "--to" in outcome.json()["errors"][0]["message"]
