"""The formats of `mdpdsl export`, and what writes each of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import RunError
from mdpdsl.graph.transition_graph import TransitionGraph

if TYPE_CHECKING:
    from mdpdsl.estimate.interval_model import IntervalModel
    from mdpdsl.graph.interval_graph import Bounds


@dataclass(frozen=True)
class Format:
    """A format by what it is, the ending of its file, and whether it has intervals."""

    title: str
    suffix: str
    has_intervals: bool = False


FORMATS = {
    "prism": Format("PRISM source", ".prism", has_intervals=True),
    "explicit": Format("PRISM's explicit files", ".tra", has_intervals=True),
    "drn": Format("Storm's DRN", ".drn", has_intervals=True),
    "gym": Format("Gymnasium's toy-text table as JSON", ".json"),
    "quantecon": Format("QuantEcon's state-action pairs", ".quantecon.npz"),
    "npz": Format("NumPy arrays", ".npz"),
    "dot": Format("Graphviz", ".dot"),
    "lp": Format("a planning program", ".lp"),
    "mps": Format("the same as MPS", ".mps"),
}


@dataclass(frozen=True)
class ProgramChoice:
    """Which planning program is written."""

    program: str
    formulation: str
    kappa: float
    eta: float
    radius: float


def write_model(
    model: Model, graph: TransitionGraph, target: str, path: Path, chosen: ProgramChoice
) -> list[Path]:
    """Write a model and return the files; a mistake or a failure is click's exception."""
    try:
        if target == "npz":
            from mdpdsl.formats.npz import save_graph

            save_graph(model, path)
        elif target == "dot":
            from mdpdsl.formats.dot import to_dot

            path.write_text(to_dot(graph), encoding="utf-8")
        elif target in ("lp", "mps"):
            _write_program(graph, target, path, chosen)
        elif target == "quantecon":
            from mdpdsl.formats.quantecon import write_quantecon

            write_quantecon(graph, path)
        elif target == "gym":
            from mdpdsl.formats.gym import toy_text_json

            path.write_text(toy_text_json(graph, model.name), encoding="utf-8")
        else:
            return _write_text(graph, model.name, target, path)
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return [path]


def write_intervals(
    run: str,
    target: str,
    out: str | None,
    support: str,
    delta: float | None,
    all_states: bool,
) -> tuple[IntervalModel, list[Path]]:
    """Write the interval MDP of a run; return what it is, and the files."""
    if not FORMATS[target].has_intervals:
        able = [name for name, known in FORMATS.items() if known.has_intervals]
        raise click.UsageError(f"{target} has no intervals; {', '.join(able)} have")
    from mdpdsl.estimate.interval_model import interval_model
    from mdpdsl.runs.places import place_of_arrays

    try:
        place = place_of_arrays(Path(run))
    except RunError as error:
        raise click.UsageError(f"--intervals needs a run: {error}") from None
    if place is None:
        raise click.UsageError(f"--intervals needs a run; {run} is a graph without counts")
    found = interval_model(place, support=support, delta=delta, all_states=all_states)
    path = Path(out or f"{found.name}-intervals{FORMATS[target].suffix}")
    intervals = found.intervals
    try:
        paths = _write_text(
            intervals.graph, found.name, target, path, intervals.bounds, found.notes
        )
    except OSError as error:
        raise click.ClickException(f"cannot write {path}: {error.strerror}") from None
    return found, paths


def _write_text(
    graph: TransitionGraph,
    name: str,
    target: str,
    path: Path,
    bounds: Bounds | None = None,
    notes: tuple[str, ...] = (),
) -> list[Path]:
    if target == "explicit":
        from mdpdsl.formats.explicit import write_explicit

        return write_explicit(graph, path, bounds)
    if target == "prism":
        from mdpdsl.formats.prism import to_prism

        path.write_text(to_prism(graph, name, bounds, notes), encoding="utf-8")
    else:
        from mdpdsl.formats.drn import to_drn

        path.write_text(to_drn(graph, name, bounds, notes), encoding="utf-8")
    return [path]


def _write_program(graph: TransitionGraph, target: str, path: Path, chosen: ProgramChoice) -> None:
    from mdpdsl.formats.lp import planning_program, write_program
    from mdpdsl.programs.direction import ProgramError
    from mdpdsl.programs.program import BackendError

    try:
        planned = planning_program(
            graph,
            chosen.program,
            formulation=chosen.formulation,
            kappa=chosen.kappa,
            eta=chosen.eta,
            radius=chosen.radius,
        )
        write_program(planned, path, target)
    except (BackendError, ProgramError) as error:
        raise click.UsageError(str(error)) from None
