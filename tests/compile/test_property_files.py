"""Files of properties: their constants and labels, and golden cases of what is wrong with some."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import mdpdsl
from mdpdsl.compile.properties import question, questions_of_file, undefined_constants
from mdpdsl.diagnostics import Diagnostic, ModelError
from mdpdsl.graph.objectives import Cumulative, Total, Until
from mdpdsl.graph.space import Value

GOLDEN = Path(__file__).parent.parent / "golden" / "properties"
CASES = sorted(GOLDEN.glob("*.props"))

MODEL = """\
mdp m
param n = 3
state x in 0..n
action go, wait
init x = 0
let far = x > 1
on go -> x' = min(x + 1, n)
on wait -> stay
reward : x
reward energy on go : 1
label goal when x == n
"""


def mistakes(path: Path, constants: dict[str, Value] | None = None) -> tuple[Diagnostic, ...]:
    model = mdpdsl.loads(MODEL)
    with pytest.raises(ModelError) as caught:
        questions_of_file(model, model.graph, path, constants)
    return caught.value.diagnostics


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_errors_are_rendered_as_in_the_golden_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(GOLDEN)
    rendered = "\n\n".join(d.render() for d in mistakes(Path(path.name))) + "\n"
    golden = path.with_suffix(".txt")
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(rendered, "utf-8")
    assert rendered == golden.read_text("utf-8")


def write(folder: Path, text: str) -> Path:
    path = folder / "asked.props"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_is_a_list_of_questions(tmp_path: Path) -> None:
    text = """// what we ask
        const int k;
        const double p = k/10;
        const bool either = true | false;
        label "near" = far & !"goal" & either;
        "soon": Pmax>=p [ F<=k "near" ];
        R{"energy"}min=? [ F "goal" ]
        "sum": Rmax=? [ C<=(2*k) ];
    """
    model = mdpdsl.loads(MODEL)
    path = write(tmp_path, text)
    assert undefined_constants(path) == ("k",)
    soon, cost, total = questions_of_file(model, model.graph, path, {"k": 2})
    assert (soon.name, cost.name, total.name) == ("soon", None, "sum")
    assert (soon.comparison, soon.threshold, soon.for_all) == (">=", 0.2, False)
    assert isinstance(soon.objective, Until)
    assert soon.objective.goal.tolist() == [False, False, True, False]
    assert soon.objective.steps == 2
    assert isinstance(cost.objective, Total)
    assert cost.objective.reward.tolist() == [1, 0] * 4
    assert isinstance(total.objective, Cumulative)
    assert total.objective.steps == 4
    assert total.text == "Rmax=? [ C<=(2*k) ]"


def test_constants_may_be_used_before_they_are_declared(tmp_path: Path) -> None:
    path = write(tmp_path, "Pmax=? [ F<=j x = k ] const int j = k + n; const int k = 2;")
    model = mdpdsl.loads(MODEL)
    (found,) = questions_of_file(model, model.graph, path)
    assert isinstance(found.objective, Until)
    assert found.objective.steps == 5
    assert found.objective.goal.tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    ("text", "constants", "code", "message"),
    [
        ("const int k;", {"k": 2.5}, "E602", "the constant `k` must be an integer, not `2.5`"),
        ("const int k;", {"k": "often"}, "E602", "the constant `k` must be an integer"),
        ("const bool k;", {"k": 1}, "E602", "the constant `k` must be a Boolean"),
        ("const int k;", {"k": 2, "j": 3}, "E601", "the file declares no constant `j`"),
        ("const int k = 3;", {"k": 2}, "E601", "the constant `k` already has a value"),
        ("const int n = 3;", {}, "E202", "`n` is already declared as a param"),
        ("const int j = j + 1;", {}, "E204", "`j` depends on itself"),
        ("const int e = 1;", {}, "E203", "`e` is a built-in constant"),
        ("const int k; P<1 [ F<=k far ]", {}, "E604", "the constant `k` has no value"),
    ],
)
def test_constants_are_checked(
    text: str, constants: dict[str, Value], code: str, message: str, tmp_path: Path
) -> None:
    found = mistakes(write(tmp_path, text), constants)
    assert [d.code for d in found] == [code]
    assert message in found[0].message


def test_a_constant_that_is_not_used_needs_no_value(tmp_path: Path) -> None:
    model = mdpdsl.loads(MODEL)
    path = write(tmp_path, "const int k; const double p; Pmax=? [ F far ]")
    assert len(questions_of_file(model, model.graph, path)) == 1


@pytest.mark.parametrize("ending", [".props", ".pctl", ".prctl", ".txt"])
def test_the_ending_of_the_file_does_not_matter(ending: str, tmp_path: Path) -> None:
    model = mdpdsl.loads(MODEL)
    path = tmp_path / f"asked{ending}"
    path.write_text("Pmax=? [ F far ]\n")
    assert questions_of_file(model, model.graph, str(path))[0].text == "Pmax=? [ F far ]"


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    (missing,) = mistakes(tmp_path / "none.props")
    assert missing.code == "E603"
    assert "no such file" in missing.message
    (tmp_path / "odd.props").write_bytes(b"Pmax=? [ F \xff ]")
    (odd,) = mistakes(tmp_path / "odd.props")
    assert "byte 11 is not UTF-8" in odd.message


def test_a_text_may_come_with_constants() -> None:
    model = mdpdsl.loads(MODEL)
    found = question(model, model.graph, "Pmax>=p [ F<=k far ]", {"k": 4, "p": "1/2"})
    assert isinstance(found.objective, Until)
    assert (found.objective.steps, found.threshold) == (4, 0.5)
    for constants, message in (
        ({"n": 4}, "`n` is a name of the model"),
        ({"k": "often"}, "must be a number or a truth value"),
    ):
        with pytest.raises(ModelError, match=message):
            question(model, model.graph, "Pmax=? [ F far ]", constants)
