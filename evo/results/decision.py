"""Keep or not: the verdict, the gain, and the evidence in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from evo.results.bench import Clocks
from evo.results.codec import ALWAYS, Decimals, Serializable, Us
from evo.results.status import Verdict

Ratio = Annotated[float, Decimals(5)]
Spread = Annotated[float, Decimals(7)]  # a standard deviation of ln ratios


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain(Serializable):
    """How much faster the child is than its parent.

    ratio: parent time / child time.
    low: the lower end of its 95 % interval, if measured.
    high: the upper end of its 95 % interval, if measured.
    confirmed: whether a fresh process has confirmed it.
    """

    ratio: Ratio
    low: Ratio | None = None
    high: Ratio | None = None
    confirmed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureNoise(Serializable):
    """The scatter of ln ratios between captures of graphs, buffers and code.

    sd: of the score's mean.
    captures: how many captures it was taken from; absent if it is assumed.
    assumed: whether it is assumed, since no A/A control ran.
    cases: sd by case.
    timer_step: the timer's resolution over the length of a sample.
    """

    COMPUTED: ClassVar = ("assumed",)

    sd: Spread
    captures: int | None = None
    cases: Mapping[str, Spread] = field(default_factory=dict)
    timer_step: Spread = 0.0

    @property
    def assumed(self) -> bool:
        return self.captures is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Control(Serializable):
    """The noise floor that the A/A control at the start of a run showed: a program against itself.

    sd: the standard deviation of ln ratios of a pair.
    pairs: how many pairs were taken.
    smallest_margin: the smallest margin that the decision rule may be given here.
    between_captures: the scatter between captures.
    """

    sd: Annotated[float, Decimals(6)]
    pairs: int
    smallest_margin: Annotated[float, Decimals(6)]
    between_captures: CaptureNoise | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseEvidence(Serializable):
    """One case of a comparison: the gain if measured, both modelled times and their limiter if modelled.

    ratio: parent time / child time, measured.
    low: the lower end of its 95 % interval.
    high: the upper end of its 95 % interval.
    confirmed: false; only the gain over all cases is confirmed.
    parent_us: the parent's modelled time.
    child_us: the child's modelled time.
    limiter: the largest term of the parent's modelled time.
    limiter_after: the largest term of the child's modelled time.
    parent_limiter_us: the parent's time in the term `limiter`.
    child_limiter_us: the child's time in the term `limiter`.
    """

    ratio: Ratio | None = None
    low: Ratio | None = None
    high: Ratio | None = None
    confirmed: bool | None = None
    parent_us: Us | None = None
    child_us: Us | None = None
    limiter: str | None = None
    limiter_after: str | None = None
    parent_limiter_us: Us | None = None
    child_limiter_us: Us | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence(Serializable):
    """What a decision rests on: an e-process over pairs if measured, both estimates if modelled.

    timing: `modelled`, if it is.
    model_version: the version of the simulator's timing model.
    chip: the chip that is modelled.
    calibration: whether the model was fitted to measurements of that chip.
    pairs: how many pairs of blocks were used.
    e_value: the e-process against "no gain past the margin".
    e_value_against: the mirrored e-process.
    needed: the e-value that ends in a keep.
    margin: the gain that is asked for, as a fraction of the parent's time.
    dropped_pairs: pairs that were not used, since the clock moved between their halves.
    pairs_at_own_clocks: pairs whose halves ran at different clocks, each steadily.
    clocks: how the GPU ran.
    between_captures: the scatter between captures, by which intervals are widened.
    cases: the evidence by case.
    unsteady: cases whose samples scatter widely.
    first_stage: the evidence of the first stage, if a second one confirmed.
    first_stage_ratio: the gain of the first stage.
    """

    timing: str | None = None
    model_version: str | None = None
    chip: str | None = None
    calibration: str | None = None
    pairs: int | None = None
    e_value: Annotated[float | None, Decimals(3)] = None
    e_value_against: Annotated[float | None, Decimals(3)] = None
    needed: Annotated[float | None, Decimals(3)] = None
    margin: float | None = None
    dropped_pairs: int | None = None
    pairs_at_own_clocks: int | None = None
    clocks: Clocks | None = None
    between_captures: CaptureNoise | None = None
    cases: Annotated[Mapping[str, CaseEvidence], ALWAYS] = field(default_factory=dict)
    unsteady: tuple[str, ...] = ()
    first_stage: Evidence | None = None
    first_stage_ratio: Ratio | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Serializable):
    """Keep or not, with the reason in words and the evidence in numbers.

    verdict: what is done with the variant.
    reason: why, in words.
    gain: over the parent, if both were timed.
    evidence: what the verdict rests on.
    """

    verdict: Verdict
    reason: str
    gain: Gain | None = None
    evidence: Evidence | None = None

    @property
    def kept(self) -> bool:
        return self.verdict.kept

    @property
    def ratio(self) -> float | None:
        """Parent time / child time; None if the two were not compared."""
        return self.gain.ratio if self.gain is not None else None
