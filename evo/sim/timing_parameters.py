"""The constants of the timing model: each a physical quantity, its reference value and the one fitted to the H200.

Fitted by `benchmarks/clock/fit.py` to 1629 variants of 72 families, the others being held out. In clocks unless the
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
    "issue": Constant(1, 0.959, "a clock of a warp, as the control words of machine code say"),
    "special": Constant(20, 21.3, "MUFU, published microbenchmarks"),
    "convert": Constant(20, 23.6, "of one type to another, POPC, FLO; assumed as MUFU"),
    "double": Constant(16, 16, "DFMA of GH100, assumed"),
    "shuffle": Constant(24, 28.3, "SHFL, published microbenchmarks"),
    "vote": Constant(12, 14, "assumed"),
    "register": Constant(30, 21.5, "S2R, assumed"),
    "param": Constant(30, 17.8, "LDC, constant bank, assumed"),
    "shared": Constant(29, 26.4, "LDS, arXiv 2402.13499"),
    "l1": Constant(33, 46.2, "LDG that hits L1, arXiv 2402.13499"),
    "l2": Constant(227, 281, "LDG that hits L2 beyond L1, arXiv 2402.13499"),
    "dram": Constant(340, 476, "LDG that misses L2 beyond L2, chip row"),
    "atomic": Constant(260, 260, "as a load from L2"),
    "atomic_shared": Constant(60, 60, "assumed"),
    "copy": Constant(260, 364, "as a load from L2"),
    "barrier": Constant(30, 10.5, "assumed"),
    "barrier_warp": Constant(
        2, 2, "of each warp of a block at a barrier: 16 threads a clock, CUDA C++ Programming Guide"
    ),
    "release": Constant(12, 10.2, "until a store has read its sources, assumed"),
    "conflict": Constant(1, 1.1, "a further wavefront, assumed"),
    "lines": Constant(1, 2.92, "a further line, assumed"),
    "queue": Constant(1, 1, "of the load and store unit, behind what the warp gave it before"),
    "issue_share": Constant(1, 1.05, "one instruction a clock of a scheduler"),
    "fp_share": Constant(1, 0.861, "datasheet rate of the fp32 pipe"),
    "multiply_share": Constant(1, 0.972, "rate of IMAD, as of the integer pipe"),
    "int_share": Constant(1, 1, "datasheet rate of the integer pipe"),
    "special_share": Constant(1, 1, "datasheet rate of the special-function unit"),
    "uniform_share": Constant(1, 1, "a uniform instruction in two clocks of a scheduler, assumed"),
    "mma_share": Constant(1, 1.17, "rate of mma.sync in the chip row"),
    "wavefront": Constant(1, 1.08, "a shared wavefront a clock"),
    "line": Constant(1, 1.14, "words of one bank, one a clock"),
    "request": Constant(0.5, 0.327, "a request beside its lines, assumed"),
    "shared_atomic": Constant(1, 0.486, "a distinct address of a warp, assumed"),
    "float_turn": Constant(95, 60, "from a lane that adds to a shared float to the next; 1 and 8 warps, H200"),
    "float_pipe": Constant(23, 23.5, "such a turn of a warp among many, H200"),
    "l2_share": Constant(1, 1.9, "L2 rate of the chip row"),
    "store": Constant(1, 1.8, "a sector that is written, beside one that is read, assumed"),
    "dram_share": Constant(1, 0.857, "DRAM rate of the datasheet"),
    "l2_kept": Constant(1, 0.918, "L2 size of the chip row"),
    "atomic_turn": Constant(1, 1.3, "atomics of a warp on a sector, in a slice of L2, assumed"),
    "float_atomic": Constant(4, 3.5, "from an addition to a float in L2 to the next, as an addition's latency"),
    "slice": Constant(512, 512, "bytes side by side in one slice of L2, assumed"),
    "uneven": Constant(2, 2, "chunks of 512 bytes that the fullest slice of L2 has beyond the average, H200"),
    "blocks_per_clock": Constant(1, 0.937, "started by the chip, assumed"),
    "start": Constant(250, 208, "launch to first instruction and drain, assumed"),
    "round": Constant(100, 202, "a block after another on its place, assumed"),
    "tail": Constant(1, 0.96, "of a round that is not full"),
    "launch_share": Constant(1, 0.5, "launch cost of the chip row"),
    "memset": Constant(1.1, 1.1, "us to clear a buffer before the launches, beside its stores; as a launch"),
    "p": Constant(4, 2.61, "overlap of the bounds; infinite if they overlap wholly"),
}
FITTED: dict[str, float] = {name: constant.fitted for name, constant in CONSTANTS.items()}
