"""Deciding on modelled times: deterministic, so no statistics, but a wider margin and a counter that must agree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from evo.errors import HarnessFault
from evo.results import CaseBench, CaseEvidence, Decision, Estimate, Evidence, Gain, Ground, Verdict, geometric_mean

ENOUGH = 0.90  # probability that a child is faster, below which nothing is kept


@dataclass(frozen=True, slots=True)
class Accuracy:
    """A modelled gain of exp(s) is real with probability 1 - floor - (1/2 - floor) exp(-s / scale)."""

    scale: float
    floor: float

    def probability(self, gain: float) -> float:
        """That a child modelled to be `gain` times faster is faster; below 1/2 for a gain below 1."""
        if gain < 1:
            return 1 - self.probability(1 / gain)
        return 1 - self.floor - (0.5 - self.floor) * math.exp(-math.log(gain) / self.scale)


_OF_ALL = "any"
# By version of the model and by the term that bounds the parent.
_TABLE: dict[str, dict[str, Accuracy]] = {
    "sim-11": {
        _OF_ALL: Accuracy(0.106, 0.001),
        "latency": Accuracy(0.088, 0.006),
        "l2": Accuracy(0.183, 0.0),
    }
}


def probability_faster(version: str, limiter: str, gain: float) -> float | None:
    """That the child is faster, from its modelled gain and what bounds its parent; None for an unknown version."""
    table = _TABLE.get(version)
    if table is None:
        return None
    return table.get(limiter, table[_OF_ALL]).probability(gain)


MARGIN = 0.10
CASE_LOSS = 0.02
# Of the largest term: one as large binds with it, since the model adds up what overlaps badly (a norm of exponent 2.6).
# Of the measured pairs whose modelled gain is carried by such a term alone, 84 of 91 were faster, atomics left out
# (`docs/log.md`); of those that the largest carries, 98 %.
_BINDING = 0.4


@dataclass(frozen=True, slots=True)
class _Pair:
    name: str
    weight: float
    before: Estimate
    after: Estimate

    @property
    def gain(self) -> float:
        return self.before.modelled_us / self.after.modelled_us


def decide_modelled(
    parent: Sequence[CaseBench],
    child: Sequence[CaseBench],
    score: Mapping[str, float],
    margin: float = MARGIN,
    *,
    neutral: bool = False,
    simpler: str | None = None,
    unseen: str | None = None,
) -> Decision:
    """Keep only past the margin, with no case lost; a case's gain counts only if a term that bound the parent dropped.

    If the accuracy of the model's version is known, a keep also needs a probability of 90 % that the child is faster.

    neutral asks for KEEP_NEUTRAL within the margin; `simpler` then says in words what the child needs less of.
    unseen: what the child costs that the model does not know, in words; with such a cost nothing is kept.
    """
    pairs = _matched(parent, child, score)
    ratio = geometric_mean({pair.name: pair.gain for pair in pairs}, score)
    assert ratio is not None  # `_matched` has seen a weight
    gain = Gain(ratio=ratio)
    evidence = Evidence(
        timing="modelled",
        model_version=pairs[0].before.model_version,
        chip=pairs[0].before.chip,
        calibration=pairs[0].before.calibration,
        margin=margin,
        cases={pair.name: _evidence(pair) for pair in pairs},
    )

    def decision(verdict: Verdict, ground: Ground, reason: str, pair: _Pair | None = None) -> Decision:
        case = pair.name if pair is not None else None
        return Decision(verdict=verdict, ground=ground, case=case, reason=reason, gain=gain, evidence=evidence)

    if lost := [pair for pair in pairs if pair.gain < 1 - CASE_LOSS]:
        worst = min(lost, key=lambda pair: pair.gain)
        reason = f"case {worst.name} gets slower: {_times(worst)}"
        return decision(Verdict.REVERT, Ground.CASE_LOSS, reason, worst)
    if unseen and 1 - margin < ratio:
        reason = f"modelled {ratio:.2f}x, but {unseen}, and the model does not see that"
        return decision(Verdict.REVERT, Ground.NOT_MODELLED, reason)
    if 1 / ratio < 1 - margin:
        doubtful = {pair.name: words for pair in pairs if (words := _unsupported(pair))}
        sure = geometric_mean({pair.name: 1.0 if pair.name in doubtful else pair.gain for pair in pairs}, score)
        assert sure is not None
        if 1 / sure >= 1 - margin:
            worst = max((pair for pair in pairs if pair.name in doubtful), key=_share)
            return decision(Verdict.REVERT, Ground.LIMITER, doubtful[worst.name], worst)
        headline = max((pair for pair in pairs if pair.name not in doubtful), key=_share)
        gain = Gain(ratio=sure)
        chance = _chance(headline, sure)
        evidence = replace(evidence, probability=chance)
        if chance is not None and chance < ENOUGH:
            return decision(Verdict.REVERT, Ground.UNDECIDED, _cannot_tell(sure, chance), headline)
        return decision(Verdict.KEEP, Ground.GAIN, _shown(headline, sure, pairs, doubtful), headline)
    if neutral and simpler and 1 - margin < ratio:
        reason = f"modelled {ratio:.3f}x, within the margin of {margin:.0%}, with {simpler}"
        return decision(Verdict.KEEP_NEUTRAL, Ground.NEUTRAL, reason)
    side = f"{ratio:.3f}x faster" if ratio > 1.0005 else f"{1 / ratio:.3f}x slower" if ratio < 0.9995 else "no change"
    return decision(Verdict.REVERT, Ground.NO_GAIN, f"modelled {side}, the margin is {margin:.0%} less time")


def _shown(pair: _Pair, gain: float, pairs: Sequence[_Pair], doubtful: Mapping[str, str]) -> str:
    """What shows a gain, and which cases were left out."""
    scored = sum(each.weight > 0 for each in pairs)
    over = f" over {scored} cases (geometric mean)" if scored > 1 else ""
    reason = f"modelled {gain:.2f}x faster{over}; case {pair.name}: {_times(pair)}, of which "
    reason += _term(pair, _binding_term(pair) or pair.before.limiter)
    left_out = f"; not counted, since no binding term shows it: {', '.join(sorted(doubtful))}"
    return reason + left_out if doubtful else reason


def _chance(pair: _Pair, gain: float) -> float | None:
    """Probability that the child is faster: the lower of those by the binding term and by the term with the gain."""
    found = [probability_faster(pair.before.model_version, term, gain) for term in _deciding_terms(pair)]
    return min((chance for chance in found if chance is not None), default=None)


def _deciding_terms(pair: _Pair) -> tuple[str, str]:
    """The term that binds the parent, and the term that shows the gain; often the same."""
    return pair.before.limiter, _binding_term(pair) or pair.before.limiter


def _cannot_tell(gain: float, chance: float) -> str:
    """Why a modelled gain is no reason to keep."""
    told = f"of measured pairs with such a modelled gain, {chance:.0%} were faster, and {ENOUGH:.0%} are needed"
    return f"cannot tell: modelled {gain:.2f}x faster; {told}"


def _matched(parent: Sequence[CaseBench], child: Sequence[CaseBench], score: Mapping[str, float]) -> list[_Pair]:
    before = {case.name: case.estimate for case in parent}
    pairs: list[_Pair] = []
    for case in child:
        theirs, ours = before.get(case.name), case.estimate
        if theirs is None or ours is None:
            raise HarnessFault(
                f"case {case.name}: a modelled time can only be compared with a modelled time of the same case",
                problem="measured-with-modelled",
                hint="estimate both variants on the same simulated device",
            )
        if (theirs.model_version, theirs.chip, theirs.calibration) != (ours.model_version, ours.chip, ours.calibration):
            raise HarnessFault(
                f"case {case.name}: estimates of {theirs.chip} {theirs.model_version} and {ours.chip} "
                f"{ours.model_version} cannot be compared",
                problem="environments-differ",
                hint="estimate both variants with this version",
            )
        pairs.append(_Pair(case.name, score.get(case.name, 0.0), theirs, ours))
    if missing := set(before) - {pair.name for pair in pairs}:
        raise HarnessFault(f"the child has no estimate of case {sorted(missing)[0]}", hint="estimate every bench case")
    if not sum(pair.weight for pair in pairs) > 0:
        raise HarnessFault("the score gives no case a weight", hint="see `score` in task.yaml")
    return pairs


def _share(pair: _Pair) -> float:
    """What a case adds to the logarithm of the gain."""
    return pair.weight * math.log(pair.gain)


def _unsupported(pair: _Pair) -> str | None:
    """Why a case's modelled gain is not believed: no term that bound the parent dropped with it."""
    if _saved(pair) <= CASE_LOSS or _binding_term(pair) is not None:
        return None
    term = pair.before.limiter
    if term not in pair.before.terms_us or term not in pair.after.terms_us:
        return f"case {pair.name}: the estimate has no term {term!r}, so nothing shows the gain"
    return f"case {pair.name}: {_times(pair)}, but its limiter does not show it: {_term(pair, term)}"


def _saved(pair: _Pair) -> float:
    return 1 - pair.after.modelled_us / pair.before.modelled_us


def _binding_term(pair: _Pair) -> str | None:
    """The term that shows the gain: the largest of those that bound the parent and dropped by half of what is saved.

    Other terms may have moved as well, but this one has to carry the larger part.
    """
    before, after = pair.before.terms_us, pair.after.terms_us
    top = before.get(pair.before.limiter, 0.0)
    if top <= 0:
        return None
    for term in sorted(before, key=lambda name: (name != pair.before.limiter, -before[name])):
        binds = before[term] >= _BINDING * top and term in after
        if binds and 1 - after[term] / before[term] >= _saved(pair) / 2:
            return term
    return None


def _times(pair: _Pair) -> str:
    return f"{pair.before.modelled_us:.2f} -> {pair.after.modelled_us:.2f} µs modelled"


def _term(pair: _Pair, term: str) -> str:
    before, after = pair.before.terms_us.get(term), pair.after.terms_us.get(term)
    shown = f"{before:.2f} -> {after:.2f} µs" if before is not None and after is not None else "absent"
    return f"{term} {shown}"


def _evidence(pair: _Pair) -> CaseEvidence:
    term = pair.before.limiter
    return CaseEvidence(
        parent_us=pair.before.modelled_us,
        child_us=pair.after.modelled_us,
        limiter=term,
        limiter_after=pair.after.limiter,
        parent_limiter_us=pair.before.terms_us.get(term),
        child_limiter_us=pair.after.terms_us.get(term),
    )
