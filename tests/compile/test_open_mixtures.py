"""Every mixture of `?`, truths, numbers and unknown numbers on the branches of a line."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import mdpdsl
from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import Source
from tests import fuzz

#: A branch's probability, and what it is: `?` with its truth, a number, or a law's truth.
KINDS = ("?", "?=0.25", "0.25", "slip", "1 - slip", "")
SLIP = Fraction(1, 4)
TRUTHS = {
    "?": None,
    "?=0.25": Fraction(1, 4),
    "0.25": Fraction(1, 4),
    "slip": SLIP,
    "1 - slip": 1 - SLIP,
    "": Fraction(1),
}
FRAMES = {
    "plain": "",
    "end": "end when x == 3\n",
    "restart": "restart when x == 3\n",
}
MODEL = """\
mdp mixed
unknown slip in [0, 0.5] = 0.25
state x in 0..3
action go, rest
init x = 0
on go -> {branches}
on rest -> 1 - slip: x' = mod(x + 1, 4) | slip: stay
{frame}"""
TABLE = """\
mdp mixed
unknown slip in [0, 0.5] = 0.25
state x in {{a, b, c}}
action go
table go {{
      a b c
  a   {cells}
  b   1 0 0
  c   {cells}
}}
"""


def mixtures(lengths: tuple[int, ...]) -> list[tuple[str, ...]]:
    return [mixed for n in lengths for mixed in itertools.product(KINDS, repeat=n)]


def diagnosed(text: str) -> set[str]:
    return {d.code for d in Model.diagnosed(Source(text, "mixed"))}


def expected_codes(mixed: tuple[str, ...]) -> set[str] | None:
    """Return the codes of a line whose branches lead to different states; None: not said here."""
    truths = [TRUTHS[kind] for kind in mixed]
    total = sum(truth or 0 for truth in truths)
    is_open = [kind.startswith("?") for kind in mixed]
    has_law = any("slip" in kind for kind in mixed)
    if sum(is_open) > 1:  # numbers must leave something, and truths must fill it
        warned = {"W006"} if has_law else set()
        return warned | ({"E501"} if None not in truths and total != 1 else set())
    if has_law:
        return None
    if sum(is_open) == 1:
        is_filled = None in truths or total == 1
        return {"W005"} | (set() if is_filled else {"E501"})
    return set() if total == 1 else {"E501"}


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("targets", [(0, 1, 2), (0, 0, 1), (1, 1, 1)], ids=str)
def test_every_mixture_on_a_line_is_refused_or_sound(frame: str, targets: tuple[int, ...]) -> None:
    for mixed in mixtures((1, 2, 3)):
        branches = " | ".join(
            f"{kind}: x' = {target}" if kind else f"x' = {target}"
            for kind, target in zip(mixed, targets, strict=False)
        )
        fuzz.examine(MODEL.format(branches=branches, frame=FRAMES[frame]))


def test_every_mixture_in_a_table_is_refused_or_sound() -> None:
    cells = {"?": "?", "?=0.25": "?=0.25", "0.25": "0.25", "slip": "slip", "1 - slip": "(1 - slip)"}
    for mixed in itertools.product([*cells, "0"], repeat=3):
        text = TABLE.format(cells=" ".join(cells.get(kind, "0") for kind in mixed))
        fuzz.examine(text)


def test_mixtures_of_open_branches_and_numbers_have_these_mistakes() -> None:
    n_checked = 0
    for mixed in mixtures((1, 2, 3)):
        wanted = expected_codes(mixed)
        if wanted is None or ("" in mixed and len(mixed) > 1):
            continue
        n_checked += 1
        branches = " | ".join(
            f"{kind}: x' = {target}" if kind else f"x' = {target}"
            for target, kind in enumerate(mixed)
        )
        assert diagnosed(MODEL.format(branches=branches, frame="")) == wanted, mixed
    assert n_checked > 60


def test_the_shares_of_a_line_are_its_numbers_and_the_rest_is_open() -> None:
    text = MODEL.format(branches="0.25: x' = 0 | ?: x' = 1 | ?: x' = 2", frame="")
    graph = mdpdsl.loads(text).graph
    known = graph.knowledge
    assert known is not None
    pair = graph.pair(graph.state(x=3), 0)
    row = slice(*known.successor_start[pair : pair + 2])
    np.testing.assert_array_equal(known.successor[row], [0, 1, 2])
    np.testing.assert_allclose(known.share[row], [0.25, 0, 0])
    np.testing.assert_array_equal(known.is_open[row], [False, True, True])
    assert known.rest[pair] == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("targets", "share", "is_open"),
    [
        ((0, 0, 1), [0.25, 0], [True, True]),  # a number and a `?` meet in x = 0
        ((0, 1, 1), [0.25, 0.75], [False, False]),  # all that is open leads to x = 1
    ],
)
def test_branches_that_meet_share_an_entry(
    targets: tuple[int, ...], share: list[float], is_open: list[bool]
) -> None:
    kinds = ("0.25", "?", "?")
    branches = " | ".join(f"{k}: x' = {t}" for k, t in zip(kinds, targets, strict=True))
    graph = mdpdsl.loads(MODEL.format(branches=branches, frame="")).graph
    known = graph.knowledge
    assert known is not None
    pair = graph.pair(graph.state(x=2), 0)
    row = slice(*known.successor_start[pair : pair + 2])
    np.testing.assert_allclose(known.share[row], share)
    np.testing.assert_array_equal(known.is_open[row], is_open)
    assert known.is_joined[row].any()


def test_a_restart_is_known_whatever_its_actions_say() -> None:
    text = MODEL.format(branches="?: x' = 0 | ?: x' = 1 | ?: x' = 3", frame=FRAMES["restart"])
    graph = mdpdsl.loads(text).graph
    known = graph.knowledge
    assert known is not None
    here = graph.pair_state == graph.state(x=3)
    assert known.is_known[here].all()
    assert not known.is_known[~here].any()
    ended = mdpdsl.loads(text.replace("restart", "end")).graph
    assert not np.any(ended.pair_state == ended.state(x=3))
