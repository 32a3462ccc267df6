"""Files of policies (probabilities of actions by state): arrays, and tables that people can read.

A table (`.csv`, `.json`) has a line for every pair of positive probability: the values of the state
variables, those of the action, and the probability. It is read by names, with lines and columns in
any order. Lines of states that a model does not have, because it cannot reach them, are skipped, so
a policy for all states also fits a model built from its reachable ones. Arrays (`.npz`) are faster
to read and name the graph they belong to.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mdpdsl.diagnostics import FormatError
from mdpdsl.files import require_absent, write_arrays, write_text
from mdpdsl.graph.policy import Policy
from mdpdsl.graph.space import BoolArray, FloatArray, IntArray, Product, Value, Variable
from mdpdsl.graph.transition_graph import TransitionGraph

KIND = "policy"
SUFFIXES = (".npz", ".csv", ".json")
#: The name of the last column of a table.
PROBABILITY = "probability"
#: The first column of a table that says what to do with each number of steps left.
STEPS_LEFT = "steps_left"
#: The largest rounding error of the sum of the probabilities of a state.
SUM_TOLERANCE = 1e-6

Table = tuple[list[str], list[Sequence[object]]]


class PolicyError(FormatError):
    """A policy does not fit the model; the message says what would."""


def check_policy_path(path: Path) -> None:
    """Raise PolicyError unless the ending of a file is that of a policy."""
    if path.suffix not in SUFFIXES:
        raise PolicyError(f"the file must end in {', '.join(SUFFIXES)}, not `{path.name}`")


def save_policy(
    policy: Policy, graph: TransitionGraph, path: str | Path, *, overwrite: bool = False
) -> None:
    """Write a policy in the format of the file's ending: `.csv`, `.json` or `.npz`.

    >>> import mdpdsl
    >>> model = mdpdsl.load("riverswim")
    >>> mdpdsl.save_policy(mdpdsl.solve(model).policy, model.graph, "best.csv")
    """
    path = Path(path)
    check_policy_path(path)
    require_absent(path, overwrite)
    if path.suffix == ".npz":
        texts = {
            "kind": KIND,
            "model": policy.model,
            "hash": policy.hash,
            "spaces": _spaces_hash(graph),
        }
        arrays = {name: np.array(text) for name, text in texts.items()}
        write_arrays(path, {**arrays, "probability": policy.probability})
        return
    names, rows = _table(policy, graph)
    if path.suffix == ".csv":
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([[field_text(value) for value in row] for row in rows])
        write_text(path, buffer.getvalue())
        return
    record = {
        "kind": KIND,
        "model": policy.model,
        "hash": policy.hash,
        "columns": names,
        "rows": rows,
    }
    write_text(path, json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n")


def load_policy(path: str | Path, graph: TransitionGraph) -> Policy:
    """Read a policy for a graph; raise FormatError if the file does not fit it.

    >>> import mdpdsl
    >>> model = mdpdsl.load("riverswim")
    >>> path = mdpdsl.solve(model, discount=0.95).save_policy("best.json")
    >>> mdpdsl.load_policy("best.json", model.graph).probability[:4]
    array([0., 1., 0., 1.])
    """
    path = Path(path)
    check_policy_path(path)
    try:
        if path.suffix == ".npz":
            return _from_arrays(path, graph)
        text = path.read_text("utf-8")
        if path.suffix == ".json":
            name, (names, rows) = _read_json(path, text)
        else:
            lines = list(csv.reader(io.StringIO(text)))
            name, names, rows = path.stem, (lines or [[]])[0], [line for line in lines[1:] if line]
    except OSError as error:
        raise PolicyError(f"cannot read {path}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise PolicyError(f"{path} is not a table: {error}") from None
    return Policy(name, graph.hash, _from_table(path, graph, names, rows))


def _from_arrays(path: Path, graph: TransitionGraph) -> Policy:
    try:
        with np.load(path, allow_pickle=False) as file:
            kind, found = str(file["kind"]), {name: file[name] for name in file.files}
        probability = np.asarray(found["probability"], dtype=np.float64)
    except (zipfile.BadZipFile, EOFError, ValueError, KeyError, TypeError) as error:
        raise PolicyError(f"{path} is not a policy written by mdpdsl") from error
    if kind != KIND:
        raise PolicyError(f"{path} contains `{kind}`, not a policy")
    model, digest = str(found.get("model", path.stem)), str(found.get("hash", ""))
    if digest != graph.hash and str(found.get("spaces", "")) != _spaces_hash(graph):
        raise PolicyError(
            f"{path} belongs to another model: {model} with hash {digest}, not {graph.hash}; its "
            "states and actions differ (were other parameters set?)"
        )
    _check_sums(path, graph, probability)
    return Policy(model, graph.hash, probability)


def _spaces_hash(graph: TransitionGraph) -> str:
    """Return a hash of the states and pairs, independent of transitions and rewards."""
    digest = hashlib.sha256()
    for variable in (*graph.states.variables, *graph.actions.product.variables):
        digest.update(repr((variable.name, variable.kind, variable.size)).encode())
        digest.update(repr((variable.low, variable.members, variable.wraps)).encode())
        for numbers in (variable.numbers, variable.edges):
            digest.update(b"-" if numbers is None else numbers.tobytes())
    for array in (graph.states.codes, graph.pair_start, graph.pair_action):
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]


def _table(policy: Policy, graph: TransitionGraph) -> Table:
    """Return the names and lines of a policy's table."""
    names = [v.name for v in (*graph.states.variables, *graph.actions.product.variables)]
    pairs = np.flatnonzero(policy.probability > 0)
    columns = [
        *native_columns(graph.states.product, graph.states.codes[graph.pair_state[pairs]]),
        *native_columns(graph.actions.product, graph.pair_action[pairs].astype(np.int64)),
        policy.probability[pairs].tolist(),
    ]
    return [*names, PROBABILITY], [list(row) for row in zip(*columns, strict=True)]


def native_columns(product: Product, codes: IntArray) -> list[list[Value]]:
    """Return the values of all variables of a product, a list for each variable."""
    columns = []
    for position, variable in enumerate(product.variables):
        natives = [variable.native(i) for i in range(variable.size)]
        columns.append([natives[i] for i in product.cells(codes, position).tolist()])
    return columns


def field_text(value: object) -> str:
    """Write a value as a field of a table; reading the field gives the value back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)


def _read_json(path: Path, text: str) -> tuple[str, Table]:
    try:
        record = json.loads(text)
        if record["kind"] != KIND:
            raise PolicyError(f"{path} contains `{record['kind']}`, not a policy")
        rows: list[Sequence[object]] = [list(row) for row in record["rows"]]
        return str(record.get("model", path.stem)), (list(map(str, record["columns"])), rows)
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise PolicyError(f"{path} is not a policy written by mdpdsl") from error


def _from_table(
    path: Path, graph: TransitionGraph, names: Sequence[str], rows: Sequence[Sequence[object]]
) -> FloatArray:
    """Return the probabilities [n_pairs] of a table."""
    names = [name.strip() for name in names]
    wanted = [v.name for v in (*graph.states.variables, *graph.actions.product.variables)]
    if STEPS_LEFT in names and STEPS_LEFT not in wanted:
        raise PolicyError(f"{path} depends on the steps left, so it is not a policy to follow")
    if sorted(names) != sorted([*wanted, PROBABILITY]):
        raise PolicyError(
            f"{path} has the columns {', '.join(names)}; this model's policies have "
            f"{', '.join([*wanted, PROBABILITY])}"
        )
    for number, row in enumerate(rows, start=2):
        if len(row) != len(names):
            raise PolicyError(f"{path}, line {number}: {len(row)} values, not {len(names)}")
    columns = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    state = graph.states.indices(_codes(path, graph.states.product, columns))
    action = _codes(path, graph.actions.product, columns)
    given = _numbers(path, PROBABILITY, columns[PROBABILITY])
    has_state = state >= 0
    if not has_state.any():
        _refuse(path, rows, ~has_state, "no such state in this model (it is unreachable)")
    keys = graph.pair_state.astype(np.int64) * graph.n_actions + graph.pair_action
    key = state * graph.n_actions + action
    pair = np.minimum(np.searchsorted(keys, key), graph.n_pairs - 1)
    is_other = has_state & (keys[pair] != key)
    _refuse(path, rows, is_other, "the action is not available in this state")
    is_twice = np.bincount(pair[has_state], minlength=graph.n_pairs)[pair] > 1
    _refuse(path, rows, has_state & is_twice, "the pair is listed twice")
    probability = np.zeros(graph.n_pairs)
    probability[pair[has_state]] = given[has_state]
    _check_sums(path, graph, probability)
    return np.asarray(probability / _sums(graph, probability)[graph.pair_state])


def _codes(path: Path, product: Product, columns: dict[str, list[object]]) -> IntArray:
    total = np.zeros(len(next(iter(columns.values()))), dtype=np.int64)
    for variable, stride in zip(product.variables, product.strides, strict=True):
        total += stride * _cells(path, variable, columns[variable.name])
    return total


def _cells(path: Path, variable: Variable, values: list[object]) -> IntArray:
    """Return the cell of every value of a column."""
    if variable.kind in ("enum", "bool"):
        members = variable.members if variable.kind == "enum" else ("false", "true")
        index = {member: i for i, member in enumerate(members)}
        found = np.array([index.get(field_text(v).strip(), -1) for v in values], dtype=np.int64)
    else:
        numbers = _numbers(path, variable.name, values)
        found = variable.indices(numbers)
        if variable.edges is not None:
            inside = (numbers >= variable.edges[0]) & (numbers <= variable.edges[-1])
            found = np.where(inside, found, -1)
    _refuse(path, values, found < 0, f"not a value of {variable.describe()}")
    return found


def _numbers(path: Path, name: str, values: list[object]) -> FloatArray:
    numbers = np.empty(len(values))
    for i, value in enumerate(values):
        try:
            numbers[i] = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            message = f"{path}, line {i + 2}: {name} must be a number, not `{value}`"
            raise PolicyError(message) from None
    return numbers


def _refuse(path: Path, rows: Sequence[object], is_bad: BoolArray, reason: str) -> None:
    if is_bad.any():
        place = int(np.argmax(is_bad))
        shown = rows[place]
        text = ", ".join(map(field_text, shown)) if isinstance(shown, list) else field_text(shown)
        raise PolicyError(f"{path}, line {place + 2}: `{text}`: {reason}")


def _check_sums(path: Path, graph: TransitionGraph, probability: FloatArray) -> None:
    if len(probability) != graph.n_pairs:
        raise PolicyError(f"{path} has {len(probability)} pairs; the model has {graph.n_pairs}")
    if not np.all(probability >= 0):
        raise PolicyError(f"{path} has a probability that is negative or not a number")
    sums = _sums(graph, probability)
    far = np.abs(sums - 1) > SUM_TOLERANCE
    if graph.ends is not None:
        far &= ~graph.ends
    if far.any():
        state = int(np.argmax(far))
        shown = ", ".join(f"{k} = {field_text(v)}" for k, v in graph.states.native(state).items())
        what = "has no line" if sums[state] == 0 else f"has probabilities that sum to {sums[state]}"
        others = int(far.sum()) - 1
        more = f" (and {others:,} other states)" if others else ""
        raise PolicyError(f"{path}: the state {shown} {what}{more}")


def _sums(graph: TransitionGraph, probability: FloatArray) -> FloatArray:
    """Return the sum over the actions of each state, [n_states]; an end has none."""
    return np.bincount(graph.pair_state, probability, graph.n_states).astype(np.float64)
