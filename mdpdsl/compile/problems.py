"""Errors that occur only in certain states: collected as arrays, reported with an example state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from mdpdsl.diagnostics import Diagnostic, Span, Witness
from mdpdsl.graph.space import ActionSpace, BoolArray, FloatArray, IntArray, Product


@dataclass(frozen=True, eq=False)
class _Occurrence:
    codes: IntArray  # [n]  states in which it occurs
    values: FloatArray  # [n]  the number in the message, for each state
    message: Callable[[float], str]
    action: int | None
    help: str | None
    related: Span | None


@dataclass(eq=False)
class Problems:
    """The errors found in states, by code and position in the file.

    A line within `single_action_spans` names its only action itself.
    """

    states: Product
    actions: ActionSpace
    single_action_spans: tuple[Span, ...] = ()
    _found: dict[tuple[str, Span], list[_Occurrence]] = field(default_factory=dict)

    def add(
        self,
        code: str,
        span: Span,
        message: str | Callable[[float], str],
        codes: IntArray,
        *,
        values: FloatArray | None = None,
        action: int | None = None,
        help_text: str | None = None,
        related: Span | None = None,
    ) -> None:
        """Record an error in some states."""
        say = (lambda _value: message) if isinstance(message, str) else message
        numbers = np.zeros(len(codes)) if values is None else values
        occurrence = _Occurrence(codes, numbers, say, action, help_text, related)
        self._found.setdefault((code, span), []).append(occurrence)

    def another(self) -> Problems:
        """Return an empty collection for the same model."""
        return Problems(self.states, self.actions, self.single_action_spans)

    def adopt(self, other: Problems) -> None:
        """Add the errors of another collection."""
        if other is self:
            return
        for key, occurrences in other._found.items():
            self._found.setdefault(key, []).extend(occurrences)

    def codes(self) -> IntArray:
        """Return the states with errors, ascending."""
        found = [o.codes for occurrences in self._found.values() for o in occurrences]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *found]))

    def diagnostics(self, is_state: Callable[[IntArray], BoolArray]) -> list[Diagnostic]:
        """Return one diagnostic per code and position, for errors in states of the model."""
        found = []
        for (code, span), occurrences in self._found.items():
            kept = [(o, is_state(o.codes)) for o in occurrences]
            codes = np.unique(np.concatenate([o.codes[mask] for o, mask in kept]))
            if len(codes) == 0:
                continue
            for occurrence, mask in kept:
                place = np.flatnonzero(mask & (occurrence.codes == codes[0]))
                if len(place):
                    n_others = len(codes) - 1
                    found.append(self._report(code, span, occurrence, int(place[0]), n_others))
                    break
        return found

    def _report(
        self, code: str, span: Span, occurrence: _Occurrence, place: int, n_others: int
    ) -> Diagnostic:
        action = occurrence.action
        label = self.actions.labels[action] if action is not None else None
        is_obvious = any(s.start <= span.start < s.end for s in self.single_action_spans)
        state = self.states.native(int(occurrence.codes[place]))
        return Diagnostic(
            code,
            occurrence.message(float(occurrence.values[place])),
            span,
            occurrence.help,
            Witness(state, label, n_others, is_action_shown=not is_obvious),
            occurrence.related,
        )
