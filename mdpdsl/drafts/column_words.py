"""What the name of a column says about its use."""

from __future__ import annotations

import re
from collections.abc import Collection

#: Names of the time, the best first; units may follow, as in `Time (s)`.
TIMES = (
    "time", "timestamp", "datetime", "date_time", "t", "ts", "step", "steps", "timestep",
    "time_step", "env_step", "tick", "frame", "date", "minute", "minutes", "second", "seconds",
    "hour", "hours", "k", "index", "sample", "row", "elapsed",
)  # fmt: skip
_TIME_WORDS = frozenset({"time", "timestamp", "datetime", "timestep"})
_UNITS = frozenset({"s", "sec", "secs", "seconds", "ms", "us", "ns", "min", "h", "utc", "iso"})

#: Names of the episode, the best first; `id`, `number` and the like may follow.
EPISODES = (
    "episode", "ep", "run", "trajectory", "traj", "rollout", "trial", "experiment", "batch",
    "session", "sequence", "cycle", "test", "lap", "game", "patient", "subject",
)  # fmt: skip
_IDS = frozenset({"id", "no", "nr", "number", "num", "name", "index", "idx"})

#: Columns that number rows, and nothing else.
_ROW_NUMBERS = frozenset({"", "index", "id", "row", "unnamed", "uuid", "key", "row_id"})

ENDED = frozenset({"terminated", "terminal", "terminals", "is_terminal", "termination", "ended"})
CUT = frozenset({"truncated", "timeout", "timeouts", "truncation", "is_truncated", "cut"})
DONE = frozenset({"done", "dones", "is_done", "finished", "is_last", "last"})
_REWARDS = frozenset({"reward", "rewards", "rew", "r", "cost", "return"})

#: Words that name actions, in tiers: the first that applies to any column is used.
_ACTIONS = re.compile(r"(action|actions|act)(_?\d+)*")
_SYMBOLS = re.compile(r"[au](_?\d+)*")
_COMMANDS = frozenset(
    {"action", "act", "cmd", "command", "commanded", "control", "ctrl", "setpoint", "sp", "set"}
    | {"ref", "reference", "input", "actuation", "actuator", "decision", "choice"}
)
_DEVICES = frozenset(
    {"valve", "heater", "heating", "cooler", "cooling", "pump", "motor", "fan", "throttle"}
    | {"brake", "steer", "steering", "torque", "force", "voltage", "pwm", "duty", "switch"}
    | {"relay", "gear", "on", "enable", "enabled", "push", "dose", "burner", "compressor"}
)

#: Names of a state that is a number, and not a quantity.
_NUMBERED = frozenset({"state", "s", "obs", "observation", "cell", "node", "obs_0", "state_id"})
_TRUTHS = frozenset({"is", "has", "on", "open", "enabled", "active", "flag"})


def words_of(name: str) -> list[str]:
    """Return the words of a name in lower case: `heaterOn`, `Heater on` and `heater_on` alike."""
    parted = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    return [word.lower() for word in re.findall(r"[^\W_]+", parted)]


def time_rank(name: str) -> int | None:
    """Return how well a name fits the time; the least is the best, and None does not fit."""
    words = words_of(name)
    rank = _rank(words, TIMES, _UNITS)
    if rank is None and _TIME_WORDS & set(words):
        return len(TIMES)
    return rank


def episode_rank(name: str) -> int | None:
    """Return how well a name fits the episode."""
    return _rank(words_of(name), EPISODES, _IDS)


def action_tier(name: str) -> int | None:
    """Return 0 for an action, 1 for a symbol of one, 2 for a command, 3 for a device, or None."""
    words = words_of(name)
    if _ACTIONS.fullmatch("_".join(words)):
        return 0
    if _SYMBOLS.fullmatch("_".join(words)):
        return 1
    if _COMMANDS & set(words):
        return 2
    return 3 if _DEVICES & set(words) else None


def is_named(name: str, names: Collection[str]) -> bool:
    """Return whether a name is one of several, however it is written."""
    return "_".join(words_of(name)) in names


def is_reward(name: str) -> bool:
    """Return whether a name means a reward."""
    return is_named(name, _REWARDS) or "reward" in words_of(name)


def is_row_number(name: str) -> bool:
    """Return whether a name means the number of the row."""
    return is_named(re.sub(r"\d+$", "", name.strip()), _ROW_NUMBERS)


def is_numbered(name: str) -> bool:
    """Return whether a name means a state by its number."""
    return is_named(name, _NUMBERED)


def is_truth(name: str) -> bool:
    """Return whether a name reads as a claim, as in `heater_on`."""
    return bool(_TRUTHS & set(words_of(name)))


def base_of_next(name: str, columns: Collection[str]) -> str | None:
    """Return the column whose next value a column has by its name, as in `next_x` and `x'`."""
    for pattern in (r"next[_ .-]?(.+)", r"new[_ .-](.+)", r"(.+?)[_ .-]?next", r"(.+)'"):
        found = re.fullmatch(pattern, name, re.IGNORECASE)
        if found is not None and found.group(1) in columns and found.group(1) != name:
            return found.group(1)
    return None


def _rank(words: list[str], names: tuple[str, ...], suffixes: frozenset[str]) -> int | None:
    while words:
        joined = "_".join(words)
        if joined in names:
            return names.index(joined)
        if words[-1] not in suffixes and not words[-1].isdigit():
            return None
        words = words[:-1]
    return None
