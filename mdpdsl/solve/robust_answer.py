"""The robust answer of `solve`: what a policy is guaranteed, what is possible, and what to sample.

The guaranteed value loses, at every visit of a pair, the difference between the worst row that the
data allow and the estimated row. A pair's *weight* is that difference times the expected number of
its visits under the worst rows: to first order, what certainty about its row would add to the
guaranteed value. Sets shrink like 1/sqrt(n), so that one more visit after n adds about 1/(2n) of
the weight. (If nothing is guaranteed, the same is done with the best policy and the best rows.)

Pairs of a law share their weight: a visit of any of them narrows the numbers that rule them all, in
proportion to its information, which is about  sum (high - low)^2 / p  over the entries of its row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mdpdsl.compile.set_model import SetModel
from mdpdsl.graph.describe import pair_text
from mdpdsl.graph.objectives import Average, Cumulative, Discounted, Next, Total, Until
from mdpdsl.graph.policy import Policy
from mdpdsl.graph.row_sets import entry_pairs, row_sums
from mdpdsl.graph.space import BoolArray, FloatArray
from mdpdsl.graph.tables import pair_records
from mdpdsl.kernels.set_rows import SetRows
from mdpdsl.solve.answer import Solution, finite_or_text
from mdpdsl.solve.nature_choice import NatureRows
from mdpdsl.solve.policy_value import expected_visits
from mdpdsl.solve.solution import SolveOutcome, SolveStatus

if TYPE_CHECKING:
    from mdpdsl.solve.robust_family import FamilyFound

#: So many pairs are named at the most, and fewer if they have this share of the whole gain.
MOST_PAIRS, ENOUGH = 12, 0.8
#: A gap that is smaller than this is closed, but for the tolerance of the solution.
CLOSED = 2e-6
#: Visits are counted with this discount if the objective has none.
LOOK_AHEAD = 0.999


@dataclass(frozen=True, eq=False, kw_only=True)
class RobustSolution(Solution):
    """A policy for every model that the data allow: what it guarantees, and what is possible.

    `outcome` is that of the guaranteed value; `lower` and `upper` bound the true optimum.
    """

    set_model: SetModel
    shape: str  # of the sets: intervals, l1 or kl
    best: SolveOutcome  # if nature helps: no policy can exceed its bounds
    estimated: float  # the value of the policy in the estimate
    rows: SetRows  # signed as a maximum
    family: FamilyFound | None = None  # if rows follow a law with unknown numbers

    @property
    def guaranteed(self) -> float:
        """With confidence 1 - delta, the true value of the policy is no worse than this."""
        if self.family is not None:
            return self._asked(self.outcome.value)
        side = self._side(self.outcome, is_lower=not self.minimise)
        return self._at_start(side)[0]

    @property
    def possible(self) -> float:
        """With confidence 1 - delta, the true value of no policy is better than this."""
        if self.family is not None:
            return self._asked(self.best.value)
        side = self._side(self.best, is_lower=self.minimise)
        return self._at_start(side)[0]

    def written(self, guaranteed: float) -> str:
        """Return a guaranteed value with six digits, rounded such that it is guaranteed."""
        return outward_text(guaranteed, not self.minimise)

    @property
    def guaranteed_text(self) -> str:
        """The guaranteed value with six digits, rounded such that it is guaranteed."""
        return self.written(self.guaranteed)

    @property
    def possible_text(self) -> str:
        """The possible value with six digits, rounded such that no policy is better."""
        return outward_text(self.possible, self.minimise)

    @property
    def value(self) -> float:
        """The guaranteed value."""
        return self.guaranteed

    @property
    def estimate(self) -> float:
        """The value of the policy in the estimated model."""
        return 1.0 - self.estimated if self.question.is_complement else self.estimated

    @property
    def delta(self) -> float:
        """The risk that the true model is not among those that the data allow."""
        return self.set_model.delta

    @property
    def lower(self) -> float:
        """With confidence 1 - delta, the true optimum is not below this."""
        return min(self.guaranteed, self.possible)

    @property
    def upper(self) -> float:
        """With confidence 1 - delta, the true optimum is not above this."""
        return max(self.guaranteed, self.possible)

    @property
    def bound(self) -> float:
        """How far the guaranteed values may be from the best that any policy is guaranteed."""
        return self.outcome.bound

    @property
    def rests_on_unseen(self) -> int:
        """0: what was never visited is in the sets."""
        return 0

    @property
    def policy_rests_on_unseen(self) -> int:
        """0: what was never visited is in the sets."""
        return 0

    @property
    def bound_text(self) -> str:
        """The bound and what it is about, in a few words."""
        return f"{self.bound:.2g} (of the guaranteed values; the data's uncertainty is in them)"

    @property
    def values(self) -> FloatArray:
        """What the policy is guaranteed from every state, [n_states]."""
        return self._side(self.outcome, is_lower=not self.minimise)

    @property
    def is_optimal(self) -> bool:
        """Whether both values are within the tolerance of the best."""
        return all(o.status is SolveStatus.OPTIMAL for o in (self.outcome, self.best))

    @cached_property
    def optimistic_policy(self) -> Policy:
        """The policy that is best if nature helps; exploring by it closes the gap."""
        return Policy.deterministic(self.model.name, self.model.graph, self.best.choice)

    @cached_property
    def gains(self) -> FloatArray:
        """What one more visit of a pair adds to the guaranteed value, about, [n_pairs]."""
        found = self._weights(self.outcome, -1.0)
        if not found.max(initial=0.0) > 0:
            found = self._weights(self.best, 1.0)
        visits = np.maximum(self.set_model.visits, 0.5)
        gains = np.asarray(found / (2 * visits))
        if self.set_model.numbers is not None:
            law, information = self.set_model.numbers.family.pairs, self._information()
            known = float(visits[law] @ information[law])
            if known > 0:
                gains[law] = found[law].sum() * information[law] / (2 * known)
        return gains

    @cached_property
    def pairs_to_visit(self) -> list[int]:
        """The pairs on which more data would close the gap fastest, best first."""
        order = np.argsort(-self.gains, kind="stable")
        total = np.cumsum(self.gains[order])
        if not len(total) or not total[-1] > 0:
            return []
        n = int(np.searchsorted(total, ENOUGH * total[-1])) + 1
        return [int(pair) for pair in order[: min(n, MOST_PAIRS)] if self.gains[pair] > 0]

    @property
    def sentence(self) -> str:
        """The answer in words."""
        confidence = f"{100 * (1 - self.delta):.6g} %"
        best = f"no policy can do better than {_rounded(self.possible, self.minimise)}."
        aim, what = self._aim()
        numbers = self.set_model.numbers
        if numbers is not None:
            what += f", for {numbers.every}"
        if math.isinf(self.guaranteed) and self.guaranteed == self.possible:
            whose = "every policy" if (self.guaranteed > 0) == self.minimise else "this policy"
            text = f"With {confidence} confidence {whose} has an infinite expected reward{what}."
            return " ".join([text, *self._caveats])
        if self.question.for_all:
            low, high = _rounded(self.lower, True), _rounded(self.upper, False)
            worst = (
                f"at least {low}; there is one that has at most {high}"
                if self.minimise
                else f"at most {high}; there is one that has at least {low}"
            )
            text = f"With {confidence} confidence every policy {aim} {worst}{what}."
        elif self._guarantees_nothing:
            nothing = "The data guarantee nothing yet."
            if self.outcome.status is SolveStatus.STOPPED:
                nothing = "The search stopped before anything was proved to be guaranteed."
            text = f"{nothing} With {confidence} confidence {best}"
        else:
            least = "at most" if self.minimise else "at least"
            value = _rounded(self.guaranteed, not self.minimise)
            text = f"With {confidence} confidence this policy {aim} {least} {value}{what}; {best}"
        text = " ".join([text, *self._caveats])
        n = len(self.pairs_to_visit)
        size = max(1.0, abs(self.guaranteed))
        if n == 0 or abs(self.possible - self.guaranteed) <= CLOSED * size:
            return text
        pairs = "this pair" if n == 1 else f"these {n} pairs"
        if numbers is not None and np.isin(self.pairs_to_visit, numbers.family.pairs).all():
            pairs = f"{' and '.join(numbers.names)}, for example from {pairs},"
        return f"{text} More data on {pairs} would close the gap fastest."

    @property
    def _caveats(self) -> list[str]:
        """What the confidence does not cover, a sentence each."""
        numbers = self.set_model.numbers
        caveat = None if numbers is None else numbers.caveat
        unproved = None if caveat is None else f"But {caveat}."
        return [text for text in (unproved, self.warning) if text is not None]

    @property
    def pair_lines(self) -> list[str]:
        """The pairs to visit in words, with the visits that they have."""
        graph, visits = self.model.graph, self.set_model.visits
        return [
            f"{pair_text(graph, pair)} ({_visits(int(visits[pair]))})"
            for pair in self.pairs_to_visit
        ]

    @property
    def sets_text(self) -> str:
        """The sets in a few words."""
        sets, numbers = self.set_model, self.set_model.numbers
        if numbers is not None:
            how = f"({sets.kind}, delta = {sets.delta:g}), one value for all rows"
            rest = f"; other rows: intervals, support {sets.support}" * numbers.has_open_rows
            caveat = "" if numbers.caveat is None else f"; {numbers.caveat}"
            return f"{numbers.described} {how}{rest}; they hold {sets.holds}{caveat}"
        named = f"{sets.kind} {self.shape}, delta = {sets.delta:g}, support {sets.support}"
        return f"{named}; they hold {sets.holds}"

    @property
    def warning(self) -> str | None:
        """What is wrong if the data contradict the law that the guarantee rests on."""
        return self.set_model.warning

    def record(self) -> dict[str, Any]:
        """Return the results as `--json` prints them."""
        sets = self.set_model
        listed = pair_records(self.model.graph, self.pairs_to_visit, {"gain": self.gains})
        return super().record() | {
            "bound_of": "sets",
            "guaranteed": finite_or_text(self.guaranteed),
            "possible": finite_or_text(self.possible),
            "estimate": finite_or_text(self.estimate),
            "delta": sets.delta,
            "sets": sets.kind,
            "support": sets.support,
            "shape": self.shape,
            "holds_when": sets.holds,
            "sentence": self.sentence,
            "pairs_to_visit": [
                row | {"visits": int(sets.visits[pair])}
                for pair, row in zip(self.pairs_to_visit, listed, strict=True)
            ],
            **self._number_record(),
        }

    def _number_record(self) -> dict[str, Any]:
        """Return the unknown numbers of a record; nothing if rows have no law."""
        numbers, family = self.set_model.numbers, self.family
        misfit: dict[str, Any] = {"misfit": self.set_model.misfit, "warning": self.warning}
        if self.set_model.unfitted:
            misfit["unfitted"] = list(self.set_model.unfitted)
        if numbers is None or family is None:
            return misfit if self.warning is not None else {}
        names = ("value", "low", "high", "worst", "best")
        columns = (numbers.theta_hat, *numbers.hull, family.worst, family.best)
        return {
            "numbers": [
                {"name": name, **dict(zip(names, map(float, row), strict=True))}
                for name, *row in zip(numbers.names, *columns, strict=True)
            ],
            "proved": numbers.is_proved,
            "cells": family.n_cells,
            **misfit,
        }

    def __repr__(self) -> str:
        between = f"guaranteed {self.guaranteed:.6g}, possible {self.possible:.6g}"
        return f"<RobustSolution of {self.model.name}, {self.described}: {between}>"

    def _side(self, outcome: SolveOutcome, *, is_lower: bool) -> FloatArray:
        """Return the lower or the upper bound of the value asked for, [n_states]."""
        lower, upper = outcome.lower, outcome.upper
        if self.question.is_complement:
            lower, upper = 1.0 - upper, 1.0 - lower
        return lower if is_lower else upper

    def _weights(self, outcome: SolveOutcome, sense: float) -> FloatArray:
        """Return what certainty about the row of each pair would add, [n_pairs]."""
        graph, objective = self.model.graph, self.question.objective
        sign = -1.0 if self.question.is_minimised else 1.0
        values = sign * outcome.values
        if isinstance(objective, Next):
            values = sign * objective.goal.astype(np.float64)
        if not np.isfinite(values).all():
            values = np.where(np.isfinite(values), values, 0.0)
        discount, look_ahead = 1.0, 0.0 if isinstance(objective, Next) else LOOK_AHEAD
        if isinstance(objective, Discounted):
            discount = look_ahead = objective.discount
        chosen = NatureRows.best(self.rows, values, sense, discount)
        allowed = chosen.worth(discount * values)
        P, gain = self._estimated_rows()
        has_estimate = np.diff(P.indptr) > 0
        certain = np.where(has_estimate, P @ (discount * values) + gain, allowed)
        if self.set_model.numbers is None:
            unseen = self.set_model.visits == 0
            certain[unseen] = (graph.transition_matrix() @ (discount * values))[unseen]
        visits = expected_visits(
            graph, outcome.choice, chosen.start, chosen.state, chosen.p, self._active(), look_ahead
        )
        return np.maximum(-sense * (certain - allowed), 0.0) * visits

    def _information(self) -> FloatArray:
        """Return about how much a visit of each pair says of the numbers, [n_pairs]."""
        rows = self.rows
        pair = entry_pairs(rows.row_start)
        p = np.asarray(self.model.graph.transition_matrix()[pair, rows.target]).ravel()
        return row_sums(pair, (rows.high - rows.low) ** 2 / np.maximum(p, 1e-3), len(rows.constant))

    def _estimated_rows(self) -> tuple[Any, FloatArray]:
        from scipy.sparse import csr_array

        sets, rows = self.set_model.sets, self.rows
        if self.set_model.numbers is not None:
            P = self.model.graph.transition_matrix()
            pair = entry_pairs(rows.row_start)
            listed = np.asarray(P[pair, rows.target]).ravel()
            return P, row_sums(pair, listed * rows.gain, len(rows.constant))
        shape = (len(sets.kl), self.model.graph.n_states)
        P = csr_array((sets.estimate, sets.successor, sets.successor_start), shape=shape)
        gain = np.zeros(len(sets.kl))
        if len(rows.gain) == len(sets.estimate):
            pair = np.repeat(np.arange(len(gain)), np.diff(sets.successor_start))
            gain = row_sums(pair, sets.estimate * rows.gain, len(gain))
        elif np.any(rows.gain != 0):  # every state is listed there
            pair = np.repeat(np.arange(len(gain)), np.diff(rows.row_start))
            P_listed = np.asarray(P[pair, rows.target]).ravel()
            gain = row_sums(pair, P_listed * rows.gain, len(gain))
        return P, gain

    def _active(self) -> BoolArray:
        """Return the states before the goal, where the rows still matter, [n_states]."""
        graph, objective = self.model.graph, self.question.objective
        active = np.diff(graph.pair_start) > 0
        if isinstance(objective, Until | Total):
            active &= ~objective.goal
        if isinstance(objective, Until) and objective.allowed is not None:
            active &= objective.allowed
        return active

    @property
    def _guarantees_nothing(self) -> bool:
        """Whether the guaranteed value is the worst that there is, though better is possible."""
        is_probability = isinstance(self.question.objective, Until | Next)
        worst = math.inf if self.minimise else -math.inf
        if is_probability:
            worst = 1.0 if self.minimise else 0.0
        return self.guaranteed == worst != self.possible

    def _aim(self) -> tuple[str, str]:
        """Return what the policy does, and what follows the number."""
        objective, flags, question = self.question.objective, self.flags, self.question
        if flags is not None and flags.reach is not None:
            soon = "" if flags.within is None else f" within {flags.within:,} steps"
            avoiding = "" if flags.avoid is None else f" without {flags.avoid}"
            return f"reaches {flags.reach}{soon}{avoiding} with probability", ""
        path = question.text.partition("[")[2].rpartition("]")[0].strip()
        if isinstance(objective, Until | Next):
            return f"satisfies {path} with probability", ""
        reward = "" if question.reward in (None, "default") else f" ({question.reward})"
        if isinstance(objective, Average):
            return "has an average reward of", f"{reward} per step in the long run"
        if isinstance(objective, Total):
            goal = path.removeprefix("F ") if flags is None else flags.total
            span = f" until {goal}" if path.startswith("F ") else " in total"
        elif isinstance(objective, Cumulative):
            span = f" in {objective.steps:,} steps"
        else:
            span = f", discounted by {objective.discount:.12g}"
        return "has an expected reward of", f"{reward}{span}"


def _rounded(value: float, is_lower: bool) -> str:
    """Return a bound with a few digits, rounded such that it remains one."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 2)
    steps = math.floor(value / unit + 1e-9) if is_lower else math.ceil(value / unit - 1e-9)
    return f"{steps * unit:.3g}"


def outward_text(value: float, is_lower: bool) -> str:
    """Return a bound with six digits, rounded such that it remains one."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    text = f"{value:.6g}"
    if (float(text) > value) if is_lower else (float(text) < value):
        digits = 5 - math.floor(math.log10(abs(value)))
        step = Decimal(1).scaleb(-digits)
        way = ROUND_FLOOR if is_lower else ROUND_CEILING
        text = f"{float(Decimal(value).quantize(step, rounding=way)):.6g}"
    return text


def _visits(n: int) -> str:
    return "never visited" if n == 0 else "1 visit" if n == 1 else f"{n:,} visits"
