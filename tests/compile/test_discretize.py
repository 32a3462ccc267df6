"""Cells and noise against integrals computed another way, node by node in plain NumPy."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import ndtri

import mdpdsl
from mdpdsl.graph.space import FloatArray
from mdpdsl.graph.transition_graph import TransitionGraph

#: Equally likely nodes of the reference integrals; each cell edge is off by at most one node.
N_NODES = 400_000
#: The error of the reference integrals themselves, in total variation.
REFERENCE_ERROR = 5e-5

Step = Callable[[FloatArray, FloatArray], FloatArray]  # (x, noise) -> next x


def one_variable(equation: str, noise: str = "normal(0, 0.3)", cells: str = "bins 8") -> str:
    return f"""
        mdp one
        state x in [-1, 1] {cells}
        action a
        noise w ~ {noise}
        init x = 0
        x' = {equation}
        discretize center
    """


def dense(graph: TransitionGraph) -> FloatArray:
    return np.asarray(graph.transition_matrix().toarray())


def histogram(values: FloatArray, edges: FloatArray) -> FloatArray:
    cells = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    return np.bincount(cells, minlength=len(edges) - 1) / len(values)


def reference(step: Step, quantiles: FloatArray, edges: FloatArray) -> FloatArray:
    centers = (edges[:-1] + edges[1:]) / 2
    rows = [histogram(step(np.full(len(quantiles), x), quantiles), edges) for x in centers]
    return np.array(rows)


MIDDLES = (np.arange(N_NODES) + 0.5) / N_NODES
NORMAL = 0.3 * ndtri(MIDDLES)
UNIFORM = -0.4 + 0.9 * MIDDLES

AFFINE: list[tuple[str, Step]] = [
    ("0.5*x + w", lambda x, w: 0.5 * x + w),
    ("x - w", lambda x, w: x - w),
    ("x + (0.2 + x)*w/2", lambda x, w: x + (0.2 + x) * w / 2),
    ("clip(x + w, -0.5, 0.3)", lambda x, w: np.clip(x + w, -0.5, 0.3)),
    ("max(x + w, -0.25)", lambda x, w: np.maximum(x + w, -0.25)),
    ("min(0.25, x + w)", lambda x, w: np.minimum(x + w, 0.25)),
    ("if x > 0 then x + w else x - 2*w", lambda x, w: np.where(x > 0, x + w, x - 2 * w)),
    ("-(x - w)*2 + w", lambda x, w: -(x - w) * 2 + w),
    ("x + 0*w", lambda x, w: x),
]
OTHER: list[tuple[str, Step]] = [
    ("x + w^2", lambda x, w: x + w**2),
    ("x*exp(w)", lambda x, w: x * np.exp(w)),
    ("if w > 0 then x + w else x", lambda x, w: np.where(w > 0, x + w, x)),
    ("abs(x + w) - 0.5", lambda x, w: np.abs(x + w) - 0.5),
]


@pytest.mark.parametrize(
    ("equation", "step"), AFFINE, ids=lambda v: v if isinstance(v, str) else ""
)
@pytest.mark.parametrize("noise", ["normal(0, 0.3)", "uniform(-0.4, 0.5)"])
def test_noise_that_enters_affinely_is_exact(equation: str, step: Step, noise: str) -> None:
    model = mdpdsl.loads(one_variable(equation, noise), all_states=True)
    nodes = NORMAL if noise.startswith("normal") else UNIFORM
    expected = reference(step, nodes, np.linspace(-1, 1, 9))
    assert model.integration is not None
    assert model.integration.noise == "cdf"
    assert np.abs(dense(model.graph) - expected).sum(axis=1).max() / 2 < REFERENCE_ERROR


@pytest.mark.parametrize(("equation", "step"), OTHER, ids=lambda v: v if isinstance(v, str) else "")
def test_other_noise_is_within_the_error_it_reports(equation: str, step: Step) -> None:
    model = mdpdsl.loads(one_variable(equation), all_states=True)
    expected = reference(step, NORMAL, np.linspace(-1, 1, 9))
    assert model.integration is not None
    assert model.integration.noise == "quadrature"
    off = np.abs(dense(model.graph) - expected).sum(axis=1).max() / 2
    assert off <= model.integration.error + REFERENCE_ERROR
    assert model.integration.error < 4e-3


def test_uneven_edges_and_wrapping_are_exact() -> None:
    text = one_variable("x + w", cells="wrap edges [-1, -0.9, 0, 0.35, 1]")
    edges = np.array([-1, -0.9, 0, 0.35, 1])
    expected = reference(lambda x, w: np.mod(x + w + 1, 2) - 1, NORMAL, edges)
    assert np.abs(dense(mdpdsl.loads(text).graph) - expected).max() < REFERENCE_ERROR


def test_noise_much_wider_than_the_circle_is_uniform_on_it() -> None:
    graph = mdpdsl.loads(one_variable("x + w", "normal(0, 50)", "wrap bins 4")).graph
    assert dense(graph) == pytest.approx(np.full((4, 4), 0.25), abs=1e-12)


def test_uniform_noise_wider_than_the_circle_goes_round_it() -> None:
    edges = np.array([-1, -0.9, 0, 0.35, 1])
    nodes = -0.4 + 7.3 * MIDDLES
    expected = reference(lambda x, w: np.mod(x + w + 1, 2) - 1, nodes, edges)
    text = one_variable("x + w", "uniform(-0.4, 6.9)", "wrap edges [-1, -0.9, 0, 0.35, 1]")
    assert np.abs(dense(mdpdsl.loads(text).graph) - expected).max() < REFERENCE_ERROR


def test_values_far_outside_are_wrapped_without_a_warning() -> None:
    graph = mdpdsl.loads(one_variable("x*2^63 + w", cells="wrap bins 5"), all_states=True).graph
    graph.validate()


def test_several_normal_noises_add_up_to_one() -> None:
    two = """
        mdp two  state x in [-1, 1] bins 8  action a  init x = 0
        noise v ~ normal(0.1, 0.3)  noise w ~ normal(-0.2, 0.4)
        x' = x + v - w
        discretize center
    """
    one = one_variable("x + w", "normal(0.3, 0.5)")
    assert dense(mdpdsl.loads(two).graph) == pytest.approx(
        dense(mdpdsl.loads(one).graph), abs=1e-12
    )


PLANE = """
    mdp plane
    param dt = 0.4
    state v in [-1, 1] {mode} bins 6
    state p in [-1, 1] bins 7
    action u in {{-0.5, 0.5}}
    noise w ~ normal(0, 0.3)
    {more}
    init v = 0, p = 0
    v' = {v}
    p' = {p}
    discretize center
"""


def plane_reference(
    step: Callable[[float, float, float, FloatArray], tuple[FloatArray, FloatArray]],
    nodes: FloatArray,
) -> FloatArray:
    v_edges, p_edges = np.linspace(-1, 1, 7), np.linspace(-1, 1, 8)
    v_centers, p_centers = (v_edges[:-1] + v_edges[1:]) / 2, (p_edges[:-1] + p_edges[1:]) / 2
    rows = []
    for v in v_centers:
        for p in p_centers:
            for u in (-0.5, 0.5):
                next_v, next_p = step(v, p, u, nodes)
                v_cell = np.clip(np.searchsorted(v_edges, next_v, side="right") - 1, 0, 5)
                p_cell = np.clip(np.searchsorted(p_edges, next_p, side="right") - 1, 0, 6)
                rows.append(np.bincount(v_cell * 7 + p_cell, minlength=42) / len(nodes))
    return np.array(rows)


def test_an_equation_may_use_a_next_value_that_is_clipped() -> None:
    text = PLANE.format(mode="clip", more="", v="v + u*dt + w", p="p + v'*dt")

    def step(v: float, p: float, u: float, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        new = np.clip(v + u * 0.4 + w, -1, 1)
        return new, p + new * 0.4

    model = mdpdsl.loads(text, all_states=True)
    assert model.integration is not None
    assert model.integration.noise == "quadrature"
    assert model.integration.error < 1e-12
    off = np.abs(dense(model.graph) - plane_reference(step, NORMAL)).sum(axis=1).max() / 2
    assert off < REFERENCE_ERROR


def test_an_equation_may_use_a_next_value_that_wraps() -> None:
    text = PLANE.format(mode="wrap", more="", v="v + u*dt + w", p="p + v'*dt")

    def step(v: float, p: float, u: float, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        new = np.mod(v + u * 0.4 + w + 1, 2) - 1
        return new, p + new * 0.4

    model = mdpdsl.loads(text, all_states=True)
    assert model.integration is not None
    off = np.abs(dense(model.graph) - plane_reference(step, NORMAL)).sum(axis=1).max() / 2
    assert off <= model.integration.error + REFERENCE_ERROR


def test_shared_noise_with_noise_of_its_own_is_integrated_to_high_order() -> None:
    more = "noise z ~ normal(0, 0.2)"
    text = PLANE.format(mode="clip", more=more, v="v + w", p="p + v'*dt + z")
    n = 2_000
    grid = (np.arange(n) + 0.5) / n
    w, z = (axis.ravel() for axis in np.meshgrid(0.3 * ndtri(grid), 0.2 * ndtri(grid)))

    def step(v: float, p: float, u: float, nodes: FloatArray) -> tuple[FloatArray, FloatArray]:
        new = np.clip(v + w, -1, 1)
        return new, p + new * 0.4 + z

    model = mdpdsl.loads(text, all_states=True)
    assert model.integration is not None
    assert model.integration.error < 1e-6
    pairs = [0, 41, 60, 83]
    expected = plane_reference(step, w)[pairs]
    assert np.abs(dense(model.graph)[pairs] - expected).sum(axis=1).max() / 2 < 2e-3


def test_two_and_five_noises_that_mix_are_within_the_error_they_report() -> None:
    rng = np.random.default_rng(1)
    for n_noises, method in ((2, "quadrature"), (5, "sampling")):
        names = [f"w{i}" for i in range(n_noises)]
        noises = " ".join(f"noise {name} ~ normal(0, 0.8)" for name in names)
        text = f"""
            mdp mixed  state x in [-1, 1] bins 4  action a  init x = 0  {noises}
            x' = x + sin({" * ".join(names)})
            discretize center
        """
        model = mdpdsl.loads(text, all_states=True)
        assert model.integration is not None
        assert model.integration.noise == method
        draws = rng.normal(0, 0.8, (400_000, n_noises)).prod(axis=1)
        expected = reference(lambda x, w: x + np.sin(w), draws, np.linspace(-1, 1, 5))
        off = np.abs(dense(model.graph) - expected).sum(axis=1).max() / 2
        assert off < 3 * model.integration.error + 4e-3


def test_a_cell_is_the_average_over_its_points() -> None:
    text = """
        mdp points  state x in [0, 4] bins 4  action a  init x = 0
        x' = x + 0.3
        discretize uniform points {}
    """
    for points, stays in ((1, 1.0), (2, 0.5), (10, 0.7)):
        graph = mdpdsl.loads(text.format(points), all_states=True).graph
        assert dense(graph)[0] == pytest.approx([stays, 1 - stays, 0, 0])
    by_default = mdpdsl.loads(text.replace("discretize uniform points {}", "")).graph
    # Five points: 0.1, 0.3, 0.5, 0.7 and 0.9, of which the last two leave.
    assert dense(by_default)[0] == pytest.approx([0.6, 0.4, 0, 0])


def test_sampled_points_are_reproducible_and_near_the_grid() -> None:
    text = "mdp s  state x in [0, 4] bins 4  action a  init x = 0  x' = x + 0.3  discretize {}"
    one = mdpdsl.loads(text.format("sample 20_000 seed 3"))
    again = mdpdsl.loads(text.format("sample 20_000 seed 3"))
    other = mdpdsl.loads(text.format("sample 20_000 seed 4"))
    assert one.graph.hash == again.graph.hash != other.graph.hash
    assert dense(one.graph)[0] == pytest.approx([0.7, 0.3, 0, 0], abs=0.02)


def test_branches_and_equations_can_be_combined() -> None:
    text = """
        mdp hybrid
        state mode in {idle, run}
        state x in [0, 1] bins 4
        action switch, keep
        init mode = idle, x = 0.1
        on switch when mode == idle -> 0.9: mode' = run | 0.1: stay
        on switch when mode == run -> mode' = idle
        on keep -> stay
        x' = if mode' == run then x + 0.25 else x
        discretize center
    """
    graph = mdpdsl.loads(text).graph
    start = graph.state(mode="idle", x=0.125)
    successors, probabilities = graph.row(graph.pair(start, 0))
    reached = {
        (str(graph.states.native(int(s))["mode"]), graph.states.native(int(s))["x"]): p
        for s, p in zip(successors, probabilities, strict=True)
    }
    assert reached == {("run", 0.375): pytest.approx(0.9), ("idle", 0.125): pytest.approx(0.1)}


def test_guards_are_evaluated_at_the_centre_of_a_cell() -> None:
    graph = mdpdsl.loads("""
        mdp centre  state x in [0, 1] bins 2  action a  init x = 0.9
        restart when x >= 0.7
        label high when x > 0.3
        x' = x
    """).graph
    assert graph.labels["high"].tolist() == [True]
    assert dense(graph).tolist() == [[1.0]]


def test_the_initial_distribution_is_integrated_over_cells() -> None:
    text = "mdp s  state x in [0, 4] bins 4  action a  init x ~ {}  x' = x"
    uniform = mdpdsl.loads(text.format("uniform(0.5, 2.5)")).graph
    assert uniform.initial == pytest.approx([0.25, 0.5, 0.25])
    normal = mdpdsl.loads(text.format("normal(2, 0.5)")).graph
    assert normal.initial == pytest.approx([0.0227501, 0.4772499, 0.4772499, 0.0227501], abs=1e-6)
    discrete = mdpdsl.loads(text.format("{0.2: 0.25, 0.3: 0.25, 3: 0.5}")).graph
    assert discrete.initial == pytest.approx([0.5, 0.5])


def test_variables_with_separate_noises_are_independent() -> None:
    text = """
        mdp apart
        state y in [-1, 1] edges [-1, 0, 0.5, 1]
        state x in [-1, 1] bins 8
        action a
        noise w ~ normal(0.1, 0.3)
        noise d ~ normal(0, 0.3)
        noise coin ~ {0: 0.25, 1: 0.75}
        init any
        y' = (if w > 0 then 0.7 else 0.2)*coin - 0.1
        x' = 0.5*x + d
        discretize uniform points 2
    """
    model = mdpdsl.loads(text)
    assert model.integration is not None
    rows = dense(model.graph).reshape(3, 8, 3, 8)
    alone = one_variable("0.5*x + w").replace("center", "uniform points 2")
    x_rows = dense(mdpdsl.loads(alone, all_states=True).graph)
    positive = 0.6305586598182363  # the distribution function of a standard normal at 1/3
    y_row = np.array([0.25, 0.75 * (1 - positive), 0.75 * positive])
    expected = y_row[None, None, :, None] * x_rows[None, :, None, :]
    assert np.abs(rows - expected).max() < model.integration.error
