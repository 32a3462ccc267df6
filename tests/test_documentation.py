"""The documentation says what the program does."""

import re
from pathlib import Path

import pytest

import mdpdsl
from mdpdsl.diagnostics import CODES
from mdpdsl.syntax.words import KEYWORDS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
REFERENCE = (ROOT / "docs" / "language.md").read_text("utf-8")


def test_the_readme_model_builds() -> None:
    (text,) = re.findall(r"```\n(mdp .*?)```", README, re.DOTALL)
    assert mdpdsl.loads(text).graph.hash == mdpdsl.load("riverswim").graph.hash


def test_the_readme_mistake_is_told_as_printed() -> None:
    (told,) = re.findall(r"```\n(error: .*?)\n```", README, re.DOTALL)
    (text,) = re.findall(r"```\n(mdp .*?)```", README, re.DOTALL)
    mistaken = text.replace(" | 0.05: pos' = pos - 1", "")
    with pytest.raises(mdpdsl.ModelError) as caught:
        _ = mdpdsl.loads(mistaken).graph
    assert str(caught.value).replace("<text>", "mine.mdp") == told


def test_the_readme_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # it writes a file
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        exec(code, names)
    assert names["P"].shape == (40, 20)  # type: ignore[attr-defined]
    assert names["estimate"].n_states == 20  # type: ignore[attr-defined]


def test_the_reference_lists_every_code_and_keyword() -> None:
    for code, meaning in CODES.items():
        assert f"| {code} | {meaning} |" in REFERENCE
    for word in KEYWORDS:
        assert re.search(rf"\b{word}\b", REFERENCE), word
