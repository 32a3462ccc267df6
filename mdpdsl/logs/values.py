"""Columns of a log as numbers, names or keys, and the rows in which they are missing."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdpdsl.compile.scope import allowed_name
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.kernels.binning import NO_NUMBER
from mdpdsl.logs import rejections as reasons
from mdpdsl.logs import timestamps
from mdpdsl.logs.reading_options import USUAL, ReadingOptions

#: Texts that mean a missing value.
MISSING_TEXTS = frozenset({"", "nan", "na", "n/a", "null", "none", "<na>"})
#: Texts that set a flag, and texts that do not.
YES = frozenset({"true", "t", "yes", "y", "1", "1.0"})
NO = frozenset({"false", "f", "no", "n", "0", "0.0"})
#: Keys of episodes named by texts are above this, whole numbers below.
_TEXT_KEYS = 1 << 62
_TOO_LARGE = 1 << 63
#: Longer texts are no numbers, names or times, and are not looked at.
_MOST_CHARACTERS = 1_000
#: Numbers as some write them, with a decimal comma or a comma after every thousand; and the same
#: where the comma is the decimal sign.
_WITH_COMMA = re.compile(
    r"[+-]?(?:[\d ]*,\d+(?:,\d+)*|\d{1,3}(?:,\d{3})+\.\d*|\d{1,3}(?:\.\d{3})+,\d*)"
    r"(?:e[+-]?\d+)?\s*%?",
    re.IGNORECASE,
)
_WITH_POINT = re.compile(r"[+-]?(?:\d*\.\d*|\d{1,3}(?:\.\d{3})+(?:,\d*)?)(?:e[+-]?\d+)?\s*%?", re.I)
_WHOLE = re.compile(r"[+-]?\d{1,19}")
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class ColumnTypeError(Exception):
    """A column whose type is neither numbers nor texts."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column as numbers."""

    values: FloatArray  # [n]  NaN where missing
    is_text: BoolArray  # [n]  where there is a text that is not a number
    has_text: bool = False  # whether `is_text` holds anywhere
    odd: tuple[tuple[str, BoolArray], ...] = ()  # reasons to reject some of these texts, [n] each
    is_percent: BoolArray | None = None  # [n]  where a percent sign follows; None: nowhere


def readable(column: Any) -> Any:
    """Return a column of one of the types that are read here, where its values allow that.

    Polars writes texts as views; some writers store runs of equal values.
    """
    import pyarrow as pa
    from pyarrow import compute

    if pa.types.is_run_end_encoded(column.type):
        column = compute.run_end_decode(column)
    if pa.types.is_string_view(column.type):
        return column.cast(pa.large_string())
    if pa.types.is_dictionary(column.type) and pa.types.is_string_view(column.type.value_type):
        texts = column.dictionary.cast(pa.large_string())
        return pa.DictionaryArray.from_arrays(column.indices, texts)
    return column


def numbers_of(column: Any, options: ReadingOptions = USUAL, *, is_time: bool = False) -> Numbers:
    """Read a column as numbers; truth values are 0 and 1, times are seconds.

    Texts are times only in a column of times, as elsewhere a date is a mistake.
    """
    import pyarrow as pa

    column = _decoded(column)
    kind = column.type
    if is_time and options.time_format is not None and pa.types.is_integer(kind):
        column = column.cast(pa.string())  # 20260304 is a date then, whatever its type
        kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _numbers_of_texts(column, options, is_time)
    if pa.types.is_null(kind):
        return Numbers(np.full(len(column), np.nan), np.zeros(len(column), np.bool_))
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time(kind):
        ticks = column.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64())
        values = timestamps.seconds_of_ticks(ticks, _PER_SECOND[kind.unit])
        return Numbers(values, np.zeros(len(values), np.bool_))
    is_date = pa.types.is_date(kind)
    if is_date:
        column = column.cast(pa.date32()).cast(pa.int32())
    elif not _is_number(kind):
        raise ColumnTypeError(str(kind))
    if column.null_count or pa.types.is_decimal(kind) or pa.types.is_boolean(kind):
        column = column.cast(pa.float64(), safe=False)
    values = column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    return Numbers(values * 86400.0 if is_date else values, np.zeros(len(values), np.bool_))


def whole_numbers_of(column: Any) -> IntArray | None:
    """Read a column of whole numbers, NO_NUMBER where missing; return None for any other type."""
    import pyarrow as pa

    if not pa.types.is_integer(column.type) or pa.types.is_uint64(column.type):
        return None
    if column.null_count:
        column = column.cast(pa.int64()).fill_null(NO_NUMBER)
    numbers: IntArray = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers


def has_texts(column: Any) -> bool:
    """Return whether a column holds texts."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def lookup(column: Any, index: dict[str, float]) -> FloatArray:
    """Replace each text by its number: -1 if it is not in the index, NaN if it is missing.

    A text that is no name of the language is read as the name it becomes: `Auto mode` as Auto_mode.
    """
    import pyarrow as pa

    def number(text: str) -> float:
        if len(text) > _MOST_CHARACTERS:
            return -1.0
        missing = math.nan if text.lower() in MISSING_TEXTS else None
        found = index.get(text, missing)
        return index.get(allowed_name(text), -1.0) if found is None else found

    encoded = _decoded(column).dictionary_encode()
    known = [number(text.strip()) for text in _texts(encoded.dictionary)]
    table = np.array([*known, math.nan])
    place = encoded.indices.cast(pa.int64()).fill_null(len(known)).to_numpy(zero_copy_only=False)
    return np.asarray(table[place])


def flags_of(column: Any) -> tuple[BoolArray, BoolArray]:
    """Return in which rows a column says yes, and in which it says neither yes nor no.

    A missing value says no.
    """
    import pyarrow as pa

    if not has_texts(column):
        values = numbers_of(column).values
        is_set = values == 1
        return is_set, ~is_set & (values != 0) & ~np.isnan(values)
    encoded = _decoded(column).dictionary_encode()
    words = [text.strip().lower() for text in _texts(encoded.dictionary)]
    is_yes = np.array([*(word in YES for word in words), False])
    is_other = [word not in YES and word not in NO and word not in MISSING_TEXTS for word in words]
    place = encoded.indices.cast(pa.int64()).fill_null(len(words)).to_numpy(zero_copy_only=False)
    return is_yes[place], np.array([*is_other, False])[place]


def keys_of(column: Any) -> tuple[IntArray, BoolArray]:
    """Return a whole number for each different value, the same in every file, and missing rows.

    A whole number is its own key, even if it is written as a text or with a decimal point.
    """
    import pyarrow as pa

    column = _decoded(column)
    if pa.types.is_integer(column.type) and not pa.types.is_uint64(column.type):
        is_null = np.zeros(len(column), np.bool_)
        if column.null_count:
            is_null = column.is_null().to_numpy(zero_copy_only=False)
            column = column.fill_null(0)
        return column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False), is_null
    numbers = numbers_of(column)
    is_whole = np.abs(numbers.values) < 2**53
    is_whole &= numbers.values == np.floor(np.where(is_whole, numbers.values, 0.5))
    keys = np.where(is_whole, numbers.values, 0).astype(np.int64)
    is_missing = np.isnan(numbers.values) & ~numbers.is_text
    others = np.flatnonzero(~is_whole & ~is_missing)
    if len(others) and pa.types.is_temporal(column.type):  # Python has no times this fine
        keys[others] = [_text_key(repr(second)) for second in numbers.values[others].tolist()]
    elif len(others):
        encoded = column.take(pa.array(others)).dictionary_encode()
        table = np.array([_text_key(text) for text in _texts(encoded.dictionary)], np.int64)
        keys[others] = table[encoded.indices.to_numpy(zero_copy_only=False)]
    return keys, is_missing


def text_at(column: Any, place: int) -> str:
    """Describe the value in one row of a column."""
    value: object
    if has_texts(column):
        value = None if not column[place].is_valid else _texts(_decoded(column.slice(place, 1)))[0]
    else:
        try:
            value = column[place].as_py()
        except ValueError:  # a time to the nanosecond, which only pandas has in Python
            value = float(numbers_of(column.slice(place, 1)).values[0])
    if value is None or value == "":
        return "nothing"
    return repr(value)[:60] if isinstance(value, str) else str(value)[:60]


def _numbers_of_texts(column: Any, options: ReadingOptions, is_time: bool) -> Numbers:
    values: FloatArray | None = None
    if not is_time or options.time_format is None:
        values = _numbers_alone(column, options)
    if values is None and is_time:
        values = timestamps.seconds_of_texts(column, options)
    if values is not None:
        return Numbers(values, np.zeros(len(values), np.bool_))
    return _numbers_of_different_texts(column, options, is_time)


def _numbers_alone(column: Any, options: ReadingOptions) -> FloatArray | None:
    """Read texts that are all numbers, or empty; return None if some text is not."""
    import pyarrow as pa
    from pyarrow import compute

    for texts in _with_and_without_blanks(column):
        try:
            numbers = _with_points(texts) if options.decimal == "," else texts
            values: FloatArray = compute.cast(numbers, pa.float64()).to_numpy(zero_copy_only=False)
            return values
        except pa.ArrowInvalid:
            continue
    return None


def _with_and_without_blanks(column: Any) -> Iterator[Any]:
    """Return texts as they are; then, if some are empty, with these missing."""
    yield column
    without = timestamps.without_blanks(column)
    if without is not column:
        yield without


def _with_points(column: Any) -> Any:
    """Return numbers with decimal commas as numbers with points; raise ArrowInvalid if one has."""
    import pyarrow as pa
    from pyarrow import compute

    if compute.any(compute.match_substring(column, ".")).as_py():
        raise pa.ArrowInvalid("a point that is no decimal point")
    return compute.replace_substring(column, ",", ".")


def _numbers_of_different_texts(column: Any, options: ReadingOptions, is_time: bool) -> Numbers:
    import pyarrow as pa

    encoded = column.dictionary_encode()
    texts = [text.strip() for text in _texts(encoded.dictionary)]
    numbers = [_number_of_text(text, options, is_time) for text in texts]
    flags = [number is None for number in numbers]
    known = [math.nan if number is None else number for number in numbers]
    place = encoded.indices.cast(pa.int64()).fill_null(len(texts)).to_numpy(zero_copy_only=False)
    is_text = np.array([*flags, False])
    has_sign = np.array([*(text.endswith("%") for text in texts), False])
    is_percent = has_sign[place] if has_sign.any() else None
    if not is_text.any():
        values = np.array([*known, math.nan])[place]
        return Numbers(values, is_text[place], is_percent=is_percent)
    kinds = [
        _oddity(text, options, is_time) if flag else None
        for text, flag in zip(texts, flags, strict=True)
    ]
    return Numbers(
        values=np.array([*known, math.nan])[place],
        is_text=is_text[place],
        has_text=True,
        odd=tuple(
            (kind, np.array([*(each == kind for each in kinds), False])[place])
            for kind in sorted({kind for kind in kinds if kind is not None})
        ),
        is_percent=is_percent,
    )


def _oddity(text: str, options: ReadingOptions, is_time: bool) -> str | None:
    """Return the reason to reject a text, where it says more than that the text is no number."""
    if len(text) > _MOST_CHARACTERS:
        return None
    if options.decimal == "." and _WITH_COMMA.fullmatch(text):
        return reasons.COMMA
    if is_time and timestamps.is_no_time(text, options):
        return reasons.NO_SUCH_TIME
    if is_time and timestamps.looks_like_a_time(text):
        return reasons.UNCLEAR_DATE
    if options.decimal == "," and _WITH_POINT.fullmatch(text):
        return reasons.POINT
    return None


def _number_of_text(text: str, options: ReadingOptions, is_time: bool) -> float | None:
    """Return a number, NaN if it is missing, and None if the text is none."""
    if len(text) > _MOST_CHARACTERS:
        return None
    word = text.lower()
    if word in MISSING_TEXTS:
        return math.nan
    if is_time:
        seconds = timestamps.time_reader(options)(text)
        if seconds is not None or options.time_format is not None:
            return seconds
    if word in ("true", "false"):
        return float(word == "true")
    if word.endswith("%"):  # 45 % is the number 45
        word = word[:-1].rstrip()
    if options.decimal == ",":
        word = "?" if "." in word else word.replace(",", ".")
    try:
        return float(word if "_" not in word else "?")
    except ValueError:
        return None


def _texts(column: Any) -> list[str]:
    """Return the values of a column without nulls as texts; bytes that are no text become `�`."""
    import pyarrow as pa

    try:
        return [str(value) for value in column.to_pylist()]
    except UnicodeDecodeError:
        is_large = pa.types.is_large_string(column.type)
        found = column.cast(pa.large_binary() if is_large else pa.binary()).to_pylist()
        return [value.decode("utf-8", "replace") for value in found]


def _text_key(text: str) -> int:
    whole = int(text) if _WHOLE.fullmatch(text) else _TOO_LARGE
    if abs(whole) < _TOO_LARGE:  # too large for a real number to hold all its digits
        return whole
    digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
    return _TEXT_KEYS | (int.from_bytes(digest) >> 2)


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(test(kind) for test in tests)


def _decoded(column: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column
