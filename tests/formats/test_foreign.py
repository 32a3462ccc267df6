"""Formats are found by name and by ending, those of other packages among them."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import mdpdsl
from mdpdsl.compile.stored import graph_model
from mdpdsl.formats import foreign
from mdpdsl.formats.foreign import Format, format_named, format_of, formats
from mdpdsl.graph.convert import from_scipy
from tests.cli.run import quick


class Matrices(Format):
    """A format of another package: the matrix of the first action as text."""

    name, title, suffix = "matrices", "a matrix as text", ".matrix"
    can_read = True

    def read(self, path: str) -> mdpdsl.Model:
        rows = [list(map(float, line.split())) for line in Path(path).read_text().splitlines()]
        return graph_model(from_scipy([rows]), Path(path).stem, path)

    def text(self, model: mdpdsl.Model) -> str:
        P = model.graph.transition_matrix().toarray()
        return "".join(" ".join(map(str, row)) + "\n" for row in P.tolist())


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("matrices", f"{__name__}:Matrices", foreign.GROUP)
    monkeypatch.setattr(foreign, "entry_points", lambda group: [point])


@pytest.mark.usefixtures("installed")
def test_a_format_of_another_package_is_read_and_written(tmp_path: Path) -> None:
    path = tmp_path / "walk.matrix"
    path.write_text("0.5 0.5\n0 1\n", "utf-8")
    model = mdpdsl.load(path)
    assert model.graph.n_states == 2
    again = mdpdsl.export(model, tmp_path / "again.matrix")
    assert again.format == "matrices"
    assert mdpdsl.load(again.path).graph.hash == model.graph.hash
    assert quick("show", path, "--json").json()["states"] == 2
    assert quick("export", path, "--to", "matrices", "--out", tmp_path / "x.matrix").status == 0


def test_every_format_of_ours_has_a_name_a_title_and_an_ending() -> None:
    for name, each in formats().items():
        assert each.name == name
        assert each.title
        assert each.suffix.startswith(".")


def test_the_longest_ending_wins() -> None:
    assert format_of("model.quantecon.npz").name == "quantecon"
    assert format_of("model.npz").name == "npz"


def test_unknown_formats_are_named_with_those_that_exist() -> None:
    with pytest.raises(mdpdsl.FormatError, match="did you mean `drn`"):
        format_named("drm")
    with pytest.raises(mdpdsl.FormatError, match=r"\.drn"):
        format_of("model.xyz")


def test_a_format_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    with pytest.raises(mdpdsl.FormatError, match="but not read"):
        format_named("dot").read("x.dot")
    model = mdpdsl.load("riverswim")
    with pytest.raises(mdpdsl.FormatError, match="no option `kappa=`"):
        mdpdsl.export(model, tmp_path / "x.drn", kappa=2)
