"""Decisions: false keeps under hostile noise, power, exact intervals, guards, and the modelled rule."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from evo.decide import sequential as decide
from evo.decide.sequential import (
    Comparison,
    DecisionRule,
    Sequential,
    confirm,
    judge,
    noise_floor,
    require_margin,
    require_same,
    supported_margin,
    too_fast,
)
from evo.errors import HarnessFault, UsageError
from evo.results import CaseBench, Environment, Ground, Timing, Verdict
from evo.spec.chips import L4

ONE = {"a": 1.0}
HERE = Environment(
    device="gpu:0", chip="l4", arch="sm_89", loaded="cubin", toolkit="t", harness="0", task_hash="h", detail={}
)


def pair_noise(
    rng: np.random.Generator, pairs: int, *, white: float = 0.006, drift: float = 0.01, spikes: float = 0.02
) -> np.ndarray:
    """Log ratios of a program with itself: white noise, residual drift, a clock step inside a pair, and spikes."""
    from scipy.signal import lfilter  # as below, where it is used: to import it takes each process of tests a second

    kicks = rng.normal(0, drift, pairs * 2)
    level = lfilter([1.0], [1.0, -0.9], kicks)
    if rng.random() < 0.3:
        level[rng.integers(pairs * 2) :] += 0.05
    blocks = level + rng.normal(0, white, pairs * 2) + (rng.random(pairs * 2) < spikes) * 0.2
    first, second = blocks[::2], blocks[1::2]
    swapped = rng.random(pairs) < 0.5
    return np.where(swapped, first - second, second - first)


def stage(ratio: float, noise: np.ndarray, rule: DecisionRule) -> tuple[Verdict, int]:
    sequence = Sequential(ONE, rule)
    for d in noise:
        if sequence.add({"a": math.log(ratio) + d}):
            break
    assert sequence.verdict is not None
    return sequence.verdict, len(sequence.combined)


def keep_rate(ratio: float, trials: int, seed: int) -> tuple[float, float]:
    rng = np.random.default_rng(seed)
    kept, pairs = 0, 0
    for _ in range(trials):
        verdict, used = stage(ratio, pair_noise(rng, DecisionRule().max_pairs), DecisionRule())
        kept += verdict is Verdict.KEEP
        pairs += used
    return kept / trials, pairs / trials


def test_five_thousand_equal_programs_are_kept_in_less_than_one_of_a_hundred() -> None:
    """The first stage alone, under noise of every mixture: each trial draws its own drift, steps and spikes."""
    rng = np.random.default_rng(1)
    kept = 0
    for _ in range(5000):
        white, drift, spikes = rng.choice([0.001, 0.006, 0.03]), rng.choice([0, 0.01, 0.05]), rng.choice([0, 0.02, 0.2])
        noise = pair_noise(rng, DecisionRule().max_pairs, white=white, drift=drift, spikes=spikes)
        kept += stage(1.0, noise, DecisionRule())[0] is Verdict.KEEP
    assert kept / 5000 <= 0.01


def test_two_stages_keep_a_gain_of_five_percent_and_no_equal_program() -> None:
    rng = np.random.default_rng(9)

    def comparison(ratio: float) -> Comparison:
        pairs = tuple({"a": math.log(ratio) + d} for d in pair_noise(rng, 60))
        return Comparison(pairs=pairs, parent=measured(10.0), child=measured(10.0 * ratio))

    def verdicts(ratio: float, trials: int) -> list[Verdict]:
        return [confirm(judge(comparison(ratio), ONE), comparison(ratio), ONE).verdict for _ in range(trials)]

    assert verdicts(0.95, 200).count(Verdict.KEEP) >= 190
    assert verdicts(1.0, 200).count(Verdict.KEEP) == 0


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
    assert sequence.ground is Ground.UNDECIDED


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
    with refused(HarnessFault, "case-missing"):
        Sequential(ONE).add({"b": 0.0})
    with refused(HarnessFault, "not-a-number"):
        Sequential(ONE).add({"a": float("nan")})
    with pytest.raises(ValueError, match="DecisionRule"):
        DecisionRule(alpha=0.0)


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
    from scipy.stats import wilcoxon

    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(300):
        values = rng.normal(-0.05, 0.01, 10)
        gain = decide.gain_of(list(values))
        assert gain.low is not None
        assert gain.high is not None
        hits += gain.low <= math.exp(0.05) <= gain.high
        for end, out in ((gain.low, -1e-12), (gain.high, 1e-12)):
            beyond, within = (wilcoxon(values + math.log(end) + by, method="exact").pvalue for by in (out, -out))
            assert beyond <= 0.05 < within
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
    assert final.ground is Ground.GAIN


def test_a_lucky_first_stage_is_not_confirmed() -> None:
    final = confirm(judge(comparison(0.90), ONE), comparison(1.0), ONE)
    assert final.verdict is Verdict.REVERT
    assert final.ground is Ground.NO_GAIN
    assert final.evidence is not None
    assert final.evidence.first_stage_ratio is not None
    reverted = judge(comparison(1.0), ONE)
    assert confirm(reverted, comparison(0.5), ONE) is reverted


def test_no_pairs_decide_nothing() -> None:
    decision = judge(Comparison(pairs=(), parent=measured(1.0), child=measured(1.0), dropped=60), ONE)
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert decision.evidence is not None
    assert decision.evidence.dropped_pairs == 60


def test_a_longer_tail_reverts_a_faster_median() -> None:
    slow_path = judge(comparison(0.8, child=measured(8.0, p90=12.0)), ONE)
    assert slow_path.verdict is Verdict.REVERT
    assert slow_path.ground is Ground.TAIL
    assert "p90" in slow_path.reason
    rare = judge(comparison(0.8, child=measured(8.0, p99=30.0)), ONE)
    assert rare.verdict is Verdict.REVERT
    assert rare.ground is Ground.TAIL
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


def test_a_margin_within_the_noise_is_refused_with_what_would_do() -> None:
    floor = decide.NoiseFloor(sd=0.02, pairs=30)
    with refused(UsageError, "margin-below-noise-floor") as refusal:
        require_margin(floor, DecisionRule(margin=0.01))
    assert "--margin 2.2%" in refusal.value.hint
    assert refusal.value.exit_code == 2
    require_margin(floor, DecisionRule(margin=0.022))
    assert floor.shown(DecisionRule()).to_json() == {"sd": 0.02, "pairs": 30, "smallest_margin": 0.021213}


def test_a_margin_that_nobody_chose_grows_to_what_the_noise_supports() -> None:
    rule = DecisionRule()
    assert supported_margin(decide.NoiseFloor(sd=0.02, pairs=30), rule) == rule.margin
    noisy = decide.NoiseFloor(sd=0.04, pairs=30)
    assert supported_margin(noisy, rule) == 0.043 >= noisy.smallest_margin(rule.fewest_pairs)
    with refused(UsageError, "margin-below-noise-floor"):
        supported_margin(decide.NoiseFloor(sd=0.2, pairs=30), rule)


NEUTRAL = DecisionRule(simpler="12 fewer registers")


def test_an_equal_child_that_needs_less_is_kept_as_neutral_only_when_asked() -> None:
    assert judge(comparison(1.0), ONE).verdict is Verdict.REVERT
    first = judge(comparison(1.0), ONE, NEUTRAL)
    assert first.verdict is Verdict.KEEP_NEUTRAL
    final = confirm(first, comparison(1.0, seed=2), ONE, NEUTRAL)
    assert final.verdict is Verdict.KEEP_NEUTRAL
    assert final.ground is Ground.NEUTRAL
    assert "12 fewer registers" in final.reason
    slower = judge(comparison(1.03), ONE, NEUTRAL)
    assert slower.verdict is Verdict.REVERT
    assert (slower.ground, slower.case) == (Ground.CASE_LOSS, "a")
    unsure = judge(comparison(1.02, seed=4), ONE, NEUTRAL)
    assert unsure.verdict in (Verdict.REVERT, Verdict.INCONCLUSIVE)
    faster = judge(comparison(0.8), ONE, NEUTRAL)
    assert faster.verdict is Verdict.KEEP
    assert confirm(faster, comparison(1.0, seed=3), ONE, NEUTRAL).verdict is Verdict.KEEP_NEUTRAL


def test_losers_are_not_kept_as_neutral() -> None:
    rng = np.random.default_rng(6)
    kept = [stage(1.02, pair_noise(rng, 60), NEUTRAL)[0] is Verdict.KEEP_NEUTRAL for _ in range(500)]
    assert sum(kept) / 500 <= 0.025  # at the bound itself, alpha is 0.01


def test_a_gain_that_only_the_clock_made_is_inconclusive() -> None:
    taken = comparison(0.95)
    same = tuple({"a": pair["a"] + 0.045} for pair in taken.pairs)  # 5 % less time, at a clock 4.5 % higher
    bound = replace(taken, cycles=same, compute_bound=frozenset({"a"}))
    decision = judge(bound, ONE)
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert decision.ground is Ground.CLOCK
    assert judge(replace(bound, compute_bound=frozenset()), ONE).verdict is Verdict.KEEP
    assert judge(replace(bound, cycles=taken.pairs), ONE).verdict is Verdict.KEEP


def test_compute_bound_is_arithmetic_that_takes_longer_than_bytes() -> None:
    assert decide.compute_bound(flop=1e9, bytes_moved=1e5, chip=L4)
    assert not decide.compute_bound(flop=1e6, bytes_moved=1e6, chip=L4)
    assert not decide.compute_bound(flop=None, bytes_moved=1e6, chip=L4)


def test_unsteady_samples_are_named_in_the_evidence() -> None:
    wild = (CaseBench(name="a", warm=replace(timing(8.0), std_us=1.2)),)
    decision = judge(comparison(0.8, child=wild), ONE)
    assert decision.evidence is not None
    assert decision.evidence.unsteady == ("a",)
    assert wild[0].to_json()["warm"]["unsteady"] is True  # type: ignore[call-overload, index]
    assert "unsteady" not in measured(8.0)[0].to_json()["warm"]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [("gpu", "NVIDIA L4", "GPU"), ("cuda", "12.9", "CUDA"), ("clock_policy", "default", "clock policy")],
)
def test_every_part_of_an_environment_is_compared(name: str, value: str, words: str) -> None:
    with pytest.raises(HarnessFault, match=f"{words} {value} against unknown"):
        require_same(HERE, replace(HERE, detail={name: value}))
    with pytest.raises(HarnessFault, match="harness 1 against 0"):
        require_same(HERE, replace(HERE, harness="1"))
    assert Environment.from_json(HERE.to_json()) == HERE


def test_results_of_different_environments_are_refused() -> None:
    require_same(HERE, replace(HERE, device="gpu:1"))
    with pytest.raises(HarnessFault, match="driver 570 against "):
        require_same(HERE, replace(HERE, detail={"driver": "570"}))
