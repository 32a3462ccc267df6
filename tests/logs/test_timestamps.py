from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdpdsl.diagnostics import SettingsError
from mdpdsl.logs.reading_options import USUAL, ReadingOptions
from mdpdsl.logs.timestamps import time_reader
from mdpdsl.logs.values import numbers_of

FORMATS = {
    "%Y-%m-%dT%H:%M:%S": USUAL,
    "%Y-%m-%d %H:%M:%S.%f": USUAL,
    "%Y-%m-%dT%H:%M:%S.%f%z": USUAL,
    "%Y-%m-%d": USUAL,
    "%d.%m.%Y %H:%M:%S.%f": ReadingOptions(dayfirst=True),
    "%d/%m/%Y": ReadingOptions(dayfirst=True),
    "%H:%M:%S %d.%m.%Y": ReadingOptions(time_format="%H:%M:%S %d.%m.%Y"),
    "%d.%m.%Y %H:%M:%S,%f %z": ReadingOptions(time_format="%d.%m.%Y %H:%M:%S,%f %z"),
    "%Y%m%d": ReadingOptions(time_format="%Y%m%d"),
    "%b %d %Y %I:%M:%S %p": ReadingOptions(time_format="%b %d %Y %I:%M:%S %p"),
}
TIMES = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))


@given(st.sampled_from(sorted(FORMATS)), st.lists(TIMES, min_size=1), st.booleans())
def test_a_whole_column_is_read_as_each_of_its_texts_is(
    form: str, times: list[datetime], has_blank: bool
) -> None:
    texts = [time.strftime(form) for time in times]
    one_by_one = [time_reader(FORMATS[form])(text) for text in texts]
    expected = [datetime.strptime(text, form) for text in texts]
    column = pa.array([*texts, *([""] if has_blank else [])])
    numbers = numbers_of(column, FORMATS[form], is_time=True)
    assert not numbers.is_text.any()
    assert numbers.values[: len(texts)].tolist() == one_by_one, "to the last bit"
    assert np.isnan(numbers.values[len(texts) :]).all()
    seconds = [time.replace(tzinfo=UTC).timestamp() for time in expected]
    np.testing.assert_allclose(numbers.values[: len(texts)], seconds, rtol=0, atol=1e-6)


@pytest.mark.parametrize("form", ["", "abc", "%Q", "%d %d", "%"])
def test_a_format_that_cannot_be_read_is_refused(form: str) -> None:
    with pytest.raises(SettingsError, match="`time_format=` cannot be"):
        ReadingOptions(time_format=form)
