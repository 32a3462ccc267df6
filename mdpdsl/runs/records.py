"""What a run says about itself, as typed records that are JSON on disk.

`decoded` reads a record from JSON and checks the type of every field, so that a file with a mistake
is refused at once, with the name of the field.
"""

from __future__ import annotations

import builtins
import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, Union

from mdpdsl.diagnostics import LogProblem
from mdpdsl.graph.space import Value

FORMAT = 1

R = TypeVar("R")

#: The kind of a field that every record has.
EVERY = "every"


def of(kind: str) -> Any:
    """Make a field that only one kind of run has; its records keep it even if it is None."""
    return dataclasses.field(default=None, metadata={"kind": kind})


@dataclass(frozen=True)
class PairRecord:
    """A pair: the values of its state, and the name of its action."""

    state: Mapping[str, Value]
    action: str


@dataclass(frozen=True)
class EndRecord:
    """A state in which episodes ended; if it is mixed, others continued there."""

    state: Mapping[str, Value]
    arrivals: int
    found: bool  # in the data; otherwise the model declares it
    mixed: bool


@dataclass(frozen=True)
class FileRecord:
    """A file of a log."""

    path: str
    bytes: int
    rows: int


@dataclass(frozen=True)
class LogRecord:
    """The log that a run replays."""

    files: Sequence[FileRecord]
    problems: Sequence[LogProblem]
    rows: int
    rejected: Mapping[str, int]
    clipped: Mapping[str, int]
    in_order: bool
    time_step: float | None
    separate_files: bool
    transitions: int
    episodes: int
    hash: str
    offer: str  # logged, or all
    pairs_in_log: int
    pairs_unseen: int
    unseen: Sequence[PairRecord]  # the first of them
    reading: Mapping[str, Value] = dataclasses.field(default_factory=dict)  # unusual options


@dataclass(frozen=True)
class WarmStartRecord:
    """The sources of the counts that a run started with."""

    sources: Sequence[str]
    transitions: int
    rejected: Mapping[str, int]
    problems: Sequence[str]


@dataclass(frozen=True)
class SystemRecord:
    """The live system that a run explores."""

    kind: str  # gymnasium, or callback: an object of a Python program
    name: str | None = None
    env: str | None = None
    arguments: Mapping[str, Any] | None = None  # of the environment, as JSON
    observed: Sequence[str] = ()  # the columns of an observation


@dataclass(frozen=True)
class RunOptions:
    """How the model of a run was made, and what it replays."""

    all_states: bool = False
    max_states: int | None = None
    stored: str | None = None  # the path of a model that was read, not built
    unseen_pairs: int | None = None  # if an estimate was explored
    log: LogRecord | None = None
    learn: str | None = None  # `all` if rows that the file states were to be learned as well


@dataclass(frozen=True)
class RunConfiguration:
    """Everything that determines a run: the file `run.json`."""

    model: str
    hash: str
    parameters: Mapping[str, Value]
    options: RunOptions
    settings: Mapping[str, Any]  # of the verb, as JSON
    seed: int
    trials: int
    versions: Mapping[str, str]
    format: int = FORMAT
    command: str = "explore"
    system: SystemRecord | None = None
    warm_start: WarmStartRecord | None = None
    property: str | None = None  # whose guaranteed and possible values are computed

    @builtins.property
    def kind(self) -> str:
        """What was done: `explore`, `replay` (of a log), `live` or `estimate`."""
        if self.command == "estimate":
            return "estimate"
        if self.system is not None:
            return "live"
        return "explore" if self.options.log is None else "replay"

    @builtins.property
    def has_trials(self) -> bool:
        """Whether trials have folders of their own; estimates and live runs have none."""
        return self.kind in ("explore", "replay")


@dataclass(frozen=True)
class TrialRecord:
    """The results of one trial; the last fields are those of a replay."""

    trial: int
    failed: bool
    unvisited: int | None
    worst: float | None
    average: float | None
    seconds: float
    seed: int | None = None
    squared_error: float | None = of(EVERY)
    transitions: int | None = None
    steps: int | None = of("replay")
    share_of_log: float | None = of("replay")
    ended: str | None = of("replay")
    ended_pair: Mapping[str, Any] | None = of("replay")  # state, action, in_log
    restarts: int | None = of("replay")
    distance_to_log: float | None = of("replay")
    guaranteed: float | str | None = of("property")  # infinity is a text
    possible: float | str | None = of("property")


@dataclass(frozen=True)
class ExploreRecord:
    """The results of a run of an explorer: `summary.json` without the settings.

    The last fields belong to one kind of run: a simulated one on a stored model, a replay of a log,
    or a live one.
    """

    seed: int
    trials: Sequence[TrialRecord]
    truth: bool
    warm_start: WarmStartRecord | None
    failure_rate: float
    worst: float | None
    average: float | None
    worst_se: float | None
    average_se: float | None
    optimum: Mapping[str, float] | None
    optimum_reason: str | None
    ratio: Mapping[str, float | None] | None
    utility_optimum: float | None
    steps_per_second: float | None
    residual: float
    versions: Mapping[str, str]
    estimate_missing: str | None
    rewards_missing: str | None
    finished: bool = True
    squared_error: float | None = of(EVERY)
    # on a stored model
    stored: str | None = of("stored")
    unseen_pairs: int | None = of("stored")
    # in a log; the first and the last also of live runs
    transitions: int | None = None
    pairs_in_log: int | None = of("replay")
    pairs_unseen: int | None = of("replay")
    steps_done: float | None = of("replay")
    share_of_log: float | None = of("replay")
    coverage: float | None = of("replay")
    restarts: float | None = of("replay")
    distance_to_log: float | None = of("replay")
    ended: str | None = of("replay")
    log: LogRecord | str | None = None  # for a live run, the path of its log
    # live
    env: str | None = of("live")
    env_arguments: Mapping[str, Any] | None = of("live")
    total_transitions: int | None = of("live")
    episodes: int | None = of("live")
    rejected: Mapping[str, int] | None = of("live")
    examples: Mapping[str, Sequence[ExampleRecord]] | None = of("live")
    clipped: Mapping[str, int] | None = of("live")
    ends: Sequence[EndRecord] | None = of("live")  # those in which episodes ended
    unvisited: Sequence[PairRecord] | None = of("live")  # the first of them
    system_share: float | None = of("live")  # of the time
    # of a property, means over trials; infinity is a text
    property: str | None = of("property")
    guaranteed: float | str | None = of("property")
    possible: float | str | None = of("property")
    bounds_missing: str | None = of("property")  # why there are none


@dataclass(frozen=True)
class ExampleRecord:
    """A row that was rejected."""

    file: str
    row: int
    found: str


@dataclass(frozen=True)
class ImpossibleRecord:
    """A transition that was seen although the model calls it impossible."""

    state: Mapping[str, Value]
    action: str
    next: Mapping[str, Value]
    count: int


@dataclass(frozen=True)
class ContradictionRecord:
    """Transitions in the data that the model calls impossible, although it was to be trusted."""

    transitions: int  # how often they were seen, together
    pairs: int
    examples: Sequence[ImpossibleRecord]  # the most frequent ones


@dataclass(frozen=True)
class NumberRecord:
    """An unknown number of a model: its estimate, and intervals."""

    name: str
    value: float | None
    deviation: float | None  # None if the data do not determine it
    low: float | None  # time-uniform, together with all other sets; None if no value fits
    high: float | None
    profile_low: float | None  # asymptotic, at one look
    profile_high: float | None
    range: Sequence[float]  # as the file declares it


@dataclass(frozen=True)
class MisfitRecord:
    """A row that contradicts what the model file says of it; without a state, all rows together."""

    state: Mapping[str, Value] | None
    action: str | None
    p_value: float
    text: str


@dataclass(frozen=True)
class EstimateRecord:
    """The results of an estimate: `summary.json`."""

    model: str
    hash: str
    parameters: Mapping[str, Value]
    states: int
    pairs: int
    transitions: int
    rows: int
    files: Sequence[FileRecord]
    problems: Sequence[LogProblem]
    rejected: Mapping[str, int]
    examples: Mapping[str, Sequence[ExampleRecord]]
    clipped: Mapping[str, int]
    in_order: bool
    episodes: int | None
    says_ends: bool  # whether the log can say that an episode ended, or was cut
    ends: Sequence[EndRecord]  # those in which episodes ended
    pairs_seen: int
    pairs_unseen: int
    unseen: Sequence[PairRecord]  # the first of them
    worst_radius: float
    truth: bool
    worst: float | None
    average: float | None
    delta: float
    sets: str
    support: str
    holds: str  # when the sets hold
    contradictions: ContradictionRecord | None  # of the support `model`
    prior: float
    time_step: float | None
    separate_files: bool
    reading: Mapping[str, Value]  # unusual options of reading, such as a decimal comma
    seconds: float
    rows_per_second: float
    versions: Mapping[str, str]
    estimate_missing: str | None
    rewards_missing: str | None
    numbers: Sequence[NumberRecord] | None = None  # if the model has unknown numbers
    numbers_source: str | None = None  # counts, or raw values
    notes: Sequence[str] | None = None  # about the numbers
    misfit: Sequence[MisfitRecord] | None = None  # the first rows that contradict the model


def encoded(record: Any) -> dict[str, Any]:
    """Return a record as a JSON object, without fields that are None and not of its kind."""
    fields = dataclasses.fields(record)
    kinds = {f.metadata.get("kind") for f in fields if getattr(record, f.name) is not None}
    kinds = (kinds - {None}) | {EVERY}
    found: dict[str, Any] = {}
    for field in fields:
        value = getattr(record, field.name)
        if value is None and field.default is None and field.metadata.get("kind") not in kinds:
            continue
        found[field.name] = _encoded_value(value)
    return found


def _encoded_value(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return encoded(value)
    if isinstance(value, Mapping):
        return {key: _encoded_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_encoded_value(each) for each in value]
    return value


def decoded(kind: type[R], found: object, where: str = "") -> R:
    """Read a record from JSON; raise ValueError that names the field that is wrong.

    Unknown fields are ignored: later versions may write more.
    """
    if not isinstance(found, Mapping):
        raise ValueError(f"{where or 'the record'} is {_shown(found)}, not an object")
    hints = typing.get_type_hints(kind)
    values = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        place = f"{where}.{field.name}" if where else field.name
        if field.name in found:
            values[field.name] = _decoded_value(hints[field.name], found[field.name], place)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ValueError(f"`{place}` is missing")
    return kind(**values)


def _decoded_value(hint: Any, found: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return found
    if origin in (Union, types.UnionType):
        return _one_of(arguments, found, where)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return decoded(hint, found, where)
    if origin is not None and issubclass(origin, Mapping) and isinstance(found, Mapping):
        return {str(k): _decoded_value(arguments[1], v, f"{where}.{k}") for k, v in found.items()}
    if origin is not None and issubclass(origin, Sequence) and isinstance(found, list):
        return [_decoded_value(arguments[0], v, f"{where}[{i}]") for i, v in enumerate(found)]
    if hint is float and isinstance(found, int) and not isinstance(found, bool):
        return float(found)
    is_truth_for_number = hint is int and isinstance(found, bool)
    if isinstance(hint, type) and isinstance(found, hint) and not is_truth_for_number:
        return found
    raise ValueError(f"`{where}` cannot be {_shown(found)}")


def _one_of(hints: tuple[Any, ...], found: Any, where: str) -> Any:
    if found is None and type(None) in hints:
        return None
    exact = [hint for hint in hints if isinstance(hint, type) and type(found) is hint]
    for hint in (*exact, *(hint for hint in hints if hint is not type(None))):
        try:
            return _decoded_value(hint, found, where)
        except ValueError as error:
            reason = error
    raise reason


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
