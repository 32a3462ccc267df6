"""`mdpdsl solve RUN --robust`."""

from __future__ import annotations

from pathlib import Path

import pytest

import mdpdsl
from tests.cli.run import Outcome, quick, written
from tests.cli.run import mdpdsl as process

MODEL = """\
mdp hurry
state x in 0..4
action safe, quick
init x = 0
end when x == 3 or x == 4
on safe -> 0.6: x' = min(x + 1, 3) | 0.39: stay | 0.01: x' = 4
on quick -> 0.5: x' = 3 | 0.45: x' = 0 | 0.05: x' = 4
label goal when x == 3
label lost when x == 4
reward : x
reward energy on safe : 1
reward energy on quick : 2
property soon = Pmax=? [ F<=8 "goal" ]
"""
KEYS = {
    "guaranteed",
    "possible",
    "estimate",
    "delta",
    "sets",
    "support",
    "shape",
    "holds_when",
    "sentence",
    "pairs_to_visit",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of estimate."""
    folder = tmp_path_factory.mktemp("robust")
    model = written(folder, MODEL)
    mdpdsl.simulate(mdpdsl.load(model), steps=4_000, seed=1, out=folder / "log.csv")
    outcome = quick("estimate", model, folder / "log.csv", "--out", folder / "run", "--json")
    assert outcome.status == 0
    return folder / "run"


def refused(outcome: Outcome) -> str:
    assert outcome.status == 2
    assert outcome.stdout == ""
    return " ".join(outcome.stderr.split())


def test_the_answer_is_a_table_a_sentence_and_a_policy(run: Path) -> None:
    outcome = process("solve", run, "--robust", "--reach", "goal")
    assert (outcome.status, outcome.stderr) == (0, "")
    lines = outcome.stdout.splitlines()
    names = [line.split(maxsplit=1)[0] for line in lines[1:7]]
    assert names == ["task", "status", "guaranteed", "possible", "estimate", "sets"]
    found = mdpdsl.solve(mdpdsl.open_run(run), reach="goal", robust=True)
    assert isinstance(found, mdpdsl.RobustSolution)
    assert lines[3] == f"guaranteed  {found.guaranteed_text} (with confidence 0.9)"
    assert lines[4] == f"possible    {found.possible_text} (no policy can do better)"
    assert "delta = 0.1, support seen; they hold at every look" in lines[6]
    start = lines.index("") + 1
    assert lines[start] == found.sentence
    assert lines[start + 1 : lines.index("", start)] == [f"  {line}" for line in found.pair_lines]
    assert lines[-5].split() == ["0", "quick", f"{found.guaranteed_text}"]


def test_json_has_the_keys_of_the_contract(run: Path) -> None:
    found = quick("solve", run, "--robust", "--reach", "goal", "--json").json()
    assert found.keys() >= KEYS
    assert found["guaranteed"] == found["value"] == found["lower"]
    assert found["possible"] == found["upper"]
    assert found["guaranteed"] < found["estimate"] < found["possible"]
    assert (found["delta"], found["sets"], found["support"]) == (0.1, "time-uniform", "seen")
    assert (found["shape"], found["bound_of"], found["status"]) == ("intervals", "sets", "optimal")
    (pair,) = found["pairs_to_visit"]
    assert (pair["state"], pair["action"]) == ({"x": 0}, "quick")
    assert pair["visits"] > 0
    assert pair["gain"] > 0
    least = quick("solve", run, "--robust", "--reach", "lost", "--min", "--json").json()
    assert least["guaranteed"] == least["upper"] > least["possible"] == least["lower"]


def test_the_risk_the_support_and_the_shape_replace_those_of_the_run(run: Path) -> None:
    options = ("--delta", "0.01", "--support", "model", "--shape", "kl")
    found = quick("solve", run, "--robust", "--property", "soon", *options, "--json").json()
    assert (found["delta"], found["support"], found["shape"]) == (0.01, "model", "kl")
    assert found["sentence"].startswith("With 99 % confidence this policy satisfies F<=8")
    again = mdpdsl.solve(
        mdpdsl.open_run(run), "soon", robust=True, delta=0.01, support="model", shape="kl"
    )
    assert found["value"] == again.value


@pytest.mark.parametrize(("least", "answer"), [(0.6, "yes"), (0.9, "undecided"), (0.9999, "no")])
def test_a_threshold_is_answered(run: Path, least: float, answer: str) -> None:
    outcome = quick("solve", run, "--robust", "--property", f'Pmax>={least} [ F "goal" ]')
    assert outcome.status == 0
    assert f"holds       {answer}" in outcome.stdout


def test_every_property_of_a_file_is_answered(run: Path, tmp_path: Path) -> None:
    text = '"win": Pmax>=0.6 [ F "goal" ]\n\nR{"energy"}min=? [ C<=k ]\n'
    props = written(tmp_path, f"const int k;\n{text}", "all.props")
    refused(quick("solve", run, "--robust", "--props", props))
    outcome = quick("solve", run, "--robust", "--props", props, "--set", "k=6")
    assert outcome.status == 0
    assert outcome.stdout.startswith('win: Pmax>=0.6 [ F "goal" ]\n  yes: guaranteed 0.836')
    found = quick("solve", run, "--robust", "--props", props, "--set", "k=6", "--json").json()
    assert [one.keys() >= KEYS for one in found["properties"]] == [True, True]


def test_a_policy_and_its_values_are_written(run: Path, tmp_path: Path) -> None:
    policy, values = tmp_path / "policy.csv", tmp_path / "values.csv"
    files = ("--policy-out", policy, "--values-out", values)
    assert quick("solve", run, "--robust", "--reach", "goal", *files).status == 0
    assert policy.read_text().splitlines()[:2] == ["x,action,probability", "0,quick,1.0"]
    assert len(values.read_text().splitlines()) == 6
    imagined = ("simulate", run, "--policy", policy, "--steps", "50", "--out", tmp_path / "log.csv")
    assert quick(*imagined).status == 0


def test_a_run_of_an_explorer_has_a_robust_answer(tmp_path: Path) -> None:
    model, out = written(tmp_path, MODEL), tmp_path / "run"
    explored = quick("explore", model, "--steps", "2_000", "--trials", "2", "--out", out, "--json")
    assert explored.status == 0
    found = quick("solve", out, "--robust", "--reach", "goal", "--json").json()
    assert 0.5 < found["guaranteed"] < found["possible"]
    assert found["support"] == "model"


def test_a_time_limit_leaves_valid_bounds_and_says_so(run: Path) -> None:
    asked = ("solve", run, "--robust", "--reach", "goal", "--json")
    whole = quick(*asked).json()
    outcome = quick(*asked, "--time-limit", "1e-9")
    found = outcome.json()
    assert (outcome.status, found["status"]) in [(1, "time limit"), (0, "optimal")]
    assert found["guaranteed"] <= whole["guaranteed"] + 1e-9
    assert found["possible"] >= whole["possible"] - 1e-9


def test_a_model_instead_of_a_run_is_refused(run: Path) -> None:
    for model in ("frozen_lake", run.parent / "model.mdp", "nowhere"):
        said = refused(quick("solve", model, "--robust", "--reach", "goal"))
        assert "--robust needs the folder of a run, made by `mdpdsl estimate`" in said
        assert f"{model} is none" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--robust", "--set", "n=3"), "leave out --set, --all-states and --max-states"),
        (("--robust", "--all-states"), "--robust takes a run as it is"),
        (("--robust", "--shape", "l2"), "'l2' is not one of 'intervals', 'l1', 'kl'"),
        (("--robust", "--support", "some"), "'some' is not one of 'seen', 'all', 'model'"),
        (("--robust", "--delta", "0"), "must be between 0 and 1"),
        (("--robust", "--method", "vi"), "has one method only"),
        (("--robust", "--reach", "gaol"), "goal"),
        (("--delta", "0.1"), "is about sets of rows"),
        (("--support", "all"), "is about sets of rows"),
        (("--shape", "l1"), "is about sets of rows"),
    ],
)
def test_mistakes_say_what_to_do(run: Path, options: tuple[str, ...], message: str) -> None:
    assert message in refused(quick("solve", run, *options))
    found = quick("solve", run, *options, "--json")
    assert found.status == 2
