"""Keep or not: the verdict, the gain, and the evidence in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from evo.results.bench import Clocks
from evo.results.codec import ALWAYS, Decimals, Serializable, Us
from evo.results.status import Ground, Verdict

Ratio = Annotated[float, Decimals(5)]
Spread = Annotated[float, Decimals(7)]  # a standard deviation of ln ratios


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain(Serializable):
    """How much faster the child is than its parent."""

    ratio: Ratio  # parent time / child time
    low: Ratio | None = None  # the lower end of its 95 % interval, if measured
    high: Ratio | None = None  # the upper end of its 95 % interval, if measured
    confirmed: bool = False  # whether a fresh process has confirmed it


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureNoise(Serializable):
    """The scatter of ln ratios between captures of graphs, buffers and code."""

    COMPUTED: ClassVar = ("assumed",)

    sd: Spread  # of the score's mean
    captures: int | None = None  # how many captures it was taken from; absent if it is assumed
    cases: Mapping[str, Spread] = field(default_factory=dict)  # sd by case
    timer_step: Spread = 0.0  # the timer's resolution over the length of a sample

    @property
    def assumed(self) -> bool:
        """Whether it is assumed, since no captures were taken."""
        return self.captures is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Control(Serializable):
    """The noise floor that the A/A control at the start of a run showed: a program against itself."""

    sd: Annotated[float, Decimals(6)]  # the standard deviation of ln ratios of a pair
    pairs: int  # how many pairs were taken
    smallest_margin: Annotated[float, Decimals(6)]  # the smallest margin that the decision rule may be given here
    between_captures: CaptureNoise | None = None  # the scatter between captures
    # how many seconds before the run it was measured, in the same environment; absent if the run measured it
    age_s: Annotated[float | None, Decimals(1)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseEvidence(Serializable):
    """One case of a comparison: the gain if measured, both modelled times and their limiter if modelled."""

    ratio: Ratio | None = None  # parent time / child time, measured
    low: Ratio | None = None  # the lower end of its 95 % interval
    high: Ratio | None = None  # the upper end of its 95 % interval
    confirmed: bool | None = None  # false; only the gain over all cases is confirmed
    parent_us: Us | None = None  # the parent's modelled time
    child_us: Us | None = None  # the child's modelled time
    limiter: str | None = None  # the largest term of the parent's modelled time
    limiter_after: str | None = None  # the largest term of the child's modelled time
    parent_limiter_us: Us | None = None  # the parent's time in the term `limiter`
    child_limiter_us: Us | None = None  # the child's time in the term `limiter`


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence(Serializable):
    """What a decision rests on: an e-process over pairs if measured, both estimates if modelled."""

    timing: str | None = None  # `modelled`, if it is
    model_version: str | None = None  # the version of the simulator's timing model
    chip: str | None = None  # the chip that is modelled
    calibration: str | None = None  # whether the model was fitted to measurements of that chip
    pairs: int | None = None  # how many pairs of blocks were used
    e_value: Annotated[float | None, Decimals(3)] = None  # the e-process against "no gain past the margin"
    e_value_against: Annotated[float | None, Decimals(3)] = None  # the mirrored e-process
    needed: Annotated[float | None, Decimals(3)] = None  # the e-value that ends in a keep
    margin: float | None = None  # the gain that is asked for, as a fraction of the parent's time
    # that the child is faster, as measured pairs with such a modelled gain show
    probability: Annotated[float | None, Decimals(3)] = None
    dropped_pairs: int | None = None  # pairs that were not used, since the clock moved between their halves
    pairs_at_own_clocks: int | None = None  # pairs whose halves ran at different clocks, each steadily
    clocks: Clocks | None = None  # how the GPU ran
    between_captures: CaptureNoise | None = None  # the scatter between captures, by which intervals are widened
    cases: Annotated[Mapping[str, CaseEvidence], ALWAYS] = field(default_factory=dict)  # the evidence by case
    unsteady: tuple[str, ...] = ()  # cases whose samples scatter widely
    first_stage: Evidence | None = None  # the evidence of the first stage, if a second one confirmed
    first_stage_ratio: Ratio | None = None  # the gain of the first stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Serializable):
    """Keep or not, with the reason in words and the evidence in numbers."""

    verdict: Verdict  # what is done with the variant
    reason: str  # why, in words
    ground: Ground | None = None  # what the verdict rests on; absent if it rests on no comparison
    case: str | None = None  # the case that decided it, if one did
    gain: Gain | None = None  # over the parent, if both were timed
    evidence: Evidence | None = None  # what the verdict rests on

    @property
    def kept(self) -> bool:
        return self.verdict.kept

    @property
    def ratio(self) -> float | None:
        """Parent time / child time; None if the two were not compared."""
        return self.gain.ratio if self.gain is not None else None
