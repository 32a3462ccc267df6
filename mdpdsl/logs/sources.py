"""Which columns of a file a model reads, and for what: the `log` block and its defaults.

What the block does not say has the variable's own name; `episode` and `time` may be missing. Where
a file has the next value of every state variable too (`x'` or `next_x`), a row is a whole
transition. A log that is in order brings its own episodes and times, whatever the block says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mdpdsl.compile.checked import CheckedModel
from mdpdsl.compile.terms import REAL, Read, Term, reads
from mdpdsl.diagnostics import did_you_mean
from mdpdsl.logs.readers.files import LogFile, LogFileError

#: Columns named in a message.
MOST_NAMED = 30


@dataclass(frozen=True, eq=False)
class ColumnPlan:
    """What to evaluate for each row of a file."""

    states: tuple[Term, ...]  # one per state variable
    actions: tuple[Term, ...]  # one per action factor
    next_states: tuple[Term, ...] | None  # where rows are whole transitions
    episode: Term | None
    time: Term | None

    @property
    def columns(self) -> list[str]:
        """The columns that are read, each once."""
        terms = [*self.states, *self.actions, *(self.next_states or ())]
        if self.next_states is None:  # whole transitions need no order
            terms += [term for term in (self.episode, self.time) if term is not None]
        return sorted({name for term in terms for _, name in reads(term)})


def column_plan(model: CheckedModel, log: LogFile) -> ColumnPlan:
    """Find the columns of a file; raise LogFileError where some are missing."""
    given = {column.key: column.term for column in model.log}
    variables = [v.name for v in model.states.variables]
    factors = [v.name for v in model.actions.variables]

    def term_of(key: str) -> Term:
        return given.get(key) or Read("column", key, type=REAL, span=model.span)

    def optional(key: str) -> Term | None:
        if key in given:
            return given[key]
        return term_of(key) if key in log.columns and key not in (*variables, *factors) else None

    episode = optional("episode") if "episode" not in variables else None
    if log.is_in_order:  # the block speaks of other files
        episode = Read("column", "episode", type=REAL, span=model.span)
    plan = ColumnPlan(
        states=tuple(term_of(name) for name in variables),
        actions=tuple(term_of(name) for name in factors),
        next_states=_next_terms(model, variables, given, log),
        episode=episode,
        time=None if "time" in variables or log.is_in_order else optional("time"),
    )
    _require(plan, [*variables, *factors], log)
    return plan


def _next_terms(
    model: CheckedModel, variables: Sequence[str], given: Mapping[str, Term], log: LogFile
) -> tuple[Term, ...] | None:
    """Return where the next values are; None where the file or the block knows none of them."""
    found: dict[str, Term] = {}
    for name in variables:
        spellings = (f"{name}'", f"next_{name}")
        said = [given[key] for key in spellings if key in given]
        # A column of the default name means what the variable's own column means; it says nothing
        # about a variable that the block computes from something else.
        there = [key for key in spellings if key in log.columns and name not in given]
        if said:
            found[name] = said[0]
        elif there:
            found[name] = Read("column", there[0], type=REAL, span=model.span)
    if len(found) == len(variables):
        return tuple(found[name] for name in variables)
    missing = [name for name in variables if name not in found]
    if any(f"{name}'" in given or f"next_{name}" in given for name in found):
        raise LogFileError(
            f"{log.path}: the log block gives the next value of {', '.join(found)}, "
            f"and none of {', '.join(missing)}",
            "give the next values of all state variables, or of none",
        )
    return None


def _require(plan: ColumnPlan, keys: Sequence[str], log: LogFile) -> None:
    """Raise LogFileError unless the file has every column of a plan."""
    missing = [name for name in plan.columns if name not in log.columns]
    if not missing:
        return
    uses = []
    for name in missing:
        readers = [
            key
            for key, term in zip(keys, [*plan.states, *plan.actions], strict=True)
            if ("column", name) in reads(term)
        ]
        for key, term in (("episode", plan.episode), ("time", plan.time)):
            if term is not None and ("column", name) in reads(term):
                readers.append(key)
        uses.append(f"`{name}`" + (f" (for {', '.join(readers)})" if readers else ""))
    there = ", ".join(log.columns[:MOST_NAMED])
    more = len(log.columns) - MOST_NAMED
    there += f" and {more} more" if more > 0 else ""
    hints = [did_you_mean(name, log.columns) for name in missing]
    hint = "; ".join(h for h in hints if h) or "name the columns in the model's `log` block"
    plural = "s" if len(missing) > 1 else ""
    raise LogFileError(
        f"{log.path} has no column{plural} {', '.join(uses)}; its columns are {there}", hint
    )
