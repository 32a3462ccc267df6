"""The verbs `export` and `import_model`: models in the formats of other tools, and back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdpdsl.compile.model import Model, as_model
from mdpdsl.compile.scope import allowed_name
from mdpdsl.compile.stored import stored_keys
from mdpdsl.diagnostics import FormatError, RunError
from mdpdsl.estimate.chosen_sets import SUPPORTS
from mdpdsl.estimate.interval_model import IntervalModel, interval_model
from mdpdsl.estimate.run_result import RunResult
from mdpdsl.files import require_absent, staged, write_text
from mdpdsl.formats.foreign import Format, format_named, format_of, readable_suffixes
from mdpdsl.formats.gym import GYM
from mdpdsl.formats.mdp import MANY_BRANCHES, MANY_PAIRS, model_text
from mdpdsl.formats.npz import save_graph
from mdpdsl.load import load_stored, open_run
from mdpdsl.runs.places import place_of_arrays

IMPORTED = (".mdp", ".npz")


@dataclass(frozen=True, eq=False)
class Export:
    """The files that an export wrote."""

    paths: tuple[Path, ...]
    format: str
    model: Model | None  # None for an interval MDP
    intervals: IntervalModel | None = None

    @property
    def path(self) -> Path:
        """The first file."""
        return self.paths[0]

    def record(self) -> dict[str, Any]:
        """Return what was written as `--json` prints it."""
        found: dict[str, Any] = {"path": str(self.path), "format": self.format}
        if len(self.paths) > 1 or self.intervals is not None:
            found["paths"] = [str(path) for path in self.paths]
        if self.intervals is not None:
            graph = self.intervals.intervals.graph
            found |= {
                "intervals": True,
                "support": self.intervals.support,
                "support_reason": self.intervals.reason,
                "sets": self.intervals.kind,
                "holds": self.intervals.holds,
                "delta": self.intervals.delta,
                "states": graph.n_states,
                "pairs": graph.n_pairs,
                "branches": graph.n_branches,
                "unseen_pairs": self.intervals.pairs_unseen,
            }
        return found | ({} if self.model is None else stored_keys(self.model))


def export(
    model: Model | RunResult | str | Path,
    path: str | Path | None = None,
    *,
    to: str | None = None,
    intervals: bool = False,
    support: str = "auto",
    delta: float | None = None,
    all_states: bool = False,
    overwrite: bool = False,
    **options: Any,
) -> Export:
    """Write a model in another format, by name or by the ending of the path.

    The formats are prism, explicit, drn, gym, quantecon, npz, dot, lp and mps, and those that other
    packages add. With `intervals`, the interval MDP of an estimate or a run (or of its folder) is
    written: every model that its data allow with probability 1 - `delta`. Files that are there are
    replaced only if you `overwrite` them. `options` are those of a format: lp and mps take program,
    formulation, kappa, eta and radius.

    >>> import mdpdsl
    >>> mdpdsl.export(mdpdsl.load("riverswim"), "river.drn").format
    'drn'
    """
    if to is None and path is None:
        raise FormatError("name a file, or a format with `to=`")
    chosen = format_named(to) if to is not None else format_of(str(path))
    if intervals:
        return _exported_intervals(model, path, chosen, support, delta, all_states, overwrite)
    if delta is not None or support != "auto":
        raise FormatError("`delta=` and `support=` need `intervals=`")
    if isinstance(model, str | Path):
        raise FormatError(f"load the model first: mdpdsl.load({str(model)!r})")
    exported = as_model(model)
    target = Path(path) if path is not None else Path(f"{exported.name}{chosen.suffix}")
    with staged(target, overwrite) as place:
        paths = chosen.write(exported, place, **options)
    return Export(_moved(paths, target), chosen.name, exported)


def _exported_intervals(
    run: Model | RunResult | str | Path,
    path: str | Path | None,
    chosen: Format,
    support: str,
    delta: float | None,
    all_states: bool,
    overwrite: bool,
) -> Export:
    if support not in SUPPORTS:
        raise FormatError(f"there is no support `{support}`; there are {', '.join(SUPPORTS)}")
    if isinstance(run, str | Path):
        try:
            if place_of_arrays(Path(run)) is None:
                raise RunError(f"{run} has a graph, but no counts")
            run = open_run(run)
        except RunError as error:
            raise RunError(f"`intervals=` needs a run: {error}") from None
    if not isinstance(run, RunResult):
        raise RunError("`intervals=` needs an estimate or a run: a model has no counts")
    if not chosen.has_intervals:
        chosen.refuse_intervals()
    found = interval_model(run, support=support, delta=delta, all_states=all_states)
    target = Path(path) if path is not None else Path(f"{found.name}-intervals{chosen.suffix}")
    with staged(target, overwrite) as place:
        paths = chosen.write_intervals(found.intervals, found.name, place, found.notes)
    return Export(_moved(paths, target), chosen.name, None, found)


def _moved(paths: Iterable[Path], target: Path) -> tuple[Path, ...]:
    """Return where files are that were written to be moved beside a target."""
    return tuple(target.with_name(path.name) for path in paths)


@dataclass(frozen=True, eq=False)
class Import:
    """A model read from another tool's file, and the file it was written to, if any."""

    model: Model
    name: str  # as a name of the language
    origin: str
    path: Path | None = None

    @property
    def is_large(self) -> bool:
        """Whether the model is better kept as arrays than as text."""
        graph = self.model.graph
        return graph.n_pairs >= MANY_PAIRS or graph.n_branches >= MANY_BRANCHES

    @property
    def text(self) -> str:
        """The model as the text of an `.mdp` file."""
        return model_text(self.model.graph, self.name, notes=(f"imported from {self.origin}",))

    def record(self) -> dict[str, Any]:
        """Return what was read as `--json` prints it."""
        graph = self.model.graph
        return {
            "path": None if self.path is None else str(self.path),
            "states": graph.n_states,
            "pairs": graph.n_pairs,
            "branches": graph.n_branches,
        }


def import_model(
    file: str | Path, out: str | Path | bool | None = None, *, overwrite: bool = False
) -> Import:
    """Read the model of another tool; with `out`, write it as an `.mdp` or `.npz` file.

    `file` is a `.tra` file of PRISM (with .sta, .lab, .srew and .trew beside it), a toy-text table
    P as `.json`, an `.npz` file of a graph, or `gym:ID` for a Gymnasium environment that has such a
    table. With `out=True` the file is named after the model: `.mdp`, or `.npz` if it is large. A
    file that is there is replaced only if you `overwrite` it. To use such a model directly, give it
    to `mdpdsl.load`.

    >>> import mdpdsl
    >>> done = mdpdsl.export(mdpdsl.load("weather"), "weather.json")
    >>> mdpdsl.import_model("weather.json").model.graph.n_states
    2
    """
    origin = str(file)
    if not origin.startswith(GYM) and not origin.lower().endswith(readable_suffixes()):
        endings = ", ".join(readable_suffixes())
        raise FormatError(f"cannot import `{origin}`; give a file ending in {endings}, or {GYM}ID")
    if isinstance(out, str | Path) and Path(out).suffix not in IMPORTED:
        raise FormatError(f"`out=` takes a file ending in {' or '.join(IMPORTED)}")
    if isinstance(out, str | Path):
        require_absent(Path(out), overwrite)
    model = load_stored(origin, {})
    found = Import(model, allowed_name(model.name), origin)
    if not out:
        return found
    path = Path(f"{found.name}{'.npz' if found.is_large else '.mdp'}") if out is True else Path(out)
    require_absent(path, overwrite)
    if path.suffix == ".npz":
        save_graph(model, path)
    else:
        Format.require_folder(path)
        write_text(path, found.text)
    return Import(model, found.name, origin, path)
