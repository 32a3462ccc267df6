"""Positions as editors count them, against Python's own encoders."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdpdsl.editor.positions import Position, Positions

#: Line breaks of the protocol, characters of one to four bytes, and line breaks of Python only.
TEXTS = st.text(alphabet=st.sampled_from("ab\n\r\täπ€𝜋😀\f\u2028\x85"), max_size=40)
CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
ENCODINGS = st.sampled_from(sorted(CODECS))


def lines_of(text: str) -> list[str]:
    """Return the lines as the protocol splits them, without line breaks."""
    return re.split(r"\r\n|\r|\n", text)


@given(TEXTS, ENCODINGS)
def test_every_position_in_a_line_converts_both_ways(text: str, encoding: str) -> None:
    positions = Positions(text, encoding)
    codec, unit = CODECS[encoding]
    for number, line in enumerate(lines_of(text)):
        for at in range(len(line) + 1):
            place = Position(number, len(line[:at].encode(codec)) // unit)
            offset = positions.offset(place)
            assert text[offset - at : offset + len(line) - at] == line
            assert positions.position(offset) == place


@given(TEXTS, ENCODINGS, st.integers(0, 60), st.integers(0, 60))
def test_a_position_outside_the_text_means_the_nearest_before_it(
    text: str, encoding: str, line: int, character: int
) -> None:
    positions = Positions(text, encoding)
    offset = positions.offset(Position(line, character))
    assert 0 <= offset <= len(text)
    assert positions.position(offset) <= Position(line, character)


def test_a_position_inside_a_character_means_its_start() -> None:
    assert Positions("a😀b").offset(Position(0, 2)) == 1
    assert Positions("a😀b").offset(Position(0, 3)) == 2


@pytest.mark.parametrize("text", ["", "a", "a\n"])
def test_the_end_of_a_text_has_a_position(text: str) -> None:
    positions = Positions(text)
    assert positions.offset(positions.position(len(text))) == len(text)
