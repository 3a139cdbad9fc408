"""Guards beside the median: longer tails, times beyond the roofline. Pure functions over measured cases."""

from __future__ import annotations

import math
from collections.abc import Sequence

from evo.results import CaseBench
from evo.spec.chips import Chip

TAIL_RATIO = 1.2  # p90 may be this much above p50 ...
TAIL_SLACK = 1.05  # ... or this much above what the parent's own tail is on the same machine
P99_RATIO = 1.10
P99_SAMPLES = 300  # below this a p99 is one or two samples, and decides nothing
_CEILING_SLACK = 0.95  # clocks may boost a little above the table's
_L2_SLACK = 0.6  # the table's L2 rates are scaled from other chips


def tail_problem(parent: Sequence[CaseBench], child: Sequence[CaseBench]) -> str | None:
    """Why the child's slow runs rule it out, in words: a lower median bought with a longer tail is no gain."""
    before = {case.name: case.warm for case in parent}
    for case in child:
        ours, theirs = case.warm, before.get(case.name)
        if ours is None:
            continue
        tail = ours.p90_us / ours.p50_us
        allowed = max(TAIL_RATIO, TAIL_SLACK * theirs.p90_us / theirs.p50_us if theirs else 0.0)
        if tail > allowed:
            return f"case {case.name}: p90 is {tail:.2f} x p50, allowed {allowed:.2f}"
        if theirs and min(ours.samples, theirs.samples) >= P99_SAMPLES and ours.p99_us > P99_RATIO * theirs.p99_us:
            return f"case {case.name}: p99 rose from {theirs.p99_us:.2f} to {ours.p99_us:.2f} µs"
    return None


def too_fast(
    case: CaseBench, *, flop: float | None, bytes_moved: float | None, chip: Chip, narrow: bool = False
) -> str | None:
    """Why a time cannot be true: it implies more than the chip can do. A measurement fault, never a gain.

    narrow: operands of 8 bits, which run at twice the FP16 rate. Bytes beyond what L2 holds must come from DRAM.
    No time is compared with a ceiling that no source states for the chip.
    """
    if case.warm is None:
        return None
    seconds = case.warm.p50_us * 1e-6
    peak = (chip.peak_mma_flop_per_s or math.inf) * (2 if narrow else 1)
    l2_rate, dram_rate = chip.l2_bytes_per_s or math.inf, chip.rate("dram_bytes_per_s") or math.inf
    if flop and flop / seconds > peak / _CEILING_SLACK:
        return f"case {case.name}: {flop / seconds / 1e12:.1f} TFLOP/s, {chip.slug} can do {peak / 1e12:.1f}"
    if bytes_moved:
        rate = bytes_moved / seconds
        if rate > l2_rate / _L2_SLACK:
            return f"case {case.name}: {rate / 1e9:.0f} GB/s, the L2 of {chip.slug} gives {l2_rate / 1e9:.0f}"
        from_dram = (bytes_moved - chip.l2_bytes) / seconds
        if from_dram > dram_rate / _CEILING_SLACK:
            return f"case {case.name}: {from_dram / 1e9:.0f} GB/s, DRAM gives {dram_rate / 1e9:.0f}"
    return None


def compute_bound(*, flop: float | None, bytes_moved: float | None, chip: Chip) -> bool:
    """Whether a case's time is SM cycles: its arithmetic takes longer at peak than its bytes do."""
    peak, dram_rate = chip.peak_mma_flop_per_s, chip.rate("dram_bytes_per_s")
    if not flop or not peak or not dram_rate:
        return False
    return flop / peak > (bytes_moved or 0.0) / dram_rate
