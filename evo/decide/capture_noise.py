"""Noise between captures: the difference that each capture of graphs, buffers and code adds, unseen by its own pairs.

Within one capture block medians scatter by some hundredths of a per cent and their interval shrinks with more pairs,
while a part as large stays the same for all of them: where the buffers, the code and the graph came to lie. Repetition
has to happen at the level where the variance lives (Kalibera and Jones, Rigorous Benchmarking in Reasonable Time), so
an A/A control makes several independent captures. The truth of each is zero, so their sd is taken about zero and has as
many degrees of freedom as there are captures. An interval's half-width w becomes

    sqrt(w^2 + (t * sd)^2 + step^2),   t = Student's quantile at those degrees of freedom,

without a factor of sqrt(2), since a control's ratio already is that of two sides. step is the timer's resolution over
the length of a sample, both sides' at worst.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from evo.results import CaptureNoise, Gain


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureScatter(CaptureNoise):
    """The sd of ln ratios between captures: of the score's mean, and by case. captures: None if it is assumed."""

    def half_width(self, alpha: float, case: str | None = None) -> float:
        """What 1 - alpha of captures lie within, of the logarithm of the ratio."""
        sd = self.sd if case is None else self.cases.get(case, self.sd)
        quantile = NormalDist().inv_cdf(1 - alpha / 2) if self.captures is None else student_t(self.captures, alpha)
        return math.hypot(quantile * sd, self.timer_step)


# Where no control ran: the largest that A/A captures of three kernels showed on an H200.
ASSUMED = CaptureScatter(sd=0.0005)


def between_captures(
    pairs: Sequence[Mapping[str, float]], captures: Sequence[int], score: Mapping[str, float]
) -> CaptureScatter:
    """From the pairs of an A/A run and the capture that each was taken in. score: weights that add up to 1."""
    groups: dict[int, list[Mapping[str, float]]] = {}
    for pair, capture in zip(pairs, captures, strict=True):
        groups.setdefault(capture, []).append(pair)

    def spread(value: Mapping[str, float]) -> float:
        """sd about zero of the captures' means of the weighted ratio."""
        means = [_mean(sum(w * pair[case] for case, w in value.items()) for pair in group) for group in groups.values()]
        return math.sqrt(_mean(mean * mean for mean in means))

    cases = {case: spread({case: 1.0}) for case in pairs[0]}
    return CaptureScatter(sd=spread(score), captures=len(groups), cases=cases if len(cases) > 1 else {})


def widened(gain: Gain, between: CaptureScatter | None, *, alpha: float = 0.05, case: str | None = None) -> Gain:
    """The gain with an interval that holds for other captures too."""
    if between is None or gain.low is None or gain.high is None:
        return gain
    middle, more = math.log(gain.ratio), between.half_width(alpha, case)
    low = middle - math.hypot(middle - math.log(gain.low), more)
    high = middle + math.hypot(math.log(gain.high) - middle, more)
    return replace(gain, low=math.exp(low), high=math.exp(high))


def student_t(freedom: int, alpha: float) -> float:
    """The t that |T| exceeds with probability alpha (two-sided)."""
    low, high = 0.0, 1.0
    while _within(high, freedom) < 1 - alpha:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < 1 - alpha else (low, middle)
    return high


def _within(t: float, freedom: int) -> float:
    """P(|T| <= t) for whole degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, odd = math.cos(angle), freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 or not odd else 0.0
    for k in range(2 + odd, freedom - 1, 2):
        term *= cosine * cosine * (k - 1) / k
        total += term
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return sum(known) / len(known)
