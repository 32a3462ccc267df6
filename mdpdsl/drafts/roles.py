"""Which column is the time, which the episode, which are actions and which are states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mdpdsl.diagnostics import SettingsError, did_you_mean
from mdpdsl.drafts import column_words as words
from mdpdsl.drafts.column_profile import LogTable, Profile, starts_of
from mdpdsl.drafts.draft import ASKED
from mdpdsl.drafts.log_order import LEAST_COUNTED, find_episode, find_time, is_counter

#: An action that is guessed has at most this many values.
FEW_VALUES = 12
#: The tier of names of which many values mean a measurement.
DEVICES = 3
#: A column changes this often, relative to values drawn at random, if it is chosen freely.
FREE = 0.6
#: A state that is guessed has a value in all but this share of the rows.
MOSTLY = 0.8
#: An enumeration that is guessed has at most this many members.
MOST_MEMBERS = 40
#: Columns named in a message.
MOST_NAMED = 30

_BY_NAME = ("its name", "its name", "its name", "its name and its few values")


@dataclass(frozen=True)
class Given:
    """The columns whose use the caller has said."""

    actions: Sequence[str] = ()
    states: Sequence[str] = ()
    episode: str | None = None
    time: str | None = None
    ignored: Sequence[str] = ()

    def by_column(self) -> dict[str, str]:
        """Return the argument that names each column; raise SettingsError if two do."""
        found: dict[str, str] = {}
        uses = [("action", c) for c in self.actions] + [("state", c) for c in self.states]
        uses += [("episode", c) for c in (self.episode,) if c is not None]
        uses += [("time", c) for c in (self.time,) if c is not None]
        for use, column in [*uses, *(("ignore", c) for c in self.ignored)]:
            if found.setdefault(column, use) != use:
                raise SettingsError(
                    f"the column `{column}` is given by `{found[column]}=` and by `{use}=`; "
                    "a column has one use"
                )
        return found


@dataclass(frozen=True)
class Role:
    """A column, and why it has the use that it has."""

    column: str
    why: str


@dataclass(eq=False)
class Roles:
    """The use of every column."""

    episode: Role | None = None
    time: Role | None = None
    actions: list[Role] = field(default_factory=list)
    states: list[Role] = field(default_factory=list)
    next_columns: dict[str, str] = field(default_factory=dict)  # by column; all states, or none
    flags: dict[str, str] = field(default_factory=dict)  # ended, cut or done -> column
    unused: dict[str, str] = field(default_factory=dict)  # column -> why
    notes: list[str] = field(default_factory=list)


def find_roles(table: LogTable, given: Given) -> Roles:
    """Find the use of every column; raise SettingsError where there is no action or no state."""
    _require_known(given, table)
    roles = Roles(unused=dict.fromkeys(given.ignored, "ignored, as you asked"))
    profiles = {n: p for n, p in table.profiles.items() if n not in given.by_column()}
    _set_aside(profiles, roles)
    _find_order(table, given, profiles, roles)
    _find_copies(table, [*given.states, *given.actions], profiles, roles)
    nexts = {n: b for n in profiles if (b := words.base_of_next(n, table.profiles)) is not None}
    others = {n: p for n, p in profiles.items() if n not in nexts}
    _find_actions(table, given, others, roles)
    _find_states(table, given, others, roles)
    _find_next(nexts, roles)
    return roles


def _require_known(given: Given, table: LogTable) -> None:
    for column, use in given.by_column().items():
        if column not in table.profiles:
            hint = did_you_mean(column, table.profiles)
            raise SettingsError(
                f"`{use}=` names the column `{column}`, and there is none; {hint or _listed(table)}"
            )


def _set_aside(profiles: dict[str, Profile], roles: Roles) -> None:
    """Take out the columns that are neither states nor actions, by their names or values."""
    for name, profile in list(profiles.items()):
        reason = None
        flag = next(
            (
                key
                for key, names in (("ended", words.ENDED), ("cut", words.CUT), ("done", words.DONE))
                if words.is_named(name, names) and set(profile.distinct.tolist()) <= {0.0, 1.0}
            ),
            None,
        )
        if flag is not None and profile.kind != "text":
            roles.flags.setdefault(flag, name)
            del profiles[name]
        elif '"' in name or "\n" in name or "\r" in name:
            reason = "the name has a quote or a line break, so the log block cannot name it"
        elif profile.kind == "unreadable":
            reason = f"its type is {profile.type}, which is neither numbers nor texts"
        elif len(profile.distinct) == 0:
            reason = "it has no values"
        elif words.is_reward(name):
            reason = "it looks like a reward; a model says what it rewards in a `reward` line"
        if reason is not None:
            roles.unused[name] = reason
            del profiles[name]


def _find_order(table: LogTable, given: Given, profiles: dict[str, Profile], roles: Roles) -> None:
    """Find the episode and the time, and take out what only counts rows."""
    known = {n: p for n, p in table.profiles.items() if n in (given.episode, given.time)}
    if not table.has_own_episodes:
        name, why = find_episode(table, profiles, given.episode)
        roles.episode = None if name is None else Role(name, why)
    episode = None if roles.episode is None else table.profiles[roles.episode.column]
    if not table.is_in_order and not table.has_own_episodes:
        found = find_time(table, {**profiles, **known}, given.time, episode)
        roles.time = None if found.column is None else Role(found.column, found.why)
        roles.unused |= found.rejected
        roles.notes += found.notes
    for name in [n for n in (given.episode, given.time) if n is not None]:
        profiles.pop(name, None)
    for role in (roles.episode, roles.time):
        if role is not None:
            profiles.pop(role.column, None)
    for name, profile in list(profiles.items()):
        if name in roles.unused:
            del profiles[name]
        elif is_counter(table, profile, episode):
            roles.unused[name] = "it only counts rows"
            del profiles[name]
        elif words.is_row_number(name) and len(profile.distinct) == table.n_rows > 1:
            roles.unused[name] = "it is different in every row"
            del profiles[name]
        elif table.has_own_episodes and (words.time_rank(name) == 0 or name == "episode"):
            roles.unused[name] = "the log itself knows its episodes and their order"
            del profiles[name]


def _find_copies(
    table: LogTable, named: Sequence[str], profiles: dict[str, Profile], roles: Roles
) -> None:
    """Take out columns with the values of another one."""
    kept = [table.profiles[name] for name in named]
    for name, profile in list(profiles.items()):
        same = [
            each.name
            for each in kept
            if (each.kind, each.texts) == (profile.kind, profile.texts)
            and len(profile.distinct) > 1
            and np.array_equal(each.values, profile.values, equal_nan=True)
        ]
        if same and table.n_rows >= LEAST_COUNTED:
            roles.unused[name] = f"it has the values of {same[0]}"
            del profiles[name]
        else:
            kept.append(profile)


def _find_actions(
    table: LogTable, given: Given, profiles: dict[str, Profile], roles: Roles
) -> None:
    if given.actions:
        roles.actions = [Role(name, ASKED) for name in given.actions]
        return
    without = _missing_at_ends(table, profiles, roles)
    if without:
        why = "guessed as an action, since the last row of an episode has none"
        roles.actions = [Role(name, why) for name in without]
        for name in without:
            profiles.pop(name)
        return
    tiers: dict[int, list[str]] = {}
    for name, profile in profiles.items():
        tier = words.action_tier(name)
        is_text = profile.kind == "text"
        has_few = len(profile.distinct) <= (MOST_MEMBERS if is_text else FEW_VALUES)
        if tier is not None and (has_few or (tier < DEVICES and not is_text)):
            tiers.setdefault(tier, []).append(name)
    varied = {
        tier: several
        for tier, names in tiers.items()
        if (several := [n for n in names if len(profiles[n].distinct) > 1])
    }
    if tiers:
        first, names = min((varied or tiers).items())
        why = f"guessed as an action from {_BY_NAME[first]}"
        roles.actions = [Role(name, why) for name in names]
    else:
        roles.actions = [_free_choice(table, profiles)]
    for role in roles.actions:
        profiles.pop(role.column)


def _missing_at_ends(table: LogTable, profiles: Mapping[str, Profile], roles: Roles) -> list[str]:
    """Return the columns that have a value everywhere but in the last rows of episodes."""
    episode = None if roles.episode is None else table.profiles[roles.episode.column]
    is_last = np.append(starts_of(table, episode)[1:], True)
    return [
        name
        for name, profile in profiles.items()
        if len(profile.distinct) and np.array_equal(np.isnan(profile.values), is_last)
    ]


def _free_choice(table: LogTable, profiles: Mapping[str, Profile]) -> Role:
    """Return the one column that seems to be chosen freely in every row."""
    few = {
        name: _freedom(table, profile)
        for name, profile in profiles.items()
        if 1 < len(profile.distinct) <= FEW_VALUES and len(profiles) > 1
    }
    free = [name for name, share in few.items() if share >= FREE]
    if len(free) == 1:
        return Role(free[0], "guessed as the action, since it has few values that vary freely")
    if len(few) == 1:
        return Role(next(iter(few)), "guessed as the action, since it alone has few values")
    which = "none of them looks like an action"
    if len(few) > 1:
        which = f"{', '.join(few)} all look like actions"
    raise SettingsError(
        f"no action was found: {_listed(table)}, and {which}; say which columns are actions with "
        f"`action=`, as in `action=` {next(iter(few or profiles or table.profiles))}"
    )


def _freedom(table: LogTable, profile: Profile) -> float:
    """Return how often a column changes, relative to independent draws: 1 - sum p^2."""
    is_next = table.file[1:] == table.file[:-1]
    changes = profile.values[1:] != profile.values[:-1]
    _, counts = np.unique(profile.values, return_counts=True)
    expected = 1 - float(((counts / counts.sum()) ** 2).sum())
    n = int(np.count_nonzero(is_next))
    return float(np.count_nonzero(changes & is_next)) / n / expected if n else 0.0


def _find_states(table: LogTable, given: Given, profiles: dict[str, Profile], roles: Roles) -> None:
    if given.states:
        roles.states = [Role(name, ASKED) for name in given.states]
        roles.unused |= dict.fromkeys(
            (name for name in profiles if name not in given.states), "not named with `state=`"
        )
        return
    constant: list[str] = []
    for name, profile in profiles.items():
        share = 1 - profile.n_missing / table.n_rows
        if share < MOSTLY:
            roles.unused[name] = f"it has a value in only {share:.0%} of the rows"
        elif profile.kind == "text" and len(profile.texts) > MOST_MEMBERS:
            roles.unused[name] = f"it has {len(profile.texts):,} different texts"
        elif len(profile.distinct) == 1:
            constant.append(name)
        else:
            roles.states.append(Role(name, ""))
    if not roles.states:
        roles.states = [Role(name, "constant in this log") for name in constant]
    else:
        for name in constant:
            profile = table.profiles[name]
            value = profile.texts[0] if profile.kind == "text" else f"{profile.distinct[0]:.6g}"
            roles.unused[name] = f"it is always {value}"
    if not roles.states:
        used = ", ".join(role.column for role in roles.actions)
        raise SettingsError(
            f"no state was found: {_listed(table)}, and the action is {used}; say which columns "
            "are states with `state=`, and which are actions with `action=`"
        )


def _find_next(nexts: Mapping[str, str], roles: Roles) -> None:
    by_base = {base: name for name, base in nexts.items()}
    states = [role.column for role in roles.states]
    missing = [name for name in states if name not in by_base]
    if nexts and not missing:
        roles.next_columns = {name: by_base[name] for name in states}
    for name, base in nexts.items():
        if name in roles.next_columns.values():
            continue
        roles.unused[name] = f"the next value of {base}"
        if base in states:
            roles.unused[name] += f", and there is none of {', '.join(missing)}"


def _listed(table: LogTable) -> str:
    names = [f"`{name}`" for name in table.profiles]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    plural = "s are" if len(names) > 1 else " is"
    return f"the column{plural} {', '.join(names[:MOST_NAMED])}{more}"
