"""The meaning of a name, in Markdown: its declaration, type, values and comment."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mdpdsl.compile.checked import Spread
from mdpdsl.compile.expressions import constant_value
from mdpdsl.compile.scope import KIND_WORDS, Definition
from mdpdsl.compile.terms import BOOL, INT, Constant, Term, Type, reads
from mdpdsl.diagnostics import Span
from mdpdsl.editor import vocabulary
from mdpdsl.editor.document import Document
from mdpdsl.editor.occurrences import Occurrence
from mdpdsl.editor.property_words import in_words
from mdpdsl.graph.space import Variable
from mdpdsl.graph.transition_graph import DEFAULT_REWARD
from mdpdsl.syntax import ast
from mdpdsl.syntax.format import format_statement

#: How many values of a discrete distribution are shown.
MOST_VALUES = 8
#: What the labels mean that every model has.
BUILT_IN = {
    "init": "the states in which a run may start",
    "end": "the states in which an episode is over",
    "deadlock": "no state: in PRISM, those without a move",
}
_WORD = re.compile(r"[^\W\d]\w*")


def meaning_at(document: Document, offset: int) -> tuple[str, Span] | None:
    """Return the meaning of the word at a position, and the span of the word."""
    name = document.name_at(offset)
    if name is not None:
        text = meaning(document, name)
        return (text, name.span) if text is not None else None
    return _word_at(document, offset)


def meaning(document: Document, name: Occurrence) -> str | None:
    """Return the meaning of a name; None if it has none."""
    if name.space == "function":
        return _of_function(name.text)
    if name.space == "setting":
        text = (vocabulary.LOG_KEYS | vocabulary.SETTINGS).get(name.text)
        return f"setting `{name.text}`: {text}" if text else None
    if name.space == "label" and name.text in BUILT_IN and not document.declarations(name):
        return f"label `{name.text}`: {BUILT_IN[name.text]}"
    if name.space == "label":
        return _joined(document, name.text, "label", "a set of states")
    if name.space == "reward":
        return _of_reward(document, name.text)
    if name.space == "property":
        return _of_property(document, name.text)
    if name.space == "column":
        return f"column `{name.text}` of the log"
    if name.space == "model":
        return _of_model(document, name.text)
    definition = document.declared.scope.definitions.get(name.text)
    return _of_definition(document, name.text, definition) if definition is not None else None


def value_text(value: float, kind: Type, members: dict[int, str]) -> str:
    """Return a value of some type as text in the language."""
    if kind == BOOL:
        return "true" if value else "false"
    if kind.kind == "enum":
        return members.get(int(value), "?")
    return f"{value:.0f}" if kind == INT else f"{value:.6g}"


def _of_definition(document: Document, name: str, definition: Definition) -> str:
    match definition.kind:
        case "param":
            term = document.declared.scope.definition_term(name)
            text = _typed(document, "parameter", term)
            return _joined(document, name, "param", f"{text}; override it with `--set {name}=…`")
        case "let":
            term = document.declared.scope.definition_term(name)
            return _joined(document, name, "let", _typed(document, "let", term))
        case "unknown":
            return _joined(document, name, "unknown", _of_unknown(document, name))
        case "state":
            return _joined(document, name, "state", _of_variable(document, name))
        case "noise":
            return _joined(document, name, "noise", _of_noise(document, name))
        case "action" if name != "action":
            return _joined(document, name, "action", _of_variable(document, name))
        case "action":
            return "the action taken: " + _listed(_named_actions(document))
        case _:
            return _of_member(document, name)


def _typed(document: Document, word: str, term: Term | None) -> str:
    """Describe a definition by its type, and by its value or else what it depends on."""
    if term is None:
        return f"{word}, invalid"
    text = f"{word}, {term.type}"
    read = sorted(reads(term))
    if read:
        return f"{text}; {_depends(read)}"
    value, fault = (term.value, None) if isinstance(term, Constant) else constant_value(term)
    if fault is not None:
        return text
    members = {number: member for member, number in document.declared.scope.symbols.items()}
    return f"{text}, value **{value_text(value, term.type, members)}**"


def _depends(read: Sequence[tuple[str, str]]) -> str:
    return f"depends on {', '.join(f'{KIND_WORDS[kind]} `{name}`' for kind, name in read)}"


def _of_unknown(document: Document, name: str) -> str:
    """Describe an unknown number by its range, and by its value for simulation."""
    for number in document.declared.unknowns:
        if number.name == name:
            text = f"unknown number in [{number.low:.6g}, {number.high:.6g}]"
            if number.value is None:
                return f"{text}; to simulate, give it a value with `--set {name}=…`"
            return f"{text}; simulated with {number.value:.6g}"
    return "unknown number, invalid"


def _of_variable(document: Document, name: str) -> str:
    """Describe the values of a state variable or of an action with values."""
    actions = {factor.name: factor for factor in document.declared.action_factors}
    variables = document.declared.variables | actions
    word = "action" if name in actions else "state variable"
    variable = variables.get(name)
    if variable is None:
        return f"{word}, invalid"
    kind = {"bool": "a Boolean", "int": "an integer", "real": "a real number"}
    kind |= {"enum": "an enumeration", "set": "a number from a list"}
    return f"{word}, {kind[variable.kind]}: {_values(variable)}"


def _values(variable: Variable) -> str:
    if variable.kind == "real":
        assert variable.edges is not None
        widths = [
            float(b - a) for a, b in zip(variable.edges[:-1], variable.edges[1:], strict=True)
        ]
        low, high = min(widths), max(widths)
        width = f"{low:.4g}" if high - low <= 1e-9 * high else f"{low:.4g} to {high:.4g}"
        return f"`{variable.describe()}`, each {width} wide"
    return f"`{variable.describe()}`, {variable.size:,} values"


def _of_noise(document: Document, name: str) -> str:
    for noise in document.declared.noises:
        if noise.name == name:
            if noise.terms is not None:
                read = sorted(set().union(*(reads(term) for term in noise.terms)))
                return f"noise, drawn anew at each step; {_depends(read)}"
            return f"noise, drawn anew at each step: {_spread(noise.spread)}"
    return "noise, invalid"


def _spread(spread: Spread) -> str:
    if spread.family == "normal":
        return f"normal, mean {spread.a:.6g}, standard deviation {spread.b:.6g}"
    if spread.family == "uniform":
        return f"uniform from {spread.a:.6g} to {spread.b:.6g}"
    assert spread.values is not None and spread.probabilities is not None
    pairs = list(zip(spread.values.tolist(), spread.probabilities.tolist(), strict=True))
    shown = [f"{value:.6g} with probability {p:.6g}" for value, p in pairs[:MOST_VALUES]]
    return ", ".join(shown) + (", …" if len(pairs) > MOST_VALUES else "")


def _of_member(document: Document, name: str) -> str:
    actions = _named_actions(document)
    if name in actions:
        text = f"action {actions.index(name) + 1} of {len(actions)}: {_listed(actions)}"
        return f"{text}{_comment(document, name, ast.ActionNames)}"
    variables = [*document.declared.variables.values(), *document.declared.action_factors]
    homes = [v.describe() for v in variables if v.kind == "enum" and name in v.members]
    return f"a value of {', '.join(f'`{home}`' for home in homes)}" if homes else f"`{name}`"


def _of_function(name: str) -> str | None:
    if name in vocabulary.CONSTANTS:
        return f"constant `{name}`: {vocabulary.CONSTANTS[name]}"
    entry = (vocabulary.FUNCTIONS | vocabulary.DISTRIBUTIONS).get(name)
    return f"`{entry[0]}`: {entry[1]}" if entry else None


def _of_reward(document: Document, name: str) -> str:
    """Describe a reward by all its lines."""
    lines = [
        format_statement(statement)
        for statement in document.parsed.file.statements
        if isinstance(statement, ast.Reward)
        and (statement.name.text if statement.name else DEFAULT_REWARD) == name
    ]
    listed = "\n".join(lines[:MOST_VALUES] + ["…"] * (len(lines) > MOST_VALUES))
    text = "a reward; its lines add up" if len(lines) > 1 else "a reward"
    return f"```mdp\n{listed}\n```\n{text}" if lines else f"reward `{name}`"


def _of_property(document: Document, name: str) -> str | None:
    for statement in document.parsed.file.statements:
        if isinstance(statement, ast.Property) and statement.name.text == name:
            return _joined(document, name, "property", in_words(statement.query))
    return None


def _of_model(document: Document, name: str) -> str:
    checked = document.checked
    sizes = f"{checked.states.size:,} states in the product, {checked.actions.size:,} actions"
    title = f" ({checked.title})" if checked.title else ""
    return f"model `{name}`{title}: {sizes}"


def _word_at(document: Document, offset: int) -> tuple[str, Span] | None:
    """Return the meaning of a keyword, unless it is in a comment or a string."""
    start = document.text.rfind("\n", 0, offset) + 1
    end = document.text.find("\n", offset)
    line = document.text[start : end if end >= 0 else len(document.text)]
    bare = re.sub(r"#.*|\"[^\"]*\"?", lambda m: " " * len(m.group()), line)
    for word in _WORD.finditer(bare):
        if word.start() <= offset - start <= word.end():
            span = Span(start + word.start(), start + word.end())
            if word.group() in vocabulary.STATEMENTS:
                form, text = vocabulary.STATEMENTS[word.group()]
                return f"```mdp\n{form}\n```\n{text}", span
            if word.group() in vocabulary.WORDS:
                return f"`{word.group()}`: {vocabulary.WORDS[word.group()]}", span
    return None


def _joined(document: Document, name: str, word: str, text: str) -> str:
    """Put the declaration before a text, and the comment of the declaration after it."""
    kinds = {"param": ast.Param, "let": ast.Let, "state": ast.State, "noise": ast.Noise}
    kinds |= {"unknown": ast.Unknown}
    kinds |= {"action": ast.ActionFactor, "label": ast.Label, "property": ast.Property}
    for statement in document.parsed.file.statements:
        if isinstance(statement, kinds[word]) and _declares(statement, name):
            comment = _comment_of(document, statement.span)
            return f"```mdp\n{format_statement(statement)}\n```\n{text}{comment}"
    return text


def _comment(document: Document, name: str, kind: type[ast.ActionNames]) -> str:
    for statement in document.parsed.file.statements:
        if isinstance(statement, kind) and name in [n.text for n in statement.names]:
            return _comment_of(document, statement.span)
    return ""


def _declares(statement: ast.Statement, name: str) -> bool:
    ident = getattr(statement, "name", None)
    return isinstance(ident, ast.Ident) and ident.text == name


def _comment_of(document: Document, span: Span) -> str:
    """Return the comment after a statement, on the same line."""
    found = re.match(r"[ \t]*#[ \t]*([^\n]*)", document.text[span.end :])
    return f"\n\n{found.group(1).strip()}" if found and found.group(1).strip() else ""


def _named_actions(document: Document) -> tuple[str, ...]:
    for factor in document.declared.action_factors:
        if factor.name == "action":
            return factor.members
    return ()


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)
