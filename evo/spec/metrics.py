"""Metrics of a variant by name: what they mean, and how they follow from compile reports and the simulator's counts.

`static` ones are the compiler's, per binary; `counted` ones are exact counts of an execution on the simulator. A ratio
without a denominator is absent. Knows no kernel, no device and no task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evo.spec.chips import Chip

STATIC, COUNTED = "static", "counted"
FMA_PER_HMMA = 2048  # m16n8k16
SECTOR_BYTES = 32


@dataclass(frozen=True, slots=True)
class Metric:
    """kind: `static` or `counted`. best: whether a low or a high value is the good one."""

    kind: str
    meaning: str
    best: str = "low"


METRICS: dict[str, Metric] = {
    "registers": Metric(STATIC, "registers per thread, of the kernel with most"),
    "spill_bytes": Metric(STATIC, "bytes of spill stores and loads, of the kernel with most"),
    "local_bytes": Metric(STATIC, "bytes of local memory per thread (stack frame), of the kernel with most"),
    "shared_bytes": Metric(STATIC, "bytes of static and dynamic shared memory per block, of the launch with most"),
    "bank_conflicts": Metric(COUNTED, "shared wavefronts beyond the least that the bytes need"),
    "conflict_ways": Metric(COUNTED, "shared wavefronts per least possible one; 1 is free of conflicts"),
    "shared_wavefronts": Metric(COUNTED, "passes of shared memory"),
    "shared_requests": Metric(COUNTED, "shared accesses by warps"),
    "global_requests": Metric(COUNTED, "global accesses by warps"),
    "global_sectors": Metric(COUNTED, "32-byte sectors that these touch"),
    "global_lines": Metric(COUNTED, "128-byte lines that these touch"),
    "sectors_per_request": Metric(COUNTED, "global sectors per request; 4 for adjacent words, 16 for 128-bit accesses"),
    "excess_sectors": Metric(COUNTED, "global sectors beyond those that adjacent lanes would touch"),
    "l2_sectors": Metric(COUNTED, "sectors that the L1 model asks of L2"),
    "cold_bytes": Metric(COUNTED, "distinct bytes read and written, in whole sectors: DRAM traffic from a cold cache"),
    "local_requests": Metric(COUNTED, "local memory accesses by warps, as the PTX has them"),
    "atomic_lanes": Metric(COUNTED, "atomics by threads"),
    "atomic_ways": Metric(COUNTED, "threads of a warp that meet on one address, on average"),
    "hmma": Metric(COUNTED, "tensor-core work in units of one m16n8k16 (4096 FLOP)"),
    "mma_instructions": Metric(COUNTED, "mma instructions by warps, of any shape"),
    "ex2": Metric(COUNTED, "exp2 by threads"),
    "barriers": Metric(COUNTED, "barriers by warps"),
    "warp_instructions": Metric(COUNTED, "PTX instructions by warps"),
    "lane_use": Metric(COUNTED, "active lanes of 32, as a fraction", "high"),
}


def counted_metrics(counts: Mapping[str, int]) -> dict[str, float]:
    """The counted metrics that these counts (totals, or one source line's) determine."""

    def of(name: str) -> int:
        return counts.get(name, 0)

    sectors, ideal = of("global_sectors"), of("global_sectors_ideal")
    waves, least = of("shared_wavefronts"), of("shared_wavefronts_ideal")
    values: dict[str, float | None] = {
        "bank_conflicts": waves - least,
        "conflict_ways": _ratio(waves, least),
        "sectors_per_request": _ratio(sectors, of("global_requests")),
        "excess_sectors": max(0, sectors - ideal),
        "atomic_ways": _ratio(of("atomic_lanes"), of("atomic_addresses")),
        "hmma": of("mma_fma") / FMA_PER_HMMA,
        "barriers": of("barrier_instructions"),
        "lane_use": _ratio(of("thread_instructions"), 32 * of("warp_instructions")),
    }
    if "unique_read_bytes" in counts or "unique_write_bytes" in counts:  # known for a launch, not for a line of it
        values["cold_bytes"] = of("unique_read_bytes") + of("unique_write_bytes")
    plain = [name for name, metric in METRICS.items() if metric.kind == COUNTED and name not in {*values, "cold_bytes"}]
    values |= {name: of(name) for name in plain}
    return {name: value for name, value in values.items() if value is not None}


def _ratio(above: int, below: int) -> float | None:
    return above / below if below else None


def added(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Sums by name."""
    total: dict[str, int] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0) + value
    return total


def lost_ways(counts: Mapping[str, int]) -> str | None:
    """`17 of 32 ways`: what a shared access waits for beyond its need, per request; None without conflicts."""
    waves, least, requests = (counts.get(f"shared_{n}", 0) for n in ("wavefronts", "wavefronts_ideal", "requests"))
    if waves <= least or not requests:
        return None
    return f"{short((waves - least) / requests)} of {short(waves / requests)} ways"


def short(value: float) -> str:
    """A count or ratio with as many digits as a person reads: 32, 1.5, 0.38, 1,234."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"


_SCHEDULERS = 4


def pipe_clocks(counts: Mapping[str, float], chip: Chip, *, stated_only: bool = False) -> dict[str, float]:
    """Clocks that each pipe of one SM is busy with these counts. Raises DeviceMissing if a rate is unknown.

    stated_only: leave out pipes whose rate is unknown. A shared wavefront or global line passes the load and store unit
    at the rate of shared memory.
    """

    def of(*names: str) -> float:
        return sum(counts.get(name, 0) for name in names)

    passes = of("shared_wavefronts", "global_lines", "local_requests", "shuffle_instructions")
    if not stated_only or chip.rate("lsu_lanes") is not None:  # each lane gives its address
        requests = of("shared_requests", "global_requests", "local_requests", "shuffle_instructions")
        passes = max(passes, requests * 32 / chip.lsu_lanes)
    work = {
        "fp": ("fp32_lanes", 32 * of("fp_instructions", "int_instructions")),
        "int": ("int_lanes", 32 * of("int_instructions", "cvt_instructions")),
        "sfu": ("sfu_lanes", 32 * of("sfu_instructions")),
        "fp64": ("fp64_lanes", 32 * of("fp64_instructions")),
        "lsu": ("shared_bytes_per_clock", 4 * 32 * passes),
        "mma": ("mma_f16_fma", of("mma_fma")),
        "l1": ("shared_bytes_per_clock", SECTOR_BYTES * of("global_sectors")),
    }
    # ptxas removes nearly every mov, so they are not issued.
    clocks = {"issue": (of("warp_instructions") - of("mov_instructions")) / _SCHEDULERS}
    for pipe, (rate, amount) in work.items():
        if stated_only and chip.rate(rate) is None:
            continue
        clocks[pipe] = amount / chip.needed(rate)
    return clocks
