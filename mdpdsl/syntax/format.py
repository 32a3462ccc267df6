"""From syntax tree back to text, in the canonical layout; comments are kept.

Parsing the formatted text gives the same tree again. A comment before a statement, or at the end of
a line, stays there; one in the middle of a statement moves before it. One blank line between
statements is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mdpdsl.diagnostics import Source, Span
from mdpdsl.syntax import ast
from mdpdsl.syntax.property_format import format_query

#: Longer `on` lines are broken before each branch.
LINE_WIDTH = 100


def format_file(file: ast.ModelFile, source: Source | None = None) -> str:
    """Return the canonical text; given the source, keep its comments and blank lines."""
    if source is None:
        return "".join(f"{format_statement(statement)}\n" for statement in file.statements)
    lines: list[str] = []
    comments = _comments(source)
    position = 0  # of the next comment to place
    previous_end = 0
    for statement in file.statements:
        leading: list[tuple[int, str]] = []
        while position < len(comments) and comments[position].span.start < statement.span.start:
            leading.append((comments[position].span.start, comments[position].text))
            position += 1
        for start, text in leading:
            lines += [*_blank(source, previous_end, start, lines), text]
            previous_end = start + len(text)
        inside: list[_Comment] = []
        while position < len(comments) and comments[position].span.start < statement.span.end:
            inside.append(comments[position])
            position += 1
        lines += _blank(source, previous_end, statement.span.start, lines)
        text, kept = _with_comments(statement, inside, source)
        lines += [comment.text for comment in inside if comment not in kept]
        previous_end = statement.span.end
        if position < len(comments) and _same_line(source, previous_end, comments[position]):
            text = f"{text}  {comments[position].text}"
            previous_end = comments[position].span.end
            position += 1
        lines.append(text)
    for comment in comments[position:]:
        lines += [*_blank(source, previous_end, comment.span.start, lines), comment.text]
        previous_end = comment.span.end
    return "\n".join(lines) + "\n" if lines else ""


def format_statement(statement: ast.Statement) -> str:
    """Return the text of one statement."""
    match statement:
        case ast.Header():
            title = f' "{statement.title}"' if statement.title is not None else ""
            return f"mdp {statement.name.text}{title}"
        case ast.Param():
            return f"param {statement.name.text} = {format_expression(statement.value)}"
        case ast.Unknown():
            value = "" if statement.value is None else f" = {format_expression(statement.value)}"
            span = f"[{format_expression(statement.low)}, {format_expression(statement.high)}]"
            return f"unknown {statement.name.text} in {span}{value}"
        case ast.State():
            return f"state {statement.name.text} in {_domain(statement.domain)}"
        case ast.ActionNames():
            return f"action {_names(statement.names)}"
        case ast.ActionFactor():
            return f"action {statement.name.text} in {_domain(statement.domain)}"
        case ast.Noise():
            return f"noise {statement.name.text} ~ {_distribution(statement.distribution)}"
        case ast.Let():
            return f"let {statement.name.text} = {format_expression(statement.value)}"
        case ast.Init():
            return _init(statement)
        case ast.Rule():
            return _rule(statement)
        case ast.Equation():
            return _update(statement.update)
        case ast.Reward():
            name = "" if statement.name is None else f" {statement.name.text}"
            on = "" if statement.actions is None else f" on {_actions(statement.actions)}"
            when = f" when {format_expression(statement.guard)}" if statement.guard else ""
            return f"reward{name}{on}{when} : {format_expression(statement.value)}"
        case ast.Label():
            return f"label {statement.name.text} when {format_expression(statement.guard)}"
        case ast.Property():
            return f"property {statement.name.text} = {format_query(statement.query)}"
        case ast.Restart():
            return f"restart when {format_expression(statement.guard)}"
        case ast.End():
            return f"end when {format_expression(statement.guard)}"
        case ast.StatesAll():
            return "states all"
        case ast.Discretize():
            return _discretize(statement)
        case ast.Explore():
            return _block("explore", statement.entries, [])
        case ast.Log():
            return _block("log", statement.entries, [])
        case ast.Table():
            return _table(statement)


# Expressions, with no more parentheses than they need

_TOP, _OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(10)
_LEVEL = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT, "^": _POWER}


def format_expression(expression: ast.Expr) -> str:
    """Return the text of an expression."""
    return _expression(expression, _TOP)


def _expression(expression: ast.Expr, least: int) -> str:
    """Return the text, in parentheses if it binds less tightly than its context requires."""
    text, level = _text_and_level(expression)
    return text if level >= least else f"({text})"


def _text_and_level(expression: ast.Expr) -> tuple[str, int]:
    match expression:
        case ast.Number():
            return expression.text, _ATOM
        case ast.Boolean():
            return "true" if expression.value else "false", _ATOM
        case ast.Text():
            return f'"{expression.value}"', _ATOM
        case ast.Name():
            return expression.name, _ATOM
        case ast.Primed():
            return f"{expression.name}'", _ATOM
        case ast.Open():
            value = "" if expression.value is None else f"={format_expression(expression.value)}"
            return f"?{value}", _TOP
        case ast.Unary(operator="not"):
            return f"not {_expression(expression.operand, _NOT)}", _NOT
        case ast.Unary():
            return f"{expression.operator}{_expression(expression.operand, _SIGN)}", _SIGN
        case ast.Binary():
            return _binary(expression)
        case ast.Comparison():
            operands = [_expression(operand, _SUM) for operand in expression.operands]
            text = operands[0]
            for operator, operand in zip(expression.operators, operands[1:], strict=True):
                text += f" {operator} {operand}"
            return text, _COMPARE
        case ast.Logical():
            level = _AND if expression.operator == "and" else _OR
            operands = [_expression(operand, level + 1) for operand in expression.operands]
            return f" {expression.operator} ".join(operands), level
        case ast.Conditional():
            cases = " else ".join(
                f"if {_expression(condition, _TOP)} then {_expression(value, _TOP)}"
                for condition, value in expression.cases
            )
            return f"{cases} else {_expression(expression.otherwise, _TOP)}", _TOP
        case ast.Call():
            arguments = ", ".join(map(format_expression, expression.arguments))
            return f"{expression.function.text}({arguments})", _ATOM
    raise AssertionError(expression)


def _binary(expression: ast.Binary) -> tuple[str, int]:
    level = _LEVEL[expression.operator]
    if expression.operator == "^":  # right-associative; its right operand may have a sign
        left = _expression(expression.left, _ATOM)
        return f"{left}^{_expression(expression.right, _SIGN)}", level
    left = _expression(expression.left, level)
    right = _expression(expression.right, level + 1)
    space = "" if level == _PRODUCT else " "
    return f"{left}{space}{expression.operator}{space}{right}", level


# Statements


def _names(names: Sequence[ast.Ident]) -> str:
    return ", ".join(name.text for name in names)


def _actions(names: Sequence[ast.Ident]) -> str:
    return _names(names) or "any"


def _list(expressions: Sequence[ast.Expr]) -> str:
    return ", ".join(map(format_expression, expressions))


def _domain(domain: ast.Domain) -> str:
    match domain:
        case ast.RangeDomain():
            return f"{_bound(domain.low)}..{_bound(domain.high)}"
        case ast.SetDomain():
            return f"{{{_list(domain.items)}}}"
        case ast.BoolDomain():
            return "bool"
        case ast.RealDomain():
            options = "".join(f" {_option(option)}" for option in domain.options)
            return f"[{format_expression(domain.low)}, {format_expression(domain.high)}]{options}"


def _bound(expression: ast.Expr) -> str:
    """Return the bound of a range; a short one has no spaces, as in `0..n-1`."""
    text = format_expression(expression)
    is_short = isinstance(expression, ast.Binary) and all(
        isinstance(part, ast.Name | ast.Number) for part in ast.children(expression)
    )
    return text.replace(" ", "") if is_short else text


def _option(option: ast.RealOption) -> str:
    if option.kind == "bins":
        return f"bins {format_expression(option.values[0])}"
    if option.kind == "edges":
        return f"edges [{_list(option.values)}]"
    return option.kind


def _distribution(distribution: ast.Distribution) -> str:
    if isinstance(distribution, ast.NamedDistribution):
        return f"{distribution.family.text}({_list(distribution.arguments)})"
    weights = [
        f"{format_expression(value)}: {format_expression(probability)}"
        for value, probability in distribution.weights
    ]
    return f"{{{', '.join(weights)}}}"


def _init(init: ast.Init) -> str:
    if not init.items:
        return "init any" + (f" when {format_expression(init.guard)}" if init.guard else "")
    items = [
        f"{item.name.text} = {format_expression(item.value)}"
        if isinstance(item.value, ast.Expr)
        else f"{item.name.text} ~ {_distribution(item.value)}"
        for item in init.items
    ]
    return f"init {', '.join(items)}"


def _update(update: ast.Update) -> str:
    return f"{update.name.text}' = {format_expression(update.value)}"


def _rule(rule: ast.Rule) -> str:
    head = f"on {_actions(rule.actions)}"
    if rule.is_otherwise:
        head += " otherwise"
    elif rule.guard is not None:
        head += f" when {format_expression(rule.guard)}"
    branches = []
    for branch in rule.branches:
        weight = f"{format_expression(branch.probability)}: " if branch.probability else ""
        branches.append(weight + (", ".join(map(_update, branch.updates)) or "stay"))
    line = f"{head} -> {' | '.join(branches)}"
    if len(line) <= LINE_WIDTH or len(branches) == 1:
        return line
    return f"{head} ->\n    " + "\n  | ".join(branches)


def _discretize(statement: ast.Discretize) -> str:
    text = f"discretize {statement.method}"
    if statement.number is not None:
        points = "points " if statement.method == "uniform" else ""
        text += f" {points}{format_expression(statement.number)}"
    if statement.seed is not None:
        text += f" seed {format_expression(statement.seed)}"
    return text


def _block(keyword: str, entries: Sequence[ast.Entry], trailing: Sequence[str]) -> str:
    """Return a block, with a comment after each entry that has one."""
    if not entries and not any(trailing):
        return f"{keyword} {{ }}"
    settings = [f"{entry.key.text} = {format_expression(entry.value)}" for entry in entries]
    line = f"{keyword} {{ {'  '.join(settings)} }}"
    if keyword == "explore" and not any(trailing) and len(line) <= LINE_WIDTH:
        return line
    width = max((len(entry.key.text) for entry in entries), default=0)
    lines = [f"  {entry.key.text:{width}} = {format_expression(entry.value)}" for entry in entries]
    return "\n".join([f"{keyword} {{", *(_append(lines, trailing)), "}"])


def _append(lines: Sequence[str], trailing: Sequence[str]) -> Iterator[str]:
    for line, comment in zip(lines, [*trailing, *[""] * len(lines)], strict=False):
        yield f"{line}  {comment}" if comment else line


def _table(table: ast.Table) -> str:
    cells = [_cell(cell) for cell in table.cells]
    rows = _table_rows(table, cells)
    width = max(len(cell) for cell in cells)
    lines = [f"table {_actions(table.actions)} {{"]
    for row in rows:
        indent = "  " if row is not rows[0] or len(rows) == 1 else f"  {'':{width}}  "
        lines.append(indent + "  ".join(f"{cell:{width}}" for cell in row).rstrip())
    return "\n".join([*lines, "}"])


def _cell(cell: ast.Expr) -> str:
    match cell:
        case ast.Name() | ast.Number() | ast.Open(value=None):
            return format_expression(cell)
        case ast.Open(value=ast.Expr() as value):
            return f"?={_cell(value)}"
    return f"({format_expression(cell)})"


def _table_rows(table: ast.Table, cells: list[str]) -> list[list[str]]:
    """Split the cells into rows, which start at names that occur in the header."""
    header: list[str] = []
    rows: list[list[str]] = [header]
    for cell, text in zip(table.cells, cells, strict=True):
        is_label = isinstance(cell, ast.Name) and (text in header if header else False)
        if is_label:
            rows.append([text])
        else:
            rows[-1].append(text)
    return rows


# Comments


@dataclass(frozen=True)
class _Comment:
    span: Span
    text: str


_COMMENT = re.compile(r'"[^"\n]*"|(#[^\n]*)')


def _comments(source: Source) -> list[_Comment]:
    return [
        _Comment(Span(match.start(), match.end()), match.group(1).rstrip())
        for match in _COMMENT.finditer(source.text)
        if match.group(1) is not None
    ]


def _blank(source: Source, end: int, start: int, lines: Sequence[str]) -> list[str]:
    """Return a blank line if the source has one in between."""
    return [""] if lines and source.text.count("\n", end, start) > 1 else []


def _same_line(source: Source, end: int, comment: _Comment) -> bool:
    between = source.text[end : comment.span.start]
    return end <= comment.span.start and "\n" not in between and not between.strip()


def _with_comments(
    statement: ast.Statement, inside: list[_Comment], source: Source
) -> tuple[str, list[_Comment]]:
    """Return a statement's text with the comments that can stay inside it, and those comments."""
    if not isinstance(statement, ast.Explore | ast.Log) or not inside:
        return format_statement(statement), []
    kept: list[_Comment] = []
    trailing = [""] * len(statement.entries)
    for comment in inside:
        for index, entry in enumerate(statement.entries):
            if not trailing[index] and _same_line(source, entry.span.end, comment):
                trailing[index] = comment.text
                kept.append(comment)
    keyword = "explore" if isinstance(statement, ast.Explore) else "log"
    return _block(keyword, statement.entries, trailing), kept
