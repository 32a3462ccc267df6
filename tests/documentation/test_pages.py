"""The commands and code of the documentation run, and print what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.documentation.pages import PAGES, ROOT, Block, Runner, blocks, matches

#: Pages whose blocks have tests of their own.
ELSEWHERE = {"docs/diagnostics.md"}


@pytest.mark.parametrize("page", sorted(set(PAGES) - ELSEWHERE))
def test_the_blocks_of_a_page_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runner = Runner(tmp_path)
    for block in blocks((ROOT / page).read_text("utf-8")):
        try:
            runner.run(block)
        except BaseException as error:
            error.add_note(f"{page}, line {block.line + 1}")
            raise


@pytest.mark.parametrize("page", PAGES)
def test_every_fence_is_a_block(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    assert len(re.findall(r"^ *```", text, re.MULTILINE)) == 2 * len(blocks(text))


def test_the_pages_show_something() -> None:
    shown = [block for page in PAGES for block in blocks((ROOT / page).read_text("utf-8"))]
    assert len([block for block in shown if block.language == "sh"]) > 20
    assert len([block for block in shown if block.mark == "prints"]) > 5


@pytest.mark.parametrize(
    ("shown", "printed", "is_same"),
    [
        ("a b\n", "a   b\n", True),
        ("a b\n", "a c\n", False),
        ("a …\n", "a anything at all\n", True),
        ("…\nlast\n", "one\ntwo\nlast\n", True),
        ("one\n…\n", "one\n", True),
        ("one\n", "one\ntwo\n", False),
        ("one\ntwo\n", "one\n", False),
    ],
)
def test_what_a_page_shows_is_compared_with_what_is_printed(
    shown: str, printed: str, is_same: bool
) -> None:
    assert matches(shown, printed) is is_same


def test_a_block_that_does_not_do_what_it_says_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runner = Runner(tmp_path)
    with pytest.raises(AssertionError):
        runner.run(Block("sh", "mdpdsl check nothing.mdp\n", "", 1))
    with pytest.raises(AssertionError):
        runner.run(Block("sh", "mdpdsl check riverswim\n", "fails", 1))
    with pytest.raises(AssertionError):
        runner.run(Block("sh", "mdpdsl check riverswim && mdpdsl check nothing.mdp\n", "", 1))
    runner.run(Block("sh", "mdpdsl check riverswim\n", "", 1))
    with pytest.raises(AssertionError):
        runner.run(Block("text", "another\n", "prints", 2))
    with pytest.raises(NameError):
        runner.run(Block("python", "unknown\n", "", 3))
    assert runner.n_run == 1
