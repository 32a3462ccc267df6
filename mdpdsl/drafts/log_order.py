"""The order of a log's rows: which column is the episode, which the time, and whether it helps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from mdpdsl.drafts.column_profile import LogTable, Profile, starts_of
from mdpdsl.drafts.column_words import TIMES, episode_rank, time_rank
from mdpdsl.graph.space import BoolArray, FloatArray
from mdpdsl.logs.timestamps import looks_like_a_date

#: A column counts rows if it does so at least this often in a row.
LEAST_COUNTED = 10
#: The share of time steps that may differ from the usual one, and of times that occur twice.
IRREGULAR, REPEATED = 0.05, 0.01
#: Nothing is counted across a time step that differs from the usual one by more than this factor.
SAME_STEP = 4 / 3


@dataclass(eq=False)
class FoundTime:
    """The column of the time, or why others that look like it are not used."""

    column: str | None = None
    why: str = ""
    rejected: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def find_episode(
    table: LogTable, profiles: Mapping[str, Profile], given: str | None
) -> tuple[str | None, str]:
    """Return the column of the episode, and why."""
    if given is not None:
        return given, "as you said"
    named = []
    for name, profile in profiles.items():
        rank = episode_rank(name)
        n_runs = len(profile.distinct)
        is_block = n_runs < table.n_rows or table.n_rows == 1
        if rank is not None and is_block and not profile.n_missing and not profile.n_odd:
            named.append((rank, name))
    if named:
        return min(named)[1], "guessed from its name"
    times = [p for n, p in profiles.items() if time_rank(n) is not None and p.kind == "number"]
    for time in times:
        falls = _falls(table, time)
        if not falls.any():
            continue
        for name, profile in profiles.items():
            changes = starts_of(table, profile)
            is_one_block = np.count_nonzero(changes) == len(profile.distinct)
            if profile is not time and is_one_block and np.array_equal(changes[1:], falls[1:]):
                return name, f"guessed, since it changes where {time.name} starts again"
    return None, ""


def find_time(
    table: LogTable,
    profiles: Mapping[str, Profile],
    given: str | None,
    episode: Profile | None,
) -> FoundTime:
    """Find the column of the time; one that would make `estimate` reject many rows is not used."""
    found = FoundTime()
    if given is not None:
        found.column, found.why = given, "as you said"
        problem = _problem(table, profiles[given], episode)
        found.notes += [] if problem is None else [f"the time `{given}`: {problem}"]
        return found
    ranked = sorted(
        (rank, name)
        for name, profile in profiles.items()
        if (rank := _time_rank(profile)) is not None
        and (episode is None or name != episode.name)
        and _looks_like_time(table, profile, episode)
    )
    for _, name in ranked:
        problem = _problem(table, profiles[name], episode)
        if found.column is not None:
            found.rejected[name] = f"it looks like the time, as {found.column} does"
        elif problem is None or name == "time":
            by = "its values" if time_rank(name) is None else "its name"
            found.column, found.why = name, f"guessed from {by}"
            if problem is not None:
                found.notes.append(
                    f"the time: {problem}; a column named `time` is always read as the time, so "
                    "rename it if rows are to be taken in the order of the file"
                )
        else:
            found.rejected[name] = f"it looks like the time, but {problem}"
    if found.column is None and ranked:
        first = ranked[0][1]
        found.notes.append(
            f"rows are taken in the order of the file, not by `{first}`: "
            + found.rejected[first].removeprefix("it looks like the time, but ")
        )
    return found


def is_counter(table: LogTable, profile: Profile, episode: Profile | None) -> bool:
    """Return whether a column grows by the same step in every row of an episode."""
    if profile.kind != "number" or profile.n_missing:
        return False
    steps = np.diff(profile.values)[~starts_of(table, episode)[1:]]
    if len(steps) < LEAST_COUNTED or steps[0] <= 0:
        return False
    return bool(np.allclose(steps, steps[0], rtol=1e-6, atol=0))


def _time_rank(profile: Profile) -> int | None:
    """Return how well a column fits the time; timestamps do, whatever their name."""
    rank = time_rank(profile.name)
    is_time = profile.is_stamp or _are_dates(profile)
    return len(TIMES) + 1 if rank is None and is_time else rank


def _are_dates(profile: Profile) -> bool:
    """Return whether a column has dates that can be read in several ways."""
    return profile.kind == "text" and all(looks_like_a_date(text) for text in profile.texts[:100])


def _looks_like_time(table: LogTable, profile: Profile, episode: Profile | None) -> bool:
    """Return whether a column that is named like a time has values like one."""
    if profile.kind == "text":
        return len(profile.texts) > 1 and all(_is_stamp(t) for t in profile.texts[:100])
    if profile.kind != "number" or len(profile.distinct) < 2:
        return profile.kind == "number" and (time_rank(profile.name) or 0) < 3
    steps = np.diff(profile.values)[~starts_of(table, episode)[1:]]
    if np.count_nonzero(steps > 0) >= 0.9 * len(steps):
        return True
    # Rows may be in any order, if their times are nearly all different.
    keys = _keys(table, profile, episode)
    return len(np.unique(keys, axis=0)) > (1 - REPEATED) * len(keys) and profile.is_whole


def _problem(table: LogTable, profile: Profile, episode: Profile | None) -> str | None:
    """Return why `estimate` would reject many rows if this were the time."""
    if profile.kind == "text":
        return (
            f"its texts, such as {profile.texts[0]!r}, are not read as times; say how they are "
            "written with `dayfirst=`, or with `time_format=`, as in %m/%d/%Y %H:%M"
        )
    keys = _keys(table, profile, episode)
    lost = profile.n_missing
    if lost > REPEATED * table.n_rows:
        return f"it is missing in {lost:,} of {table.n_rows:,} rows"
    n_twice = len(keys) - len(np.unique(keys, axis=0))
    if n_twice > REPEATED * len(keys):
        hint = "; if it starts again with each episode, name or add a column of these (`episode=`)"
        found = f"{n_twice:,} rows have the time of another row, and such rows are rejected"
        return found + (hint if episode is None else "")
    order = np.lexsort(keys.T[::-1])
    sorted_keys = keys[order]
    is_same = (sorted_keys[1:, :2] == sorted_keys[:-1, :2]).all(axis=1)
    steps = np.diff(sorted_keys[:, 2])[is_same]
    steps = steps[steps > 0]
    if len(steps) < LEAST_COUNTED:
        return None
    usual = float(np.median(steps))
    is_odd = (steps > usual * SAME_STEP) | (steps < usual / SAME_STEP)
    n_odd = int(np.count_nonzero(is_odd))
    if n_odd <= IRREGULAR * len(steps):
        return None
    return (
        f"{n_odd / len(steps):.0%} of its steps differ by more than a third from the usual one "
        f"({usual:.3g}), and nothing would be counted across them"
    )


def _keys(table: LogTable, profile: Profile, episode: Profile | None) -> FloatArray:
    """Return file, episode and time of every row that has a time; files share episodes."""
    episodes = table.file * 0.0 if episode is None else episode.values
    files = table.file.astype(np.float64) if episode is None else table.file * 0.0
    keys = np.column_stack([files, episodes, profile.values])
    return keys[np.isfinite(profile.values)]


def _falls(table: LogTable, time: Profile) -> BoolArray:
    is_fall = np.zeros(table.n_rows, np.bool_)
    is_fall[1:] = time.values[1:] < time.values[:-1]
    return is_fall


def _is_stamp(text: str) -> bool:
    return sum(c.isdigit() for c in text) >= 4 and any(c in text for c in ":-/.")
