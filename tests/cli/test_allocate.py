"""`mdpdsl allocate` as a person or a program runs it."""

import csv
from pathlib import Path

import numpy as np
import pytest

import mdpdsl as package
from mdpdsl.formats.policy_files import load_policy
from tests.cli.run import mdpdsl, quick, written

KEYS = {"kappa", "status", "objective", "gap", "worst", "average", "seconds"}

TRANSIENT = """\
mdp trap
state place in {start, left, right}
action go, stop
init place = start
on go when place == start -> 0.5: place' = left | 0.5: place' = right
on go otherwise -> 0.5: stay | 0.5: place' = left
on stop -> stay
"""

TWO_PARTS = """\
mdp fork
state place in {start, a, b, c, d}
action go
init place = start
on go when place == start -> 0.5: place' = a | 0.5: place' = c
on go when place == a or place == b -> 0.5: place' = a | 0.5: place' = b
on go otherwise -> 0.3: place' = c | 0.7: place' = d
"""


def test_the_worst_case_of_the_pendulum_says_what_the_contract_says() -> None:
    outcome = mdpdsl("allocate", "pendulum", "--kappa", "inf", "--json")
    assert outcome.status == 0
    record = outcome.json()
    assert KEYS | {"hash", "parameters", "versions"} <= record.keys()
    assert (record["kappa"], record["status"]) == ("inf", "optimal")
    assert record["worst"] == pytest.approx(257.365, abs=0.05)
    assert record["objective"] == pytest.approx(record["worst"])
    assert record["gap"] <= 1e-6
    assert record["residual"] <= 1e-9
    assert record["rarest"][0]["occupancy"] <= record["most_visited"][0]["occupancy"]
    assert record["rarest"][0]["state"].keys() == {"theta", "omega"}


def test_the_average_case_of_the_pendulum_is_kappa_two_with_roots() -> None:
    record = quick("allocate", "pendulum", "--kappa", "2", "--distance", "root-l2", "--json").json()
    assert record["average"] == pytest.approx(159.152, abs=0.05)
    # F of the roots is the sum of c/d.
    assert record["objective"] == pytest.approx(record["average"] * 500)


def test_the_linear_program_agrees() -> None:
    arguments = ("allocate", "pendulum", "--kappa", "inf", "--method", "lp", "--json")
    assert quick(*arguments).json()["worst"] == pytest.approx(257.365, abs=0.05)


def test_kappa_is_that_of_the_model_by_default() -> None:
    assert quick("allocate", "pendulum", "--json").json()["kappa"] == 10
    assert quick("allocate", "riverswim", "--json").json()["kappa"] == 1
    assert quick("allocate", "riverswim", "--kappa", "1_000", "--json").json()["kappa"] == 1000


def test_parameters_are_overridden() -> None:
    record = quick("allocate", "riverswim", "--set", "n=9", "--json").json()
    assert (record["pairs"], record["parameters"]["n"]) == (18, 9)


def test_an_objective_that_overflows_is_null() -> None:
    record = quick("allocate", "pendulum", "--kappa", "1.0001", "--json").json()
    assert record["objective"] is None
    assert record["gap"] <= 1e-6


def test_a_person_sees_a_table() -> None:
    text = quick("allocate", "riverswim", "--kappa", "inf").stdout
    assert "L_Worst" in text
    assert "3.77764" in text
    assert "right in pos = " in text
    assert "6 of 12 pairs have a certain successor" in text


def test_shares_and_policy_are_written_with_names(tmp_path: Path) -> None:
    shares, policy = tmp_path / "d.csv", tmp_path / "pi.csv"
    outcome = quick("allocate", "riverswim", "--out", shares, "--policy-out", policy, "--json")
    assert (outcome.json()["out"], outcome.json()["policy_out"]) == (str(shares), str(policy))
    with shares.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert (rows[1]["pos"], rows[1]["action"]) == ("0", "right")
    assert sum(float(row["occupancy"]) for row in rows) == pytest.approx(1)
    with policy.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert float(rows[0]["probability"]) + float(rows[1]["probability"]) == pytest.approx(1)


def test_shares_and_policy_are_written_as_arrays(tmp_path: Path) -> None:
    shares, policy = tmp_path / "d.npz", tmp_path / "pi.npz"
    assert quick("allocate", "riverswim", "--out", shares, "--policy-out", policy).status == 0
    graph = package.load("riverswim").graph
    with np.load(shares) as file:
        assert (str(file["kind"]), str(file["hash"])) == ("occupancy", graph.hash)
        d = file["occupancy"]
    with np.load(policy) as file:
        assert (str(file["kind"]), str(file["hash"])) == ("policy", graph.hash)
        assert file["probability"][0::2] == pytest.approx(d[0::2] / (d[0::2] + d[1::2]))
    assert load_policy(policy, graph).model == "riverswim"


def test_a_model_without_chance_leaves_nothing_to_estimate() -> None:
    record = quick("allocate", "windy_gridworld", "--kappa", "10", "--json").json()
    assert (record["status"], record["worst"], record["objective"]) == ("optimal", 0, 0)
    assert "nothing to estimate" in quick("allocate", "windy_gridworld").stdout


def test_pairs_that_no_policy_can_keep_visiting_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, TRANSIENT)
    outcome = mdpdsl("allocate", path, "--json")
    assert outcome.status == 2
    message = outcome.json()["errors"][0]["message"]
    assert "go in place = start" in message
    assert "go in place = right" in message
    assert "recurrent" in message
    record = quick("allocate", path, "--recurrent", "--json").json()
    assert (record["status"], record["left_out"]) == ("optimal", 4)


def test_of_two_parts_one_is_chosen(tmp_path: Path) -> None:
    path = written(tmp_path, TWO_PARTS)
    outcome = mdpdsl("allocate", path, "--recurrent")
    assert outcome.status == 2
    assert "1 (2 pairs, with place = a), 2 (2 pairs, with place = c)" in outcome.stderr
    record = quick("allocate", path, "--recurrent", "--component", "2", "--json").json()
    assert record["worst"] == pytest.approx(0.42 / 0.3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kappa", "0.5"], "kappa must be 1 or more, or inf; not `0.5`"),
        (["--kappa", "nan"], "kappa must be 1 or more"),
        (["--kappa", "many"], "not `many`"),
        (["--distance", "l3"], "squared-l2"),
        (["--out", "shares.txt"], "ending in .npz or .csv"),
        (["--policy-out", "policy"], "ending in .npz or .csv"),
        (["--method", "lp", "--kappa", "2"], "--method lp needs --kappa inf"),
        (["--method", "lp", "--kappa", "inf", "--backend", "hihgs"], "did you mean `highs`"),
        (["--component", "1"], "--component needs --recurrent"),
        (["--recurrent", "--component", "7"], "there is no component 7"),
        (["--time-limit", "0"], "--time-limit"),
        (["--set", "m=3"], "unknown parameter `m`"),
    ],
)
def test_mistakes_exit_with_status_two(arguments: list[str], message: str) -> None:
    outcome = quick("allocate", "riverswim", *arguments)
    assert outcome.status == 2
    assert message in outcome.stderr


def test_a_model_without_dynamics_is_refused() -> None:
    outcome = quick("allocate", "pendulum_unknown")
    assert outcome.status == 2
    assert "no dynamics" in outcome.stderr


def test_an_explore_block_with_a_kappa_below_one_is_refused(tmp_path: Path) -> None:
    outcome = quick("allocate", written(tmp_path, TRANSIENT + "explore { kappa = 0.5 }\n"))
    assert outcome.status == 2
    assert "kappa must be 1 or more" in outcome.stderr


def test_what_a_time_limit_leaves_undone_is_said() -> None:
    outcome = quick("allocate", "mountain_car", "--time-limit", "1e-9", "--json")
    assert outcome.status == 1
    record = outcome.json()
    assert (record["status"], record["gap"], record["worst"]) == ("time limit", None, None)


def test_a_file_that_cannot_be_written_fails(tmp_path: Path) -> None:
    outcome = mdpdsl("allocate", "riverswim", "--out", "/proc/nowhere/d.csv")
    assert outcome.status == 1
    assert "cannot write /proc/nowhere/d.csv" in outcome.stderr
