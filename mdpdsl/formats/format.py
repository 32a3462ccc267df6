"""What a format is, and the table of all of them: ours, and those of other packages.

A package adds a format by an entry point of the group `mdpdsl.formats`: an object with `name`,
`title` and `suffix`, and `read` or `write` as below.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import FormatError, did_you_mean
from mdpdsl.files import write_text
from mdpdsl.graph.interval_graph import IntervalGraph

GROUP = "mdpdsl.formats"

#: Our formats by name: the module that has each, and its class.
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
    """A foreign format; a subclass overrides what the format can carry, the rest is refused."""

    name: str
    title: str  # what it is, in a few words
    suffix: str  # the ending of its files
    has_intervals = False
    can_read = False
    can_write = True

    def read(self, path: str) -> Model:
        """Read a model; raise FormatError or ModelError where the file has none."""
        raise FormatError(f"{self.title} can be written, but not read")

    def write(self, model: Model, path: Path, **options: Any) -> list[Path]:
        """Write a model and return the files; `options` are the format's own."""
        if options:
            named = ", ".join(f"`{name}=`" for name in options)
            raise FormatError(f"{self.name} has no option {named}")
        self.require_folder(path)
        write_text(path, self.text(model))
        return [path]

    def text(self, model: Model) -> str:
        """Return a model as the text of one file."""
        raise FormatError(f"{self.title} can be read, but not written")

    def write_intervals(
        self, intervals: IntervalGraph, name: str, path: Path, notes: tuple[str, ...]
    ) -> list[Path]:
        """Write an interval MDP and return the files."""
        able = [each.name for each in formats().values() if each.has_intervals]
        raise FormatError(f"{self.name} has no intervals; {', '.join(able)} have")

    @staticmethod
    def require_folder(path: Path) -> None:
        """Raise the system's own error where there is no folder to write to."""
        if not path.parent.is_dir():
            raise FileNotFoundError(2, "No such file or directory", str(path.parent))


def formats() -> Mapping[str, Format]:
    """Return every format by its name; ours win over others of the same name."""
    found: dict[str, Format] = {}
    for entry in entry_points(group=GROUP):
        made = entry.load()
        found[entry.name] = made() if isinstance(made, type) else made
    for name, home in _OURS.items():
        module, _, kind = home.partition(":")
        found[name] = getattr(import_module(module), kind)()
    return dict(sorted(found.items(), key=lambda item: _rank(item[0])))


def format_named(name: str) -> Format:
    """Return a format by its name; raise FormatError, with the names there are."""
    known = formats()
    if name in known:
        return known[name]
    hint = did_you_mean(name, known)
    listed = f"the formats are {', '.join(known)}"
    raise FormatError(f"`{name}` is not a format; {f'{hint} ' if hint else ''}{listed}")


def format_of(path: str | Path) -> Format:
    """Return the format that the ending of a file stands for; the longest ending wins."""
    known = formats()
    name = Path(path).name.lower()
    fitting = [each for each in known.values() if name.endswith(each.suffix)]
    if not fitting:
        endings = ", ".join(each.suffix for each in known.values())
        raise FormatError(f"`{path}` has no known ending; give `to=`, or one of {endings}")
    return max(fitting, key=lambda each: len(each.suffix))


def readable_suffixes() -> tuple[str, ...]:
    """Return the endings of files that can be read as models."""
    return tuple(each.suffix for each in formats().values() if each.can_read)


def _rank(name: str) -> tuple[int, str]:
    names = list(_OURS)
    return (names.index(name) if name in names else len(names), name)
