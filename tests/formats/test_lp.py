"""Planning programs as files that other solvers read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import highspy
import pytest

import mdpdsl
from mdpdsl.formats.lp import PROGRAMS, planning_program, write_program
from mdpdsl.programs.program import load_backend


@pytest.mark.parametrize("file_format", ["lp", "mps"])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("model", ["riverswim", "pendulum", "taxi"])
def test_a_written_program_has_the_optimum_of_the_program(
    file_format: str, name: str, model: str, tmp_path: Path
) -> None:
    graph = mdpdsl.load(model).graph
    program = planning_program(graph, name, kappa=2, eta=1e-6 * (name == "oracle"), radius=0.2)
    path = tmp_path / f"out.{file_format}"
    write_program(program, path, file_format)
    reader: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    reader.setOptionValue("output_flag", False)
    assert reader.readModel(str(path)) != highspy.HighsStatus.kError
    reader.run()
    assert reader.getModelStatus() == highspy.HighsModelStatus.kOptimal
    expected = load_backend("highs").solve(program).objective
    assert reader.getObjectiveValue() == pytest.approx(expected, rel=1e-6)


def test_the_file_names_states_and_actions(tmp_path: Path) -> None:
    path = tmp_path / "out.lp"
    write_program(planning_program(mdpdsl.load("riverswim").graph), path, "lp")
    text = path.read_text("utf-8")
    assert "d(pos_3_right)" in text
    assert "flow(pos_3)" in text


def test_names_that_would_be_equal_in_the_file_become_numbers(tmp_path: Path) -> None:
    program = planning_program(mdpdsl.load("riverswim").graph)
    names = ["a b", "a_b", *map(str, range(2, program.n_columns))]
    clash = replace(program.columns[0], label=lambda i: (names[i],))
    path = tmp_path / "out.lp"
    write_program(replace(program, columns=(clash, *program.columns[1:])), path, "lp")
    assert "x1" in path.read_text("utf-8")


def test_a_model_without_dynamics_has_no_program() -> None:
    with pytest.raises(ValueError, match="dynamics of this model are unknown"):
        planning_program(mdpdsl.load("pendulum_unknown").graph)
