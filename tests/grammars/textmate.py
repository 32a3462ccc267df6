"""A small engine for TextMate grammars, sufficient to colour a text as editors do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import onigurumacffi

Rule = dict[str, Any]


@dataclass(frozen=True)
class Grammar:
    """The rules of a grammar; editors try them in turn at every position."""

    patterns: tuple[Rule, ...]
    repository: dict[str, Rule]

    def rules(self, patterns: Any) -> Iterator[Rule]:
        """Return the rules of some patterns, including those they refer to."""
        for pattern in patterns:
            if "include" in pattern:
                yield from self.rules([self.repository[pattern["include"].removeprefix("#")]])
            elif "patterns" in pattern and "begin" not in pattern:
                yield from self.rules(pattern["patterns"])
            else:
                yield pattern


def read_grammar(path: Path) -> Grammar:
    """Read a grammar file."""
    content = json.loads(path.read_text("utf-8"))
    return Grammar(tuple(content["patterns"]), content["repository"])


def scopes(grammar: Grammar, text: str) -> list[str]:
    """Return the innermost scope of every character, empty if it has none."""
    found: list[str] = []
    stack: list[Rule] = []
    for line in text.splitlines(keepends=True):
        found += _line_scopes(grammar, line, stack)
    return found


def expressions(grammar: Grammar) -> list[str]:
    """Return every regular expression in a grammar."""
    pending: list[Any] = [list(grammar.patterns), grammar.repository]
    found = []
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            found += [part[key] for key in ("match", "begin", "end") if key in part]
            pending += list(part.values())
        elif isinstance(part, list):
            pending += part
    return found


@cache
def compiled(pattern: str) -> Any:
    """Compile an expression with the engine that editors use."""
    return onigurumacffi.compile(pattern)


def _line_scopes(grammar: Grammar, line: str, stack: list[Rule]) -> list[str]:
    found = [stack[-1].get("name", "") if stack else ""] * len(line)
    at = 0
    while at < len(line):
        inner = list(grammar.rules(stack[-1]["patterns"] if stack else grammar.patterns))
        tried = [(compiled(rule.get("match") or rule["begin"]), rule) for rule in inner]
        if stack:
            tried.insert(0, (compiled(stack[-1]["end"]), {"closes": True}))
        matches = [(expression.search(line, at), rule) for expression, rule in tried]
        matches = [(match, rule) for match, rule in matches if match is not None]
        if not matches:
            break
        match, rule = min(matches, key=lambda pair: pair[0].start())  # the first of equals
        captures = rule.get("captures") or rule.get("beginCaptures") or {}
        if "closes" in rule:
            captures = stack.pop().get("endCaptures", {})
        elif "begin" in rule:
            stack.append(rule)
        else:
            found[match.start() : match.end()] = [rule.get("name", "")] * len(match.group())
        for group, capture in captures.items():
            first, last = match.span(int(group))
            found[first:last] = [capture["name"]] * (last - first)
        assert match.end() > at or "closes" in rule, rule
        at = match.end()
    return found
