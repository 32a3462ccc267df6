"""A first draft of a model for a Gymnasium environment, from its spaces.

Limits that a space does not give are taken from a few episodes of random actions, which seldom
reach all that a good policy does; the draft says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdpdsl.compile.scope import allowed_name
from mdpdsl.diagnostics import SettingsError
from mdpdsl.drafts.draft import (
    Draft,
    DraftVariable,
    draft_text,
    free_name,
    left_out_note,
    with_bins,
)
from mdpdsl.drafts.suggested_domains import FEW_WHOLE, MOST_LEVELS, Domain, number_text, real_domain
from mdpdsl.explore.live.gym_system import make_environment, observed_columns
from mdpdsl.graph.space import FloatArray, Value

#: Pairs that a draft aims at, and the most with which it keeps all variables.
WANTED_PAIRS, MOST_PAIRS = 2_000, 20_000
#: Random steps that show how far observations reach.
SAMPLED_STEPS = 2_000
#: A limit this large is none.
NO_LIMIT = 1e6
#: The most actions of a draft; actions of many numbers have more.
MOST_ACTIONS = 1_000


@dataclass(frozen=True)
class _Limits:
    low: float
    high: float
    is_whole: bool

    @property
    def are_finite(self) -> bool:
        return max(abs(self.low), abs(self.high)) < NO_LIMIT


def draft_environment(given: Any, arguments: Mapping[str, Any], seed: int) -> tuple[Draft, str]:
    """Draft a model for an environment or the id of one; return it and a name for its file."""
    env = make_environment(given, arguments) if isinstance(given, str) else given
    try:
        spec = getattr(env, "spec", None)
        identifier = given if isinstance(given, str) else getattr(spec, "id", None) or "environment"
        stem = identifier.replace(":", "/").rpartition("/")[2]
        return _draft(env, identifier, stem, seed), stem
    finally:
        if env is not given:
            env.close()


def _draft(env: Any, system: str, stem: str, seed: int) -> Draft:
    read, columns = observed_columns(env.observation_space, system)
    limits = list(_limits(env.observation_space))
    is_number = type(env.observation_space).__name__ == "Discrete"
    taken: set[str] = {"u"}
    needs_samples = not all(each.are_finite for each in limits)
    samples = _samples(env, read, len(columns), seed) if needs_samples else None
    variables, notes = [], []
    for place, (column, each) in enumerate(zip(columns, limits, strict=True)):
        name = "s" if is_number else free_name(column, taken)
        taken.add(name)
        seen = None if samples is None else samples[:, place]
        variables.append(
            DraftVariable(name, "state", "obs" if is_number else column, _domain(each, seen))
        )
        if not each.are_finite:
            notes.append(
                f"{system} sets no limits for {name}; those here are from {SAMPLED_STEPS:,} steps "
                "of random actions, so check that they hold for better ones"
            )
    variables += _actions(env.action_space, system, taken - {"u"})
    divided = with_bins(variables, WANTED_PAIRS, MOST_PAIRS)
    notes += left_out_note(divided)
    name = allowed_name(stem)
    draft = Draft(name, "", tuple(divided), tuple(notes))
    text = draft_text(
        name,
        (
            f"Drafted by `mdpdsl new` from the spaces of {system}. Read every comment: each is a "
            "guess, for you to keep or to change. Rename variables as you like; on the right of "
            "the log block is what the environment shows.",
            *notes,
        ),
        divided,
        (),
        (
            f"{draft.size}, and an estimate needs some 15 visits to each:",
            f"mdpdsl explore {stem}.mdp --env {system} --steps {_round_up(15 * draft.pairs):_}",
        ),
        (),
    )
    return Draft(name, text, draft.variables, draft.notes)


def _limits(space: Any) -> Iterator[_Limits]:
    """Yield the limits of every column of a space, in the order of its columns."""
    match type(space).__name__:
        case "Discrete":
            first = int(space.start)
            yield _Limits(first, first + int(space.n) - 1, True)
        case "MultiDiscrete":
            starts = np.ravel(getattr(space, "start", np.zeros(space.shape, np.int64))).tolist()
            for first, size in zip(starts, np.ravel(space.nvec).tolist(), strict=True):
                yield _Limits(first, first + size - 1, True)
        case "MultiBinary":
            yield from [_Limits(0, 1, True)] * int(np.prod(space.shape))
        case "Box":
            lows = np.broadcast_to(space.low, space.shape).astype(np.float64)
            highs = np.broadcast_to(space.high, space.shape).astype(np.float64)
            is_whole = bool(np.issubdtype(space.dtype, np.integer))
            for low, high in zip(lows.ravel().tolist(), highs.ravel().tolist(), strict=True):
                yield _Limits(low, high, is_whole)
        case "Tuple":
            for part in space.spaces:
                yield from _limits(part)
        case "Dict":
            for part in space.spaces.values():
                yield from _limits(part)


def _samples(env: Any, read: Any, n_columns: int, seed: int) -> FloatArray:
    """Return what random actions observe, one row per step."""
    env.action_space.seed(seed)
    rows: list[list[Value]] = []
    is_over, episode = True, 0
    while len(rows) < SAMPLED_STEPS:
        if is_over:
            observation, _ = env.reset(seed=seed + episode)
            episode += 1
        row: list[Value] = []
        read(observation, row)
        rows.append(row)
        observation, _, is_ended, is_cut, _ = env.step(env.action_space.sample())
        is_over = bool(is_ended or is_cut)
    return np.array(rows, np.float64).reshape(-1, n_columns)


def _domain(limits: _Limits, seen: FloatArray | None) -> Domain:
    if limits.are_finite:
        low, high = limits.low, limits.high
        if limits.is_whole:
            size = int(high - low) + 1
            return Domain(
                f"{int(low)}..{int(high)}", size, f"whole numbers from {low:,.0f} to {high:,.0f}"
            )
        step = (high - low) / 1000
        texts = (number_text(low, step), number_text(high, step))
        return Domain(f"[{texts[0]}, {texts[1]}]", 0, f"numbers from {low:.4g} to {high:.4g}")
    assert seen is not None
    values = seen[np.isfinite(seen)]
    values = values if len(values) else np.array([-1.0, 1.0])
    if values.min() < 0 < values.max():  # most quantities that change sign have no preferred one
        values = np.concatenate([values, -values])
    return real_domain(values)


def _actions(space: Any, system: str, taken: set[str]) -> list[DraftVariable]:
    kind = type(space).__name__
    limits = list(_limits(space))
    if kind not in ("Box", "Discrete", "MultiDiscrete", "MultiBinary") or not limits:
        raise SettingsError(
            f"{system} takes actions of the space {space}, which a model's actions cannot become; "
            "wrap it so that its action is a Box, Discrete, MultiDiscrete or MultiBinary"
        )
    most = max(2, min(MOST_LEVELS, int(MOST_ACTIONS ** (1 / len(limits)))))
    if kind == "Box" and most ** len(limits) > MOST_ACTIONS:
        raise SettingsError(
            f"{system} takes {len(limits)} numbers as its action, which even with two values each "
            "are too many actions; wrap it so that it takes a few"
        )
    found = []
    for place, each in enumerate(limits):
        name = free_name("u" if len(limits) == 1 else f"u_{place}", taken)
        if each.is_whole and (kind != "Box" or each.high - each.low < FEW_WHOLE):
            low, high = int(each.low), int(each.high)
            says = f"the actions {low} to {high} of the environment"
            if kind == "Discrete":
                says += "; name them, in this order, as in `action left, right`"
            domain = Domain(f"{low}..{high}", high - low + 1, says)
        else:
            domain = _levels(each, most)
        found.append(DraftVariable(name, "action", "", domain))
    return found


def _levels(limits: _Limits, most: int) -> Domain:
    """Return evenly spaced actions between limits; whole ones where the space has no others."""
    low, high = (limits.low, limits.high) if limits.are_finite else (-1.0, 1.0)
    numbers = np.linspace(low, high, most if limits.are_finite else 3)
    numbers = np.unique(np.round(numbers)) if limits.is_whole else numbers
    step = (high - low) / 1000 or 1.0
    texts = [number_text(number, step) for number in numbers.tolist()]
    says = f"{len(texts)} of the numbers from {limits.low:.4g} to {limits.high:.4g}"
    if not limits.are_finite:
        says += ", which has no limits; choose values that are safe"
    return Domain(f"{{{', '.join(texts)}}}", len(texts), says)


def _round_up(number: int) -> int:
    """Return a round number that is not smaller."""
    power: int = 10 ** max(0, len(str(number)) - 1)
    return -(-number // power) * power
