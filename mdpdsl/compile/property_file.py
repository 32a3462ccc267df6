"""A file of properties: its constants and labels as names, and its properties checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields

from mdpdsl.compile.checked import CheckedProperty
from mdpdsl.compile.parameters import constant_of
from mdpdsl.compile.property_check import PropertyScope, check_query
from mdpdsl.compile.scope import PROPERTY, Definition
from mdpdsl.compile.terms import BOOL, INT, REAL, Constant, accepts
from mdpdsl.diagnostics import Diagnostic, did_you_mean
from mdpdsl.graph.space import Value
from mdpdsl.syntax import nodes
from mdpdsl.syntax import property_ast as syntax

_TYPES = {"int": INT, "double": REAL, "bool": BOOL}


def declare_items(
    scope: PropertyScope, file: syntax.PropertiesFile, given: Mapping[str, Value]
) -> list[CheckedProperty]:
    """Declare the constants and labels of a file, and check its properties; report all errors."""
    constants = [item for item in file.items if isinstance(item, syntax.Constant)]
    _check_given(scope, constants, given)
    used = {name for item in file.items for name in _names(item)}
    for constant in constants:
        _declare_constant(scope, constant, given, constant.name.text in used)
    for constant in constants:
        _check_constant(scope, constant)
    for item in file.items:
        if isinstance(item, syntax.LabelDefinition):
            _declare_label(scope, item)
    found: list[CheckedProperty] = []
    names: set[str] = set()
    for item in file.items:
        if not isinstance(item, syntax.NamedQuery):
            continue
        name = item.name.text if item.name is not None else None
        if item.name is not None and name in names:
            message = f"the property `{name}` is declared twice"
            scope.report("E202", message, item.name.span, "choose another name")
        names |= {name} if name is not None else set()
        checked = check_query(scope, item.query, name)
        if checked is not None:
            found.append(checked)
    return found


def _check_given(
    scope: PropertyScope, constants: list[syntax.Constant], given: Mapping[str, Value]
) -> None:
    """Report values for constants that the file does not declare, or that have one already."""
    open_names = [c.name.text for c in constants if c.value is None]
    defined = {c.name.text: c for c in constants if c.value is not None}
    for name in given:
        if name in defined:
            message = f"the constant `{name}` already has a value"
            help_text = f"declare it without one: `const {defined[name].kind} {name};`"
            scope.report("E601", message, defined[name].span, help_text)
        elif name not in open_names and name not in scope.lost_names:
            listed = f"those without a value are {', '.join(open_names)}"
            hint = did_you_mean(name, open_names) or (listed if open_names else None)
            message = f"the file declares no constant `{name}`"
            scope.diagnostics.append(Diagnostic("E601", message, None, hint))


def _declare_constant(
    scope: PropertyScope, constant: syntax.Constant, given: Mapping[str, Value], is_used: bool
) -> None:
    name, kind = constant.name.text, _TYPES[constant.kind]
    if constant.value is not None:
        scope.declare(constant.name, Definition("param", constant.span, syntax=constant.value))
        return
    term: Constant | None = None
    if name in given:
        value = constant_of(name, given[name])
        if value is None or not accepts(kind, value.type):
            message = f"the constant `{name}` must be {kind}, not `{given[name]}`"
            scope.report("E602", message, constant.span)
        else:
            term = Constant(value.value, type=kind, span=constant.span)
    elif is_used:
        help_text = f"give it one here, `const {constant.kind} {name} = …;`, or with `constants=`"
        scope.report("E604", f"the constant `{name}` has no value", constant.span, help_text)
    scope.declare(constant.name, Definition("param", constant.span, term))


def _check_constant(scope: PropertyScope, constant: syntax.Constant) -> None:
    """Evaluate a constant that has a value in the file, and give it the declared type."""
    name, kind = constant.name.text, _TYPES[constant.kind]
    definition = scope.definitions.get(name)
    if constant.value is None or definition is None or definition.span != constant.span:
        return
    term = scope.definition_term(name)
    if term is None:
        return
    if not accepts(kind, term.type):
        scope.report("E301", f"expected {kind}, found {term.type}", constant.value.span)
        return
    assert isinstance(term, Constant)
    scope.override(name, Constant(term.value, type=kind, span=term.span))


def _declare_label(scope: PropertyScope, label: syntax.LabelDefinition) -> None:
    name = label.name.text
    if name in scope.labels or name in ("init", "deadlock"):
        help_text = "choose another name"
        scope.report("E202", f"the label `{name}` already exists", label.name.span, help_text)
        return
    term = scope.term(label.value, PROPERTY, BOOL)
    if term is None:
        scope.lost_names |= {name}
    else:
        scope.labels[name] = term


def _names(node: object) -> Iterator[str]:
    """Return the names in the expressions of a node."""
    match node:
        case nodes.Name():
            yield node.name
        case tuple():
            for part in node:
                yield from _names(part)
        case nodes.Node():
            for field in fields(node):
                yield from _names(getattr(node, field.name))
