"""Axes, numbers and pictures of the page."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from matplotlib import image

from mdpdsl.report.figures.colours import palette
from mdpdsl.report.figures.heat_map import FIRST, GREY, N_COLOURS, NO_STATE, png_uri
from mdpdsl.report.figures.scales import scale
from mdpdsl.report.markup import number, percent, text, tick_texts

POSITIVE = st.floats(1e-8, 1e12)


@example([51220933148.0, 50943204995.0], False)
@example([1e-8, 1.0000001e-8], False)
@example([1e7, 1e7 + 1e-3], False)
@given(st.lists(POSITIVE, min_size=1, max_size=8), st.booleans())
def test_ticks_are_few_in_order_and_on_the_axis(values: list[float], is_log: bool) -> None:
    axis = scale(values, 0.0, 100.0, is_log=is_log)
    ticks = axis.ticks(6)
    assert 1 <= len(ticks) <= 8
    places = [axis.at(value) for value, _ in ticks]
    assert places == sorted(places)
    assert all(-1 <= place <= 101 for place in places)
    labels = [label for _, label in ticks]
    assert len(set(labels)) == len(labels)
    for value in values:
        assert -1e-6 <= axis.at(value) <= 100 + 1e-6


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (float("inf"), "∞"),
        (0.0, "0"),
        (12.0, "12"),
        (608.81, "608.8"),
        (4523699.4, "4,523,699"),
        (-1.5, "−1.500"),
        (0.0002184, "0.0002184"),
        (2.184e-7, "2.18·10⁻⁷"),
    ],
)
def test_numbers_have_four_digits(value: float | None, shown: str) -> None:
    assert number(value) == shown


@given(st.floats(0, 1))
@example(0.9995)
@example(0.99999999)
@example(0.0005)
@example(1e-9)
def test_almost_all_is_not_100_percent(share: float) -> None:
    assert (percent(share) == "100 %") == (share == 1)
    assert (percent(share) == "0 %") == (share == 0)


def test_ticks_that_are_all_powers_of_ten_are_written_as_powers() -> None:
    assert tick_texts([1e4, 1e5, 1e6], is_log=True) == ["10⁴", "10⁵", "10⁶"]
    assert tick_texts([1e4, 2e4, 1e5], is_log=True) == ["10,000", "20,000", "100,000"]


def test_texts_cannot_end_an_attribute_or_a_tag() -> None:
    assert text("<b a='\"&") == "&lt;b a=&#x27;&quot;&amp;"


def test_a_picture_reads_back_as_its_colours() -> None:
    colours = palette(N_COLOURS)
    cells = np.array([[FIRST, FIRST + 100, 255], [NO_STATE, 0, FIRST]], np.uint8)
    content = base64.b64decode(png_uri(cells, colours).partition(",")[2])
    found = np.round(255 * image.imread(io.BytesIO(content), format="png")).astype(int)
    assert found.shape == (2, 3, 4)
    assert found[0, 1, :3].tolist() == colours[100].tolist()
    assert found[0, 2, :3].tolist() == colours[-1].tolist()
    assert found[1, 0].tolist() == [*GREY, 255]
    assert found[1, 1, 3] == 0
