"""The likelihood of raw steps against closed forms, scipy's distributions, and differences."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from scipy import integrate, special, stats

import mdpdsl
from mdpdsl.compile.model import Model
from mdpdsl.estimate.raw_densities import Observed, expected_information, log_density
from mdpdsl.estimate.raw_law import NoRawLaw, raw_law
from mdpdsl.estimate.raw_likelihood import RawLikelihood
from mdpdsl.estimate.raw_misfit import raw_misfit
from mdpdsl.graph.space import FloatArray
from mdpdsl.logs.count import count_logs
from mdpdsl.logs.raw_steps import RawSteps, RawTransitions
from tests.estimate.raw_cases import (
    CLIPPED,
    GYMNASIUM,
    LINEAR,
    MIXED,
    NOISE_IN_A_LET,
    TRUTH,
    UNIFORM,
    WRAPPED,
    fitted,
    law_of,
    likelihood_of,
    numbers_of,
    pendulum_steps,
    steps_of,
)

#: Sums of log-densities agree with scipy's to this relative error.
EXACT = 1e-10
#: Central differences agree with derivatives to this relative error.
DIFFERENCES = 1e-5


def differences(value: Callable[[FloatArray], float], theta: FloatArray) -> FloatArray:
    steps = 1e-6 * np.eye(len(theta))
    return np.array([(value(theta + d) - value(theta - d)) / 2e-6 for d in steps])


# Closed forms


def test_a_linear_law_is_a_regression() -> None:
    rng = np.random.default_rng(1)
    x, action = rng.normal(0, 3, 400), rng.integers(3, size=400)
    u = np.array([-1.0, 0.0, 2.0])[action]
    after = 0.7 * x - 0.4 * u + rng.normal(0, 0.5, 400)
    likelihood = likelihood_of(LINEAR, x, after, action)
    X = np.column_stack([x, u])
    theta = np.linalg.lstsq(X, after, rcond=None)[0]
    assert fitted(likelihood) == pytest.approx(theta, rel=1e-6)
    assert likelihood.value_and_gradient(theta)[1] == pytest.approx([0, 0], abs=1e-8)
    assert likelihood.information(theta) == pytest.approx(X.T @ X / 0.25, rel=EXACT)
    expected = np.sum(stats.norm.logpdf(after, X @ theta, 0.5))
    assert likelihood.value(theta) == pytest.approx(expected, rel=EXACT)
    assert likelihood.n == 400


def test_an_unknown_deviation_has_its_own_information() -> None:
    text = LINEAR.replace("state", "unknown sd in [0.1, 2]\nstate").replace("0.5", "sd")
    rng = np.random.default_rng(2)
    x, action = rng.normal(0, 3, 300), rng.integers(3, size=300)
    after = 0.7 * x + rng.normal(0, 0.5, 300)
    likelihood = likelihood_of(text, x, after, action)
    X = np.column_stack([x, np.array([-1.0, 0.0, 2.0])[action]])
    theta, squares, _, _ = np.linalg.lstsq(X, after, rcond=None)
    best = [*theta, np.sqrt(squares[0] / 300)]
    assert fitted(likelihood) == pytest.approx(best, rel=1e-5)
    information = likelihood.information(np.array(best))
    assert information[2, 2] == pytest.approx(2 * 300 / best[2] ** 2, rel=EXACT)
    assert information[:2, 2] == pytest.approx([0, 0], abs=1e-8)


def test_several_normal_noises_add_up() -> None:
    text = """\
mdp sum
unknown sd in [0, 1]
unknown drift in [-1, 1]
state x in [-50, 50] bins 2
action go
noise v ~ normal(drift, sd)
noise w ~ normal(0.5, 2)
x' = 3 + x/2 - 2*v + w*(1 + x^2)
"""
    rng = np.random.default_rng(3)
    x, after = rng.normal(0, 1, 20), rng.normal(0, 3, 20)
    mean, scale = 3 + x / 2 - 2 * 0.3 + 0.5 * (1 + x**2), np.hypot(2 * 0.7, 2 * (1 + x**2))
    expected = np.sum(stats.norm.logpdf(after, mean, scale))
    found = likelihood_of(text, x, after).value(np.array([0.7, 0.3]))
    assert found == pytest.approx(expected, rel=EXACT)


def test_a_value_at_or_beyond_a_bound_has_the_mass_of_the_tail() -> None:
    x = np.array([0.5, 9.0, 5.0, 9.5, 0.0])
    after = np.array([0.0, 10.0, 6.0, 11.3, -0.2])
    found = likelihood_of(CLIPPED, x, after).value(np.array([0.7, 1.5]))
    mean = x + 0.7
    expected = (
        np.sum(stats.norm.logcdf(0, mean[[0, 4]], 1.5))
        + np.sum(stats.norm.logsf(10, mean[[1, 3]], 1.5))
        + stats.norm.logpdf(6, mean[2], 1.5)
    )
    assert found == pytest.approx(expected, rel=EXACT)


@pytest.mark.parametrize(
    ("update", "low", "high"),
    [("clip(x + drift + w, 2, 7)", 2, 7), ("max(1, x + drift + w)", 1, 10),
     ("min(x + drift + w, 12)", 0, 10)],
)  # fmt: skip
def test_bounds_of_the_model_come_before_those_of_the_range(
    update: str, low: float, high: float
) -> None:
    text = CLIPPED.replace("x + drift + w", update)
    after = np.array([low, high, 5.0])
    found = likelihood_of(text, [3.0, 6.0, 4.0], after).value(np.array([0.5, 2.0]))
    expected = stats.norm.logcdf(low, 3.5, 2) + stats.norm.logsf(high, 6.5, 2)
    assert found == pytest.approx(expected + stats.norm.logpdf(5, 4.5, 2), rel=EXACT)


def test_a_value_beyond_a_bound_of_the_model_contradicts_it() -> None:
    text = CLIPPED.replace("x + drift + w", "clip(x + drift + w, 2, 7)")
    likelihood = likelihood_of(text, [3.0, 3.0], [1.0, 4.0])
    assert likelihood.contradictions.step.tolist() == [0]
    assert likelihood.contradictions.size == pytest.approx([1.0])
    assert raw_misfit(likelihood, np.array([0.0, 1.0])).p_value.tolist() == [0.0]


@pytest.mark.parametrize("sd", [0.15, 0.9, 3.0, 11.0, 25.0])
@pytest.mark.parametrize("speed", [0.4, -13.0])
def test_a_wrapped_density_is_a_sum_over_turns(sd: float, speed: float) -> None:
    rng = np.random.default_rng(4)
    x, turns = rng.uniform(-np.pi, np.pi, 30), rng.integers(-2, 3, 30)
    after = x + speed + rng.normal(0, sd, 30)
    found = likelihood_of(WRAPPED, x + 2 * np.pi * turns, after).value(np.array([speed, sd]))
    shifts = 2 * np.pi * np.arange(-200, 201)[:, None]
    offset = np.mod(after - x - speed, 2 * np.pi)
    expected = np.sum(special.logsumexp(stats.norm.logpdf(offset + shifts, 0, sd), axis=0))
    assert found == pytest.approx(expected, rel=1e-9)


def test_uniform_noise_has_a_constant_density_within_its_ends() -> None:
    x, after = np.array([5.0, 5.0, 1.0]), np.array([6.9, 1.1, 0.0])
    likelihood = likelihood_of(UNIFORM, x, after)
    expected = np.sum(stats.uniform.logpdf([6.9, 1.1], 1, 6)) + stats.uniform.logcdf(0, -3, 6)
    assert likelihood.value(np.array([2.0])) == pytest.approx(expected, rel=EXACT)
    assert likelihood.value(np.array([1.5])) == -np.inf


def test_uniform_noise_on_a_circle_counts_every_turn() -> None:
    text = UNIFORM.replace("[0, 10] bins", "[0, 10] wrap bins")
    found = likelihood_of(text, [5.0], [4.0]).value(np.array([14.0]))
    assert found == pytest.approx(np.log(3 / 30))  # 4 - 10k for k = 0, 1, 2 is in [-23, 7]


# Mixtures


def test_branches_and_discrete_noise_mix_densities() -> None:
    law = law_of(MIXED)
    mode = numbers_of(law.model, "mode")
    before = [[0.0, mode["idle"]]] * 3
    after = [[1.2, mode["busy"]], [-1.0, mode["busy"]], [0.3, mode["idle"]]]
    likelihood = RawLikelihood(law, steps_of(before, after))
    slip, far = 0.3, 2.0
    normal = stats.norm(0, 0.5).pdf
    expected = [
        slip * (0.2 * normal(1.2 + far) + 0.8 * normal(1.2 - far)),
        slip * (0.2 * normal(-1 + far) + 0.8 * normal(-1 - far)),
        (1 - slip) * normal(0.3),
    ]
    theta = np.array([slip, far])
    assert likelihood.value(theta) == pytest.approx(np.log(expected).sum(), rel=EXACT)
    assert likelihood.value_and_gradient(theta)[1] == pytest.approx(
        differences(likelihood.value, theta), rel=DIFFERENCES
    )
    assert len(likelihood.contradictions.step) == 0


def test_certain_branches_are_told_apart_by_where_they_lead() -> None:
    law = law_of(MIXED)
    mode = numbers_of(law.model, "mode")
    before = [[3.0, mode["busy"]]] * 3
    after = [[3.0, mode["idle"]], [4.0, mode["busy"]], [3.4, mode["busy"]]]
    likelihood = RawLikelihood(law, steps_of(before, after))
    expected = np.log(0.25) + np.log(0.75)
    assert likelihood.value(np.array([0.5, 1.0])) == pytest.approx(expected, rel=EXACT)
    assert likelihood.contradictions.step.tolist() == [2]
    misfit = raw_misfit(likelihood, np.array([0.5, 1.0]))
    assert misfit.p_value.tolist() == [0.0]
    assert "no branch leads there" in misfit.words[0]


def test_staying_exactly_is_a_probability_and_no_density() -> None:
    text = """\
mdp stick
unknown stuck in [0, 1]
state x in [-9, 9] bins 4
action go
noise w ~ normal(0, 1)
on go -> stuck: stay | 1 - stuck: x' = x + w
"""
    likelihood = likelihood_of(text, [0.5, 0.5], [0.5, 0.9])
    expected = np.log(0.3) + np.log(0.7) + stats.norm.logpdf(0.4)
    assert likelihood.value(np.array([0.3])) == pytest.approx(expected, rel=EXACT)
    # Outer products of scores; at the maximum they are n/(p(1-p)).
    assert likelihood.information(np.array([0.5])) == pytest.approx(np.array([[8.0]]))


# Certain next values


def with_truth(text: str) -> Model:
    """Return a pendulum whose numbers are known, to simulate it."""
    text = text.replace("unknown damping in [0, 1]", "param damping = 0.1")
    text = text.replace("unknown gain in [1, 5]", "param gain = 3.0")
    return mdpdsl.loads(text + "init theta = pi, omega = 0\n")


def raw_of(text: str, log: object) -> RawTransitions:
    model = mdpdsl.loads(text)
    raw = RawSteps(model.checked, model.graph)
    count_logs(model.checked, model.graph, log, steps=raw)  # type: ignore[arg-type]
    return raw.transitions()


def test_a_next_value_that_follows_from_another_adds_nothing() -> None:
    steps = pendulum_steps(500, seed=5)
    likelihood = RawLikelihood(law_of(GYMNASIUM), steps)
    theta, omega = steps.before.T
    accel = 15 * np.sin(theta) + 2.5 * (steps.action - 2) - 0.4 * omega
    mean = np.clip(omega + 0.05 * accel, -8, 8)
    is_inside = np.abs(steps.after[:, 1]) < 8 - 1e-3
    expected = np.sum(stats.norm.logpdf(steps.after[is_inside, 1], mean[is_inside], 0.1))
    inside = RawLikelihood(
        law_of(GYMNASIUM),
        steps_of(steps.before[is_inside], steps.after[is_inside], steps.action[is_inside]),
    )
    assert inside.value(np.array([0.4, 2.5])) == pytest.approx(expected, rel=EXACT)
    assert len(likelihood.contradictions.step) == 0


def test_a_certain_equation_that_fails_is_reported_and_the_rest_still_counts() -> None:
    steps = pendulum_steps(500, seed=6, dt=0.05)
    text = GYMNASIUM.replace("omega'*dt", "omega'*0.04")
    likelihood = RawLikelihood(law_of(text), steps)
    assert set(likelihood.contradictions.variable.tolist()) == {0}
    assert fitted(likelihood) == pytest.approx(fitted(RawLikelihood(law_of(GYMNASIUM), steps)))
    misfit = raw_misfit(likelihood, TRUTH)
    assert (misfit.p_value == 0).mean() > 0.5
    assert misfit.words[int(np.argmin(misfit.p_value))].startswith(
        "the law excludes a step: theta'"
    )


def test_variables_that_share_a_let_with_noise_see_it_as_a_next_value() -> None:
    head = GYMNASIUM[: GYMNASIUM.index("omega' =")]
    steps = pendulum_steps(300, seed=7)
    found = RawLikelihood(law_of(head + NOISE_IN_A_LET), steps)
    assert len(found.contradictions.step) == 0
    theta = np.array([0.2, 2.9])
    unclipped = GYMNASIUM.replace("clip(omega + accel*dt, -8, 8) + wv", "omega + accel*dt + wv")
    expected = RawLikelihood(law_of(unclipped), steps).value(theta)
    assert found.value(theta) == pytest.approx(expected, rel=EXACT)


def test_a_let_that_the_range_cut_off_is_not_compared() -> None:
    head = GYMNASIUM[: GYMNASIUM.index("omega' =")].replace("[-8, 8]", "[-1, 1]")
    text = head + NOISE_IN_A_LET.replace(
        "clip(omega + accel*dt + wv, -8, 8)", "omega + accel*dt + wv"
    )
    log = mdpdsl.simulate(with_truth(text), steps=1_000, simulate="continuous", seed=18)
    likelihood = RawLikelihood(law_of(text), raw_of(text, log.table()))
    assert (np.abs(likelihood.steps.after[:, 1]) == 1).sum() > 100
    assert len(likelihood.contradictions.step) == 0
    deviations = np.sqrt(np.diag(np.linalg.inv(likelihood.information(TRUTH))))
    assert np.all(np.abs(fitted(likelihood) - TRUTH) < 3 * deviations)


def test_guards_are_judged_at_the_raw_point() -> None:
    text = """\
mdp sides
unknown left in [-5, 5]
unknown right in [-5, 5]
state x in [-10, 10] bins 2
action go
noise w ~ normal(0, 1)
on go when x < 2 -> x' = x + left + w
on go otherwise -> x' = x + right + w
"""
    likelihood = likelihood_of(text, [1.9, 2.1], [3.0, 4.0])
    found = likelihood.value(np.array([1.0, -1.0]))
    expected = np.sum(stats.norm.logpdf([3.0, 4.0], [2.9, 1.1]))
    assert found == pytest.approx(expected, rel=EXACT)


def test_a_step_to_which_no_line_applies_contradicts_the_law() -> None:
    text = """\
mdp part
state x in [-10, 10] bins 2
action go, rest
noise w ~ normal(0, 1)
on go when x < 2 -> x' = x + w
on rest -> stay
"""
    likelihood = likelihood_of(text, [1.0, 3.0, 4.0], [1.0, 3.0, 4.0], [0, 0, 1])
    assert likelihood.contradictions.step.tolist() == [1]
    none = np.empty(0)
    assert likelihood.value(none) == pytest.approx(stats.norm.logpdf(0), rel=EXACT)
    assert likelihood.upper(none, none) == pytest.approx(stats.norm.logpdf(0), rel=EXACT)
    assert likelihood.information(none).shape == (0, 0)


def test_restarts_and_open_lines_are_left_out() -> None:
    text = """\
mdp some
unknown drift in [-5, 5]
state x in [-10, 10] bins 20
action go, try
noise w ~ normal(0, 1)
init x = 0
restart when x > 8
on go -> x' = x + drift + w
on try -> ?: x' = x + w | ?: x' = 0
"""
    likelihood = likelihood_of(text, [1.0, 8.5, 2.0], [1.5, 0.0, 0.0], [0, 0, 1])
    assert likelihood.n == 1
    expected = stats.norm.logpdf(1.5, 2.0)
    assert likelihood.value(np.array([1.0])) == pytest.approx(expected, rel=EXACT)


# Derivatives, information and bounds


NAMES = ("clipped", "odd", "wrapped", "uniform", "mixed", "pendulum")


@cache
def some_likelihoods() -> dict[str, RawLikelihood]:
    rng = np.random.default_rng(8)
    x = rng.uniform(0, 10, 60)
    at_bounds = np.clip(x + 0.5 + rng.normal(0, 2, 60), 0, 10)
    mixed = law_of(MIXED)
    mode = numbers_of(mixed.model, "mode")
    before = np.column_stack([x, np.full(60, mode["idle"])])
    after = np.column_stack([x + rng.normal(0, 1, 60), rng.choice(list(mode.values()), 60)])
    odd = CLIPPED.replace(
        "x + drift + w",
        "max(x, 3*drift)*exp(-drift^2/9) + abs(drift - 1)*sin(drift*x) + w*(1 + sd/x)",
    )
    return {
        "clipped": likelihood_of(CLIPPED, x, at_bounds),
        "odd": likelihood_of(odd, x, at_bounds),
        "wrapped": likelihood_of(WRAPPED, x, at_bounds),
        "uniform": likelihood_of(UNIFORM, x, np.clip(x - 2 * rng.uniform(-1, 6, 60), 0, 10)),
        "mixed": RawLikelihood(mixed, steps_of(before, after)),
        "pendulum": RawLikelihood(law_of(GYMNASIUM), pendulum_steps(200, seed=9)),
    }


@pytest.mark.parametrize("name", NAMES)
def test_gradients_agree_with_differences(name: str) -> None:
    likelihood = some_likelihoods()[name]
    rng = np.random.default_rng(10)
    for _ in range(10):
        share = rng.uniform(0.1, 0.9, len(likelihood.names))
        theta = likelihood.low + share * (likelihood.high - likelihood.low)
        value, gradient = likelihood.value_and_gradient(theta)
        assert value == likelihood.value(theta)
        if np.isfinite(value):
            expected = differences(likelihood.value, theta)
            size = np.abs(expected).max() + 1
            assert gradient == pytest.approx(expected, rel=DIFFERENCES, abs=DIFFERENCES * size)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [1.0, 0.2, 0.01])
def test_bounds_hold_at_all_points_of_a_box(name: str, width: float) -> None:
    likelihood = some_likelihoods()[name]
    rng = np.random.default_rng(11)
    span = likelihood.high - likelihood.low
    for _ in range(8):
        low = likelihood.low + rng.uniform(0, 1 - width, len(span)) * span
        high = low + width * span
        least, most = likelihood.lower(low, high), likelihood.upper(low, high)
        points = low + rng.random((60, len(span))) * (high - low)
        values = [likelihood.value(point) for point in (*points, low, high)]
        assert least <= min(values)
        assert max(values) <= most


@pytest.mark.parametrize("name", ["clipped", "odd", "wrapped", "mixed", "pendulum"])
def test_bounds_close_in_on_the_value_as_boxes_shrink(name: str) -> None:
    likelihood = some_likelihoods()[name]
    span = likelihood.high - likelihood.low
    theta = likelihood.low + 0.4 * span
    value = likelihood.value(theta)
    gaps = []
    for width in (1e-3, 1e-4):
        low, high = theta - width * span, theta + width * span
        gaps.append(likelihood.upper(low, high) - likelihood.lower(low, high))
    assert gaps[1] < 0.2 * gaps[0]
    assert likelihood.upper(theta, theta) == pytest.approx(value, abs=1e-6)
    assert likelihood.lower(theta, theta) == pytest.approx(value, abs=1e-6)


def test_the_bound_of_a_regression_is_its_maximum() -> None:
    rng = np.random.default_rng(12)
    x, action = rng.normal(0, 3, 500), rng.integers(3, size=500)
    u = np.array([-1.0, 0.0, 2.0])[action]
    likelihood = likelihood_of(LINEAR, x, 0.7 * x - 0.4 * u + rng.normal(0, 0.5, 500), action)
    best = likelihood.value(fitted(likelihood))
    assert likelihood.upper(likelihood.low, likelihood.high) == pytest.approx(best, abs=0.01)


@pytest.mark.parametrize("scale", [0.3, 2.0, 8.0])
@pytest.mark.parametrize("period", [None, 10.0])
def test_the_expected_information_is_the_variance_of_the_score(
    scale: float, period: float | None
) -> None:
    low, high = (0.0, 10.0) if period is None else (-np.inf, np.inf)

    def slopes(x: float) -> FloatArray:
        at_low, at_high = np.flatnonzero([x == low]), np.flatnonzero([x == high])
        bounds = np.array([low]), np.array([high])
        seen = Observed(np.array([x]), at_low, at_high, *bounds, period)
        return np.ravel(log_density("normal", seen, np.array([8.0]), np.array([scale])))

    def product(x: float, i: int, j: int) -> float:
        found = slopes(x)
        return float(np.exp(found[0]) * found[i] * found[j])

    expected = []
    for i, j in ((1, 1), (1, 2), (2, 2)):
        inner = integrate.quad(product, 0, 10, (i, j), points=[8.0], limit=200)[0]
        expected.append(inner + (product(0.0, i, j) + product(10.0, i, j)) * (period is None))
    none = np.empty(0, np.int64)
    seen = Observed(np.array([3.0]), none, none, np.array([low]), np.array([high]), period)
    found = np.ravel(expected_information("normal", seen, np.array([8.0]), np.array([scale])))
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-8)


# Laws without such a density


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        ("x' = x*exp(w)\ny' = y", "not of the form m + k*w"),
        ("x' = x + w\ny' = y + w", "share the noise `w`"),
        ("x' = x + w\ny' = y + a*x'", "no noise of its own"),
        ("x' = x + v + w\ny' = y", "only normal ones, or a single uniform one"),
        ("x' = clip(x + w, -a, a)\ny' = y", "a bound that reads unknown numbers"),
        ("x' = x + w*a\ny' = y\nk' = if v > 0 then 1 else 0", "`k` is not real"),
    ],
)
def test_a_law_without_a_product_of_densities_says_why(update: str, reason: str) -> None:
    text = f"""\
mdp other
unknown a in [0, 1]
state x in [-5, 5] bins 2
state y in [-5, 5] bins 2
state k in 0..1
action go
noise w ~ normal(0, 1)
noise v ~ uniform(-1, 1)
{update}
"""
    found = raw_law(mdpdsl.loads(text).checked)
    assert isinstance(found, NoRawLaw)
    assert reason in found.reason


# From a simulated log to numbers


def test_numbers_of_a_simulated_pendulum_are_found_within_their_deviations() -> None:
    log = mdpdsl.simulate(with_truth(GYMNASIUM), steps=5_000, simulate="continuous", seed=16)
    likelihood = RawLikelihood(law_of(GYMNASIUM), raw_of(GYMNASIUM, log.table()))
    theta = fitted(likelihood)
    deviations = np.sqrt(np.diag(np.linalg.inv(likelihood.information(theta))))
    assert likelihood.n == 5_000
    assert len(likelihood.contradictions.step) == 0
    assert np.all(np.abs(theta - TRUTH) < 3 * deviations)
    assert np.all(deviations < [0.05, 0.1])
