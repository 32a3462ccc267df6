"""The files beside PRISM's `.tra`: the values, labels and rewards of states."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mdpdsl.diagnostics import Diagnostic, ModelError, Source, Span
from mdpdsl.graph.space import BoolArray, IntArray, Product, StateSpace, Variable


class Lines:
    """The lines of a file, without empty ones and comments, with their positions for messages."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def __iter__(self) -> Iterator[tuple[Span, list[str]]]:
        """Yield each line as its position and its words, without empty lines and comments."""
        offset = 0
        for line in self.source.text.split("\n"):
            text = line.strip()
            if text and not text.startswith("#"):
                start = offset + line.index(text)
                yield Span(start, start + len(text)), text.split()
            offset += len(line) + 1

    @property
    def reward_name(self) -> str | None:
        """The name that the header of a file of rewards has, if any."""
        found = re.search(r'^#\s*Reward structure\s*"([^"\n]+)"', self.source.text, re.MULTILINE)
        return found.group(1) if found else None

    def error(
        self, message: str, help_text: str | None = None, at: Span | None = None
    ) -> ModelError:
        """Return an error about one line, or about the whole file."""
        return ModelError([Diagnostic("E603", message, at, help_text, source=self.source)])


def read_lines(path: Path) -> Lines:
    """Read a text file; raise ModelError if it cannot be read."""
    try:
        return Lines(Source(path.read_text("utf-8"), str(path)))
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
    raise ModelError([Diagnostic("E603", f"cannot read {path}: {reason}", None, "check the path")])


TRUTH = {"false": 0, "true": 1}


def read_states(lines: Lines, n_states: int) -> tuple[StateSpace, IntArray]:
    """Read a `.sta` file; return the states in the order of the product space, and that order.

    The k-th state of the space is the state `order[k]` of the file.
    """
    rows = iter(lines)
    span, header = next(rows, (None, []))
    names = "".join(header).strip("()").split(",")
    if not header or not header[0].startswith("(") or not all(names):
        raise lines.error("the first line must list the variables, as in `(x,y)`", None, span)
    if len(set(names)) != len(names):
        raise lines.error("a variable is listed twice", None, span)
    values: list[list[str] | None] = [None] * n_states
    for span, words in rows:
        match = re.fullmatch(r"(\d+):\((.*)\)", "".join(words))
        cells = match.group(2).split(",") if match else []
        if match is None or len(cells) != len(names):
            raise lines.error(
                f"a state must have the form `number:(value,…)` with {len(names)} values",
                None,
                span,
            )
        number = int(match.group(1))
        if number >= n_states or values[number] is not None:
            reason = "is listed twice" if number < n_states else "does not occur in the transitions"
            raise lines.error(f"state {number} {reason}", None, span)
        values[number] = cells
    rows_found = [row for row in values if row is not None]
    if len(rows_found) != n_states:
        raise lines.error(f"state {values.index(None)} is missing")
    columns = list(zip(*rows_found, strict=True))
    variables, cells_of = [], []
    for name, column in zip(names, columns, strict=True):
        variable, numbers = _variable(lines, name, column)
        variables.append(variable)
        cells_of.append(numbers)
    product = Product(tuple(variables))
    if product.size > np.iinfo(np.int64).max:
        raise lines.error("the variables have too many combinations")
    codes = sum(
        (np.array(c, np.int64) * s for c, s in zip(cells_of, product.strides, strict=True)),
        start=np.zeros(n_states, np.int64),
    )
    order = np.argsort(codes, kind="stable")
    if np.any(np.diff(codes[order]) == 0):
        twice = int(order[np.flatnonzero(np.diff(codes[order]) == 0)[0] + 1])
        raise lines.error(f"state {twice} has the same values as another")
    return StateSpace(product, codes[order]), order


def read_labels(lines: Lines, n_states: int) -> dict[str, BoolArray]:
    """Read a `.lab` file: the states of every label."""
    rows = iter(lines)
    span, header = next(rows, (None, []))
    declared = re.findall(r'(\d+)="([^"]*)"', " ".join(header))
    if not declared:
        raise lines.error('the first line must list the labels, as in `0="init" …`', None, span)
    labels = {name: np.zeros(n_states, np.bool_) for _, name in declared}
    name_of = dict(declared)
    for span, words in rows:
        state, colon, rest = " ".join(words).partition(":")
        if not colon or not state.strip().isdigit() or int(state) >= n_states:
            message = f"expected `state: label label …` with a state from 0 to {n_states - 1}"
            raise lines.error(message, None, span)
        for number in rest.split():
            if number not in name_of:
                raise lines.error(f"the first line has no label {number}", None, span)
            labels[name_of[number]][int(state)] = True
    return labels


def read_rewards(lines: Lines, n_keys: int) -> dict[tuple[int, ...], float]:
    """Read a file of rewards: after the sizes, each line has `n_keys` numbers and a reward."""
    rows = iter(lines)
    next(rows, None)
    found: dict[tuple[int, ...], float] = {}
    for span, words in rows:
        try:
            keys, reward = tuple(int(word) for word in words[:n_keys]), float(words[n_keys])
        except (ValueError, IndexError):
            raise lines.error(
                f"a reward must be {n_keys} whole number{'s' if n_keys > 1 else ''} and a value",
                None,
                span,
            ) from None
        if not np.isfinite(reward):
            raise lines.error("the reward is not a finite number", None, span)
        found[keys] = reward
    return found


def _variable(lines: Lines, name: str, column: tuple[str, ...]) -> tuple[Variable, list[int]]:
    if set(column) <= set(TRUTH):
        return Variable(name, "bool", 2), [TRUTH[value] for value in column]
    try:
        numbers = [int(value) for value in column]
    except ValueError:
        odd = next(value for value in column if not re.fullmatch(r"[+-]?\d+", value))
        message = f"{name} has the value {odd!r}, which is neither a whole number nor a truth value"
        raise lines.error(message) from None
    low, high = min(numbers), max(numbers)
    return Variable(name, "int", high - low + 1, low), [number - low for number in numbers]
