"""`mdpdsl export`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mdpdsl as package
from mdpdsl.formats.npz import from_npz
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


@pytest.mark.parametrize("target", ["npz", "dot", "prism", "drn", "gym", "quantecon"])
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


@pytest.mark.parametrize("target", ["npz", "dot", "prism", "drn", "gym", "quantecon", "explicit"])
def test_a_path_that_cannot_be_written_fails_the_run(tmp_path: Path, target: str) -> None:
    path = tmp_path / "nowhere" / "out"
    outcome = mdpdsl("export", "weather", "--to", target, "--out", path)
    assert outcome.status == 1
    assert f"cannot write {path}" in outcome.stderr
    outcome = mdpdsl("export", "weather", "--to", target, "--out", path, "--json")
    assert outcome.status == 1
    assert "cannot write" in outcome.json()["errors"][0]["message"]


def test_explicit_files_lie_beside_each_other(tmp_path: Path) -> None:
    record = quick("export", "riverswim", "--to", "explicit", "--out", tmp_path / "m", "--json")
    suffixes = (".tra", ".sta", ".lab", ".srew", ".trew")
    assert record.json() == {
        "path": str(tmp_path / "m.tra"),
        "format": "explicit",
        "paths": [str(tmp_path / f"m{suffix}") for suffix in suffixes],
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"m{s}" for s in suffixes)


@pytest.mark.parametrize("target", ["prism", "drn", "gym", "quantecon", "explicit"])
def test_a_model_without_dynamics_cannot_be_written(tmp_path: Path, target: str) -> None:
    outcome = quick("export", "pendulum_unknown", "--to", target, "--out", tmp_path / "m")
    assert outcome.status == 2
    assert "dynamics of this model are unknown" in outcome.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    options = ("--steps", "300", "--jobs", "1", "--quiet", "--out", folder)
    assert quick("explore", "riverswim", *options).status == 0
    return folder


@pytest.mark.parametrize("target", ["prism", "drn", "explicit"])
def test_intervals_of_a_run_say_how_they_were_made(run: Path, tmp_path: Path, target: str) -> None:
    out = ("--out", tmp_path / "m.tra", "--overwrite")
    record = quick("export", run, "--to", target, "--intervals", *out, "--json").json()
    assert (record["support"], record["states"], record["pairs"]) == ("model", 6, 12)
    assert record["delta"] == pytest.approx(0.1)
    text = (tmp_path / "m.tra").read_text()
    assert text.count("[") >= record["branches"]
    wide = quick("export", run, "--to", target, "--intervals", "--support", "all", *out, "--json")
    assert (wide.json()["states"], wide.json()["support_reason"]) == (8, "as requested")
    outcome = quick("export", run, "--to", target, "--intervals", "--support", "all", *out)
    assert "`unknown`" in outcome.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("riverswim", "--to", "drn", "--intervals"), "--intervals needs a run"),
        (
            ("RUN", "--to", "gym", "--intervals"),
            "gym does not support intervals; use prism or explicit or drn",
        ),
        (("RUN", "--to", "drn", "--delta", "0.1"), "need --intervals"),
        (("RUN", "--to", "drn", "--intervals", "--set", "n=3"), "n was set when it was made"),
        (("riverswim", "--to", "prizm"), "did you mean `prism`?"),
    ],
)
def test_mistakes_are_reported(run: Path, arguments: tuple[str, ...], said: str) -> None:
    outcome = quick("export", *(str(run) if a == "RUN" else a for a in arguments))
    assert outcome.status == 2
    assert said in outcome.stderr


def test_an_unknown_format_lists_the_known_ones() -> None:
    outcome = mdpdsl("export", "weather", "--to", "xml")
    assert (outcome.status, outcome.stdout) == (2, "")
    assert "npz" in outcome.stderr
    assert "dot" in outcome.stderr


def test_the_format_must_be_given() -> None:
    outcome = mdpdsl("export", "weather", "--json")
    assert outcome.status == 2
    assert "--to" in outcome.json()["errors"][0]["message"]
