"""PRISM's explicit files: `.tra`, and `.sta`, `.lab`, `.srew`, `.trew` beside it.

Writing: PRISM requires the same reward on all transitions of a choice, so a reward that depends on
the next state is written as its expectation. The default reward alone is in `NAME.srew` and
`NAME.trew`. As soon as there are named rewards, the files are numbered, `NAME1.srew`, `NAME2.srew`,
…, as PRISM writes and reads them, and each has the name of its reward in its header; the default
one is `reward`. An end has the label `end` and one choice `end`, which stays there.

Reading: a Markov chain is a graph with the single action `step`. Unnamed choices are named by their
position, `a0`, `a1`, …; if two choices of a state share a name, numbers are appended. PRISM has
sets of initial states, not distributions: all of them are equally likely. Rewards of states and of
transitions are added; those of files without a number are the default reward. Ends that we wrote
are ends again, as are states with the label `terminal` that are never left and have no reward.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import numpy as np

from mdpdsl.compile.model import Model
from mdpdsl.compile.stored import graph_model
from mdpdsl.files import write_text
from mdpdsl.formats.explicit_tables import Lines, read_labels, read_lines, read_rewards, read_states
from mdpdsl.formats.foreign import Format
from mdpdsl.formats.loops import with_loops, without_loops
from mdpdsl.formats.names import REWARD, Names, free_name, prism_names
from mdpdsl.formats.numbers import branch_chances, number_texts
from mdpdsl.formats.rules import cells_of
from mdpdsl.formats.written_rows import require_rows
from mdpdsl.graph.branches import Branches, named_actions, numbered_states
from mdpdsl.graph.interval_graph import Bounds, IntervalGraph
from mdpdsl.graph.reward_fields import all_rewards
from mdpdsl.graph.space import FloatArray, IntArray, StateSpace
from mdpdsl.graph.transition_graph import DEFAULT_REWARD, ROW_SUM_TOLERANCE, TransitionGraph


def write_explicit(graph: TransitionGraph, path: Path, bounds: Bounds | None = None) -> list[Path]:
    """Write the files of a model side by side, and return their paths, the `.tra` first.

    `path` is the `.tra` file or the stem of all files. Files of rewards are written if the model
    has rewards.
    """
    texts = explicit_texts(graph, bounds)
    stem = path.with_suffix("") if path.suffix == ".tra" else path
    Format.require_folder(stem)
    written = []
    for suffix, text in texts.items():
        file = stem.with_name(stem.name + suffix)
        write_text(file, text)
        written.append(file)
    return written


def explicit_texts(graph: TransitionGraph, bounds: Bounds | None = None) -> dict[str, str]:
    """Return the text of each file by its ending; raise FormatError without dynamics.

    The ending of a numbered file begins with its number: `1.srew`.
    """
    require_rows(graph, has_bounds=bounds is not None)
    graph, bounds = with_loops(graph, bounds)
    names = prism_names(graph, "model")
    parts = {
        ".tra": _transition_lines(graph, names, bounds),
        ".sta": _state_lines(graph, names),
        ".lab": _label_lines(graph, names),
    }
    for number, (reward, numbers) in enumerate(all_rewards(graph).items(), start=1):
        place = str(number) if graph.rewards else ""
        name = names.rewards[reward]
        parts[f"{place}.srew"] = iter([*_header(name, "State"), f"{graph.n_states} 0"])
        parts[f"{place}.trew"] = _reward_lines(graph, name, numbers)
    return {suffix: "\n".join(lines) + "\n" for suffix, lines in parts.items()}


def _transition_lines(graph: TransitionGraph, names: Names, bounds: Bounds | None) -> Iterator[str]:
    yield f"{graph.n_states} {graph.n_pairs} {graph.n_branches}"
    columns = (*_branch_columns(graph), branch_chances(graph, bounds))
    per_branch = np.repeat(graph.pair_action, np.diff(graph.successor_start)).tolist()
    for state, choice, target, chance, action in zip(*columns, per_branch, strict=True):
        yield f"{state} {choice} {target} {chance} {names.actions[action]}"


def _state_lines(graph: TransitionGraph, names: Names) -> Iterator[str]:
    """List the states; booleans as PRISM writes them, all others as numbers, as in PRISM source."""
    yield f"({','.join(names.variables)})"
    variables = graph.states.variables
    for state, row in enumerate(cells_of(graph.states).tolist()):
        values = [
            ("true" if cell else "false") if v.kind == "bool" else str(v.low + cell)
            for v, cell in zip(variables, row, strict=True)
        ]
        yield f"{state}:({','.join(values)})"


def _label_lines(graph: TransitionGraph, names: Names) -> Iterator[str]:
    columns = [graph.initial > 0, np.zeros(graph.n_states, np.bool_), *graph.labels.values()]
    known = ["init", "deadlock", *(names.labels[label] for label in graph.labels)]
    yield " ".join(f'{number}="{label}"' for number, label in enumerate(known))
    for state, row in enumerate(np.stack(columns, axis=1).tolist()):
        carried = [str(number) for number, holds in enumerate(row) if holds]
        if carried:
            yield f"{state}: {' '.join(carried)}"


def _reward_lines(graph: TransitionGraph, name: str, rewards: FloatArray) -> Iterator[str]:
    n_successors = np.diff(graph.successor_start)
    per_branch = np.repeat(rewards, n_successors)
    yield from _header(name, "Transition")
    n_rewarded = int(n_successors[rewards != 0].sum())
    yield f"{graph.n_states} {graph.n_pairs} {n_rewarded}"
    columns = (*_branch_columns(graph), number_texts(per_branch))
    for state, choice, target, reward in zip(*columns, strict=True):
        if reward != "0":
            yield f"{state} {choice} {target} {reward}"


def _branch_columns(graph: TransitionGraph) -> tuple[list[int], list[int], list[int]]:
    """Return the state of every branch, the position of its pair in the state, and its target."""
    n_successors = np.diff(graph.successor_start)
    choice = np.arange(graph.n_pairs) - graph.pair_start[graph.pair_state]
    return (
        np.repeat(graph.pair_state, n_successors).tolist(),
        np.repeat(choice, n_successors).tolist(),
        graph.successor.tolist(),
    )


def _header(name: str, kind: str) -> list[str]:
    return [f'# Reward structure "{name}"', f"# {kind} rewards"]


#: The endings that versions of PRISM use for files of rewards, newest first.
STATE_REWARDS, TRANSITION_REWARDS = (".srew", ".rews"), (".trew", ".rewt")


@dataclass(frozen=True, eq=False)
class _Transitions:
    """The lines of a `.tra` file, as columns."""

    n_states: int
    is_chain: bool
    state: IntArray  # [n_transitions]
    choice: IntArray
    target: IntArray
    probability: FloatArray
    names: Mapping[tuple[int, int], str]  # of the named choices


def read_prism_files(path: Path) -> TransitionGraph:
    """Read a `.tra` file and the files beside it; raise ModelError with the line of an error."""
    lines = read_lines(path)
    found = _read_transitions(lines)
    states, order = numbered_states(found.n_states), np.arange(found.n_states)
    beside = {suffix: path.with_suffix(suffix) for suffix in (".sta", ".lab")}
    if beside[".sta"].exists():
        states, order = read_states(read_lines(beside[".sta"]), found.n_states)
    initial = np.arange(found.n_states) == 0
    labels = {}
    if beside[".lab"].exists():
        labels = read_labels(read_lines(beside[".lab"]), found.n_states)
        labels.pop("deadlock", None)
        initial = labels.pop("init", initial)
    if not initial.any():
        raise lines.error("no state is initial", "mark one with the label init in the .lab file")
    # `order` lists the states of the file in the order of the graph; all columns follow it.
    new_index = np.argsort(order)
    action, names = _choice_actions(found)
    rewards = _read_rewards(path, found)
    branches = Branches(
        state=new_index[found.state],
        action=action,
        target=new_index[found.target],
        probability=found.probability,
        reward=rewards.pop(DEFAULT_REWARD, None),
        rewards=rewards,
    )
    return _read_graph(
        lines,
        branches,
        states,
        names,
        initial[order] / np.count_nonzero(initial),
        {name: on[order] for name, on in labels.items()},
    )


def _read_transitions(lines: Lines) -> _Transitions:
    rows = iter(lines)
    span, header = next(rows, (None, []))
    if len(header) not in (2, 3) or not all(word.isdigit() for word in header):
        raise lines.error(
            "the first line must have the numbers of states, choices and transitions",
            "an MDP starts with `states choices transitions`, a chain with `states transitions`",
            span,
        )
    is_chain = len(header) == 2
    n_states, n_lines = int(header[0]), int(header[-1])
    width = 3 if is_chain else 4
    numbers: list[tuple[int, int, int]] = []
    chances: list[float] = []
    names: dict[tuple[int, int], str] = {}
    for span, words in rows:
        if len(words) not in (width, width + 1):
            form = "state target probability" if is_chain else "state choice target probability"
            raise lines.error(f"a transition must have the form `{form} [action]`", None, span)
        try:
            state, *choice, target = (int(word) for word in words[: width - 1])
            chance = float(words[width - 1])
        except ValueError:
            message = "expected whole numbers and a probability"
            if words[width - 1].startswith("["):
                message = "this is an interval; only probabilities can be read"
            raise lines.error(message, None, span) from None
        if not (0 <= state < n_states and 0 <= target < n_states):
            raise lines.error(f"the states are 0 to {n_states - 1}", None, span)
        if not 0 <= chance <= 1 + ROW_SUM_TOLERANCE:
            raise lines.error(f"{chance:g} is not a probability", None, span)
        if choice and choice[0] < 0:
            raise lines.error("choices are numbered from 0", None, span)
        numbers.append((state, choice[0] if choice else 0, target))
        chances.append(chance)
        if len(words) > width:
            names[numbers[-1][:2]] = words[width]
    if len(numbers) != n_lines:
        message = f"the first line announces {n_lines} transitions, but there are {len(numbers)}"
        raise lines.error(message, "is the file complete?")
    columns = np.array(numbers, dtype=np.int64).reshape(-1, 3)
    return _Transitions(
        n_states,
        is_chain,
        state=columns[:, 0],
        choice=columns[:, 1],
        target=columns[:, 2],
        probability=np.array(chances),
        names=names,
    )


def _choice_actions(found: _Transitions) -> tuple[IntArray, tuple[str, ...]]:
    """Return the action of every transition, and the names of all actions.

    If possible, the order of the actions agrees with that of the choices in every state.
    """
    choices = sorted(set(zip(found.state.tolist(), found.choice.tolist(), strict=True)))
    name_of: dict[tuple[int, int], str] = {}
    before: dict[str, set[str]] = {}
    last_state, used = -1, dict[str, int]()
    previous: str | None = None
    for state, choice in choices:
        if state != last_state:
            last_state, used, previous = state, {}, None
        name = found.names.get((state, choice), "step" if found.is_chain else f"a{choice}")
        used[name] = used.get(name, 0) + 1
        name = name if used[name] == 1 else f"{name}_{used[name]}"
        name_of[state, choice] = name
        before.setdefault(name, set())
        if previous is not None:
            before[name].add(previous)
        previous = name
    try:
        names = tuple(TopologicalSorter(before).static_order())
    except CycleError:
        names = tuple(before)
    number = {name: place for place, name in enumerate(names)}
    keys = zip(found.state.tolist(), found.choice.tolist(), strict=True)
    return np.array([number[name_of[key]] for key in keys], dtype=np.int64), names


def _read_rewards(path: Path, found: _Transitions) -> dict[str, FloatArray]:
    """Return the rewards of every transition by name: those without a number, or else all others.

    A numbered file without a name is `reward_2`, and so on; the first is the default reward, as is
    the one that we name `reward`.
    """
    stem = path.with_suffix("")
    files = _reward_files(stem)
    if files:
        return {DEFAULT_REWARD: _read_reward(files, found)}
    rewards: dict[str, FloatArray] = {}
    for number in itertools.count(1):
        files = _reward_files(stem.with_name(f"{stem.name}{number}"))
        if not files:
            return rewards
        name = next(iter(files.values())).reward_name
        if name is None:
            name = REWARD if number == 1 else f"{REWARD}_{number}"
        name = DEFAULT_REWARD if name == REWARD else name
        rewards[free_name(name, rewards)] = _read_reward(files, found)
    raise AssertionError


def _reward_files(stem: Path) -> dict[str, Lines]:
    """Return the files of one reward, of states (`state`) and of transitions (`transition`)."""
    files = {}
    for kind, suffixes in (("state", STATE_REWARDS), ("transition", TRANSITION_REWARDS)):
        places = (stem.with_name(stem.name + suffix) for suffix in suffixes)
        file = next((place for place in places if place.exists()), None)
        if file is not None:
            files[kind] = read_lines(file)
    return files


def _read_reward(files: Mapping[str, Lines], found: _Transitions) -> FloatArray:
    """Return one reward of every transition."""
    total = np.zeros(len(found.state))
    if "state" in files:
        by_state = read_rewards(files["state"], 1)
        total += [by_state.get((state,), 0.0) for state in found.state.tolist()]
    if "transition" in files:
        columns = [found.state, found.target] if found.is_chain else [found.state, found.choice]
        columns = columns if found.is_chain else [*columns, found.target]
        by_transition = read_rewards(files["transition"], len(columns))
        keys = zip(*(column.tolist() for column in columns), strict=True)
        total += [by_transition.get(key, 0.0) for key in keys]
    return total


def _read_graph(
    lines: Lines,
    branches: Branches,
    states: StateSpace,
    names: tuple[str, ...],
    initial: FloatArray,
    labels: Mapping[str, np.ndarray],
) -> TransitionGraph:
    try:
        return without_loops(branches.graph(states, named_actions(names), initial, labels))
    except ValueError as error:
        raise lines.error(str(error)) from None


class Explicit(Format):
    """PRISM's explicit files, several side by side."""

    name, title, suffix = "explicit", "PRISM's explicit files", ".tra"
    has_intervals = can_read = True

    def read(self, path: str) -> Model:
        """Read a `.tra` file and the files beside it."""
        began = time.perf_counter()
        graph = read_prism_files(Path(path))
        return graph_model(graph, Path(path).stem, path, time.perf_counter() - began)

    def write(self, model: Model, path: Path, **options: object) -> list[Path]:
        """Write the files of a model."""
        self.require_truth(model)
        return write_explicit(model.graph, path)

    def write_intervals(
        self, intervals: IntervalGraph, name: str, path: Path, notes: tuple[str, ...]
    ) -> list[Path]:
        """Write the files of an interval MDP, and a file of notes: a `.tra` has no comments."""
        written = write_explicit(intervals.graph, path, intervals.bounds)
        remarks = written[0].with_suffix(".notes.txt")
        write_text(remarks, "\n".join((name, *notes)) + "\n")
        return [*written, remarks]
