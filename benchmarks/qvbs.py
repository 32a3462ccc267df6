"""Values of the Quantitative Verification Benchmark Set, against those published and Storm's.

    python benchmarks/qvbs.py [--models FOLDER] [--json]

The folder has the models and properties of the set (https://qcomp.org/benchmarks, CC-BY 4.0), which
are not part of the project, and `expected.json`, a list of instances:

    {"model": "wlan", "file": "wlan/wlan.0.prism", "props_file": "wlan/wlan.props",
     "constants": {"COL": 0}, "states": 2954, "choices": 3972, "transitions": 5202,
     "values": {"cost_max": {"qvbs": {"approx": 28000.96, "num": 5852200, "den": 209}}}}

where a published value is a number or a fraction; sizes and values may be missing. Storm (stormpy)
builds each model and finds the states of labels and conditions; transitions and rewards then become
a graph of ours, and both sides solve every property of the file for which we have an objective.
Values must agree to 1e-6 of their size, and our bounds must include the published value; the
command fails if one does not. Code is compiled before the clock starts.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from mdpdsl.graph.branches import Branches, named_actions
from mdpdsl.graph.objectives import Average, Cumulative, Objective, Total, Until
from mdpdsl.graph.space import BoolArray, FloatArray, Product, StateSpace, Variable
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.solve.solve_objective import solve_objective

#: Values must agree to this, relative to their size.
TOLERANCE = 1e-6
#: The relative precision of Storm.
STORM = 1e-8
#: A published value is exact, but Storm's probabilities are rounded: bounds may miss it by this.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Result:
    """The values of one property at the start."""

    model: str
    states: int
    property: str
    formula: str
    published: float | None
    storm: float
    lower: float
    upper: float
    value: float
    error: float  # of our value, relative to the published one, or else to Storm's
    agrees: bool
    method: str
    seconds: float
    storm_seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", type=Path, default=Path("qvbs"), metavar="FOLDER")
    parser.add_argument("--json", action="store_true", help="print one JSON object per property")
    options = parser.parse_args()
    path = options.models / "expected.json"
    if not path.exists():
        sys.exit(f"there is no {path}: name the folder of the models with --models")
    if not options.json:
        print(HEADER)
    n_results, n_wrong = 0, 0
    for entry in json.loads(path.read_text(encoding="utf-8")):
        for result in results_of(options.models, entry):
            n_results += 1
            n_wrong += not result.agrees
            print(json.dumps(asdict(result)) if options.json else line(result), flush=True)
    if not options.json:
        print(f"{n_results - n_wrong} of {n_results} values agree")
    sys.exit(1 if n_wrong else 0)


HEADER = (
    f"{'model':32} {'property':15} {'published':>14} {'Storm':>14} {'lower':>14} {'upper':>14} "
    f"{'error':>8} {'s':>7} {'Storm, s':>8}"
)


def line(result: Result) -> str:
    published = "–" if result.published is None else f"{result.published:.9g}"
    return (
        f"{result.model:32} {result.property:15} {published:>14} {result.storm:>14.9g} "
        f"{result.lower:>14.9g} {result.upper:>14.9g} {result.error:>8.1e} {result.seconds:>7.3f} "
        f"{result.storm_seconds:>8.3f}" + ("" if result.agrees else "  does not agree")
    )


def results_of(folder: Path, entry: dict[str, Any]) -> Iterator[Result]:
    """Yield the values of all properties of an instance that we have an objective for."""
    stormpy = imported_storm()
    program = stormpy.parse_prism_program(str(folder / entry["file"]))
    text = (folder / entry["props_file"]).read_text(encoding="utf-8")
    properties = stormpy.parse_properties(text, program)
    program, properties = stormpy.instantiate_constants(program, entry["constants"], properties)
    # For a single property Storm builds only the states up to its goal, so all are named twice.
    options = stormpy.BuilderOptions([*properties, *properties])
    options.set_build_all_labels()
    options.set_build_all_reward_models()
    model = stormpy.build_model(program, options=options)
    sizes = {
        "states": model.nr_states,
        "choices": model.nr_choices,
        "transitions": model.nr_transitions,
    }
    if any(entry.get(what, size) != size for what, size in sizes.items()):
        sys.exit(f"the sizes of {entry['file']} are not those expected: {sizes}")
    graph = graph_of(model)
    constants = ",".join(str(value) for value in entry["constants"].values())
    name = Path(entry["file"]).stem + (f" ({constants})" if constants else "")
    for each in properties:
        asked = objective_of(model, graph, each.get_raw_formula())
        if asked is None:
            print(f"{name}: {each.get_name()} is no objective of ours", file=sys.stderr)
            continue
        published = published_value(entry.get("values", {}).get(each.get_name(), {}).get("qvbs"))
        yield compared(name, each, model, graph, asked, published)


def compared(
    name: str,
    asked: Any,
    model: Any,
    graph: TransitionGraph,
    objective: tuple[Objective, bool],
    published: float | None,
) -> Result:
    """Solve a property by both sides."""

    def solve() -> Any:
        return solve_objective(graph, objective[0], is_minimised=objective[1])

    solve()  # which also compiles
    found, seconds = timed(solve)
    value, storm_seconds = timed(lambda: storm_value(model, asked))
    start = int(np.flatnonzero(graph.initial)[0])
    lower, upper = float(found.lower[start]), float(found.upper[start])
    reference = value if published is None else published
    error = relative(found.value, reference)
    slack = ROUNDING * abs(reference) if published is not None else TOLERANCE * abs(reference)
    is_inside = lower - slack <= reference <= upper + slack if math.isfinite(reference) else True
    agrees = found.status == "optimal" and error <= TOLERANCE and is_inside
    return Result(
        model=name,
        states=graph.n_states,
        property=asked.get_name(),
        formula=str(asked.get_raw_formula()),
        published=published,
        storm=value,
        lower=lower,
        upper=upper,
        value=found.value,
        error=error,
        agrees=agrees,
        method=f"{found.method}, {found.variant}",
        seconds=seconds,
        storm_seconds=storm_seconds,
    )


def published_value(entry: Any) -> float | None:
    if isinstance(entry, dict):
        return float(Fraction(entry["num"], entry["den"])) if "num" in entry else entry["approx"]
    return None if entry is None else float(entry)


def relative(value: float, reference: float) -> float:
    if value == reference:
        return 0.0
    return abs(value - reference) / (abs(reference) or 1.0)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return a result and the seconds it took."""
    began = time.perf_counter()
    return work(), time.perf_counter() - began


# Storm's model as a graph


def graph_of(model: Any) -> TransitionGraph:
    """Return a model of Storm as a graph with all its rewards; actions are numbered by state."""
    matrix = model.transition_matrix
    n_states, n_pairs = model.nr_states, model.nr_choices
    firsts = np.array([matrix.get_row_group_start(state) for state in range(n_states)])
    pair_state = np.searchsorted(firsts, np.arange(n_pairs), side="right") - 1
    rows = [[(e.column, e.value) for e in matrix.get_row(pair)] for pair in range(n_pairs)]
    pair = np.repeat(np.arange(n_pairs), [len(row) for row in rows])
    entries = [entry for row in rows for entry in row]
    branches = Branches(
        state=pair_state[pair],
        action=(np.arange(n_pairs) - firsts[pair_state])[pair],
        target=np.array([column for column, _ in entries]),
        probability=np.array([value for _, value in entries]),
        reward=None,
        rewards={
            name: pair_rewards(reward, matrix, pair_state)[pair]
            for name, reward in model.reward_models.items()
        },
    )
    n_actions = int(np.bincount(pair_state).max())
    initial = np.zeros(n_states)
    initial[list(model.initial_states)] = 1 / len(model.initial_states)
    return branches.graph(
        StateSpace(Product((Variable("s", "int", n_states),)), np.arange(n_states)),
        named_actions(tuple(f"a{i}" for i in range(n_actions))),
        initial,
    )


def pair_rewards(reward: Any, matrix: Any, pair_state: Any) -> FloatArray:
    """Return the rewards of states, actions and transitions as expected ones of pairs."""
    earned = np.zeros(len(pair_state))
    if reward.has_state_rewards:
        earned += np.array(reward.state_rewards)[pair_state]
    if reward.has_state_action_rewards:
        earned += np.array(reward.state_action_rewards)
    if reward.has_transition_rewards:
        for pair in range(len(earned)):
            chances = {entry.column: entry.value for entry in matrix.get_row(pair)}
            for entry in reward.transition_rewards.get_row(pair):
                earned[pair] += chances[entry.column] * entry.value
    return earned


# What a formula of Storm asks for


def objective_of(model: Any, graph: TransitionGraph, formula: Any) -> tuple[Objective, bool] | None:
    """Return the objective of a formula and whether it is minimised; None if there is none."""
    logic, path = imported_storm().logic, formula.subformula

    def states(condition: Any) -> BoolArray:
        found = np.zeros(graph.n_states, np.bool_)
        checked = imported_storm().model_checking(model, condition)
        found[list(checked.get_truth_values_vector())] = True
        return found

    objective: Objective | None = None
    if isinstance(formula, logic.ProbabilityOperatorFormula):
        bound = re.search(r" U(<=?)(\d+) ", str(formula))
        if isinstance(path, logic.BoundedUntilFormula) and bound is not None:
            steps = int(bound[2]) - (bound[1] == "<")
            left, right = states(path.left_subformula), states(path.right_subformula)
            objective = Until(right, left, steps)
        elif isinstance(path, logic.UntilFormula):
            objective = Until(states(path.right_subformula), states(path.left_subformula))
        elif isinstance(path, logic.EventuallyFormula):
            objective = Until(states(path.subformula))
    elif isinstance(formula, logic.RewardOperatorFormula | logic.TimeOperatorFormula):
        reward = rewards_of(graph, formula)
        steps_text = re.search(r"\[C(<=?)(\d+)\]", str(formula))
        if isinstance(path, logic.EventuallyFormula):
            objective = Total(reward, states(path.subformula))
        elif isinstance(path, logic.CumulativeRewardFormula) and steps_text is not None:
            objective = Cumulative(reward, int(steps_text[2]) - (steps_text[1] == "<"))
        elif isinstance(path, logic.LongRunAverageRewardFormula):
            objective = Average(reward)
    return None if objective is None else (objective, is_minimised(formula))


def rewards_of(graph: TransitionGraph, formula: Any) -> FloatArray:
    """Return the rewards of pairs that a formula means; time is one per step."""
    if isinstance(formula, imported_storm().logic.TimeOperatorFormula):
        return np.ones(graph.n_pairs)
    if formula.has_reward_model_name:
        return graph.rewards[formula.reward_name]
    (reward,) = graph.rewards.values()
    return reward


def is_minimised(formula: Any) -> bool:
    """Return the direction of a formula; a lower bound is for the least value."""
    logic = imported_storm().logic
    if formula.has_optimality_type:
        return bool(formula.optimality_type == logic.OptimizationDirection.MINIMIZE)
    lower = (logic.ComparisonType.GEQ, logic.ComparisonType.GREATER)
    return bool(formula.has_bound and formula.comparison_type in lower)


def storm_value(model: Any, asked: Any) -> float:
    """Return Storm's value at the start, by a sound method."""
    stormpy = imported_storm()
    formula = asked.get_raw_formula().clone()
    if formula.has_bound:  # ask for the value that is compared with it
        direction = stormpy.logic.OptimizationDirection
        least = is_minimised(formula)
        formula.set_optimality_type(direction.MINIMIZE if least else direction.MAXIMIZE)
        formula.remove_bound()
    environment = stormpy.environments.sound()
    environment.solver().min_max().precision = stormpy.Rational(STORM)
    result = stormpy.model_checking(model, formula, environment=environment)
    return float(result.get_value(model.initial_states[0]))


def imported_storm() -> Any:
    try:
        import stormpy
        import stormpy.logic
    except ImportError:
        sys.exit("the comparison needs Storm: pip install stormpy")
    return stormpy


if __name__ == "__main__":
    main()
