"""The columns of a live run's log: observations and actions, in a form that `estimate` can read.

A row is a state: its episode, its time, everything observed there, whether the episode ended or was
cut there, and the action taken (empty at the end of an episode). The model's `log` block says how
to read the action, the episode, the time and the ends; here it is inverted. A plain column is
written under its name. If the block computes an action from one column, we search for a number from
which it computes each action, and write that number. If there is no such number, we cannot write a
log that the block reads, and refuse the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.compile.expressions import Frame, evaluate
from mdpdsl.compile.terms import Constant, Named, Read, Term, parts, reads
from mdpdsl.diagnostics import SettingsError, did_you_mean
from mdpdsl.graph.space import FloatArray, Value, Variable
from mdpdsl.logs.sources import DONE, TERMINATED, TRUNCATED

EPISODE, TIME = "episode", "time"
#: The most columns that a message names.
MOST_NAMED = 30
#: An expression is tried with this many numbers of episodes and times.
TRIED = 1_000
#: Time steps whose relative difference is smaller are the same.
SAME_STEP = 1e-6
#: Characters that end a field or a line of the log, or may be mistaken for a delimiter.
_FORBIDDEN = frozenset(',;\t\r\n"')


@dataclass(frozen=True)
class LiveColumns:
    """The columns of a live log, in this order, and the text of every action in them."""

    episode: str
    time: str
    observed: tuple[str, ...]
    ended: str | None  # None: what is observed says whether the episode ended
    cut: str | None
    actions: tuple[str, ...]
    action_texts: tuple[tuple[str, ...], ...]  # by action, one text per column
    restarts_time: bool  # in every episode; otherwise it keeps counting, as the model reads none
    is_done_an_end: bool  # whether the block reads a single truth value of `step` as an end

    @property
    def flags(self) -> tuple[str, ...]:
        """The columns that say how an episode stopped."""
        return tuple(name for name in (self.ended, self.cut) if name is not None)

    @property
    def all(self) -> tuple[str, ...]:
        """Every column."""
        return (self.episode, self.time, *self.observed, *self.flags, *self.actions)

    def without_flags(self) -> LiveColumns:
        """Return the columns of logs that earlier versions wrote."""
        return replace(self, ended=None, cut=None)


def live_columns(model: CheckedModel, observed: Iterable[str], system: str) -> LiveColumns:
    """Return the columns of a live log; raise SettingsError if the model cannot read them."""
    observed = tuple(observed)
    _check_names(observed, system)
    given = {column.key: column.term for column in model.log}
    variables = [v.name for v in model.states.variables]
    factors = [v.name for v in model.actions.variables]
    _refuse_next_values(model, variables, given, observed, system)
    _require_states(model, given, observed, system)
    taken = {*variables, *factors}
    actions, tables = [], []
    for variable in model.actions.variables:
        name, texts = _action_column(model, variable, given.get(variable.name))
        actions.append(name)
        tables.append(texts)
    columns = LiveColumns(
        episode=_counting_column(EPISODE, given.get(EPISODE), taken),
        time=_counting_column(TIME, given.get(TIME), taken),
        observed=observed,
        ended=_flag_column("ended", TERMINATED, given, observed, taken, system),
        cut=_flag_column("cut", TRUNCATED, given, observed, taken, system),
        actions=tuple(actions),
        action_texts=_by_action(model, tables),
        restarts_time=EPISODE not in taken,
        is_done_an_end=_is_column(given.get("ended"), DONE),
    )
    _refuse_collisions(columns, system)
    return columns


def _flag_column(
    key: str,
    default: str,
    given: Mapping[str, Term],
    observed: Sequence[str],
    taken: Iterable[str],
    system: str,
) -> str | None:
    """Return the column for a flag that the system returns; None if what is observed has it."""
    term = given.get(key)
    if term is None:
        return None if default in observed or default in taken else default
    missing = sorted(name for _, name in reads(term) if name not in observed)
    if not missing:
        return None
    if isinstance(term, Read):
        return term.name
    raise SettingsError(
        f"{system} has no column `{missing[0]}`, which the log block reads for `{key}`; read it "
        f"from columns that are observed, or leave `{key}` out to use what the system returns"
    )


def _is_column(term: Term | None, name: str) -> bool:
    return isinstance(term, Read) and term.name == name


def text_of(value: Value) -> str:
    """Return a value as a field of a log; reading the field gives the value back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def _check_names(observed: Sequence[str], system: str) -> None:
    if not observed:
        raise SettingsError(f"{system} observes nothing; a state needs at least one column")
    for name in observed:
        if not isinstance(name, str) or not name or _FORBIDDEN & set(name):
            raise SettingsError(
                f"{system} gives a column the name {name!r}; names are words such as `obs_0`"
            )


def _refuse_next_values(
    model: CheckedModel,
    variables: Sequence[str],
    given: Mapping[str, Term],
    observed: Sequence[str],
    system: str,
) -> None:
    """Refuse columns of next values: they would make a row a transition, but here it is a state."""
    spellings = {f"{name}'" for name in variables} | {f"next_{name}" for name in variables}
    named = sorted(spellings & given.keys())
    if named:
        raise SettingsError(
            f"the log block of {model.name} gives next values ({', '.join(named)}); a live system "
            "shows one state after the other, so leave them out"
        )
    there = sorted(spellings & set(observed) - set(variables))
    if there:
        raise SettingsError(
            f"{system} gives a column `{there[0]}`, which a log reads as a next value; "
            "give it another name"
        )


def _require_states(
    model: CheckedModel, given: Mapping[str, Term], observed: Sequence[str], system: str
) -> None:
    """Raise SettingsError unless every state variable can be read from what is observed."""
    missing: dict[str, list[str]] = {}
    for variable in model.states.variables:
        term = given.get(variable.name)
        needed = [variable.name] if term is None else sorted(name for _, name in reads(term))
        for name in needed:
            if name not in observed:
                missing.setdefault(name, []).append(variable.name)
    if not missing:
        return
    them = ", ".join(f"`{name}` (for {', '.join(of)})" for name, of in missing.items())
    there = ", ".join(observed[:MOST_NAMED])
    there += f" and {len(observed) - MOST_NAMED} more" if len(observed) > MOST_NAMED else ""
    hints = [hint for name in missing if (hint := did_you_mean(name, observed))]
    hint = f"{'; '.join(hints)}\n" if hints else ""
    raise SettingsError(
        f"{system} has no column{'s' if len(missing) > 1 else ''} {them}; its columns are {there}\n"
        f"{hint}say in the model's log block how to read each variable, from a column or from an "
        f"expression of columns, for example\n\n{suggested_block(model, observed)}"
    )


def suggested_block(model: CheckedModel, observed: Sequence[str]) -> str:
    """Return entries for the log block of a model, for the variables that cannot be read yet."""
    given = {column.key: column.term for column in model.log}
    free = list(observed)
    lines = []
    for variable in model.states.variables:
        term = given.get(variable.name)
        if term is not None and all(name in observed for _, name in reads(term)):
            continue
        chosen = variable.name if variable.name in observed else (free.pop(0) if free else None)
        lines.append(f"  {variable.name} = {chosen or observed[-1]}")
    return "\n".join(["log {", *lines, "}"])


def _action_column(
    model: CheckedModel, variable: Variable, term: Term | None
) -> tuple[str, list[str]]:
    """Return the column of an action factor, and the text of each of its values."""
    own = [text_of(variable.native(i)) for i in range(variable.size)]
    if term is None:
        return variable.name, own
    if isinstance(term, Read):
        return term.name, own
    names = sorted(name for _, name in reads(term))
    if len(names) == 1:
        found = _solutions(model, variable, term, names[0])
        if found is not None:
            return names[0], [text_of(value) for value in found]
    raise SettingsError(
        f"the log block of {model.name} computes the action {variable.name} in a way that cannot "
        "be inverted, so the run cannot write a log that it reads; name the column, as in "
        f"`{variable.name} = {names[0] if names else variable.name}`"
    )


def _solutions(
    model: CheckedModel, variable: Variable, term: Term, column: str
) -> list[float] | None:
    """Return, for each value of a variable, a number of the column from which the term computes it.

    The numbers tried are the value itself, the solution if the term is linear, the position of the
    value, and numbers on both sides of every constant in the term. Return None if none of them fit.
    """
    sides = [c + shift for c in (0.0, *_constants(term)) for shift in (0.0, 1.0, -1.0, 0.5, -0.5)]
    at_zero, at_one = _evaluated(term, column, np.array([0.0, 1.0]))
    found = []
    for place in range(variable.size):
        wanted = float(variable.values(np.array([place]))[0])
        tried = [wanted, float(place), *sides]
        if at_one != at_zero:
            tried.insert(1, (wanted - at_zero) / (at_one - at_zero))
        numbers = np.array([number for number in tried if np.isfinite(number)])
        is_it = _cells(model, variable, term, column, numbers) == place
        if not is_it.any():
            return None
        found.append(float(numbers[int(np.argmax(is_it))]))
    return found


def _cells(
    model: CheckedModel, variable: Variable, term: Term, column: str, numbers: FloatArray
) -> FloatArray:
    """Return a variable's cell, computed from each number of a column; -1 if there is none."""
    values = _evaluated(term, column, numbers)
    if term.type.kind == "enum":
        places = {model.symbols[m]: float(i) for i, m in enumerate(variable.members)}
        return np.array([places.get(int(value), -1.0) for value in values])
    return variable.indices(values).astype(np.float64)


def _evaluated(term: Term, column: str, numbers: FloatArray) -> FloatArray:
    """Return a term's value for each number of a column; NaN, or -1 for an enum, if it has none."""
    frame = Frame(len(numbers), {("column", column): numbers})
    result = evaluate(term, frame)
    values: FloatArray = np.array(frame.full(result.values), np.float64)
    for fault in result.faults:
        values[np.broadcast_to(fault.rows, values.shape)] = np.nan
    return np.nan_to_num(values, nan=-1.0) if term.type.kind == "enum" else values


def _constants(term: Term) -> list[float]:
    found: list[float] = []
    pending = [term]
    while pending:
        current = pending.pop()
        if isinstance(current, Constant):
            found.append(current.value)
        pending += [current.definition] if isinstance(current, Named) else parts(current)
    return sorted(set(found))


def _counting_column(key: str, term: Term | None, taken: set[str]) -> str:
    """Return the column for the number of the episode or of the time step, which starts at 0."""
    if key in taken:  # a variable has that name, so the model reads no such column
        return f"live_{key}"
    if term is None or isinstance(term, Read):
        return key if term is None else term.name
    names = sorted(name for _, name in reads(term))
    if len(names) == 1:
        values = _evaluated(term, names[0], np.arange(TRIED, dtype=np.float64))
        steps = np.diff(values)
        if key == EPISODE and len(np.unique(values[np.isfinite(values)])) == TRIED:
            return names[0]
        if key == TIME and np.all(steps > 0) and np.ptp(steps) < SAME_STEP * steps.mean():
            return names[0]
    raise SettingsError(
        f"the log block computes `{key}` in a way that does not fit a live log, which counts from "
        f"0 in steps of 1; name a column instead, as in `{key} = {names[0] if names else key}`"
    )


def _by_action(model: CheckedModel, tables: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    product = model.actions
    return tuple(
        tuple(
            table[action // stride % variable.size]
            for table, stride, variable in zip(
                tables, product.strides, product.variables, strict=True
            )
        )
        for action in range(product.size)
    )


def _refuse_collisions(columns: LiveColumns, system: str) -> None:
    """Refuse two columns with the same name."""
    named = [("the number of the episode", columns.episode), ("the time", columns.time)]
    named += [("whether the episode is over", name) for name in columns.flags]
    named += [("an action", name) for name in columns.actions]
    seen: dict[str, str] = {}
    for what, name in named:
        if name in columns.observed:
            raise SettingsError(
                f"{system} gives a column `{name}`, but the log uses that name for {what}; rename "
                "it, or name another column in the model's log block"
            )
        if name in seen:
            raise SettingsError(
                f"the log would have {seen[name]} and {what} both in the column `{name}`; give "
                "each its own column in the model's log block"
            )
        seen[name] = what
