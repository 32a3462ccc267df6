"""How often a guarantee holds, and how fast it closes in on the truth with data.

    python benchmarks/guarantee.py [--logs 200] [--delta 0.1] [--plot FILE] [--json]

For each of four models, logs of random actions are drawn and solved with `robust=True`. Counted are
the logs whose guaranteed value is no better than the true value of the policy found, and those
whose possible value is no worse than the true optimum: both must hold in a share of at least
1 - delta. The width is the mean of possible - guaranteed, at growing budgets.

* trap: a walk along four places with a trap beside it.
* frozen_lake: Gymnasium's lake, known support.
* inventory: a shop's stock; the discounted reward, which depends on the next state.
* pendulum: a coarse pendulum that is to swing up within 20 steps.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import mdpdsl
from mdpdsl.solve.policy_value import policy_value
from mdpdsl.solve.robust_answer import RobustSolution

TRAP = """\
mdp trap "A walk along four places with a trap beside it"
state pos in 0..4
action safe, bold
init pos = 0
end when pos >= 3
on safe -> 0.5: pos' = pos + 1 | 0.42: stay | 0.08: pos' = 4
on bold -> 0.8: pos' = pos + 1 | 0.2: pos' = 4
label goal when pos == 3
"""

SWING_UP = """\
mdp swing_up "A coarse pendulum that is to swing up"
param dt = 0.1
state theta in [-pi, pi] wrap bins 8
state omega in [-6, 6] clip bins 5
action u in {-2, 0, 2}
noise wt ~ uniform(-0.2, 0.2)
noise wv ~ uniform(-0.8, 0.8)
init theta = pi, omega = 0
let speed = clip(omega + (7.5*sin(theta) + 3*u)*dt, -6, 6)
omega' = speed + wv
theta' = theta + speed*dt + wt
label up when abs(theta) < 0.5
discretize center
"""


@dataclass(frozen=True)
class Case:
    """A model, a question about it, and budgets; coverage is measured at the first budget."""

    model: mdpdsl.Model
    question: dict[str, Any]
    budgets: tuple[int, ...]


def cases() -> dict[str, Case]:
    return {
        "trap": Case(mdpdsl.loads(TRAP), {"reach": "goal"}, (1_000, 3_000, 10_000, 30_000)),
        "frozen_lake": Case(
            mdpdsl.load("frozen_lake"), {"reach": "goal"}, (20_000, 60_000, 200_000, 600_000)
        ),
        "inventory": Case(mdpdsl.load("inventory"), {"discount": 0.9}, (500, 2_000, 8_000, 32_000)),
        "pendulum": Case(
            mdpdsl.loads(SWING_UP),
            {"reach": "up", "within": 20},
            (20_000, 60_000, 200_000, 600_000),
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--logs", type=int, default=200, help="for each model")
    parser.add_argument("--delta", type=float, default=0.1)
    parser.add_argument("--plot", type=Path, help="draw the widths")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    rows = [measure(name, case, options.logs, options.delta) for name, case in cases().items()]
    if options.plot is not None:
        draw(rows, options.plot)
    if options.json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(
            "{model:12} {steps:,} steps, {logs} logs: guaranteed holds in {policy:.3f}, possible "
            "in {optimum:.3f}; truth {truth:.4f}".format(**row)
        )
        for steps, low, high in zip(
            row["budgets"], row["guaranteed"], row["possible"], strict=True
        ):
            print(f"  {steps:9,} steps: guaranteed {low:.4f}, possible {high:.4f}")


def measure(name: str, case: Case, n_logs: int, delta: float) -> dict[str, Any]:
    """Count how often the bounds hold at the first budget, and follow them to the last."""
    truth = mdpdsl.solve(case.model, **case.question)
    n_policy = n_optimum = 0
    for seed in range(n_logs):
        found = solved(case, case.budgets[0], seed, delta)
        # The estimate may know other states than the model: the policy goes by their values.
        graph = case.model.graph
        assert np.array_equal(found.model.graph.states.codes, graph.states.codes)
        achieved = policy_value(graph, question_of(truth), found.outcome)
        n_policy += found.guaranteed <= achieved + 1e-9
        n_optimum += found.possible >= truth.value - 1e-9
    followed = [
        [solved(case, budget, 1_000 + seed, delta) for seed in range(5)] for budget in case.budgets
    ]
    return {
        "model": name,
        "steps": case.budgets[0],
        "logs": n_logs,
        "policy": n_policy / n_logs,
        "optimum": n_optimum / n_logs,
        "truth": truth.value,
        "budgets": case.budgets,
        "guaranteed": [float(np.mean([one.guaranteed for one in each])) for each in followed],
        "possible": [float(np.mean([one.possible for one in each])) for each in followed],
    }


def solved(case: Case, steps: int, seed: int, delta: float) -> RobustSolution:
    log = mdpdsl.simulate(case.model, steps=steps, seed=seed)
    estimate = mdpdsl.estimate(case.model, log, support="model", delta=delta)
    found = mdpdsl.solve(estimate, robust=True, **case.question)
    assert isinstance(found, RobustSolution)
    return found


def question_of(truth: mdpdsl.Solution) -> Any:
    return truth.question.objective


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw guaranteed and possible against the budget, with the truth."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    figure, axes = plt.subplots(1, len(rows), figsize=(3.2 * len(rows), 2.8), squeeze=False)
    for axis, row in zip(axes[0], rows, strict=True):
        axis.fill_between(row["budgets"], row["guaranteed"], row["possible"], alpha=0.15)
        axis.plot(row["budgets"], row["possible"], marker="o", label="possible")
        axis.plot(row["budgets"], row["guaranteed"], marker="o", label="guaranteed")
        axis.axhline(row["truth"], color="0.3", linestyle="--", linewidth=1, label="true optimum")
        axis.set(xscale="log", title=row["model"], xlabel="steps logged")
        axis.xaxis.set_minor_formatter(NullFormatter())
    axes[0][0].set_ylabel("value")
    axes[0][0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
