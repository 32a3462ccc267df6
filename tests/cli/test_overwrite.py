"""No command replaces what exists without --overwrite, or leaves anything half-made behind."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import mdpdsl
from tests.cli.run import quick

#: Every command that writes, and what it writes: a file, or a folder if it has no ending.
WRITERS: dict[str, tuple[str, str]] = {
    "new": ("new log.csv", "log.mdp"),
    "new --out": ("new log.csv --out mine.mdp", "mine.mdp"),
    "explore": ("explore riverswim --steps 300 --out run-x", "run-x"),
    "explore --log": ("explore riverswim --log log.csv --out run-x", "run-x"),
    "explore --env": ("explore lake.mdp --env FrozenLake-v1 --steps 50 --out run-x", "run-x"),
    "compare --save": ("compare chain --algorithm random --steps 200 --trials 1 --save t", "t"),
    "compare --out": ("compare chain --algorithm random --steps 9 --trials 1 --out t.txt", "t.txt"),
    "allocate --out": ("allocate riverswim --out shares.csv", "shares.csv"),
    "allocate --policy-out": ("allocate riverswim --policy-out p.npz", "p.npz"),
    "solve --policy-out": ("solve riverswim --policy-out p.csv", "p.csv"),
    "solve --values-out": ("solve riverswim --values-out v.json", "v.json"),
    "simulate": ("simulate riverswim --steps 100", "riverswim-log.parquet"),
    "simulate --out": ("simulate riverswim --steps 100 --out x.csv", "x.csv"),
    "estimate": ("estimate riverswim log.csv --out est", "est"),
    "plan": ("plan run", "run/trial-000/plan.csv"),
    "plan --policy-out": ("plan run --policy-out p.csv", "p.csv"),
    "report": ("report run", "run/report.html"),
    "report --out": ("report run --out page.html", "page.html"),
    "plot": ("plot run --figure visits", "visits.png"),
    "plot --out": ("plot run --figure visits --out v.svg", "v.svg"),
    "show --graph": ("show riverswim --graph g.svg", "g.svg"),
    "show --graph dot": ("show riverswim --graph g.dot", "g.dot"),
    "export": ("export riverswim --to drn", "riverswim.drn"),
    "export explicit": ("export riverswim --to explicit --out m.tra", "m.sta"),
    "export npz": ("export riverswim --to npz --out m.npz", "m.npz"),
    "export intervals": ("export run --to drn --intervals --out i.drn", "i.drn"),
    "import": ("import weather.json", "weather.mdp"),
    "import --out": ("import weather.json --out w.npz", "w.npz"),
}  # fmt: skip

#: How many files a command has written when the disk is full.
FIRST_FAILURE = {"explore": 2, "explore --log": 2, "explore --env": 2, "estimate": 4}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    river = mdpdsl.load("riverswim")
    mdpdsl.simulate(river, steps=400, seed=1, episode_length=50, out=folder / "log.csv")
    mdpdsl.explore(river, steps=800, out=folder / "run")
    mdpdsl.export(mdpdsl.load("weather"), folder / "weather.json")
    lake = "mdp lake\nstate place in 0..15\naction left, down, right, up\nlog { place = obs }\n"
    (folder / "lake.mdp").write_text(lake, "utf-8")
    return folder


@pytest.fixture(autouse=True)
def here(inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    shutil.copytree(inputs, folder)
    monkeypatch.chdir(folder)
    return folder


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return everything in a folder, hidden files too; None for a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def occupy(target: Path) -> None:
    """Put something where a command would write: an earlier run, or a file."""
    if target.suffix:
        target.write_text("mine", "utf-8")
    else:
        shutil.copytree("run", target)
        (target / "notes.txt").write_text("mine", "utf-8")


def is_mine(target: Path) -> bool:
    file = target if target.suffix else target / "notes.txt"
    return file.is_file() and file.read_bytes() == b"mine"


@pytest.mark.parametrize("writer", WRITERS)
def test_what_exists_is_kept_and_replaced_only_with_overwrite(writer: str, here: Path) -> None:
    line, name = WRITERS[writer]
    target = Path(name)
    occupy(target)
    before = contents(here)
    refused = quick(*line.split())
    assert refused.status == 2, refused.stdout
    assert f"{name} exists already" in refused.stderr
    assert "--overwrite" in refused.stderr
    assert contents(here) == before
    done = quick(*line.split(), "--overwrite")
    assert done.status == 0, done.stderr
    assert target.exists()
    assert not is_mine(target)
    assert [path for path in contents(here) if Path(path).name.startswith(".")] == []


class DiskFull:
    """Replaces the last step of every atomic write; fails from one of them on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, first: int, error: BaseException) -> None:
        self.n_written, self.first, self.error = 0, first, error
        self.replace = os.replace
        monkeypatch.setattr(os, "replace", self)

    def __call__(self, *arguments: Any) -> None:
        self.n_written += 1
        if self.n_written >= self.first:
            raise self.error
        self.replace(*arguments)


@pytest.mark.parametrize(
    ("error", "is_there"),
    [(OSError(errno.ENOSPC, "No space left"), False), (KeyboardInterrupt(), True)],
    ids=["full", "Ctrl-C"],
)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_failure_leaves_nothing_in_the_way(
    writer: str, error: BaseException, is_there: bool, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line, name = WRITERS[writer]
    target = Path(name)
    words = [*line.split(), "--overwrite"] if is_there else line.split()
    if is_there:
        occupy(target)
    before = contents(here)
    with monkeypatch.context() as patch:
        DiskFull(patch, FIRST_FAILURE.get(writer, 1), error)
        failed = quick(*words)
    assert failed.status in (1, 2), failed.stdout + failed.stderr
    assert contents(here) == before
    done = quick(*words)
    assert done.status == 0, done.stderr
    assert target.exists()
    assert not is_mine(target)


def test_a_folder_that_is_no_run_is_never_replaced(here: Path) -> None:
    Path("photos").mkdir()
    Path("photos/cat.jpg").write_text("mine", "utf-8")
    for line in ("estimate riverswim log.csv --out photos", "explore riverswim --out photos"):
        for words in ([*line.split()], [*line.split(), "--overwrite"]):
            outcome = quick(*words)
            assert outcome.status == 2
            assert "photos" in outcome.stderr
    assert contents(here)["photos/cat.jpg"] == b"mine"


@pytest.mark.parametrize("log", ["nowhere.csv", "bad.csv"])
def test_a_bad_log_leaves_no_folder(log: str, here: Path) -> None:
    Path("bad.csv").write_text("nothing,useful\n1,2\n", "utf-8")
    before = contents(here)
    assert quick("estimate", "riverswim", log, "--out", "a/b/est").status == 2
    assert contents(here) == before


def test_an_estimate_that_was_killed_is_not_in_the_way(here: Path) -> None:
    words = ["estimate", "riverswim", "log.csv", "--out", "est"]
    assert quick(*words).status == 0
    for name in ("summary.json", "intervals.npz"):  # written last
        Path("est", name).unlink()
    assert quick(*words).status == 0
    assert Path("est/summary.json").exists()
    assert quick(*words).status == 2


class Broken:
    """An explorer that fails at once."""

    def act(self, state: int) -> int:
        raise ZeroDivisionError

    def observe(self, state: int, action: int, next_state: int) -> None:
        """Learn nothing."""


def test_an_explorer_that_fails_at_once_leaves_no_folder(here: Path) -> None:
    with pytest.raises(Exception, match=r"ZeroDivision|division|Broken"):
        mdpdsl.explore(mdpdsl.load("riverswim"), algorithm=Broken, steps=100, out="failed/run")
    assert not Path("failed").exists()


def test_a_live_run_that_fails_can_be_resumed_and_is_not_replaced(here: Path) -> None:
    class Rig:
        def __init__(self, most: int) -> None:
            self.most = most

        def reset(self) -> dict[str, int]:
            return {"pos": 0}

        def step(self, action: Any) -> tuple[dict[str, int], bool]:
            self.most -= 1
            if self.most < 0:
                raise ConnectionError("the cable is out")
            return {"pos": 1}, False

    river = mdpdsl.load("riverswim")
    with pytest.raises(mdpdsl.Error, match="the cable is out"):
        mdpdsl.explore(river, system=Rig(5), steps=20, out="live")
    with pytest.raises(mdpdsl.Error, match="continue it with `resume=`, or `overwrite=` it"):
        mdpdsl.explore(river, system=Rig(50), steps=20, out="live")
    run = mdpdsl.explore(river, system=Rig(50), resume="live")
    assert run.is_finished


def test_verbs_and_results_refuse_alike(here: Path) -> None:
    river = mdpdsl.load("riverswim")
    solution, log = mdpdsl.solve(river), mdpdsl.simulate(river, steps=50)
    run, best = mdpdsl.explore(river, steps=100), mdpdsl.allocate(river)
    estimate = mdpdsl.estimate(river, log)
    for save, name in (
        (solution.save, "v.csv"),
        (solution.save_policy, "p.csv"),
        (log.save, "l.csv"),
        (best.save, "s.npz"),
        (mdpdsl.plan(run).save, "plan.json"),
        (estimate.save, "estimated"),
        (run.save, "explored"),
        (mdpdsl.new("log.csv").save, "new.mdp"),
    ):
        save(name)
        with pytest.raises(mdpdsl.Error, match="exists already"):
            save(name)
        save(name, overwrite=True)
