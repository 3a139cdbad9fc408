"""The constants of the timing model: each a physical quantity, its reference value and the one fitted to the H200.

Fitted by `benchmarks/clock/fit.py` to 1648 variants of 72 families, the others being held out. In clocks unless the
source says what else; a `share` multiplies the time at the rate that the chip row states.
"""

from __future__ import annotations

from dataclasses import dataclass

CALIBRATED = ("h200",)  # chips whose times the constants were fitted to
CALIBRATION = "fitted to an H200, 72 families, 2026-11-23"


@dataclass(frozen=True, slots=True)
class Constant:
    """reference: of a datasheet or a microbenchmark, as `source` says. fitted: what the times of the H200 give."""

    reference: float
    fitted: float
    source: str


CONSTANTS: dict[str, Constant] = {
    "alu": Constant(4, 5.6, "dependent-issue latency of FFMA and IADD3, published microbenchmarks"),
    "convert": Constant(6, 2.58, "assumed"),
    "move": Constant(2, 1.88, "assumed; ptxas removes most"),
    "special": Constant(20, 15, "MUFU, published microbenchmarks"),
    "double": Constant(16, 5.11, "DFMA of GH100, assumed"),
    "mma_16": Constant(33, 31.4, "mma.m16n8k16, arXiv 2402.13499"),
    "mma_8": Constant(18, 18, "mma.m16n8k8, arXiv 2402.13499"),
    "shuffle": Constant(24, 28.4, "SHFL, published microbenchmarks"),
    "vote": Constant(12, 12.6, "assumed"),
    "shared": Constant(29, 21.8, "LDS, arXiv 2402.13499"),
    "l1": Constant(33, 24.8, "LDG that hits L1, arXiv 2402.13499"),
    "l2": Constant(227, 180, "LDG that hits L2 beyond L1, arXiv 2402.13499"),
    "atomic": Constant(260, 364, "as a load from L2"),
    "atomic_shared": Constant(40, 39.9, "assumed"),
    "divide": Constant(30, 168, "the sequence of IEEE division, assumed"),
    "param": Constant(8, 7.99, "constant bank, assumed"),
    "issue": Constant(1, 1.16, "one instruction a clock of a warp"),
    "barrier": Constant(30, 7.91, "assumed"),
    "copy": Constant(130, 184, "half a load from L2, assumed"),
    "conflict": Constant(1, 1.16, "a further wavefront, assumed"),
    "lines": Constant(1, 2.3, "a further line, assumed"),
    "spill": Constant(1, 1.05, "a spilled word beside its issue, assumed"),
    "issue_share": Constant(1, 1.01, "machine instructions per PTX instruction"),
    "fp_share": Constant(1, 0.735, "datasheet rate of the fp32 pipe"),
    "int_share": Constant(1, 0.652, "datasheet rate of the integer pipe"),
    "special_share": Constant(1, 1.69, "datasheet rate of the special-function unit"),
    "mma_share": Constant(1, 1.02, "rate of mma.sync in the chip row"),
    "wavefront": Constant(1, 1.18, "a shared wavefront a clock"),
    "line": Constant(1, 1.11, "a line a clock, assumed"),
    "request": Constant(0.5, 0.134, "a request beside its lines, assumed"),
    "l1_share": Constant(1, 1.64, "128 bytes a clock"),
    "shared_atomic": Constant(1, 0.683, "a distinct address of a warp, assumed"),
    "l2_share": Constant(1, 1.21, "L2 rate of the chip row"),
    "dram_share": Constant(1, 0.668, "DRAM rate of the datasheet"),
    "l2_kept": Constant(1, 0.865, "L2 size of the chip row"),
    "atomics_per_clock": Constant(0.2, 0.0875, "of an SM, assumed"),
    "same_address": Constant(2, 7.55, "clocks between atomics on one sector, assumed"),
    "blocks_per_clock": Constant(1, 0.971, "started by the chip, assumed"),
    "start": Constant(250, 235, "launch to first instruction and drain, assumed"),
    "round": Constant(100, 228, "a block after another on its place, assumed"),
    "tail": Constant(1, 0.669, "of a round that is not full"),
    "launch_share": Constant(1, 0.53, "launch cost of the chip row"),
    "memset": Constant(1.5, 0.563, "us to clear a buffer before the launches, assumed"),
    "p": Constant(4, 1.81, "overlap of the bounds; infinite if they overlap wholly"),
}
FITTED: dict[str, float] = {name: constant.fitted for name, constant in CONSTANTS.items()}
