"""Replaying a log: queues answer in order, the end has a reason, and all ways to run it agree."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdpdsl
from mdpdsl.estimate.empirical import estimated_complexity
from mdpdsl.explore.executor import TrialResult, run_trials, trial_seeds
from mdpdsl.explore.explorer import Explorer
from mdpdsl.explore.replay.logged import LogEndedError, LoggedExperience
from mdpdsl.explore.replay.queues import LogQueues, log_queues
from mdpdsl.explore.settings import ExploreSettings
from mdpdsl.explore.trial import continue_trial, load_trial, new_trial
from mdpdsl.graph.complexity import squared_l2_complexity
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.logs.order import LoggedTransitions, TransitionOrder
from mdpdsl.simulate.trajectory import Schedule, draw_trajectory
from tests.logs.plain_logs import add_steps

SPACES = mdpdsl.loads("mdp spaces\nstate x in 0..3\naction a, b\n").graph

Step = tuple[int, int, int]  # state, action, next state


def logged_steps(graph: TransitionGraph, steps: Sequence[Step]) -> LoggedTransitions:
    """Take steps for a log; an episode starts where a step does not follow the one before."""
    order = TransitionOrder(graph)
    codes = [graph.pair(s, a) * graph.n_states + t for s, a, t in steps]
    add_steps(order, graph, np.array(codes, np.int64))
    return order.transitions()


def random_log(graph: TransitionGraph, n_steps: int, seed: int) -> LoggedTransitions:
    """Return what the random policy sees in one episode."""
    (rows,) = draw_trajectory(graph, Schedule(n_steps), np.random.default_rng(seed))
    order = TransitionOrder(graph)
    add_steps(order, graph, rows.pair[:-1] * graph.n_states + rows.state[1:])
    return order.transitions()


def replayed(log: LogQueues, seed: int = 0, **chosen: object) -> TrialResult:
    (result,) = run_trials(
        log.graph,
        ExploreSettings(**{"steps": log.n_transitions, **chosen}),  # type: ignore[arg-type]
        seed=seed,
        trials=1,
        jobs=1,
        system=log,
    )
    return result


def plain_replay(
    steps: Sequence[Step], log: LogQueues, explorer: Explorer
) -> tuple[list[Step], str, tuple[int, int] | None]:
    """Replay with a deque for each pair of the model; return the steps, why it ended and where."""
    graph = log.graph
    queues: dict[tuple[int, int], deque[int]] = defaultdict(deque)
    starts: deque[int] = deque()
    before = None
    for s, a, t in steps:
        queues[s, a].append(t)
        if s != before:
            starts.append(s)
        before = t
    left = {s for s, _ in queues}
    names = log.model_state.tolist()
    state = names.index(starts.popleft())
    done: list[Step] = []
    while len(done) < len(steps):
        action = explorer.act(state)
        pair = (names[state], action)
        if not queues[pair]:
            return done, "empty", pair
        following = names.index(queues[pair].popleft())
        done.append((names[state], action, names[following]))
        is_over = names[following] not in left
        explorer.observe(state, int(action), following, cut=is_over)
        state = following
        if is_over and len(done) < len(steps):
            if not starts:
                return done, "no start", None
            state = names.index(starts.popleft())
    assert graph.n_states == len(names)
    return done, "all", None


steps_of_a_log = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=40
)


@given(
    steps=steps_of_a_log,
    algorithm=st.sampled_from(["random", "kappa-dp", "maxent"]),
    offers_all=st.booleans(),
    seed=st.integers(0, 5),
)
@settings(max_examples=80, deadline=None)
def test_a_replay_is_that_of_plain_queues(
    steps: list[Step], algorithm: str, offers_all: bool, seed: int
) -> None:
    log = log_queues(SPACES, logged_steps(SPACES, steps), offers_all=offers_all)
    result = replayed(log, seed, algorithm=algorithm)
    chosen = ExploreSettings(algorithm=algorithm, steps=log.n_transitions)
    seeds = trial_seeds(seed, 0).spawn(2)[0]
    explorer = Explorer(log.graph, chosen, np.random.default_rng(seeds))
    done, why, pair = plain_replay(steps, log, explorer)
    end = result.replay
    assert end is not None
    assert result.is_finished
    assert end.steps == len(done)
    expected = np.zeros((SPACES.n_pairs, 4), int)
    for s, a, t in done:
        expected[SPACES.pair(s, a), t] += 1
    counts = log.model_counts(result.counts)
    found = np.zeros_like(expected)
    pairs = np.repeat(np.arange(SPACES.n_pairs), np.diff(counts.successor_start))
    found[pairs, counts.successor] = counts.count
    assert np.array_equal(found, expected)
    if why == "empty":
        assert pair is not None
        assert end.pair == SPACES.pair(*pair)
        assert end.in_log == sum(step[:2] == pair for step in steps)
        label = f"{'ab'[pair[1]]} in x = {pair[0]}"
        reason = "no more transitions of" if end.in_log else "the log never has"
        assert end.text == f"{reason} {label}"
    elif why == "all":
        assert end.text == "every transition of the log was used"
    else:
        assert end.text.startswith("no more episodes to start")
    _check_measures(result, log, steps, done)


def _check_measures(
    result: TrialResult, log: LogQueues, steps: Sequence[Step], done: Sequence[Step]
) -> None:
    """Work the measures out from the rows of both estimates."""
    measures, end = result.measures, result.replay
    assert measures is not None
    assert end is not None
    in_log = sorted({(s, a) for s, a, _ in steps})
    losses, distances = [], []
    for pair in in_log:
        whole = np.bincount([t for *p, t in steps if tuple(p) == pair], minlength=4)
        seen = np.bincount([t for *p, t in done if tuple(p) == pair], minlength=4)
        P = whole / whole.sum()
        estimate = seen / seen.sum() if seen.sum() else np.full(4, 0.25)
        distances.append(((P - estimate) ** 2).sum())
        losses.append((1 - (P**2).sum()) * len(done) / seen.sum() if seen.sum() else np.inf)
    assert measures.unvisited == sum(np.isinf(losses))
    assert end.distance == pytest.approx(np.mean(distances), abs=1e-12)
    if measures.unvisited == 0:
        assert measures.worst == pytest.approx(max(losses), abs=1e-12)
        assert measures.average == pytest.approx(np.mean(losses), abs=1e-12)
    else:
        assert result.failed
    assert [m.step for m in result.history] == sorted({m.step for m in result.history})
    assert result.history[-1].step == len(done)


@pytest.mark.parametrize(
    ("algorithm", "chosen"),
    [
        ("kappa-dp", {"kappa": 2}),
        ("kappa-dp", {"horizon": 2}),
        ("maxent", {}),
        ("random", {}),
        ("smm", {}),
        ("kappa-lp", {"backend": "evi", "eta": 0.0}),
        ("fw-modest", {"backend": "evi", "eta": 0.0}),
    ],
)
def test_an_own_loop_and_the_compiled_one_make_the_same_visits(
    algorithm: str, chosen: dict[str, object]
) -> None:
    log = short_episodes(seed=3)
    settings = ExploreSettings(
        algorithm=algorithm,
        steps=log.n_transitions,
        gamma=0.9,
        **chosen,  # type: ignore[arg-type]
    )
    trial = new_trial(log.graph, settings, np.random.SeedSequence(5), log)
    continue_trial(trial, log.graph, lambda _: True, None)
    seed = np.random.SeedSequence(5).spawn(2)[0]
    explorer = Explorer(log.graph, settings, np.random.default_rng(seed))
    replay = LoggedExperience(log)
    with pytest.raises(LogEndedError, match=r"no more (transitions of|episodes)"):
        walk(explorer, replay, log.n_transitions * 2)
    assert replay.restarts > 5
    for name in ("successor_start", "successor", "count"):
        assert np.array_equal(getattr(trial.counts, name), getattr(explorer.counts, name))
    assert (trial.done, trial.state) == (replay.steps, replay.state)


def walk(explorer: Explorer, experience: LoggedExperience, n_moves: int) -> None:
    for _ in range(n_moves):
        state = experience.state
        action = explorer.act(state)
        outcome = experience.answer(action)
        if outcome is not None:
            explorer.observe(state, action, *outcome)
            if outcome.ended or outcome.cut:
                experience.begin()
        if experience.has_ended:
            raise LogEndedError(experience.end_text)


def short_episodes(seed: int, n: int = 400) -> LogQueues:
    """Return a log of walks on 0..3 that end in 3, which nothing leaves."""
    draw = np.random.default_rng(seed)
    steps: list[Step] = []
    for _ in range(n):
        state = int(draw.integers(0, 2))
        while state != 3:
            action = int(draw.integers(2))
            following = int(min(3, max(0, state + draw.choice([-1, 1], p=[0.6, 0.4]))))
            steps.append((state, action, following if action else int(draw.integers(4))))
            state = steps[-1][2]
    return log_queues(SPACES, logged_steps(SPACES, steps))


def test_a_log_of_short_episodes_continues_with_the_next_episode() -> None:
    log = short_episodes(seed=0)
    assert log.graph.n_pairs == 6  # none in 3
    assert log.is_cut.tolist() == [False] * 3 + [True]  # the log does not say that it is an end
    result = replayed(log, algorithm="random")
    assert result.replay is not None
    assert result.replay.restarts > 100
    assert result.replay.steps > 0.5 * log.n_transitions
    assert not result.failed
    ends = log.model_counts(result.counts)
    assert ends.n_transitions == result.replay.steps  # starts of episodes are no transitions
    assert (ends.visits[6:] == 0).all()


def test_the_whole_log_of_a_deterministic_cycle_is_used() -> None:
    steps = [(n % 4, 0, (n + 1) % 4) for n in range(103)]
    log = log_queues(SPACES, logged_steps(SPACES, steps))
    for algorithm in ("kappa-dp", "random", "maxent"):
        result = replayed(log, algorithm=algorithm)
        assert result.measures is not None
        assert result.replay is not None
        assert result.replay.text == "every transition of the log was used"
        assert (result.replay.steps, result.replay.pair) == (103, None)
        assert result.replay.distance == pytest.approx(0, abs=1e-15)
        assert result.measures.worst == 0  # nothing to estimate, and all pairs visited


def test_only_what_the_log_has_is_offered_unless_all_is() -> None:
    steps = [(0, 0, 1), (1, 0, 0)] * 50
    few = log_queues(SPACES, logged_steps(SPACES, steps))
    assert (few.graph.n_states, few.graph.n_pairs) == (2, 2)
    few.graph.validate()
    assert replayed(few).replay.steps == 100  # type: ignore[union-attr]
    full = log_queues(SPACES, logged_steps(SPACES, steps), offers_all=True)
    end = replayed(full).replay
    assert end is not None
    assert (full.graph.n_pairs, end.in_log, end.steps) == (8, 0, end.steps)
    assert end.steps <= 2
    assert end.text.startswith("the log never has b in x = ")


def test_c_and_p_are_those_of_the_whole_log() -> None:
    graph = mdpdsl.load("riverswim").graph
    log = log_queues(graph, random_log(graph, 5_000, seed=1))
    start = np.append(0, np.cumsum(np.diff(log.queue_start)))
    c = squared_l2_complexity(log.graph)
    for pair in range(log.graph.n_pairs):
        share = np.bincount(log.successor[start[pair] : start[pair + 1]]) / log.in_log(pair)
        assert c[pair] == pytest.approx(1 - (share**2).sum())
    result = replayed(log, algorithm="random")
    assert result.measures is not None
    visits, seen = result.counts.visits, estimated_complexity(result.counts)
    assert not np.allclose(seen, c)  # so that it matters which of them is used
    expected = (c * result.measures.step / visits).max()
    assert result.measures.worst == pytest.approx(expected)


def test_the_number_of_processes_does_not_change_a_bit() -> None:
    log = short_episodes(seed=1)
    chosen = ExploreSettings(algorithm="maxent", steps=log.n_transitions)
    one, two = (
        run_trials(log.graph, chosen, seed=7, trials=3, jobs=jobs, system=log) for jobs in (1, 2)
    )
    for first, second in zip(one, two, strict=True):
        assert first.counts.count.tobytes() == second.counts.count.tobytes()
        assert (first.measures, first.replay) == (second.measures, second.replay)
    assert one[0].counts.count.tobytes() != one[1].counts.count.tobytes()


@pytest.mark.parametrize("algorithm", ["maxent", "kappa-lp"])
def test_a_replay_stopped_and_resumed_is_the_same_replay(algorithm: str, tmp_path: Path) -> None:
    graph = mdpdsl.load("riverswim").graph
    log = log_queues(graph, random_log(graph, 20_000, seed=2))
    chosen = ExploreSettings(algorithm=algorithm, backend="evi", eta=0.0, steps=log.n_transitions)
    whole = new_trial(log.graph, chosen, trial_seeds(3, 0), log)
    continue_trial(whole, log.graph, lambda _: True, None)
    assert 100 < whole.done < log.n_transitions
    pieces = new_trial(log.graph, chosen, trial_seeds(3, 0), log)
    n_pieces = 0
    for stop in (1, 40, 70, log.n_transitions):
        continue_trial(pieces, log.graph, lambda s, stop=stop: s.steps < stop, tmp_path)  # type: ignore[misc]
        n_pieces += not pieces.is_finished
        pieces = load_trial(log.graph, chosen, trial_seeds(3, 0), tmp_path, log)
    assert n_pieces == 3
    assert pieces.is_finished
    assert pieces.history == whole.history
    assert pieces.counts.count.tobytes() == whole.counts.count.tobytes()
    assert isinstance(pieces.experience, LoggedExperience)
    assert isinstance(whole.experience, LoggedExperience)
    assert pieces.experience.end(pieces.counts) == whole.experience.end(whole.counts)


def test_a_replay_may_be_ended_after_some_steps_without_another_course() -> None:
    log = short_episodes(seed=4)
    limited = replayed(replace(log, most_steps=50), algorithm="weighted-maxent", bonus="bernstein")
    assert limited.replay is not None
    assert (limited.replay.steps, limited.replay.text) == (50, "the limit of 50 steps")
    chosen = ExploreSettings(
        algorithm="weighted-maxent", bonus="bernstein", steps=log.n_transitions
    )
    seed = trial_seeds(0, 0).spawn(2)[0]
    explorer = Explorer(log.graph, chosen, np.random.default_rng(seed))
    replay = LoggedExperience(log)
    while replay.steps < 50:
        walk(explorer, replay, 1)
    visits = explorer.counts.visits[log.logged]
    assert np.array_equal(limited.counts.visits[log.logged], visits)


#: Replays and simulated runs of each, and how many standard errors their means may differ by: with
#: 18 pairs, more than 4 has a chance of about 0.1 %.
N_RUNS, MOST_ERRORS = 40, 4.0


def test_replaying_a_random_log_visits_pairs_as_exploring_the_system_does() -> None:
    model = mdpdsl.loads("""
        mdp ring
        state x in 0..5
        action left, right, stay_put
        init x = 0
        on left -> 0.7: x' = if x == 0 then 5 else x - 1 | 0.3: x' = 0
        on right -> 0.5: x' = if x == 5 then 0 else x + 1 | 0.5: stay
        on stay_put -> 0.9: stay | 0.1: x' = 3
    """)
    chosen = ExploreSettings(kappa=2, gamma=0.9, steps=600)
    simulated = run_trials(model.graph, chosen, seed=0, trials=N_RUNS, jobs=1)
    replays = []
    for seed in range(N_RUNS):
        log = log_queues(model.graph, random_log(model.graph, 20_000, seed))
        assert log.graph.n_pairs == model.graph.n_pairs == 18
        replays.append(replayed(log, kappa=2, gamma=0.9, steps=600))
        assert replays[-1].replay is not None
        assert replays[-1].replay.steps == 600
    one, other = (np.array([r.counts.visits for r in runs]) for runs in (simulated, replays))
    error = np.sqrt((one.var(axis=0, ddof=1) + other.var(axis=0, ddof=1)) / N_RUNS)
    assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) <= MOST_ERRORS * error).all()
    # And they are not those of the random policy, which made the log.
    random = run_trials(
        model.graph,
        ExploreSettings(algorithm="random", steps=600),
        seed=0,
        trials=N_RUNS,
        jobs=1,
    )
    visits = np.array([r.counts.visits for r in random])
    assert (np.abs(visits.mean(axis=0) - other.mean(axis=0)) > MOST_ERRORS * error).any()


def test_a_log_without_transitions_cannot_be_replayed() -> None:
    empty = TransitionOrder(SPACES).transitions()
    with pytest.raises(ValueError, match="no transition"):
        log_queues(SPACES, empty)


def test_a_replay_and_a_warm_start_read_logs_with_the_options_of_estimate(tmp_path: Path) -> None:
    model = mdpdsl.loads(
        "mdp m  state x in [0, 1] bins 2  action a, b  noise w ~ uniform(0, 1)  x' = w"
    )
    rows = "".join(f"0,{1 + 7 * (k % 2)};{'ab'[k % 3 == 0]}\n" for k in range(9))
    log = tmp_path / "log.csv"
    log.write_text(f"x;action\n{rows}")
    run = mdpdsl.explore(model, log=str(log), decimal=",")
    assert run.record()["log"]["reading"] == {"decimal": ","}
    assert run.record()["log"]["transitions"] == 8
    warm = mdpdsl.explore(model, warm_start=[str(log)], decimal=",", steps=10)
    assert warm.record()["warm_start"]["transitions"] == 8
    with pytest.raises(mdpdsl.SettingsError, match="`decimal=` is about a log"):
        mdpdsl.explore(model, decimal=",")
