"""Storm's DRN: states, their actions and successors one by one, with names, labels and rewards.

An end is a state with the label `end` and one action `end`, which stays there. With bounds,
probabilities are intervals, `[lower, upper]`, as the header of the file states;
stormpy reads it with `build_model_from_drn[stormpy.Interval]`.
"""

from __future__ import annotations

from collections.abc import Iterator

from mdpdsl.compile.model import Model
from mdpdsl.formats.foreign import Format
from mdpdsl.formats.loops import loop_notes, with_loops
from mdpdsl.formats.names import prism_names
from mdpdsl.formats.numbers import branch_chances, number_texts
from mdpdsl.formats.written_rows import require_rows
from mdpdsl.graph.interval_graph import Bounds, IntervalGraph
from mdpdsl.graph.reward_fields import all_rewards
from mdpdsl.graph.transition_graph import TransitionGraph


def to_drn(
    graph: TransitionGraph,
    name: str = "model",
    bounds: Bounds | None = None,
    notes: tuple[str, ...] = (),
) -> str:
    """Return a graph as DRN text; raise FormatError if its dynamics are unknown."""
    require_rows(graph, has_bounds=bounds is not None)
    return "\n".join(_lines(graph, name, bounds, notes)) + "\n"


def _lines(
    graph: TransitionGraph, name: str, bounds: Bounds | None, notes: tuple[str, ...]
) -> Iterator[str]:
    looped, bounds = with_loops(graph, bounds)
    notes, graph = (*notes, *loop_notes(graph, looped)), looped
    names = prism_names(graph, name)
    comments = [name, *notes, *(f"{what} is {new}" for what, new in names.renamed)]
    yield from (f"// {' '.join(text.split())}" for text in comments)
    yield "@type: MDP"
    if bounds is not None:
        yield "@value_type: double-interval"
    rewards = all_rewards(graph)
    structures = " ".join(names.rewards[reward] for reward in rewards)
    yield from ("@parameters", "", "@reward_models", structures)
    yield from ("@nr_states", str(graph.n_states), "@nr_choices", str(graph.n_pairs), "@model")
    # Rewards belong to pairs; states have none. In an interval model they are intervals, too.
    blank = f" [{', '.join('0' for _ in rewards)}]" if rewards else ""
    columns = zip(*(number_texts(numbers) for numbers in rewards.values()), strict=True)
    pair_rewards = [f" [{', '.join(numbers)}]" for numbers in columns]
    chances = branch_chances(graph, bounds, comma=", ")
    successor, start = graph.successor.tolist(), graph.successor_start.tolist()
    label_columns = [(names.labels[label], on.tolist()) for label, on in graph.labels.items()]
    actions, pair_start = graph.pair_action.tolist(), graph.pair_start.tolist()
    initial = graph.initial.tolist()
    for state in range(graph.n_states):
        labels = [label for label, on in label_columns if on[state]]
        if initial[state] > 0:
            labels.append("init")
        yield " ".join([f"state {state}{blank}", *labels])
        for pair in range(pair_start[state], pair_start[state + 1]):
            reward = pair_rewards[pair] if rewards else ""
            yield f"\taction {names.actions[actions[pair]]}{reward}"
            for branch in range(start[pair], start[pair + 1]):
                yield f"\t\t{successor[branch]} : {chances[branch]}"


class Drn(Format):
    """Storm's explicit format DRN."""

    name, title, suffix = "drn", "Storm's DRN", ".drn"
    has_intervals = True

    def text(self, model: Model) -> str:
        """Return a model as the text of a file."""
        self.require_truth(model)
        return to_drn(model.graph, model.name)

    def interval_text(self, intervals: IntervalGraph, name: str, notes: tuple[str, ...]) -> str:
        """Return an interval MDP as the text of a file."""
        return to_drn(intervals.graph, name, intervals.bounds, notes)
