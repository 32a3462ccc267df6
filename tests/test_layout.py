"""How the project is laid out, and what its code may not do."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest
from lark import Lark

ROOT = Path(__file__).parents[1]

ALLOWED = {
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "mdpdsl",
    "grammars",
    "models",
    "backends",
    "tests",
    "benchmarks",
    "docs",
    ".ci",
    ".gitignore",
}
PRODUCT = sorted(
    path for folder in ("mdpdsl", "backends") for path in (ROOT / folder).rglob("*.py")
)

#: Built-in functions that turn text into running code.
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
#: Modules that turn files into running code.
FORBIDDEN_MODULES = {
    "pickle",
    "_pickle",
    "cPickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "code",
}


def forbidden_uses(text: str) -> list[str]:
    """Return what in a module could run text or data as code."""
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            # Any use of the name, so that `run = eval` does not slip through.
            case ast.Name(id=name) if name in FORBIDDEN_CALLS:
                found.append(f"line {node.lineno}: {name}")
            case ast.Attribute(value=ast.Name(id="builtins"), attr=name) if name in FORBIDDEN_CALLS:
                found.append(f"line {node.lineno}: builtins.{name}")
            case ast.Import(names=names):
                modules = {alias.name.split(".")[0] for alias in names}
                found += [f"line {node.lineno}: {m}" for m in modules & FORBIDDEN_MODULES]
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in FORBIDDEN_MODULES:
                found.append(f"line {node.lineno}: {module}")
            case ast.keyword(arg="allow_pickle", value=value):
                if not (isinstance(value, ast.Constant) and value.value is False):
                    found.append(f"line {value.lineno}: allow_pickle")
            case _:
                pass
    return found


def test_there_is_product_code_to_look_at() -> None:
    assert len(PRODUCT) > 30


@pytest.mark.parametrize("path", PRODUCT, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_text_or_data_can_run_as_code(path: Path) -> None:
    assert forbidden_uses(path.read_text("utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "eval('1')",
        "run = exec",
        "compile('1', '', 'eval')",
        "__import__('os')",
        "import builtins\nbuiltins.eval('1')",
        "import pickle",
        "from pickle import loads",
        "import numpy as np, marshal",
        "numpy.load(path, allow_pickle=True)",
    ],
)
def test_what_is_looked_for_is_found(text: str) -> None:
    assert forbidden_uses(text)


@pytest.mark.parametrize(
    "text",
    ["re.compile('x')", "numpy.load(path, allow_pickle=False)", "import re", "evaluate(x)"],
)
def test_what_is_harmless_passes(text: str) -> None:
    assert forbidden_uses(text) == []


def test_the_top_level_holds_what_belongs_there() -> None:
    assert top_level() <= ALLOWED


def top_level() -> set[str]:
    """Return the names at the top level, new files included, but for what .gitignore names."""
    if not (ROOT / ".git").exists():  # unpacked from an archive
        leftovers = re.compile(
            r"build|dist|runs|.*\.egg-info|\..*cache|\.coverage|\.hypothesis|\.venv"
        )
        return {path.name for path in ROOT.iterdir() if not leftovers.fullmatch(path.name)}
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {Path(line).parts[0] for line in listed.stdout.splitlines()}


@pytest.mark.parametrize(
    ("file", "start"), [("mdp", ["start", "expr"]), ("properties", ["file", "query"])]
)
def test_every_terminal_of_a_grammar_has_a_name(file: str, start: list[str]) -> None:
    grammar = (ROOT / "grammars" / f"{file}.lark").read_text("utf-8")
    parser = Lark(grammar, parser="lalr", start=start)
    assert len(parser.terminals) > 40
    # Lark names a string written in a rule after its characters, or __ANON_n; the definitions
    # at the start of lines are the ones that we named.
    named = {
        line.split(":")[0].split(".")[0].strip() for line in grammar.splitlines() if ":" in line
    }
    assert {terminal.name for terminal in parser.terminals} <= named
    assert not [t.name for t in parser.terminals if t.name.startswith("__ANON")]
