"""Everything that `evaluate` learnt about one variant, where it was learnt, and what the compiler said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from evo.results.bench import CaseBench, Clocks, geometric_mean
from evo.results.check import Check
from evo.results.codec import ALWAYS, Decimals, Seconds, Serializable
from evo.results.decision import Control, Decision
from evo.results.status import Status

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
    """Where a result comes from. Two results may be compared only if `differences` finds none.

    device: `gpu:0` or `sim:l4`.
    chip: `l4`, `h200`, `sim-l4` ...
    arch: what was compiled for, such as `sm_89`.
    loaded: `cubin`, `ptx_jit` (compiled again by the driver) or `sim` (executed by the simulator).
    toolkit: the compiler and its version.
    harness: evo's version and the hash of the code that makes a result.
    task_hash: the hash of the task: its reference, cases, tolerance and headers.
    detail: driver, libraries, clock policy and the like, by name.
    """

    device: str
    chip: str
    arch: str
    loaded: Loaded
    toolkit: str
    harness: str
    task_hash: str
    detail: Annotated[Mapping[str, str], ALWAYS] = field(default_factory=dict)

    @property
    def timing(self) -> Literal["measured", "modelled"]:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelResources(Serializable):
    """What one kernel needs, as the compiler reports it.

    name: the kernel.
    axes: the case axes that are compiled in, and their values.
    registers: per thread.
    spill_store_bytes: of all spill stores in the code.
    spill_load_bytes: of all spill loads in the code.
    stack_bytes: per thread.
    shared_bytes: static shared memory per block.
    sass: how often each machine instruction occurs in the code.
    """

    name: str
    axes: Annotated[Mapping[str, int | str], ALWAYS] = field(default_factory=dict)
    registers: int | None = None
    spill_store_bytes: int | None = None
    spill_load_bytes: int | None = None
    stack_bytes: int | None = None
    shared_bytes: int | None = None
    sass: Annotated[Mapping[str, int], ALWAYS] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileReport(Serializable):
    """How compiling a variant went.

    variant: the variant's id.
    arch: what was compiled for.
    status: `compiled`, or the status of a variant that does not compile.
    warnings: what the compiler said.
    kernels: one row per kernel and set of compiled-in axes.
    elapsed_s: how long it took.
    code_hash: of the machine code and the launches; equal if two variants do the same.
    """

    variant: str
    arch: str
    status: str
    warnings: Annotated[tuple[str, ...], ALWAYS] = ()
    kernels: Annotated[tuple[KernelResources, ...], ALWAYS] = ()
    elapsed_s: Annotated[float | None, Decimals(4)] = None
    code_hash: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation(Serializable):
    """Everything `evaluate` learnt about one variant. Only a passed check may carry bench figures.

    variant: the variant's id; empty if the text has no variant in it.
    status: how far it got.
    reason: why it got no further.
    environment: where the result comes from.
    check: what the gate saw.
    bench: the times by case.
    decision: keep or not, if it was compared with a parent.
    compile: how compiling went.
    elapsed_s: how long the evaluation took.
    control: the noise floor of the A/A control at the start of the run.
    clocks: how the GPU's clock ran, if no decision's evidence says so.
    stages_s: how long each stage took.
    """

    variant: str
    status: Status
    reason: str | None = None
    environment: Environment
    check: Check | None = None
    bench: tuple[CaseBench, ...] = ()
    decision: Decision | None = None
    compile: CompileReport | None = None
    elapsed_s: Seconds | None = None
    control: Control | None = None
    clocks: Clocks | None = None
    stages_s: Mapping[str, Annotated[float, Decimals(4)]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.bench and not self.status.passed:
            raise ValueError(f"a variant that is {self.status} carries no bench figures")
        if self.status is Status.MEASURED and not self.bench:
            raise ValueError("a measured variant carries its bench figures")

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
