"""A parser for one of the grammars, with its tables cached on disk; known to the parsers only."""

from __future__ import annotations

import hashlib
import os
import sys
from importlib import resources
from pathlib import Path

from lark import Lark
from lark import __version__ as lark_version


def grammar_parser(file: str, start: list[str], builder: object) -> Lark:
    """Return the parser of a grammar file, which calls a method of the builder for each rule."""
    grammar = resources.files("mdpdsl.grammars").joinpath(file).read_text("utf-8")
    return Lark(
        grammar,
        parser="lalr",
        lexer="contextual",
        start=start,
        transformer=builder,
        maybe_placeholders=False,
        cache=_cache_path(grammar),
    )


def _cache_path(grammar: str) -> str | bool:
    """Return where to cache the parser's tables, which are slow to compute; False if nowhere.

    The file name is a hash of everything the tables depend on, so a stale file is never used.
    """
    versions = f"{lark_version} {sys.version_info} {grammar}"
    name = f"parser-{hashlib.sha256(versions.encode()).hexdigest()[:16]}"
    try:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(Path.home(), ".cache")
        folder = Path(home) / "mdpdsl"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return False
    return str(folder / name) if os.access(folder, os.W_OK) else False
