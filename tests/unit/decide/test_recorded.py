"""What a measured decision records, and its rules at their limits."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evo.decide.capture_noise import CaptureScatter
from evo.decide.sequential import (
    CONFIRM_ALPHA,
    Comparison,
    DecisionRule,
    NoiseFloor,
    Sequential,
    confirm,
    gain_of,
    judge,
    noise_floor,
    require_margin,
    require_same,
    words,
)
from evo.errors import HarnessFault, UsageError
from evo.results import CaseBench, Decision, Environment, Gain, Timing, Verdict

FASTER = math.log(0.8)
BETWEEN = CaptureScatter(sd=0.001, captures=10, cases={"a": 0.002, "b": 0.0005})
SCORE = {"a": 1.0, "b": 3.0}


def pairs(*ratios: float, count: int = 8) -> tuple[dict[str, float], ...]:
    """So many pairs; the cases a, b ... have these log ratios, and a little that differs from pair to pair."""
    return tuple(
        {name: ratio + 1e-4 * (n % 3) for name, ratio in zip("abc", ratios, strict=False)} for n in range(count)
    )


def timed(name: str = "a", std: float = 0.0) -> CaseBench:
    return CaseBench(name=name, warm=Timing(p50_us=8, p90_us=8, p99_us=8, mean_us=8, std_us=std, samples=1000))


def compared(*ratios: float, **more: object) -> Comparison:
    return replace(Comparison(pairs=pairs(*ratios), parent=(timed(),), child=(timed(),)), **more)  # type: ignore[arg-type]


def recorded(decision: Decision) -> dict[str, Any]:
    assert decision.evidence is not None
    return decision.evidence.to_json()


# --- what is recorded -----------------------------------------------------------------------------------------------


def test_a_stage_records_its_pairs_its_evidence_and_each_case() -> None:
    between = {"sd": 0.001, "captures": 10, "assumed": False, "cases": {"a": 0.002, "b": 0.0005}, "timer_step": 0.0}
    decision = judge(
        compared(
            FASTER,
            FASTER,
            dropped=4,
            at_own_clocks=2,
            clocks={"parent": 1500},
            cycles=pairs(FASTER, FASTER),
            between=BETWEEN,
        ),
        SCORE,
    )
    assert decision.verdict is Verdict.KEEP
    cases = recorded(decision)["cases"]
    assert set(recorded(decision)) == {
        "pairs", "e_value", "e_value_against", "needed", "margin", "dropped_pairs", "pairs_at_own_clocks", "clocks",
        "between_captures", "cases",
    }  # fmt: skip
    assert recorded(decision)["pairs"] == 8
    assert recorded(decision)["e_value"] == round(1.8**8, 3)
    assert recorded(decision)["e_value_against"] == round(0.2**8, 3)
    assert recorded(decision)["needed"] == 100
    assert recorded(decision)["margin"] == 0.03
    assert recorded(decision)["dropped_pairs"] == 4
    assert recorded(decision)["pairs_at_own_clocks"] == 2
    assert recorded(decision)["clocks"] == {"parent": 1500}
    assert recorded(decision)["between_captures"] == between
    assert set(cases) == {"a", "b"}
    widths = {name: case["high"] - case["low"] for name, case in cases.items()}
    bare = gain_of([pair["b"] for pair in pairs(0, FASTER)])
    assert bare.low is not None
    assert bare.high is not None
    assert bare.high - bare.low < widths["b"] < widths["a"] / 2  # each is widened by what its own captures differ by


def test_what_was_not_seen_is_not_recorded() -> None:
    decision = judge(compared(FASTER), {"a": 1.0})
    assert set(recorded(decision)) == {
        "pairs",
        "e_value",
        "e_value_against",
        "needed",
        "margin",
        "dropped_pairs",
        "cases",
    }
    nothing = judge(Comparison(pairs=(), parent=(), child=(), dropped=3), {"a": 1.0})
    assert (nothing.verdict, nothing.gain, recorded(nothing)["cases"]) == (Verdict.INCONCLUSIVE, None, {})
    assert nothing.reason


def test_one_pair_records_its_ratio_without_an_interval() -> None:
    one = Comparison(pairs=({"a": FASTER, "b": 0.0},), parent=(timed(),), child=(timed(),))
    decision = judge(one, {"a": 1.0})
    assert decision.gain == Gain(ratio=pytest.approx(1.25))  # type: ignore[arg-type]
    assert recorded(decision)["cases"] == {
        "a": {"ratio": 1.25, "confirmed": False},
        "b": {"ratio": 1.0, "confirmed": False},
    }


def test_unsteady_cases_are_those_whose_times_scatter() -> None:
    seen = judge(compared(FASTER, child=(timed("a"), timed("b", std=4.0))), {"a": 1.0})
    assert recorded(seen)["unsteady"] == ["b"]


def test_a_confirmation_records_both_stages() -> None:
    first, again = judge(compared(FASTER), {"a": 1.0}), compared(math.log(0.85))
    final = confirm(first, again, {"a": 1.0})
    second = judge(again, {"a": 1.0}, DecisionRule(alpha=CONFIRM_ALPHA))
    assert first.gain is not None
    ratio = round(first.gain.ratio, 5)
    assert recorded(final) == {**recorded(second), "first_stage": recorded(first), "first_stage_ratio": ratio}
    assert ratio == pytest.approx(1.25, rel=1e-3)
    assert (
        recorded(second)["pairs"] == DecisionRule(alpha=CONFIRM_ALPHA).fewest_pairs == 6
    )  # fewer than of the first stage


def test_a_stage_that_disagrees_records_its_own_gain() -> None:
    final = confirm(judge(compared(FASTER), {"a": 1.0}), compared(0.1), {"a": 1.0})
    assert final.verdict is Verdict.REVERT
    assert final.gain is not None
    assert final.gain.ratio == pytest.approx(math.exp(-0.1), rel=1e-3)
    assert not final.gain.confirmed
    assert {"first_stage", "first_stage_ratio"} <= set(recorded(final))


def test_a_confirmation_keeps_the_rule_but_for_its_alpha() -> None:
    rule = DecisionRule(margin=0.1, alpha=0.001, max_pairs=9, simpler="less")
    assert rule.confirming() == DecisionRule(margin=0.1, alpha=CONFIRM_ALPHA, max_pairs=9, simpler="less")
    assert CONFIRM_ALPHA == 0.05


# --- the rule -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"margin": -0.01}, {"margin": 0.9}, {"alpha": 0.0}, {"alpha": 0.5}, {"bet": 0.0}, {"bet": 1.0},
        {"max_pairs": 0},
    ],
)  # fmt: skip
def test_a_rule_that_cannot_decide_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="DecisionRule"):
        DecisionRule(**wrong)  # type: ignore[arg-type]


def test_the_limits_of_a_rule_are_allowed() -> None:
    assert DecisionRule(margin=0.0, max_pairs=1).fewest_pairs == 8
    assert DecisionRule(margin=0.89, alpha=0.49, bet=0.99).fewest_pairs == 2


@pytest.mark.parametrize(
    ("ratio", "e_value", "against"), [(-0.1, 1.8, 0.2), (0.1, 0.2, 1.8), (math.log1p(-0.03), 0.2, 0.2)]
)
def test_a_bet_wins_on_its_side_of_the_margin_and_a_tie_loses_both(
    ratio: float, e_value: float, against: float
) -> None:
    sequence = Sequential({"a": 1.0})
    assert sequence.add({"a": ratio}) is None
    assert sequence.evidence.e_value == pytest.approx(e_value)
    assert sequence.evidence.e_value_against == pytest.approx(against)


def test_a_decided_sequence_takes_no_more_pairs() -> None:
    sequence = Sequential({"a": 1.0})
    while sequence.add({"a": FASTER}) is None:
        pass
    taken = len(sequence.combined)
    assert sequence.add({"a": 5.0}) is Verdict.KEEP
    assert len(sequence.combined) == taken == 8
    assert sequence.losing is None


def test_the_case_that_loses_is_named_and_one_without_a_weight_may_not_lose_either() -> None:
    sequence = Sequential({"a": 1.0, "b": 0.0})
    while sequence.add({"a": FASTER, "b": 0.05}) is None:
        pass
    assert (sequence.verdict, sequence.losing) == (Verdict.REVERT, "b")
    for loss, verdict in ((math.log(1.019), Verdict.KEEP), (math.log(1.021), Verdict.REVERT)):
        sequence = Sequential({"a": 1.0})
        while sequence.add({"a": FASTER, "b": loss}) is None:
            pass
        assert sequence.verdict is verdict


def test_times_that_cycles_bear_out_are_kept() -> None:
    """Asked where the halves ran at clocks of their own, or where every scored case is cycles."""
    same = pairs(0.0, count=8)
    bound: dict[str, object] = {"cycles": same, "compute_bound": frozenset({"a"})}
    assert judge(compared(FASTER, **bound), {"a": 1.0}).verdict is Verdict.INCONCLUSIVE
    assert judge(compared(FASTER, cycles=same, at_own_clocks=1), {"a": 1.0}).verdict is Verdict.INCONCLUSIVE
    assert judge(compared(FASTER, cycles=same), {"a": 1.0}).verdict is Verdict.KEEP
    assert judge(compared(FASTER, cycles=same[:7], compute_bound=frozenset({"a"})), {"a": 1.0}).verdict is Verdict.KEEP
    partly: dict[str, object] = {"cycles": pairs(0.0, 0.0), "compute_bound": frozenset({"a"})}
    assert judge(compared(FASTER, FASTER, **partly), SCORE).verdict is Verdict.KEEP


# --- controls, environments, words ----------------------------------------------------------------------------------


def test_a_control_of_two_pairs_has_a_spread_and_one_of_one_has_none() -> None:
    floor = noise_floor([{"a": 0.01, "b": 0.0}, {"a": -0.01, "b": 0.0}], SCORE)
    assert (floor.pairs, floor.between) == (2, None)
    assert floor.sd == pytest.approx(0.25 * 0.01 * math.sqrt(2))
    with pytest.raises(HarnessFault) as caught:
        noise_floor([{"a": 0.01}], {"a": 1.0})
    assert caught.value.hint


def test_a_control_records_its_spreads() -> None:
    shown = NoiseFloor(sd=0.01234567, pairs=30, between=BETWEEN).shown(DecisionRule()).to_json()
    assert (shown["sd"], shown["pairs"], shown["between_captures"]) == (0.012346, 30, BETWEEN.to_json())
    assert shown["smallest_margin"] == round(3 * math.hypot(0.01234567 / math.sqrt(8), 0.001), 6)


def test_a_margin_at_the_noise_floor_is_allowed() -> None:
    smallest = NoiseFloor(sd=0.02, pairs=9).smallest_margin(DecisionRule().fewest_pairs)
    require_margin(NoiseFloor(sd=0.02, pairs=9), DecisionRule(margin=smallest))
    with pytest.raises(UsageError) as caught:
        require_margin(NoiseFloor(sd=0.02, pairs=9, between=BETWEEN), DecisionRule(margin=smallest))
    assert caught.value.hint


def test_unlike_environments_are_refused_with_what_to_do() -> None:
    here = Environment(
        device="gpu:0", chip="l4", arch="sm_89", loaded="cubin", toolkit="t", harness="0", task_hash="h", detail={}
    )
    require_same(here, here)
    with pytest.raises(HarnessFault) as caught:
        require_same(here, replace(here, harness="1", task_hash="i"))
    assert caught.value.hint


@pytest.mark.parametrize(
    ("gain", "said"),
    [
        (Gain(ratio=2.0), "2.000x faster"),
        (Gain(ratio=1.0), "1.000x faster"),
        (Gain(ratio=0.5), "2.000x slower"),
        (Gain(ratio=1.25, low=1.2), "1.250x faster"),
        (Gain(ratio=1.25, high=1.3), "1.250x faster"),
        (Gain(ratio=1.25, low=1.2, high=1.3), "1.250x faster [1.200, 1.300]"),
        (Gain(ratio=0.5, low=0.4, high=0.8), "2.000x slower [1.250, 2.500]"),
        (Gain(ratio=1.01, low=0.99, high=1.02), "no difference shown (1.010x [0.990, 1.020])"),
        (Gain(ratio=1.01, low=1.0, high=1.02), "no difference shown (1.010x [1.000, 1.020])"),
        (Gain(ratio=0.99, low=0.98, high=1.0), "no difference shown (0.990x [0.980, 1.000])"),
    ],
)
def test_a_gain_in_words(gain: Gain, said: str) -> None:
    assert words(gain) == said


def test_few_values_have_no_interval() -> None:
    assert gain_of([0.1] * 5).low is None
    six = gain_of(list(np.linspace(0.1, 0.2, 6)))
    assert (six.low, six.high) == (pytest.approx(math.exp(-0.2)), pytest.approx(math.exp(-0.1)))
    assert six.ratio == pytest.approx(math.exp(-0.15))
