"""Write docs/api.md from the docstrings of the public names: `python docs/site/api.py`."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import mdpdsl

PAGE = Path(__file__).parents[1] / "api.md"
OPENING = """\
# The API

Generated from the docstrings by `docs/site/api.py`. `import mdpdsl` has these names; what is not
here may change. [From Python](python.md) shows them at work. Arrays state their shape: `[n_pairs]`
is one number for each state with an action available there.
"""


def page() -> str:
    """Return the page: the public names in the order of the alphabet, capitals first."""
    names = [name for name in sorted(mdpdsl.__all__) if name != "__version__"]
    return "\n".join([OPENING, *(_section(name, getattr(mdpdsl, name)) for name in names)])


def _section(name: str, value: object) -> str:
    if inspect.isclass(value):
        parts = [f"## {name}\n", _code(f"class {_signature(name, value)}"), _told(value)]
        parts += _members(value)
        return "\n".join(parts)
    return "\n".join([f"## {name}\n", _code(_signature(name, value)), _told(value)])


def _members(kind: type) -> list[str]:
    """Return a line for every public method and property, those it inherits included."""
    found = []
    for name in dir(kind):
        member = inspect.getattr_static(kind, name)
        if name.startswith("_") or not inspect.getdoc(member):
            continue
        called = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if inspect.isfunction(called):
            told = f"`{_signature(name, called, is_method=True)}`"
        elif isinstance(member, property) or hasattr(member, "attrname"):
            told = f"`{name}`"
        else:
            continue
        found.append(f"- {told}: {_first_line(member)}")
    return [*found, ""] if found else []


def _signature(name: str, value: object, *, is_method: bool = False) -> str:
    signature = inspect.signature(value)  # type: ignore[arg-type]
    parameters = list(signature.parameters.values())
    if is_method and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    without_self = signature.replace(parameters=parameters)
    # Annotations are texts already; a default that is a function has its address in its text.
    text = re.sub(r"<function (\w+) at [^>]*>", r"\1", f"{name}{without_self}")
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text).replace(" -> None", "")


def _told(value: object) -> str:
    return f"{inspect.getdoc(value) or ''}\n"


def _first_line(value: object) -> str:
    return (inspect.getdoc(value) or "").partition("\n")[0]


def _code(text: str) -> str:
    return f"```text\n{text}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
