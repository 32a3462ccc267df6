"""The verb `new`: a first draft of a model file from a log or an environment."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mdpdsl.compile.scope import allowed_name
from mdpdsl.diagnostics import SettingsError
from mdpdsl.drafts.column_profile import LogTable, read_table
from mdpdsl.drafts.draft import (
    Draft,
    DraftVariable,
    draft_text,
    free_name,
    left_out_note,
    with_bins,
)
from mdpdsl.drafts.roles import Given, Roles, find_roles
from mdpdsl.drafts.suggested_domains import (
    LEAST_BINS,
    MOST_BINS,
    MOST_LEVELS,
    action_domain,
    printed,
    state_domain,
)
from mdpdsl.files import require_absent
from mdpdsl.logs.readers.endings import ENDINGS, expand_paths
from mdpdsl.logs.reading_options import ReadingOptions

#: Rows that a pair should have on average; and the fewest, below which variables are left out.
ROWS_PER_PAIR, LEAST_ROWS_PER_PAIR = 15, 4
#: Up to this many pairs, no variable is left out.
FEW_PAIRS = 200

_GYM_ID = re.compile(r"(gym:)?([\w:.-]+/)?[\w:.-]+-v\d+")
_GYM = "gym:"


def new(
    *sources: Any,
    action: str | Sequence[str] = (),
    state: str | Sequence[str] = (),
    episode: str | None = None,
    time: str | None = None,
    ignore: str | Sequence[str] = (),
    dayfirst: bool = False,
    time_format: str | None = None,
    decimal: str = ".",
    encoding: str | None = None,
    env_arguments: Mapping[str, Any] | None = None,
    seed: int = 0,
    out: str | Path | bool | None = None,
    overwrite: bool = False,
) -> Draft:
    """Draft a model file from logs or a Gymnasium environment, ready to edit.

    `sources` are logs as `estimate` takes them (files, folders, patterns, `minari:ID`, frames in
    memory), or one environment, by its id or itself. The draft declares states, actions and bins
    and says in its `log` block how to read them; a comment explains every guess. `action`, `state`,
    `episode`, `time` and `ignore` name columns whose use is known; with `state` no others are
    states. `dayfirst`, `time_format`, `decimal` and `encoding` are those of `estimate`; decimal
    commas, and dates that can only have their day first, are noticed without them. For an
    environment, `seed` is that of the random actions that show how far unlimited observations
    reach. With `out`, the draft is written to a file (True: named after the source).

    >>> import mdpdsl, pyarrow
    >>> levels, pump = [3, 2, 1, 2] * 50, [False, True, True, False] * 50
    >>> rig = pyarrow.table({"level": levels, "pump_on": pump})
    >>> draft = mdpdsl.new(rig)
    >>> draft.states, draft.pairs
    (3, 6)
    """
    if not sources:
        raise SettingsError("name a log (a file, a folder, a pattern, a frame) or an environment")
    given = Given(_several(action), _several(state), episode, time, _several(ignore))
    if isinstance(out, str | Path):
        _check_path(Path(out), overwrite)
    environment = _environment(sources)
    if environment is not None:
        from mdpdsl.drafts.environment import draft_environment

        if given.by_column():
            raise SettingsError(
                "`action=`, `state=`, `episode=`, `time=` and `ignore=` are for the columns of "
                "logs; an environment says itself what it observes"
            )
        draft, stem = draft_environment(environment, env_arguments or {}, seed)
    else:
        if env_arguments:
            raise SettingsError("`env_arguments=` are for an environment, not for a log")
        stem = _stem(sources[0])
        options = ReadingOptions(dayfirst, time_format, decimal, encoding)
        draft = _draft_log(read_table(list(sources), options), given, allowed_name(stem))
    _ = draft.model.checked
    if not out:
        return draft
    return draft.save(Path(f"{stem}.mdp") if out is True else out, overwrite=overwrite)


def _several(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _check_path(path: Path, overwrite: bool) -> None:
    if path.suffix != ".mdp":
        raise SettingsError(f"`out=` takes a file ending in .mdp, not `{path.name}`")
    require_absent(path, overwrite)


def _environment(sources: Sequence[Any]) -> Any:
    """Return the environment that is given, or its id; None for logs."""
    first = sources[0]
    is_object = hasattr(first, "observation_space") and hasattr(first, "action_space")
    if not is_object and not isinstance(first, str):
        return None
    if not is_object:
        if first.startswith(_GYM):
            first = first.removeprefix(_GYM)
        elif not _GYM_ID.fullmatch(first) or expand_paths([first])[0]:
            return None
    if len(sources) > 1:
        raise SettingsError("give one environment, or logs; a draft is of one system")
    return first


def _stem(source: Any) -> str:
    """Return the name of a log without its ending."""
    if not isinstance(source, str | Path):
        return "model"
    name = Path(str(source).removeprefix("minari:")).name
    ending = next((e for e in ENDINGS if name.lower().endswith(e)), "")
    name = name[: len(name) - len(ending)]
    return re.sub(r"[*?\[\]/\\:]+", "", name).strip(" .-_") or "model"


def _draft_log(table: LogTable, given: Given, name: str) -> Draft:
    roles = find_roles(table, given)
    variables = _variables(table, roles)
    divided = with_bins(
        variables, table.n_rows / ROWS_PER_PAIR, max(FEW_PAIRS, table.n_rows / LEAST_ROWS_PER_PAIR)
    )
    order = [
        DraftVariable(key, key, role.column, why=role.why)
        for key, role in (("episode", roles.episode), ("time", roles.time))
        if role is not None
    ]
    notes = _notes(table, roles, divided)
    draft = Draft(name, "", (*divided, *order), tuple(notes))
    more = " and more" if table.is_partial else ""
    files = f"{table.sources[0]}" + (f" and {n} more" if (n := len(table.sources) - 1) else "")
    closing = [f"{printed(column)} is not used: {why}" for column, why in roles.unused.items()]
    text = draft_text(
        name,
        (
            f"Drafted by `mdpdsl new` from {files}, {table.n_rows:,}{more} rows. Read every "
            "comment: each is a guess, for you to keep or to change.",
            *notes,
        ),
        draft.variables,
        [("ended" if key == "ended" else "cut", column) for key, column in roles.flags.items()],
        _sizes(draft, table.n_rows),
        closing,
    )
    return Draft(name, text, draft.variables, (*notes, *closing))


def _variables(table: LogTable, roles: Roles) -> list[DraftVariable]:
    profiles = table.profiles
    episode = None if roles.episode is None else profiles[roles.episode.column]
    states = {
        role.column: state_domain(
            table,
            [profiles[c] for c in (role.column, roles.next_columns.get(role.column)) if c],
            episode,
        )
        for role in roles.states
    }
    most = MOST_LEVELS if len(roles.actions) == 1 else 3
    actions = {role.column: action_domain(profiles[role.column], most) for role in roles.actions}
    # Members keep their names, which are those of texts; variables give way.
    members = [set(domain.members) for domain in (*states.values(), *actions.values())]
    taken = set[str]().union(*members)
    is_named = (
        len(actions) == 1
        and all(domain.members for domain in actions.values())
        and roles.actions[0].column.strip().lower() in ("action", "actions", "act", "a", "u")
        and sum(map(len, members)) == len(taken)
    )
    found = [
        DraftVariable(
            free_name(role.column, taken),
            "state",
            role.column,
            states[role.column],
            role.why,
            roles.next_columns.get(role.column),
        )
        for role in roles.states
    ]
    found += [
        DraftVariable(
            "action" if is_named else free_name(role.column, taken),
            "action",
            role.column,
            actions[role.column],
            role.why,
        )
        for role in roles.actions
    ]
    return found


def _notes(table: LogTable, roles: Roles, variables: Sequence[DraftVariable]) -> list[str]:
    notes = list(roles.notes)
    if table.options.changed:
        notes.append(f"the log is read with {_said(table.options)}; give this to `estimate`, too")
    if table.is_partial:
        notes.append(f"only the first {table.n_rows:,} rows were looked at")
    if roles.episode is None and not table.has_own_episodes and not roles.next_columns:
        notes.append("no column of episodes was found, so each file is one episode")
    if roles.flags.get("done") is not None:
        notes.append(
            f"`{roles.flags['done']}` says that an episode is over, but not whether it ended or "
            "was cut; write `ended` in place of `cut` if the system itself ended it"
        )
    for variable in variables:
        profile = table.profiles[variable.column]
        n_lost = profile.n_missing if variable.role == "state" else profile.n_odd
        if n_lost and not variable.is_left_out:
            notes.append(f"{n_lost:,} rows have no {variable.name}, and will not be counted")
    return notes + left_out_note(variables)


def _said(options: ReadingOptions) -> str:
    """Return the options that are not the usual ones, as they are typed."""
    flags = [
        f"--{name.replace('_', '-')}" + ("" if value is True else f" {shlex.quote(str(value))}")
        for name, value in options.changed.items()
    ]
    return " ".join(flags)


def _sizes(draft: Draft, n_rows: int) -> list[str]:
    rows = n_rows / draft.pairs
    has_bins = any(v.domain is not None and " bins " in v.domain.text for v in draft.variables)
    share = f"about {rows:,.0f} rows a pair" if rows >= 1.5 else "not even two rows a pair"
    found = [f"{draft.size}, {share}."]
    if has_bins and rows < ROWS_PER_PAIR:
        found.append(
            f"That is less than the {ROWS_PER_PAIR} or so that an estimate needs: log more, use "
            f"fewer variables, or bins down to {LEAST_BINS}."
        )
    elif has_bins:
        found.append(
            f"There are as many bins as leave {ROWS_PER_PAIR} rows a pair, and at most "
            f"{MOST_BINS}; a step or two should be able to leave a cell."
        )
    return found
