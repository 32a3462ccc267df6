"""Golden cases: files with errors, and the diagnostics as a person reads them."""

import json
import os
from functools import cache
from pathlib import Path

import pytest

from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import CODES, Diagnostic, Source

CASES = sorted((Path(__file__).parent.parent / "golden" / "diagnostics").glob("*.mdp"))

#: These concern files and estimates, not the contents of a model; see tests/cli, tests/estimate and
#: tests/compile/test_property_files.py.
ELSEWHERE = {"E603", "E604", "W002", "W003"}


@cache
def diagnosed(path: Path) -> list[Diagnostic]:
    text = path.read_text("utf-8")
    parameters: dict[str, str] = {}
    if text.startswith("#!"):
        settings = text.splitlines()[0].split()[1:]
        parameters = dict(setting.split("=") for setting in settings)
    return Model.diagnosed(Source(text, path.name), parameters)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_errors_are_rendered_as_in_the_golden_file(path: Path) -> None:
    rendered = "\n\n".join(diagnostic.render() for diagnostic in diagnosed(path)) + "\n"
    golden = path.with_suffix(".txt")
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(rendered, "utf-8")
    assert rendered == golden.read_text("utf-8")


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_json_says_the_same_as_the_text(path: Path) -> None:
    for diagnostic in diagnosed(path):
        record = json.loads(json.dumps(diagnostic.record(), allow_nan=False))
        text = diagnostic.render()
        assert record["message"] in text
        assert record["code"] in text
        assert record["help"] is None or record["help"] in text
        assert record["witness"] is None or record["witness"]["text"] in text
        if record["line"] is not None:
            assert f"{path.name}:{record['line']}:{record['column']}\n" in text


def test_every_code_has_a_golden_case() -> None:
    found = {diagnostic.code for path in CASES for diagnostic in diagnosed(path)}
    assert found | ELSEWHERE == CODES.keys()


def test_a_case_named_after_a_code_shows_that_code() -> None:
    for path in CASES:
        code = path.stem.split("-")[0]
        assert code not in CODES or code in {d.code for d in diagnosed(path)}, path.name
