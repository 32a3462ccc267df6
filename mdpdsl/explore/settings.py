"""The settings of a run and their defaults, checked once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np

from mdpdsl.diagnostics import SettingsError, did_you_mean

BONUSES = ("paper", "bernstein", "none")
PLANNERS = ("auto", "full", "prioritized")
TARGETS = ("complexity", "uniform")
SIMULATIONS = ("model", "continuous")
RADII = ("paper", "weissman")
FORMULATIONS = ("compact", "full")
PURPOSES = ("parameters",)
CRITERIA = ("a", "d")


@dataclass(frozen=True)
class ExploreSettings:
    """How to explore; None means the algorithm's own default.

    - `horizon`: how many steps to look ahead, None for no limit.
    - `epsilon`: the least value of a visit count, T+ = max(T, epsilon).
    - `beta`: the scale of the Bernstein bonus; by default 2, and 2.5 for tracking.
    - `xi`: the share of maxent's actions that are random.
    - `tolerance`: where value iteration ends, relative to the span of the values.
    - `most_backups`: the most backups of prioritized sweeping per step.
    - `discounts_last`: False for the paper's choice of action, which does not discount the value of
      the next state.
    - `simulate`: what is explored, the finite model or the continuous system that it discretizes,
      seen through its bins.
    - `prior`: what a Dirichlet estimate adds to the count of each successor seen; 0 for the
      empirical estimate.

    For the explorers that plan in episodes (kappa-lp, fw-modest):

    - `backend` and `formulation` of the oracle, and `oracle_seconds`, its time limit per answer.
    - `eta`: half of the least share of visits that every pair receives; by default a hundredth of
      the largest possible.
    - `strict`: refuse an eta that is too large, instead of clipping it.
    - `first_episode`: the steps of the first episode.
    - `radius`: the kind of confidence sets.
    - `smoothing`: of fw-modest's worst case.

    For tracking:

    - `power`: the p of the sum (c/T)^p that it minimises; by default max(1, 1.5 (kappa - 1)).
    - `anytime`: plan for a tenth of the steps done, whatever `steps` is.

    - `purpose`: `parameters` to explore for the model's unknown numbers, by tracking unless another
      algorithm is given; None for the rows of all pairs.
    - `criterion`: of the design for unknown numbers, `a` for the sum of their variances relative to
      their ranges, `d` for the volume of their confidence set.
    - `mix`: the weight of rows with unknown probabilities beside the numbers, each of the two
      losses in units of its own optimum.
    """

    algorithm: str = "kappa-dp"
    kappa: float = 1.0
    horizon: int | None = None
    gamma: float = 0.99
    delta: float = 0.1
    bonus: str | None = None
    steps: int = 100_000
    epsilon: float = 0.1
    beta: float | None = None
    xi: float = 0.1
    target: str = "complexity"
    planner: str = "auto"
    tolerance: float = 1e-3
    most_backups: int | None = None
    discounts_last: bool = True
    simulate: str = "model"
    prior: float = 0.0
    backend: str = "pyomo-highs"
    formulation: str = "compact"
    oracle_seconds: float | None = None
    eta: float | None = None
    strict: bool = False
    first_episode: int = 10
    radius: str = "paper"
    smoothing: float = 10.0
    power: float | None = None
    anytime: bool = False
    purpose: str | None = None
    criterion: str = "a"
    mix: float = 1.0

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        _require(self.kappa >= 1 and math.isfinite(self.kappa), "kappa", self.kappa, "1 or more")
        _require(0 < self.gamma < 1, "gamma", self.gamma, "between 0 and 1")
        _require(0 < self.delta < 1, "delta", self.delta, "between 0 and 1")
        _require(self.steps >= 1, "steps", self.steps, "1 or more")
        _require(0 < self.epsilon <= 1, "epsilon", self.epsilon, "above 0, up to 1")
        if self.beta is not None:
            _require(self.beta >= 0, "beta", self.beta, "0 or more")
        _require(0 <= self.xi <= 1, "xi", self.xi, "between 0 and 1")
        _require(self.prior >= 0 and math.isfinite(self.prior), "prior", self.prior, "0 or more")
        _require(0 < self.tolerance < 1, "tolerance", self.tolerance, "between 0 and 1")
        if self.most_backups is not None:
            _require(self.most_backups >= 1, "most_backups", self.most_backups, "1 or more")
        if self.horizon is not None:
            _require(self.horizon >= 1, "horizon", self.horizon, "1 or more, or inf")
        _require(self.first_episode >= 1, "first_episode", self.first_episode, "1 or more")
        _require(
            self.smoothing > 0 and math.isfinite(self.smoothing),
            "smoothing",
            self.smoothing,
            "positive",
        )
        if self.eta is not None:
            _require(0 <= self.eta <= 0.5, "eta", self.eta, "auto, or between 0 and 0.5")
        if self.oracle_seconds is not None:
            _require(self.oracle_seconds > 0, "oracle_seconds", self.oracle_seconds, "positive")
        if self.power is not None:
            is_power = self.power >= 1 and math.isfinite(self.power)
            _require(is_power, "power", self.power, "auto, or 1 or more")
        _require(self.mix >= 0 and math.isfinite(self.mix), "mix", self.mix, "0 or more")
        _require_one_of("purpose", self.purpose, (*PURPOSES, None))
        _require_one_of("criterion", self.criterion, CRITERIA)
        if self.purpose is None:
            refuse_without_purpose(criterion=self.criterion != "a", mix=self.mix != 1)
        _require_one_of("radius", self.radius, RADII)
        _require_one_of("formulation", self.formulation, FORMULATIONS)
        _require_one_of("bonus", self.bonus, (*BONUSES, None))
        _require_one_of("planner", self.planner, PLANNERS)
        _require_one_of("target", self.target, TARGETS)
        _require_one_of("simulate", self.simulate, SIMULATIONS)

    @property
    def horizon_text(self) -> str:
        """The horizon as text: a number, or `inf`."""
        return "inf" if self.horizon is None else str(self.horizon)


def refuse_without_purpose(**is_given: bool) -> None:
    """Refuse what is about unknown numbers if a run or a plan has no such purpose."""
    for name, is_set in is_given.items():
        if is_set:
            raise SettingsError(
                f"`{name}=` is about unknown numbers; set `purpose=` to {PURPOSES[0]}, too"
            )


def settings_from(*sources: Mapping[str, object]) -> ExploreSettings:
    """Join settings; later sources replace earlier ones, and None leaves a setting as it is."""
    found: dict[str, object] = {}
    known = {field.name for field in fields(ExploreSettings)}
    for source in sources:
        found |= {k: v for k, v in source.items() if v is not None and k in known}
    if found.get("purpose") is not None:
        found.setdefault("algorithm", "tracking")
    if isinstance(found.get("horizon"), str):
        found["horizon"] = parse_horizon(str(found["horizon"]))
    if isinstance(found.get("eta"), str):
        found["eta"] = parse_eta(str(found["eta"]))
    if isinstance(found.get("power"), str):
        found["power"] = parse_power(str(found["power"]))
    for name, value in found.items():
        found[name] = _of_kind(name, value)
    return replace(ExploreSettings(), **found)  # type: ignore[arg-type]


#: The kind of every setting: float, int, str or bool.
_KINDS = {field.name: str(field.type).partition(" ")[0] for field in fields(ExploreSettings)}


def _of_kind(name: str, value: object) -> object:
    """Return a value of a setting's kind, so that 10 and 10.0 are the same in every record."""
    kind = _KINDS[name]
    if isinstance(value, np.generic):
        value = value.item()
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "float" and is_number:
        return float(value)  # type: ignore[arg-type]
    if kind == "int" and is_number and float(value).is_integer():  # type: ignore[arg-type]
        return int(value)  # type: ignore[call-overload]
    is_right = isinstance(value, {"str": str, "bool": bool}.get(kind, type(None)))
    if value is not None and not is_right:
        words = {"float": "a number", "int": "a whole number", "bool": "true or false"}
        raise SettingsError(f"{name} must be {words.get(kind, 'a name')}, not {value!r}")
    return value


def parse_horizon(text: str) -> int | None:
    """Read a horizon: a number, or `inf`."""
    if text == "inf":
        return None
    if not text.isdigit():
        raise SettingsError(f"horizon must be 1 or more, or inf; not `{text}`")
    return int(text)


def parse_eta(text: str) -> float | None:
    """Read an eta: a number, or `auto`."""
    if text == "auto":
        return None
    try:
        return float(text)
    except ValueError:
        raise SettingsError(f"eta must be auto or a number, not `{text}`") from None


def parse_power(text: str) -> float | None:
    """Read a power: a number, or `auto`."""
    if text == "auto":
        return None
    try:
        return float(text)
    except ValueError:
        raise SettingsError(f"power must be auto or a number, not `{text}`") from None


def _require(is_allowed: bool, name: str, value: object, words: str) -> None:
    if not is_allowed:
        raise SettingsError(f"{name} must be {words}, not {value}")


def _require_one_of(name: str, value: str | None, allowed: tuple[str | None, ...]) -> None:
    if value in allowed:
        return
    names = [word for word in allowed if word is not None]
    hint = did_you_mean(str(value), names) or f"there are {', '.join(names)}"
    raise SettingsError(f"unknown {name} `{value}`; {hint}")
