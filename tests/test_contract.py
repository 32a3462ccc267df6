"""Every verb of the command line is one of Python, with the same results to the byte of --json."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import mdpdsl
from tests.cli.run import quick

#: Timings and paths, which are of each run.
OWN = {
    "seconds",
    "steps_per_second",
    "rows_per_second",
    "build_seconds",
    "system_share",
    "run",
    "path",
    "paths",
    "policy",
    "values",
    "out",
    "policy_out",
    "saved",
    "graph",
}

PENDULUM_CSV = "theta,omega,u\n0.1,0.2,1\n0.2,0.3,-1\n0.3,0.4,2\n0.2,0.1,0\n3.0,0.2,0\n"


def without_own(record: Any) -> Any:
    """Return a record without timings and paths."""
    if isinstance(record, dict):
        return {
            k: without_own(v)
            for k, v in record.items()
            if k not in OWN and not (k == "log" and isinstance(v, str))
        }
    if isinstance(record, list):
        return [without_own(each) for each in record]
    return record


Verb = tuple[tuple[str, ...], Callable[[Path], Any]]


def river(**parameters: Any) -> mdpdsl.Model:
    return mdpdsl.load("riverswim", **parameters)


def explored(folder: Path) -> mdpdsl.ExploreRun:
    return mdpdsl.explore(river(), steps=500, out=folder / "from-python")


#: A command line with {folder} for a folder that has log.csv and run/, and the same in Python.
VERBS: dict[str, Verb] = {
    "explore": (
        ("explore", "pendulum", "--kappa", "10", "--steps", "3000", "--out", "{folder}/o"),
        lambda folder: mdpdsl.explore(mdpdsl.load("pendulum"), kappa=10, steps=3_000),
    ),
    "explore trials": (
        (
            *(
                "explore",
                "riverswim",
                "--set",
                "n=8",
                "--trials",
                "3",
                "--steps",
                "400",
                "--seed",
                "5",
            ),
            *(
                "--algorithm",
                "tracking",
                "--out",
                "{folder}/o",
            ),
        ),
        lambda folder: mdpdsl.explore(
            river(n=8), trials=3, steps=400, seed=5, algorithm="tracking"
        ),
    ),
    "explore log": (
        ("explore", "riverswim", "--log", "{folder}/log.csv", "--out", "{folder}/o"),
        lambda folder: mdpdsl.explore(river(), log=folder / "log.csv"),
    ),
    "explore live": (
        (
            *("explore", "{folder}/lake.mdp", "--env", "FrozenLake-v1", "--steps", "150"),
            *(
                "--out",
                "{folder}/o",
            ),
        ),
        lambda folder: mdpdsl.explore(
            mdpdsl.load(folder / "lake.mdp"), env="FrozenLake-v1", steps=150
        ),
    ),
    "compare": (
        (
            *(
                "compare",
                "riverswim",
                "--algorithm",
                "kappa-dp",
                "--algorithm",
                "random",
                "--kappa",
            ),
            *(
                "2",
                "--steps",
                "400",
                "--trials",
                "2",
            ),
        ),
        lambda folder: mdpdsl.compare(
            river(), ["kappa-dp", "random"], kappas=[2], steps=400, trials=2
        ),
    ),
    "compare log": (
        (
            *(
                "compare",
                "riverswim",
                "--log",
                "{folder}/log.csv",
                "--algorithm",
                "random",
                "--trials",
            ),
            *("2",),
        ),
        lambda folder: mdpdsl.compare(river(), ["random"], log=folder / "log.csv", trials=2),
    ),
    "allocate": (
        ("allocate", "riverswim", "--kappa", "inf"),
        lambda folder: mdpdsl.allocate(river(), kappa=math.inf),
    ),
    "solve": (
        ("solve", "riverswim", "--discount", "0.95"),
        lambda folder: mdpdsl.solve(river(), discount=0.95),
    ),
    "solve reach": (
        ("solve", "riverswim", "--reach", "goal", "--min"),
        lambda folder: mdpdsl.solve(river(), reach="goal", minimise=True),
    ),
    "simulate": (
        ("simulate", "riverswim", "--steps", "300", "--seed", "4", "--out", "{folder}/x.parquet"),
        lambda folder: mdpdsl.simulate(river(), steps=300, seed=4),
    ),
    "estimate": (
        ("estimate", "riverswim", "{folder}/log.csv", "--out", "{folder}/o", "--jobs", "1"),
        lambda folder: mdpdsl.estimate(river(), folder / "log.csv"),
    ),
    "plan": (
        ("plan", "{folder}/run", "--kappa", "10", "--steps", "200"),
        lambda folder: mdpdsl.plan(mdpdsl.open_run(folder / "run"), kappa=10, steps=200),
    ),
    "report": (
        ("report", "{folder}/run", "--out", "{folder}/one.html"),
        lambda folder: mdpdsl.report(mdpdsl.open_run(folder / "run"), folder / "two.html"),
    ),
    "export": (
        ("export", "riverswim", "--to", "explicit", "--out", "{folder}/m.tra"),
        lambda folder: mdpdsl.export(river(), folder / "n.tra"),
    ),
    "export intervals": (
        ("export", "{folder}/run", "--to", "drn", "--intervals", "--out", "{folder}/m.drn"),
        lambda folder: mdpdsl.export(
            mdpdsl.open_run(folder / "run"), folder / "n.drn", intervals=True
        ),
    ),
    "import": (
        ("import", "{folder}/weather.json", "--out", "{folder}/weather.mdp"),
        lambda folder: mdpdsl.import_model(folder / "weather.json", folder / "again-weather.mdp"),
    ),
    "new": (
        ("new", "{folder}/log.csv", "--out", "{folder}/new.mdp"),
        lambda folder: mdpdsl.new(folder / "log.csv", out=folder / "again.mdp"),
    ),
    "show": (("show", "riverswim"), lambda folder: mdpdsl.describe(river())),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("contract")
    mdpdsl.simulate(river(), steps=400, seed=1, episode_length=50, out=folder / "log.csv")
    mdpdsl.explore(river(), steps=800, out=folder / "run")
    mdpdsl.export(mdpdsl.load("weather"), folder / "weather.json")
    lake = "mdp lake\nstate place in 0..15\naction left, down, right, up\nlog { place = obs }\n"
    (folder / "lake.mdp").write_text(lake, "utf-8")
    return folder


@pytest.mark.parametrize("name", VERBS)
def test_a_command_prints_what_its_verb_returns(name: str, folder: Path) -> None:
    words, call = VERBS[name]
    arguments = [word.replace("{folder}", str(folder)) for word in words]
    if "--out" in words and "{folder}/o" in words:
        arguments[arguments.index(str(folder / "o"))] = str(folder / f"out-{name}")
    printed = quick(*arguments, "--json")
    assert printed.status == 0, printed.stderr
    expected = call(folder).record()
    found = without_own(printed.json())
    assert json.dumps(found) == json.dumps(without_own(json.loads(json.dumps(expected))))


def test_check_prints_what_its_verb_returns(tmp_path: Path) -> None:
    path = tmp_path / "bad.mdp"
    path.write_text("mdp bad\nstate x in 0..3\naction go\non go -> x' = y\n", "utf-8")
    printed = quick("check", path, "--json").json()
    assert printed == {"files": [mdpdsl.check(path).record()]}


def test_every_command_has_a_verb() -> None:
    from mdpdsl.cli import COMMANDS

    verbs = {name.split()[0] for name in VERBS} | {"check", "fmt", "plot", "models", "lsp"}
    assert set(COMMANDS) == verbs


def test_dir_shows_exactly_the_public_names() -> None:
    assert dir(mdpdsl) == sorted(mdpdsl.__all__)
    for name in mdpdsl.__all__:
        assert getattr(mdpdsl, name) is not None


def test_verbs_keep_their_names_when_their_folders_are_imported() -> None:
    import mdpdsl.estimate.metrics
    import mdpdsl.explore.settings

    for verb in (mdpdsl.explore, mdpdsl.estimate, mdpdsl.load, mdpdsl.report, mdpdsl.solve):
        assert callable(verb)


@pytest.mark.parametrize("name", ["solve_discounted", "explore_live", "from_gym_P", "Run"])
def test_names_that_a_verb_replaces_warn(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"mdpdsl.{name} is deprecated; use mdpdsl"):
        assert callable(getattr(mdpdsl, name))


def test_nothing_is_written_unless_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    model = river()
    run = mdpdsl.explore(model, steps=200)
    mdpdsl.compare(model, ["random"], steps=100, trials=1)
    mdpdsl.estimate(model, mdpdsl.simulate(model, steps=200))
    mdpdsl.plan(run)
    mdpdsl.explore(mdpdsl.load(folder / "lake.mdp"), env="FrozenLake-v1", steps=50)
    assert list(tmp_path.iterdir()) == []


def test_a_run_in_memory_can_be_saved_and_opened(tmp_path: Path) -> None:
    run = mdpdsl.explore(river(), steps=300, trials=2)
    saved = run.save(tmp_path / "run")
    opened = mdpdsl.open_run(tmp_path / "run")
    assert opened.record() == saved.record()
    assert without_own(run.record()) == without_own(saved.record())
    estimate = mdpdsl.estimate(river(), mdpdsl.simulate(river(), steps=300)).save(tmp_path / "e")
    assert mdpdsl.open_run(tmp_path / "e").record() == estimate.record()


class LeastVisited:
    """Pick the action that was taken least often in the state."""

    def __init__(self, spaces: mdpdsl.TransitionGraph) -> None:
        self.spaces, self.visits = spaces, [0] * spaces.n_pairs

    def act(self, state: int) -> int:
        pairs = range(*self.spaces.pair_start[state : state + 2])
        return int(self.spaces.pair_action[min(pairs, key=self.visits.__getitem__)])

    def observe(self, state: int, action: int, next_state: int) -> None:
        self.visits[self.spaces.pair(state, action)] += 1


def test_a_class_of_ten_lines_runs_beside_our_explorers(tmp_path: Path) -> None:
    table = mdpdsl.compare(
        river(), ["kappa-dp", LeastVisited], steps=2_000, trials=2, save=tmp_path / "saved"
    )
    ours, theirs = table.rows
    assert (ours.label, theirs.label) == ("kappa-dp (kappa=1)", "LeastVisited")
    assert ours.worst is not None
    assert theirs.worst is not None
    assert ours.worst < theirs.worst
    assert len(mdpdsl.open_runs(tmp_path / "saved")) == 2
    run = mdpdsl.explore(river(), algorithm=LeastVisited, steps=500)
    assert run.label == "LeastVisited"


def test_a_class_of_ones_own_explores_a_log_and_a_live_system(folder: Path) -> None:
    replayed = mdpdsl.explore(river(), log=folder / "log.csv", algorithm=LeastVisited)
    assert (replayed.kind, replayed.label) == ("replay", "LeastVisited")
    lake = mdpdsl.load(folder / "lake.mdp")
    live = mdpdsl.explore(lake, env="FrozenLake-v1", algorithm=LeastVisited, steps=60)
    assert live.counts.n_transitions == 60
    assert live.label == "LeastVisited"


def test_results_speak_arrow() -> None:
    import polars
    import pyarrow as pa

    model = river()
    log = mdpdsl.simulate(model, steps=200)
    run = mdpdsl.explore(model, steps=200)
    results = [
        run,
        mdpdsl.compare(model, ["random"], steps=100, trials=1),
        mdpdsl.allocate(model),
        log,
        mdpdsl.estimate(model, log.to_pandas()),
        mdpdsl.solve(model),
        mdpdsl.plan(run),
        model.states,
    ]
    for result in results:
        table = result.table()
        assert pa.table(result).equals(table)
        assert len(result.to_pandas()) == table.num_rows
        assert isinstance(result.to_polars(), polars.DataFrame)


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_frames_are_logs_for_every_verb_that_takes_one(kind: str, folder: Path) -> None:
    log = mdpdsl.simulate(river(), steps=400, seed=1, episode_length=50)
    frame = {"pandas": log.to_pandas, "polars": log.to_polars, "arrow": log.table}[kind]()
    from_file = mdpdsl.estimate(river(), folder / "log.csv")
    in_memory = mdpdsl.estimate(river(), frame)
    assert in_memory.counts.count.tolist() == from_file.counts.count.tolist()
    replayed = mdpdsl.explore(river(), log=frame)
    assert replayed.worst == mdpdsl.explore(river(), log=folder / "log.csv").worst


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: mdpdsl.load("rivrswim"), mdpdsl.ModelError, "did you mean `riverswim`"),
        (lambda: mdpdsl.explore("riverswim"), mdpdsl.SettingsError, "mdpdsl.load"),  # type: ignore[arg-type]
        (lambda: mdpdsl.explore(river(), kapa=2), mdpdsl.SettingsError, "did you mean `kappa`"),
        (lambda: mdpdsl.explore(river(), kappa=0.5), mdpdsl.SettingsError, "1 or more"),
        (lambda: mdpdsl.explore(river(), log="none.csv"), mdpdsl.LogError, "none.csv"),
        (lambda: mdpdsl.estimate(river(), 3), mdpdsl.LogError, "cannot be of the type int"),
        (lambda: mdpdsl.solve(river(), reach="gaol"), mdpdsl.SolveError, "goal"),
        (lambda: mdpdsl.open_run("nowhere"), mdpdsl.RunError, "no such folder"),
        (lambda: mdpdsl.export(river(), "x.drm"), mdpdsl.FormatError, "ending"),
        (lambda: mdpdsl.from_arrays([[[1.0, 0.2]]]), mdpdsl.FormatError, "matrix"),
        (lambda: mdpdsl.plan("nowhere"), mdpdsl.ModelError, "nowhere"),
        (lambda: mdpdsl.compare(river(), ["kapa-dp"]), mdpdsl.SettingsError, "kappa-dp"),
    ],
)
def test_mistakes_are_errors_of_ours(
    call: Callable[[], object], kind: type[mdpdsl.Error], words: str
) -> None:
    with pytest.raises(kind, match=words) as caught:
        call()
    assert isinstance(caught.value, mdpdsl.Error)
