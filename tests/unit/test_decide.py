"""Decisions: false keeps under hostile noise, power, exact intervals, guards, and the modelled rule."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from evo import decide
from evo.decide import (
    Comparison,
    Rule,
    Sequential,
    confirm,
    decide_modelled,
    judge,
    noise_floor,
    require_same,
    too_fast,
)
from evo.errors import HarnessFault
from evo.hardware import L4
from evo.result import CaseBench, Environment, Estimate, Timing, Verdict

ONE = {"a": 1.0}


def pair_noise(rng: np.random.Generator, pairs: int) -> np.ndarray:
    """Log ratios of a program with itself: white noise, residual drift, clock steps inside a pair, and spikes."""
    drift = np.empty(pairs * 2)
    level = 0.0
    for i, kick in enumerate(rng.normal(0, 0.01, pairs * 2)):
        level = 0.9 * level + kick
        drift[i] = level
    if rng.random() < 0.3:
        drift[rng.integers(pairs * 2) :] += 0.05
    blocks = drift + rng.normal(0, 0.006, pairs * 2) + (rng.random(pairs * 2) < 0.02) * 0.2
    first, second = blocks[::2], blocks[1::2]
    swapped = rng.random(pairs) < 0.5
    return np.where(swapped, first - second, second - first)


def stage(rng: np.random.Generator, ratio: float, rule: Rule) -> tuple[Verdict, int]:
    sequence = Sequential(ONE, rule)
    for noise in pair_noise(rng, rule.max_pairs):
        if sequence.add({"a": math.log(ratio) + noise}):
            break
    assert sequence.verdict is not None
    return sequence.verdict, len(sequence.combined)


def keep_rate(ratio: float, trials: int, seed: int) -> tuple[float, float]:
    rng = np.random.default_rng(seed)
    kept, pairs = 0, 0
    for _ in range(trials):
        verdict, used = stage(rng, ratio, Rule())
        kept += verdict is Verdict.KEEP
        pairs += used
    return kept / trials, pairs / trials


def test_equal_programs_are_not_kept() -> None:
    assert keep_rate(1.0, 1000, 1)[0] <= 0.01


@pytest.mark.long
def test_equal_programs_are_not_kept_in_five_thousand() -> None:
    assert keep_rate(1.0, 5000, 2)[0] <= 0.01


def test_a_gain_at_the_margin_is_kept_no_more_often_than_alpha() -> None:
    assert keep_rate(0.97, 400, 3)[0] <= 0.025  # alpha is 0.01; 400 trials of it give at most ten nearly always


def test_a_gain_of_five_percent_is_kept_in_few_pairs() -> None:
    rate, pairs = keep_rate(0.95, 400, 4)
    assert rate >= 0.95
    assert pairs <= 20


def test_a_loss_is_reverted_quickly() -> None:
    rate, pairs = keep_rate(1.05, 200, 5)
    assert rate == 0
    assert pairs <= 8


def test_eight_pairs_are_the_shortest_keep_and_six_the_shortest_revert() -> None:
    sequence = Sequential(ONE)
    verdicts = [sequence.add({"a": -0.1}) for _ in range(8)]
    assert verdicts == [None] * 7 + [Verdict.KEEP]
    sequence = Sequential(ONE)
    verdicts = [sequence.add({"a": 0.0}) for _ in range(6)]
    assert verdicts == [None] * 5 + [Verdict.REVERT]


def test_undecided_runs_end_inconclusive() -> None:
    sequence = Sequential(ONE)
    for number in range(60):
        verdict = sequence.add({"a": -0.1 if number % 2 else 0.0})
    assert verdict is Verdict.INCONCLUSIVE
    assert "neither shown nor ruled out" in sequence.reason


def test_a_case_that_loses_reverts_a_gain_elsewhere() -> None:
    score = {"big": 1.0, "small": 1.0}
    sequence = Sequential(score)
    for _ in range(20):
        verdict = sequence.add({"big": -0.4, "small": 0.05})
        if verdict:
            break
    assert verdict is Verdict.REVERT
    assert sequence.losing == "small"
    # A case of weight zero is held to the same bound.
    sequence = Sequential({"big": 1.0, "small": 0.0})
    for _ in range(20):
        verdict = sequence.add({"big": -0.4, "small": 0.05})
    assert verdict is Verdict.REVERT


def test_weights_follow_the_score() -> None:
    sequence = Sequential({"a": 3.0, "b": 1.0})
    sequence.add({"a": -0.4, "b": 0.0})
    assert sequence.combined == [pytest.approx(-0.3)]


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=60))
def test_evidence_for_and_against_never_grow_together(ratios: list[float]) -> None:
    sequence = Sequential(ONE)
    for ratio in ratios:
        before = (sequence._gain.below, sequence._gain.above)
        if sequence.add({"a": ratio}):
            break
        assert not (sequence._gain.below > before[0] and sequence._gain.above > before[1])


def test_a_bad_pair_is_a_harness_fault() -> None:
    with pytest.raises(HarnessFault, match="lacks the case"):
        Sequential(ONE).add({"b": 0.0})
    with pytest.raises(HarnessFault, match="not a number"):
        Sequential(ONE).add({"a": float("nan")})
    with pytest.raises(ValueError, match="not a decision rule"):
        Rule(alpha=0.0)


@pytest.mark.parametrize("n", [5, 6, 8, 12, 20, 60])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
def test_the_signed_rank_interval_is_exact(n: int, alpha: float) -> None:
    rank = decide.signed_rank_rank(n, alpha)
    counts = np.zeros(n * (n + 1) // 2 + 1)
    counts[0] = 1
    for r in range(1, n + 1):
        counts[r:] = counts[r:] + counts[: len(counts) - r].copy()
    below = np.cumsum(counts) / 2.0**n
    assert rank == int((below <= alpha / 2).sum())
    if n == 12 and alpha == 0.05:  # 14 in every printed table (critical value 13)
        assert rank == 14


def test_the_interval_agrees_with_scipy_and_covers() -> None:
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(300):
        values = rng.normal(-0.05, 0.01, 10)
        gain = decide.gain_of(list(values))
        assert gain.low is not None
        assert gain.high is not None
        hits += gain.low <= math.exp(0.05) <= gain.high
        at_low = scipy.stats.wilcoxon(values + math.log(gain.low) - 1e-12, method="exact").pvalue
        assert at_low <= 0.1
    assert hits / 300 >= 0.92


def timing(p50: float, p90: float | None = None, p99: float | None = None, samples: int = 1000) -> Timing:
    return Timing(
        p50_us=p50, p90_us=p90 or p50 * 1.02, p99_us=p99 or p50 * 1.05, mean_us=p50, std_us=0.1, samples=samples
    )


def measured(p50: float, **more: float) -> tuple[CaseBench, ...]:
    return (CaseBench(name="a", warm=timing(p50, **more)),)  # type: ignore[arg-type]


def comparison(ratio: float, pairs: int = 60, child: tuple[CaseBench, ...] = (), seed: int = 1) -> Comparison:
    rng = np.random.default_rng(seed)
    taken = tuple({"a": math.log(ratio) + d} for d in rng.normal(0, 0.004, pairs))
    return Comparison(pairs=taken, parent=measured(10.0), child=child or measured(10.0 * ratio))


def test_a_keep_is_confirmed_and_reports_the_second_estimate_only() -> None:
    first = judge(comparison(0.80), ONE)
    assert first.verdict is Verdict.KEEP
    assert first.gain is not None
    assert not first.gain.confirmed
    final = confirm(first, comparison(0.85, seed=2), ONE)
    assert final.verdict is Verdict.KEEP
    assert final.gain is not None
    assert final.gain.confirmed
    assert final.gain.ratio == pytest.approx(1 / 0.85, rel=0.01)
    assert final.gain.low is not None
    assert final.gain.low < final.gain.ratio
    assert "confirmed in a fresh process" in final.reason
    assert "1.17" in final.reason or "1.18" in final.reason


def test_a_lucky_first_stage_is_not_confirmed() -> None:
    final = confirm(judge(comparison(0.90), ONE), comparison(1.0), ONE)
    assert final.verdict is Verdict.REVERT
    assert "not confirmed" in final.reason
    reverted = judge(comparison(1.0), ONE)
    assert confirm(reverted, comparison(0.5), ONE) is reverted


def test_no_pairs_decide_nothing() -> None:
    decision = judge(Comparison(pairs=(), parent=measured(1.0), child=measured(1.0), dropped=60), ONE)
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert decision.evidence["dropped_pairs"] == 60


def test_a_longer_tail_reverts_a_faster_median() -> None:
    slow_path = judge(comparison(0.8, child=measured(8.0, p90=12.0)), ONE)
    assert slow_path.verdict is Verdict.REVERT
    assert "p90" in slow_path.reason
    rare = judge(comparison(0.8, child=measured(8.0, p99=30.0)), ONE)
    assert rare.verdict is Verdict.REVERT
    assert "p99" in rare.reason
    few = judge(comparison(0.8, child=measured(8.0, p99=30.0, samples=64)), ONE)
    assert few.verdict is Verdict.KEEP


def test_times_beyond_the_roofline_are_measurement_faults() -> None:
    case = measured(1.0)[0]
    assert too_fast(case, flop=1e6, bytes_moved=1e5, chip=L4) is None
    assert "TFLOP/s" in (too_fast(case, flop=2e8, bytes_moved=None, chip=L4) or "")
    assert too_fast(case, flop=2e8, bytes_moved=None, chip=L4, narrow=True) is None
    assert "L2" in (too_fast(case, flop=None, bytes_moved=1e7, chip=L4) or "")
    slow = measured(100.0)[0]
    assert "DRAM" in (too_fast(slow, flop=None, bytes_moved=1.2e8, chip=L4) or "")


def test_the_noise_floor_of_an_a_a_run() -> None:
    rng = np.random.default_rng(3)
    floor = noise_floor([{"a": d} for d in rng.normal(0, 0.01, 500)], ONE)
    assert floor.sd == pytest.approx(0.01, rel=0.1)
    assert floor.smallest_margin(9) == pytest.approx(0.01, rel=0.1)


def test_results_of_different_environments_are_refused() -> None:
    here = Environment(
        device="gpu:0", chip="l4", arch="sm_89", loaded="cubin", toolkit="t", harness="0", task_hash="h", detail={}
    )
    require_same(here, replace(here, device="gpu:1"))
    with pytest.raises(HarnessFault, match="driver 570 against "):
        require_same(here, replace(here, detail={"driver": "570"}))


def estimate(us: float, limiter: str = "shared", **terms: float) -> Estimate:
    return Estimate(
        modelled_us=us,
        model_version="1",
        chip="l4",
        calibration="none",
        limiter=limiter,
        terms_us=terms or {limiter: us},
        blocks_run=1,
        blocks_total=1,
    )


def modelled(**cases: Estimate) -> tuple[CaseBench, ...]:
    return tuple(CaseBench(name=name, estimate=e) for name, e in cases.items())


def test_a_modelled_gain_past_the_margin_with_its_limiter_is_kept() -> None:
    parent, child = modelled(a=estimate(10, shared=9, dram=2)), modelled(a=estimate(8, shared=7, dram=2))
    decision = decide_modelled(parent, child, ONE)
    assert decision.verdict is Verdict.KEEP
    assert "modelled 1.25x faster" in decision.reason
    assert "shared 9.00 -> 7.00 us" in decision.reason


def test_a_modelled_gain_that_the_limiter_does_not_show_is_reverted() -> None:
    parent, child = modelled(a=estimate(10, shared=9, dram=2)), modelled(a=estimate(8, shared=9, dram=0.5))
    decision = decide_modelled(parent, child, ONE)
    assert decision.verdict is Verdict.REVERT
    assert "limiter does not show it" in decision.reason


def test_a_modelled_gain_within_the_margin_is_reverted_or_kept_as_neutral_when_asked() -> None:
    parent, child = modelled(a=estimate(10)), modelled(a=estimate(9.5))
    assert decide_modelled(parent, child, ONE).verdict is Verdict.REVERT
    assert decide_modelled(parent, child, ONE, margin=0.03).verdict is Verdict.KEEP
    assert decide_modelled(parent, child, ONE, neutral=True).verdict is Verdict.REVERT
    kept = decide_modelled(parent, child, ONE, neutral=True, simpler="12 fewer registers")
    assert kept.verdict is Verdict.KEEP_NEUTRAL
    assert "12 fewer registers" in kept.reason


def test_a_modelled_loss_in_one_case_reverts() -> None:
    parent, child = modelled(a=estimate(10), b=estimate(10)), modelled(a=estimate(2), b=estimate(10.5))
    decision = decide_modelled(parent, child, {"a": 1, "b": 1})
    assert decision.verdict is Verdict.REVERT
    assert "case b gets slower: 10.00 -> 10.50 us modelled" in decision.reason


def test_measured_and_modelled_times_never_meet() -> None:
    with pytest.raises(HarnessFault, match="only be compared"):
        decide_modelled(measured(1.0), modelled(a=estimate(1)), ONE)
    older = replace(estimate(1), model_version="0")
    with pytest.raises(HarnessFault, match="cannot be compared"):
        decide_modelled(modelled(a=older), modelled(a=estimate(1)), ONE)
