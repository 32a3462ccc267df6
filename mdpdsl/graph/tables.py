"""States, pairs and transitions as Arrow tables: variables by value, actions by name.

Everything with a `table()` speaks Arrow: `Tabular` adds `to_pandas`, `to_polars` and the stream
that pandas, polars, DuckDB and others read without a copy.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mdpdsl.graph.space import FloatArray, IntArray, Product
from mdpdsl.graph.transition_graph import TransitionGraph

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa

Column = npt.NDArray[Any] | Sequence[Any]


class Tabular:
    """Something that is a table, too."""

    def table(self) -> pa.Table:
        """Return the table."""
        raise TypeError(f"{type(self).__name__} has no table")

    def to_pandas(self) -> pandas.DataFrame:
        """Return the table as a pandas frame."""
        return self.table().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Return the table as a polars frame."""
        import polars

        found = polars.from_arrow(self.table())
        assert isinstance(found, polars.DataFrame)
        return found

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the table as Arrow's own stream."""
        return self.table().to_reader().__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, eq=False)
class StateTable(Tabular):
    """The values of all variables by state number."""

    graph: TransitionGraph

    def table(self) -> pa.Table:
        """Return one row for each state."""
        return state_table(self.graph, {})

    def __len__(self) -> int:
        return self.graph.n_states

    def __getitem__(self, state: int) -> dict[str, Any]:
        return dict(self.graph.states.native(range(len(self))[state]))

    def __repr__(self) -> str:
        variables = "; ".join(v.describe() for v in self.graph.states.variables)
        return f"<{len(self):,} states: {variables}>"


def state_table(graph: TransitionGraph, columns: Mapping[str, Column]) -> pa.Table:
    """Return one row for each state: its variables, whether it is an end, then columns.

    A model without ends has no column `end`; other columns are [n_states].
    """
    found = _values(graph.states.product, graph.states.codes)
    ends: dict[str, Column] = {} if graph.ends is None else {"end": graph.ends}
    return _table({**found, **_apart({**ends, **columns}, found)})


def pair_table(
    graph: TransitionGraph, columns: Mapping[str, Column], pairs: IntArray | None = None
) -> pa.Table:
    """Return one row for each pair: its state, its action, then columns of as many entries."""
    chosen = np.arange(graph.n_pairs) if pairs is None else pairs
    return _table(pair_columns(graph, chosen) | dict(columns))


def pair_columns(graph: TransitionGraph, pairs: IntArray) -> dict[str, Column]:
    """Return the state variables and the action of some pairs."""
    codes = graph.states.codes[graph.pair_state[pairs]]
    found: dict[str, Column] = dict(_values(graph.states.product, codes))
    labels = np.array(graph.actions.labels, dtype=object)
    found["action"] = labels[graph.pair_action[pairs]]
    return found


def transition_table(
    graph: TransitionGraph, pairs: IntArray, successors: IntArray, columns: Mapping[str, Column]
) -> pa.Table:
    """Return one row for each transition: state, action, next state, then columns.

    If the model has ends, the column `ended` follows the next state: whether it is one.
    """
    codes = graph.states.codes[successors]
    found = pair_columns(graph, pairs)
    found |= {f"next_{k}": v for k, v in _values(graph.states.product, codes).items()}
    if graph.ends is not None:
        found |= _apart({"ended": graph.ends[successors]}, found)
    return _table({**found, **columns})


def pair_records(
    graph: TransitionGraph, pairs: Sequence[int], figures: Mapping[str, FloatArray]
) -> list[dict[str, object]]:
    """Return some pairs for JSON: the state by variable, the action, and each figure."""
    return [
        {
            "state": graph.states.native(int(graph.pair_state[pair])),
            "action": graph.actions.labels[graph.pair_action[pair]],
            **{name: float(column[pair]) for name, column in figures.items()},
        }
        for pair in pairs
    ]


def pair_csv(graph: TransitionGraph, figures: Mapping[str, FloatArray]) -> str:
    """Return one line per pair as CSV; `figures` are columns by name, [n_pairs] each."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*(v.name for v in graph.states.variables), "action", *figures])
    labels = graph.actions.labels
    columns = [column.tolist() for column in figures.values()]
    for state in range(graph.n_states):
        values = list(graph.states.native(state).values())
        for pair in range(int(graph.pair_start[state]), int(graph.pair_start[state + 1])):
            action = labels[graph.pair_action[pair]]
            writer.writerow([*values, action, *(column[pair] for column in columns)])
    return buffer.getvalue()


def _values(product: Product, codes: IntArray) -> dict[str, Column]:
    """Return the values of each variable as people write them."""
    found: dict[str, Column] = {}
    for position, variable in enumerate(product.variables):
        natives = [variable.native(index) for index in range(variable.size)]
        kind = object if variable.kind == "enum" else None
        found[variable.name] = np.array(natives, dtype=kind)[product.cells(codes, position)]
    return found


def _apart(columns: Mapping[str, Column], taken: Mapping[str, Column]) -> dict[str, Column]:
    """Rename columns that a variable has the name of."""
    return {f"{name}_" if name in taken else name: column for name, column in columns.items()}


def _table(columns: Mapping[str, Column]) -> pa.Table:
    import pyarrow as pa

    return pa.table({name: pa.array(column) for name, column in columns.items()})
