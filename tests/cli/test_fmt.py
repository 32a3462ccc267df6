"""`mdpdsl fmt`."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NoReturn

import pytest

from mdpdsl.diagnostics import Source
from mdpdsl.syntax.parse import parse
from tests.cli.run import BAD_SYNTAX, GOOD, mdpdsl, quick, written

UNTIDY = """\
# before everything
mdp   untidy    "Title"   # behind the name


param p=0.5
state   x in 0 .. 3
# before the actions
action a,b
on a->p:x'=1|1-p:stay # behind a rule
on b   ->
    x' = 2
# at the very end
"""
COMMENTS = [
    "# before everything",
    "# behind the name",
    "# before the actions",
    "# behind a rule",
    "# at the very end",
]


def _tree(text: str) -> object:
    parsed = parse(Source(text, "test.mdp"))
    assert not parsed.diagnostics
    return parsed.file


def test_a_file_is_formatted_in_place_and_means_the_same(tmp_path: Path) -> None:
    path = written(tmp_path, UNTIDY)
    outcome = mdpdsl("fmt", path)
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, f"{path}: formatted\n", "")
    text = path.read_text()
    assert text != UNTIDY
    assert _tree(text) == _tree(UNTIDY)
    assert [p.name for p in tmp_path.iterdir()] == ["model.mdp"], "nothing else is left behind"


def test_comments_are_kept_in_order(tmp_path: Path) -> None:
    path = written(tmp_path, UNTIDY)
    quick("fmt", path)
    text = path.read_text()
    places = [text.index(comment) for comment in COMMENTS]
    assert places == sorted(places)
    assert text.count("#") == len(COMMENTS)


def test_formatting_twice_changes_nothing_more(tmp_path: Path) -> None:
    path = written(tmp_path, UNTIDY)
    quick("fmt", path)
    once = path.read_text()
    outcome = quick("fmt", path)
    assert (outcome.status, outcome.stdout) == (0, "")
    assert path.read_text() == once


def test_json_says_which_files_changed(tmp_path: Path) -> None:
    untidy = written(tmp_path, UNTIDY, "untidy.mdp")
    tidy = written(tmp_path, UNTIDY, "tidy.mdp")
    quick("fmt", tidy)
    outcome = mdpdsl("fmt", untidy, tidy, "--json")
    assert outcome.status == 0
    assert outcome.json()["files"] == [
        {"path": str(untidy), "changed": True},
        {"path": str(tidy), "changed": False},
    ]


def test_check_fails_if_a_file_would_change_and_leaves_it_alone(tmp_path: Path) -> None:
    path = written(tmp_path, UNTIDY)
    outcome = mdpdsl("fmt", "--check", path)
    assert (outcome.status, outcome.stdout) == (1, f"{path}: would change\n")
    assert path.read_text() == UNTIDY
    outcome = quick("fmt", "--check", path, "--json")
    assert outcome.status == 1
    assert outcome.json()["files"] == [{"path": str(path), "changed": True}]
    assert path.read_text() == UNTIDY


def test_check_passes_what_is_formatted(tmp_path: Path) -> None:
    path = written(tmp_path, UNTIDY)
    quick("fmt", path)
    outcome = quick("fmt", "--check", path)
    assert (outcome.status, outcome.stdout) == (0, "")


def test_standard_input_goes_to_standard_output(tmp_path: Path) -> None:
    path = written(tmp_path, UNTIDY)
    outcome = mdpdsl("fmt", "-", stdin=UNTIDY.encode())
    quick("fmt", path)
    assert outcome.status == 0
    assert outcome.stdout == path.read_text()


def test_standard_input_can_be_checked() -> None:
    assert quick("fmt", "--check", "-", stdin=UNTIDY).status == 1
    tidy = quick("fmt", "-", stdin=UNTIDY).stdout
    assert quick("fmt", "--check", "-", stdin=tidy).status == 0


def test_standard_input_with_json_gives_one_object() -> None:
    outcome = mdpdsl("fmt", "-", "--json", stdin=UNTIDY.encode())
    assert outcome.status == 0
    (file,) = outcome.json()["files"]
    assert (file["path"], file["changed"]) == ("-", True)


def test_a_mistake_of_syntax_leaves_the_file_untouched(tmp_path: Path) -> None:
    path = written(tmp_path, BAD_SYNTAX)
    outcome = mdpdsl("fmt", path)
    assert outcome.status == 2
    assert f"{path}:3:" in outcome.stderr
    assert path.read_text() == BAD_SYNTAX
    outcome = mdpdsl("fmt", path, "--json")
    assert outcome.status == 2
    assert [record["line"] for record in outcome.json()["errors"]] == [3]
    assert path.read_text() == BAD_SYNTAX


def test_a_bad_file_does_not_keep_the_others_from_being_formatted(tmp_path: Path) -> None:
    bad = written(tmp_path, BAD_SYNTAX, "bad.mdp")
    untidy = written(tmp_path, UNTIDY, "untidy.mdp")
    outcome = quick("fmt", bad, untidy, "--json")
    assert outcome.status == 2
    assert outcome.json()["files"] == [{"path": str(untidy), "changed": True}]
    assert untidy.read_text() != UNTIDY


def test_a_mistake_of_meaning_does_not_matter(tmp_path: Path) -> None:
    path = written(tmp_path, "mdp   unfinished state x in 0..nowhere")
    assert quick("fmt", path).status == 0
    assert path.read_text() == "mdp unfinished\nstate x in 0..nowhere\n"


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o755])
def test_permissions_are_kept(tmp_path: Path, mode: int) -> None:
    path = written(tmp_path, UNTIDY)
    path.chmod(mode)
    quick("fmt", path)
    assert path.read_text() != UNTIDY
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    path = written(tmp_path, UNTIDY)
    link = tmp_path / "link.mdp"
    link.symlink_to(path)
    assert quick("fmt", link).status == 0
    assert link.is_symlink()
    assert path.read_text() != UNTIDY


def test_crlf_and_a_byte_order_mark_become_plain(tmp_path: Path) -> None:
    plain = written(tmp_path, UNTIDY, "plain.mdp")
    other = written(tmp_path, b"\xef\xbb\xbf" + UNTIDY.replace("\n", "\r\n").encode(), "other.mdp")
    quick("fmt", plain, other)
    assert other.read_bytes() == plain.read_bytes()


def test_an_empty_file_stays_empty(tmp_path: Path) -> None:
    path = written(tmp_path, "")
    assert quick("fmt", path).status == 0
    assert path.read_bytes() == b""


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00", b"\x00\x01"])
def test_what_cannot_be_read_is_an_error(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path if content is None else written(tmp_path, content)
    outcome = mdpdsl("fmt", path, "--json")
    assert outcome.status == 2
    assert outcome.json()["files"] == []
    assert outcome.json()["errors"][0]["code"] in {"E603", "E102"}


def test_a_file_that_cannot_be_written_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> NoReturn:
        raise PermissionError(13, "Permission denied")

    path = written(tmp_path, UNTIDY)
    monkeypatch.setattr(os, "replace", refuse)
    outcome = quick("fmt", path)
    assert outcome.status == 1
    assert "Permission denied" in outcome.stderr
    assert path.read_text() == UNTIDY
    assert [p.name for p in tmp_path.iterdir()] == ["model.mdp"], "nothing is left behind"


def test_a_formatted_model_still_passes_its_check(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    quick("fmt", path)
    assert quick("check", path).status == 0
