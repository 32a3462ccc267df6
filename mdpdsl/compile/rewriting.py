"""Terms made of other terms: parts replaced, or evaluated beforehand."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import replace

from mdpdsl.compile.expressions import Array, Frame, evaluate
from mdpdsl.compile.terms import Apply, Choose, Constant, Logic, Named, Read, Term, reads

#: The kind of what `Known` evaluated beforehand, as expressions read it.
KNOWN = "known"


class Rewriting:
    """Rewrites terms; definitions that terms share stay shared."""

    def __init__(self, change: Callable[[Term], Term | None]) -> None:
        self._change = change
        self._definitions: dict[int, tuple[Term, Term]] = {}  # by id; both are kept alive

    def __call__(self, term: Term) -> Term:
        """Replace the outermost parts for which the change is not None."""
        changed = self._change(term)
        if changed is not None:
            return changed
        match term:
            case Apply():
                return replace(term, arguments=tuple(map(self, term.arguments)))
            case Logic():
                return replace(term, operands=tuple(map(self, term.operands)))
            case Choose():
                cases = tuple((self(condition), self(value)) for condition, value in term.cases)
                return replace(term, cases=cases, otherwise=self(term.otherwise))
            case Named():
                definition = self._defined(term.definition)
                return replace(term, definition=definition, definition_reads=reads(definition))
        return term

    def _defined(self, definition: Term) -> Term:
        key = id(definition)
        if key not in self._definitions:
            self._definitions[key] = definition, self(definition)
        return self._definitions[key][1]


class Known:
    """Evaluates the parts of terms that read no unknown number, once and for all."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._rewriting = Rewriting(self._evaluated)
        self.values: MutableMapping[tuple[str, str], Array] = {}

    def __call__(self, term: Term) -> Term:
        """Return a term that reads unknown numbers and `values` only."""
        return self._rewriting(term)

    def _evaluated(self, term: Term) -> Term | None:
        if isinstance(term, Constant) or any(kind == "unknown" for kind, _ in reads(term)):
            return None
        name = str(len(self.values))
        self.values[KNOWN, name] = evaluate(term, self._frame).values
        return Read(KNOWN, name, type=term.type, span=term.span)
