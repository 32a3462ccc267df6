"""The shape of the house: layers hold, deferred imports included, and the command line is thin."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "mdpdsl"
COMMANDS = sorted((PACKAGE / "cli").glob("*.py"))
MODULES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")

#: What writes the files of runs, or makes their records.
WRITERS = {
    "RunDirectory",
    "ComparisonDirectory",
    "RunConfiguration",
    "write_json",
    "write_arrays",
    "write_bytes",
    "save_results",
    "save_estimate",
}


def layers() -> list[list[str]]:
    """Return the layers of the import contract, top first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contract = project["tool"]["importlinter"]["contracts"][0]
    return [re.split(r"\s*[|:]\s*", layer) for layer in contract["layers"]]


def layer_of(module: str) -> int | None:
    """Return the number of a module's layer; None if it has none."""
    for number, names in enumerate(layers()):
        if any(module == name or module.startswith(f"{name}.") for name in names):
            return number
    return None


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def named_modules(path: Path) -> set[str]:
    """Return the modules of ours that a file imports anywhere, or names in a text."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.ImportFrom(module=str(module)):
                found.add(module)
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.Constant(value=str(text)) if re.fullmatch(r"mdpdsl(\.\w+)+(:\w+)?", text):
                found.add(text.partition(":")[0])
            case _:
                pass
    return {name for name in found if name.startswith("mdpdsl.")}


def test_every_module_has_a_layer() -> None:
    homeless = [module_of(p) for p in MODULES if layer_of(module_of(p)) is None]
    assert homeless == ["mdpdsl.__main__"]


@pytest.mark.parametrize("path", MODULES, ids=module_of)
def test_nothing_reaches_upwards_not_even_by_name(path: Path) -> None:
    own = layer_of(module_of(path))
    above = {
        name
        for name in named_modules(path)
        if own is not None and (layer_of(name) is not None) and layer_of(name) < own  # type: ignore[operator]
    }
    assert above == set()


def test_the_command_line_is_thin() -> None:
    sizes = {path.name: len(path.read_text("utf-8").splitlines()) for path in COMMANDS}
    assert {name: size for name, size in sizes.items() if size > 250} == {}
    assert sum(sizes.values()) <= 3_200


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.name)
def test_no_command_writes_a_run_or_makes_a_record(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported & WRITERS == set()


def test_explore_passes_few_files_of_the_command_line() -> None:
    def reached(name: str, found: set[str]) -> set[str]:
        found.add(name)
        path = PACKAGE / "cli" / f"{name}.py"
        for module in named_modules(path):
            if module.startswith("mdpdsl.cli.") and module.split(".")[2] not in found:
                reached(module.split(".")[2], found)
        return found

    expected = {"explore", "explorer_options", "design_options", "options", "console"}
    assert reached("explore", set()) == expected


def test_no_two_files_have_one_name_unless_a_command_shows_what_a_verb_does() -> None:
    names = Counter(p.name for p in MODULES if p.name != "__init__.py")
    assert [name for name, number in names.items() if number > 1] == []


def test_building_a_model_file_loads_no_heavy_package() -> None:
    program = (
        "import sys, mdpdsl\n"
        "mdpdsl.load('riverswim').graph\n"
        "heavy = {'numba', 'scipy', 'pyarrow', 'rich', 'matplotlib', 'pyomo', 'networkx'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
