"""Every public function has an example in its docstring, and every example runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
from pathlib import Path

import pytest

import mdpdsl

#: Functions, and the class that users call themselves.
SHOWN = [
    name
    for name in mdpdsl.__all__
    if name == "Explorer" or inspect.isroutine(getattr(mdpdsl, name))
]
#: All public names, as the examples of classes and of their methods run as well.
NAMES = [name for name in mdpdsl.__all__ if name != "__version__"]


@pytest.mark.parametrize("name", SHOWN)
def test_a_public_function_has_an_example(name: str) -> None:
    assert ">>> " in (inspect.getdoc(getattr(mdpdsl, name)) or "")


@pytest.mark.parametrize("name", ["mdpdsl", *NAMES])
def test_the_examples_of_a_docstring_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some write files
    value = mdpdsl if name == "mdpdsl" else getattr(mdpdsl, name)
    home = importlib.import_module(value.__name__ if name == "mdpdsl" else value.__module__)
    runner = doctest.DocTestRunner()
    printed: list[str] = []
    for test in doctest.DocTestFinder(recurse=name != "mdpdsl").find(value, name, home):
        runner.run(test, out=printed.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(printed)


def test_there_are_examples_of_every_verb() -> None:
    assert len(SHOWN) > 20
    assert {"explore", "compare", "estimate", "solve", "plan", "report"} <= set(SHOWN)


def test_a_wrong_example_is_noticed() -> None:
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    assert doctest.DocTestRunner().run(wrong, out=lambda text: None).failed == 1
