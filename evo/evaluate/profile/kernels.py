"""One row per kernel: what the compiler says it takes, how many blocks fit an SM and why, and what it counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evo.device import LaunchCounters, Program
from evo.results import Json, drop_absent
from evo.spec.chips import Chip
from evo.spec.launch import Launch, occupancy_limits
from evo.spec.metrics import added, counted_metrics, pipe_clocks


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelProfile:
    """Static resources of one kernel at one case and, where the simulator ran it, its counts over all launches."""

    name: str
    launches: int
    launch: Launch  # the first one
    registers: int
    spill_bytes: int
    stack_bytes: int
    shared_bytes: int  # static and dynamic
    sass: dict[str, int]
    warps_per_sm_limit: int
    limits: dict[str, int]  # blocks per SM, by resource
    counters: dict[str, int] | None = None
    pipes: dict[str, float] | None = None  # clocks of one SM that did all of it
    blocks_run: int | None = None
    blocks_total: int | None = None

    @property
    def blocks_per_sm(self) -> int:
        return min(self.limits.values())

    @property
    def warps_per_sm(self) -> int:
        return self.blocks_per_sm * -(-self.launch.threads // 32)

    @property
    def limited_by(self) -> tuple[str, ...]:
        return tuple(name for name, blocks in self.limits.items() if blocks == self.blocks_per_sm)

    @property
    def limiter(self) -> str | None:
        """The pipe that is busy longest; None where nothing was counted."""
        return max(self.pipes, key=lambda name: (self.pipes or {})[name]) if self.pipes else None

    def to_json(self) -> dict[str, Json]:
        pipes: Json = None
        if self.pipes and self.limiter and (top := self.pipes[self.limiter]):
            share: dict[str, Json] = {name: round(clocks / top, 4) for name, clocks in self.pipes.items()}
            pipes = {"limiter": self.limiter, "share": share}
        return drop_absent(
            {
                "name": self.name,
                "launches": self.launches,
                "grid": list(self.launch.grid),
                "block": list(self.launch.block),
                "registers": self.registers,
                "spill_bytes": self.spill_bytes,
                "stack_bytes": self.stack_bytes,
                "shared_bytes": self.shared_bytes,
                "sass": dict(self.sass),
                "occupancy": {
                    "blocks_per_sm": self.blocks_per_sm,
                    "warps_per_sm": self.warps_per_sm,
                    "warps_per_sm_limit": self.warps_per_sm_limit,
                    "limited_by": list(self.limited_by),
                    "limits": dict(self.limits),
                },
                "counters": dict(self.counters) if self.counters is not None else None,
                "metrics": {k: round(v, 6) for k, v in counted_metrics(self.counters).items()}
                if self.counters is not None
                else None,
                "pipes": pipes,
                "blocks_run": self.blocks_run,
                "blocks_total": self.blocks_total,
            }
        )


def kernel_profiles(
    program: Program, chip: Chip, counted: Sequence[LaunchCounters] | None
) -> tuple[KernelProfile, ...]:
    """The kernels of a program in the order of their first launches."""
    rows = []
    for name in dict.fromkeys(bound.launch.kernel for bound in program.launches):
        launches = [bound.launch for bound in program.launches if bound.launch.kernel == name]
        report = program.binary.kernel(name)
        limits = occupancy_limits(launches[0], chip, registers=report.registers, static_shared=report.shared_bytes)
        own = [part for part in counted or () if part.kernel == name]
        counters = added(part.totals for part in own) if own else None
        rows.append(
            KernelProfile(
                name=name,
                launches=len(launches),
                launch=launches[0],
                registers=report.registers,
                spill_bytes=report.spill_store_bytes + report.spill_load_bytes,
                stack_bytes=report.stack_bytes,
                shared_bytes=report.shared_bytes + launches[0].shared_bytes,
                sass=dict(report.sass),
                warps_per_sm_limit=chip.warps_per_sm,
                limits=limits,
                counters=counters,
                pipes=pipe_clocks(counters, chip, stated_only=True) if counters is not None else None,
                blocks_run=sum(part.blocks_run for part in own) if own else None,
                blocks_total=sum(part.blocks_total for part in own) if own else None,
            )
        )
    return tuple(rows)
