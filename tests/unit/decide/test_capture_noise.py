"""Intervals that hold for other captures: coverage on simulated measurements whose captures differ."""

import math

import numpy as np
import pytest

from evo.decide.capture_noise import ASSUMED, CaptureScatter, between_captures, student_t
from evo.decide.sequential import Comparison, gain_of, judge, noise_floor, widened
from evo.results import Gain

TRUTH = 1.04
ONE = {"a": 1.0}
CAPTURES = tuple(number // 3 for number in range(30))


def taken(rng: np.random.Generator, pairs: int, between: float, within: float, center: float = 0.0) -> list[float]:
    """Log ratios of one capture."""
    return list(center + rng.normal(0, between) + rng.normal(0, within, pairs))


def control(rng: np.random.Generator, between: float, within: float) -> CaptureScatter:
    """An A/A control: ten captures of three pairs."""
    pairs = [{"a": d} for _ in range(10) for d in taken(rng, 3, between, within)]
    return between_captures(pairs, CAPTURES, ONE)


def holds(gain: Gain) -> bool:
    assert gain.low is not None
    assert gain.high is not None
    return gain.low <= TRUTH <= gain.high


@pytest.mark.parametrize(("between", "within"), [(3e-4, 1e-4), (3e-4, 8e-4), (0.0, 5e-4), (2e-3, 2e-4)])
@pytest.mark.parametrize("pairs", [6, 14])
def test_intervals_cover_the_truth_whatever_a_capture_brings(between: float, within: float, pairs: int) -> None:
    rng = np.random.default_rng([pairs, int(between * 1e6)])
    trials, wide, narrow = 500, 0, 0
    for _ in range(trials):
        gain = gain_of(taken(rng, pairs, between, within, -math.log(TRUTH)))
        wide += holds(widened(gain, control(rng, between, within)))
        narrow += holds(gain)
    assert wide / trials >= 0.95 - 2 * math.sqrt(0.05 * 0.95 / trials)
    if between > within:
        assert narrow / trials < 0.7  # what pairs of one capture alone would claim


def test_the_spread_is_of_captures_and_about_zero() -> None:
    pairs = [{"a": 0.001, "b": -0.003}] * 3 + [{"a": -0.001, "b": -0.003}] * 3
    found = between_captures(pairs, (0, 0, 0, 1, 1, 1), {"a": 0.5, "b": 0.5})
    assert found.captures == 2
    assert found.cases == {"a": pytest.approx(0.001), "b": pytest.approx(0.003)}
    assert found.sd == pytest.approx(math.sqrt((0.001**2 + 0.002**2) / 2))
    assert found.half_width(0.05, "b") == pytest.approx(4.3027 * 0.003, rel=1e-4)
    assert ASSUMED.half_width(0.05) == pytest.approx(1.95996 * ASSUMED.sd, rel=1e-4)
    assert CaptureScatter(sd=0.0, timer_step=0.001).half_width(0.01) == 0.001


@pytest.mark.parametrize("alpha", [0.001, 0.01, 0.05, 0.5, 0.99])
def test_quantiles_are_students(alpha: float) -> None:
    from scipy.stats import t  # a second to import, which other processes of tests need not spend

    for freedom in (*range(1, 40), 100, 500):
        assert student_t(freedom, alpha) == pytest.approx(t.ppf(1 - alpha / 2, freedom), rel=1e-10)


def test_the_spread_of_one_case_is_that_of_the_score() -> None:
    pairs = [{"a": 0.001}, {"a": 0.003}, {"a": -0.002}]
    found = between_captures(pairs, (0, 0, 1), {"a": 1.0})
    assert (found.sd, found.captures, found.cases) == (pytest.approx(0.002), 2, {})
    assert found.half_width(0.05, "a") == found.half_width(0.05)
    assert between_captures(pairs[:1], (0,), {"a": 1.0}).sd == pytest.approx(0.001)
    with pytest.raises(ValueError, match="zip"):
        between_captures(pairs, (0, 0), {"a": 1.0})


def test_the_record_rounds_to_seven_digits() -> None:
    between = CaptureScatter(
        sd=0.00012345678, captures=4, cases={"a": 0.00087654321, "b": 0.0}, timer_step=0.00000123456
    )
    assert between.to_json() == {
        "sd": 0.0001235,
        "captures": 4,
        "assumed": False,
        "cases": {"a": 0.0008765, "b": 0.0},
        "timer_step": 0.0000012,
    }
    assert ASSUMED.to_json() == {"sd": 0.0005, "assumed": True, "timer_step": 0.0}


def test_widening_adds_in_squares_to_either_side() -> None:
    gain = widened(
        Gain(ratio=1.0, low=math.exp(-0.003), high=math.exp(0.004)), CaptureScatter(sd=0.0, timer_step=0.004)
    )
    assert gain.low == pytest.approx(math.exp(-0.005))
    assert gain.high == pytest.approx(math.exp(math.hypot(0.004, 0.004)))
    one = CaptureScatter(sd=0.0, timer_step=0.0, captures=3, cases={"a": 0.01})
    assert widened(Gain(ratio=1.0, low=0.99, high=1.01), one) == Gain(
        ratio=1.0, low=pytest.approx(0.99), high=pytest.approx(1.01)
    )
    wide = widened(Gain(ratio=1.0, low=0.99, high=1.01), one, case="a").low
    assert wide == pytest.approx(math.exp(-math.hypot(math.log(0.99), 3.18245 * 0.01)), rel=1e-6)


def test_widening_only_widens_and_keeps_the_estimate() -> None:
    gain = Gain(ratio=1.05, low=1.049, high=1.052)
    wide = widened(gain, CaptureScatter(sd=0.001, captures=10))
    assert wide.ratio == gain.ratio
    assert wide.low is not None
    assert wide.high is not None
    assert wide.low < 1.049
    assert wide.high > 1.052
    assert widened(gain, None) == gain
    assert widened(Gain(ratio=1.05), ASSUMED) == Gain(ratio=1.05)


def test_the_record_says_what_the_intervals_were_widened_by() -> None:
    pairs = tuple({"a": -0.05 + 1e-4 * (n % 3)} for n in range(8))
    alone = judge(Comparison(pairs=pairs, child=(), parent=()), ONE)
    decision = judge(Comparison(pairs=pairs, child=(), parent=(), between=CaptureScatter(sd=0.001, captures=10)), ONE)
    assert decision.verdict is alone.verdict
    assert decision.gain is not None
    assert alone.gain is not None
    assert decision.gain.low is not None
    assert alone.gain.low is not None
    assert decision.gain.low < alone.gain.low
    assert decision.evidence is not None
    assert alone.evidence is not None
    shown = decision.evidence.to_json()["between_captures"]
    assert shown == {"sd": 0.001, "captures": 10, "assumed": False, "timer_step": 0.0}
    assert alone.evidence.between_captures is None


def test_a_control_over_captures_gives_both_spreads() -> None:
    rng = np.random.default_rng(5)
    pairs = [{"a": d} for _ in range(10) for d in taken(rng, 3, 1e-3, 1e-5)]
    floor = noise_floor(pairs, ONE, CAPTURES)
    assert floor.between is not None
    assert floor.between.sd == pytest.approx(1e-3, rel=0.6)
    bare = noise_floor(pairs, ONE)
    assert bare.between is None
    # More pairs of one capture do not bring a margin below what captures differ by.
    assert bare.smallest_margin(10**6) < 1e-5
    assert floor.smallest_margin(10**6) == pytest.approx(3 * floor.between.sd, rel=1e-3)
