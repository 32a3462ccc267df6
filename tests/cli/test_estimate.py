from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from mdpdsl.formats.npz import from_npz
from tests.cli.run import mdpdsl, quick, written

MODEL = "mdp spaces\nstate x in 0..2\naction a, b\n"
RIVER_LOG = "pos,action\n" + "0,left\n0,right\n1,right\n1,left\n" * 60
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
        # Of the 6 pairs each has an interval for 3 states and one for all that were never seen.
        assert file["entry_risk"] == pytest.approx(0.2 / (6 * (3 + 1)))
        assert (file["upper"] == 1).all()
        assert (file["unseen_upper"] < 1).sum() == 2
        assert (file["rest_upper"] < 1).sum() == 2
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


@pytest.mark.parametrize("kind", ["time-uniform", "clopper-pearson", "weissman"])
@pytest.mark.parametrize("support", ["seen", "all", "model"])
def test_every_output_says_which_sets_it_has(tmp_path: Path, kind: str, support: str) -> None:
    log = written(tmp_path, RIVER_LOG, "log.csv")
    out, options = tmp_path / "run", ("--sets", kind, "--support", support, "--delta", "0.2")
    outcome = quick("estimate", "riverswim", log, *options, "--out", out)
    assert f"{kind}, delta = 0.2; hold " in outcome.stdout
    assert f"{support}: " in outcome.stdout
    assert ("one look" in outcome.stdout) == (kind == "clopper-pearson")
    record = json.loads((out / "summary.json").read_text())
    assert (record["sets"], record["support"], record["delta"]) == (kind, support, 0.2)
    assert ("one look" in record["holds"]) == (kind == "clopper-pearson")
    assert record["contradictions"] is None
    settings = json.loads((out / "run.json").read_text())["settings"]
    assert (settings["sets"], settings["support"], settings["delta"]) == (kind, support, 0.2)
    for name in ("radii.npz", "intervals.npz"):
        with np.load(out / name) as file:
            assert (str(file["kind"]), str(file["support"])) == (kind, support)
            assert (float(file["delta"]), str(file["holds"])) == (0.2, record["holds"])
    page = tmp_path / "page.html"
    assert quick("report", out, "--out", page).status == 0
    text = page.read_text()
    assert f"{kind}, delta = 0.2, support {support}" in text
    assert record["holds"] in text
    assert f"--sets {kind} --support {support}" in text


def test_what_is_assumed_decides_how_much_is_known(tmp_path: Path) -> None:
    log = written(tmp_path, RIVER_LOG, "log.csv")
    radii = {}
    for kind in ("time-uniform", "clopper-pearson", "weissman"):
        for support in ("seen", "all", "model"):
            out = tmp_path / f"{kind}-{support}"
            options = ("--sets", kind, "--support", support, "--out", out, "--json")
            assert quick("estimate", "riverswim", log, *options).status == 0
            with np.load(out / "radii.npz") as file:
                radii[kind, support] = float(file["radius"][0])
    for kind in ("time-uniform", "clopper-pearson", "weissman"):
        assert radii[kind, "model"] == 0, "the model has a single successor there"
        assert radii[kind, "seen"] == radii[kind, "all"]
    assert 0 < radii["clopper-pearson", "all"] < radii["weissman", "all"] < 2


def test_the_old_name_of_the_sets_warns_and_the_papers_radius_is_refused(tmp_path: Path) -> None:
    model, log = written(tmp_path, MODEL), written(tmp_path, LOG, "log.csv")
    outcome = quick("estimate", model, log, "--radius", "weissman", "--out", tmp_path / "old")
    assert outcome.status == 0
    assert "--radius is now called --sets" in outcome.stderr
    assert "weissman" in outcome.stdout
    for option in ("--radius", "--sets"):
        outcome = quick("estimate", model, log, option, "paper", "--out", tmp_path / "run")
        assert outcome.status == 2
        assert "no confidence set for a row with many successors" in outcome.stderr
        assert "set --sets to time-uniform, clopper-pearson or weissman" in outcome.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--sets", "wiseman"), "--sets cannot be wiseman; did you mean `weissman`?"),
        (("--support", "mode"), "--support cannot be mode; did you mean `model`?"),
        (("--sets", "clopper-pearson", "--radius", "weissman"), "give only --sets"),
        (("--support", "model"), "spaces has no dynamics"),
    ],
)
def test_mistaken_sets_are_refused_before_logs_are_read(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    outcome = quick("estimate", written(tmp_path, MODEL), "nowhere.csv", *options, "--json")
    assert outcome.status == 2
    assert said in outcome.json()["errors"][0]["message"]


def test_a_log_that_contradicts_the_model_is_counted_and_named(tmp_path: Path) -> None:
    log = written(tmp_path, RIVER_LOG + "2,left\n5,left\n" * 3 + "4,left\n0,left\n", "log.csv")
    out = tmp_path / "run"
    outcome = quick("estimate", "riverswim", log, "--support", "model", "--out", out)
    assert outcome.status == 0
    assert "7 transitions of 4 pairs are impossible in the model: " in outcome.stderr
    assert "--support to seen" in outcome.stderr
    assert "left in pos = 2 led to pos = 5 (3 times)" in outcome.stdout
    record = json.loads((out / "summary.json").read_text())["contradictions"]
    assert (record["pairs"], record["examples"][0]["count"]) == (4, 3)
    assert record["examples"][0]["next"] == {"pos": 5}
    assert record["transitions"] == sum(each["count"] for each in record["examples"])
    with np.load(out / "radii.npz") as file:
        assert np.isfinite(file["radius"]).all()


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
    model, log = written(tmp_path, MODEL), written(tmp_path, "x,action\n1,c\n1,c\n", "log.csv")
    outcome = quick("estimate", model, log, "--json", "--out", tmp_path / "run")
    assert outcome.status == 1
    assert outcome.json()["rejected"] == {"unknown action": 2}


_DATES = "time,x,action\n" + "".join(f"0{t + 1}.04.2026,{t % 3},a\n" for t in range(6))
_COMMAS = "x;action\n" + "0,0;a\n1,0;a\n2,0;b\n" * 2
_THOUSANDTHS = "x,action\n" + "0,a\n1000,a\n2000,b\n" * 2
_PACKED = gzip.compress(b"x,action\n0,a\n1,a\n")


@pytest.mark.parametrize(
    ("name", "content", "options", "status", "said"),
    [
        ("log.csv", _DATES, (), 1, "most rows are rejected, 6 of 6: unclear date (6)"),
        ("log.csv", _DATES, ("--dayfirst",), 0, None),
        ("log.csv", _DATES, ("--time-format", "%d.%m.%Y"), 0, None),
        ("log.csv", _COMMAS, (), 1, "most rows are rejected, 6 of 6: number with a comma (6)"),
        ("log.csv", _COMMAS, ("--decimal", ","), 0, None),
        ("log.csv", _COMMAS.encode("utf-16"), ("--decimal", ","), 0, None),
        ("log.csv", _THOUSANDTHS, (), 2, "4 of 6 values of `x` are out of its range [0, 2]"),
        ("log.csv", _THOUSANDTHS, ("--clip-anyway",), 1, "state out of range (4)"),
        ("log.csv.gz", _PACKED[:-8] + bytes(8), (), 2, "is damaged, so none of its rows"),
        ("log.csv", _PACKED, (), 2, "it is a gzip file"),
        ("log.parquet", b"PAR1" + bytes(100), (), 2, "cannot read"),
    ],
)
def test_awkward_logs_are_refused_or_counted_with_what_is_wrong(
    tmp_path: Path,
    name: str,
    content: str | bytes,
    options: tuple[str, ...],
    status: int,
    said: str | None,
) -> None:
    model, log = written(tmp_path, MODEL), written(tmp_path, content, name)
    outcome = quick("estimate", model, log, *options, "--json", "--out", tmp_path / "run")
    record = outcome.json()
    assert outcome.status == status
    problems = record["errors"] if status == 2 else record["problems"]
    assert [said in each["message"] for each in problems] == ([] if said is None else [True])
    assert all(str(log) in each["message"] for each in problems)
    assert (tmp_path / "run").exists() == (status == 0)


def test_a_log_that_breaks_off_is_counted_and_fails(tmp_path: Path) -> None:
    model, log = written(tmp_path, MODEL), written(tmp_path, _PACKED[:-9], "log.csv.gz")
    outcome = quick("estimate", model, log, "--out", tmp_path / "run")
    assert (outcome.status, (tmp_path / "run").exists()) == (1, True)
    assert "breaks off after row" in outcome.stderr


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
