"""Live systems: everything observed is counted once, whatever goes wrong."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdpdsl
from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import MdpdslWarning, RunError, SettingsError
from mdpdsl.estimate.empirical import estimated_complexity
from mdpdsl.explore.live.live_loop import LiveError
from mdpdsl.explore.live.live_result import LiveResult
from mdpdsl.explore.live.session import explore_live
from mdpdsl.formats.npz import from_npz
from mdpdsl.graph.counts import Counts, merge
from mdpdsl.logs.count import count_logs
from mdpdsl.logs.rejections import UNKNOWN_FLAG
from tests.explore.systems import WALK, Faulty, Walk, walk_model


def by_name(model: Model, counts: Counts) -> dict[Any, int]:
    """Return counts by the values of states and actions."""
    graph = model.graph
    found = {}
    for pair in range(graph.n_pairs):
        state = graph.states.native(int(graph.pair_state[pair]))
        action = graph.actions.labels[graph.pair_action[pair]]
        for entry in range(counts.successor_start[pair], counts.successor_start[pair + 1]):
            following = graph.states.native(int(counts.successor[entry]))
            key = (*state.values(), action, *following.values())
            found[key] = int(counts.count[entry])
    return found


def made(*systems: Walk) -> dict[Any, int]:
    """Return what systems did, as they remember it."""
    return Counter(
        (s["x"], s["mood"], action, t["x"], t["mood"])
        for system in systems
        for s, action, t in system.made
    )


def same(one: Counts, other: Counts) -> bool:
    names = ("successor_start", "successor", "count")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def log_counts(model: Model, run: Path) -> Counts:
    return count_logs(model.checked, model.graph, [run / "log.csv"]).counts


def explore(system: Walk, run: Path, **settings: Any) -> LiveResult:
    return explore_live(walk_model(), system, run, **({"steps": 300} | settings))


@pytest.mark.parametrize("algorithm", ["kappa-dp", "random", "maxent"])
def test_counts_are_what_the_system_did_and_what_the_log_says(
    tmp_path: Path, algorithm: str
) -> None:
    model, system, run = walk_model(), Walk(), tmp_path / "run"
    result = explore(system, run, algorithm=algorithm)
    assert result.is_finished
    assert (result.steps, result.transitions) == (300, 300)
    assert by_name(model, result.counts) == made(system)
    assert same(result.counts, log_counts(model, run))
    # An episode may have begun that no step was left for.
    assert result.episodes == system.resets > 5
    with np.load(run / "counts.npz") as saved:
        assert saved["count"].sum() == 300
    estimate = from_npz(run / "estimate.npz")
    estimate.validate()
    assert np.array_equal(estimate.probability, result.estimate().probability)


def test_measures_have_the_estimated_complexities(tmp_path: Path) -> None:
    text = "mdp coin\nstate side in 0..1\naction flip, keep\n"

    class Coin:
        def __init__(self) -> None:
            self.generator = np.random.default_rng(0)
            self.side = 0

        def reset(self) -> dict[str, Any]:
            return {"side": self.side}

        def step(self, action: Any) -> tuple[dict[str, Any], bool]:
            if action["action"] == "flip":
                self.side = int(self.generator.integers(2))
            return {"side": self.side}, False

    result = explore_live(mdpdsl.loads(text), Coin(), tmp_path / "run", steps=500, kappa=2)
    visits, c = result.counts.visits, estimated_complexity(result.counts)
    assert result.measures.unvisited == 0
    assert result.measures.worst == pytest.approx((500 * c / visits).max())
    assert result.measures.average == pytest.approx((500 * c / visits).mean())
    assert result.history[-1] == result.measures
    with np.load(tmp_path / "run" / "metrics.npz") as metrics:
        assert metrics["step"][-1] == 500
        assert metrics["worst"][-1] == result.measures.worst


BAD: dict[int, Any] = {7: {"x": float("nan")}, 20: {"x": 9}, 21: {"mood": "cross"}, 40: {"x": None}}


def test_what_is_no_state_is_rejected_and_breaks_the_episode(tmp_path: Path) -> None:
    model, system, run = walk_model(), Faulty(BAD), tmp_path / "run"
    result = explore(system, run)
    assert result.rejected.counts == {"missing value": 2, "state out of range": 2}
    assert (result.steps, result.transitions) == (300, 296)
    assert by_name(model, result.counts) == made(system)
    read = count_logs(model.checked, model.graph, [run / "log.csv"])
    assert same(result.counts, read.counts)
    assert read.rejected.counts == result.rejected.counts
    assert read.rejected.examples == result.rejected.examples


def test_a_system_that_never_shows_a_state_is_given_up(tmp_path: Path) -> None:
    class Lost(Walk):
        def reset(self) -> dict[str, Any]:
            return super().reset() | {"x": 77}

    with pytest.raises(LiveError, match=r"20 episodes in a row.*state out of range.*x = '77'"):
        explore(Lost(), tmp_path / "run")


def test_a_system_that_raises_keeps_everything_and_continues_later(tmp_path: Path) -> None:
    model, run = walk_model(), tmp_path / "run"
    broken = Faulty({100: OSError("the cable came off")})
    with pytest.raises(LiveError, match="after 99 steps: OSError: the cable came off"):
        explore(broken, run)
    assert log_counts(model, run).n_transitions == 99
    with np.load(run / "counts.npz") as saved:
        assert saved["count"].sum() == 99
    system = Walk(seed=1)
    result = explore(system, run, resume=True)
    assert (result.steps, len(system.made)) == (300, 201)
    assert by_name(model, result.counts) == made(broken, system)
    assert same(result.counts, log_counts(model, run))


def test_a_stopped_run_continues_and_measures_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    system, run = Walk(), tmp_path / "run"
    stopped = explore(system, run, progress=lambda done: done < 123)
    assert (stopped.is_finished, stopped.steps) == (False, 123)
    result = explore(system, run, resume=True)
    assert result.is_finished
    model = walk_model()
    steps = [measures.step for measures in result.history]
    assert steps == sorted(set(steps))
    assert steps[-1] == 300
    # The measures of each time from what the system had done by then.
    for measures in result.history:
        visits = Counter((s["x"], s["mood"], a) for s, a, _ in system.made[: measures.step])
        assert measures.unvisited == model.graph.n_pairs - len(visits)
        assert measures.transitions == measures.step


def test_a_finished_run_is_resumed_without_touching_the_system(tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = explore(Walk(), run)
    untouched = Walk()
    again = explore(untouched, run, resume=True)
    assert untouched.resets == 0
    assert same(first.counts, again.counts)
    assert again.history == first.history
    assert (again.seconds, again.timed_steps) == (first.seconds, 300)


def test_ctrl_c_ends_a_step_before_it_stops(tmp_path: Path) -> None:
    class Interrupting(Walk):
        def step(self, action: Any) -> Any:
            if len(self.made) == 50:
                signal.raise_signal(signal.SIGINT)
            return super().step(action)

    system = Interrupting()
    result = explore(system, tmp_path / "run")
    assert (result.is_finished, result.steps) == (False, 51)
    assert by_name(walk_model(), result.counts) == made(system)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_ctrl_c_stops_a_system_that_hangs(tmp_path: Path) -> None:
    class Hanging(Walk):
        def step(self, action: Any) -> Any:
            if len(self.made) == 50:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)
            return super().step(action)

    with pytest.raises(KeyboardInterrupt):
        explore(Hanging(), tmp_path / "run")
    assert log_counts(walk_model(), tmp_path / "run").n_transitions == 50


def test_a_torn_last_line_costs_only_itself(tmp_path: Path) -> None:
    model, system, run = walk_model(), Walk(), tmp_path / "run"
    explore(system, run, progress=lambda done: done < 150)
    log = run / "log.csv"
    log.write_bytes(log.read_bytes() + b"99,5,1")
    result = explore(system, run, resume=True)
    assert by_name(model, result.counts) == made(system)
    assert same(result.counts, log_counts(model, run))


def test_a_transition_is_in_the_log_before_it_is_learnt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mdpdsl.explore.explorer import Explorer

    model, run = walk_model(), tmp_path / "run"
    learn = Explorer.observe
    seen = []

    def observe(self: Explorer, state: int, action: int, following: int, **flags: bool) -> None:
        if (run / "log.csv").exists():  # not where kernels are compiled
            seen.append(log_counts(model, run).n_transitions - self.counts.n_transitions)
        learn(self, state, action, following, **flags)

    monkeypatch.setattr(Explorer, "observe", observe)
    explore(Walk(), run, steps=20)
    assert seen == [1] * 20


@pytest.mark.parametrize("names", ["episode", "time", "episode time"])
def test_variables_named_like_the_log_s_own_columns_are_counted_right(
    tmp_path: Path, names: str
) -> None:
    first, *more = names.split()
    text = f"mdp odd\nstate {first} in 0..4\naction go, wait\n"
    text += "".join(f"state {name} in 0..1\n" for name in more)

    class Renamed(Walk):
        def _as(self, observed: dict[str, Any]) -> dict[str, Any]:
            return {first: observed["x"]} | {name: int(observed["x"] > 2) for name in more}

        def reset(self) -> dict[str, Any]:
            return self._as(super().reset())

        def step(self, action: Any) -> Any:
            observed, is_end = super().step(action)
            return self._as(observed), is_end

    model, run = mdpdsl.loads(text), tmp_path / "run"
    explore_live(model, Renamed(), run, steps=200, progress=lambda done: done < 77)
    result = explore_live(model, Renamed(3), run, steps=200, resume=True)
    assert result.transitions == 200
    assert same(result.counts, log_counts(model, run))


def test_a_block_that_computes_the_action_is_read_back(tmp_path: Path) -> None:
    text = """
mdp motor
state x in 0..4
action u in {-1, 0, 2}
log { x = floor(reading / 10)  u = (volts - 12) / 3  time = tick * 0.1  episode = run }
"""

    class Motor(Walk):
        def reset(self) -> dict[str, Any]:
            return {"reading": 10 * super().reset()["x"] + 3.5}

        def step(self, action: Any) -> Any:
            assert action["u"] in (-1, 0, 2)
            observed, is_end = super().step({"action": "go" if action["u"] else "wait"})
            return {"reading": 10 * observed["x"] + 0.5}, is_end

    model, run = mdpdsl.loads(text), tmp_path / "run"
    result = explore_live(model, Motor(), run, steps=200)
    header = "run,tick,reading,terminated,truncated,volts\n"
    assert (run / "log.csv").read_text().startswith(f"{header}0,0,")
    assert same(result.counts, log_counts(model, run))
    assert result.counts.n_transitions == 200


def test_actions_that_are_not_available_are_never_chosen(tmp_path: Path) -> None:
    text = WALK + "states all\ninit x = 0\non go when x < 3 -> stay\non wait -> stay\n"

    class Strict(Walk):
        def step(self, action: Any) -> Any:
            assert action["action"] == "wait" or self.now["x"] < 3
            observed, _ = super().step(action)
            return observed, self.generator.random() < 0.1

    model = mdpdsl.loads(text)
    result = explore_live(model, Strict(), tmp_path / "run", steps=300, algorithm="random")
    assert result.counts.n_transitions == 300


# Ends


CORRIDOR = "mdp corridor\nstate x in 0..4\naction go, wait\n"


class Corridor:
    """A random walk on 0..4 that starts at 1..3; episodes end in some states, or are cut."""

    def __init__(
        self,
        ends: tuple[int, ...] = (0, 4),
        n_until_cut: int = 10**9,
        starts: tuple[int, ...] = (1, 2, 3),
        seed: int = 0,
    ) -> None:
        self.ends, self.n_until_cut, self.starts = ends, n_until_cut, starts
        self.generator = np.random.default_rng(seed)
        self.x = self.n_steps = 0
        self.resets: list[int] = []
        self.made: list[tuple[int, str, int, bool, bool]] = []

    def reset(self) -> dict[str, Any]:
        self.n_steps = 0
        self.x = int(self.generator.choice(self.starts))
        self.resets.append(self.x)
        return self.observed()

    def observed(self) -> dict[str, Any]:
        return {"x": self.x}

    def ends_here(self) -> bool:
        return self.x in self.ends

    def step(self, action: Any) -> Any:
        before, self.n_steps = self.x, self.n_steps + 1
        if action["action"] == "go":
            self.x = min(4, max(0, self.x + int(self.generator.choice([-1, 1]))))
        ended, cut = self.ends_here(), self.n_steps >= self.n_until_cut
        self.made.append((before, action["action"], self.x, ended, cut))
        return self.observed(), ended, cut


class Single(Corridor):
    """A corridor whose `step` has a single truth value."""

    def step(self, action: Any) -> Any:
        observed, ended, cut = super().step(action)
        return observed, ended or cut


class Leaky(Corridor):
    """A corridor in which x = 2 ends every other episode that comes there."""

    def ends_here(self) -> bool:
        return super().ends_here() or (self.x == 2 and bool(self.generator.integers(2)))


def corridor(system: Corridor, run: Path, text: str = CORRIDOR, **settings: Any) -> LiveResult:
    return explore_live(mdpdsl.loads(text), system, run, **({"steps": 300} | settings))


def ends_of(result: LiveResult) -> list[int]:
    """Return the states of the result's estimate that are ends."""
    estimate = result.estimate()
    estimate.validate()
    return [] if estimate.ends is None else np.flatnonzero(estimate.ends).tolist()


def assert_log_says_the_same(result: LiveResult, text: str = CORRIDOR) -> None:
    """Check that the log of a run, read by `estimate`, has its counts, ends and starts."""
    assert result.run is not None
    read = mdpdsl.estimate(mdpdsl.loads(text), result.run / "log.csv")
    assert same(result.counts, read.counts)
    assert result.settled.found.tolist() == read.settled.found.tolist()
    assert result.settled.mixed.tolist() == read.settled.mixed.tolist()
    assert result.settled.starts.tolist() == read.settled.starts.tolist()
    assert result.rejected.counts == read.rejected
    assert from_npz(result.run / "estimate.npz").hash == read.as_model(all_states=True).graph.hash


@pytest.mark.parametrize("algorithm", ["kappa-dp", "random", "maxent", "tracking"])
def test_where_every_episode_terminates_is_an_end_without_pairs(
    tmp_path: Path, algorithm: str
) -> None:
    system = Corridor()
    result = corridor(system, tmp_path / "run", algorithm=algorithm)
    assert ends_of(result) == result.settled.found.tolist() == [0, 4]
    assert set(result.spaces.pair_state.tolist()) == {1, 2, 3}
    arrived = np.bincount(result.counts.successor, result.counts.count)[[0, 4]]
    assert arrived.sum() == sum(ended for *_, ended, _ in system.made) > 10
    assert_log_says_the_same(result)


def test_a_truncated_episode_has_no_end_and_nothing_is_counted_across_it(tmp_path: Path) -> None:
    system = Corridor(ends=(), n_until_cut=3, starts=(0, 4))
    result = corridor(system, tmp_path / "run")
    assert ends_of(result) == []
    assert result.counts.n_transitions == 300
    assert len(system.resets) >= 100
    # A step changes x by 1 at most; from the end of one episode to the next may be further.
    pair = np.repeat(np.arange(10), np.diff(result.counts.successor_start))
    assert np.abs(result.spaces.pair_state[pair] - result.counts.successor).max() == 1
    assert_log_says_the_same(result)


def test_a_cell_in_which_some_episodes_end_has_a_twin_and_is_named(tmp_path: Path) -> None:
    system = Leaky(n_until_cut=20)
    with pytest.warns(MdpdslWarning, match=r"some episodes ended and others continued in x = 2;"):
        result = corridor(system, tmp_path / "run")
    assert result.settled.mixed.tolist() == [2]
    assert ends_of(result) == [0, 4, 5]
    assert result.spaces.states.native(5) == {"x": 2}
    ended_there = sum(x == 2 and ended for _, _, x, ended, _ in system.made)
    assert result.counts.count[result.counts.successor == 5].sum() == ended_there > 10
    with pytest.warns(MdpdslWarning, match="x = 2"):
        assert_log_says_the_same(result)


def test_a_single_truth_value_counts_as_cut(tmp_path: Path) -> None:
    result = corridor(Single(), tmp_path / "run")
    assert ends_of(result) == []
    rows = (tmp_path / "run" / "log.csv").read_text().splitlines()[1:]
    assert not any(",true,false," in row for row in rows)
    assert sum(",false,true," in row for row in rows) > 10
    assert_log_says_the_same(result)


def test_a_single_truth_value_that_the_block_declares_is_an_end(tmp_path: Path) -> None:
    text = CORRIDOR + "log { ended = done }\n"
    result = corridor(Single(), tmp_path / "run", text)
    assert ends_of(result) == [0, 4]
    assert_log_says_the_same(result, text)


def test_three_values_keep_ends_and_cuts_apart(tmp_path: Path) -> None:
    system = Corridor(ends=(4,), n_until_cut=5)
    result = corridor(system, tmp_path / "run")
    assert ends_of(result) == [4]
    assert any(cut and not ended for *_, ended, cut in system.made)
    assert any(cut and ended for *_, ended, cut in system.made)  # it ended
    assert_log_says_the_same(result)


def test_what_is_observed_may_say_that_the_episode_ended(tmp_path: Path) -> None:
    class Warm(Corridor):
        def observed(self) -> dict[str, Any]:
            return {"x": self.x, "hot": 20.0 * self.x}

        def step(self, action: Any) -> Any:
            return super().step(action)[0], False

    text = CORRIDOR + "log { ended = hot > 70  x = if hot > 70 then 4 else x }\n"
    result = corridor(Warm(ends=()), tmp_path / "run", text)
    assert ends_of(result) == [4]
    assert_log_says_the_same(result, text)


@pytest.mark.parametrize("kind", ["enum", "int"])
def test_odd_flags_are_read_as_the_log_reads_them(tmp_path: Path, kind: str) -> None:
    odd = [False, True, 0, 1, 2, 0.5, None, "", "yes", "no", "maybe", " T ", float("inf")]

    class Odd(Corridor):
        def observed(self) -> dict[str, Any]:
            flag = odd[int(self.generator.integers(len(odd)))] if self.n_steps else False
            hot = [1, 7, None, "x"][int(self.generator.integers(4))] if self.n_steps else 1
            return {"x": self.x, "over": flag, "hot": hot}

    text = CORRIDOR + "log { ended = over  cut = not (hot < 5) }\n"
    if kind == "enum":  # a state that is always left to the reader
        text = text.replace("0..4", "{low, high}")
        text = text.replace("log {", "log { x = if x > 1 then high else low ")
    with pytest.warns(MdpdslWarning, match="some episodes ended"):
        result = corridor(Odd(), tmp_path / "run", text)
    assert result.rejected.counts[UNKNOWN_FLAG] > 20
    with pytest.warns(MdpdslWarning):
        read = mdpdsl.estimate(mdpdsl.loads(text), tmp_path / "run" / "log.csv")
    assert same(result.counts, read.counts)
    assert result.rejected.counts == read.rejected


def test_an_end_of_the_model_ends_an_episode_that_the_system_would_continue(
    tmp_path: Path,
) -> None:
    text = CORRIDOR + "end when x == 4\n"
    system = Corridor(ends=())
    result = corridor(system, tmp_path / "run", text)
    assert ends_of(result) == [4]
    assert not any(before == 4 for before, *_ in system.made)
    assert_log_says_the_same(result, text)


@pytest.mark.parametrize("block", ["end when x == 4", "log { ended = hot }"])
def test_no_action_is_taken_where_an_episode_is_over_as_it_begins(
    tmp_path: Path, block: str
) -> None:
    class Hot(Corridor):
        def observed(self) -> dict[str, Any]:
            return {"x": self.x, "hot": self.x == 4}

    text = CORRIDOR + block + "\n"
    system = Hot(ends=(4,), starts=(1, 4))
    result = corridor(system, tmp_path / "run", text, progress=lambda done: done < 200)
    result = corridor(system, tmp_path / "run", text, resume=True)
    assert 4 in system.resets
    assert not any(before == 4 for before, *_ in system.made)
    assert ends_of(result) == [4]
    assert_log_says_the_same(result, text)


def test_a_system_whose_episodes_are_over_as_they_begin_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(LiveError, match=r"20 episodes in a row were over .*the last in x = 4"):
        corridor(Corridor(starts=(4,)), tmp_path / "run", CORRIDOR + "end when x == 4\n")


@pytest.mark.parametrize("text", [CORRIDOR, CORRIDOR + "end when x == 4\n"])
def test_a_run_with_ends_is_resumed_to_the_same_files(tmp_path: Path, text: str) -> None:
    system, run = Corridor(n_until_cut=6), tmp_path / "run"
    corridor(system, run, text, progress=lambda done: done < 123)
    first = corridor(system, run, text, resume=True)
    assert ends_of(first) == [0, 4]
    assert_log_says_the_same(first, text)
    names = ("log.csv", "counts.npz", "estimate.npz", "radii.npz", "intervals.npz", "metrics.npz")
    before = {name: (run / name).read_bytes() for name in names}
    untouched = Corridor()
    again = corridor(untouched, run, text, resume=True)
    assert untouched.resets == []
    assert {name: (run / name).read_bytes() for name in names} == before
    assert again.history == first.history


def test_measures_are_resumed_with_the_starts_known_at_the_time(tmp_path: Path) -> None:
    """Before an episode starts in x = 4, it is an end; later its pairs have to be visited, too."""
    system, run = Corridor(starts=(*[3] * 19, 4), seed=1), tmp_path / "run"
    with pytest.warns(MdpdslWarning, match="x = 4"):
        first = corridor(system, run)
    assert system.resets.index(4) > 5
    with pytest.warns(MdpdslWarning, match="x = 4"):
        assert corridor(system, run, resume=True).history == first.history


def test_a_run_of_an_earlier_version_is_resumed_without_ends(tmp_path: Path) -> None:
    run = tmp_path / "run"
    corridor(Corridor(), run, progress=lambda done: done < 100)
    rows = [line.split(",") for line in (run / "log.csv").read_text().splitlines()]
    (run / "log.csv").write_text("".join(",".join([*r[:3], *r[5:]]) + "\n" for r in rows))
    result = corridor(Corridor(seed=1), run, resume=True)
    assert (result.steps, ends_of(result)) == (300, [])
    assert not result.settled.says_ends
    assert_log_says_the_same(result)


def test_a_warm_start_brings_its_ends(tmp_path: Path) -> None:
    corridor(Corridor(), tmp_path / "one")
    system = Corridor(seed=1)
    result = corridor(system, tmp_path / "two", steps=5, warm_start=[tmp_path / "one"])
    assert ends_of(result) == [0, 4]
    assert result.counts.n_transitions == 305


def test_an_explorer_of_another_party_sees_ends_and_cuts(tmp_path: Path) -> None:
    seen = []

    class Watching:
        def __init__(self, spaces: Any, generator: Any) -> None:
            pass

        def act(self, state: int) -> int:
            return 0

        def observe(self, state: int, action: int, next_state: int, ended: bool, cut: bool) -> None:
            seen.append((next_state, ended, cut))

    model = mdpdsl.loads(CORRIDOR + "end when x == 4\n")
    system = Corridor(ends=(0,), n_until_cut=5)
    mdpdsl.explore(model, system=system, algorithm=Watching, steps=200)
    assert {ended for x, ended, _ in seen if x in (0, 4)} == {True}
    assert {x for x, ended, _ in seen if ended} == {0, 4}
    assert any(cut for *_, cut in seen)
    assert not any(ended and cut for _, ended, cut in seen)


def test_a_rejected_observation_stops_an_episode_and_the_next_one_starts(tmp_path: Path) -> None:
    class Torn(Corridor):
        def step(self, action: Any) -> Any:
            observed, ended, cut = super().step(action)
            return (observed if len(self.made) % 7 else {"x": 99}), ended, cut

    result = corridor(Torn(starts=(1, 2)), tmp_path / "run")
    assert result.settled.starts.sum() == result.episodes > 42
    assert_log_says_the_same(result)


@pytest.mark.parametrize("algorithm", ["kappa-dp", "tracking"])
def test_after_a_rejected_observation_an_episode_may_start_in_a_found_end(
    tmp_path: Path, algorithm: str
) -> None:
    """The third episode starts where the first one ended."""

    class Torn(Corridor):
        def reset(self) -> dict[str, Any]:
            super().reset()
            self.x = 4 if len(self.resets) == 3 else 2
            return self.observed()

        def step(self, action: Any) -> Any:
            self.x = {1: 4, 2: 99}.get(len(self.resets), 2)
            return self.observed(), self.x == 4, len(self.resets) > 2

    with pytest.warns(MdpdslWarning, match="x = 4"):
        result = corridor(Torn(), tmp_path / "run", steps=10, algorithm=algorithm)
    assert result.settled.mixed.tolist() == [4]
    with pytest.warns(MdpdslWarning, match="x = 4"):
        assert_log_says_the_same(result)


# Failing


def test_cells_that_are_out_of_reach_fail_no_run(tmp_path: Path) -> None:
    wide = CORRIDOR.replace("0..4", "0..9")
    for system in (Corridor(), Single()):
        run = mdpdsl.explore(mdpdsl.loads(wide), system=system, steps=300)
        record = run.record()
        n_unreached = int((run.counts.visits == 0).sum())
        assert record["trials"][0]["unvisited"] == n_unreached >= 10
        assert not record["trials"][0]["failed"]
        assert record["failure_rate"] == run.failure_rate == 0


def test_an_action_that_was_never_tried_where_others_were_fails_a_run(tmp_path: Path) -> None:
    class Stubborn:
        def __init__(self, spaces: Any, generator: Any) -> None:
            pass

        def act(self, state: int) -> int:
            return 0

        def observe(self, state: int, action: int, next_state: int) -> None:
            pass

    model = mdpdsl.loads(CORRIDOR)
    run = mdpdsl.explore(model, system=Corridor(), algorithm=Stubborn, steps=300)
    assert run.settled is not None
    assert run.settled.untried.tolist() == [1, 3, 5]  # `wait` in 1, 2, 3; 0 and 4 are ends
    assert run.record()["trials"][0]["failed"]
    assert run.failure_rate == 1


# Mistakes


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (({"x": 1, "mood": "calm", "extra": 1}, False), "gives the column `extra`, unlike before"),
        (({"x": 1}, False), "does not give the column `mood`"),
        (
            {"x": 1, "mood": "calm"},
            r"returned \{'x': 1, .*\} for a step; expected what is observed",
        ),
        (({"x": 1, "mood": "calm"}, 0.0, False), "returned 0.0 and False .* each True or False"),
        (({"x": 1, "mood": "calm"}, False, False, {}), "for a step; expected what is observed"),
        (([1, "calm"], False), r"expected values by column"),
        (({"x": [1, 2], "mood": "calm"}, False), "column `x` has .*each number in a column"),
    ],
)
def test_answers_that_make_no_sense_are_refused(tmp_path: Path, answer: Any, message: str) -> None:
    class Odd(Walk):
        def step(self, action: Any) -> Any:
            return answer if len(self.made) == 3 else super().step(action)

    with pytest.raises(LiveError, match=message):
        explore(Odd(), tmp_path / "run")
    assert log_counts(walk_model(), tmp_path / "run").n_transitions == 3


def test_columns_may_come_in_any_order(tmp_path: Path) -> None:
    class Shuffled(Walk):
        def step(self, action: Any) -> Any:
            observed, is_end = super().step(action)
            return dict(reversed(observed.items())), is_end

    system = Shuffled()
    result = explore(system, tmp_path / "run")
    assert by_name(walk_model(), result.counts) == made(system)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kapa": 3}, "did you mean `kappa`"),
        ({"kappa": 0.5}, "kappa must be 1 or more"),
        ({"algorithm": "rando"}, "did you mean `random`"),
        ({"simulate": "continuous"}, "as it is"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_done(
    tmp_path: Path, settings: Any, message: str
) -> None:
    system = Walk()
    with pytest.raises(SettingsError, match=message):
        explore(system, tmp_path / "run", **settings)
    assert system.resets == 0
    assert not (tmp_path / "run").exists()


def test_a_column_that_is_missing_is_named_and_leaves_no_folder(tmp_path: Path) -> None:
    model = mdpdsl.loads("mdp other\nstate y in 0..3\naction go, wait")
    with pytest.raises(SettingsError, match=r"(?s)Walk has no column `y`.*log \{\n  y = x\n\}"):
        explore_live(model, Walk(), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_folder_in_use_is_not_written_over(tmp_path: Path) -> None:
    explore(Walk(), tmp_path / "run", steps=10)
    before = (tmp_path / "run" / "log.csv").read_bytes()
    with pytest.raises(RunError, match="exists already"):
        explore(Walk(), tmp_path / "run", steps=10)
    assert (tmp_path / "run" / "log.csv").read_bytes() == before


def test_a_resumed_run_keeps_its_settings_and_its_model(tmp_path: Path) -> None:
    run = tmp_path / "run"
    explore(Walk(), run, progress=lambda done: done < 50)
    with pytest.raises(RunError, match="steps is 300, not 400"):
        explore(Walk(), run, steps=400, resume=True)
    other = walk_model(WALK.replace("0..4", "0..5"))
    with pytest.raises(RunError, match="another model"):
        explore_live(other, Walk(), run, resume=True)


def test_resuming_what_is_not_there_begins_it(tmp_path: Path) -> None:
    assert explore(Walk(), tmp_path / "run", resume=True).is_finished


# Warm starts


def test_a_warm_start_adds_to_what_is_observed(tmp_path: Path) -> None:
    model, first, second = walk_model(), Walk(), Walk(seed=1)
    explore(first, tmp_path / "one")
    sources = [tmp_path / "one" / "log.csv"]
    result = explore(second, tmp_path / "two", steps=100, warm_start=sources)
    assert (result.steps, result.transitions, result.warm_transitions) == (100, 100, 300)
    assert by_name(model, result.counts) == made(first, second)
    assert result.measures.transitions == 400
    of_logs = merge(log_counts(model, tmp_path / "one"), log_counts(model, tmp_path / "two"))
    assert same(result.counts, of_logs)


def test_a_warm_started_run_resumes_without_its_source(tmp_path: Path) -> None:
    model, first, second, third = walk_model(), Walk(), Walk(1), Walk(2)
    explore(first, tmp_path / "one")
    run = tmp_path / "two"
    explore(second, run, steps=100, warm_start=[tmp_path / "one"], progress=lambda done: done < 60)
    for file in (tmp_path / "one").iterdir():
        file.unlink()
    result = explore(third, run, steps=100, resume=True)
    assert by_name(model, result.counts) == made(first, second, third)
    assert (result.transitions, result.warm_transitions) == (100, 300)
    assert result.history[0].transitions == 301
    assert json.loads((run / "run.json").read_text())["warm_start"]["transitions"] == 300


def test_what_a_warm_start_knows_is_not_visited_again(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    rows = "".join("0,calm,go\n0,calm,\n" for _ in range(500))
    log.write_text("x,mood,action\n" + rows)
    model = walk_model()
    go = model.graph.pair(model.graph.state(x=0, mood="calm"), 0)
    cold = explore(Walk(), tmp_path / "cold", steps=400, kappa=5)
    with pytest.warns(MdpdslWarning, match="rejected in the warm start, missing action: 499"):
        warm = explore(Walk(), tmp_path / "warm", steps=400, kappa=5, warm_start=[log])
    assert warm.counts.visits[go] - 500 < cold.counts.visits[go] / 4
