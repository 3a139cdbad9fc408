"""A loss at one case: what it takes to reject, how seldom that is wrong, and that nothing is ever kept on it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evo.decide.case_loss import CaseLoss, judge_loss
from evo.decide.sequential import DEFAULT_RULE, Comparison
from evo.results import Verdict


def comparison(ratios: list[float]) -> Comparison:
    return Comparison(pairs=tuple({"a": ratio} for ratio in ratios), child=(), parent=())


def test_six_pairs_that_all_lose_reject() -> None:
    watch = CaseLoss(DEFAULT_RULE)
    assert [watch.add(math.log(1.2)) for _ in range(6)] == [False] * 5 + [True]


@pytest.mark.parametrize("ratio", [0.5, 1.0, 1.019])
def test_what_loses_less_than_the_rule_allows_is_not_rejected(ratio: float) -> None:
    decision = judge_loss(comparison([math.log(ratio)] * 20), "a", DEFAULT_RULE)
    assert decision.verdict is Verdict.INCONCLUSIVE  # and never kept, however fast it is here


def test_a_loss_names_its_case_and_has_an_interval() -> None:
    decision = judge_loss(comparison([math.log(1.5 + i / 1000) for i in range(6)]), "a", DEFAULT_RULE)
    assert decision.verdict is Verdict.REVERT
    assert decision.gain is not None
    assert decision.gain.low is not None
    assert decision.gain.high is not None
    assert decision.gain.low < decision.gain.ratio < decision.gain.high < 1
    assert decision.evidence is not None
    assert list(decision.evidence.cases) == ["a"]


def test_without_a_pair_nothing_is_said() -> None:
    assert judge_loss(comparison([]), "a", DEFAULT_RULE).verdict is Verdict.INCONCLUSIVE


def test_a_candidate_at_the_limit_is_rejected_no_more_often_than_the_rule_says() -> None:
    rng = np.random.default_rng(1)
    limit = math.log1p(DEFAULT_RULE.case_loss)
    rejected = 0
    for _ in range(2000):
        watch = CaseLoss(DEFAULT_RULE)
        rejected += any(watch.add(limit + d) for d in rng.normal(0, 0.003, 60))
    assert rejected / 2000 <= 1 / DEFAULT_RULE.futility + 0.015
