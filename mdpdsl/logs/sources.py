"""Which columns of a log a model reads, and for what: the `log` block and its defaults.

A variable that the block leaves out is read from the column of its own name; `episode` and `time`
may be missing. If a log also has the next value of every state variable (`x'` or `next_x`), each
row is a whole transition. Some readers bring episodes of their own, which replace the block's.

`ended` and `cut` say how an episode stopped; by default the columns `terminated` and `truncated`.
A column `done` mixes both kinds: unless it is declared as `ended`, it cuts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.compile.terms import REAL, Read, Term, reads
from mdpdsl.diagnostics import did_you_mean
from mdpdsl.logs.readers.log_file import LogFile, LogFileError

#: Columns named in a message.
MOST_NAMED = 30
#: Columns that say how an episode stopped, unless the `log` block names others.
TERMINATED, TRUNCATED, DONE = "terminated", "truncated", "done"


@dataclass(frozen=True, eq=False)
class ColumnSources:
    """The terms to evaluate in each row of a log."""

    states: tuple[Term, ...]  # one per state variable
    actions: tuple[Term, ...]  # one per action factor
    next_states: tuple[Term, ...] | None  # where rows are whole transitions
    episode: Term | None
    time: Term | None
    ended: Term | None
    cut: tuple[Term, ...]  # the episode is cut where any of them holds

    @property
    def has_stops(self) -> bool:
        """Whether rows can say that their episode ended or was cut."""
        return self.ended is not None or len(self.cut) > 0

    @property
    def columns(self) -> list[str]:
        """The columns that are read, each once."""
        terms = [*self.states, *self.actions, *(self.next_states or ()), *self.cut]
        terms += [] if self.ended is None else [self.ended]
        if self.next_states is None:  # whole transitions need no order
            terms += [term for term in (self.episode, self.time) if term is not None]
        return sorted({name for term in terms for _, name in reads(term)})


def column_sources(model: CheckedModel, log: LogFile) -> ColumnSources:
    """Find the columns of a log; raise LogFileError where some are missing."""
    given = {} if log.has_model_values else {column.key: column.term for column in model.log}
    variables = [v.name for v in model.states.variables]
    factors = [v.name for v in model.actions.variables]

    def term_of(key: str) -> Term:
        return given.get(key) or Read("column", key, type=REAL, span=model.span)

    def optional(key: str) -> Term | None:
        if key in given:
            return given[key]
        return term_of(key) if key in log.columns and key not in (*variables, *factors) else None

    episode = optional("episode") if "episode" not in variables else None
    if log.own_episodes is not None:
        episode = Read("column", log.own_episodes, type=REAL, span=model.span)
    ended = given.get("ended") or optional(TERMINATED)
    cut = [term for term in (optional(TRUNCATED), optional(DONE)) if term is not None]
    if ended is not None:
        cut = [term for term in cut if not reads(term) & reads(ended)]
    if "cut" in given:
        cut = [given["cut"]]
    sources = ColumnSources(
        states=tuple(term_of(name) for name in variables),
        actions=tuple(term_of(name) for name in factors),
        next_states=_next_terms(model, variables, given, log),
        episode=episode,
        time=None if "time" in variables or log.is_in_order else optional("time"),
        ended=ended,
        cut=tuple(cut),
    )
    _require(sources, [*variables, *factors], log)
    return sources


def _next_terms(
    model: CheckedModel, variables: Sequence[str], given: Mapping[str, Term], log: LogFile
) -> tuple[Term, ...] | None:
    """Return the terms of the next values; None unless the log or the block has them all."""
    found: dict[str, Term] = {}
    for name in variables:
        spellings = (f"{name}'", f"next_{name}")
        in_block = [given[key] for key in spellings if key in given]
        # A column of the default name goes with the variable's own column. It does not apply to a
        # variable that the block reads from elsewhere.
        in_log = [key for key in spellings if key in log.columns and name not in given]
        if in_block:
            found[name] = in_block[0]
        elif in_log:
            found[name] = Read("column", in_log[0], type=REAL, span=model.span)
    if len(found) == len(variables):
        return tuple(found[name] for name in variables)
    missing = [name for name in variables if name not in found]
    if any(f"{name}'" in given or f"next_{name}" in given for name in found):
        raise LogFileError(
            f"{log.name}: the log block gives the next value of {', '.join(found)}, "
            f"but not of {', '.join(missing)}",
            "give the next values of all state variables, or of none",
        )
    return None


def _require(sources: ColumnSources, keys: Sequence[str], log: LogFile) -> None:
    """Raise LogFileError unless the log has every column that is read."""
    missing = [name for name in sources.columns if name not in log.columns]
    if not missing:
        return
    uses = []
    for name in missing:
        readers = [
            key
            for key, term in zip(keys, [*sources.states, *sources.actions], strict=True)
            if ("column", name) in reads(term)
        ]
        others = [("episode", sources.episode), ("time", sources.time), ("ended", sources.ended)]
        for key, term in [*others, *(("cut", term) for term in sources.cut)]:
            if term is not None and ("column", name) in reads(term):
                readers.append(key)
        uses.append(f"`{name}`" + (f" (for {', '.join(readers)})" if readers else ""))
    there = ", ".join(log.columns[:MOST_NAMED]) or "none"
    more = len(log.columns) - MOST_NAMED
    there += f" and {more} more" if more > 0 else ""
    hints = [did_you_mean(name, log.columns) for name in missing]
    hint = "; ".join(h for h in hints if h) or "name the columns in the model's `log` block"
    plural = "s" if len(missing) > 1 else ""
    raise LogFileError(
        f"{log.name} has no column{plural} {', '.join(uses)}; its columns are {there}", hint
    )
