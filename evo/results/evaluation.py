"""Everything that `evaluate` learnt about one variant, where it was learnt, and what the compiler said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from evo.results.bench import CaseBench, Clocks, geometric_mean
from evo.results.check import Check
from evo.results.codec import ALWAYS, Decimals, Seconds, Serializable
from evo.results.decision import Control, Decision
from evo.results.status import Stage, StaticRule, Status

Loaded = Literal["cubin", "ptx_jit", "sim"]

# Keys of an Environment's detail that take part in a comparison -> the word for them.
_COMPARED_DETAIL = {
    "gpu": "GPU",
    "driver": "driver",
    "cuda": "CUDA",
    "clock_policy": "clock policy",
    "simulator": "simulator",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment(Serializable):
    """Where a result comes from. Two results may be compared only if `differences` finds none."""

    device: str  # `gpu:0` or `sim:l4`
    chip: str  # `l4`, `h200`, `sim-l4`
    arch: str  # what was compiled for, such as `sm_89`
    loaded: Loaded  # `cubin`, `ptx_jit` (assembled for the chip) or `sim` (executed by the simulator)
    toolkit: str  # the compiler and its version
    harness: str  # evo's version and the hash of the code that makes a result
    task_hash: str  # the hash of the task: its reference, cases, tolerance and headers
    # driver, libraries, clock policy and the like, by name
    detail: Annotated[Mapping[str, str], ALWAYS] = field(default_factory=dict)

    @property
    def timing(self) -> Literal["measured", "modelled"]:
        return "modelled" if self.loaded == "sim" else "measured"

    def identity(self) -> dict[str, str]:
        """Everything that two results have to share before their times may be compared."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelResources(Serializable):
    """What one kernel needs, as the compiler reports it."""

    name: str  # the kernel
    # the case axes that are compiled in, and their values
    axes: Annotated[Mapping[str, int | str], ALWAYS] = field(default_factory=dict)
    registers: int | None = None  # per thread
    spill_store_bytes: int | None = None  # of all spill stores in the code
    spill_load_bytes: int | None = None  # of all spill loads in the code
    stack_bytes: int | None = None  # per thread
    shared_bytes: int | None = None  # static shared memory per block
    # how often each machine instruction occurs in the code
    sass: Annotated[Mapping[str, int], ALWAYS] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileReport(Serializable):
    """How compiling a variant went."""

    variant: str  # the variant's id
    arch: str  # what was compiled for
    status: str  # `compiled`, or the status of a variant that does not compile
    warnings: Annotated[tuple[str, ...], ALWAYS] = ()  # what the compiler said
    kernels: Annotated[tuple[KernelResources, ...], ALWAYS] = ()  # one row per kernel and set of compiled-in axes
    elapsed_s: Annotated[float | None, Decimals(4)] = None  # how long it took
    code_hash: str | None = None  # of the machine code and the launches; equal if two variants do the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation(Serializable):
    """Everything `evaluate` learnt about one variant. Only a passed check may carry bench figures."""

    variant: str  # the variant's id; empty if the text has no variant in it
    status: Status  # how far it got
    reason: str | None = None  # why it got no further
    stage: Stage | None = None  # the stage that it did not pass; absent if it passed them all
    rule: StaticRule | None = None  # the static rule that refused it
    same_code_as: str | None = None  # the variant with the same machine code and launches that was evaluated instead
    environment: Environment  # where the result comes from
    check: Check | None = None  # what the gate saw
    bench: tuple[CaseBench, ...] = ()  # the times by case
    decision: Decision | None = None  # keep or not, if it was compared with a parent
    compile: CompileReport | None = None  # how compiling went
    elapsed_s: Seconds | None = None  # how long the evaluation took
    control: Control | None = None  # the noise floor of the A/A control at the start of the run
    clocks: Clocks | None = None  # how the GPU's clock ran, if no decision's evidence says so
    stages_s: Mapping[str, Annotated[float, Decimals(4)]] = field(default_factory=dict)  # how long each stage took

    def __post_init__(self) -> None:
        if self.bench and not self.status.passed:
            raise ValueError(f"a variant that is {self.status} carries no bench figures")
        if self.status is Status.MEASURED and not self.bench:
            raise ValueError("a measured variant carries its bench figures")

    def __repr__(self) -> str:
        verdict = f", {self.decision.verdict}" if self.decision is not None else ""
        times = "".join(f", {row.name} {row.time_us:.2f} µs" for row in self.bench[:3])
        return f"<Evaluation {self.variant[:12]} {self.status}{verdict}{times} {self.environment.timing}>"

    def judged(self, check: Check) -> Evaluation:
        """With the verdict of a check. One that does not pass leaves no times and no decision."""
        known = replace(self, status=check.status, reason=check.reason, stage=check.stage, check=check, bench=())
        return known if check.status.passed else replace(known, decision=None)

    def with_stage(self, name: str, seconds: float | None) -> Evaluation:
        """The same with a further stage, in its elapsed time too; the same if it has no time."""
        if seconds is None:
            return self
        elapsed_s = (self.elapsed_s or 0.0) + seconds
        return replace(self, elapsed_s=elapsed_s, stages_s={name: seconds, **self.stages_s})

    @property
    def kept(self) -> bool:
        """Whether it was compared with a parent and takes its place."""
        return self.decision is not None and self.decision.kept

    @property
    def ratio(self) -> float | None:
        """Parent time / child time; None if the two were not compared."""
        return self.decision.ratio if self.decision is not None else None

    @property
    def code_hash(self) -> str | None:
        """Of the machine code and the launches; None if it did not compile."""
        return (self.compile.code_hash or None) if self.compile is not None else None

    @property
    def times_us(self) -> dict[str, float]:
        """The time of each case: the warm medians, or the modelled times."""
        return {row.name: row.time_us for row in self.bench}

    def case_us(self, case: str) -> float | None:
        """The time of one case; None if it was not timed."""
        return self.times_us.get(case)

    def score_us(self, score: Mapping[str, float]) -> float | None:
        """The weighted geometric mean of the scored cases; None if one of them was not timed."""
        return geometric_mean(self.times_us, score)
