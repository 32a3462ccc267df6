"""The examples from the definition of the language, as written there."""

from pathlib import Path

import pytest

import mdpdsl
from mdpdsl.graph.analysis import is_communicating

EXAMPLES = Path(__file__).parent.parent / "golden" / "language"


@pytest.mark.parametrize(
    ("name", "n_states", "n_pairs"),
    [("riverswim", 6, 12), ("weather", 2, 4), ("pendulum", 100, 500), ("mountain_car", 169, 507)],
)
def test_examples_build_as_written(name: str, n_states: int, n_pairs: int) -> None:
    graph = mdpdsl.load(EXAMPLES / f"{name}.mdp").graph
    graph.validate()
    assert (graph.n_states, graph.n_pairs) == (n_states, n_pairs)
    assert is_communicating(graph)


@pytest.mark.parametrize("name", ["riverswim", "weather", "pendulum", "mountain_car"])
def test_shipped_models_are_the_examples(name: str) -> None:
    example = mdpdsl.load(EXAMPLES / f"{name}.mdp")
    shipped = mdpdsl.load(name)
    assert example.graph.hash == shipped.graph.hash
    assert example.checked.explore == shipped.checked.explore


def test_a_log_block_maps_columns_to_variables() -> None:
    text = (EXAMPLES / "pendulum.mdp").read_text() + (EXAMPLES / "log_block.txt").read_text()
    columns = mdpdsl.loads(text).checked.log
    assert [column.key for column in columns] == ["episode", "time", "theta", "omega", "u"]


def test_the_spaces_alone_are_a_model() -> None:
    text = (EXAMPLES / "pendulum.mdp").read_text()
    spaces = "\n".join(
        line for line in text.splitlines() if line.startswith(("mdp", "state", "action"))
    )
    graph = mdpdsl.loads(spaces).graph
    assert (graph.n_states, graph.n_pairs, graph.n_branches) == (100, 500, 0)


def test_settings_of_a_run_are_read() -> None:
    explore = mdpdsl.load("pendulum").checked.explore
    assert explore == {"kappa": 10.0, "steps": 100_000, "gamma": 0.95, "delta": 0.1}
    text = """
        mdp m state x in 0..1 action a on a -> stay
        explore { algorithm = kappa-dp horizon = inf bonus = "none" }
    """
    assert mdpdsl.loads(text).checked.explore == {
        "algorithm": "kappa-dp",
        "horizon": "inf",
        "bonus": "none",
    }


def test_the_named_action_may_be_read() -> None:
    graph = mdpdsl.loads("""
        mdp named
        state x in 0..3
        action left, right
        init x = 0
        on any -> x' = clip(x + (if action == left then -1 else 1), 0, 3)
    """).graph
    assert graph.row(graph.pair(1, 0))[0].tolist() == [0]
    assert graph.row(graph.pair(1, 1))[0].tolist() == [2]


def test_names_and_values_of_actions_make_a_product() -> None:
    graph = mdpdsl.loads("""
        mdp product
        state x in 0..9
        action move, wait
        action u in {1, 2}
        init x = 0
        on move -> x' = min(x + u, 9)
        on wait -> stay
    """).graph
    assert graph.actions.labels == ("move, u = 1", "move, u = 2", "wait, u = 1", "wait, u = 2")
    assert graph.row(graph.pair(0, 1))[0].tolist() == [2]


def test_without_init_a_run_starts_anywhere() -> None:
    assert mdpdsl.load("weather").graph.initial.tolist() == [0.5, 0.5]


def test_enumerations_may_share_members() -> None:
    graph = mdpdsl.loads("""
        mdp lights
        state a in {red, green}
        state b in {green, blue}
        action copy
        init a = green, b = blue
        on copy when a == b -> stay
        on copy otherwise -> b' = a
    """).graph
    assert [graph.states.label(s) for s in range(graph.n_states)] == [
        "green, green",
        "green, blue",
    ]
