"""The sdist and the wheel hold everything, and work without the source tree."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

#: Top-level folders, and the packages as which they ship.
FOLDERS = {"mdpdsl": "mdpdsl"} | {
    folder: f"mdpdsl.{folder}" for folder in ("backends", "grammars", "models")
}
NOT_SOURCE = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "dist", ".*_cache")

#: Packages of those who ask for a frame of theirs; nothing else imports them.
FRAMES = {"pandas", "polars"}

#: Building and installing may have to fetch packages.
TIMEOUT = 600


def packages_on_disk() -> set[str]:
    """Return the packages of the tree under the names with which they ship."""
    found = set()
    for folder, package in FOLDERS.items():
        for init in (ROOT / folder).rglob("__init__.py"):
            below = init.parent.relative_to(ROOT / folder).parts
            found.add(".".join((package, *below)))
    return found


def test_the_list_of_packages_is_complete() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert set(project["tool"]["setuptools"]["packages"]) == packages_on_disk()


def test_every_folder_with_code_is_a_package() -> None:
    folders = {
        path.parent
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if "__pycache__" not in path.parts
    }
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Build both from a copy of the tree, which neither depends on its state nor changes it."""
    folder = tmp_path_factory.mktemp("build")
    tree = folder / "tree"
    tree.mkdir()
    for name in (*FOLDERS, "tests"):
        shutil.copytree(ROOT / name, tree / name, ignore=NOT_SOURCE)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    # Isolated, so that `build-system.requires` has to suffice; the wheel is made from the sdist.
    command = [sys.executable, "-m", "build", "--outdir", str(folder / "dist")]
    done = subprocess.run(
        [*command, str(tree)], capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    (wheel,) = (folder / "dist").glob("*.whl")
    return {"sdist": sdist, "wheel": wheel}


def _source_files() -> set[str]:
    """Return the files that must ship, as paths in the tree."""
    wanted = {"grammars/mdp.lark", "mdpdsl/py.typed"}
    wanted |= {f"models/{path.name}" for path in (ROOT / "models").glob("*.mdp")}
    wanted |= {f"grammars/{path.name}" for path in (ROOT / "grammars").glob("*.json")}
    page = ROOT / "mdpdsl" / "report" / "page"
    wanted |= {str(p.relative_to(ROOT)) for p in page.iterdir() if p.suffix in (".css", ".js")}
    for folder in FOLDERS:
        wanted |= {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*.py")}
    assert len(wanted) > 60
    return wanted


def test_the_sdist_holds_every_file(built: dict[str, Path]) -> None:
    with tarfile.open(built["sdist"]) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert _source_files() | {"pyproject.toml", "README.md", "LICENSE"} <= held


def test_the_wheel_holds_every_file(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built["wheel"]) as archive:
        held = set(archive.namelist())
    wanted = {path if path.startswith("mdpdsl/") else f"mdpdsl/{path}" for path in _source_files()}
    assert wanted <= held
    assert {name.split("/")[0] for name in held if ".dist-info/" not in name} == {"mdpdsl"}


def test_the_wheel_made_from_the_sdist_works_in_an_environment_of_its_own(
    built: dict[str, Path], tmp_path: Path
) -> None:
    """Install the wheel alone, beside the dependencies that are here; `.ci/lowest` installs all."""
    environment = tmp_path / "environment"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            list(map(str, command)),
            cwd=tmp_path,
            env=clean,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    packages = Path(run(python, "-c", "import site; print(site.getsitepackages()[0])").strip())
    # Of these folders the packages are found; their .pth files, such as that of an editable
    # install of this tree, are not read.
    here = [path for path in sys.path if Path(path).name == "site-packages"]
    (packages / "dependencies.pth").write_text("\n".join(here), "utf-8")
    run(
        *(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"),
        *("--ignore-installed", "--disable-pip-version-check", built["wheel"]),
    )
    shown = json.loads(run(environment / "bin" / "mdpdsl", "show", "riverswim", "--json"))
    assert (shown["states"], shown["pairs"]) == (6, 12)
    for module in ("mdpdsl", "mdpdsl.backends.highs"):
        place = run(python, "-c", f"import {module} as found; print(found.__file__)")
        assert Path(place.strip()).is_relative_to(environment)


def test_every_package_that_is_imported_is_a_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    listed = [*project["dependencies"], *(x for e in extras if e != "dev" for x in extras[e])]
    declared = {re.split(r"[\[<>=]", requirement)[0] for requirement in listed}
    # What an extra brings along, and is imported only with it.
    declared |= {"h5py", "lsprotocol"} | FRAMES
    distributions = packages_distributions()
    imported = {
        name.partition(".")[0]
        for folder in ("mdpdsl", "backends")
        for path in (ROOT / folder).rglob("*.py")
        for name in _imports(ast.parse(path.read_text("utf-8")))
    }
    others = imported - sys.stdlib_module_names - {"mdpdsl"}
    assert {"numpy", "highspy", "gymnasium"} <= others
    assert {name for name in others if not declared & set(distributions[name])} == set()


def test_tables_need_no_package_of_frames() -> None:
    code = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name in {sorted(FRAMES)}:\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "import mdpdsl\n"
        "model = mdpdsl.load('riverswim')\n"
        "assert model.states.table().num_rows == 6\n"
        "assert mdpdsl.solve(model, discount=0.9).table().num_rows == 6\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield str(node.module)
