"""The pages of the documentation, and the README, as blocks that can be run.

A block is a fence. An HTML comment on the line before it, which no reader sees, says what to do:

    <!-- file: NAME -->     write it to a file
    <!-- prints -->         the block before it prints this; `…` matches anything
    <!-- fails -->          its last command exits with 2
    <!-- needs: WHAT -->    run it if the program has this (see NEEDS)
    <!-- not run: WHY -->   do not run it

`sh` blocks run `mdpdsl` (inside this process), `cat`, `cp`, redirections and `&&`; `python` blocks
share their names; both work in one folder per page.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.cli.run import quick

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = "README.md"
PAGES = sorted([README, *(path.relative_to(ROOT).as_posix() for path in DOCS.rglob("*.md"))])

_FENCE = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A fence of a page, with the mark before it and its line."""

    language: str
    text: str
    mark: str
    line: int

    def argument(self, word: str) -> str | None:
        """Return what follows the word of a mark, or None if the mark has another word."""
        found, _, rest = self.mark.partition(":")
        return rest.strip() if found == word else None


def blocks(text: str) -> list[Block]:
    """Return the fences of a page."""
    return [
        Block(
            match["language"], match["text"], match["mark"] or "", text[: match.start()].count("\n")
        )
        for match in _FENCE.finditer(text)
    ]


def _has_option(command: str, option: str) -> bool:
    found = importlib.import_module(f"mdpdsl.cli.{command}").command
    return any(option in parameter.opts for parameter in found.params)


#: What a block may need, and how to find out whether the program has it.
NEEDS: dict[str, Callable[[], bool]] = {
    "interval export": lambda: _has_option("export", "--intervals")
}


class Runner:
    """Runs the blocks of one page in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, object] = {"__name__": "page"}
        self.printed = ""
        self.is_printed = False
        self.n_run = 0

    def run(self, block: Block) -> None:
        """Run a block as its mark and its language ask."""
        needed = block.argument("needs")
        if block.argument("not run") is not None or (needed is not None and not NEEDS[needed]()):
            self.is_printed = False
        elif block.argument("file") is not None:
            path = self.folder / str(block.argument("file"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, "utf-8")
        elif block.mark == "prints":
            if self.is_printed:
                assert matches(block.text, self.printed), f"{block.text}\n---\n{self.printed}"
        elif block.language == "sh":
            self._shell(block.text, fails=block.mark == "fails")
        elif block.language == "python":
            self._python(block.text)
        else:
            assert block.language in ("text", "mdp", "json", "lua", "toml"), block
            assert block.mark == "", f"unknown mark: {block.mark}"

    def _python(self, text: str) -> None:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(text, self.names)
        self._note(printed.getvalue())

    def _shell(self, text: str, *, fails: bool) -> None:
        lines = [
            shlex.split(line, comments=True) for line in text.replace("\\\n", " ").splitlines()
        ]
        commands = [words for line in lines for words in _commands(line)]
        printed, status = "", 0
        for words in commands:
            assert status == 0, words
            out, status = self._command(words[: words.index(">")] if ">" in words else words)
            if ">" in words:
                (self.folder / words[-1]).write_text(out, "utf-8")
            else:
                printed += out
        assert status == (2 if fails else 0), printed
        self._note(printed)

    def _command(self, words: list[str]) -> tuple[str, int]:
        match words:
            case ["mdpdsl", *arguments]:
                outcome = quick(*arguments)
                return outcome.stdout + outcome.stderr, outcome.status
            case ["cat", name]:
                return (self.folder / name).read_text("utf-8"), 0
            case ["cp", source, target]:
                shutil.copy(self.folder / source, self.folder / target)
                return "", 0
        raise AssertionError(f"the test cannot run {words}")

    def _note(self, printed: str) -> None:
        self.printed, self.is_printed = printed, True
        self.n_run += 1


def _commands(line: list[str]) -> list[list[str]]:
    """Return the commands of a line, which `&&` separates."""
    ends = [place for place, word in enumerate(line) if word == "&&"]
    starts = [0, *(end + 1 for end in ends)]
    found = [line[start:end] for start, end in zip(starts, [*ends, len(line)], strict=True)]
    return [words for words in found if words]


def matches(shown: str, printed: str) -> bool:
    """Return whether a text is what was printed, except for spaces and where it has `…`."""
    pattern = "".join(
        r".*" if part.strip() == "…" else rf"\s*{_line_pattern(part)}\s*?\n"
        for part in shown.strip().splitlines()
    )
    return re.fullmatch(pattern + r"\s*", printed.strip() + "\n", re.DOTALL) is not None


def _line_pattern(line: str) -> str:
    words = r"\s+".join(re.escape(word) for word in line.split())
    return words.replace("…", r"[^\n]*")
