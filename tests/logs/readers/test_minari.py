from __future__ import annotations

import json
import socket
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from gymnasium import spaces as gym_spaces

from mdpdsl.diagnostics import LogError
from mdpdsl.logs.inputs import open_log
from mdpdsl.logs.readers.minari_columns import columns_of
from tests.cli.run import quick
from tests.logs.minari_datasets import Recorded, counts_of, lived, plainly_counted, written
from tests.logs.plain_logs import counted, spaces

PENDULUM = """\
mdp pendulum
state theta in [-pi, pi] wrap bins 6
state omega in [-8, 8] clip bins 5
action u in {-2, -1, 0, 1, 2}
log { theta = atan2(obs_1, obs_0)  omega = obs_2  u = round(act_0) }
"""
LAKE = "mdp lake\nstate cell in 0..15\naction left, down, right, up\nlog { cell = obs }\n"
WALK = "mdp walk\nstate x in 0..4\naction a, b\nlog { x = obs_0 }\n"
ONE = np.ones(1, np.float32)
FORMS = ("hdf5", "arrow", "parquet")


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "datasets"
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
    return folder


def walk(*episodes: tuple[list[int], list[int]]) -> Recorded:
    """Return episodes of observations and actions of `WALK`."""
    observations, actions = ([list(part) for part in both] for both in zip(*episodes, strict=True))
    return Recorded(gym_spaces.Discrete(9), gym_spaces.Discrete(3), observations, actions)


def walk_counts(recorded: Recorded) -> Counter[tuple[int, int, int]]:
    return plainly_counted(
        recorded,
        lambda x: int(x) if x in range(5) else None,
        lambda a: int(a) if a in range(2) else None,
    )


TWO = walk(([0, 1, 2, 3], [0, 1, 0]), ([4, 4, 0], [1, 1]))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("batch_rows", [1, 7, 33, 100_000])
def test_the_pendulum_counts_as_a_plain_loop_says(form: str, batch_rows: int) -> None:
    recorded = lived("Pendulum-v1", [40, 1, 25, 60])
    written("pendulum/random-v0", recorded, form)
    model = spaces(PENDULUM)
    read = counted(model, "minari:pendulum/random-v0", batch_rows=batch_rows)

    def state(seen: Any) -> int:
        theta = float(np.arctan2(float(seen[1]), float(seen[0])))
        return int(model.graph.state(theta=theta, omega=float(seen[2])))

    expected = plainly_counted(recorded, state, lambda torque: round(float(torque[0])) + 2)
    assert sum(expected.values()) == 126
    assert counts_of(model, read) == expected
    assert (read.rows, read.rejected.counts, read.was_sorted) == (130, {}, True)


@pytest.mark.parametrize("form", FORMS)
def test_numbers_of_discrete_actions_are_places_of_named_ones(form: str) -> None:
    recorded = lived("FrozenLake-v1", [50] * 20)
    written("lake/random-v0", recorded, form)
    model = spaces(LAKE)
    read = counted(model, "minari:lake/random-v0", batch_rows=16)
    expected = plainly_counted(recorded, int, int)
    assert counts_of(model, read) == expected
    assert len({action for _, action, _ in expected}) == 4
    assert read.rows == sum(expected.values()) + 20


@pytest.mark.parametrize("form", FORMS)
def test_the_last_row_has_no_action_and_no_transition_leads_out_of_an_episode(form: str) -> None:
    written("walk/two-v0", TWO, form)
    model = spaces(WALK)
    read = counted(model, "minari:walk/two-v0")
    assert counts_of(model, read) == {
        (0, 0, 1): 1, (1, 1, 2): 1, (2, 0, 3): 1, (4, 1, 4): 1, (4, 1, 0): 1,
    }  # fmt: skip
    assert (read.rows, read.rejected.counts) == (7, {})
    log = open_log(Path(read.files[0].path))
    names = ["episode", "time", "obs", "action", "reward", "terminated", "truncated"]
    (batch,) = log.read(names, 100)
    assert {name: batch.columns[name].to_pylist() for name in names} == {
        "episode": [0, 0, 0, 0, 1, 1, 1],
        "time": [0, 1, 2, 3, 0, 1, 2],
        "obs": [0, 1, 2, 3, 4, 4, 0],
        "action": [0, 1, 0, None, 1, 1, None],
        "reward": [0, 1, 2, None, 0, 1, None],
        "terminated": [False] * 3 + [None] + [False] * 2 + [None],
        "truncated": [False, False, True, None, False, True, None],
    }
    files = [path for path in Path(read.files[0].path).rglob("*") if path.is_file()]
    assert read.files[0].bytes == sum(path.stat().st_size for path in files)


@pytest.mark.parametrize("form", FORMS)
def test_episodes_without_their_last_observation_lose_only_that_step(form: str) -> None:
    recorded = walk(([0, 1, 2], [0, 1, 0]), ([3, 3], [0, 1]))
    written("walk/cut-v0", recorded, form)
    model = spaces(WALK)
    read = counted(model, "minari:walk/cut-v0", batch_rows=2)
    assert counts_of(model, read) == {(0, 0, 1): 1, (1, 1, 2): 1, (3, 0, 3): 1}
    assert read.rows == 5


@pytest.mark.parametrize("form", FORMS)
def test_a_model_that_reads_no_observation_sees_every_row(form: str) -> None:
    written("walk/two-v0", TWO, form)
    model = spaces("mdp clock\nstate t in 0..3\naction a, b\nlog { t = time }\n")
    read = counted(model, "minari:walk/two-v0", batch_rows=2)
    expected = {(0, 0, 1): 1, (1, 1, 2): 2, (2, 0, 3): 1, (0, 1, 1): 1}
    assert (counts_of(model, read), read.rows) == (expected, 7)


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_the_padding_of_a_table_without_metadata_is_no_action(form: str) -> None:
    data = written("walk/two-v0", TWO, form)
    for path in data.glob("*/metadata.json"):
        path.unlink()
    (batch,) = open_log(data).read(["action"], 100)
    assert batch.columns["action"].to_pylist() == [0, 1, 0, None, 1, 1, None]


def test_datasets_and_files_with_the_same_episodes_and_other_times_add_up(tmp_path: Path) -> None:
    written("walk/one-v0", TWO)
    written("walk/two-v0", TWO, "arrow")
    log = tmp_path / "log.csv"
    log.write_text(
        "run,clock,obs_0,action\n"
        + "".join(f"{e},{t * 0.05},{(e + t) % 5},a\n" for e in range(3) for t in range(40))
    )
    model = spaces(WALK.replace("x = obs_0", "episode = run  time = clock  x = obs_0"))
    read = counted(model, "minari:walk/one-v0", log, "minari:walk/two-v0")
    expected = Counter({key: 2 * n for key, n in walk_counts(TWO).items()})
    expected += Counter(((e + t) % 5, 0, (e + t + 1) % 5) for e in range(3) for t in range(39))
    assert counts_of(model, read) == expected
    assert not read.rejected.counts
    assert [file.rows for file in read.files] == [7, 120, 7]


@pytest.mark.parametrize("form", FORMS)
def test_every_way_to_name_a_dataset_reads_it_once(root: Path, form: str) -> None:
    data = written("walk/two-v0", TWO, form)
    assert data == root / "walk/two-v0/data"
    model = spaces(WALK)
    ways = ["minari:walk/two-v0", str(data), str(data.parent), str(root / "wal*/*")]
    ways += [str(data / "metadata.json"), str(root / "walk")]
    ways += [str(data / "main_data.hdf5")] if form == "hdf5" else []
    for way in ways:
        read = counted(model, way)
        assert (counts_of(model, read), read.problems) == (walk_counts(TWO), ()), way
    assert counts_of(model, counted(model, *ways)) == walk_counts(TWO)


def test_a_folder_of_logs_named_data_stays_one(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "metadata.json").write_text('{"obs_0": 1, "action": "a"}\n')
    (folder / "log.csv").write_text("obs_0,action\n0,a\n1,b\n")
    read = counted(spaces(WALK), folder)
    assert [Path(file.path).name for file in read.files] == ["log.csv", "metadata.json"]


def test_a_folder_gives_its_files_and_its_datasets(root: Path) -> None:
    written("walk/two-v0", TWO)
    (root / "walk" / "log.csv").write_text("obs_0,action\n0,a\n1,b\n")
    model = spaces(WALK)
    expected = walk_counts(TWO) + Counter({(0, 0, 1): 1})
    read = counted(model, root / "walk")
    assert counts_of(model, read) == expected
    assert not read.problems


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("batch_rows", [2, 100])
def test_rejected_rows_are_shown_with_episode_and_time(form: str, batch_rows: int) -> None:
    recorded = walk(([0, 1, 2, 3], [0, 1, 0]), ([4, 7, 0, 1], [1, 1, 2]))
    data = written("walk/bad-v0", recorded, form)
    model = spaces(WALK)
    read = counted(model, "minari:walk/bad-v0", batch_rows=batch_rows)
    assert counts_of(model, read) == walk_counts(recorded)
    assert read.rejected.counts == {"state out of range": 1, "unknown action": 1}
    (state,) = read.rejected.examples["state out of range"]
    (action,) = read.rejected.examples["unknown action"]
    assert (state.file, state.row) == (str(data), 6)
    assert state.found == "episode 1, time 1: x: obs_0 = 7"
    assert (action.row, action.found) == (7, "episode 1, time 2: action = 2")


@pytest.mark.parametrize("form", FORMS)
def test_dicts_tuples_and_texts_have_columns_of_their_own(form: str) -> None:
    space = gym_spaces.Dict(
        {
            "goal": gym_spaces.Box(-1, 1, (2,), np.float32),
            "grid": gym_spaces.MultiDiscrete(np.full((2, 2), 3)),
            "pair": gym_spaces.Tuple((gym_spaces.Discrete(5), gym_spaces.MultiBinary(2))),
            "sky": gym_spaces.Text(8),
        }
    )
    one = {"goal": np.array([0.5, -0.5], np.float32), "grid": np.array([[0, 1], [2, 0]])}
    observations = [
        {**one, "pair": (i, np.array([1, 0], np.int8)), "sky": sky}
        for i, sky in enumerate(("sun", "rain"))
    ]
    recorded = Recorded(space, gym_spaces.Box(-1, 1, (1,), np.float32), [observations], [[ONE]])
    data = written("nested/one-v0", recorded, form)
    log = open_log(data)
    assert set(log.columns) == {
        "episode", "time", "obs_goal_0", "obs_goal_1", "obs_grid_0_0", "obs_grid_0_1",
        "obs_grid_1_0", "obs_grid_1_1", "obs_pair_0", "obs_pair_1_0", "obs_pair_1_1", "obs_sky",
        "act_0", "action", "reward", "terminated", "truncated",
    }  # fmt: skip
    for batch_rows in (1, 2):
        batches = list(log.read(log.columns, batch_rows))
        found = {c: [v for b in batches for v in b.columns[c].to_pylist()] for c in log.columns}
        assert found["obs_goal_1"] == [-0.5, -0.5]
        assert found["obs_grid_1_0"] == [2, 2]
        assert found["obs_pair_0"] == [0, 1]
        assert found["obs_pair_1_0"] == [1, 1]
        assert found["obs_sky"] == ["sun", "rain"]
        assert found["act_0"] == found["action"] == [1, None]
    model = spaces(
        'mdp m\nstate sky in {rain, sun}\naction u in 0..1\nlog { sky = "obs_sky"  u = act_0 }'
    )
    assert counts_of(model, counted(model, data)) == {(1, 1, 0): 1}


@pytest.mark.parametrize(
    ("space", "names"),
    [
        (gym_spaces.Discrete(3), ["obs_0", "obs"]),
        (gym_spaces.Box(0, 1, ()), ["obs_0", "obs"]),
        (gym_spaces.Box(0, 1, (1,)), ["obs_0", "obs"]),
        (gym_spaces.Box(0, 1, (2,)), ["obs_0", "obs_1"]),
        (gym_spaces.Box(0, 1, (1, 2)), ["obs_0_0", "obs_0_1"]),
        (gym_spaces.Tuple([gym_spaces.Discrete(3)] * 2), ["obs_0", "obs_1"]),
        (gym_spaces.Dict(a=gym_spaces.Box(0, 1, (1,))), ["obs_a_0", "obs_a"]),
    ],
)
def test_names_are_made_of_keys_and_places(space: Any, names: list[str]) -> None:
    assert columns_of(space, gym_spaces.Discrete(2)).observed == names


def test_images_are_refused_and_what_is_beside_them_is_not() -> None:
    image = gym_spaces.Box(0, 255, (40, 40, 3), np.uint8)
    frame = np.zeros((40, 40, 3), np.uint8)
    recorded = Recorded(image, gym_spaces.Discrete(2), [[frame] * 2], [[0]])
    written("pixels/only-v0", recorded)
    with pytest.raises(LogError, match=r"observations are images \(40 x 40 x 3\)"):
        counted(spaces(WALK), "minari:pixels/only-v0")
    both = gym_spaces.Dict(image=image, x=gym_spaces.Discrete(5))
    observations = [[{"image": frame, "x": x} for x in (3, 1)]]
    model = spaces(WALK.replace("obs_0", "obs_x"))
    for form in ("hdf5", "parquet"):
        options = {} if form == "hdf5" else {"jpeg_encoding": False}
        written(
            f"pixels/{form}-v0", Recorded(both, gym_spaces.Discrete(2), observations, [[1]]),
            form, **options,
        )  # fmt: skip
        assert counts_of(model, counted(model, f"minari:pixels/{form}-v0")) == {(3, 1, 1): 1}


def _refuse(*_: object, **__: object) -> None:
    raise AssertionError("a connection was tried")


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("walk/tow-v0", "there are walk/two-v0", "did you mean `walk/two-v0`"),
        ("walk/two", "no local Minari dataset `walk/two`", "minari:walk/two-v0"),
        ("D4RL/door/human-v2", "no local", "minari download D4RL/door/human-v2"),
        ("", "no local", "namespace/name-v0"),
        ("../datasets/walk/two-v0", "no local", "minari download"),
    ],
)
def test_an_unknown_id_is_refused_and_nothing_is_downloaded(
    name: str, message: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written("walk/two-v0", TWO)
    monkeypatch.setattr(socket, "socket", _refuse)
    with pytest.raises(LogError) as caught:
        counted(spaces(WALK), f"minari:{name}")
    (problem,) = caught.value.problems
    assert message in problem.message
    assert hint in (problem.help or "")


def test_a_path_after_the_prefix_is_refused() -> None:
    data = written("walk/two-v0", TWO)
    with pytest.raises(LogError, match="is a path") as caught:
        counted(spaces(WALK), f"minari:{data}")
    assert "leave `minari:` out" in str(caught.value.problems[0].help)


def test_a_missing_root_has_no_datasets(root: Path) -> None:
    with pytest.raises(LogError, match="there are none at all"):
        counted(spaces(WALK), "minari:walk/two-v0")
    assert not root.exists()


@pytest.mark.parametrize("module", ["minari.dataset.minari_storage", "h5py"])
def test_a_missing_package_is_reported_with_how_to_install_it(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written("walk/two-v0", TWO)
    monkeypatch.setitem(sys.modules, module, None)
    if module == "h5py":
        monkeypatch.delitem(sys.modules, "minari.dataset._storages.hdf5_storage")
    with pytest.raises(LogError) as caught:
        counted(spaces(WALK), "minari:walk/two-v0")
    (problem,) = caught.value.problems
    assert problem.help == 'pip install "mdpdsl[minari]"'


def _changed(data: Path, **changes: object) -> None:
    path = data / "metadata.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def _with_file(change: Any) -> Any:
    def apply(data: Path) -> None:
        with h5py.File(data / "main_data.hdf5", "r+") as file:
            change(file)

    return apply


def _replaced(name: str, values: object) -> Any:
    def change(file: Any) -> None:
        del file[name]
        file[name] = values

    return _with_file(change)


def _truncated(data: Path) -> None:
    whole = (data / "main_data.hdf5").read_bytes()
    (data / "main_data.hdf5").write_bytes(whole[: len(whole) // 2])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: (data / "metadata.json").unlink(), "has no metadata.json"),
        (lambda data: (data / "main_data.hdf5").unlink(), "has no main_data.hdf5"),
        (lambda data: (data / "metadata.json").write_text("{"), "cannot read .*metadata.json"),
        (lambda data: (data / "metadata.json").write_text("[1]"), "not a JSON object"),
        (lambda data: _changed(data, data_format="zarr"), 'data_format is "zarr"'),
        (lambda data: _changed(data, total_episodes="two"), 'total_episodes is "two"'),
        (lambda data: _changed(data, observation_space='{"type": "?"}'), "gives no spaces"),
        (lambda data: _changed(data, observation_space=7), "gives no spaces"),
        (_truncated, "cannot read|breaks off"),
        (lambda data: (data / "main_data.hdf5").write_bytes(b""), "breaks off after row 0"),
        (_with_file(lambda f: f.pop("episode_0")), "episode 0 is broken"),
        (_with_file(lambda f: f["episode_0"].pop("actions")), "episode 0 is broken"),
        (_replaced("episode_0/actions", [0]), "episode 0 is broken: it has 1 actions, 4 obs"),
        (
            _replaced("episode_0/observations", np.zeros((4, 2))),
            "2 numbers in a row of obs.* not 1",
        ),
    ],
)
def test_a_broken_dataset_is_reported_and_good_logs_are_kept(
    tmp_path: Path, damage: Any, message: str
) -> None:
    data = written("walk/two-v0", TWO)
    damage(data)
    model = spaces(WALK)
    for way in (data, data.parent, "minari:walk/two-v0"):
        with pytest.raises(LogError, match=message):
            counted(model, way)
    (tmp_path / "log.csv").write_text("obs_0,action\n0,a\n1,b\n")
    read = counted(model, data, tmp_path / "log.csv")
    assert counts_of(model, read) == {(0, 0, 1): 1}


@pytest.mark.parametrize("form", FORMS)
def test_a_dataset_that_breaks_off_keeps_the_episodes_before(form: str) -> None:
    data = written("walk/two-v0", TWO, form)
    _changed(data, total_episodes=5)
    model = spaces(WALK)
    read = counted(model, data, batch_rows=4)
    assert counts_of(model, read) == walk_counts(TWO)
    assert "episode 2 is broken" in read.problems[0].message


def test_an_error_on_a_missing_column_lists_those_there_are() -> None:
    written("walk/two-v0", TWO)
    with pytest.raises(
        LogError, match=r"no columns? `y`.*episode, time, obs_0, obs, act_0, action"
    ):
        counted(spaces(WALK.replace("obs_0", "y")), "minari:walk/two-v0")


def test_the_command_reads_an_id_and_refuses_an_unknown_one(tmp_path: Path) -> None:
    written("walk/two-v0", TWO)
    model = tmp_path / "walk.mdp"
    model.write_text(WALK)
    done = quick("estimate", model, "minari:walk/two-v0", "--json", "--out", tmp_path / "run")
    assert done.status == 0
    assert (done.json()["transitions"], done.json()["rows"]) == (5, 7)
    done = quick("estimate", model, "minari:walk/three-v0", "--json")
    assert done.status == 2
    (error,) = done.json()["errors"]
    assert "minari download walk/three-v0" in error["help"]
