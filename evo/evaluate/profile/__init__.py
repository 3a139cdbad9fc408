"""`evo profile`: what a variant does to the machine, kernel by kernel and line by line. Times nothing.

Three sources that never mix: `static` (the compiler), `counted` (exact, by the simulator), `measured` (Nsight Compute).
The shape of `evo profile --json`:

    {variant, task, case, device, chip, arch, status, reason|absent,
     kernels: [{name, launches, grid, block, registers, spill_bytes, stack_bytes, shared_bytes, sass: {HMMA: n, ...},
                occupancy: {blocks_per_sm, warps_per_sm, warps_per_sm_limit, limited_by: [...], limits: {...}},
                counters: {...}|absent, metrics: {...}|absent,
                pipes: {limiter, share: {pipe: fraction of the limiter's clocks}}|absent, blocks_run, blocks_total}],
     lines: [{kernel, line, source, pipe, share, busiest: {pipe, share}, counters: {...}, metrics: {...},
              remarks: [...]}],   hottest first
     expected: [{metric, value, from, expected, because, ratio, exact}],
     faults: [...]|absent,
     counted_by: "simulator"|absent,
     measured: {tool, cache, launches: [{kernel, metrics: {name: {metric, value, unit}}}], missing: [...]}|absent,
     profile: "measured" | "counted" | "unavailable (reason)"}

status: `profiled`, or how far the variant got. `share` is modelled: the line's part of the pipe that limits its kernel.
grid and block are those of a kernel's first launch; counters are summed over its launches.
"""

from __future__ import annotations

from evo.evaluate.profile.expected_counts import ExpectedMetric, compare_counted, compare_measured
from evo.evaluate.profile.hot_lines import HotLine, hot_lines
from evo.evaluate.profile.kernels import KernelProfile, kernel_profiles
from evo.evaluate.profile.ncu import NcuCounters, Unavailable, measure

__all__ = [
    "ExpectedMetric", "HotLine", "KernelProfile", "NcuCounters", "Unavailable", "compare_counted", "compare_measured",
    "hot_lines", "kernel_profiles", "measure",
]  # fmt: skip
