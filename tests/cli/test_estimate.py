from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mdpdsl.formats.npz import from_npz
from tests.cli.run import mdpdsl, quick, written

MODEL = "mdp spaces\nstate x in 0..2\naction a, b\n"
LOG = "episode,time,x,action\n0,0,0,a\n0,1,1,b\n0,2,2,b\n0,3,7,b\n0,4,0,a\n0,6,0,b\n"


def test_the_json_keeps_its_contract_and_the_run_holds_every_file(tmp_path: Path) -> None:
    model, log = written(tmp_path, MODEL), written(tmp_path, LOG, "log.csv")
    out = tmp_path / "run"
    outcome = quick("estimate", model, log, "--json", "--out", out, "--delta", "0.2")
    assert outcome.status == 0
    record = outcome.json()
    assert (record["transitions"], record["rows"]) == (2, 6)
    assert record["rejected"] == {"state out of range": 1, "gap in time": 1}
    assert record["examples"]["state out of range"] == [
        {"file": str(log), "row": 4, "found": "x = '7'"}
    ]
    assert (record["pairs_seen"], record["pairs_unseen"]) == (2, 4)
    assert {"state": {"x": 0}, "action": "b"} in record["unseen"]
    assert len(record["unseen"]) == 4
    assert (record["worst_radius"], record["run"]) == (2.0, str(out))
    run = json.loads((out / "run.json").read_text())
    assert (run["command"], run["model"], run["hash"]) == ("estimate", "spaces", record["hash"])
    assert run["settings"]["files"] == [{"path": str(log), "bytes": len(LOG), "rows": 6}]
    assert {"pyarrow", "numpy"} <= run["versions"].keys()
    graph = from_npz(out / "estimate.npz")
    graph.validate()
    successors, probabilities = graph.row(graph.pair(1, 1))
    assert (successors.tolist(), probabilities.tolist()) == ([2], [1.0])
    with np.load(out / "intervals.npz") as file:
        assert file["entry_risk"] == pytest.approx(0.2 / (6 * 3))
        assert (file["upper"] == 1).all()
        assert (file["unseen_upper"] < 1).sum() == 2
    with np.load(out / "radii.npz") as file:
        assert file["radius"].max() == 2
    assert json.loads((out / "rejected.json").read_text())["rejected"] == record["rejected"]


def test_the_text_names_what_was_rejected_and_never_seen(tmp_path: Path) -> None:
    model, log = written(tmp_path, MODEL), written(tmp_path, LOG, "log.csv")
    outcome = quick("estimate", model, log, "--out", tmp_path / "run")
    assert outcome.status == 0
    assert f"{log}, row 4: x = '7'" in outcome.stdout
    assert "time 6 after 4" in outcome.stdout
    assert "b in x = 0" in outcome.stdout
    assert "2 of 6" in outcome.stdout


def test_a_wider_radius_is_reported(tmp_path: Path) -> None:
    model = written(tmp_path, "mdp one\nstate x in 0..1\naction a\n")
    log = written(tmp_path, "x,action\n" + "0,a\n1,a\n" * 500, "log.csv")
    paper, weissman = (
        quick("estimate", model, log, "--json", "--radius", kind, "--out", tmp_path / kind).json()
        for kind in ("paper", "weissman")
    )
    assert 0 < paper["worst_radius"] < weissman["worst_radius"] < 2
    assert paper["transitions"] == 999


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time,y,action\n0,1,a\n", "has no column `x` (for x); its columns are time, y, action"),
        ("", "is empty"),
    ],
)
def test_logs_of_which_none_can_be_read_exit_with_2(
    tmp_path: Path, text: str, message: str
) -> None:
    model, log = written(tmp_path, MODEL), written(tmp_path, text, "log.csv")
    outcome = quick("estimate", model, log, "--out", tmp_path / "run")
    assert outcome.status == 2
    assert message in outcome.stderr
    outcome = quick("estimate", model, log, "--json", "--out", tmp_path / "run")
    assert outcome.status == 2
    assert message in outcome.json()["errors"][0]["message"]
    assert not (tmp_path / "run").exists()


def test_a_log_without_a_single_transition_exits_with_1(tmp_path: Path) -> None:
    model, log = written(tmp_path, MODEL), written(tmp_path, "x,action\n9,a\n9,a\n", "log.csv")
    outcome = quick("estimate", model, log, "--json", "--out", tmp_path / "run")
    assert outcome.status == 1
    assert outcome.json()["rejected"] == {"state out of range": 2}


def test_a_full_folder_is_refused_before_logs_are_read(tmp_path: Path) -> None:
    outcome = mdpdsl("estimate", "riverswim", "nowhere.csv", "--out", tmp_path.parent)
    assert outcome.status == 2
    assert "exists already" in outcome.stderr


def test_an_estimate_is_not_resumed_as_an_exploration(tmp_path: Path) -> None:
    model, log = written(tmp_path, MODEL), written(tmp_path, LOG, "log.csv")
    quick("estimate", model, log, "--out", tmp_path / "run")
    outcome = mdpdsl("explore", "--resume", tmp_path / "run")
    assert outcome.status == 2
    assert "a run of `estimate`" in outcome.stderr
