"""Requests and results of a measurement: the data that crosses to the device's process."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from evo.decide.sequential import DEFAULT_RULE, DecisionRule
from evo.device import Array, Arrays, BenchCase
from evo.results import CaseBench, Clocks, Fault, Timing

Samples = NDArray[np.float32]

CHAMPION_SAMPLES = 1000  # a p99 needs some 300 before its own upper bound is finite
BLOCK_SAMPLES = 8
SHORT_SAMPLES = 3
BLOCK_US = 20_000.0  # a block of long launches takes fewer samples, so that a pair stays short against clock drift
LONG_US = 5_000.0  # one such launch is a block: what went before it in the caches is nothing beside it
SINGLE_US = 150.0  # from here on a sample is one launch
SAMPLE_US = 300.0
MAX_PER_GRAPH = 1200
_SIMILAR = 1.5
_SETTLED = 0.01
_DOCUMENTED_STEP_US = 0.5  # of CUDA events, where the samples do not show a finer one
_ROUNDING_US = 1e-3  # differences below this are of the float that the driver returns
_DENSE_US = 100_000.0
_HALF = 4  # blocks that are compared with so many before them
_WARM_US = 150_000.0  # of launches, after which clocks and caches are as they will be


class Side(StrEnum):
    """Which of the two programs of a measurement."""

    CANDIDATE = "candidate"
    PARENT = "parent"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """How to measure. samples: per case and side at least, warm; a champion's percentiles need 1,000, and those of a
    second stage that confirms a gain confirming_samples.

    swap loads and allocates the child before the parent, so that a second stage differs from the first in that too.
    captures: over how many independent captures (new buffers, modules and graphs) the pairs are spread.
    l2_persist: the inputs stay in a part of L2 set aside for them; such times are looked at and decide nothing.
    tail_s: how long the samples beyond a screening's may take; only percentiles want them, and a launch may be 30 ms.
    fewest: samples of a launch that is a block by itself, where that time is over.
    stop_at_loss: the smallest case is looked at first, and a candidate that loses it plainly is timed at no other.
    """

    rule: DecisionRule = DEFAULT_RULE
    samples: int = 64
    confirming_samples: int = CHAMPION_SAMPLES
    cold_samples: int = 48
    budget_s: float = 120.0
    tail_s: float = 6.0
    fewest: int = BLOCK_SAMPLES
    warm_up_s: float = 2.0
    swap: bool = False
    captures: int = 1
    l2_persist: bool = False
    stop_at_loss: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRequest:
    """Time child cases, against the parent's if given; cases of both sides are in the same order.

    others: more inputs by case, of other values; the timed launches rotate over all of them. expected: the verified
    outputs by case for the first inputs; without them the first launch in this process is the yardstick.
    """

    child: tuple[BenchCase, ...]
    parent: tuple[BenchCase, ...] = ()
    score: dict[str, float] = field(default_factory=dict)
    others: dict[str, tuple[Arrays, ...]] = field(default_factory=dict)
    expected: dict[str, Arrays] = field(default_factory=dict)
    options: BenchOptions = field(default_factory=BenchOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchResult:
    """Times and pairs of one process. `divergence`: the child gave other outputs while it was timed."""

    child: tuple[CaseBench, ...]
    parent: tuple[CaseBench, ...] = ()
    pairs: tuple[dict[str, float], ...] = ()  # ln(child / parent) of block medians, by case
    cycles: tuple[dict[str, float], ...] = ()  # the same of median x SM clock; empty if the clock was not seen
    captures: tuple[int, ...] = ()  # the number of the capture that each pair was taken in
    dropped: int = 0
    at_own_clocks: int = 0  # of the pairs: their halves ran at different clocks, each at its side's own
    clocks: Clocks | None = None
    loaded: str = "cubin"
    divergence: Fault | None = None
    samples: dict[str, Samples] = field(default_factory=dict)  # raw warm samples of the child in microseconds
    launches_per_sample: dict[str, int] = field(default_factory=dict)
    stages_s: dict[str, float] = field(default_factory=dict)  # wall time by part of the measurement
    timer_step: float = 0.0  # the timer's resolution over the length of a sample, the largest of the cases
    held_s: float | None = None  # how long the GPU's lock was held for it
    lost_at: str | None = None  # the only case that was timed, since the child plainly lost it


class StageTimer:
    """Wall time by named part. A part that is timed within another is not counted in that one: the parts add up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inner: list[float] = []  # of each part under way: what parts within it took

    @contextlib.contextmanager
    def time(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        self._inner.append(0.0)
        try:
            yield
        finally:
            taken = time.perf_counter() - started
            self._book(name, taken - self._inner.pop())
            if self._inner:
                self._inner[-1] += taken

    def within(self, name: str, seconds: float) -> None:
        """A part of what is under way that was timed elsewhere, as in another process."""
        self._book(name, seconds)
        if self._inner:
            self._inner[-1] += seconds

    def _book(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + max(0.0, seconds)


class IdlePacing:
    """Idle time after dense work, as long as the work: a power limit then slows down no later kernel.

    Whatever is timed for its absolute time has the same duty cycle that way: variants and library calls alike. An H200
    reaches its limit after 0.7 s of dense mma. Rests are few, since kernels right after one are up to 5 % slower.
    """

    def __init__(self) -> None:
        self.busy_us = 0.0

    def worked(self, us: float) -> bool:
        """Whether there was a rest, after which the next block is for warming up."""
        self.busy_us += us
        if self.busy_us < _DENSE_US:
            return False
        time.sleep(self.busy_us * 1e-6)
        self.busy_us = 0.0
        return True


def control_us(each_us: float, pairs: int, captures: int) -> float:
    """About how much of the GPU's time an A/A control at one case takes, in microseconds.

    each_us: of one launch. A block of either side is its samples, a launch before them and one or two after them; a
    capture verifies three launches of either side and takes three more.
    """
    samples = 1.0 if each_us >= LONG_US else min(BLOCK_SAMPLES, max(SHORT_SAMPLES, BLOCK_US / each_us))
    sample_us = max(each_us, SAMPLE_US if each_us < SINGLE_US else 0.0)
    return 2 * sample_us * (pairs * (samples + 2) + captures * 2 * SHORT_SAMPLES)


def settled(medians: Sequence[float], busy_us: float = 0.0) -> bool:
    """Whether the last five blocks agree within 1 %: warmed up. Three do if they kept the GPU busy for long enough.

    Blocks of some kernels never agree. They are warm when they only scatter: four are at their median as the four
    before them, after twice as long.
    """
    count = 3 if busy_us >= _WARM_US else 5
    last = medians[-count:]
    if len(last) == count and max(last) <= (1 + _SETTLED) * min(last):
        return True
    if busy_us < 2 * _WARM_US or len(medians) < 2 * _HALF:
        return False
    before, now = float(np.median(medians[-2 * _HALF : -_HALF])), float(np.median(medians[-_HALF:]))
    return max(before, now) <= (1 + _SETTLED) * min(before, now)


def timer_step_us(taken_us: Sequence[float] | Samples) -> float:
    """The resolution of the timer as the samples show it: their smallest difference."""
    gaps = np.diff(np.unique(np.asarray(taken_us, np.float64)))
    gaps = gaps[gaps > _ROUNDING_US]
    return min(float(gaps.min()), _DOCUMENTED_STEP_US) if len(gaps) else _DOCUMENTED_STEP_US


def sequences_per_sample(each_us: Sequence[float], cycle: int) -> list[int]:
    """How many sequences of each side make one sample: 1, or a multiple of `cycle` that fills SAMPLE_US.

    Sides of similar time get the same number. The start of a graph (2.8 us on an H200) is shared out over its
    sequences, so different numbers would pass for a difference of the kernels: 1.6 % where one side takes just over
    150 us and the other just under.
    """

    def alone(us: float) -> int:
        return 1 if us >= SINGLE_US else min(math.ceil(SAMPLE_US / us / cycle), MAX_PER_GRAPH // cycle) * cycle

    counts = [alone(us) for us in each_us]
    return [max(counts)] * len(counts) if max(each_us) <= _SIMILAR * min(each_us) else counts


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryCase:
    """The library calls of a task, rivals() of `folder`/reference.py, at one case and on its inputs."""

    folder: str
    axes: dict[str, int]
    inputs: Arrays


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryTimes:
    """One library call at one case. warm and cold: device time; eager: wall time of a call and its synchronisation.

    outputs: what it computed from the inputs, in the order of the task's outputs, 16-bit floats as float32. Only warm
    times are taken unless more is asked for.
    """

    warm: Timing
    cold: Timing | None = None
    eager: Timing | None = None
    outputs: tuple[Array, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryPairs:
    """A variant and one library call in interleaved blocks. ratios: ln(variant / call) of block medians, in order.

    variant_us, library_us: medians over all blocks of each. dropped: pairs whose halves saw different clocks.
    """

    ratios: tuple[float, ...]
    variant_us: float
    library_us: float
    dropped: int = 0


def timing_of(samples: Sequence[float] | Samples) -> Timing:
    """Percentiles, mean and deviation of untrimmed samples in microseconds."""
    values = np.asarray(samples, np.float64)
    p50, p90, p99 = (float(value) for value in np.percentile(values, [50, 90, 99]))
    return Timing(
        p50_us=p50,
        p90_us=p90,
        p99_us=p99,
        mean_us=float(values.mean()),
        std_us=float(values.std()),
        samples=len(values),
    )
