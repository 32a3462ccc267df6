"""Facts about pictures: what they show, that text is readable, and that files are reproducible."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle
from matplotlib.text import Text

from mdpdsl.formats.dot import to_dot
from mdpdsl.graph.class_structure import MOST_CLASSES, class_structure
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.report.graph.layout import (
    chain_layout,
    is_chain,
    likely_moves,
    merge_moves,
    stress_layout,
)
from mdpdsl.report.graph.picture import draw_graph, graph_figure
from tests.graph.build import (
    countdown,
    courier,
    graph_from_rows,
    int_variable,
    named_actions,
    pendulum,
    random_graph,
    riverswim,
    ruin,
    slippery_grid,
    weather,
)
from tests.graph.twins import settled

#: Pixels at 100 dots per inch by which the boxes of two texts may touch.
TOUCH = 1.0
LARGEST_SVG = 260_000
MOST_INCHES = 25.0
#: How bold the rings of ends are.
END_WIDTH = 2.2


def unknown(graph: TransitionGraph) -> TransitionGraph:
    """Return the spaces of a graph without its dynamics."""
    nothing = np.zeros(0)
    return replace(
        graph,
        successor_start=np.zeros(graph.n_pairs + 1, dtype=np.int64),
        successor=nothing.astype(np.int32),
        probability=nothing,
        reward=None,
    )


def scattered(n_classes: int) -> TransitionGraph:
    """Return states that lead nowhere but to themselves or to a later one."""
    rng = np.random.default_rng(1)
    rows = [
        {0: {s if s % 50 == 0 else int(rng.integers(s, n_classes)): 1.0}} for s in range(n_classes)
    ]
    return graph_from_rows(rows)


GRAPHS: dict[str, Callable[[], TransitionGraph]] = {
    "one state": lambda: graph_from_rows([{0: {0: 1.0}}]),
    "weather": weather,
    "three": lambda: random_graph(3, 2, 3, np.random.default_rng(2)),
    "riverswim": riverswim,
    "riverswim of 40": lambda: riverswim(40),
    "ruin": lambda: ruin(9),
    "grid of 16": lambda: slippery_grid(4),
    "grid of 196": lambda: slippery_grid(14),
    "walls": lambda: slippery_grid(14, ("row", "col"), walls=9),
    "pendulum": pendulum,
    "random of 60": lambda: random_graph(60, 3, 3, np.random.default_rng(0)),
    "dense of 14": lambda: random_graph(14, 2, 2, np.random.default_rng(1)),
    "forty actions": lambda: replace(
        random_graph(8, 40, 1, np.random.default_rng(4)),
        actions=named_actions(*(f"pull lever {i}" for i in range(40))),
    ),
    "courier": courier,
    "ruin of 1000": lambda: ruin(1000),
    "one large class": lambda: riverswim(1600),
    "twenty classes": lambda: countdown(20, 30),
    "three hundred classes": lambda: countdown(300, 4),
    "five thousand classes": lambda: scattered(5000),
    "twins of a chain": lambda: settled(riverswim(), {2: 0.5, 5: 0.9}),
    "twins of a long chain": lambda: settled(riverswim(40), {3: 0.5, 20: 0.5, 39: 0.5}),
    "twins of a grid": lambda: settled(slippery_grid(4), {3: 0.5, 5: 0.3, 10: 1.0, 15: 1.0}),
    "twins of 60": lambda: settled(
        random_graph(60, 3, 3, np.random.default_rng(0)), {7: 0.5, 9: 1.0, 30: 0.1}
    ),
    "large with ends": lambda: settled(ruin(300), {0: 1.0, 299: 1.0, 50: 0.5}),
    "unknown grid with ends": lambda: unknown(settled(slippery_grid(5), {2: 0.5, 24: 1.0})),
    "unknown": lambda: unknown(riverswim()),
    "unknown grid": lambda: unknown(slippery_grid(5)),
    "unknown and large": lambda: unknown(ruin(1000)),
}


@pytest.fixture(params=GRAPHS, scope="module")
def graph(request: pytest.FixtureRequest) -> TransitionGraph:
    return GRAPHS[request.param]()


def words(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def discs(figure: Figure) -> list[Circle]:
    return [patch for patch in figure.axes[0].patches if isinstance(patch, Circle)]


def test_no_text_covers_another_or_leaves_the_picture(graph: TransitionGraph) -> None:
    figure = graph_figure(graph, "A title of some length")
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    texts = [t for t in figure.findobj(Text) if t.get_text()]
    boxes = np.array([t.get_window_extent(renderer).extents for t in texts])
    low = np.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    overlap = np.triu((high - low > TOUCH).all(axis=2), 1)
    assert not overlap.any(), [
        (words(figure)[i], words(figure)[j]) for i, j in np.argwhere(overlap)
    ]
    width, height = canvas.get_width_height()
    assert boxes.min() >= 0
    assert boxes[:, 2].max() <= width
    assert boxes[:, 3].max() <= height
    assert max(figure.get_size_inches()) <= MOST_INCHES


def test_the_same_graph_gives_the_same_small_svg(graph: TransitionGraph, tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        draw_graph(graph, tmp_path / name, "twice")
    first = (tmp_path / "one.svg").read_bytes()
    assert first == (tmp_path / "two.svg").read_bytes()
    assert len(first) < LARGEST_SVG
    assert ElementTree.fromstring(first).tag.endswith("svg")


def test_a_png_is_written_and_other_endings_are_refused(tmp_path: Path) -> None:
    draw_graph(weather(), tmp_path / "sky.png", "sky")
    content = (tmp_path / "sky.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", content[16:24])
    assert width > 300
    assert height > 300
    with pytest.raises(ValueError, match=r"must end in \.svg, \.png"):
        draw_graph(weather(), tmp_path / "sky.doc", "sky")


def test_drawing_leaves_global_state_alone(tmp_path: Path) -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    draw_graph(weather(), tmp_path / "sky.svg")
    assert dict(mpl.rcParams) == before


def test_a_small_picture_shows_every_probability_and_reward() -> None:
    texts = words(graph_figure(riverswim(), "riverswim"))
    assert texts.count("0.35") == 4
    assert texts.count("0.05") == 4
    assert {"1 (+0.005)", "0.6 (+1)", "0.4 (+1)"} <= set(texts)
    assert {"riverswim", "left", "right", "start", "goal", "0", "5"} <= set(texts)


def test_every_state_of_a_network_is_a_labelled_disc() -> None:
    model = random_graph(60, 3, 3, np.random.default_rng(0))
    figure = graph_figure(model)
    assert len(discs(figure)) == 60
    assert {model.states.label(s) for s in range(60)} <= set(words(figure))


def test_a_plane_has_its_variables_as_axes_and_downward_rows() -> None:
    assert {"theta ↻", "omega", "u = -2", "0.942"} <= set(words(graph_figure(pendulum())))
    figure = graph_figure(slippery_grid(4, ("row", "col")))
    height = {t.get_text(): t.get_position()[1] for t in figure.findobj(Text)}
    along = {t.get_text(): t.get_position()[0] for t in figure.findobj(Text)}
    assert height["row"] > height["col"]
    assert along["row"] < along["col"]
    tick_heights = {
        text: max(t.get_position()[1] for t in figure.findobj(Text) if t.get_text() == text)
        for text in ("0", "3")
    }
    assert tick_heights["0"] > tick_heights["3"]


def test_a_large_graph_shows_its_classes_by_size() -> None:
    texts = words(graph_figure(ruin(1000)))
    assert {"998", "wealth = 0", "wealth = 999"} <= set(texts)
    assert any("3 communicating classes, 2 of them closed" in text for text in texts)
    radii = sorted(disc.radius for disc in discs(graph_figure(ruin(1000))))
    assert radii[-1] > 2 * radii[-2]


def test_one_class_says_that_every_state_reaches_every_other() -> None:
    assert any("every state reaches every other" in t for t in words(graph_figure(riverswim(500))))


@pytest.mark.parametrize("model", [scattered(5000), countdown(300, 4), ruin(1000)])
def test_grouped_classes_account_for_every_class_and_state(model: TransitionGraph) -> None:
    structure = class_structure(model)
    assert len(structure.nodes) <= MOST_CLASSES
    assert sum(node.n_classes for node in structure.nodes) == structure.n_classes
    assert sum(node.n_states for node in structure.nodes) == model.n_states
    assert structure.is_grouped == (structure.n_classes > MOST_CLASSES)
    for origin, target in structure.edges:
        assert not structure.nodes[origin].is_closed
        assert structure.nodes[origin].depth <= structure.nodes[target].depth


def test_a_group_shows_its_number_of_classes() -> None:
    texts = words(graph_figure(countdown(300, 4)))
    assert any(text.endswith(" classes") for text in texts)
    assert any("are grouped" in text for text in texts)


def test_a_move_is_the_most_likely_successor_other_than_the_state_itself() -> None:
    model = random_graph(20, 2, 4, np.random.default_rng(5))
    moves = likely_moves(model)
    for pair, target, p in zip(moves.pair, moves.target, moves.probability, strict=True):
        successors, chances = model.row(int(pair))
        away = successors != model.pair_state[pair]
        assert p == chances[away].max()
        assert target == successors[away][chances[away].argmax()]
    movers = [p for p in range(20 * 2) if np.any(model.row(p)[0] != model.pair_state[p])]
    assert moves.pair.tolist() == movers


def test_many_actions_share_one_arrow_between_two_states() -> None:
    model = GRAPHS["forty actions"]()
    moves = likely_moves(model)
    merged = merge_moves(model, moves)
    ends = [
        set(zip(model.pair_state[m.pair].tolist(), m.target.tolist(), strict=True))
        for m in (moves, merged)
    ]
    assert ends[0] == ends[1]
    assert len(merged.pair) == len(ends[0])
    texts = words(graph_figure(model))
    assert any("all of the 40 actions" in text for text in texts)
    assert "pull lever 0" not in texts


def test_a_free_layout_keeps_neighbours_nearer_than_strangers() -> None:
    n_states = 30
    steps = np.eye(n_states, k=1, dtype=np.bool_)
    at = stress_layout(steps, np.array([0]))
    apart = np.linalg.norm(at[:, None] - at[None], axis=2)
    assert apart[0].argmax() == n_states - 1
    assert np.allclose(np.diag(apart, 1), 1.0, atol=0.1)
    assert at[0, 0] < at[-1, 0]


def test_text_that_looks_like_mathematics_is_drawn_as_it_is(tmp_path: Path) -> None:
    model = graph_from_rows(
        [{0: {0: 0.5, 1: 0.5}}, {0: {0: 1.0}}],
        [int_variable("a_b", 2)],
        named_actions("$x^2$"),
    )
    draw_graph(model, tmp_path / "odd.svg", "costs $5 & <more> than $3 木")
    content = (tmp_path / "odd.svg").read_text(encoding="utf-8")
    assert "costs $5 &amp; &lt;more&gt; than $3" in content
    assert "$x^2$" in content


def bold_rings(figure: Figure) -> list[Circle]:
    """Return the rings of ends: bold, with another ring inside."""
    return [
        disc
        for disc in discs(figure)
        if disc.get_linewidth() == END_WIDTH
        and any(d.center == disc.center and d.radius < disc.radius for d in discs(figure))
    ]


def test_ends_are_bold_double_discs_with_no_arrow_out() -> None:
    graph = settled(riverswim(), {5: 1.0})
    figure = graph_figure(graph)
    assert len(bold_rings(figure)) == 2  # the end, and its place in the legend
    assert "end" in words(figure)
    assert "absorbing" not in words(figure)
    assert f"6 states · 1 end · 10 pairs · {graph.n_branches} branches" in words(figure)
    assert not bold_rings(graph_figure(riverswim()))
    assert "end" not in words(graph_figure(riverswim()))
    absorbing = graph_figure(ruin(9))
    assert "absorbing" in words(absorbing)
    assert not bold_rings(absorbing)


def test_twins_are_above_their_state_in_a_chain() -> None:
    graph = settled(riverswim(), {2: 0.9, 4: 0.9})
    moves = likely_moves(graph)
    assert is_chain(graph, moves)
    at = chain_layout(graph)
    assert at[6:].tolist() == [[2.0, 1.0], [4.0, 1.0]]
    assert len(bold_rings(graph_figure(graph))) == 3
    assert "(end)" in words(graph_figure(graph))


def test_a_twin_shares_the_cell_of_its_state() -> None:
    grid = slippery_grid(4)
    figure = graph_figure(settled(grid, {3: 0.5, 5: 0.3}))
    cells = [p for p in figure.axes[0].patches if isinstance(p, Rectangle)]
    plain = [p for p in graph_figure(grid).axes[0].patches if isinstance(p, Rectangle)]
    assert len(cells) == len(plain)
    assert len(bold_rings(figure)) == 3


def test_a_large_graph_with_ends_shows_the_classes_of_its_closed_graph() -> None:
    rows: list[dict[int, dict[int, float]]] = [
        {0: {(s + 1) % 300: 0.5, max(s - 1, 0): 0.5}} for s in range(300)
    ]
    graph = settled(graph_from_rows(rows), {299: 1.0})
    structure = class_structure(graph)
    assert sum(node.n_states for node in structure.nodes) == 299
    assert structure.n_classes == 1
    assert "every state reaches every other" in " ".join(words(graph_figure(graph)))
    assert "ends are not shown: after one, the next episode starts" in words(graph_figure(graph))


def test_a_model_that_starts_everywhere_but_in_its_ends_says_so() -> None:
    graph = riverswim()
    everywhere = settled(replace(graph, initial=np.full(6, 1 / 6)), {2: 0.5})
    assert "starts anywhere" in " ".join(words(graph_figure(everywhere)))


def test_dot_gives_ends_a_double_border() -> None:
    text = to_dot(settled(riverswim(4), {3: 0.5}))
    assert [line.split()[0] for line in text.splitlines() if "peripheries=2" in line] == ["s4"]
    assert "3 (end)" in text
