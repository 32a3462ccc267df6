"""Write docs/api.md from the docstrings of the public names: `python docs/site/api.py`."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields, is_dataclass
from pathlib import Path

import mdpdsl

PAGE = Path(__file__).parents[1] / "api.md"
OPENING = """\
# The API

`import mdpdsl` has these names, and no others are public. [From Python](python.md) shows them at
work. The page is generated from the docstrings by `docs/site/api.py`. Arrays state their shape:
`[n_pairs]` is one number for each pair of a state and an action that is available there.
"""

#: The public names in groups: a title, an introduction, and the names.
GROUPS = (
    (
        "Verbs",
        """\
A function for every command, with the same names, defaults and results. Results stay in memory
unless a path is given; only `report`, `plot` and `export` choose a file name themselves.
`progress=True` shows a bar; a function is called with the steps done, their total (None if it is
unknown) and a note.""",
        """
        load loads from_arrays import_model export check format_text describe draw solve solve_file
        simulate new allocate explore compare estimate plan open_run open_runs report plot
        figures""",
    ),
    (
        "Results",
        """\
What the verbs return. All are frozen; `record()` returns what the command prints with `--json`.
Those with a `table()` can be given to anything that reads Arrow: pandas, polars, DuckDB.""",
        """
        ExploreRun Comparison Estimate Solution RobustSolution Allocation Log ExperimentPlan
        ExperimentDesign LearnedNumbers
        RunResult Runs Report Draft Export Import Check ModelSummary""",
    ),
    (
        "Models, explorers and formats",
        "What the verbs take, and other forms of models and policies.",
        """
        Model TransitionGraph Policy Explorer ExploreSettings shipped_models save_policy
        load_policy gym_env quantecon_arrays""",
    ),
    (
        "Errors and warnings",
        """\
Catch `mdpdsl.Error` for everything that a user can cause or fix. The command line exits with the
`status` of an error: 2 if the input is wrong, 1 if the work itself failed.""",
        """
        Error ModelError Diagnostic SettingsError LogError RunError SolveError FormatError
        MdpdslWarning""",
    ),
)
#: Classes that users make themselves; of the others the fields are listed.
MADE = ("Explorer", "ExploreSettings")
WIDTH = 100


def page() -> str:
    """Return the page: the public names, in groups."""
    parts = [OPENING]
    for title, text, names in GROUPS:
        parts.append(f"## {title}\n\n{text}\n")
        parts += [_section(name, getattr(mdpdsl, name)) for name in names.split()]
    return "\n".join(parts)


def _section(name: str, value: object) -> str:
    title, text = f"### {name}\n", f"{_fenced(inspect.getdoc(value) or '').rstrip()}\n"
    if not inspect.isclass(value):
        return "\n".join([title, _code(_signature(name, value)), text])
    if issubclass(value, BaseException):
        bases = ", ".join(base.__name__ for base in value.__bases__)
        return "\n".join([title, _code(f"class {name}({bases})"), text, *_members(value)])
    is_settings = name in MADE and is_dataclass(value)  # the docstring has every field
    code = [_code(f"class {_signature(name, value)}")] if name in MADE else []
    return "\n".join([title, *code, text, *([] if is_settings else _members(value))])


def _members(kind: type) -> list[str]:
    """Return a line for every field, method and property, those it inherits included."""
    found = _fields(kind) if is_dataclass(kind) else []
    named = {line.split("`")[1] for line in found}
    ours = [vars(each) for each in kind.__mro__ if each.__module__.startswith("mdpdsl")]
    for name in dir(kind):
        member = inspect.getattr_static(kind, name)
        is_ours = any(name in members for members in ours)
        if name.startswith("_") or name in named or not is_ours or not inspect.getdoc(member):
            continue
        called = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if inspect.isfunction(called):
            shown = _signature(name, called, is_method=True, width=None)
        elif isinstance(member, property) or hasattr(member, "attrname"):
            shown = name
        else:
            continue
        first = (inspect.getdoc(member) or "").partition("\n")[0]
        found.append(f"- `{shown}`: {first}")
    return [*found, ""] if found else []


def _fields(kind: type) -> list[str]:
    """Return a line for every public field: its type, and the comment beside it."""
    sources = "".join(inspect.getsource(each) for each in kind.__mro__ if is_dataclass(each))
    found = []
    for field in fields(kind):
        if field.name.startswith("_"):
            continue
        comment = re.search(rf"^ +{field.name}: [^#\n]*#\s+(.*)$", sources, re.MULTILINE)
        said = f", {re.sub('  +', ': ', comment[1])}" if comment else ""
        found.append(f"- `{field.name}`: `{field.type}`{said}")
    return found


def _signature(
    name: str, value: object, *, is_method: bool = False, width: int | None = WIDTH
) -> str:
    signature = inspect.signature(value)  # type: ignore[arg-type]
    parameters = list(signature.parameters.values())
    if is_method and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    texts: list[str] = []
    stars = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_POSITIONAL)
    for place, each in enumerate(parameters):
        before = parameters[place - 1].kind if place else None
        if before is each.POSITIONAL_ONLY and each.kind is not each.POSITIONAL_ONLY:
            texts.append("/")
        if each.kind is each.KEYWORD_ONLY and before not in stars:
            texts.append("*")
        texts.append(re.sub(r": '([^']*)'", r": \1", str(each)))
    if parameters and parameters[-1].kind is inspect.Parameter.POSITIONAL_ONLY:
        texts.append("/")
    returned = signature.return_annotation
    is_shown = returned is not signature.empty and returned not in ("None", None)
    end = f") -> {returned}" if is_shown else ")"
    line = f"{name}({', '.join(texts)}{end}"
    if width is None or len(line) <= width:
        return line
    return "\n".join([f"{name}(", *(f"    {text}," for text in texts), end])


def _fenced(text: str) -> str:
    """Put the examples of a docstring between fences."""
    return re.sub(r"^>>> (?:.+\n?)+", lambda found: _code(found[0].rstrip()), text, flags=re.M)


def _code(text: str) -> str:
    return f"```text\n{text}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
