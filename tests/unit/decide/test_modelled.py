"""The rule for modelled times at its limits, and what its decision records."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from refusals import refused

from evo.decide.modelled import CASE_LOSS, MARGIN, decide_modelled, probability_faster
from evo.errors import HarnessFault
from evo.results import CaseBench, Decision, Estimate, Ground, Timing, Verdict


def estimate(us: float, limiter: str = "shared", **terms: float) -> Estimate:
    return Estimate(
        modelled_us=us,
        model_version="7",
        chip="l4",
        calibration="c",
        limiter=limiter,
        terms_us=terms or {limiter: us},
        blocks_run=1,
        blocks_total=1,
    )


def cases(**estimates: Estimate) -> tuple[CaseBench, ...]:
    return tuple(CaseBench.modelled(name, found) for name, found in estimates.items())


MEASURED = (CaseBench(name="a", warm=Timing(p50_us=1, p90_us=1, p99_us=1, mean_us=1, std_us=0, samples=64)),)


def decided(before: float, after: float, **more: Any) -> Decision:
    return decide_modelled(cases(a=estimate(before)), cases(a=estimate(after)), {"a": 1.0}, **more)


def test_the_decision_records_the_gain_and_what_it_rests_on() -> None:
    parent = cases(a=estimate(16.00004, shared=12.00006, dram=2), b=estimate(8))
    child = cases(a=estimate(8.00006, "dram", shared=6.00004, dram=8), b=estimate(8, "dram"))
    decision = decide_modelled(parent, child, {"a": 3, "b": 1}, 0.2)
    assert decision.verdict is Verdict.KEEP
    assert decision.gain is not None
    assert decision.gain.ratio == pytest.approx(2**0.75, rel=1e-5)
    assert decision.gain.low is None
    assert decision.evidence is not None
    assert decision.evidence.to_json() == {
        "timing": "modelled",
        "model_version": "7",
        "chip": "l4",
        "calibration": "c",
        "margin": 0.2,
        "cases": {
            "a": {
                "parent_us": 16.0,
                "child_us": 8.0001,
                "limiter": "shared",
                "limiter_after": "dram",
                "parent_limiter_us": 12.0001,
                "child_limiter_us": 6.0,
            },
            "b": {
                "parent_us": 8,
                "child_us": 8,
                "limiter": "shared",
                "limiter_after": "dram",
                "parent_limiter_us": 8,
            },
        },
    }
    assert decision.case == "a"  # whose gain weighs most


def test_a_gain_at_the_margin_is_not_past_it() -> None:
    assert decided(10, 9.01).verdict is Verdict.REVERT
    assert decided(10, 8.99).verdict is Verdict.KEEP
    assert decided(16, 8, margin=0.5).verdict is Verdict.REVERT
    assert decided(16, 7.99, margin=0.5).verdict is Verdict.KEEP
    assert MARGIN == 0.10


def test_a_case_may_lose_two_per_cent() -> None:
    parent = cases(a=estimate(10), b=estimate(98))
    score = {"a": 1.0, "b": 1.0}
    at, past = (cases(a=estimate(5), b=estimate(us)) for us in (100, 100.1))
    assert decide_modelled(parent, at, score).verdict is Verdict.KEEP
    assert decide_modelled(parent, past, score).verdict is Verdict.REVERT
    assert CASE_LOSS == 0.02


def test_the_case_that_loses_most_is_named() -> None:
    parent = cases(a=estimate(10), b=estimate(10), c=estimate(10))
    child = cases(a=estimate(11), b=estimate(13), c=estimate(12))
    assert decide_modelled(parent, child, {"a": 1, "b": 1, "c": 1}).case == "b"


def test_the_case_that_weighs_most_is_named() -> None:
    parent = cases(a=estimate(10), b=estimate(10), c=estimate(10))
    child = cases(a=estimate(8), b=estimate(7), c=estimate(6))
    for score, name in (
        ({"a": 1, "b": 5, "c": 1}, "b"),
        ({"a": 1, "b": 1, "c": 1}, "c"),
        ({"a": 9, "b": 1, "c": 1}, "a"),
    ):
        assert decide_modelled(parent, child, score).case == name


def test_neutral_reaches_from_margin_to_margin_and_only_where_something_is_simpler() -> None:
    asked: dict[str, Any] = {"neutral": True, "simpler": "4 fewer registers", "margin": 0.01}
    assert decided(99, 100, **asked).verdict is Verdict.REVERT  # at the margin itself
    assert decided(99.1, 100, **asked).verdict is Verdict.KEEP_NEUTRAL
    assert decided(100, 99.1, **asked).verdict is Verdict.KEEP_NEUTRAL
    assert decided(100, 98, **asked).verdict is Verdict.KEEP
    assert decided(99.5, 100, simpler="4 fewer registers").verdict is Verdict.REVERT
    assert decided(99.5, 100, neutral=True).verdict is Verdict.REVERT


def test_an_unseen_cost_is_named_where_it_decides() -> None:
    unseen: dict[str, Any] = {"unseen": "spills", "margin": 0.015}
    assert decided(10, 10, **unseen).ground is Ground.NOT_MODELLED
    assert decided(10, 5, **unseen).ground is Ground.NOT_MODELLED
    assert decided(98.5, 100, **unseen).ground is Ground.NO_GAIN  # at the margin: slower anyway
    assert decided(98.6, 100, **unseen).ground is Ground.NOT_MODELLED


def shown(before: Estimate, after: Estimate) -> Verdict:
    return decide_modelled(cases(a=before), cases(a=after), {"a": 1.0}).verdict


def test_the_limiter_has_to_carry_half_of_what_is_saved() -> None:
    before = estimate(16, shared=16)
    assert shown(before, estimate(8, shared=12)) is Verdict.KEEP  # saves a half; the term drops by a quarter
    assert shown(before, estimate(8, shared=12.1)) is Verdict.REVERT
    assert shown(before, estimate(8, dram=8)) is Verdict.REVERT  # the term is gone, so nothing shows it
    assert shown(estimate(16, dram=16), estimate(8, shared=8)) is Verdict.REVERT
    assert shown(estimate(16, shared=0.5), estimate(8, shared=0.1)) is Verdict.KEEP
    assert shown(estimate(16, shared=0.0), estimate(8, shared=0.0)) is Verdict.REVERT


def test_a_term_that_binds_with_the_limiter_shows_a_gain_too() -> None:
    before = estimate(18, shared=16, l2=14.5, dram=14.3)
    assert shown(before, estimate(14, shared=16, l2=11, dram=14.3)) is Verdict.KEEP
    assert shown(before, estimate(14, shared=16, l2=14.5, dram=11)) is Verdict.KEEP
    small = estimate(18, shared=16, l2=6.3)  # less than four tenths of it
    assert shown(small, estimate(14, shared=16, l2=1)) is Verdict.REVERT


def test_a_gain_that_no_binding_term_shows_is_not_counted() -> None:
    score = {"a": 1.0, "b": 1.0}
    parent = cases(a=estimate(10), b=estimate(100, shared=50))
    decision = decide_modelled(parent, cases(a=estimate(5), b=estimate(80, shared=50)), score)
    assert decision.verdict is Verdict.KEEP
    assert decision.ratio == pytest.approx(2**0.5)
    decision = decide_modelled(parent, cases(a=estimate(9), b=estimate(80, shared=50)), score)
    assert (decision.verdict, decision.ground, decision.case) == (Verdict.REVERT, Ground.LIMITER, "b")
    # What saves no more than a case may lose needs no term.
    decision = decide_modelled(parent, cases(a=estimate(5), b=estimate(98.1, shared=50)), score)
    assert decision.ratio == pytest.approx((2 * 100 / 98.1) ** 0.5)


@pytest.mark.parametrize(
    ("parent", "child", "score"),
    [
        (cases(a=estimate(1)), MEASURED, {"a": 1.0}),
        (MEASURED, cases(a=estimate(1)), {"a": 1.0}),
        (cases(a=estimate(1)), cases(b=estimate(1)), {"a": 1.0}),
        (cases(a=estimate(1), b=estimate(1)), cases(a=estimate(1)), {"a": 1.0}),  # the child has less
        (cases(a=estimate(1)), cases(a=estimate(1)), {"a": 0.0}),
        (cases(a=estimate(1)), cases(a=estimate(1)), {}),
        *(
            (cases(a=estimate(1)), cases(a=replace(estimate(1), **{part: "another"})), {"a": 1.0})
            for part in ("model_version", "chip", "calibration")
        ),
    ],
)
def test_what_cannot_be_compared_is_a_fault_of_the_harness(
    parent: tuple[CaseBench, ...], child: tuple[CaseBench, ...], score: dict[str, float]
) -> None:
    with pytest.raises(HarnessFault) as caught:
        decide_modelled(parent, child, score)
    assert caught.value.message
    assert caught.value.hint


def test_a_case_without_a_weight_is_recorded_and_may_not_lose() -> None:
    parent = cases(a=estimate(10), b=estimate(10))
    kept = decide_modelled(parent, cases(a=estimate(5), b=estimate(10)), {"a": 1.0})
    assert kept.gain is not None
    assert (kept.verdict, kept.gain.ratio) == (Verdict.KEEP, pytest.approx(2.0))
    assert decide_modelled(parent, cases(a=estimate(5), b=estimate(11)), {"a": 1.0}).verdict is Verdict.REVERT


def of_version(us: float, limiter: str = "lsu") -> Estimate:
    return replace(estimate(us, limiter), model_version="sim-11")


def between(before: Estimate, after: Estimate, **more: Any) -> Decision:
    return decide_modelled(cases(a=before), cases(a=after), {"a": 1.0}, **more)


def test_a_gain_that_measured_pairs_do_not_bear_out_is_not_kept() -> None:
    decision = between(of_version(11.5), of_version(10))
    assert decision.verdict is Verdict.REVERT
    assert decision.ground is Ground.UNDECIDED
    assert decision.evidence is not None
    assert decision.evidence.probability is not None
    assert 0.5 < decision.evidence.probability < 0.9
    kept = between(of_version(14), of_version(10))
    assert kept.verdict is Verdict.KEEP
    assert kept.evidence is not None
    assert kept.evidence.probability is not None
    assert kept.evidence.probability >= 0.9


def test_a_term_on_which_the_model_is_less_certain_needs_more() -> None:
    assert between(of_version(13, "l2"), of_version(10, "l2")).ground is Ground.UNDECIDED
    assert between(of_version(15, "l2"), of_version(10, "l2")).ground is Ground.GAIN
    assert between(of_version(13, "atomic"), of_version(10, "atomic")).ground is Ground.GAIN


def test_a_gain_that_only_a_less_certain_term_shows_needs_more_as_well() -> None:
    parent, child = of_version(20, "launch"), of_version(15.5, "launch")
    by_l2 = (
        replace(parent, terms_us={"launch": 10, "l2": 7}),
        replace(child, terms_us={"launch": 10, "l2": 2}),
    )
    assert between(*by_l2).ground is Ground.UNDECIDED
    by_issue = tuple(replace(e, terms_us={"launch": 10, "issue": e.terms_us["l2"]}) for e in by_l2)
    assert between(*by_issue).ground is Ground.GAIN


def test_a_smaller_margin_asks_for_no_less_certainty() -> None:
    assert between(of_version(10.5), of_version(10), margin=0.03).ground is Ground.UNDECIDED


def test_the_probability_grows_with_the_gain_and_turns_with_its_direction() -> None:
    chances = [probability_faster("sim-11", "lsu", gain) for gain in (1.0, 1.1, 1.5, 4.0)]
    assert None not in chances
    assert chances == sorted(chances)  # type: ignore[type-var]
    assert chances[0] == pytest.approx(0.5)
    back = probability_faster("sim-11", "lsu", 1 / 1.5)
    assert back is not None
    assert chances[2] is not None
    assert back == pytest.approx(1 - chances[2])
    assert probability_faster("another", "lsu", 2.0) is None


def test_a_modelled_gain_past_the_margin_with_its_limiter_is_kept() -> None:
    parent, child = cases(a=estimate(10, shared=9, dram=2)), cases(a=estimate(8, shared=7, dram=2))
    decision = decide_modelled(parent, child, {"a": 1.0})
    assert decision.verdict is Verdict.KEEP
    assert (decision.ground, decision.case, decision.ratio) == (Ground.GAIN, "a", pytest.approx(1.25))


def test_a_modelled_gain_that_the_limiter_does_not_show_is_reverted() -> None:
    parent, child = cases(a=estimate(10, shared=9, dram=2)), cases(a=estimate(8, shared=9, dram=0.5))
    decision = decide_modelled(parent, child, {"a": 1.0})
    assert decision.verdict is Verdict.REVERT
    assert (decision.ground, decision.case) == (Ground.LIMITER, "a")


def test_a_modelled_gain_within_the_margin_is_reverted_or_kept_as_neutral_when_asked() -> None:
    parent, child = cases(a=estimate(10)), cases(a=estimate(9.5))
    assert decide_modelled(parent, child, {"a": 1.0}).verdict is Verdict.REVERT
    assert decide_modelled(parent, child, {"a": 1.0}, margin=0.03).verdict is Verdict.KEEP
    assert decide_modelled(parent, child, {"a": 1.0}, neutral=True).verdict is Verdict.REVERT
    kept = decide_modelled(parent, child, {"a": 1.0}, neutral=True, simpler="12 fewer registers")
    assert kept.verdict is Verdict.KEEP_NEUTRAL
    assert kept.ground is Ground.NEUTRAL


def test_a_modelled_gain_at_a_cost_that_the_model_does_not_see_is_reverted() -> None:
    parent, child = cases(a=estimate(10, shared=9, dram=2)), cases(a=estimate(8, shared=7, dram=2))
    decision = decide_modelled(parent, child, {"a": 1.0}, unseen="ptxas spills 400 bytes")
    assert decision.verdict is Verdict.REVERT
    assert decision.ground is Ground.NOT_MODELLED
    assert "400 bytes" in decision.reason


def test_a_modelled_loss_in_one_case_reverts() -> None:
    parent, child = cases(a=estimate(10), b=estimate(10)), cases(a=estimate(2), b=estimate(10.5))
    decision = decide_modelled(parent, child, {"a": 1, "b": 1})
    assert decision.verdict is Verdict.REVERT
    assert (decision.ground, decision.case) == (Ground.CASE_LOSS, "b")
    assert "10.00 -> 10.50 µs" in decision.reason


def test_measured_and_modelled_times_never_meet() -> None:
    with refused(HarnessFault, "measured-with-modelled"):
        decide_modelled(MEASURED, cases(a=estimate(1)), {"a": 1.0})
    older = replace(estimate(1), model_version="0")
    with refused(HarnessFault, "environments-differ"):
        decide_modelled(cases(a=older), cases(a=estimate(1)), {"a": 1.0})
