"""The frozen records of one trial: status, faults, counters, timings, decisions, environment.

A number exists or is absent (None, and left out of JSON); there is no 0, inf, NaN or -1 for "not measured".
Measured times (`Timing`) and modelled times (`Estimate`) are different types and different JSON fields.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TypeAlias

Json: TypeAlias = "None | bool | int | float | str | list[Json] | dict[str, Json]"

UNSTEADY = 0.10  # of the mean: a standard deviation above this is flagged


class Status(enum.StrEnum):
    """How far a variant got. Whether it is kept is a Decision, made later."""

    UNCOMPILED = "uncompiled"  # compiler error or warning
    REFUSED = "refused"  # static rule or limit
    TIMED_OUT = "timed_out"
    CRASHED = "crashed"
    UNSAFE = "unsafe"  # memory fault, race, uninitialised read
    UNSTABLE = "unstable"  # differs between runs
    WRONG = "wrong"
    CORRECT = "correct"
    MEASURED = "measured"  # gpu only

    @property
    def passed(self) -> bool:
        return self in (Status.CORRECT, Status.MEASURED)


class Verdict(enum.StrEnum):
    KEEP = "keep"
    REVERT = "revert"
    INCONCLUSIVE = "inconclusive"
    KEEP_NEUTRAL = "keep_neutral"


class FaultKind(enum.StrEnum):
    """What a kernel did wrong, and the status that a variant gets for it."""

    status: Status
    OUT_OF_BOUNDS = "out_of_bounds", Status.UNSAFE
    MISALIGNED = "misaligned", Status.UNSAFE
    UNINITIALISED = "uninitialised", Status.UNSAFE
    RACE = "race", Status.UNSAFE
    WARP_SYNC = "warp_sync", Status.UNSAFE
    BARRIER = "barrier", Status.UNSAFE
    READ_ONLY = "read_only", Status.UNSAFE
    DEADLOCK = "deadlock", Status.UNSAFE
    STACK_OVERFLOW = "stack_overflow", Status.UNSAFE
    TIMING_DIVERGENCE = "timing_divergence", Status.UNSAFE  # timed launches left other outputs than verified ones
    BUDGET = "budget", Status.TIMED_OUT  # of warp instructions
    TRAP = "trap", Status.CRASHED
    LAUNCH = "launch", Status.REFUSED  # the chip cannot start it
    UNSUPPORTED = "unsupported", Status.REFUSED  # by the simulator

    def __new__(cls, word: str, status: Status) -> FaultKind:
        member = str.__new__(cls, word)
        member._value_, member.status = word, status
        return member

    @property
    def words(self) -> str:
        return self.value.replace("_", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault seen while a kernel executed. block, thread: (x, y, z). address: virtual, or a shared or local one."""

    kind: FaultKind
    kernel: str
    message: str
    source_line: int | None = None
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    address: int | None = None

    def to_json(self) -> dict[str, Json]:
        return drop_absent(
            {
                "kind": self.kind.value,
                "kernel": self.kernel,
                "source_line": self.source_line,
                "block": list(self.block) if self.block else None,
                "thread": list(self.thread) if self.thread else None,
                "address": self.address,
                "message": self.message,
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Measured durations of one launch sequence on a GPU. Units: microseconds. Percentiles from untrimmed samples."""

    p50_us: float
    p90_us: float
    p99_us: float
    mean_us: float
    std_us: float
    samples: int

    def __post_init__(self) -> None:
        if not all(math.isfinite(x) and x > 0 for x in (self.p50_us, self.p90_us, self.p99_us, self.mean_us)):
            raise ValueError(f"a Timing holds positive finite times only, got {self}")

    @property
    def unsteady(self) -> bool:
        """Whether the samples scatter so much that no figure of them stands for the rest."""
        return self.std_us > UNSTEADY * self.mean_us

    def to_json(self) -> dict[str, Json]:
        times = ("p50_us", "p90_us", "p99_us", "mean_us", "std_us")
        shape: dict[str, Json] = {name: round(getattr(self, name), 4) for name in times}
        return drop_absent({**shape, "samples": self.samples, "unsteady": self.unsteady or None})


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A modelled duration from simulator counters; never called measured. Units: microseconds.

    terms_us: the model's terms by name; limiter names the largest. blocks_run of blocks_total were executed.
    """

    modelled_us: float
    model_version: str
    chip: str
    calibration: str
    limiter: str
    terms_us: dict[str, float]
    blocks_run: int
    blocks_total: int

    def to_json(self) -> dict[str, Json]:
        shape: dict[str, Json] = {each.name: getattr(self, each.name) for each in fields(self)}
        terms: dict[str, Json] = {name: round(value, 4) for name, value in self.terms_us.items()}
        return {**shape, "modelled_us": round(self.modelled_us, 4), "terms_us": terms}


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The fastest library implementation of a case, timed on the same GPU in the same run. Warm median.

    others: warm medians of the slower ones by name; a claim may be against one of them.
    """

    name: str
    p50_us: float
    others: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        others: dict[str, Json] = {name: round(us, 4) for name, us in self.others.items()}
        return drop_absent({"name": self.name, "p50_us": round(self.p50_us, 4), "others": others or None})


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseBench:
    """Times of one bench case: measured (warm, and cold) or modelled, never both.

    roofline_fraction: the case's floor on the chip over its warm median; 1 is as fast as the chip's table allows.
    """

    name: str
    warm: Timing | None = None
    cold: Timing | None = None
    tflop_per_s: float | None = None
    estimate: Estimate | None = None
    roofline_fraction: float | None = None
    baseline: Baseline | None = None

    def __post_init__(self) -> None:
        if (self.warm is None) == (self.estimate is None):
            raise ValueError(f"case {self.name}: exactly one of a measured timing and a modelled estimate")

    @property
    def time_us(self) -> float:
        """The figure that ranks this case within its own timing kind."""
        if self.warm is not None:
            return self.warm.p50_us
        assert self.estimate is not None
        return self.estimate.modelled_us

    def to_json(self) -> dict[str, Json]:
        if self.estimate is not None:
            return {"name": self.name, **self.estimate.to_json()}
        assert self.warm is not None
        return drop_absent(
            {
                "name": self.name,
                "warm": self.warm.to_json(),
                "cold": self.cold.to_json() if self.cold else None,
                "tflop_per_s": round(self.tflop_per_s, 4) if self.tflop_per_s is not None else None,
                "roofline_fraction": round(self.roofline_fraction, 4) if self.roofline_fraction is not None else None,
                "baseline": self.baseline.to_json() if self.baseline else None,
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseCheck:
    """What the gate saw for one case. Errors are against the float64 reference; budget is what was allowed.

    inputs: the distributions it ran under; where it failed, the last one is the one it failed under.
    """

    name: str
    status: Status
    reason: str | None = None
    max_error: float | None = None
    rms_error: float | None = None
    budget: dict[str, float] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Json]:
        return drop_absent(
            {
                "name": self.name,
                "status": self.status.value,
                "reason": self.reason,
                "max_error": _finite(self.max_error),
                "rms_error": _finite(self.rms_error),
                "budget": dict(self.budget) or None,
                "inputs": list(self.inputs) or None,
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The gate's verdict on one variant. `counters` are the simulator's totals over the cases, where it ran.

    seed: what the inputs were drawn with. sanitizer: what compute-sanitizer said. unseen: why a timed size was not.
    """

    status: Status
    reason: str | None = None
    cases: tuple[CaseCheck, ...] = ()
    faults: tuple[Fault, ...] = ()
    counters: dict[str, int] = field(default_factory=dict)
    seed: int | None = None
    sanitizer: dict[str, Json] = field(default_factory=dict)
    unseen: str | None = None

    def to_json(self) -> dict[str, Json]:
        return drop_absent(
            {
                "status": self.status.value,
                "reason": self.reason,
                "unseen": self.unseen,
                "seed": self.seed,
                "cases": [case.to_json() for case in self.cases],
                "faults": [fault.to_json() for fault in self.faults],
                "counters": dict(self.counters) or None,
                "sanitizer": dict(self.sanitizer) or None,
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """How much faster the child is than its parent: parent time / child time, with a 95 % interval where measured."""

    ratio: float
    low: float | None = None
    high: float | None = None
    confirmed: bool = False

    def to_json(self) -> dict[str, Json]:
        return drop_absent(
            {
                "ratio": round(self.ratio, 5),
                "low": round(self.low, 5) if self.low is not None else None,
                "high": round(self.high, 5) if self.high is not None else None,
                "confirmed": self.confirmed,
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Keep or not, with the reason in words and the evidence in numbers."""

    verdict: Verdict
    reason: str
    gain: Gain | None = None
    evidence: dict[str, Json] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        return drop_absent(
            {
                "verdict": self.verdict.value,
                "reason": self.reason,
                "gain": self.gain.to_json() if self.gain else None,
                "evidence": dict(self.evidence) or None,
            }
        )


# Keys of an Environment's detail that take part in a comparison -> the word for them.
_COMPARED_DETAIL = {
    "gpu": "GPU", "driver": "driver", "cuda": "CUDA", "clock_policy": "clock policy", "simulator": "simulator",
}  # fmt: skip


_ENVIRONMENT_WORDS = ("device", "chip", "arch", "loaded", "toolkit", "harness", "task_hash")


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Where a result comes from. Two results may be compared only where `differences` finds none."""

    device: str  # gpu:0 or sim:l4
    chip: str  # l4, h200, sim-l4
    arch: str
    loaded: str  # cubin, ptx_jit or sim
    toolkit: str
    harness: str  # evo's version and the hash of what makes a result
    task_hash: str
    detail: dict[str, str] = field(default_factory=dict)  # driver, torch, clocks policy ...

    @property
    def timing(self) -> str:
        return "modelled" if self.loaded == "sim" else "measured"

    def identity(self) -> dict[str, str]:
        """Everything that two results have to share before their times may be held against each other."""
        return {
            "chip": self.chip,
            "arch": self.arch,
            "loaded": self.loaded,
            "NVRTC": self.toolkit,
            "task": self.task_hash,
            "harness": self.harness,
            **{word: self.detail.get(name, "") for name, word in _COMPARED_DETAIL.items()},
        }

    def key(self) -> tuple[str, ...]:
        return tuple(self.identity().values())

    def differences(self, other: Environment) -> list[str]:
        """In words, what `other` does not share: `driver 570.1 against 580.2`, ours first; empty if comparable."""
        theirs = other.identity()
        return [
            f"{name} {ours or 'unknown'} against {theirs[name] or 'unknown'}"
            for name, ours in self.identity().items()
            if ours != theirs[name]
        ]

    @classmethod
    def from_json(cls, shape: Mapping[str, Json]) -> Environment:
        """Read back what `to_json` wrote. Raises KeyError for a field that is missing."""
        detail = shape.get("detail")
        words = {str(k): str(v) for k, v in detail.items()} if isinstance(detail, dict) else {}
        return cls(**{name: str(shape[name]) for name in _ENVIRONMENT_WORDS}, detail=words)

    def to_json(self) -> dict[str, Json]:
        return {**{name: getattr(self, name) for name in _ENVIRONMENT_WORDS}, "detail": dict(self.detail)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Everything `evaluate` learnt about one variant. Only a passed check may carry bench figures.

    control: the noise floor of the A/A control that stood at the start of the run. clocks: how the GPU's clock ran,
    where no decision's evidence says so. stages_s: where the time went.
    """

    variant: str
    status: Status
    reason: str | None
    environment: Environment
    check: Check | None = None
    bench: tuple[CaseBench, ...] = ()
    decision: Decision | None = None
    compile: dict[str, Json] = field(default_factory=dict)  # the shape of `evo compile --json`
    elapsed_s: float | None = None
    control: dict[str, Json] = field(default_factory=dict)
    clocks: dict[str, Json] = field(default_factory=dict)
    stages_s: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.bench and not self.status.passed:
            raise ValueError(f"a variant that is {self.status} carries no bench figures")
        if self.status is Status.MEASURED and not self.bench:
            raise ValueError("a measured variant carries its bench figures")

    def to_json(self) -> dict[str, Json]:
        return drop_absent(
            {
                "variant": self.variant,
                "status": self.status.value,
                "reason": self.reason,
                "environment": self.environment.to_json(),
                "check": self.check.to_json() if self.check else None,
                "bench": [case.to_json() for case in self.bench] or None,
                "decision": self.decision.to_json() if self.decision else None,
                "compile": dict(self.compile) or None,
                "elapsed_s": round(self.elapsed_s, 3) if self.elapsed_s is not None else None,
                "control": dict(self.control) or None,
                "clocks": dict(self.clocks) or None,
                "stages_s": {name: round(value, 4) for name, value in self.stages_s.items()} or None,
            }
        )


def drop_absent(fields: dict[str, Json]) -> dict[str, Json]:
    """Leave out what was not measured instead of writing null."""
    return {name: value for name, value in fields.items() if value is not None}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
