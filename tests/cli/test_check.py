"""`mdpdsl check`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.run import BAD_NAMES, BAD_SUM, BAD_SYNTAX, GOOD, mdpdsl, quick, written

RECORD_KEYS = {
    "code",
    "message",
    "line",
    "column",
    "end_line",
    "end_column",
    "help",
    "witness",
}


def test_a_good_file_passes_and_says_its_size(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    outcome = mdpdsl("check", path)
    assert outcome.status == 0
    assert outcome.stdout == f"{path}: ok (2 states, 4 pairs)\n"
    assert outcome.stderr == ""


def test_json_is_one_object_with_the_keys_of_the_contract(tmp_path: Path) -> None:
    path = written(tmp_path, BAD_NAMES)
    outcome = mdpdsl("check", path, "--json")
    assert outcome.status == 2
    (file,) = outcome.json()["files"]
    assert file["path"] == str(path)
    assert file["ok"] is False
    assert len(file["errors"]) == 2
    for record in file["errors"]:
        assert record.keys() >= RECORD_KEYS


def test_json_of_a_good_file_has_no_errors(tmp_path: Path) -> None:
    outcome = mdpdsl("check", written(tmp_path, GOOD), "--json")
    assert outcome.status == 0
    (file,) = outcome.json()["files"]
    assert (file["ok"], file["errors"]) == (True, [])


def test_all_mistakes_of_a_file_are_reported_together_on_standard_error(tmp_path: Path) -> None:
    path = written(tmp_path, BAD_NAMES)
    outcome = mdpdsl("check", path)
    assert outcome.status == 2
    assert outcome.stdout == f"{path}: 2 mistakes\n"
    for expected in (f"{path}:7:", "did you mean `left`?", f"{path}:9:", "did you mean `room`?"):
        assert expected in outcome.stderr


def test_a_mistake_points_at_its_place(tmp_path: Path) -> None:
    lines = mdpdsl("check", written(tmp_path, BAD_NAMES)).stderr.splitlines()
    place = next(i for i, line in enumerate(lines) if line.startswith("7 | "))
    start = lines[place].index("lft")
    assert lines[place + 1] == " " * 2 + "|" + " " * (start - 3) + "^^^"


def test_a_sum_that_is_not_1_names_a_witness_state(tmp_path: Path) -> None:
    path = written(tmp_path, BAD_SUM)
    (record,) = quick("check", path, "--json").json()["files"][0]["errors"]
    assert record["code"] == "E501"
    assert record["line"] == 6
    assert record["witness"]["state"] == {"room": "left"}
    assert "0.75" in record["message"]
    assert "room = left" in quick("check", path).stderr


def test_a_mistake_of_syntax_does_not_hide_the_others(tmp_path: Path) -> None:
    text = BAD_SYNTAX.replace("on wait -> stay", "on wat -> stay")
    records = quick("check", written(tmp_path, text), "--json").json()["files"][0]["errors"]
    assert {(record["code"], record["line"]) for record in records} >= {("E101", 3), ("E201", 8)}


def test_several_files_are_checked_each_for_itself(tmp_path: Path) -> None:
    good = written(tmp_path, GOOD, "good.mdp")
    bad = written(tmp_path, BAD_SUM, "bad.mdp")
    outcome = quick("check", good, bad, "riverswim", "--json")
    assert outcome.status == 2
    files = outcome.json()["files"]
    assert [file["path"] for file in files] == [str(good), str(bad), "riverswim"]
    assert [file["ok"] for file in files] == [True, False, True]
    assert quick("check", good, "riverswim").status == 0


def test_text_of_several_files_has_one_line_for_each(tmp_path: Path) -> None:
    good = written(tmp_path, GOOD, "good.mdp")
    bad = written(tmp_path, BAD_SUM, "bad.mdp")
    outcome = mdpdsl("check", bad, good)
    assert outcome.status == 2
    assert outcome.stdout.splitlines() == [f"{bad}: 1 mistake", f"{good}: ok (2 states, 4 pairs)"]


def test_warnings_do_not_fail(tmp_path: Path) -> None:
    text = GOOD.replace("init room = left\n", "state extra in 0..1\ninit room = left\n")
    outcome = quick("check", written(tmp_path, text), "--json")
    (file,) = outcome.json()["files"]
    assert outcome.status == 0
    assert (file["ok"], file["errors"]) == (True, [])
    assert [record["code"] for record in file["warnings"]] == ["W001"]


# Files that are no models


def _errors_of(path: Path | str) -> list[dict[str, object]]:
    outcome = mdpdsl("check", path, "--json")
    assert outcome.status == 2
    (file,) = outcome.json()["files"]
    assert file["ok"] is False
    errors: list[dict[str, object]] = file["errors"]
    assert errors
    return errors


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    (record,) = _errors_of(tmp_path / "nowhere.mdp")
    assert record["code"] == "E603"
    assert "nowhere.mdp" in str(record["message"])


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    (record,) = _errors_of(tmp_path)
    assert record["code"] == "E603"
    assert "directory" in str(record["message"])


def test_an_empty_name_is_a_missing_file() -> None:
    (record,) = _errors_of("")
    assert record["code"] == "E603"


def test_a_name_longer_than_file_systems_allow_is_a_missing_file() -> None:
    (record,) = _errors_of("a" * 5000)
    assert record["code"] == "E603"


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    (record,) = _errors_of(written(tmp_path, bytes(range(256)) * 4))
    assert record["code"] == "E603"
    assert "UTF-8" in f"{record['message']} {record['help']}"


def test_a_file_of_null_bytes_is_refused(tmp_path: Path) -> None:
    (record, *_) = _errors_of(written(tmp_path, b"\x00" * 100))
    assert record["code"] == "E102"


def test_latin_1_is_refused_and_utf_8_asked_for(tmp_path: Path) -> None:
    (record,) = _errors_of(written(tmp_path, GOOD.replace("Two", "Zwölf").encode("latin-1")))
    assert record["code"] == "E603"
    assert "UTF-8" in f"{record['message']} {record['help']}"


def test_an_empty_file_has_no_model(tmp_path: Path) -> None:
    errors = _errors_of(written(tmp_path, ""))
    assert {record["code"] for record in errors} == {"E104"}


def test_a_file_of_comments_has_no_model(tmp_path: Path) -> None:
    errors = _errors_of(written(tmp_path, "# nothing\n# at all\n"))
    assert {record["code"] for record in errors} == {"E104"}


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + GOOD.encode(),
        GOOD.replace("\n", "\r\n").encode(),
        GOOD.replace("\n", "\r").encode(),
        GOOD.replace("\n", " ").encode(),
        GOOD.rstrip("\n").encode(),
        GOOD.replace(" ", "\t").encode(),
    ],
    ids=["byte order mark", "CRLF", "CR", "one line", "no final line break", "tabs"],
)
def test_what_editors_do_to_files_changes_nothing(tmp_path: Path, content: bytes) -> None:
    outcome = quick("check", written(tmp_path, content))
    assert outcome.status == 0, outcome.stderr
    assert "2 states, 4 pairs" in outcome.stdout


def test_line_numbers_count_lines_that_end_in_crlf_once(tmp_path: Path) -> None:
    path = written(tmp_path, BAD_SUM.replace("\n", "\r\n"))
    (record,) = quick("check", path, "--json").json()["files"][0]["errors"]
    assert (record["line"], record["column"]) == (6, 28)


def test_control_characters_of_a_file_do_not_reach_the_terminal(tmp_path: Path) -> None:
    text = GOOD.replace("on wait -> stay", "on wait -> \x1b[2J # \x1b]0;title\x07")
    outcome = mdpdsl("check", written(tmp_path, text))
    assert outcome.status == 2
    assert not {"\x1b", "\x07"} & set(outcome.stderr + outcome.stdout)


# Shipped models


def test_a_bare_name_finds_the_shipped_model(tmp_path: Path) -> None:
    outcome = mdpdsl("check", "riverswim", folder=tmp_path)
    assert (outcome.status, outcome.stdout) == (0, "riverswim: ok (6 states, 12 pairs)\n")


def test_a_file_comes_before_the_shipped_model_of_its_name(tmp_path: Path) -> None:
    written(tmp_path, GOOD, "riverswim")
    outcome = mdpdsl("check", "riverswim", folder=tmp_path)
    assert outcome.stdout == "riverswim: ok (2 states, 4 pairs)\n"


def test_a_misspelt_shipped_model_gets_a_hint() -> None:
    (record,) = _errors_of("riversim")
    assert record["help"] == "did you mean `riverswim`?"
    assert "did you mean `riverswim`?" in quick("check", "riversim").stderr


def test_parameters_are_set_for_checking_too(tmp_path: Path) -> None:
    path = written(tmp_path, BAD_SUM)
    assert quick("check", path, "--set", "p=0.75").status == 0
