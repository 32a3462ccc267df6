"""Feed broken and extreme model files to the compiler: each gets diagnostics or a sound graph.

    python tests/fuzz.py --number 100000 --seed 0 --jobs 2

Input `i` of a seed is always the same text (as long as the shipped models are), so
`--first i --number 1` looks at one again. Failures are printed once per kind, minimised. With
`--open`, every input begins as a model that leaves something open: `?`, or unknown numbers.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import queue
import random
import re
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from mdpdsl.compile.model import Model
from mdpdsl.compile.properties import question
from mdpdsl.diagnostics import Diagnostic, ModelError, SolveError, Source
from mdpdsl.formats.dot import to_dot
from mdpdsl.graph.knowledge import Knowledge
from mdpdsl.graph.row_sets import entry_pairs, row_sums
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.report.model_summary import describe as summarise
from mdpdsl.syntax.format import format_file
from mdpdsl.syntax.parse import Parsed, parse

MODELS = Path(__file__).parents[1] / "models"

#: States that a model may have here; what is larger must be refused.
MOST_STATES = 1_000
#: What the parser reports: such a file cannot be formatted.
SYNTAX_CODES = {"E101", "E102", "E103", "E105"}
#: The rounding error of a sum of probabilities.
SUM_ERROR = 1e-9
#: An input that takes more CPU time than this is a hang; the clock would blame a busy machine.
HANG_SECONDS = 10
#: A worker that is silent for so long hangs where no signal reaches it, and is ended.
SILENT_SECONDS = 6 * HANG_SECONDS
#: Memory of a worker, so that a greedy input fails instead of the machine.
WORKER_BYTES = 6 << 30
PROGRESS_SECONDS = 60
#: How long to go on making one failing input smaller.
MINIMISE_SECONDS = 60


class HangError(Exception):
    """An input took longer than HANG_SECONDS."""


@dataclass(frozen=True)
class Failure:
    """An input that the compiler did not survive."""

    index: int
    text: str
    kind: str  # the exception and where it was raised: failures of one kind are told once
    trace: str


# What must hold of every input


def examine(text: str) -> None:
    """Raise whatever shows that the compiler is wrong about a text."""
    source = Source(text, "fuzz.mdp")
    try:
        model = Model(source, most_states=MOST_STATES)
        diagnostics = model.diagnose()
    except ModelError as error:
        diagnostics = list(error.diagnostics)
        assert any(d.is_error for d in diagnostics), "refused without an error"
    else:
        if not any(d.is_error for d in diagnostics):
            graph = model.graph
            assert graph.n_states <= MOST_STATES, f"{graph.n_states} states"
            graph.validate()
            assert graph.hash
            _examine_knowledge(model, graph)
            _examine_properties(model)
    _examine_diagnostics(diagnostics, source)
    if not any(d.code in SYNTAX_CODES for d in diagnostics):
        parsed = parse(source)
        assert not parsed.diagnostics, "a mistake of syntax was lost"
        _examine_format(parsed, source)


def _examine_knowledge(model: Model, graph: TransitionGraph) -> None:
    """Check what the model says of its rows: it fits them, and can be shown."""
    known = graph.knowledge
    assert (known is not None) == (model.checked.states_knowledge and graph.has_dynamics)
    if known is None:
        return
    assert known.has_truth == (not model.missing) or known.is_known.any()
    assert known.n_pairs == graph.n_pairs
    own = known.successor_start
    assert np.all(np.diff(own) > 0), "a pair leads nowhere"
    within = np.diff(known.entry_pair) == 0
    assert np.all(np.diff(known.successor)[within] > 0), "successors are not ascending"
    assert known.successor.min() >= 0
    assert known.successor.max() < graph.n_states
    assert np.all((known.share >= 0) & (known.share <= 1 + SUM_ERROR))
    assert np.all(np.abs(_sums(known, known.placeholder) - 1) <= SUM_ERROR), "rows do not sum to 1"
    assert not np.any(known.is_law & known.is_known)
    if known.has_truth:
        pair = entry_pairs(graph.successor_start)
        impossible = known.excludes(pair, graph.successor.astype(np.int64))
        assert not impossible.any(), "the truth is not possible"
    summary = summarise(model).knowledge
    assert summary is not None
    assert summary.known + summary.open + summary.laws == graph.n_pairs
    assert to_dot(graph)


def _sums(known: Knowledge, values: Any) -> Any:
    return row_sums(known.entry_pair, values, known.n_pairs)


def _examine_properties(model: Model) -> None:
    """Ask for every property: by its name and by its text, which must mean the same."""
    for name, text in model.properties.items():
        try:
            found = [question(model, model.graph, asked) for asked in (name, text)]
        except SolveError:  # the graph does not have the reward
            continue
        for field in fields(found[0].objective):
            by_name, by_text = (getattr(each.objective, field.name) for each in found)
            if isinstance(by_name, np.ndarray):
                assert np.array_equal(by_name, by_text), text
                assert len(by_name) in (model.graph.n_states, model.graph.n_pairs)
            else:
                assert by_name == by_text, text


def _examine_format(parsed: Parsed, source: Source) -> None:
    for kept in (None, source):
        text = format_file(parsed.file, kept)
        again = parse(Source(text, "formatted.mdp"))
        assert not again.diagnostics, f"formatted to what does not parse: {text!r}"
        assert again.file == parsed.file, f"formatted to another model: {text!r}"
    twice = format_file(again.file, Source(text, "formatted.mdp"))
    assert twice == text, f"formatting twice changes {text!r} to {twice!r}"


def _examine_diagnostics(diagnostics: Sequence[Diagnostic], source: Source) -> None:
    n_lines = source.text.count("\n") + 1
    for diagnostic in diagnostics:
        rendered = diagnostic.render()
        rendered.encode()
        assert "\x1b" not in rendered, "an escape sequence reaches the terminal"
        record = diagnostic.record()
        json.dumps(record, allow_nan=False)
        assert record["message"].strip(), "an empty message"
        assert "__ANON" not in rendered, rendered
        if record["line"] is not None:
            assert record["end_line"] is not None
            assert 1 <= record["line"] <= record["end_line"] <= n_lines, record
            assert record["column"] is not None
            assert record["column"] >= 1


def failure_of(index: int, text: str) -> Failure | None:
    """Examine a text within the time allowed; return what went wrong, if anything did."""
    before = signal.signal(signal.SIGPROF, _ring)
    signal.setitimer(signal.ITIMER_PROF, HANG_SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            examine(text)
    except Exception as error:
        return Failure(index, text, _kind(error), traceback.format_exc(limit=-8))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return None


def _ring(number: int, frame: FrameType | None) -> None:
    raise HangError(f"more than {HANG_SECONDS} s of CPU time")


def _kind(error: BaseException) -> str:
    """Name an exception by its type and the innermost line of the product that it went through."""
    if isinstance(error, HangError):
        return "HangError"
    frames = list(traceback.extract_tb(error.__traceback__))
    place = ([f for f in frames if "/mdpdsl/" in f.filename] or frames)[-1]
    words = re.sub(r"[\d.]+.*|'.*|`.*", "…", str(error))[:50]
    return f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno} {words}"


# Inputs

_TOKEN = re.compile(r"#[^\n]*|\"[^\"\n]*\"|\w+(?:\.\d\w*)?'?|\s+|->|\.\.|[<>=!]=|.", re.DOTALL)
_NUMBER = re.compile(r"\d[\d_]*(\.\d+)?([eE]\d+)?")
_WORD = re.compile(r"[^\W\d]\w*'?")

_NUMBERS = [
    "0", "1", "2", "3", "-1", "0.0", "0.5", "1.0", "1e308", "-1e308", "1e-308", "5e-324", "1e400",
    "1000000000000", "10^12", "9007199254740993", "2^53+1", "9223372036854775807", "2^63", "2^64",
    "1_000_000", "0.1", "1/3", "1e-9", "1 - 1e-9", "0.30000000000000004", "inf", "-inf", "nan",
    "NaN", "inf - inf", "0/0", "1/0", "pi", "e", "1e", "1.", ".5", "1..2", "0x10", "1_", "00",
    "1e5", "100000", "1e16", "-0.0", "2e9", "4294967296", "9" * 400, "0." + "0" * 400 + "1", "true",
]  # fmt: skip
_WORDS = [
    "mdp", "param", "state", "states", "action", "noise", "let", "init", "on", "reward", "label",
    "property", "restart", "end", "discretize", "explore", "log", "table", "in", "any", "all",
    "when", "otherwise", "stay", "bool", "wrap", "clip", "bins", "edges", "center", "uniform",
    "points", "sample", "seed", "if", "then", "else", "and", "or", "not", "true", "false", "normal",
    "abs", "sign", "min", "max", "floor", "ceil", "round", "sqrt", "exp", "sin", "cos", "tan",
    "asin",
    "acos", "atan", "atan2", "tanh", "mod", "pi", "e", "inf", "nan", "x", "x'", "y", "y'", "a", "b",
    "None", "episode", "time", "kappa", "steps", "gamma", "delta", "_", "__class__", "é", "变量",
    "k" * 300, "P", "Pmax", "Pmin", "R", "Rmax", "Rmin", "F", "G", "X", "U", "W", "C", "S", "LRA",
    "Cdiscount", "pow", "default", '"goal"', '"init"', "property p = Pmax=? [ F", "unknown", "slip",
    "unknown slip in [0, 1]",
]  # fmt: skip
_SIGNS = [
    "+", "-", "*", "/", "%", "^", "==", "!=", "<=", ">=", "<", ">", "=", "~", ",", ":", "|", "->",
    "..", "{", "}", "[", "]", "(", ")", "'", '"', "#", ".", ";", "&", "&&", "||", "!", "**", "//",
    "=?", "=>", "<=>", "?", "F<=", "] [", "?=", "?:", "?=0.5:", "| ?:",
]  # fmt: skip
_CHARACTERS = [
    "\x00", "\x07", "\x1b[31m", "\x7f", "\x85", "\xa0", "\u200b", "\u202e", "\u2028", "\ufeff",
    "\x0b", "\x0c", "\r", "\r\n", "\t", "\\", "π", "≤", "−", "→", "é", "e\u0301", "½", "²", "١",
    "𝟙", "𝒙", "🙂", "\U0010ffff", "\ue000", "'", '"', "`", "$", "@", "ǆ", "ß", "İ", "ª", "ℵ",
    "五", "Ⅷ",
]  # fmt: skip
_STATEMENTS = [
    "state extra in 0..3", "state extra in bool", "state extra in {p, q}",
    "state extra in {-1, 0, 2}",
    "state extra in [0, 1] bins 3", "state extra in [0, 1] wrap bins 4",
    "state extra in [-1, 1] clip edges [-1, 0, 0.5, 1]", "states all", "init any",
    "init any when extra > 0", "init extra = 0", "init extra ~ {0: 0.5, 1: 0.5}",
    "init extra ~ uniform(0, 1)", "init extra ~ normal(0, 1)", "noise w ~ normal(0, 1)",
    "noise w ~ uniform(-1, 1)", "noise w ~ {0: 0.5, 1: 0.5}", "extra' = extra",
    "extra' = extra + w", "extra' = extra * w", "extra' = w", "extra' = sin(w) + extra",
    "extra' = if w > 0 then 1 else 0",
    "extra' = 1 - extra", "extra' = not extra", "extra' = floor(extra + w)", "extra' = extra / w",
    "restart when extra == 0", "restart when true", "restart when false",
    "end when extra == 0", "end when extra > 0", "end when true", "end when false",
    "end when w > 0", "let end = extra", "state end in 0..3",
    "label goal when extra > 0",
    'property ask = Pmax=? [ F "goal" ]', 'property ask = Pmin>=0.5 [ !"goal" U<=3 extra > 0 ]',
    "property ask = P<0.1 [ G[0, 3] 1/extra > 1 => extra = 2 ]", "property ask = Rmax=? [ S ]",
    'property ask = R{"energy"}min=? [ F extra = 1 ? true : "end" ]', "property property = P<1 [ X",
    "property ask = Rmin=? [ C<=(3 + 4) ]", "property ask = R>3 [ Cdiscount=1/2 ]",
    'property ask = Pmax=? [ "init" W<5 "deadlock" <=> !"goal" ]', "property ask = P=? [ F extra ]",
    "property ask = Pmax=? [ extra < 2 R round(extra/2) = 1 ]", "let property = extra",
    "reward energy : extra", "reward energy on any when extra > 0 : 1/extra", "reward default : 2",
    "reward end when extra > 0 : extra'", "reward property on any : 1",
    "reward : extra", "reward : extra'", "reward on any when extra > 0 : 1/extra", "reward : 1e308",
    "on any -> stay", "on any -> extra' = 0", "on any otherwise -> stay",
    "on any when extra > 0 -> 0.5: stay | 0.5: extra' = 0", "action push in {-1, 0, 1}",
    "action push in 0..2", "action push in bool", "action go, wait", "on go -> stay",
    "on wait when extra == 1 -> extra' = 0", "discretize center", "discretize uniform",
    "discretize uniform points 2", "discretize sample 10 seed 1", "let half = extra / 2",
    "let half = half", "param extra_param = 3", "param extra_param = 1/0",
    "explore { kappa = 10 steps = 5 gamma = 0.5 delta = 0.1 }", "log { time = t  extra = obs_1 }",
    "table go { p q p 0.5 0.5 q 0 1 }", 'mdp again "twice"',
    "unknown slip in [0, 0.5]", "unknown slip in [0, 1] = 0.25", "unknown slip in [-1, 1] = 1/0",
    "unknown slip in [1, 0]", "unknown slip in [0, 1e308]", "unknown drift in [0.1, 2] = 1",
    "noise w ~ normal(slip, drift)", "noise w ~ uniform(-drift, slip)", "noise w ~ {0: slip, 1: 1}",
    "on any -> slip: stay | 1 - slip: extra' = 0", "on go -> ?: stay | ?: extra' = 0",
    "on go when extra > 0 -> ?=0.5: stay | ?=0.5: extra' = 0", "on wait -> ?: stay",
    "on go -> 0.5: stay | ?: extra' = 0 | ?: extra' = 1", "on any -> slip/0: stay | ?: extra' = 1",
    "on go -> slip: stay | ?: extra' = 0 | ?=extra: extra' = 1", "extra' = extra + slip*w",
    "extra' = extra + slip", "table go { p q p ? ? q ?=0.5 ?=(1 - 0.5) }", "let half = slip / 2",
    "table go { p q p (1 - slip) slip q 0.5 ? }", "let unknown = extra", "state unknown in 0..3",
    "on go -> sqrt(slip - 1): stay | 1 - sqrt(slip - 1): extra' = 0", "reward : slip",
    "on go -> max(0, 2*slip - 1): stay | 1 - max(0, 2*slip - 1): extra' = 0",
    "restart when slip > 0", "end when extra > slip",
]  # fmt: skip
_FUNCTIONS = [
    "abs", "sign", "min", "max", "floor", "ceil", "round", "sqrt", "exp", "log", "sin", "cos",
    "tan", "asin", "acos", "atan", "atan2", "tanh", "clip", "wrap", "mod",
]  # fmt: skip

Mutation = Callable[[random.Random, list[str]], None]
Make = Callable[[int, int], str]


@cache
def _sources() -> tuple[str, ...]:
    return tuple(path.read_text("utf-8") for path in sorted(MODELS.glob("*.mdp")))


def make_input(seed: int, index: int) -> str:
    """Return the text with this number: a shipped model after some accidents, or token soup."""
    rng = random.Random(f"{seed}/{index}")
    if rng.random() < 0.06:
        return _soup(rng)
    text = rng.choice(_sources())
    if rng.random() < 0.15:
        text = _splice(rng, text, rng.choice(_sources()))
    if rng.random() < 0.5:  # comments hide what happens to the rest
        text = re.sub(r"#[^\n]*", "", text)
    tokens = _TOKEN.findall(text)
    for _ in range(1 + int(rng.expovariate(0.7))):
        rng.choices(_MUTATIONS, _WEIGHTS)[0](rng, tokens)
    text = "".join(tokens)
    if rng.random() < 0.03:
        text = text[: rng.randrange(len(text) + 1)]
    if rng.random() < 0.02:
        text = text.replace("\n", rng.choice(["\r\n", "\r", " ", "\n\n", "\u2028"]))
    return text


#: Models that leave something open, in every way the language has.
_OPEN = [
    """mdp ways
unknown slip in [0, 0.5] = 0.2
unknown wind in [0, 1]
state x in 0..4
state wet in bool
action left, right, wait
init x = 0, wet = false
let grip = 1 - slip
on right when x < 4 -> grip: x' = x + 1 | slip/2: stay | slip/2: wet' = true
on right otherwise -> ?: stay | ?: x' = 0
on left -> 0.5: x' = max(x - 1, 0) | ?=0.25: stay | ?=(0.5 - 0.25): x' = 0, wet' = not wet
on wait -> wind: x' = 0 | 1 - wind: stay
reward when x' == 4 : 1
label goal when x == 4
property soon = Pmax=? [ F<=9 "goal" ]
""",
    """mdp motion
unknown drag in [0, 1] = 0.3
unknown sd in [0.1, 0.5] = 0.2
unknown bias in [-0.5, 0.5]
state v in [-1, 1] bins 4
state p in [0, 4] wrap bins 4
action push in {-1, 0, 1}
noise w ~ normal(bias, sd)
noise u ~ uniform(-sd, sd + 0.1)
noise d ~ {0: 0.5, 1: 0.5}
init v = 0, p = 0
v' = v - drag*v + 0.3*push + w
p' = p + v' + u + d
restart when p > 3.5
discretize uniform points 2
""",
    """mdp cells
unknown q in [0.2, 0.8] = 0.5
state sky in {sun, rain, fog}
action walk, drive
table walk {
        sun  rain     fog
  sun   ?    ?        0.2
  rain  ?=q  ?=(1/2)  0
  fog   q    0        (1 - q)
}
on drive when sky == fog -> sky' = sun
on drive otherwise -> ?=0.3: sky' = fog | ?=0.7: stay
end when sky == fog and false
""",
    """mdp ending
unknown luck in [0, 1] = 1/3
state x in 0..6
action bet in 1..2
init any when 0 < x < 6
on any -> luck: x' = min(x + bet, 6) | 1 - luck: x' = max(x - bet, 0)
end when x == 6
restart when x == 0
reward wins when x' == 6 : 1
""",
]


@cache
def _open_sources() -> tuple[str, ...]:
    shipped = [text for text in _sources() if re.search(r"^unknown |\?=", text, re.MULTILINE)]
    return (*_OPEN, *_OPEN, *shipped)


def make_open_input(seed: int, index: int) -> str:
    """Return a model that leaves something open, after some accidents."""
    rng = random.Random(f"open {seed}/{index}")
    is_open = rng.random() < 0.6
    text = rng.choice(_open_sources() if is_open else _sources())
    if rng.random() < 0.1:
        text = _splice(rng, text, rng.choice(_open_sources()))
    tokens = _TOKEN.findall(re.sub(r"#[^\n]*", "", text))
    for _ in range(int(rng.expovariate(1.0)) + (0 if is_open else 1)):
        rng.choice([_leave_open, _leave_open, _make_unknown, _read_unknown])(rng, tokens)
    for _ in range(int(rng.expovariate(1.2))):
        rng.choices(_MUTATIONS, _WEIGHTS)[0](rng, tokens)
    return "".join(tokens)


def _leave_open(rng: random.Random, tokens: list[str]) -> None:
    """Put a `?` before a branch, with or without a truth."""
    colons = [i for i in _places(tokens) if tokens[i] == ":"]
    if not colons:
        return
    end = start = rng.choice(colons)
    while start > 0 and tokens[start - 1] not in ("->", "|") and "\n" not in tokens[start - 1]:
        start -= 1
    was = "".join(tokens[start:end]).strip()
    tokens[start:end] = [
        " ",
        rng.choice(["?", "?", f"?={was}", f"?={rng.choice(_NUMBERS)}", "?=x"]),
    ]


def _make_unknown(rng: random.Random, tokens: list[str]) -> None:
    """Declare a parameter as an unknown number, with or without a truth."""
    places = [i for i in _places(tokens) if tokens[i] == "param" and "=" in tokens[i + 2 : i + 6]]
    if not places:
        return
    place = rng.choice(places)
    equals = tokens.index("=", place)
    tokens[place] = "unknown"
    span = rng.choice(["[0, 1]", "[0, 0.5]", "[-1, 1]", "[0.1, 20]", "[0, 1e9]"])
    tokens[equals : equals + 1] = [f"in {span}" + rng.choice([" =", "#"])]


def _read_unknown(rng: random.Random, tokens: list[str]) -> None:
    """Read an unknown number somewhere."""
    names = [tokens[i + 2] for i in _places(tokens)[:-2] if tokens[i] == "unknown"]
    place = _place(rng, tokens, rng.choice([_NUMBER, _WORD]))
    if names and place is not None:
        name = rng.choice(names)
        read = [name, f"(1 - {name})", f"{name}/2", f"({name} + {tokens[place]})", f"exp({name})"]
        tokens[place] = rng.choice(read)


_QUERIES = [
    'Pmax=? [ F "goal" ]', 'Pmin>=0.5 [ !"goal" U<=n far & x != 2 ]', "P<0.1 [ G[0, 5] b => far ]",
    'R{"energy"}min=? [ F x = 1 | c = red ]', "Rmax=? [ S ]", "Rmin<3 [ C<=(2*n) ]",
    "R>=1/2 [ Cdiscount=0.9 ]", "Pmax=? [ X x + 1 >= 2*x - 1 ]", "P>0 [ b W<4 far <=> !b ]",
    "Pmax=? [ b ? far : x = 1 R min(x, pow(x, 2)) = floor(x/2) ]", 'P<=(1 - 0.5) [ F "init" ]',
]  # fmt: skip
_QUERY_TOKEN = re.compile(r"\"[^\"\n]*\"|\w+(?:\.\d+)?|\s+|<=>|=>|=\?|[<>!]=|.", re.DOTALL)


def make_query(seed: int, index: int) -> str:
    """Return the property with this number: one of ours after some accidents."""
    rng = random.Random(f"query {seed}/{index}")
    tokens = _QUERY_TOKEN.findall(rng.choice(_QUERIES))
    other = _QUERY_TOKEN.findall(rng.choice(_QUERIES))
    for _ in range(int(rng.expovariate(0.9))):
        place = rng.randrange(len(tokens) + 1)
        match rng.randrange(5):
            case 0:
                del tokens[place : place + rng.choice([1, 1, 2, 4])]
            case 1:
                tokens[place:place] = [rng.choice(_WORDS + _SIGNS + _NUMBERS)]
            case 2:
                tokens[place : place + 1] = [rng.choice(other)]
            case 3:
                tokens[place:place] = other[rng.randrange(len(other)) :]
            case 4:
                tokens[place:place] = [rng.choice([*_CHARACTERS, "(" * 150, "!" * 200])]
    return "".join(tokens)


def _soup(rng: random.Random) -> str:
    pools: list[list[str]] = [_WORDS, _SIGNS, _NUMBERS, _CHARACTERS, _STATEMENTS]
    weights = rng.choice([[4, 4, 2, 1, 0], [4, 4, 2, 0, 0], [1, 1, 1, 0, 12], [0, 0, 0, 0, 1]])
    picked = [
        rng.choice(pool) for pool in rng.choices(pools, weights, k=int(rng.expovariate(1 / 25)))
    ]
    start = rng.choice(["", "mdp soup\n", "mdp soup\nstate extra in 0..3\naction go, wait\n"])
    return start + rng.choice([" ", "\n", ""]).join(picked)


def _splice(rng: random.Random, text: str, other: str) -> str:
    lines, others = text.splitlines(True), other.splitlines(True)
    here, there = rng.randrange(len(lines) + 1), rng.randrange(len(others) + 1)
    if rng.random() < 0.5:
        return "".join(lines[:here] + others[there:])
    return "".join(lines[:here] + others[there : there + rng.randrange(1, 8)] + lines[here:])


def _places(tokens: Sequence[str], pattern: re.Pattern[str] | None = None) -> list[int]:
    """Return where tokens stand that are neither blank nor comments, of one form if it is given."""
    return [
        i
        for i, token in enumerate(tokens)
        if token.strip() and token[0] != "#" and (pattern is None or pattern.fullmatch(token))
    ]


def _place(
    rng: random.Random, tokens: Sequence[str], pattern: re.Pattern[str] | None = None
) -> int | None:
    found = _places(tokens, pattern)
    return rng.choice(found) if found else None


def _delete(rng: random.Random, tokens: list[str]) -> None:
    place = _place(rng, tokens)
    if place is not None:
        del tokens[place : place + rng.choice([1, 1, 1, 2, 5])]


def _duplicate(rng: random.Random, tokens: list[str]) -> None:
    place = _place(rng, tokens)
    if place is not None:
        tokens[place:place] = tokens[place : place + rng.choice([1, 2, 4])]


def _swap(rng: random.Random, tokens: list[str]) -> None:
    first, second = _place(rng, tokens), _place(rng, tokens)
    if first is not None and second is not None:
        tokens[first], tokens[second] = tokens[second], tokens[first]


def _change_number(rng: random.Random, tokens: list[str]) -> None:
    place = _place(rng, tokens, _NUMBER)
    if place is not None:
        tokens[place] = rng.choice(_NUMBERS)


def _change_name(rng: random.Random, tokens: list[str]) -> None:
    place = _place(rng, tokens, _WORD)
    other = _place(rng, tokens, _WORD)
    if place is not None and other is not None:
        tokens[place] = tokens[other] if rng.random() < 0.7 else rng.choice(_WORDS)


def _rename(rng: random.Random, tokens: list[str]) -> None:
    """Give a name another one everywhere: often a model as good as before."""
    place = _place(rng, tokens, _WORD)
    if place is not None:
        old, new = tokens[place].rstrip("'"), rng.choice(_WORDS).rstrip("'")
        tokens[:] = [new + t[len(old) :] if t.rstrip("'") == old else t for t in tokens]


def _change_sign(rng: random.Random, tokens: list[str]) -> None:
    signs = [i for i in _places(tokens) if tokens[i] in _SIGNS]
    if signs:
        tokens[rng.choice(signs)] = rng.choice(_SIGNS)


def _change_to_expression(rng: random.Random, tokens: list[str]) -> None:
    place = _place(rng, tokens, rng.choice([_NUMBER, _WORD]))
    if place is not None:
        names = [tokens[i] for i in _places(tokens, _WORD)] or ["x"]
        tokens[place] = f"({_expression(rng, names, rng.randrange(1, 4))})"


def _expression(rng: random.Random, names: Sequence[str], depth: int) -> str:
    if depth == 0:
        return rng.choice(names) if rng.random() < 0.5 else rng.choice(_NUMBERS[:12])

    def part() -> str:
        return _expression(rng, names, depth - 1)

    match rng.randrange(7):
        case 0 | 1 | 2:
            return f"({part()} {rng.choice('+-*/%^')} {part()})"
        case 3:
            function = rng.choice(_FUNCTIONS)
            count = {"clip": 3, "wrap": 3, "min": 2, "max": 2, "atan2": 2, "mod": 2}
            return f"{function}({', '.join(part() for _ in range(count.get(function, 1)))})"
        case 4:
            condition = f"{part()} {rng.choice(['<', '==', '>='])} {part()}"
            return f"(if {condition} then {part()} else {part()})"
        case 5:
            return f"(-{part()})"
        case _:
            return f"({part()} {rng.choice(['and', 'or', '<', '!=', '=='])} {part()})"


def _insert(rng: random.Random, tokens: list[str]) -> None:
    pool = rng.choice([_WORDS, _SIGNS, _CHARACTERS, _NUMBERS])
    tokens.insert(rng.randrange(len(tokens) + 1), f" {rng.choice(pool)} ")


def _insert_characters(rng: random.Random, tokens: list[str]) -> None:
    random_character = chr(rng.choice([rng.randrange(0xD800), rng.randrange(0xE000, 0x110000)]))
    characters = [rng.choice(_CHARACTERS), random_character, chr(rng.randrange(128))]
    tokens.insert(rng.randrange(len(tokens) + 1), rng.choice(characters))


def _insert_statement(rng: random.Random, tokens: list[str]) -> None:
    lines = [i for i, token in enumerate(tokens) if "\n" in token]
    place = rng.choice(lines) + 1 if lines else 0
    for statement in rng.choices(_STATEMENTS, k=rng.choice([1, 1, 2, 4])):
        tokens.insert(place, statement + "\n")


def _lines(rng: random.Random, tokens: list[str]) -> None:
    """Delete, duplicate, swap or join whole lines."""
    lines = "".join(tokens).splitlines(True)
    if not lines:
        return
    here, there = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(4):
        case 0:
            del lines[here]
        case 1:
            lines.insert(there, lines[here])
        case 2:
            lines[here], lines[there] = lines[there], lines[here]
        case _:
            lines[here] = lines[here].rstrip("\n") + " "
    tokens[:] = _TOKEN.findall("".join(lines))


def _nest(rng: random.Random, tokens: list[str]) -> None:
    """Put a number or name deep inside something."""
    place = _place(rng, tokens, rng.choice([_NUMBER, _WORD]))
    if place is None:
        return
    depth = rng.choice([1, 2, 10, 59, 118, 119, 120, 121, 200, 1_000, 5_000])
    before, behind = rng.choice(
        [
            ("(", ")"), ("-", ""), ("+", ""), ("not ", ""), ("not (", ")"), ("-(", ")"), ("2^", ""),
            ("if true then 1 else ", ""), ("if ", " then true else false"), ("min(0, ", ")"),
            ("abs(", ")"), ("1 + ", ""), ("", " + 1"), ("", " < 1"), ("true and ", ""), ("{", "}"),
            ("[", "]"), ("1 - (", ")"), ("", "^2"), ("(", ""), ("", ")"),
        ]
    )  # fmt: skip
    tokens[place] = before * depth + tokens[place] + behind * depth


def _lengthen(rng: random.Random, tokens: list[str]) -> None:
    """Make one token or line very long."""
    place = _place(rng, tokens)
    if place is not None:
        unit = rng.choice([tokens[place], tokens[place] + ", ", " ", "x", "9", "#", "'", '"', "0 "])
        tokens[place] += unit * rng.choice([300, 300, 3_000, 3_000, 30_000])


_WEIGHTED: list[tuple[Mutation, int]] = [
    (_delete, 3),
    (_duplicate, 2),
    (_swap, 2),
    (_change_number, 6),
    (_change_name, 4),
    (_rename, 1),
    (_change_sign, 3),
    (_change_to_expression, 6),
    (_insert, 2),
    (_insert_characters, 2),
    (_insert_statement, 5),
    (_lines, 3),
    (_nest, 1),
    (_lengthen, 1),
]
_MUTATIONS = [mutation for mutation, _ in _WEIGHTED]
_WEIGHTS = [weight for _, weight in _WEIGHTED]


# Making a failing input small


def minimise(failure: Failure) -> Failure:
    """Remove lines, then tokens, as long as it fails in the same way."""
    best = failure
    deadline = time.monotonic() + MINIMISE_SECONDS
    for pattern in (re.compile(r"[^\n]*\n|[^\n]+"), re.compile(rf"(?:{_TOKEN.pattern})\s*", re.S)):
        pieces = pattern.findall(best.text)
        size = max(1, len(pieces) // 2)
        while size and len(best.text) < 10**6:
            place = 0
            while place < len(pieces) and time.monotonic() < deadline:
                fewer = pieces[:place] + pieces[place + size :]
                found = failure_of(best.index, "".join(fewer))
                if found is not None and found.kind == failure.kind:
                    best, pieces = found, fewer
                else:
                    place += size
            size //= 2
    return best


# Running many


def fuzz(indices: Iterable[int], seed: int, make: Make = make_input) -> Iterator[Failure]:
    """Examine the inputs of a seed one after the other, and yield those that fail."""
    for index in indices:
        failure = failure_of(index, make(seed, index))
        if failure is not None:
            yield failure


def describe(failure: Failure, seed: int) -> str:
    """Return a failure as Markdown for a person."""
    text = failure.text if len(failure.text) < 4_000 else failure.text[:4_000] + "…"
    return (
        f"## {failure.kind}\nseed {seed}, input {failure.index}\n```\n{text}\n```\n"
        f"{text!r}\n```\n{failure.trace.rstrip()}\n```\n"
    )


def main() -> int:
    """Run from the command line; exit with 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--number", type=int, default=1_000, help="how many inputs")
    parser.add_argument("--first", type=int, default=0, help="the first input's number")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="worker processes")
    parser.add_argument("--open", action="store_true", help="models that leave something open")
    parser.add_argument("--print", action="store_true", help="print the inputs, examine nothing")
    options = parser.parse_args()
    make = make_open_input if options.open else make_input
    if options.print:
        for index in range(options.first, options.first + options.number):
            print(make(options.seed, index))
        return 0
    begin = time.monotonic()
    counts: dict[str, int] = {}
    for failure in _in_processes(options.first, options.number, options.seed, options.jobs, make):
        counts[failure.kind] = counts.get(failure.kind, 0) + 1
        if counts[failure.kind] == 1:
            print(describe(failure, options.seed), flush=True)
        else:
            print(f"again, input {failure.index}: {failure.kind}\n", flush=True)
    seconds = time.monotonic() - begin
    print(f"{options.number:,} inputs, {sum(counts.values())} failures, {seconds:.0f} s")
    for kind, count in sorted(counts.items(), key=lambda item: -item[1]):
        print(f"- {count} x {kind}")
    return 1 if counts else 0


def _in_processes(first: int, number: int, seed: int, jobs: int, make: Make) -> Iterator[Failure]:
    """Share the inputs between workers, each of which may die or hang without harm."""
    context = multiprocessing.get_context("spawn")
    results: Any = context.Queue()
    workers = [
        _Worker(context, range(first + job, first + number, jobs), seed, results, make)
        for job in range(jobs)
    ]
    told = time.monotonic()
    while any(worker.is_busy() for worker in workers) or not results.empty():
        if time.monotonic() - told > PROGRESS_SECONDS:
            told = time.monotonic()
            print(f"at input {min(w.current.value for w in workers):,}", file=sys.stderr)
        try:
            yield results.get(timeout=0.5)
        except queue.Empty:
            for worker in workers:
                index = worker.end_if_lost()
                if index is not None:
                    kind = "the process died or could not be interrupted"
                    yield Failure(index, make(seed, index), kind, "")


class _Worker:
    def __init__(self, context: Any, indices: range, seed: int, results: Any, make: Make) -> None:
        self.context, self.seed, self.results, self.make = context, seed, results, make
        self._start(indices)

    def _start(self, indices: range) -> None:
        self.indices = indices
        self.current = self.context.Value("q", -1)
        self.minimises = self.context.Value("b", 0)
        self.seen, self.since = -1, time.monotonic()
        arguments = (indices, self.seed, self.current, self.minimises, self.results, self.make)
        self.process = self.context.Process(target=_work, args=arguments, daemon=True)
        self.process.start()

    def is_busy(self) -> bool:
        return bool(self.process.is_alive() or self.process.exitcode != 0)

    def end_if_lost(self) -> int | None:
        """Return the input that killed or stopped the worker, and go on behind it."""
        now = self.current.value
        if now != self.seen:
            self.seen, self.since = now, time.monotonic()
        patience = SILENT_SECONDS + (MINIMISE_SECONDS if self.minimises.value else 0)
        is_silent = time.monotonic() - self.since > patience
        if self.process.is_alive() and not is_silent:
            return None
        if not self.process.is_alive() and self.process.exitcode == 0:
            return None
        self.process.kill()
        self.process.join()
        lost = int(now)
        step = self.indices.step
        self._start(
            range(lost + step if lost >= 0 else self.indices.start, self.indices.stop, step)
        )
        return lost


def _work(
    indices: range, seed: int, current: Any, minimises: Any, results: Any, make: Make
) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (WORKER_BYTES, WORKER_BYTES))
    told: set[str] = set()
    for index in indices:
        current.value = index
        for failure in fuzz([index], seed, make):
            minimises.value = 1
            results.put(failure if failure.kind in told else minimise(failure))
            minimises.value = 0
            told.add(failure.kind)


if __name__ == "__main__":
    sys.exit(main())
