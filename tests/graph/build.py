"""Transition graphs made by hand, for tests and for viewing pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from mdpdsl.graph.space import ActionSpace, BoolArray, FloatArray, Product, StateSpace, Variable
from mdpdsl.graph.transition_graph import TransitionGraph

Row = Mapping[int, float]
Rows = Sequence[Mapping[int, Row]]  # state -> action -> successor -> probability


def int_variable(name: str, size: int, low: int = 0) -> Variable:
    """Return an integer range."""
    return Variable(name, "int", size, low=low)


def enum_variable(name: str, *members: str) -> Variable:
    """Return an enumeration."""
    return Variable(name, "enum", len(members), members=members)


def real_variable(name: str, low: float, high: float, size: int, wraps: bool = False) -> Variable:
    """Return a real range divided into equal cells."""
    return Variable(name, "real", size, edges=np.linspace(low, high, size + 1), wraps=wraps)


def set_variable(name: str, *numbers: float) -> Variable:
    """Return a finite set of numbers."""
    return Variable(name, "set", len(numbers), numbers=np.array(numbers, dtype=np.float64))


def named_actions(*names: str) -> ActionSpace:
    """Return named actions."""
    return ActionSpace(Product((enum_variable("action", *names),)))


def graph_from_rows(
    rows: Rows,
    variables: Sequence[Variable] | None = None,
    actions: ActionSpace | None = None,
    codes: Iterable[int] | None = None,
    initial: FloatArray | None = None,
    reward: Callable[[int, int], float] | None = None,
    labels: Mapping[str, BoolArray] | None = None,
    ends: BoolArray | None = None,
) -> TransitionGraph:
    """Return the graph of nested mappings, by default over one integer `s` that starts at 0."""
    n_states = len(rows)
    space = StateSpace(
        Product(tuple(variables or [int_variable("s", n_states)])),
        np.array(range(n_states) if codes is None else list(codes), dtype=np.int64),
    )
    n_actions = 1 + max(action for row in rows for action in row)
    if actions is None:
        actions = named_actions(*(chr(ord("a") + i) for i in range(n_actions)))
    pairs = [(s, a) for s, row in enumerate(rows) for a in sorted(row)]
    branches = [[(t, p) for t, p in sorted(rows[s][a].items()) if p > 0] for s, a in pairs]
    graph = TransitionGraph(
        states=space,
        actions=actions,
        pair_start=_starts(len(row) for row in rows),
        pair_action=np.array([a for _, a in pairs], dtype=np.int32),
        successor_start=_starts(map(len, branches)),
        successor=np.array([t for row in branches for t, _ in row], dtype=np.int32),
        probability=np.array([p for row in branches for _, p in row], dtype=np.float64),
        initial=np.eye(n_states)[0] if initial is None else initial,
        reward=None if reward is None else np.array([reward(s, a) for s, a in pairs], dtype=float),
        labels=dict(labels or {}),
        ends=ends,
    )
    graph.validate()
    return graph


def riverswim(n: int = 6) -> TransitionGraph:
    """Return the chain against the current."""
    rows: list[dict[int, dict[int, float]]] = []
    for s in range(n):
        right = {s + 1: 0.35, s: 0.6, s - 1: 0.05}
        if s == 0:
            right = {1: 0.6, 0: 0.4}
        if s == n - 1:
            right = {s: 0.6, s - 1: 0.4}
        rows.append({0: {max(s - 1, 0): 1.0}, 1: right})
    return graph_from_rows(
        rows,
        [int_variable("pos", n)],
        named_actions("left", "right"),
        reward=lambda s, a: 0.005 if (s, a) == (0, 0) else float((s, a) == (n - 1, 1)),
        labels={"goal": np.arange(n) == n - 1},
    )


def weather() -> TransitionGraph:
    """Return a graph with two states and two actions, in which every transition is possible."""
    rows = [
        {0: {0: 0.8, 1: 0.2}, 1: {0: 0.9, 1: 0.1}},
        {0: {0: 0.4, 1: 0.6}, 1: {0: 0.5, 1: 0.5}},
    ]
    sky = enum_variable("sky", "sunny", "rainy")
    return graph_from_rows(rows, [sky], named_actions("walk", "drive"))


def slippery_grid(n: int, names: tuple[str, str] = ("x", "y"), walls: int = 0) -> TransitionGraph:
    """Return an n x n grid: 0.8 ahead, 0.1 to either side; the last corner is absorbing."""
    cells = [c for c in range(n * n) if not (walls and c % walls == walls - 2 and c % n)]
    number = {cell: i for i, cell in enumerate(cells)}
    moves = [(0, 1), (0, -1), (-1, 0), (1, 0)]

    def step(cell: int, move: tuple[int, int]) -> int:
        x, y = cell // n + move[0], cell % n + move[1]
        inside = 0 <= x < n and 0 <= y < n and x * n + y in number
        return number[x * n + y] if inside else number[cell]

    rows = []
    for cell in cells:
        row: dict[int, dict[int, float]] = {}
        for action, (dx, dy) in enumerate(moves):
            slips = [((dx, dy), 0.8), ((dy, dx), 0.1), ((-dy, -dx), 0.1)]
            if cell == cells[-1]:
                slips = []
            row[action] = {} if slips else {number[cell]: 1.0}
            for move, p in slips:
                target = step(cell, move)
                row[action][target] = row[action].get(target, 0.0) + p
        rows.append(row)
    goal = np.arange(len(cells)) == len(cells) - 1
    return graph_from_rows(
        rows,
        [int_variable(names[0], n), int_variable(names[1], n)],
        named_actions("up", "down", "left", "right"),
        codes=cells,
        reward=lambda s, a: float(s == len(cells) - 1),
        labels={"goal": goal, "edge": np.array([c % n == 0 for c in cells])},
    )


def pendulum(n: int = 10) -> TransitionGraph:
    """Return a pendulum-like model with a full row in every pair."""
    angle = real_variable("theta", -np.pi, np.pi, n, wraps=True)
    speed = real_variable("omega", -8.0, 8.0, n)
    torques = (-2.0, -1.0, 0.0, 1.0, 2.0)
    rows = []
    for theta in angle.centers:
        for omega in speed.centers:
            row = {}
            for action, u in enumerate(torques):
                fast = np.clip(omega + (15 * np.sin(theta) + 3 * u) * 0.05, -8, 8)
                turn = angle.centers - theta - fast * 0.05
                turn = (turn + np.pi) % (2 * np.pi) - np.pi
                along = np.exp(-0.5 * (turn / 0.3) ** 2) + 1e-7
                across = np.exp(-0.5 * ((speed.centers - fast) / 0.8) ** 2) + 1e-7
                joint = np.outer(along, across).ravel()
                row[action] = dict(enumerate((joint / joint.sum()).tolist()))
            rows.append(row)
    start = np.zeros(n * n)
    start[n * (n - 1) + n // 2] = 1
    return graph_from_rows(
        rows, [angle, speed], ActionSpace(Product((set_variable("u", *torques),))), initial=start
    )


def random_graph(
    n_states: int, n_actions: int, n_successors: int, rng: np.random.Generator
) -> TransitionGraph:
    """Return a graph in which each pair has a few random successors."""
    rows = []
    for _ in range(n_states):
        row = {}
        for action in range(n_actions):
            targets = rng.choice(n_states, size=min(n_successors, n_states), replace=False)
            weights = rng.dirichlet(np.ones(len(targets)))
            row[action] = dict(zip(targets.tolist(), weights.tolist(), strict=True))
        rows.append(row)
    return graph_from_rows(rows)


def courier() -> TransitionGraph:
    """Return a model with three variables (place, tank, parcel) and 150 states."""
    product = Product(
        (int_variable("place", 5), int_variable("tank", 15), Variable("parcel", "bool", 2))
    )
    rows = []
    for code in range(product.size):
        at = product.native(code)
        place, tank, parcel = int(at["place"]), int(at["tank"]), bool(at["parcel"])

        def to(place: int, tank: int, parcel: bool) -> int:
            return product.code_of({"place": place, "tank": tank, "parcel": parcel})

        if tank == 0:
            rows.append({2: {to(place, 14, False): 1.0}})
            continue
        ahead = to((place + 1) % 5, tank - 1, parcel or place == 0)
        back = to((place - 1) % 5, tank - 1, parcel and place != 3)
        rows.append({0: {ahead: 0.9, code: 0.1}, 1: {back: 1.0}})
    return graph_from_rows(
        rows,
        product.variables,
        named_actions("ahead", "back", "refill"),
        initial=np.eye(len(rows))[28],
        labels={"empty": np.array([product.native(c)["tank"] == 0 for c in range(len(rows))])},
    )


def ruin(n: int) -> TransitionGraph:
    """Return a chain with absorbing ends, on which a gambler walks at random."""
    rows: list[dict[int, dict[int, float]]] = [{0: {0: 1.0}}]
    rows += [{0: {s - 1: 0.5, s + 1: 0.5}} for s in range(1, n - 1)]
    rows.append({0: {n - 1: 1.0}})
    labels = {"ruined": np.arange(n) == 0, "rich": np.arange(n) == n - 1}
    return graph_from_rows(
        rows,
        [int_variable("wealth", n)],
        named_actions("bet"),
        initial=np.eye(n)[n // 2],
        labels=labels,
    )


def countdown(n_rounds: int, n_places: int) -> TransitionGraph:
    """Return a game with rounds, each its own class of places; the last one is closed."""
    rows = []
    for time in range(n_rounds):
        for place in range(n_places):
            turn = time * n_places + (place + 1) % n_places
            later = min(time + 1, n_rounds - 1) * n_places + place
            rows.append(
                {0: {turn: 1.0}, 1: {later: 0.5, turn: 0.5} if later != turn else {turn: 1}}
            )
    variables = [int_variable("round", n_rounds), int_variable("place", n_places)]
    return graph_from_rows(rows, variables, named_actions("turn", "wait"))


def _starts(lengths: Iterable[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.concatenate([[0], np.cumsum(np.fromiter(lengths, dtype=np.int64))])
