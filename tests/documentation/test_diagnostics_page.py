"""The page of diagnostics has every code, with an example and the message it prints."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import CODES, Source
from tests.documentation.pages import DOCS, Runner, blocks

TEXT = (DOCS / "diagnostics.md").read_text("utf-8")
SECTIONS: dict[str, str] = {
    section.split("\n", 1)[0]: section
    for section in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]
}


def test_every_code_has_a_section_in_order() -> None:
    assert list(SECTIONS) == list(CODES)


@pytest.mark.parametrize("code", CODES)
def test_the_example_of_a_code_prints_what_is_shown(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    section = SECTIONS[code]
    meaning = CODES[code]
    assert f"*{meaning[0].upper()}{meaning[1:]}.*" in section
    shown = blocks(section)
    assert f"= code: {code}\n" in shown[-1].text
    runner = Runner(tmp_path)
    for block in shown:
        runner.run(block)
    if runner.n_run:
        assert shown[-1].mark == "prints"
        return
    (example,) = [(a, b) for a, b in pairwise(shown) if a.language == "mdp"]
    found = Model.diagnosed(Source(example[0].text, "model.mdp"))
    assert {d.code for d in found} == {code}
    assert "\n\n".join(d.render() for d in found) + "\n" == example[1].text
