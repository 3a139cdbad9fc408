"""A loss at one case, which is enough to reject a candidate and never enough to keep one.

The evidence is that of the full rule: an e-process on the signs of ln(child / parent) - ln(1 + case_loss), here of a
case that was timed alone because the candidate was plainly slower there.
"""

from __future__ import annotations

import math

from evo.decide.capture_noise import widened
from evo.decide.sequential import Comparison, DecisionRule, EProcessPair, case_evidence, gain_of, words
from evo.results import Decision, Evidence, Ground, Verdict


class CaseLoss:
    """Feed it ln(child / parent) of one case, pair after pair, until it is true."""

    def __init__(self, rule: DecisionRule) -> None:
        self._rule = rule
        self.bets = EProcessPair(math.log1p(rule.case_loss), rule.bet)

    def add(self, ratio: float) -> bool:
        """Whether the case is now shown to lose more than the rule allows."""
        self.bets.add(ratio)
        return self.bets.above >= self._rule.futility


def judge_loss(comparison: Comparison, case: str, rule: DecisionRule) -> Decision:
    """The verdict on a candidate that was timed at this case alone: REVERT, or INCONCLUSIVE if no loss is shown.

    The gain is that of the one case.
    """
    watch = CaseLoss(rule)
    ratios = [pair[case] for pair in comparison.pairs]
    lost = False
    for ratio in ratios:
        lost = watch.add(ratio)
    evidence = Evidence(
        pairs=len(ratios),
        e_value=watch.bets.below,
        e_value_against=watch.bets.above,
        needed=1 / rule.alpha,
        margin=rule.margin,
        dropped_pairs=comparison.dropped,
        pairs_at_own_clocks=comparison.at_own_clocks or None,
        clocks=comparison.clocks,
        between_captures=comparison.between,
        cases={case: case_evidence(comparison.pairs, case, comparison.between)} if ratios else {},
    )
    if not ratios or not lost:
        reason = f"case {case}: no loss is shown"
        return Decision(verdict=Verdict.INCONCLUSIVE, ground=Ground.UNDECIDED, reason=reason, evidence=evidence)
    gain = widened(gain_of(ratios), comparison.between, case=case)
    loss = f"case {case} loses more than {rule.case_loss:.0%}: {words(gain)} over {len(ratios)} pairs"
    return Decision(
        verdict=Verdict.REVERT,
        ground=Ground.CASE_LOSS,
        case=case,
        reason=f"{loss}; no other case was timed",
        gain=gain,
        evidence=evidence,
    )
