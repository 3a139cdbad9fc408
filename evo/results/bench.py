"""Times: measured on a GPU (`Timing`), modelled by the simulator (`Estimate`), and what belongs to them.

They are different types and different JSON fields, and no ranking holds both. Units: microseconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from evo.results.codec import Decimals, Digits, Serializable, Us, copied

LAUNCH_BOUND = 0.5  # of a case's time: from there on a case says more of the launch than of the kernel
UNSTEADY = 0.10  # of the mean: a standard deviation above this is flagged


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing(Serializable):
    """Measured durations of one launch sequence on a GPU, from samples of which none was left out."""

    COMPUTED: ClassVar = ("unsteady",)

    p50_us: Us  # the median
    p90_us: Us  # the 90th percentile
    p99_us: Us  # the 99th percentile
    mean_us: Us  # the mean
    std_us: Us  # the standard deviation
    samples: int  # how many

    def __post_init__(self) -> None:
        if not all(math.isfinite(x) and x > 0 for x in (self.p50_us, self.p90_us, self.p99_us, self.mean_us)):
            raise ValueError(f"a Timing holds positive finite times only, got {self}")

    @property
    def unsteady(self) -> Literal[True] | None:
        """True if the samples scatter so much that no figure of them stands for the rest."""
        return True if self.std_us > UNSTEADY * self.mean_us else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate(Serializable):
    """A modelled duration from simulator counters; never called measured."""

    modelled_us: Us  # the modelled time
    model_version: str  # the version of the simulator's timing model
    chip: str  # the chip that is modelled
    calibration: str  # whether the model was fitted to measurements of that chip
    limiter: str  # the largest term
    terms_us: Mapping[str, Us]  # the model's terms by name
    blocks_run: int  # how many blocks were executed
    blocks_total: int  # how many blocks the launches have


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline(Serializable):
    """The fastest library implementation of a case, timed on the same GPU in the same run, warm."""

    name: str  # the library call, as the task names it
    p50_us: Us  # its median
    # medians of the slower ones by name; a claim may be against one of them
    others: Mapping[str, Us] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseBench(Serializable):
    """Times of one bench case: measured (warm, and cold) or modelled, never both."""

    name: str  # the case
    warm: Timing | None = None  # measured, with inputs and code in the caches as repeated launches leave them
    cold: Timing | None = None  # measured, with the L2 cache flushed before each launch
    # the task's floating-point operations over the warm median
    tflop_per_s: Annotated[float | None, Decimals(4)] = None
    # the case's floor on the chip over its warm median; 1 is as fast as the chip's table allows
    roofline_fraction: Annotated[float | None, Decimals(4)] = None
    baseline: Baseline | None = None  # the fastest library call for the case
    modelled_us: Us | None = None  # the modelled time; with it come the fields of an `Estimate`, whose names they have
    model_version: str | None = None  # the version of the simulator's timing model
    chip: str | None = None  # the chip that is modelled
    calibration: str | None = None  # whether the model was fitted to measurements of that chip
    limiter: str | None = None  # the largest term
    terms_us: Mapping[str, Us] | None = None  # the model's terms by name
    blocks_run: int | None = None  # how many blocks were executed
    blocks_total: int | None = None  # how many blocks the launches have

    def __post_init__(self) -> None:
        if (self.warm is None) == (self.modelled_us is None):
            raise ValueError(f"case {self.name}: exactly one of a measured timing and a modelled estimate")
        if self.modelled_us is not None and (self.cold is not None or self.model_version is None):
            raise ValueError(f"case {self.name}: a modelled time has a model_version, and nothing is measured")

    @classmethod
    def modelled(cls, name: str, estimate: Estimate) -> CaseBench:
        """A case with a modelled time."""
        return copied(cls, estimate, name=name)

    @property
    def estimate(self) -> Estimate | None:
        """The modelled time and what it rests on; None if the case was measured."""
        if self.modelled_us is None:
            return None
        return Estimate(
            modelled_us=self.modelled_us,
            model_version=self.model_version or "",
            chip=self.chip or "",
            calibration=self.calibration or "",
            limiter=self.limiter or "",
            terms_us=self.terms_us or {},
            blocks_run=self.blocks_run or 0,
            blocks_total=self.blocks_total or 0,
        )

    @property
    def launch_us(self) -> float | None:
        """What the launch alone takes by the model; None if it has no such term."""
        return (self.terms_us or {}).get("launch")

    @property
    def launch_share(self) -> float | None:
        """How much of the modelled time the launch alone takes; None if the model has no such term."""
        return min(self.launch_us / self.modelled_us, 1.0) if self.launch_us and self.modelled_us else None

    @property
    def clear_share(self) -> float:
        """How much of the modelled time goes into clearing buffers before the launches."""
        return (self.terms_us or {}).get("clear", 0.0) / self.modelled_us if self.modelled_us else 0.0

    @property
    def is_launch_bound(self) -> bool:
        """Whether the model's launch alone takes half of the time, or more."""
        return (self.launch_share or 0.0) >= LAUNCH_BOUND

    @property
    def time_us(self) -> float:
        """The figure that ranks this case within its own timing kind: the warm median, or the modelled time."""
        if self.warm is not None:
            return self.warm.p50_us
        assert self.modelled_us is not None
        return self.modelled_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks(Serializable):
    """How the GPU ran while blocks of launches were timed. A list that begins with `each` has one entry per block."""

    blocks: int | None = None  # how many blocks of launches were timed
    sm_mhz_min: int | None = None  # the lowest SM clock, MHz
    sm_mhz_max: int | None = None  # the highest SM clock, MHz
    sm_mhz_median: int | None = None  # the median SM clock, MHz
    throttle_reasons: tuple[str, ...] | None = None  # NVML's bits of what held the clock back, in hexadecimal
    sm_mhz: str | None = None  # `unavailable` if no clock could be read
    other_processes: int | None = None  # compute processes of others on the GPU
    each_sm_mhz: tuple[int | float | None, ...] | None = None  # the SM clock that NVML gave, MHz
    each_counted_mhz: tuple[int | float | None, ...] | None = None  # the SM clock from the SMs' own counters, MHz
    each_power_w: tuple[int | float | None, ...] | None = None  # the power that NVML gave, W
    each_temperature_c: tuple[int | float | None, ...] | None = None  # the temperature, degrees Celsius
    each_throttle: tuple[int | float | None, ...] | None = None  # NVML's bits of what held the clock back
    start_c: int | float | None = None  # the temperature before, in records of earlier versions
    end_c: int | float | None = None  # the temperature after, in records of earlier versions
    power_w: int | float | None = None  # the power, in records of earlier versions


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate(Serializable):
    """One measured figure of a chip in SI units."""

    value: Annotated[float, Digits(6)]  # the figure
    unit: str  # its unit
    condition: str  # the condition that it holds under


def geometric_mean(values: Mapping[str, float], weights: Mapping[str, float]) -> float | None:
    """The weighted geometric mean, such as a task's score over the times of its cases.

    None if no weight is positive, or if a name with a positive weight has no positive value.
    """
    scored = {name: weight for name, weight in weights.items() if weight > 0}
    if not scored or not all(values.get(name, 0) > 0 for name in scored):
        return None
    return math.exp(sum(w * math.log(values[name]) for name, w in scored.items()) / sum(scored.values()))
