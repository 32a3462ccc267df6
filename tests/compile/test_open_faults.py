"""Mistakes beside unknown numbers are reported, and rare branches stay possible."""

from __future__ import annotations

import numpy as np
import pytest

import mdpdsl
from mdpdsl.compile.model import Model
from mdpdsl.diagnostics import Source
from tests import fuzz

HEAD = "mdp m\nstate x in [-1, 1] bins 4\nstate y in [0, 4] bins 4\naction a\ninit x = 0, y = 0\n"


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("noise w ~ normal(oops, oops)\n", {"E201"}),
        ("unknown s in [0.1, 1]\nnoise w ~ normal(oops, s + oops)\n", {"E201"}),
        ("unknown s in [1, 0.1]\nnoise w ~ normal(0, s)\n", {"E401"}),
        ("unknown s in [0.1, 1]\nnoise w ~ normal(x, s)\n", {"E205"}),
        ("unknown s in [0.1, 1]\nnoise w ~ normal(0, s)\nx' = 1e308*1e10*x + w\n", {"E507"}),
    ],
)
def test_a_mistake_in_a_distribution_is_reported_once(text: str, codes: set[str]) -> None:
    moved = "" if "x'" in text else "x' = x + w\n"
    found = Model.diagnosed(Source(HEAD + text + moved + "y' = y\n", "m"))
    assert {d.code for d in found if d.is_error} == codes


def test_a_branch_of_the_truth_is_possible_however_rare() -> None:
    text = (
        "mdp m\nunknown luck in [0, 0.5] = 0.2\nstate x in 0..3\naction a\ninit x = 0\n"
        "on a -> 1e-13: x' = 3 | luck: x' = min(x + 1, 2) | 1 - luck - 1e-13: stay\n"
    )
    graph = mdpdsl.loads(text).graph
    assert graph.n_states == 4
    assert graph.knowledge is not None
    pair = np.repeat(np.arange(graph.n_pairs), np.diff(graph.successor_start))
    assert not graph.knowledge.excludes(pair, graph.successor.astype(np.int64)).any()


def test_what_depends_on_a_next_value_that_is_integrated_may_be_anywhere() -> None:
    text = HEAD + (
        "unknown sd in [0.1, 0.5] = 0.2\nnoise w ~ normal(0, sd)\nnoise u ~ uniform(-1, 1)\n"
        "noise d ~ {0: 0.5, 1: 0.5}\nx' = w\ny' = x' + u + d\n"
    )
    fuzz.examine(text)
    graph = mdpdsl.loads(text).graph
    assert graph.knowledge is not None
    assert len(graph.knowledge.successor) == graph.n_states**2


def test_a_range_far_around_a_circle_is_all_of_it() -> None:
    text = (
        "mdp m\nparam far = 1e308\nunknown s in [0.1, 0.4] = 0.2\n"
        "state t in [-1, 2] wrap bins 7\naction a\nnoise w ~ normal(0, s)\nt' = far*t + w\n"
    )
    fuzz.examine(text)
    fuzz.examine(text.replace("1e308", "1e12"))


def test_the_possible_cells_of_a_circle_contain_every_truth() -> None:
    text = (
        "mdp m\nunknown a in [-3, 3]{}\nunknown s in [0.05, 0.6]{}\n"
        "state t in [-1, 2] wrap bins 7\n"
        "action u in {{-1, 1}}\nnoise w ~ normal(0, s)\ninit t = 0\nt' = t + a*u/9 + w/9\n"
        "discretize uniform points 2\nstates all\n"
    )
    known = mdpdsl.loads(text.format("", "")).graph.knowledge
    assert known is not None
    assert not known.excludes(np.zeros(1, np.int64), np.zeros(1, np.int64)).any()
    assert len(known.successor) < 7 * known.n_pairs
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, s = rng.uniform(-3, 3), rng.uniform(0.05, 0.6)
        graph = mdpdsl.loads(text.format(f" = {a}", f" = {s}")).graph
        pair = np.repeat(np.arange(graph.n_pairs), np.diff(graph.successor_start))
        assert not known.excludes(pair, graph.successor.astype(np.int64)).any()
