"""Columns of a log as numbers, names or keys, and the rows in which they are missing."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdpdsl.graph.space import BoolArray, FloatArray, IntArray
from mdpdsl.kernels.binning import NO_NUMBER

#: Texts that mean a missing value.
MISSING_TEXTS = frozenset({"", "nan", "na", "n/a", "null", "none", "<na>"})
#: Keys of episodes named by texts are above this, whole numbers below.
_TEXT_KEYS = 1 << 62
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


class ColumnTypeError(Exception):
    """A column whose type is neither numbers nor texts."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """A column as numbers."""

    values: FloatArray  # [n]  NaN where missing
    is_text: BoolArray  # [n]  where there is a text that is not a number
    has_text: bool = False  # whether `is_text` holds anywhere


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


def numbers_of(column: Any) -> Numbers:
    """Read a column as numbers; truth values are 0 and 1, times are seconds."""
    import pyarrow as pa

    column = _decoded(column)
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _numbers_of_texts(column)
    if pa.types.is_null(kind):
        return Numbers(np.full(len(column), np.nan), np.zeros(len(column), np.bool_))
    scale = 1.0
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time(kind):
        scale = _SECONDS[kind.unit]
        column = column.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64())
    elif pa.types.is_date(kind):
        scale = 86400.0
        column = column.cast(pa.date32()).cast(pa.int32())
    elif not _is_number(kind):
        raise ColumnTypeError(str(kind))
    if column.null_count or pa.types.is_decimal(kind) or pa.types.is_boolean(kind):
        column = column.cast(pa.float64(), safe=False)
    values = column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    if scale != 1.0:
        values = values * scale
    return Numbers(values, np.zeros(len(values), np.bool_))


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
    """Replace each text by its number: -1 if it is not in the index, NaN if it is missing."""
    import pyarrow as pa

    encoded = _decoded(column).dictionary_encode()
    texts = [text.strip() for text in _texts(encoded.dictionary)]
    known = [index.get(t, math.nan if t.lower() in MISSING_TEXTS else -1.0) for t in texts]
    table = np.array([*known, math.nan])
    place = encoded.indices.cast(pa.int64()).fill_null(len(known)).to_numpy(zero_copy_only=False)
    return np.asarray(table[place])


def keys_of(column: Any) -> tuple[IntArray, BoolArray]:
    """Return a whole number for each different value, the same in every file, and missing rows.

    A whole number is its own key, even if it is written as a text or with a decimal point.
    """
    import pyarrow as pa

    column = _decoded(column)
    if pa.types.is_integer(column.type) and column.null_count == 0:
        keys = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        return keys, np.zeros(len(keys), np.bool_)
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


def _numbers_of_texts(column: Any) -> Numbers:
    import pyarrow as pa
    from pyarrow import compute

    try:
        values = compute.cast(column, pa.float64()).to_numpy(zero_copy_only=False)
        return Numbers(values, np.zeros(len(values), np.bool_))
    except pa.ArrowInvalid:  # some text is not a number: look at each different one
        pass
    encoded = column.dictionary_encode()
    pairs = [_number_of_text(text) for text in _texts(encoded.dictionary)]
    values = np.array([*(value for value, _ in pairs), math.nan])
    is_text = np.array([*(flag for _, flag in pairs), False])
    place = encoded.indices.cast(pa.int64()).fill_null(len(pairs)).to_numpy(zero_copy_only=False)
    return Numbers(values[place], is_text[place], bool(is_text.any()))


def _number_of_text(text: str) -> tuple[float, bool]:
    word = text.strip().lower()
    if word in MISSING_TEXTS:
        return math.nan, False
    if word in ("true", "false"):
        return float(word == "true"), False
    try:
        return float(word if "_" not in word else "?"), False
    except ValueError:
        return math.nan, True


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
