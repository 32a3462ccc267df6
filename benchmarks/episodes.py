"""Environments whose episodes end: estimates of FrozenLake-v1, and live explorers.

    python benchmarks/episodes.py [--seeds 30] [--steps 6210] [--delta 0.1] [--live-steps 16000]
        [--live-seeds 10] [--json]

For each seed, random actions are recorded as a Minari dataset and taken by a live run. The model
file has only the spaces, so the ends are found in the data. The best chance of reaching the goal
and the best discounted value (0.99) of the estimates are compared with the truth, 0.8235 and
0.5420, and the true rows with the confidence sets.

Then kappa-dp and random explore FrozenLake-v1 and CliffWalking-v1 live. L_Worst is with the true c,
over the pairs that can be tried; in CliffWalking every step is certain and L_Worst is 0, so that
the least visits of a pair say more.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import warnings
from typing import Any

import numpy as np

import mdpdsl
from mdpdsl.graph.analysis import reachable_states

SPACES = """
mdp lake
state cell in 0..15
action move in {0, 1, 2, 3}
label goal when cell == 15
reward when cell' == 15 : 1
log { cell = obs  move = action }
"""
CLIFF = """
mdp cliff
state cell in 0..47
action move in {0, 1, 2, 3}
log { cell = obs }
"""
LIVE_SPACES = SPACES.replace("  move = action", "")


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--steps", type=int, default=6_210)
    parser.add_argument("--delta", type=float, default=0.1)
    parser.add_argument("--live-steps", type=int, default=16_000)
    parser.add_argument("--live-seeds", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    found = {
        source: _summary(
            [measure(seed, chosen.steps, chosen.delta) for seed in range(chosen.seeds)]
        )
        for source, measure in (("minari", _from_minari), ("live", _live))
    }
    lake = mdpdsl.load("frozen_lake")
    truth = {"reach": _value(lake, reach="goal"), "discounted": _value(lake, discount=0.99)}
    live = _explored(chosen.live_steps, chosen.live_seeds)
    if chosen.json:
        print(json.dumps({"truth": truth, **found, "explored": live}, indent=2))
        return
    print(f"truth: reach {truth['reach']:.4f}, discounted {truth['discounted']:.4f}")
    for source, figures in found.items():
        print(source)
        for name in ("reach", "discounted"):
            mean, error = figures[name]
            away = (mean - truth[name]) / error
            print(f"  {name}: {mean:.4f} ± {error:.4f}, {away:+.1f} standard errors from the truth")
        for name in ("intervals", "balls"):
            print(f"  the true rows lie in all {name}: {figures[name]:.3f} of the runs")
    for row in live:
        print(
            f"{row['env']}, {row['explorer']}: L_Worst {row['worst']:.0f}, least visits "
            f"{row['least']:.1f}, failed {row['failed']} of {chosen.live_seeds}"
        )


def _explored(steps: int, seeds: int) -> list[dict[str, Any]]:
    """Explore both environments; return the mean figures of each explorer."""
    found = []
    for env, spaces, name in (
        ("FrozenLake-v1", LIVE_SPACES, "frozen_lake"),
        ("CliffWalking-v1", CLIFF, "cliff_walking"),
    ):
        truth = mdpdsl.load(name).graph
        cells = truth.states.own_codes[truth.pair_state] * truth.n_actions + truth.pair_action
        can_try = reachable_states(truth)[truth.pair_state]
        c = 1 - np.add.reduceat(truth.probability**2, truth.successor_start[:-1])
        for explorer in ("kappa-dp", "random"):
            runs = [
                mdpdsl.explore(
                    mdpdsl.loads(spaces), env=env, algorithm=explorer, steps=steps, seed=seed
                )
                for seed in range(seeds)
            ]
            visits = [_visits_by_cell(run, truth.n_actions)[cells[can_try]] for run in runs]
            with np.errstate(divide="ignore", invalid="ignore"):
                worst = [np.nan_to_num(steps * c[can_try] / v, nan=0.0).max() for v in visits]
            found.append(
                {
                    "env": env,
                    "explorer": explorer,
                    "worst": float(np.mean(worst)),
                    "least": float(np.mean([v.min() for v in visits])),
                    "failed": sum(run.failure_rate > 0 for run in runs),
                }
            )
    return found


def _visits_by_cell(run: Any, n_actions: int) -> Any:
    """Return the visits of a live run by cell and action."""
    graph, visits = run.graph, np.zeros(run.model.graph.n_states * n_actions)
    visits[graph.pair_state * n_actions + graph.pair_action] = run.counts.visits
    return visits


def _from_minari(seed: int, steps: int, delta: float) -> dict[str, float]:
    """Record random actions as a dataset, and estimate from it."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MINARI_DATASETS_PATH"] = folder
        _record("lake/random-v0", seed, steps)
        found = mdpdsl.estimate(mdpdsl.loads(SPACES), "minari:lake/random-v0", delta=delta)
    assert found.transitions == steps, found.transitions
    assert not found.rejected, found.rejected
    return _figures(found)


def _live(seed: int, steps: int, delta: float) -> dict[str, float]:
    """Let the random explorer act in the environment."""
    run = mdpdsl.explore(
        mdpdsl.loads(LIVE_SPACES),
        env="FrozenLake-v1",
        algorithm="random",
        steps=steps,
        seed=seed,
        delta=delta,
    )
    return _figures(run)


def _record(name: str, seed: int, steps: int) -> None:
    """Write a dataset of random actions; the last episode is cut after so many steps in all."""
    import gymnasium
    import minari
    from minari.data_collector import EpisodeBuffer

    env = gymnasium.make("FrozenLake-v1")
    draw = np.random.default_rng(seed)
    buffers, done = [], 0
    while done < steps:
        observation, _ = env.reset(seed=int(draw.integers(2**31)))
        buffer: dict[str, list[Any]] = {"observations": [observation]}
        buffer |= {key: [] for key in ("actions", "rewards", "terminations", "truncations")}
        is_over = False
        while not is_over:
            action = int(draw.integers(4))
            observation, reward, terminated, truncated, _ = env.step(action)
            done += 1
            is_over = terminated or truncated or done == steps
            values = (observation, action, reward, terminated, is_over and not terminated)
            for key, value in zip(buffer, values, strict=True):
                buffer[key].append(value)
        buffers.append(EpisodeBuffer(**{k: np.array(v) for k, v in buffer.items()}))
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    minari.create_dataset_from_buffers(name, buffers, **spaces)
    env.close()


def _figures(found: Any) -> dict[str, float]:
    """Return the values of an estimate, and whether the true rows lie in its sets."""
    truth = mdpdsl.load("frozen_lake").graph
    rows = found.sets.rows
    is_same = found.graph.n_states == truth.n_states and found.graph.n_pairs == truth.n_pairs
    return {
        "reach": _value(found, reach="goal"),
        "discounted": _value(found, discount=0.99),
        "intervals": float(is_same and not rows.outside_intervals(truth).any()),
        "balls": float(is_same and not rows.outside_balls(truth).any()),
    }


def _value(model: Any, **objective: Any) -> float:
    return float(mdpdsl.solve(model, **objective).record()["value"])


def _summary(runs: list[dict[str, float]]) -> dict[str, Any]:
    columns = {name: np.array([run[name] for run in runs]) for name in runs[0]}
    found: dict[str, Any] = {name: float(columns[name].mean()) for name in ("intervals", "balls")}
    for name in ("reach", "discounted"):
        values = columns[name]
        found[name] = (float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))))
    return found


if __name__ == "__main__":
    main()
