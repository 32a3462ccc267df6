"""`mdpdsl solve`."""

from __future__ import annotations

import csv
import json
import signal
from pathlib import Path

import numpy as np
import pytest

import mdpdsl
from mdpdsl.formats.policy_files import load_policy
from mdpdsl.progress import Watch
from mdpdsl.solve.discounted import solve_discounted
from tests.cli.run import BAD_SUM, GOOD, quick, written
from tests.cli.run import mdpdsl as process

KEYS = {
    "status",
    "method",
    "value",
    "iterations",
    "residual",
    "seconds",
    "bound",
    "discount",
    "direction",
    "label",
    "hash",
    "parameters",
    "versions",
    "states",
    "pairs",
}

#: A walk of many steps, slow for every method of sweeps at a discount so near 1.
SLOW = """\
mdp slow
state x in 0..39_999
action ahead, back
init x = 0
on ahead -> 0.51: x' = min(x + 1, 39_999) | 0.49: x' = max(x - 1, 0)
on back -> 0.49: x' = min(x + 1, 39_999) | 0.51: x' = max(x - 1, 0)
reward when x == 39_999 : 1
label there when x == 39_999
label here when x == 0
"""


def test_json_has_the_keys_of_the_contract_and_the_right_numbers() -> None:
    outcome = process("solve", "frozen_lake", "--json")
    assert outcome.status == 0
    found = outcome.json()
    assert found.keys() >= KEYS
    expected = {
        "status": "optimal",
        "method": "pi",
        "discount": 0.99,
        "direction": "max",
        "label": None,
        "states": 16,
        "pairs": 44,
    }
    assert {key: found[key] for key in expected} == expected
    assert found["value"] == pytest.approx(0.542025932, abs=1e-8)
    assert 0 <= found["bound"] <= 1e-6
    assert found["hash"] == mdpdsl.load("frozen_lake").graph.hash


@pytest.mark.parametrize("method", ["auto", "vi", "mpi", "pi", "lp"])
def test_reachability_has_the_closed_form_by_every_method(method: str) -> None:
    found = quick("solve", "frozen_lake", "--reach", "goal", "--method", method, "--json").json()
    assert found["value"] == pytest.approx(14 / 17, abs=2e-6)
    assert (found["label"], found["discount"], found["direction"]) == ("goal", None, "max")
    assert abs(found["value"] - 14 / 17) <= found["bound"] + 1e-12


def test_min_asks_for_the_least() -> None:
    # Along the wall one can go to and fro for ever, or into a hole for sure.
    for direction, value in (("--min", 0), ("--max", 1)):
        found = quick("solve", "frozen_lake", "--reach", "hole", direction, "--json").json()
        assert (found["value"], found["direction"]) == (value, direction[2:])
    cost = quick("solve", "windy_gridworld", "--min", "--json").json()
    reward = quick("solve", "windy_gridworld", "--max", "--json").json()
    assert cost["direction"] == "min"
    assert cost["value"] < reward["value"]


def test_text_shows_the_policy_by_values_and_names() -> None:
    outcome = process("solve", "riverswim")
    assert (outcome.status, outcome.stderr) == (0, "")
    for expected in ("optimal", "37.854701", "maximal reward, discount 0.99", "pos  action"):
        assert expected in outcome.stdout
    table = [line.split() for line in outcome.stdout.splitlines()[-6:]]
    assert [(line[0], line[1]) for line in table] == [(str(pos), "right") for pos in range(6)]


def test_top_and_all_choose_what_is_printed() -> None:
    assert "--top N or --all" in quick("solve", "taxi").stdout
    best = quick("solve", "taxi", "--top", "3").stdout.splitlines()[-3:]
    values = [float(line.split()[-1]) for line in best]
    assert values == sorted(values, reverse=True)
    assert len(quick("solve", "taxi", "--all").stdout.splitlines()) > 500
    first = [quick("solve", "riverswim", "--top", "1", d).stdout for d in ("--max", "--min")]
    assert [lines.splitlines()[-1].split()[0] for lines in first] == ["5", "0"]


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".json"])
def test_files_hold_the_policy_and_the_values(suffix: str, tmp_path: Path) -> None:
    policy, values = tmp_path / f"p{suffix}", tmp_path / f"v{suffix}"
    outcome = quick("solve", "riverswim", "--policy-out", policy, "--values-out", values, "--json")
    assert outcome.json()["policy"] == str(policy)
    graph = mdpdsl.load("riverswim").graph
    loaded = load_policy(policy, graph)
    np.testing.assert_array_equal(loaded.probability, np.tile([0.0, 1.0], 6))
    if suffix == ".npz":
        with np.load(values) as file:
            assert str(file["kind"]) == "values"
            found = file["values"].tolist()
    elif suffix == ".csv":
        with values.open(newline="") as table:
            rows = list(csv.DictReader(table))
        assert [row["action"] for row in rows] == ["right"] * 6
        found = [float(row["value"]) for row in rows]
    else:
        found = [row[-1] for row in json.loads(values.read_text())["rows"]]
    expected = solve_discounted(graph).values
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (("weather",), ("no rewards", "reward when", "--reach")),
        (("frozen_lake", "--reach", "gaol"), ("did you mean `goal`?", "hole, goal")),
        (("forest", "--reach", "goal"), ("no label `goal`", "it has none")),
        (("riverswim", "--discount", "1"), ("below 1",)),
        (("riverswim", "--discount", "1.5"), ("not in [0, 1)",)),
        (("riverswim", "--discount", "nan"), ("not in [0, 1)",)),
        (("riverswim", "--reach", "goal", "--discount", "0.9"), ("leave out --discount",)),
        (("riverswim", "--tolerance", "0"), ("positive",)),
        (("riverswim", "--tolerance", "-1e-3"), ("positive",)),
        (("riverswim", "--method", "dp"), ("'auto', 'vi', 'mpi', 'pi', 'lp'",)),
        (("riverswim", "--backend", "highs"), ("--method lp",)),
        (("riverswim", "--method", "lp", "--backend", "hihgs"), ("did you mean `highs`?",)),
        (("riverswim", "--time-limit", "0"), ("x>0",)),
        (
            ("riverswim", "--policy-out", "p.txt"),
            ("--policy-out: the file must end in .npz, .csv, .json, not `p.txt`",),
        ),
        (
            ("riverswim", "--values-out", "v.xlsx"),
            ("--values-out: the file must end in .npz, .csv, .json, not `v.xlsx`",),
        ),
        (("riverswim", "--policy-out", "nowhere/p.csv"), ("no folder nowhere",)),
        (("riverswim", "--top", "3", "--all"), ("not both",)),
        (("riverswim", "--set", "m=3"), ("m",)),
        (("riverswym",), ("did you mean `riverswim`?",)),
        (("pendulum_unknown",), ("unknown",)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_mistake_exits_with_2_and_says_what_would_be_right(
    arguments: tuple[str, ...], messages: tuple[str, ...]
) -> None:
    outcome = quick("solve", *arguments)
    assert (outcome.status, outcome.stdout) == (2, "")
    for message in messages:
        assert message in outcome.stderr


def test_a_mistake_of_the_model_is_reported_as_everywhere(tmp_path: Path) -> None:
    outcome = process("solve", written(tmp_path, BAD_SUM), "--json")
    assert outcome.status == 2
    assert outcome.json()["errors"][0]["code"] == "E501"
    usage = process("solve", written(tmp_path, GOOD), "--reach", "their", "--json")
    assert usage.status == 2
    assert "did you mean `there`?" in usage.json()["errors"][0]["message"]


@pytest.mark.parametrize(
    "task",
    [
        ("--discount", "0.9999999", "--method", "vi"),
        ("--reach", "there", "--min", "--method", "mpi"),
    ],
    ids=" ".join,
)
def test_a_time_limit_ends_with_1_and_a_bound(task: tuple[str, ...], tmp_path: Path) -> None:
    # For the least chance to be there before being here, being here must end it.
    text = SLOW.replace("on ahead ->", "on any when x == 0 -> stay\non ahead otherwise ->")
    text = text.replace("on back ->", "on back otherwise ->").replace(
        "init x = 0", "init x = 20_000"
    )
    path = written(tmp_path, text if "--reach" in task else SLOW)
    outcome = quick("solve", path, *task, "--time-limit", "0.5", "--tolerance", "1e-9", "--json")
    found = outcome.json()
    assert (outcome.status, found["status"]) == (1, "time limit")
    assert found["bound"] > 1e-9


def test_ctrl_c_ends_with_1_and_the_bound_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_looks = 0
    look = Watch.__call__

    def press_at_the_fifth_look(watch: Watch, iterations: int, bound: float) -> bool:
        nonlocal n_looks
        n_looks += 1
        if n_looks == 5:
            signal.raise_signal(signal.SIGINT)
        return look(watch, iterations, bound)

    monkeypatch.setattr(Watch, "__call__", press_at_the_fifth_look)
    path, policy = written(tmp_path, SLOW), tmp_path / "p.csv"
    arguments = ("--discount", "0.99999999", "--method", "vi", "--policy-out", policy)
    outcome = quick("solve", path, *arguments, "--json")
    found = outcome.json()
    assert (outcome.status, found["status"]) == (1, "interrupted")
    assert found["iterations"] > 0
    assert found["bound"] > 1e-6
    assert n_looks == 5
    assert policy.exists()


def test_a_tolerance_beyond_rounding_ends_with_1() -> None:
    outcome = quick("solve", "riverswim", "--tolerance", "1e-18", "--json")
    assert (outcome.status, outcome.json()["status"]) == (1, "precision limit")


def test_parameters_are_set_and_shown() -> None:
    found = quick("solve", "riverswim", "--set", "n=9", "--json").json()
    assert found["parameters"]["n"] == 9
    assert found["states"] == 9
