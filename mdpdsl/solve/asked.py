"""What is asked of a model, by flags: the property that they mean.

reach="goal"                                Pmax=? [ F "goal" ]
reach="goal", avoid="hole", within=20       Pmax=? [ !"hole" U<=20 "goal" ]
total="goal", reward="energy"               R{"energy"}max=? [ F "goal" ]
horizon=20                                  Rmax=? [ C<=20 ]
average=True                                Rmax=? [ S ]
discount=0.95                               Rmax=? [ Cdiscount=0.95 ]
"""

from __future__ import annotations

from dataclasses import dataclass

from mdpdsl.diagnostics import SolveError
from mdpdsl.graph.transition_graph import TransitionGraph
from mdpdsl.solve.discounted import DISCOUNT, checked_reward
from mdpdsl.solve.reachability import goal_states


@dataclass(frozen=True)
class Flags:
    """What is asked without writing a property; None and False ask for nothing."""

    discount: float | None = None
    reach: str | None = None
    avoid: str | None = None
    within: int | None = None
    reward: str | None = None
    total: str | None = None
    horizon: int | None = None
    average: bool = False

    @property
    def given(self) -> list[str]:
        """The names of the flags that are given."""
        return [name for name, value in vars(self).items() if value not in (None, False)]

    def property_text(self, graph: TransitionGraph, is_minimised: bool) -> str:
        """Return the property; raise SolveError if the flags contradict each other."""
        self._require_one_question()
        best = "min" if is_minimised else "max"
        if self.reach is not None:
            goal = _label(graph, self.reach)
            bound = "" if self.within is None else f"<={_steps('within', self.within)}"
            path = f"F{bound} {goal}"
            if self.avoid is not None:
                path = f"!{_label(graph, self.avoid)} U{bound} {goal}"
            return f"P{best}=? [ {path} ]"
        if self.reward is None:
            checked_reward(graph, None)
        name = "" if self.reward is None else f'{{"{self.reward}"}}'
        if self.total is not None:
            path = f"F {_label(graph, self.total)}"
        elif self.horizon is not None:
            path = f"C<={_steps('horizon', self.horizon)}"
        elif self.average:
            path = "S"
        else:
            path = f"Cdiscount={_rate(self.discount)!r}"
        return f"R{name}{best}=? [ {path} ]"

    def described(self, is_minimised: bool) -> str:
        """Return the question in words."""
        best = "minimal" if is_minimised else "maximal"
        earned = "reward" if self.reward is None else f"reward {self.reward}"
        if self.reach is not None:
            avoiding = "" if self.avoid is None else f", avoiding {self.avoid}"
            soon = "" if self.within is None else f" within {self.within:,} steps"
            return f"{best} probability of reaching {self.reach}{soon}{avoiding}"
        if self.total is not None:
            return f"{best} {earned} until {self.total}"
        if self.horizon is not None:
            return f"{best} {earned} in {self.horizon:,} steps"
        if self.average:
            return f"{best} long-run average of the {earned}"
        return f"{best} {earned}, discount {_rate(self.discount):.12g}"

    def _require_one_question(self) -> None:
        if self.reach is not None and self.discount is not None:
            raise SolveError(
                "`reach=` asks for a probability, which is not discounted; leave out `discount=`"
            )
        questions = ("reach", "total", "horizon", "average", "discount")
        asked = [name for name in questions if name in self.given]
        if len(asked) > 1:
            named = " and ".join(f"`{name}=`" for name in asked)
            raise SolveError(f"{named} ask for different things; give one of them")
        if self.reach is None:
            for name in ("avoid", "within"):
                if name in self.given:
                    raise SolveError(f"`{name}=` limits how a label is reached; give `reach=`, too")
        elif self.reward is not None:
            raise SolveError("`reach=` asks for a probability, not for a reward")


def _label(graph: TransitionGraph, name: str) -> str:
    goal_states(graph, name)  # raises if there is none
    return f'"{name}"'


def _steps(name: str, number: int) -> int:
    if number < 0:
        raise SolveError(f"`{name}=` is a number of steps, not {number}")
    return number


def _rate(discount: float | None) -> float:
    rate = DISCOUNT if discount is None else float(discount)
    if not 0 <= rate < 1:
        raise SolveError(
            f"the discount {rate:g} is not in [0, 1): an infinite sum of rewards needs a discount "
            "below 1, such as 0.99; without one, ask for `average=`, `horizon=` or `total=`"
        )
    return rate
