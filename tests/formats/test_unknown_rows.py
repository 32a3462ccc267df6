"""Exports of models that leave something open: refused, or with what is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdpdsl
from mdpdsl.files import write_arrays
from mdpdsl.formats.foreign import formats
from mdpdsl.formats.mdp import TRUTH_NOTE, model_text
from mdpdsl.formats.npz import KNOWLEDGE
from mdpdsl.formats.toy_text import to_toy_text
from tests.cli.run import quick, written
from tests.report.test_model_summary import LAKE, TRUE

#: Formats that carry what is known; all others need probabilities.
CARRY_KNOWLEDGE = ("npz", "dot")
NEED_VALUES = [name for name in formats() if name not in CARRY_KNOWLEDGE]
SLIPPERY = LAKE.replace("on left -> 0.6: x' = max(x - 1, 0) | ?: stay", "on left -> stay #")


@pytest.mark.parametrize("name", NEED_VALUES)
def test_a_format_with_probabilities_needs_values(name: str, tmp_path: Path) -> None:
    target = tmp_path / f"lake{formats()[name].suffix}"
    with pytest.raises(mdpdsl.SettingsError, match=r"lake says nothing of the value of slip"):
        mdpdsl.export(mdpdsl.loads(SLIPPERY), target, to=name)
    with pytest.raises(mdpdsl.SettingsError, match=r"`\?` without a truth.*export an estimate"):
        mdpdsl.export(mdpdsl.loads(LAKE, slip=0.1), target, to=name)
    assert list(tmp_path.iterdir()) == []
    assert mdpdsl.export(mdpdsl.loads(SLIPPERY, slip=0.1), target, to=name).paths[0].exists()


@pytest.mark.parametrize("name", formats())
@pytest.mark.parametrize("text", [TRUE, *(f"shipped {n}" for n in ("maintenance", "queue_rates"))])
def test_a_model_with_a_truth_is_written_in_every_format(
    name: str, text: str, tmp_path: Path
) -> None:
    shipped = text.removeprefix("shipped ")
    model = mdpdsl.load(shipped) if shipped != text else mdpdsl.loads(text)
    target = tmp_path / f"lake{formats()[name].suffix}"
    done = mdpdsl.export(model, target, to=name)
    assert all(path.stat().st_size > 0 for path in done.paths)
    if formats()[name].can_read and name != "npz":
        again = mdpdsl.load(done.paths[0]).graph
        np.testing.assert_array_equal(again.probability, model.graph.probability)


@pytest.mark.parametrize("text", [LAKE, TRUE])
def test_arrays_keep_what_is_known(text: str, tmp_path: Path) -> None:
    model = mdpdsl.loads(text)
    mdpdsl.export(model, tmp_path / "lake.npz")
    again = mdpdsl.load(tmp_path / "lake.npz")
    assert again.graph.hash == model.graph.hash
    assert again.missing == model.missing
    assert again.graph.has_truth == model.graph.has_truth
    assert mdpdsl.describe(again).knowledge == mdpdsl.describe(model).knowledge
    with pytest.raises(mdpdsl.SettingsError, match="set `learn` when the graph is made"):
        mdpdsl.load(tmp_path / "lake.npz", learn="all")


def test_arrays_of_a_file_that_leaves_nothing_open_have_no_knowledge(tmp_path: Path) -> None:
    mdpdsl.export(mdpdsl.load("riverswim"), tmp_path / "river.npz")
    with np.load(tmp_path / "river.npz") as file:
        assert not [name for name in file.files if name.startswith("knowledge")]
    assert mdpdsl.load(tmp_path / "river.npz", learn="all").graph.knowledge is None


@pytest.mark.parametrize("name", KNOWLEDGE)
def test_knowledge_that_does_not_fit_is_refused(name: str, tmp_path: Path) -> None:
    mdpdsl.export(mdpdsl.loads(LAKE), tmp_path / "lake.npz")
    with np.load(tmp_path / "lake.npz") as file:
        arrays = {each: file[each] for each in file.files}
    changes: tuple[Callable[[Any], Any], ...] = (lambda x: x[:-1], lambda x: x - 7.5)
    for change in changes:
        if arrays[f"knowledge.{name}"].dtype == np.bool_ and change(np.ones(2)).size == 2:
            continue
        changed = arrays | {f"knowledge.{name}": change(arrays[f"knowledge.{name}"])}
        write_arrays(tmp_path / "changed.npz", changed)
        with pytest.raises(mdpdsl.ModelError, match="what is known does not fit"):
            mdpdsl.load(tmp_path / "changed.npz")
    write_arrays(
        tmp_path / "changed.npz", {k: v for k, v in arrays.items() if k != f"knowledge.{name}"}
    )
    with pytest.raises(mdpdsl.ModelError, match="damaged"):
        mdpdsl.load(tmp_path / "changed.npz")


def test_the_text_of_a_model_has_its_truth_and_says_so() -> None:
    graph = mdpdsl.loads(TRUE).graph
    text = model_text(graph, "lake")
    assert text.startswith(f"# {TRUTH_NOTE}\n")
    assert mdpdsl.loads(text).graph.hash == replace(graph, knowledge=None).hash
    assert TRUTH_NOTE not in model_text(mdpdsl.load("riverswim").graph, "river")


def test_a_graph_without_a_truth_has_no_text_and_no_table() -> None:
    graph = mdpdsl.loads(LAKE).graph
    with pytest.raises(mdpdsl.FormatError, match="some probabilities of this model have no value"):
        model_text(graph, "lake")
    with pytest.raises(mdpdsl.FormatError, match="there is no P; give them values"):
        to_toy_text(graph)


def test_the_command_says_what_to_set(tmp_path: Path) -> None:
    model = written(tmp_path, SLIPPERY)
    outcome = quick("export", model, "--to", "prism", "--out", tmp_path / "lake.prism")
    assert outcome.status == 2
    assert "slip" in outcome.stderr
    assert not (tmp_path / "lake.prism").exists()
    outcome = quick(
        *("export", model, "--to", "prism", "--out", tmp_path / "lake.prism"), "--set", "slip=0.2"
    )
    assert outcome.status == 0


def test_an_estimate_of_a_model_without_a_truth_is_exported(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("x,action\n0,right\n1,right\n1,left\n0,wait\n0,right\n1,left\n0,drift\n0,wait\n")
    found = mdpdsl.estimate(mdpdsl.loads(LAKE), log)
    for name in NEED_VALUES:
        target = tmp_path / f"lake{formats()[name].suffix}"
        assert mdpdsl.export(found.as_model(), target, to=name).paths
    for name in ("prism", "drn", "explicit"):
        target = tmp_path / f"intervals{formats()[name].suffix}"
        assert mdpdsl.export(found, target, to=name, intervals=True).paths
