"""A model: a file, its parameters, and its transition graph, built on demand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.compile.checker import check
from mdpdsl.compile.expand import Expansion, Integration, Progress, expand
from mdpdsl.compile.parameters import Override
from mdpdsl.compile.system import RawSystem, raw_system
from mdpdsl.diagnostics import (
    Diagnostic,
    ModelError,
    SettingsError,
    Source,
    did_you_mean,
    in_source_order,
)
from mdpdsl.graph.space import Value
from mdpdsl.graph.tables import StateTable
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.representation import represented
from mdpdsl.syntax.parse import Parsed, parse


class Estimating(Protocol):
    """A result that contains an estimated model: an estimate from logs, or a run of an explorer."""

    def as_model(self) -> Model:
        """Return the estimate as a model."""


class Model:
    """A model without errors of syntax, names or types; its graph is built on first use."""

    def __init__(
        self,
        source: Source,
        parameters: Mapping[str, Override] | None = None,
        *,
        keeps_all_states: bool = False,
        most_states: int | None = None,
        progress: Progress | None = None,
        learns_all: bool = False,
    ) -> None:
        self.source = source
        self.learns_all = learns_all
        self._options = (keeps_all_states, most_states, progress)
        self._parsed: Parsed = parse(source)
        self.checked: CheckedModel = check(self._parsed, parameters or {})
        errors = [d for d in self._located(self.checked.diagnostics) if d.is_error]
        if errors:
            raise ModelError(self.diagnose())

    @classmethod
    def diagnosed(
        cls,
        source: Source,
        parameters: Mapping[str, Override] | None = None,
        *,
        keeps_all_states: bool = False,
        most_states: int | None = None,
    ) -> list[Diagnostic]:
        """Return every error in a source, including those that occur only in certain states."""
        try:
            model = cls(
                source, parameters, keeps_all_states=keeps_all_states, most_states=most_states
            )
        except ModelError as error:
            return list(error.diagnostics)
        return model.diagnose()

    @property
    def name(self) -> str:
        """The name of the model, after `mdp`."""
        return self.checked.name

    @property
    def title(self) -> str | None:
        """The title of the model, after its name."""
        return self.checked.title

    @property
    def parameters(self) -> Mapping[str, Value]:
        """The parameters with their current values."""
        return self.checked.parameters

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties that the model names, with their texts."""
        return {name: asked.text for name, asked in self.checked.properties.items()}

    @property
    def options(self) -> dict[str, Any]:
        """The options for building the graph, as a run directory records them."""
        keeps_all_states, most_states, _ = self._options
        learned = {"learn": "all"} if self.learns_all else {}
        return {"all_states": keeps_all_states, "max_states": most_states, **learned}

    @property
    def missing(self) -> tuple[str, ...]:
        """What has no value, so that the model cannot be simulated: unknown numbers, and `?`."""
        return self.checked.missing

    def over_all_states(self) -> Model:
        """Return the same model over the whole product of its variables."""
        keeps_all_states, most_states, progress = self._options
        if keeps_all_states:
            return self
        return Model(
            self.source,
            self.checked.parameters,
            keeps_all_states=True,
            most_states=most_states,
            progress=progress,
            learns_all=self.learns_all,
        )

    @property
    def graph(self) -> TransitionGraph:
        """The transition graph; raise ModelError if the model cannot be built."""
        graph = self._expansion.graph
        if graph is None:
            raise ModelError(self._located(self._expansion.diagnostics))
        return graph

    @property
    def states(self) -> StateTable:
        """The values of all variables by state number, as a table."""
        return StateTable(self.graph)

    @cached_property
    def system(self) -> RawSystem:
        """The continuous system that the graph discretizes, for drawing one step at a time."""
        return raw_system(self.checked, self.source)

    @property
    def is_continuous(self) -> bool:
        """Whether any state variable is real."""
        return any(variable.kind == "real" for variable in self.checked.states.variables)

    @property
    def integration(self) -> Integration | None:
        """How cells and noise were integrated; None for a finite model without noise."""
        return self._expansion.integration

    @property
    def build_seconds(self) -> float:
        """How long the expansion took, in seconds."""
        return self._expansion.seconds

    def diagnose(self) -> list[Diagnostic]:
        """Return every error and warning of the model, in file order."""
        found = list(self.checked.diagnostics)
        if self.checked.can_expand:
            found += self._expansion.diagnostics
        return in_source_order(self._located(found))

    @property
    def is_built(self) -> bool:
        """Whether the graph has been built."""
        return "_expansion" in self.__dict__

    def __repr__(self) -> str:
        return f"<Model {self.name} from {self.source.path}>"

    def _repr_html_(self) -> str | None:
        return represented("model_html", self)

    def build(self, progress: Progress | None = None) -> TransitionGraph:
        """Build the graph, with progress as (states done, states in all); return it."""
        if not self.is_built:
            self._options = (*self._options[:2], progress)
        return self.graph

    @cached_property
    def _expansion(self) -> Expansion:
        keeps_all_states, most_states, progress = self._options
        return expand(
            self.checked,
            keeps_all_states=keeps_all_states,
            most_states=most_states,
            progress=progress,
            learns_all=self.learns_all,
        )

    def _located(self, diagnostics: tuple[Diagnostic, ...] | list[Diagnostic]) -> list[Diagnostic]:
        return [d if d.source is not None else replace(d, source=self.source) for d in diagnostics]


def as_model(given: Model | Estimating) -> Model:
    """Return a model, or the one that a result has estimated; raise SettingsError for others."""
    if isinstance(given, Model):
        return given
    estimated = getattr(given, "as_model", None)
    if estimated is not None:
        found = estimated()
        assert isinstance(found, Model)
        return found
    if isinstance(given, str | Path):
        raise SettingsError(f"`{given}` is a path or a name; load it first: mdpdsl.load({given!r})")
    raise SettingsError(f"expected a model, not {type(given).__name__}; mdpdsl.load reads one")


def load_file(
    path: str | Path,
    parameters: Mapping[str, Override] | None = None,
    *,
    all_states: bool = False,
    max_states: int | None = None,
    learn: str | None = None,
) -> Model:
    """Read a model from a file, or a shipped model by its name."""
    return Model(
        read_source(str(path)),
        parameters,
        keeps_all_states=all_states,
        most_states=max_states,
        learns_all=learns_all(learn),
    )


def loads(
    text: str,
    /,
    *,
    all_states: bool = False,
    max_states: int | None = None,
    learn: str | None = None,
    **parameters: Override,
) -> Model:
    """Read a model from a text; parameters by keyword.

    With `learn="all"`, rows that are written out beside a `?` or an unknown number are to be
    learned as well.

    >>> import mdpdsl
    >>> text = "mdp walk  param n = 4  state x in 0..n-1  action go  on go -> x' = mod(x + 1, n)"
    >>> mdpdsl.loads(text, n=6).graph.n_states
    6
    """
    return Model(
        Source(text, "<text>"),
        parameters,
        keeps_all_states=all_states,
        most_states=max_states,
        learns_all=learns_all(learn),
    )


def learns_all(learn: str | None) -> bool:
    """Return whether all rows are to be learned; raise SettingsError for another choice."""
    if learn not in (None, "all"):
        raise SettingsError(
            f'`learn` cannot be {learn!r}; it is "all", to learn rows that are written out as '
            "well, or None"
        )
    return learn == "all"


def shipped_models() -> list[str]:
    """Return the names of the shipped models.

    >>> import mdpdsl
    >>> "riverswim" in mdpdsl.shipped_models()
    True
    """
    folder = resources.files("mdpdsl.models")
    return sorted(f.name.removesuffix(".mdp") for f in folder.iterdir() if f.name.endswith(".mdp"))


def read_source(path: str) -> Source:
    """Read a model file; a bare name finds the shipped model if there is no such file."""
    try:
        if path in shipped_models() and not Path(path).exists():
            file = resources.files("mdpdsl.models").joinpath(f"{path}.mdp")
            return Source(file.read_text("utf-8"), f"{path}.mdp")
        return Source(Path(path).read_bytes().decode("utf-8"), path)
    except UnicodeDecodeError as error:
        reason, help_text = f"byte {error.start} is not UTF-8", "save the file as UTF-8"
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        close = did_you_mean(Path(path).stem, shipped_models())
        help_text = (
            close or "give a path, or the name of a shipped model (`mdpdsl models` lists them)"
        )
    shown = path if 0 < len(path) <= 200 else f"`{path[:200]}`"
    diagnostic = Diagnostic("E603", f"cannot read {shown}: {reason}", None, help_text)
    raise ModelError([diagnostic])
