"""One row per kernel: what the compiler says it takes, how many blocks fit an SM and why, and what it counted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from evo.device import LaunchCounters, Program
from evo.results.codec import ALWAYS, NEVER, Decimals, Serializable
from evo.spec.chips import Chip
from evo.spec.metrics import added, counted_metrics, pipe_clocks


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy(Serializable):
    """How many blocks and warps of a kernel fit on an SM."""

    blocks_per_sm: int  # that fit
    warps_per_sm: int  # of those blocks
    warps_per_sm_limit: int  # of the chip
    limited_by: Annotated[tuple[str, ...], ALWAYS]  # the resources that allow no more blocks
    limits: Annotated[dict[str, int], ALWAYS]  # blocks per SM, by resource


@dataclass(frozen=True, slots=True, kw_only=True)
class PipeShares(Serializable):
    """How busy the pipes of an SM are, modelled from the counts."""

    limiter: str  # the pipe that is busy longest
    share: Annotated[dict[str, Annotated[float, Decimals(4)]], ALWAYS]  # clocks by pipe, over those of the limiter


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelProfile(Serializable):
    """Static resources of one kernel at one case and, if the simulator ran it, its counts over all launches."""

    COMPUTED: ClassVar = ("occupancy", "metrics", "pipes")

    name: str  # the kernel
    launches: int  # how often it is launched
    grid: tuple[int, int, int]  # of its first launch
    block: tuple[int, int, int]  # of its first launch
    registers: int  # per thread
    spill_bytes: int  # stored
    stack_bytes: int  # per thread
    shared_bytes: int  # per block, static and dynamic
    sass: Annotated[dict[str, int], ALWAYS]  # how often each machine instruction occurs in the code
    counters: dict[str, int] | None = None  # counted events by name
    blocks_run: int | None = None  # how many blocks were executed
    blocks_total: int | None = None  # how many blocks the launches have
    warps_per_sm_limit: Annotated[int, NEVER]
    limits: Annotated[dict[str, int], NEVER]  # blocks per SM, by resource
    clocks: Annotated[dict[str, float] | None, NEVER] = None  # by pipe, of one SM that did all of it

    @property
    def occupancy(self) -> Occupancy:
        """How many blocks and warps fit on an SM."""
        blocks = min(self.limits.values())
        return Occupancy(
            blocks_per_sm=blocks,
            warps_per_sm=blocks * -(-math.prod(self.block) // 32),
            warps_per_sm_limit=self.warps_per_sm_limit,
            limited_by=tuple(name for name, allowed in self.limits.items() if allowed == blocks),
            limits=self.limits,
        )

    @property
    def limiter(self) -> str | None:
        """The pipe that is busy longest; None if nothing was counted."""
        return max(self.clocks, key=lambda name: (self.clocks or {})[name]) if self.clocks else None

    @property
    def pipes(self) -> PipeShares | None:
        """How busy the pipes of an SM are; absent if nothing was counted."""
        if self.clocks is None or self.limiter is None or not (top := self.clocks[self.limiter]):
            return None
        return PipeShares(limiter=self.limiter, share={name: clocks / top for name, clocks in self.clocks.items()})

    @property
    def metrics(self) -> dict[str, Annotated[float, Decimals(6)]] | None:
        """What follows from the counters, by name."""
        return counted_metrics(self.counters) if self.counters is not None else None


def kernel_profiles(
    program: Program, chip: Chip, counted: Sequence[LaunchCounters] | None
) -> tuple[KernelProfile, ...]:
    """The kernels of a program in the order of their first launches."""
    rows = []
    for name in dict.fromkeys(bound.launch.kernel for bound in program.launches):
        launches = [bound.launch for bound in program.launches if bound.launch.kernel == name]
        report = program.binary.kernel(name)
        shared = report.shared_bytes + launches[0].shared_bytes
        limits = chip.resident_limits(launches[0].threads, report.registers, shared)
        own = [part for part in counted or () if part.kernel == name]
        counters = added(part.totals for part in own) if own else None
        rows.append(
            KernelProfile(
                name=name,
                launches=len(launches),
                grid=launches[0].grid,
                block=launches[0].block,
                registers=report.registers,
                spill_bytes=report.spill_store_bytes + report.spill_load_bytes,
                stack_bytes=report.stack_bytes,
                shared_bytes=shared,
                sass=dict(report.sass),
                warps_per_sm_limit=chip.warps_per_sm,
                limits=limits,
                counters=counters,
                clocks=pipe_clocks(counters, chip, stated_only=True) if counters is not None else None,
                blocks_run=sum(part.blocks_run for part in own) if own else None,
                blocks_total=sum(part.blocks_total for part in own) if own else None,
            )
        )
    return tuple(rows)
