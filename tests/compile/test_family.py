from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import mdpdsl
from mdpdsl.compile.family import Family
from mdpdsl.diagnostics import SolveError
from mdpdsl.graph.row_sets import RowSets, entry_pairs
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph

MODELS = Path(mdpdsl.__file__).parents[1] / "models"
TOLERANCE = 1e-13


def shipped(name: str, **changes: str) -> str:
    text = (MODELS / f"{name}.mdp").read_text("utf-8")
    for old, new in changes.items():
        pattern = rf"^param {old}\s*=.*$"
        assert re.search(pattern, text, re.MULTILINE)
        text = re.sub(pattern, new, text, flags=re.MULTILINE)
    return text


LAKE = shipped("frozen_lake", success="unknown success in [0.1, 0.9] = 1/3")
QUEUE = shipped(
    "queue", arrive="unknown arrive in [0, 0.5] = 0.4", serve="unknown serve in [0.1, 0.5] = 0.5"
).replace("fee*arrive", "fee")
PENDULUM = (
    shipped("pendulum", speed_noise="unknown dev in [0.05, 0.3] = 0.1")
    .replace("speed_noise", "dev")
    .replace("param g ", "unknown damping in [0, 0.5] = 0.1\nunknown gain in [2, 4] = 3\nparam g ")
    .replace("3/(m*l^2)*u", "gain/(m*l^2)*u - damping*omega")
)
#: Noise as wide as the circle, at several points of a cell.
CIRCLE = """\
mdp circle
unknown wide in [0.2, 9] = 1
unknown drift in [-2, 2] = 0.3
state x in [0, 4] wrap bins 8
action go, back
noise w ~ uniform(-wide, wide)
init x = 1
on go -> x' = x + drift + w
on back -> x' = x - 2*drift - 0.5*w
discretize uniform points 2
"""
#: Clipped next values, discrete noise, and a deviation that may be 0.
MIXED = """\
mdp mixed
unknown dev in [0, 3] = 0
unknown drift in [-2, 2] = 0.3
state x in [0, 4] wrap bins 4
state y in [0, 4] clip bins 5
state b in bool
action go
noise w ~ normal(drift, dev)
noise v ~ normal(0, 0.4)
noise c ~ {-1: 0.3, 0: 0.5, 2: 0.2}
init x = 1, y = 1, b = true
on go -> 0.3: x' = clip(x + w + c, 0.5, 7), y' = y + v*drift + c, b' = c > 0
       | 0.7 - 0.1*drift^2: x' = x, y' = max(y + w, 1)
       | 0.1*drift^2: x' = x + v, b' = not b
discretize center
"""
#: Sums of noise that read a next value, probabilities that depend on the point, known rows.
STEPS = """\
mdp steps
unknown a in [0.1, 2] = 0.5
unknown p in [0.1, 0.9] = 0.4
state x in [-3, 3] wrap bins 7
state n in 0..3
action go, rest
noise w ~ normal(0, a)
noise v ~ normal(0.2, 0.3)
init x = 0, n = 0
on go when n < 3 -> p: x' = x + w + n'*v, n' = n + 1 | (1-p)^2: x' = -x + 2*w | p*(1-p): n' = 0
on go when n == 3 -> n' = 0, x' = x + v
on rest -> p*exp(-abs(x)): x' = 0 | 1 - p*exp(-abs(x)): stay
discretize uniform points 3
"""
#: A normal distribution that is uniform on the circle for most theta.
WIDE = """\
mdp wide
unknown dev in [0.05, 20] = 1
state x in [0, 1] wrap bins 5
action go
noise w ~ normal(0, dev)
init x = 0.5
on go -> x' = x + w
discretize center
"""
#: Two variables read the same noise, so it is integrated numerically.
SHARED = """\
mdp shared
unknown a in [0.1, 2] = 0.5
state x in [-3, 3] clip bins 5
state y in [-3, 3] clip bins 5
action go
noise w ~ normal(0, a)
init x = 0, y = 0
x' = 0.5*x + w
y' = 0.5*y + a*w
discretize center
"""
#: Branches that lead out of range where they are impossible.
EDGE = """\
mdp edge
unknown p in [0, 1] = 0.25
state x in 0..5
action go
init x = 0
on go -> 1 - p: stay | p*(1 - x/5): x' = x + 1 | p*(x/5): x' = x - 1
"""
EXACT = {
    "edge": EDGE,
    "lake": LAKE,
    "queue": QUEUE,
    "pendulum": PENDULUM,
    "circle": CIRCLE,
    "mixed": MIXED,
    "steps": STEPS,
    "wide": WIDE,
}
ALL = {**EXACT, "shared": SHARED}


@cache
def family(name: str) -> Family:
    model = mdpdsl.loads(ALL[name], all_states=True)
    return Family(model.checked, model.graph)


def with_params(name: str, theta: FloatArray) -> TransitionGraph:
    """Return the graph of the same file with params instead of unknown numbers."""
    values = dict(zip(family(name).names, theta.tolist(), strict=True))
    text = re.sub(r"unknown (\w+) in .*", lambda m: f"param {m[1]} = {values[m[1]]!r}", ALL[name])
    return mdpdsl.loads(text, all_states=True).graph


def some_theta(name: str, n: int, seed: int) -> list[FloatArray]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(family(name).low, family(name).high) for _ in range(n)]


def some_box(name: str, share: float, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return a box whose sides have a share of the lengths of the ranges."""
    rows = family(name)
    room = (1 - share) * np.random.default_rng(seed).uniform(size=len(rows.low))
    widths = rows.high - rows.low
    low = rows.low + room * widths
    return low, np.minimum(low + share * widths, rows.high)


def differences(rows: Family, theta: FloatArray, step: float = 1e-6) -> FloatArray:
    moves = step * np.eye(len(theta))
    return np.stack(
        [
            (rows.probabilities(theta + h) - rows.probabilities(theta - h)) / (2 * step)
            for h in moves
        ]
    )


@pytest.mark.parametrize("name", ALL)
def test_rows_are_those_of_the_file_with_params(name: str) -> None:
    for theta in some_theta(name, 3, seed=1):
        found, wanted = family(name).graph_at(theta), with_params(name, theta)
        assert found.n_branches == wanted.n_branches
        assert np.array_equal(found.successor, wanted.successor)
        assert np.abs(found.probability - wanted.probability).max() < TOLERANCE
        found.validate()


def test_rows_are_those_of_the_file_where_noise_shrinks_to_a_point() -> None:
    theta = np.array([0.0, 0.37])
    found, wanted = family("mixed").graph_at(theta), with_params("mixed", theta)
    difference = found.transition_matrix() - wanted.transition_matrix()
    assert np.abs(difference).max() < TOLERANCE


@pytest.mark.parametrize("name", ALL)
def test_rows_sum_to_one(name: str) -> None:
    rows = family(name)
    for theta in (rows.low, rows.high, *some_theta(name, 3, seed=2)):
        sums = np.add.reduceat(rows.probabilities(theta), rows.start[:-1])
        assert np.abs(sums - 1).max() < TOLERANCE


@pytest.mark.parametrize("name", EXACT)
def test_derivatives_are_the_limits_of_differences(name: str) -> None:
    rows = family(name)
    for theta in some_theta(name, 3, seed=3):
        found = rows.derivatives(theta)
        assert found == pytest.approx(differences(rows, theta), abs=1e-6)
        assert np.abs(np.add.reduceat(found, rows.start[:-1], axis=1)).max() < 1e-9


def test_derivatives_exist_at_the_ends_of_ranges_and_for_numerical_integration() -> None:
    rows = family("lake")
    assert rows.derivatives(rows.low) == pytest.approx(rows.derivatives(rows.high), abs=1e-9)
    rows = family("shared")
    (theta,) = some_theta("shared", 1, seed=4)
    assert rows.derivatives(theta) == pytest.approx(differences(rows, theta, 1e-5), abs=1e-5)


@pytest.mark.parametrize("share", [1.0, 0.2, 0.02])
@pytest.mark.parametrize("name", EXACT)
def test_an_enclosure_contains_the_rows_and_derivatives_inside(name: str, share: float) -> None:
    rows = family(name)
    rng = np.random.default_rng(5)
    for seed in range(3):
        low, high = some_box(name, share, seed)
        found = rows.enclosure(low, high)
        assert (found.lower <= found.upper).all()
        for theta in (low, high, *rng.uniform(low, high, (10, len(low)))):
            chance = rows.probabilities(theta)
            assert (found.lower <= chance).all()
            assert (chance <= found.upper).all()
        slopes = rows.derivatives(rng.uniform(low, high))
        assert (found.slope_lower <= slopes + 1e-9).all()
        assert (slopes <= found.slope_upper + 1e-9).all()


def assert_rows_are_enclosed(text: str, *, seed: int = 0, n_boxes: int = 4) -> None:
    """Compare rows over random boxes, and rows at theta, with files that have params instead."""
    model = mdpdsl.loads(text, all_states=True)
    rows = Family(model.checked, model.graph)
    rng = np.random.default_rng(seed)
    for share in np.geomspace(1.0, 0.01, n_boxes):
        widths = share * (rows.high - rows.low)
        low = rows.low + rng.uniform(size=len(widths)) * (rows.high - rows.low - widths)
        high = np.minimum(low + widths, rows.high)
        found = rows.enclosure(low, high)
        for theta in (low, high, *rng.uniform(low, high, (4, len(low)))):
            values = dict(zip(rows.names, theta.tolist(), strict=True))
            fixed = text
            for name, value in values.items():
                fixed = re.sub(rf"unknown {name} in .*", f"param {name} = {value!r}", fixed)
            matrix = mdpdsl.loads(fixed, all_states=True).graph.transition_matrix()
            chance = np.asarray(matrix[rows.pairs].toarray()[rows.entry_row, rows.successor])
            assert np.add.reduceat(chance, rows.start[:-1]) == pytest.approx(1.0)
            assert (found.lower <= chance).all()
            assert (chance <= found.upper).all()
            assert np.abs(rows.probabilities(theta) - chance).max() < TOLERANCE


NO_WIDTH = {
    "normal": "param sd = 0\nunknown drift in [-1, 1] = 0.5\nnoise w ~ normal(drift, sd)",
    "uniform": """\
unknown drift in [-1, 1] = 0.5
unknown b in [-2, -1] = -1.5
noise w ~ uniform(drift, drift + max(b, 0))""",
    "at the truth": """\
unknown drift in [-1, 1] = 0.5
unknown dev in [0, 1] = 0
noise w ~ normal(drift, dev)""",
}


def without_width(noise: str, other: str = "") -> str:
    return f"""\
mdp drifts
{NO_WIDTH[noise]}
state x in [-2, 2] clip bins 8
action go, back
noise v ~ normal(0, 0.3)
init x = 0
on go -> x' = x + w{other}
on back -> x' = x - 0.5*w{other}
"""


@pytest.mark.parametrize(
    ("noise", "other"),
    [("normal", ""), ("normal", " + v"), ("uniform", ""), ("at the truth", " + v")],
)
def test_noise_without_width_depends_on_its_location(noise: str, other: str) -> None:
    text = without_width(noise, other)
    assert_rows_are_enclosed(text)
    model = mdpdsl.loads(text, all_states=True)
    rows = Family(model.checked, model.graph)
    assert np.abs(rows.probabilities(rows.low) - rows.probabilities(rows.high)).max() > 0.5


@pytest.mark.parametrize("noise", NO_WIDTH)
@pytest.mark.parametrize("other", ["", " + v"])
def test_laws_do_not_depend_on_the_written_truth(noise: str, other: str) -> None:
    text = without_width(noise, other)
    found = []
    for changed in (text, text.replace("0.5\n", "-0.9\n"), text.replace("] = 0\n", "] = 0.7\n")):
        model = mdpdsl.loads(changed, all_states=True)
        rows = Family(model.checked, model.graph)
        numbers = [rows.entries, rows.successor, rows.probabilities(rows.low)]
        if rows.has_bounds:
            bounds = rows.enclosure(rows.low, rows.high)
            numbers += [bounds.lower, bounds.upper]
        else:
            assert (noise, other) == ("uniform", " + v")
        found.append(numbers)
    for one in found[1:]:
        for mine, first in zip(one, found[0], strict=True):
            assert np.array_equal(mine, first)


def test_a_scale_that_may_be_zero_is_enclosed_at_an_edge() -> None:
    assert_rows_are_enclosed("""\
mdp edge
unknown dev in [0, 1] = 0.5
state x in [-2, 2] clip bins 4
action go
noise w ~ normal(0, dev)
init x = 0
on go -> x' = 1 + w
""")


@pytest.mark.parametrize(
    "update",
    [
        "clip(x + w, lo, 0.2)",
        "clip(x + w, 0.4, lo)",
        "clip(x + w, lo, 0.1 - lo)",
        "max(x + w, lo)",
        "min(0.1*x + w, lo - 1)",
    ],
)
@pytest.mark.parametrize("ends", ["clip", "wrap"])
def test_rows_of_clipped_values_are_whole_and_enclosed(update: str, ends: str) -> None:
    assert_rows_are_enclosed(f"""\
mdp reversed
unknown lo in [-0.95, 1.45] = 1.4
state x in [-2, 2] {ends} bins 8
action go, back
noise w ~ normal(0, 0.05)
init x = 0
on go -> x' = {update}
on back -> x' = x + w
""")


@pytest.mark.parametrize("update", ["min(x + w, 1.1)", "max(x - w, -0.7)", "clip(x + w, 0.1, 9.3)"])
def test_wide_noise_on_a_circle_is_clipped_before_it_turns(update: str) -> None:
    text = f"""\
mdp wide
unknown s in [0.1, 30] = 20
state x in [-2, 2] wrap bins 8
action go
noise w ~ normal(0, s)
init x = 0
on go -> x' = {update}
"""
    assert_rows_are_enclosed(text)
    model = mdpdsl.loads(text, all_states=True)
    rows = Family(model.checked, model.graph)
    slopes = rows.derivatives(np.array([20.0]))
    assert slopes == pytest.approx(differences(rows, np.array([20.0]), 1e-4), abs=1e-8)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("update", "noise"),
    [
        ("x + 1/(b*b - b + 1) + w", "normal(0, 0.3)"),
        ("x + exp(1000*(b - b*b)) + w", "normal(0, 0.3)"),
        ("x + (b - b*b)^0.5 + w", "normal(0, 0.3)"),
        ("x + 1e5*b + w", "normal(0, 0.3)"),
        ("x + 1e9*b + w", "normal(0, 0.3)"),
        ("x + w", "normal(1/(b*b - b + 1), 0.3)"),
        ("x + w", "normal(0, 1/(b*b - b + 1))"),
        ("min(x + w, 0.3)", "normal(0, 0.1 + 2e4*max(b - 0.5, 0))"),
        ("x + w", "uniform(0, 1/(b*b - b + 1))"),
        ("x + w/(b*b - b + 1)", "normal(0, 0.3)"),
    ],
)
def test_a_location_that_may_be_anywhere_is_enclosed(update: str, noise: str) -> None:
    text = f"""\
mdp far
unknown b in [0, 1] = 0.4
state x in [-2, 2] wrap bins 6
action go, back
noise w ~ {noise}
init x = 0
on go -> x' = {update}
on back -> x' = -x
"""
    model = mdpdsl.loads(text, all_states=True)
    rows = Family(model.checked, model.graph)
    for low, high in ((0.0, 1.0), (0.2, 0.9), (0.4, 0.4 + 1e-9)):
        found = rows.enclosure(np.array([low]), np.array([high]))
        for array in (*found.value, *found.slope):
            assert not np.isnan(array).any()
        for theta in (low, (low + high) / 2, high):
            fixed = text.replace("unknown b in [0, 1] = 0.4", f"param b = {theta!r}")
            matrix = mdpdsl.loads(fixed, all_states=True).graph.transition_matrix()
            chance = matrix[rows.pairs].toarray()[rows.entry_row, rows.successor]
            assert (found.lower <= chance).all()
            assert (chance <= found.upper).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("ends", ["wrap", "clip"])
def test_a_pole_at_the_centre_of_a_box_leaves_rows_with_bounds(ends: str) -> None:
    model = mdpdsl.loads(
        f"""\
mdp pole
unknown b in [0, 1] = 0.4
state x in [-2, 2] {ends} bins 6
action go
noise w ~ normal(0, 0.3)
init x = 0
on go -> x' = x + 1/(b - 0.5) + w
""",
        all_states=True,
    )
    rows, graph = Family(model.checked, model.graph), model.graph
    nothing = np.zeros(graph.n_pairs)
    others = RowSets(
        successor_start=graph.successor_start,
        successor=graph.successor,
        estimate=graph.probability,
        lower=graph.probability,
        upper=graph.probability,
        other_upper=nothing,
        others_upper=nothing,
        kl=nothing,
        l1=nothing,
    )
    found = rows.row_sets(rows.low, rows.high, others)
    assert (found.lower <= found.estimate).all()
    assert (found.estimate <= found.upper).all()
    assert np.add.reduceat(found.estimate, found.successor_start[:-1]) == pytest.approx(1.0)
    assert not found.outside_intervals(graph).any()


@pytest.mark.parametrize("name", ["queue", "lake"])
def test_the_enclosure_of_a_linear_law_is_exact(name: str) -> None:
    rows = family(name)
    low, high = some_box(name, 0.3, seed=6)
    found = rows.enclosure(low, high)
    ends = np.meshgrid(*np.stack([low, high], axis=1))
    corners = np.stack([end.ravel() for end in ends], axis=1)
    chances = np.stack([rows.probabilities(theta) for theta in corners])
    assert found.lower == pytest.approx(chances.min(axis=0), abs=TOLERANCE)
    assert found.upper == pytest.approx(chances.max(axis=0), abs=TOLERANCE)


@pytest.mark.parametrize("name", ["pendulum", "mixed", "steps"])
def test_enclosures_are_tight_to_second_order(name: str) -> None:
    rows = family(name)
    centre = rows.low * 0.4 + rows.high * 0.6
    excess = []
    for share in (0.04, 0.02, 0.01):
        half = share * (rows.high - rows.low) / 2
        found = rows.enclosure(centre - half, centre + half)
        linear = 2 * (np.abs(rows.derivatives(centre)) * half[:, None]).sum(axis=0)
        excess.append(float((found.upper - found.lower - linear).max()))
    assert excess[1] < excess[0] / 3
    assert excess[2] < excess[1] / 3


def test_an_impossible_entry_stays_impossible() -> None:
    text = """\
mdp split
unknown p in [0, 1] = 0.5
state x in 0..2
action go
init x = 0
on go when x == 0 -> p: x' = 1 | 1 - p: x' = 2
on go when x > 0 -> x' = 0
"""
    model = mdpdsl.loads(text)
    rows = Family(model.checked, model.graph)
    found = rows.enclosure(np.zeros(1), np.zeros(1))
    assert found.upper.tolist() == [0.0, 1.0]
    assert rows.pairs.tolist() == [0]
    assert rows.graph_at(np.zeros(1)).n_branches == 3


def test_laws_may_hold_in_some_states_only() -> None:
    text = """\
mdp leaps
unknown p in [0, 1] = 0.5
state x in 0..9
action go, back
init x = 4
on go when x < 8 -> p: x' = x + 2 | 1 - p: stay
on go otherwise -> p*p: x' = 0 | 1 - p*p: x' = 4
on back -> x' = 0
"""
    model = mdpdsl.loads(text)
    rows = Family(model.checked, model.graph)
    assert model.graph.states.codes.tolist() == [0, 2, 4, 6, 8]
    assert rows.successor.tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 0, 2]
    p = 0.3
    assert rows.probabilities(np.array([p])) == pytest.approx([1 - p, p] * 4 + [p * p, 1 - p * p])


def test_rows_without_bounds_are_named() -> None:
    rows = family("shared")
    assert not rows.has_bounds
    with pytest.raises(SolveError, match="no other variable reads"):
        rows.enclosure(rows.low, rows.high)


def test_the_information_of_a_coin_is_that_of_bernoulli() -> None:
    rows = family("queue")
    arrive, serve = 0.3, 0.2
    found = rows.information(np.array([arrive, serve]))
    graph = rows.graph
    admit = found[graph.pair(0, 0)]
    assert admit == pytest.approx(np.diag([1 / (arrive * (1 - arrive)), 0]))
    turned_away = found[graph.pair(3, 1)]
    assert turned_away == pytest.approx(np.diag([0, 1 / (serve * (1 - serve))]))
    rest = 1 - arrive - serve
    both = np.array([[1 / arrive + 1 / rest, 1 / rest], [1 / rest, 1 / serve + 1 / rest]])
    assert found[graph.pair(3, 0)] == pytest.approx(both)
    assert (found[graph.pair(0, 1)] == 0).all()


def test_information_is_finite_where_a_successor_is_impossible() -> None:
    rows = family("queue")
    assert np.isfinite(rows.information(rows.low)).all()
    assert np.linalg.eigvalsh(rows.information(rows.high)).min() > -1e-6


def test_rewards_of_a_graph_at_theta_are_its_own() -> None:
    rows = family("lake")
    theta = np.array([0.8])
    found, wanted = rows.graph_at(theta), with_params("lake", theta)
    assert found.reward == pytest.approx(wanted.reward)
    assert found.branch_reward == pytest.approx(wanted.branch_reward)


def test_row_sets_hold_the_rows_and_leave_the_others_alone() -> None:
    rows = family("steps")
    graph = rows.graph
    pair = entry_pairs(graph.successor_start)
    rng = np.random.default_rng(7)
    figures = rng.uniform(size=(4, graph.n_pairs))
    others = RowSets(
        successor_start=graph.successor_start,
        successor=graph.successor,
        estimate=graph.probability,
        lower=graph.probability / 2,
        upper=(1 + graph.probability) / 2,
        other_upper=figures[0],
        others_upper=figures[1],
        kl=figures[2],
        l1=figures[3],
    )
    low, high = some_box("steps", 0.1, seed=8)
    found = rows.row_sets(low, high, others)
    assert not found.outside_intervals(with_params("steps", (low + high) / 2))[rows.pairs].any()
    is_law = np.zeros(graph.n_pairs, np.bool_)
    is_law[rows.pairs] = True
    assert 0 < is_law.sum() < graph.n_pairs
    new_pair = entry_pairs(found.successor_start)
    for name in ("successor", "estimate", "lower", "upper"):
        old, new = getattr(others, name), getattr(found, name)
        assert np.array_equal(old[~is_law[pair]], new[~is_law[new_pair]])
    for name in ("other_upper", "others_upper", "kl", "l1"):
        assert np.array_equal(getattr(others, name)[~is_law], getattr(found, name)[~is_law])
    assert (found.others_upper[is_law] == 0).all()
    assert np.isinf(found.kl[is_law]).all()
    assert (found.l1[is_law] == 2).all()
    assert np.array_equal(found.successor[is_law[new_pair]], rows.successor)
    sums = np.add.reduceat(found.estimate, found.successor_start[:-1])
    assert np.abs(sums - 1).max() < TOLERANCE
