"""The columns of logs as a draft sees them: numbers, truth values or texts, all rows in memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mdpdsl.compile.model import loads
from mdpdsl.diagnostics import LogError, LogProblem
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.logs.inputs import LogSource, expand_logs, open_log, read_log
from mdpdsl.logs.readers.log_file import BATCH_ROWS, LogFileError
from mdpdsl.logs.reading_options import ReadingOptions
from mdpdsl.logs.timestamps import looks_like_a_date
from mdpdsl.logs.values import ColumnTypeError, Numbers, has_texts, numbers_of

WHAT_TO_GIVE = (
    "give a file, a folder or a pattern; or a Gymnasium environment by its id with the version, as "
    "in CartPole-v1"
)
#: Rows that are looked at; of a longer log, the first ones of every file.
MOST_ROWS = 1_000_000
#: A column of numbers may have this share of texts, such as `ERR`; such rows are rejected.
FEW_TEXTS = 0.05
#: Rows of a batch whose texts show how numbers and dates are written.
MOST_LOOKED_AT = 10_000

_COMMA_NUMBER = r"[+-]?\d*(,\d+)?(e[+-]?\d+)?\s*%?"
_THOUSANDS = r"[+-]?[1-9]\d{0,2},\d{3}"


@dataclass(frozen=True, eq=False)
class Profile:
    """A column: a number in every row, NaN where missing; of texts, the place in `texts`."""

    name: str
    kind: str  # number, truth, text, or unreadable
    values: FloatArray  # [n]
    texts: tuple[str, ...] = ()  # the different texts, in order of appearance
    n_odd: int = 0  # texts in a column of numbers
    type: str = ""  # of a column that cannot be read
    is_stamp: bool = False  # of times that are written as texts

    @cached_property
    def distinct(self) -> FloatArray:
        """The different finite values, ascending."""
        return np.unique(self.values[np.isfinite(self.values)])

    @property
    def n_missing(self) -> int:
        """The rows without a value that a model could read."""
        return int(np.count_nonzero(~np.isfinite(self.values)))

    @cached_property
    def is_whole(self) -> bool:
        """Whether all values are whole numbers that a model can count."""
        values = self.distinct
        is_exact = len(values) > 0 and abs(values).max() < 2.0**53
        return self.kind == "number" and is_exact and bool((values == np.floor(values)).all())


@dataclass(frozen=True, eq=False)
class LogTable:
    """The rows of logs, in the order of the files."""

    sources: tuple[str, ...]
    profiles: dict[str, Profile]
    file: IntArray  # [n]  number of each row's file
    is_partial: bool  # whether there are more rows
    has_own_episodes: bool  # the log itself knows its episodes, and needs no column for them
    is_in_order: bool  # rows are known to be in order of time
    options: ReadingOptions  # as given, or guessed from the values

    @property
    def n_rows(self) -> int:
        """The rows that were read."""
        return len(self.file)


def read_table(given: Any, options: ReadingOptions) -> LogTable:
    """Read logs: everything that `estimate` reads; raise LogError."""
    # Readers of lists ask for a model; what they read of this one is nothing.
    nothing = loads("mdp nothing  state x in 0..0  action a").checked
    found, problems = expand_logs(given, nothing)
    if problems:
        raise LogError([LogProblem(each.message, each.help or WHAT_TO_GIVE) for each in problems])
    try:
        return _table(found, options)
    except LogFileError as error:
        raise LogError([LogProblem(str(error), error.help)]) from None


def profile_of(name: str, pieces: Sequence[Any], options: ReadingOptions) -> Profile:
    """Return a column from its pieces, which are Arrow arrays."""
    try:
        numbers = _numbers(pieces, options)
    except ColumnTypeError as error:
        n = sum(len(piece) for piece in pieces)
        return Profile(name, "unreadable", np.full(n, np.nan), type=str(error))
    if _are_texts(numbers):
        times = _numbers(pieces, options, is_time=True)
        if not _are_texts(times):
            n_odd = int(np.count_nonzero(times.is_text))
            return Profile(name, "number", times.values, n_odd=n_odd, is_stamp=True)
        return _text_profile(name, pieces, np.isnan(numbers.values) & ~numbers.is_text)
    has_odd = bool(numbers.is_text.any())
    if not has_odd and np.isfinite(numbers.values).any() and _are_truths(pieces, numbers.values):
        return Profile(name, "truth", numbers.values)
    return Profile(name, "number", numbers.values, n_odd=int(np.count_nonzero(numbers.is_text)))


def _numbers(pieces: Sequence[Any], options: ReadingOptions, *, is_time: bool = False) -> Numbers:
    """Return all pieces of a column as numbers."""
    parts = [numbers_of(piece, options, is_time=is_time) for piece in pieces]
    values = [part.values.astype(np.float64) for part in parts]
    is_text = [part.is_text for part in parts]
    return Numbers(
        np.concatenate([np.empty(0), *values]), np.concatenate([np.empty(0, np.bool_), *is_text])
    )


def _are_texts(numbers: Numbers) -> bool:
    n_odd = int(np.count_nonzero(numbers.is_text))
    return n_odd > FEW_TEXTS * (n_odd + int(np.count_nonzero(np.isfinite(numbers.values))))


def guessed_options(columns: Iterable[Sequence[Any]], options: ReadingOptions) -> ReadingOptions:
    """Return the options, with decimal commas or days first where only these make sense."""
    for pieces in columns:
        words = [w for piece in pieces if has_texts(piece) for w in _words(piece)]
        if options.decimal == "." and _are_decimal_commas(words):
            options = replace(options, decimal=",")
        may_guess = not options.dayfirst and options.time_format is None
        if may_guess and all(map(looks_like_a_date, words)) and _have_days_first(words):
            options = replace(options, dayfirst=True)
    return options


def _words(piece: Any) -> list[str]:
    """Return some of the different texts of a column."""
    found = piece.slice(0, MOST_LOOKED_AT).unique().drop_null().to_pylist()
    return [word for text in found if (word := str(text).strip())]


def _are_decimal_commas(words: Sequence[str]) -> bool:
    """Return whether texts are numbers with decimal commas, and not with commas for thousands."""
    with_comma = [word for word in words if "," in word]
    if not with_comma or not all(re.fullmatch(_COMMA_NUMBER, word) for word in words):
        return False
    return any(re.fullmatch(_THOUSANDS, word) is None for word in with_comma)


def _have_days_first(words: Sequence[str]) -> bool:
    """Return whether dates can only be read with their day first."""
    firsts = [re.match(r"(\d{1,2})[-/.](\d{1,2})[-/.]\d{4}", word) for word in words]
    days = [(int(m[1]), int(m[2])) for m in firsts if m is not None]
    if len(days) != len(words) or not words or max(month for _, month in days) > 12:
        return False
    has_points = all(re.match(r"\d+\.\d+\.", word) for word in words)  # never month first
    return has_points or max(day for day, _ in days) > 12


def _table(sources: Sequence[LogSource], options: ReadingOptions) -> LogTable:
    most = max(1, MOST_ROWS // len(sources))
    logs = [open_log(source, options) for source in sources]
    own = {log.own_episodes for log in logs} - {None}
    # A column that some file lacks, or has twice, cannot be read from all of them.
    is_one = [c for c in logs[0].columns if all(log.columns.count(c) == 1 for log in logs)]
    names = [c for c in is_one if c not in own]
    pieces: dict[str, list[Any]] = {name: [] for name in names}
    files: list[IntArray] = []
    is_partial = False
    for number, log in enumerate(logs):
        n_read = 0
        for batch in read_log(log, names, BATCH_ROWS, options):
            n = min(len(batch.rows), most - n_read)
            for name in names:
                pieces[name].append(batch.columns[name].slice(0, n))
            files.append(np.full(n, number))
            n_read += n
            if n < len(batch.rows):
                is_partial = True
                break
    file = np.concatenate(files) if files else np.empty(0, np.int64)
    if len(file) == 0 or not names:
        what = "no rows" if names else "no columns"
        raise LogFileError(
            f"{logs[0].name} has {what}", "a draft needs the header and some rows of data"
        )
    options = guessed_options(pieces.values(), options)
    return LogTable(
        sources=tuple(_short_name(Path(log.name)) for log in logs),
        profiles={name: profile_of(name, pieces[name], options) for name in names},
        file=file,
        is_partial=is_partial,
        has_own_episodes=bool(own),
        is_in_order=all(log.is_in_order for log in logs),
        options=options,
    )


def _short_name(path: Path) -> str:
    """Return the name of a file; the data of a Minari dataset are in a folder of its own."""
    return path.parent.name if path.name == "data" and path.parent.name else path.name


def _are_truths(pieces: Iterable[Any], values: FloatArray) -> bool:
    """Return whether all values are words such as true and false, and not just 0 and 1."""
    import pyarrow as pa

    if not set(values[~np.isnan(values)].tolist()) <= {0.0, 1.0}:
        return False
    for piece in pieces:
        if has_texts(piece):
            words = [str(text) for text in piece.unique().to_pylist() if text is not None]
            if any(character.isdigit() for word in words for character in word):
                return False
        elif not pa.types.is_boolean(piece.type) and not pa.types.is_null(piece.type):
            return False
    return True


def _text_profile(name: str, pieces: Sequence[Any], is_missing: BoolArray) -> Profile:
    import pyarrow as pa

    places: dict[str, int] = {}
    values = []
    n_before = 0
    for piece in pieces:
        texts = piece.cast(pa.string()).dictionary_encode()
        index = texts.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        index = np.where(is_missing[n_before : n_before + len(piece)], -1, index)
        n_before += len(piece)
        words = texts.dictionary.to_pylist()
        codes = np.full(len(words) + 1, np.nan)
        for place in np.unique(index[index >= 0]).tolist():
            codes[place] = places.setdefault(words[place].strip(), len(places))
        values.append(codes[index])
    return Profile(name, "text", np.concatenate(values), tuple(places))


def starts_of(table: LogTable, episode: Profile | None) -> BoolArray:
    """Return which rows begin a file or, in the order of the files, another episode."""
    is_start = np.ones(table.n_rows, np.bool_)
    is_start[1:] = table.file[1:] != table.file[:-1]
    if episode is not None:
        key = np.nan_to_num(episode.values, nan=-1.5)
        is_start[1:] |= key[1:] != key[:-1]
    return is_start
