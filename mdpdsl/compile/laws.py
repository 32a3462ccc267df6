"""Which lines of a model are laws: their rows are functions of its unknown numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np

from mdpdsl.compile.checked import CheckedModel, Noise, Rule, Spread
from mdpdsl.compile.enclosures import Box
from mdpdsl.compile.noise import OutcomePlan, plan_outcome
from mdpdsl.compile.spreads import spread_at, spread_numbers
from mdpdsl.compile.terms import Term, reads


class Laws:
    """What reads the unknown numbers of a model."""

    def __init__(self, model: CheckedModel) -> None:
        self.model = model
        self._noises = {noise.name for noise in model.noises if noise.terms is not None}

    @cached_property
    def box(self) -> Box:
        """The declared ranges of the unknown numbers."""
        unknowns = self.model.unknowns
        return Box(
            tuple(each.name for each in unknowns),
            np.array([each.low for each in unknowns]),
            np.array([each.high for each in unknowns]),
        )

    @cached_property
    def noises(self) -> tuple[Noise, ...]:
        """The noises as laws read them: none that depends on unknown numbers is a single value.

        How a law integrates its noise must not depend on the values that the model has for its
        unknown numbers, at which a noise may have no width. The numbers of such a noise are its
        terms; those of its spread here mean nothing.
        """
        return tuple(
            noise if noise.family is None else replace(noise, spread=Spread(noise.family, 0.0, 1.0))
            for noise in self.model.noises
        )

    def plan(self, terms: Mapping[str, Term]) -> OutcomePlan:
        """Decide how to integrate each noise of an outcome, for all theta alike."""
        variables = {variable.name: variable for variable in self.model.states.variables}
        return plan_outcome(terms, variables, self.noises)

    def reads_numbers(self, *terms: Term) -> bool:
        """Return whether some terms read an unknown number, or noise that depends on one."""
        return any(
            kind == "unknown" or (kind == "noise" and name in self._noises)
            for term in terms
            for kind, name in reads(term)
        )

    def moves(self, plan: OutcomePlan) -> bool:
        """Return whether the next values of an outcome depend on an unknown number."""
        return bool(self.model.unknowns) and self.reads_numbers(*plan.terms.values())

    def is_law(self, rule: Rule) -> bool:
        """Return whether a line has no `?`, and reads an unknown number."""
        if not self.model.unknowns or any(branch.is_open for branch in rule.branches):
            return False
        return self.reads_numbers(*self.model.equations.values(), *_terms(rule))


def at(model: CheckedModel, values: Mapping[str, float]) -> CheckedModel:
    """Return a model with values for its unknown numbers, in its noise as well."""
    bound = {each.name: values.get(each.name, each.assumed) for each in model.unknowns}
    unknowns = tuple(replace(each, value=bound[each.name]) for each in model.unknowns)
    return replace(
        model, unknowns=unknowns, noises=tuple(_noise_at(noise, bound) for noise in model.noises)
    )


def _noise_at(noise: Noise, values: Mapping[str, float]) -> Noise:
    numbers = None if noise.terms is None else spread_numbers(noise.terms, values)
    if numbers is None or noise.family is None:
        return noise
    return replace(noise, spread=spread_at(noise.family, *numbers))


def _terms(rule: Rule) -> Iterable[Term]:
    for branch in rule.branches:
        if branch.probability is not None:
            yield branch.probability
        yield from branch.updates.values()
