"""How commands tell what a log or a live system showed: rejected rows, clipped values, gaps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mdpdsl.graph.counts import Counts
    from mdpdsl.graph.transition_graph import TransitionGraph
    from mdpdsl.logs.rejections import Rejections

#: Pairs never seen that are printed.
PRINTED_UNSEEN = 20

#: What may be behind a reason.
_HINTS = {
    "duplicate time": "if every file numbers its episodes anew, use --separate-files; if the log "
    "holds several episodes, name their column in the log block",
    "gap in time": "nothing is counted across a gap; --time-step says what is none",
}


def print_rejections(rejected: Rejections, clipped: Mapping[str, int]) -> None:
    """Print what could not be counted, by reason with examples, and what was clipped."""
    for reason, number in rejected.counts.items():
        click.echo(f"\nrejected, {reason}: {number:,}")
        for example in rejected.examples[reason]:
            click.echo(f"  {example.file}, row {example.row}: {example.found}")
        if reason in _HINTS:
            click.echo(f"  = {_HINTS[reason]}")
    for name, number in clipped.items():
        click.echo(f"\n{number:,} values of {name} lie beyond its ends and count as its end cells")


def print_unseen(graph: TransitionGraph, counts: Counts) -> None:
    """Name the pairs that were never seen."""
    import numpy as np

    from mdpdsl.graph.describe import pair_text

    unseen = np.flatnonzero(counts.visits == 0)
    if len(unseen):
        click.echo(f"\nnever seen: {len(unseen):,} pairs")
        for pair in unseen[:PRINTED_UNSEEN].tolist():
            click.echo(f"  {pair_text(graph, pair)}")
        if len(unseen) > PRINTED_UNSEEN:
            click.echo(f"  and {len(unseen) - PRINTED_UNSEEN:,} more")


def print_missing(record: Mapping[str, Any]) -> None:
    """Say why the estimate, or its rewards, were not written."""
    for name, what in (("estimate_missing", "estimate.npz"), ("rewards_missing", "rewards")):
        if record[name]:
            click.echo(f"note: no {what}: {record[name]}", err=True)
