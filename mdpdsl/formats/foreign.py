"""The interface of a format, and the table of all formats: ours, and those of other packages.

A package adds a format with an entry point in the group `mdpdsl.formats`: a subclass of `Format`
with `name`, `title` and `suffix` that overrides `read` (and sets `can_read`), `text` or `write`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NoReturn

from mdpdsl.compile.model import Model
from mdpdsl.compile.truth import require_truth
from mdpdsl.diagnostics import FormatError, did_you_mean
from mdpdsl.files import CannotWriteError, write_text
from mdpdsl.graph.interval_graph import IntervalGraph

GROUP = "mdpdsl.formats"

#: Our formats by name: the module and the class of each.
_OURS = {
    "prism": "mdpdsl.formats.prism:Prism",
    "explicit": "mdpdsl.formats.explicit:Explicit",
    "drn": "mdpdsl.formats.drn:Drn",
    "gym": "mdpdsl.formats.gym:Gym",
    "quantecon": "mdpdsl.formats.quantecon:QuantEcon",
    "npz": "mdpdsl.formats.npz:Npz",
    "dot": "mdpdsl.formats.dot:Dot",
    "lp": "mdpdsl.formats.lp:Lp",
    "mps": "mdpdsl.formats.lp:Mps",
}


class Format:
    """A foreign format; a subclass overrides what it supports, and the rest raises FormatError."""

    name: str
    title: str  # a description in a few words
    suffix: str  # the ending of its files
    has_intervals = False
    can_read = False
    can_write = True

    def read(self, path: str) -> Model:
        """Read a model; raise FormatError or ModelError if the file is not one."""
        raise FormatError(f"{self.title} can be written but not read")

    def write(self, model: Model, path: Path, **options: Any) -> list[Path]:
        """Write a model and return the files; `options` depend on the format."""
        if options:
            named = ", ".join(f"`{name}=`" for name in options)
            raise FormatError(f"{self.name} has no option {named}")
        self.require_folder(path)
        write_text(path, self.text(model))
        return [path]

    def text(self, model: Model) -> str:
        """Return a model as the text of one file."""
        raise FormatError(f"{self.title} can be read but not written")

    def write_intervals(
        self, intervals: IntervalGraph, name: str, path: Path, notes: tuple[str, ...]
    ) -> list[Path]:
        """Write an interval MDP and return the files."""
        self.require_folder(path)
        write_text(path, self.interval_text(intervals, name, notes))
        return [path]

    def interval_text(self, intervals: IntervalGraph, name: str, notes: tuple[str, ...]) -> str:
        """Return an interval MDP as the text of one file."""
        self.refuse_intervals()

    def refuse_intervals(self) -> NoReturn:
        """Raise FormatError, with the formats that have intervals."""
        able = [each.name for each in formats().values() if each.has_intervals]
        raise FormatError(f"{self.name} does not support intervals; use {' or '.join(able)}")

    @staticmethod
    def require_truth(model: Model) -> None:
        """Raise SettingsError if some probabilities of a model have no value to write."""
        require_truth(model, "export", "export an estimate")

    @staticmethod
    def require_folder(path: Path) -> None:
        """Raise CannotWriteError if the folder to write to does not exist."""
        if not path.parent.is_dir():
            raise CannotWriteError(2, "No such file or directory", str(path))


def formats() -> Mapping[str, Format]:
    """Return every format by name; ours take precedence over others of the same name."""
    found: dict[str, Format] = {}
    for entry in entry_points(group=GROUP):
        made = entry.load()
        found[entry.name] = made() if isinstance(made, type) else made
    for name, home in _OURS.items():
        module, _, kind = home.partition(":")
        found[name] = getattr(import_module(module), kind)()
    return dict(sorted(found.items(), key=lambda item: _rank(item[0])))


def format_named(name: str) -> Format:
    """Return a format by name; raise FormatError, which lists the names, if it is unknown."""
    known = formats()
    if name in known:
        return known[name]
    hint = did_you_mean(name, known)
    listed = f"the formats are {', '.join(known)}"
    raise FormatError(f"`{name}` is not a format; {f'{hint} ' if hint else ''}{listed}")


def format_of(path: str | Path) -> Format:
    """Return the format of a file by its ending; the longest matching ending wins."""
    known = formats()
    name = Path(path).name.lower()
    fitting = [each for each in known.values() if name.endswith(each.suffix)]
    if not fitting:
        endings = ", ".join(each.suffix for each in known.values())
        raise FormatError(f"`{path}` has no known ending; set `to=`, or use one of {endings}")
    return max(fitting, key=lambda each: len(each.suffix))


def readable_suffixes() -> tuple[str, ...]:
    """Return the endings of the files that can be read as models."""
    return tuple(each.suffix for each in formats().values() if each.can_read)


def _rank(name: str) -> tuple[int, str]:
    names = list(_OURS)
    return (names.index(name) if name in names else len(names), name)
