"""Keep, revert or inconclusive: pure functions from paired log ratios, or from modelled times, to a Decision.

Measured: `d` is ln(child time / parent time) of one interleaved pair of blocks, weighted over the cases by the task's
score. An e-process on the signs of `d` against the margin may be looked at after every pair: under "the median gain is
not past the margin" it is a supermartingale, so it reaches 1/alpha with probability at most alpha, whatever the noise
looks like (Ville's inequality). Its mirror image ends hopeless runs. A second stage in a fresh process confirms, and
its estimate alone is reported, because the first stage's is inflated by having been selected.
Knows no I/O and no clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from evo.decide.capture_noise import CaptureScatter, between_captures, widened
from evo.decide.guards import P99_SAMPLES, compute_bound, tail_problem, too_fast
from evo.decide.modelled import decide_modelled
from evo.errors import HarnessFault, UsageError
from evo.results import CaseBench, CaseEvidence, Clocks, Control, Decision, Environment, Evidence, Gain, Ground, Verdict

__all__ = [
    "DEFAULT_RULE", "P99_SAMPLES", "CaptureScatter", "Comparison", "DecisionRule", "NoiseFloor", "Sequential",
    "compute_bound", "confirm", "decide_modelled", "judge", "noise_floor", "require_margin", "require_same",
    "tail_problem", "too_fast", "widened",
]  # fmt: skip

Ratios = Mapping[str, float]  # case name -> ln(child time / parent time) of one pair

CONFIRM_ALPHA = 0.05
LARGEST_RAISED = 0.1  # the largest margin that noise makes of one that nobody chose


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRule:
    """When to believe a gain. margin and case_loss are fractions of the parent's time.

    simpler: what the child needs less of, in words, where KEEP_NEUTRAL is asked for: without a gain past the margin it
    is then kept if every case is shown to lose less than case_loss.
    """

    margin: float = 0.03
    alpha: float = 0.01
    case_loss: float = 0.02
    bet: float = 0.8
    futility: float = 20.0
    max_pairs: int = 60
    simpler: str | None = None

    def __post_init__(self) -> None:
        if not (0 <= self.margin < 0.9 and 0 < self.alpha < 0.5 and 0 < self.bet < 1 and self.max_pairs > 0):
            raise ValueError(f"not a decision rule: {self}")

    def confirming(self) -> DecisionRule:
        return replace(self, alpha=CONFIRM_ALPHA)

    @property
    def fewest_pairs(self) -> int:
        """The shortest run that can end in KEEP."""
        return math.ceil(math.log(1 / self.alpha) / math.log1p(self.bet))


DEFAULT_RULE = DecisionRule()


class Sequential:
    """The stopping rule: feed it pair after pair until `verdict` is set."""

    def __init__(self, score: Mapping[str, float], rule: DecisionRule = DEFAULT_RULE) -> None:
        self.rule = rule
        self.weights = _weights(score)
        self.combined: list[float] = []
        self.verdict: Verdict | None = None
        self.reason = ""
        self.ground = Ground.UNDECIDED
        self.losing: str | None = None
        self._gain = EProcessPair(math.log1p(-rule.margin), rule.bet)
        self._cases: dict[str, EProcessPair] = {}

    def add(self, ratios: Ratios) -> Verdict | None:
        """Take one pair's log ratios of all cases. Returns the verdict once there is one."""
        if self.verdict is not None:
            return self.verdict
        if missing := [case for case in self.weights if case not in ratios]:
            raise HarnessFault(
                f"a pair lacks the case {missing[0]}",
                problem="case-missing",
                hint="every scored case is timed in every pair",
            )
        if not all(math.isfinite(ratio) for ratio in ratios.values()):
            raise HarnessFault(
                "a pair has a ratio that is not a number", problem="not-a-number", hint="run `evo doctor`"
            )
        combined = sum(weight * ratios[case] for case, weight in self.weights.items())
        self.combined.append(combined)
        self._gain.add(combined)
        for case, ratio in ratios.items():
            self._cases.setdefault(case, EProcessPair(math.log1p(self.rule.case_loss), self.rule.bet)).add(ratio)
        self.verdict = self._look()
        return self.verdict

    @property
    def evidence(self) -> Evidence:
        return Evidence(
            pairs=len(self.combined),
            e_value=self._gain.below,
            e_value_against=self._gain.above,
            needed=1 / self.rule.alpha,
            margin=self.rule.margin,
        )

    def _look(self) -> Verdict | None:
        rule, pairs = self.rule, len(self.combined)
        hopeless = self._gain.above >= rule.futility
        if hopeless and rule.simpler is None:
            self.ground, self.reason = Ground.NO_GAIN, f"no gain past {rule.margin:.0%}"
            return Verdict.REVERT
        for case, bets in self._cases.items():
            if bets.above >= rule.futility:
                self.ground, self.losing = Ground.CASE_LOSS, case
                self.reason = f"case {case} loses more than {rule.case_loss:.0%}"
                return Verdict.REVERT
        unsure = [case for case, bets in self._cases.items() if bets.below < 1 / rule.alpha]
        unshown = f"case {unsure[0]} is not shown to lose less than {rule.case_loss:.0%}" if unsure else ""
        if self._gain.below >= 1 / rule.alpha:
            if not unsure:
                self.ground, self.reason = Ground.GAIN, f"faster by more than {rule.margin:.0%}"
                return Verdict.KEEP
            self.reason = unshown
        elif hopeless:
            if not unsure:
                self.ground = Ground.NEUTRAL
                self.reason = f"no case loses more than {rule.case_loss:.0%}, with {rule.simpler}"
                return Verdict.KEEP_NEUTRAL
            self.reason = f"no gain past {rule.margin:.0%}, and {unshown}"
        else:
            self.reason = f"a gain past {rule.margin:.0%} is neither shown nor ruled out"
        return Verdict.INCONCLUSIVE if pairs >= rule.max_pairs else None


@dataclass(slots=True)
class EProcessPair:
    """Two mirrored e-processes on the sign of (d - threshold). A tie counts against both."""

    threshold: float
    bet: float
    below: float = 1.0
    above: float = 1.0

    def add(self, d: float) -> None:
        self.below *= 1 + self.bet if d < self.threshold else 1 - self.bet
        self.above *= 1 + self.bet if d > self.threshold else 1 - self.bet


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What one stage measured: pairs in the order taken, none that the clock moved in, and both sides' times.

    at_own_clocks: how many of them have halves at different clocks, each at the one that its side keeps to. cycles: the
    same pairs in SM clock cycles (time x clock), where the clock of each half was seen. compute_bound: the cases whose
    time is cycles; for them, and at clocks of their own, a shorter time at a higher clock is no gain. between: what
    other captures would add to the scatter of these pairs; every interval is widened by it.
    """

    pairs: tuple[Ratios, ...]
    child: tuple[CaseBench, ...]
    parent: tuple[CaseBench, ...]
    dropped: int = 0
    at_own_clocks: int = 0
    clocks: Clocks | None = None
    cycles: tuple[Ratios, ...] = ()
    compute_bound: frozenset[str] = frozenset()
    between: CaptureScatter | None = None


def judge(comparison: Comparison, score: Mapping[str, float], rule: DecisionRule = DEFAULT_RULE) -> Decision:
    """One stage. A KEEP of the first stage is a candidate only: `confirm` it."""
    stage = Sequential(score, rule)
    for pair in comparison.pairs:
        if stage.add(pair) is not None:
            break
    between = comparison.between
    evidence = replace(
        stage.evidence,
        dropped_pairs=comparison.dropped,
        pairs_at_own_clocks=comparison.at_own_clocks or None,
        clocks=comparison.clocks,
        between_captures=between,
        cases={case: case_evidence(comparison.pairs, case, between) for case in (comparison.pairs or [{}])[0]},
        unsteady=tuple(case.name for case in comparison.child if case.warm and case.warm.unsteady),
    )
    gain = widened(gain_of(stage.combined), between) if stage.combined else None
    verdict, ground, reason = stage.verdict or Verdict.INCONCLUSIVE, stage.ground, stage.reason
    if not stage.combined:
        reason = "the clock moved within every pair"
        return Decision(verdict=verdict, ground=Ground.CLOCK, reason=reason, evidence=evidence)
    if verdict.kept and (tail := tail_problem(comparison.parent, comparison.child)):
        verdict, ground, reason = Verdict.REVERT, Ground.TAIL, tail
    if verdict is Verdict.KEEP and (problem := _cycle_problem(comparison, score, rule, len(stage.combined))):
        verdict, ground, reason = Verdict.INCONCLUSIVE, Ground.CLOCK, problem
    assert gain is not None
    shown = f"{reason}: {words(gain)} over {len(stage.combined)} pairs"
    return Decision(verdict=verdict, ground=ground, case=stage.losing, reason=shown, gain=gain, evidence=evidence)


def _cycle_problem(comparison: Comparison, score: Mapping[str, float], rule: DecisionRule, pairs: int) -> str | None:
    """Why cycles do not bear a gain in time out. Asked where time is cycles, or where the halves' clocks differ."""
    weights = _weights(score)
    asked = comparison.at_own_clocks or set(weights) <= comparison.compute_bound
    if not asked or len(comparison.cycles) < pairs:
        return None
    used = comparison.cycles[:pairs]
    gain = gain_of([sum(weight * ratios[case] for case, weight in weights.items()) for ratios in used])
    if gain.ratio > 1 / (1 - rule.margin):
        return None
    return f"times and cycles disagree: in SM cycles it is {words(gain)}, so the clock made the difference"


def confirm(
    first: Decision, again: Comparison, score: Mapping[str, float], rule: DecisionRule = DEFAULT_RULE
) -> Decision:
    """The second stage, from a fresh process: keep only if it agrees. Its gain is the one that is reported."""
    if not first.kept:
        return first
    second = judge(again, score, rule.confirming())
    assert second.evidence is not None
    evidence = replace(second.evidence, first_stage=first.evidence, first_stage_ratio=first.ratio)
    if second.kept:
        assert second.gain is not None
        gain = replace(second.gain, confirmed=True)
        if Verdict.KEEP_NEUTRAL in (first.verdict, second.verdict):
            reason = f"equal within {rule.margin:.0%} and with {rule.simpler}: {words(gain)}"
            verdict, ground = Verdict.KEEP_NEUTRAL, Ground.NEUTRAL
        else:
            reason, verdict, ground = words(gain), Verdict.KEEP, Ground.GAIN
        reason = f"{reason}, confirmed in a fresh process"
        return Decision(verdict=verdict, ground=ground, reason=reason, gain=gain, evidence=evidence)
    return replace(second, reason=f"not confirmed in a fresh process: {second.reason}", evidence=evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFloor:
    """What an A/A control shows: the spread of log ratios of a program against itself, of pairs and of captures."""

    sd: float
    pairs: int
    between: CaptureScatter | None = None

    def smallest_margin(self, pairs: int) -> float:
        """Gains below this are not told from noise with so many pairs of one capture: three standard errors."""
        return 3 * math.hypot(self.sd / math.sqrt(pairs), self.between.sd if self.between else 0.0)

    def shown(self, rule: DecisionRule) -> Control:
        """What a record keeps: the spread of a pair, and the smallest margin that the rule may be given here."""
        return Control(
            sd=self.sd,
            pairs=self.pairs,
            smallest_margin=self.smallest_margin(rule.fewest_pairs),
            between_captures=self.between,
        )


def noise_floor(pairs: Sequence[Ratios], score: Mapping[str, float], captures: Sequence[int] = ()) -> NoiseFloor:
    """From the pairs of an A/A run, and the capture of each if that is known. Raises HarnessFault with one pair."""
    weights = _weights(score)
    combined = [sum(weight * pair[case] for case, weight in weights.items()) for pair in pairs]
    if len(combined) < 2:
        raise HarnessFault("an A/A control needs two pairs or more", hint="raise max_pairs")
    between = between_captures(pairs, captures, weights) if captures else None
    return NoiseFloor(sd=float(np.std(combined, ddof=1)), pairs=len(combined), between=between)


def require_margin(floor: NoiseFloor, rule: DecisionRule) -> None:
    """Raises UsageError for a margin that is within the noise of the shortest run that could keep something."""
    smallest = floor.smallest_margin(rule.fewest_pairs)
    if rule.margin >= smallest:
        return
    captures = f" and {floor.between.sd:.2%} a capture" if floor.between else ""
    raise UsageError(
        f"a margin of {rule.margin:.2%} is below the noise floor: a program against itself scatters by {floor.sd:.2%} "
        f"a pair{captures} (A/A control, {floor.pairs} pairs), which supports {smallest:.2%} and more",
        problem="margin-below-noise-floor",
        hint=f"use --margin {math.ceil(smallest * 1000) / 10:g}% or more; or lock the clocks, or free the GPU",
    )


def supported_margin(floor: NoiseFloor, rule: DecisionRule) -> float:
    """The rule's margin, or the smallest that the noise allows here if that is more, in steps of 0.1 %.

    For a margin that nobody chose. Raises UsageError, as `require_margin` does, if even LARGEST_RAISED is too small.
    """
    smallest = math.ceil(floor.smallest_margin(rule.fewest_pairs) * 1000) / 1000
    if smallest > LARGEST_RAISED:
        require_margin(floor, rule)
    return max(rule.margin, smallest)


def require_same(parent: Environment, child: Environment) -> None:
    """Raises HarnessFault, with what differs, when two results come from places that may not be compared."""
    if different := child.differences(parent):
        raise HarnessFault(
            f"results from different environments cannot be compared: {', '.join(different)}",
            problem="environments-differ",
            hint="measure both variants here; `evo bench FILE --against FILE` does",
        )


# --- estimates ------------------------------------------------------------------------------------------------------


def gain_of(ratios: Sequence[float], *, alpha: float = 0.05) -> Gain:
    """Parent time / child time: Hodges-Lehmann estimate, with the exact signed-rank interval where n allows one."""
    walsh = walsh_averages(ratios)
    ratio = math.exp(-float(np.median(walsh)))
    rank = signed_rank_rank(len(ratios), alpha)
    if not rank:
        return Gain(ratio=ratio)
    return Gain(ratio=ratio, low=math.exp(-walsh[-rank]), high=math.exp(-walsh[rank - 1]))


def walsh_averages(values: Sequence[float]) -> NDArray[np.float64]:
    """Sorted means of all pairs of values, each with itself included."""
    array = np.asarray(values, np.float64)
    rows, columns = np.triu_indices(len(array))
    return np.sort((array[rows] + array[columns]) / 2)


@cache
def signed_rank_rank(n: int, alpha: float) -> int:
    """The largest k with P(W+ <= k - 1) <= alpha / 2 for n values; 0 if n is too small for any interval."""
    counts = [1]  # counts[w]: subsets of 1..n that sum to w
    for rank in range(1, n + 1):
        longer = counts + [0] * rank
        for total, count in enumerate(counts):
            longer[total + rank] += count
        counts = longer
    allowed, below, k = alpha / 2 * 2**n, 0, 0
    for count in counts:
        below += count
        if below > allowed:
            break
        k += 1
    return k


def words(gain: Gain) -> str:
    """A gain as a person says it: `1.31x faster [1.28, 1.34]`."""
    factor, side = (gain.ratio, "faster") if gain.ratio >= 1 else (1 / gain.ratio, "slower")
    if gain.low is None or gain.high is None:
        return f"{factor:.3f}x {side}"
    if gain.low <= 1 <= gain.high:
        return f"no difference shown ({gain.ratio:.3f}x [{gain.low:.3f}, {gain.high:.3f}])"
    low, high = (gain.low, gain.high) if gain.ratio >= 1 else (1 / gain.high, 1 / gain.low)
    return f"{factor:.3f}x {side} [{low:.3f}, {high:.3f}]"


def case_evidence(pairs: Sequence[Ratios], case: str, between: CaptureScatter | None) -> CaseEvidence:
    gain = widened(gain_of([pair[case] for pair in pairs]), between, case=case)
    return CaseEvidence(ratio=gain.ratio, low=gain.low, high=gain.high, confirmed=gain.confirmed)


def _weights(score: Mapping[str, float]) -> dict[str, float]:
    total = sum(score.values())
    if total <= 0:
        raise HarnessFault("the score gives no case a weight", hint="see `score` in task.yaml")
    return {case: weight / total for case, weight in score.items() if weight > 0}
