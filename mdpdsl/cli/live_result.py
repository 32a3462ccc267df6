"""What `explore --env` says of a run: its record, and a table for people."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mdpdsl.cli.observed import print_missing, print_rejections, print_unseen
from mdpdsl.compile.model import Model
from mdpdsl.explore.settings import WITH_KAPPA, ExploreSettings
from mdpdsl.runs.records import RunConfiguration, encoded

if TYPE_CHECKING:
    from mdpdsl.explore.live.session import LiveResult

#: Pairs never visited that the JSON lists.
LISTED_UNVISITED = 1000


def live_record(
    model: Model, configuration: RunConfiguration, result: LiveResult
) -> dict[str, Any]:
    """Return what a live run says."""
    import numpy as np

    graph, chosen, measures = model.graph, result.settings, result.measures
    unvisited = np.flatnonzero(result.counts.visits == 0)
    system = configuration.system
    speed = result.timed_steps / result.seconds if result.seconds > 0 else None
    return {
        "model": configuration.model,
        "hash": configuration.hash,
        "parameters": dict(configuration.parameters),
        **asdict(chosen),
        "horizon": chosen.horizon_text,
        "seed": configuration.seed,
        "env": system.env if system else None,
        "env_arguments": system.arguments if system else None,
        "trials": [
            {
                "seed": configuration.seed,
                "trial": 0,
                "failed": measures.unvisited > 0,
                "unvisited": measures.unvisited,
                "worst": measures.worst,
                "average": measures.average,
                "squared_error": None,
                "seconds": result.seconds,
            }
        ],
        "truth": False,
        "failure_rate": float(measures.unvisited > 0),
        "worst": measures.worst,
        "average": measures.average,
        "worst_se": None,
        "average_se": None,
        "optimum": None,
        "optimum_reason": "the truth about a live system is not known",
        "ratio": None,
        "utility_optimum": None,
        "transitions": result.transitions,
        "total_transitions": result.counts.n_transitions,
        "warm_start": None
        if configuration.warm_start is None
        else encoded(configuration.warm_start),
        "episodes": result.episodes,
        "rejected": result.rejected.counts,
        "examples": {
            reason: [asdict(example) for example in kept]
            for reason, kept in result.rejected.examples.items()
        },
        "clipped": result.clipped,
        "unvisited": [
            {
                "state": graph.states.native(int(graph.pair_state[pair])),
                "action": graph.actions.labels[graph.pair_action[pair]],
            }
            for pair in unvisited[:LISTED_UNVISITED].tolist()
        ],
        "steps_per_second": speed,
        "system_share": result.system_seconds / result.seconds if result.seconds > 0 else None,
        "residual": result.residual,
        "estimate_missing": result.estimate_missing,
        "rewards_missing": result.rewards_missing,
        "versions": dict(configuration.versions),
        "log": str(result.run / "log.csv"),
        "run": str(result.run),
    }


def print_live(model: Model, record: dict[str, Any], result: LiveResult) -> None:
    """Print what a live run says."""
    from rich.console import Console
    from rich.table import Table

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_row("explorer", _label(result.settings))
    table.add_row("system", f"{record['env']}, {record['episodes']:,} episodes")
    table.add_row("steps", f"{record['steps']:,}")
    total = f" ({record['total_transitions']:,} with the warm start)"
    warm = total if record["warm_start"] else ""
    table.add_row("transitions", f"{record['transitions']:,}{warm}")
    table.add_row("rejected", f"{result.rejected.total:,}")
    n = result.measures.unvisited
    failed = f"yes: {n:,} of {model.graph.n_pairs:,} pairs were never visited" if n else "no"
    table.add_row("failed", failed)
    for name, value in (("L_Worst", record["worst"]), ("L_Avg", record["average"])):
        over = "with estimated c" + (", over the pairs visited" if n else "")
        table.add_row(name, "none" if value is None else f"{value:,.1f} ({over})")
    if record["steps_per_second"] is not None:
        share = f"{record['system_share']:.0%} of the time in the system"
        table.add_row("speed", f"{record['steps_per_second']:,.0f} steps/s, {share}")
    table.add_row("log", record["log"])
    table.add_row("run", record["run"])
    console = Console(highlight=False, markup=False)
    console.print(f"{record['model']} ({record['hash']})")
    console.print(table)
    print_rejections(result.rejected, result.clipped)
    print_unseen(model.graph, result.counts)
    print_missing(record)


def _label(settings: ExploreSettings) -> str:
    if settings.algorithm not in WITH_KAPPA:
        return settings.algorithm
    has_horizon = settings.algorithm == "kappa-dp" and settings.horizon is not None
    horizon = f", H={settings.horizon_text}" if has_horizon else ""
    return f"{settings.algorithm} (kappa={settings.kappa:g}{horizon})"
