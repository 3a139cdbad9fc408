"""Chip rows: capacities and rates of the GPUs evo knows, each with its condition and source.

Owns the numbers; knows nothing of kernels. A chip that is not here is an error, never a guess.
Rates are per clock where the pipe width is the architectural fact, so that a measured clock scales every peak.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from evo.errors import DeviceMissing


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One GPU model. Sizes in bytes, rates per clock per SM unless the name says otherwise, clocks in Hz.

    `sources` maps a field to where its number comes from and under which condition it holds.
    """

    slug: str
    name: str
    architecture: str
    capability: int  # 89 for sm_89
    sms: int
    clock_hz: float  # boost
    registers_per_sm: int
    registers_per_thread: int
    register_allocation_unit: int  # registers, per warp
    threads_per_sm: int
    threads_per_block: int
    blocks_per_sm: int
    shared_per_sm: int
    shared_per_block: int
    shared_per_block_optin: int
    shared_reserved_per_block: int
    l1_bytes: int  # unified L1 and shared
    l2_bytes: int
    dram_bytes_per_s: float
    l2_bytes_per_clock: float  # whole chip
    shared_bytes_per_clock: int
    fp32_lanes: int
    int_lanes: int
    sfu_lanes: int
    lsu_lanes: int
    fp64_lanes: int
    mma_f16_fma: int  # dense, FP32 accumulate, by mma.sync
    latency_shared: int  # clocks
    latency_l1: int
    latency_l2: int
    latency_dram: int
    launch_s: float
    sources: dict[str, str] = field(default_factory=dict)

    @property
    def warps_per_sm(self) -> int:
        return self.threads_per_sm // 32

    @property
    def arch(self) -> str:
        return f"sm_{self.capability}"

    @property
    def peak_mma_flop_per_s(self) -> float:
        """Dense FP16 tensor peak with FP32 accumulate at boost clock, FLOP/s."""
        return self.sms * self.mma_f16_fma * 2 * self.clock_hz

    @property
    def peak_fp32_flop_per_s(self) -> float:
        return self.sms * self.fp32_lanes * 2 * self.clock_hz

    @property
    def l2_bytes_per_s(self) -> float:
        return self.l2_bytes_per_clock * self.clock_hz

    def names(self) -> dict[str, int]:
        """The integers a launch plan may use as `chip.<name>`."""
        return {
            "sms": self.sms,
            "capability": self.capability,
            "warps_per_sm": self.warps_per_sm,
            "threads_per_sm": self.threads_per_sm,
            "threads_per_block": self.threads_per_block,
            "blocks_per_sm": self.blocks_per_sm,
            "registers_per_sm": self.registers_per_sm,
            "shared_per_sm": self.shared_per_sm,
            "shared_per_block": self.shared_per_block,
            "shared_per_block_optin": self.shared_per_block_optin,
            "l2_bytes": self.l2_bytes,
        }


_CUDA_TABLE = "CUDA C++ Programming Guide, technical specifications per compute capability"

L4 = Chip(
    slug="l4",
    name="NVIDIA L4",
    architecture="Ada Lovelace, AD104",
    capability=89,
    sms=58,
    clock_hz=2.04e9,
    registers_per_sm=65_536,
    registers_per_thread=255,
    register_allocation_unit=256,
    threads_per_sm=1536,
    threads_per_block=1024,
    blocks_per_sm=24,
    shared_per_sm=102_400,
    shared_per_block=49_152,
    shared_per_block_optin=101_376,
    shared_reserved_per_block=1024,
    l1_bytes=131_072,
    l2_bytes=48 * 2**20,
    dram_bytes_per_s=300.1e9,
    l2_bytes_per_clock=810.0,
    shared_bytes_per_clock=128,
    fp32_lanes=128,
    int_lanes=64,
    sfu_lanes=16,
    lsu_lanes=32,
    fp64_lanes=2,
    mma_f16_fma=512,
    latency_shared=30,
    latency_l1=33,
    latency_l2=273,
    latency_dram=541,
    launch_s=2.5e-6,
    sources={
        "sms": "deviceQuery of an L4: 58 SMs, 7,424 cores (60 is the full AD104 die)",
        "clock_hz": "L4 datasheet, boost; a 72 W part sustains less under tensor load",
        "dram_bytes_per_s": "L4 datasheet: GDDR6, 192 bit, 300 GB/s",
        "mma_f16_fma": "L4 datasheet 121 TFLOP/s dense FP16 = 58 x 512 x 2 x 2.04e9; FP32 accumulate at the same rate",
        "l2_bytes_per_clock": "unmeasured: RTX 4090 microbenchmark scaled by bus width, plausible 580 to 1,180",
        "latency_l2": "RTX 4090 microbenchmarks (arXiv 2402.13499); unmeasured on L4",
        "launch_s": "unmeasured",
        "registers_per_sm": _CUDA_TABLE,
        "shared_per_block_optin": _CUDA_TABLE,
        "fp32_lanes": "Ada architecture whitepaper",
    },
)

H200 = Chip(
    slug="h200",
    name="NVIDIA H200",
    architecture="Hopper, GH100",
    capability=90,
    sms=132,
    clock_hz=1.98e9,
    registers_per_sm=65_536,
    registers_per_thread=255,
    register_allocation_unit=256,
    threads_per_sm=2048,
    threads_per_block=1024,
    blocks_per_sm=32,
    shared_per_sm=233_472,
    shared_per_block=49_152,
    shared_per_block_optin=232_448,
    shared_reserved_per_block=1024,
    l1_bytes=262_144,
    l2_bytes=50 * 2**20,
    dram_bytes_per_s=4.8e12,
    l2_bytes_per_clock=2778.0,
    shared_bytes_per_clock=128,
    fp32_lanes=128,
    int_lanes=64,
    sfu_lanes=16,
    lsu_lanes=32,
    fp64_lanes=64,
    mma_f16_fma=1270,
    latency_shared=29,
    latency_l1=33,
    latency_l2=260,
    latency_dram=600,
    launch_s=2.2e-6,
    sources={
        "sms": "H200 SXM datasheet",
        "clock_hz": "boost clock read from the device under load",
        "dram_bytes_per_s": "H200 SXM datasheet: HBM3e, 4.8 TB/s",
        "mma_f16_fma": "mma.sync at 0.62 of the 2,048 dense wgmma rate (published microbenchmarks); unmeasured here",
        "l2_bytes_per_clock": "unmeasured: 5.5 TB/s assumed",
        "launch_s": "unmeasured",
        "registers_per_sm": _CUDA_TABLE,
        "shared_per_block_optin": _CUDA_TABLE,
    },
)

CHIPS: dict[str, Chip] = {chip.slug: chip for chip in (L4, H200)}


def chip(slug: str) -> Chip:
    """Return the row for an exact slug such as `l4`. Raises DeviceMissing for a chip that is not in the table."""
    try:
        return CHIPS[slug]
    except KeyError:
        raise DeviceMissing(
            f"no chip {slug!r} in the table (known: {', '.join(sorted(CHIPS))})",
            hint="name one of the known chips, e.g. --device sim:l4",
        ) from None


def chip_by_name(device_name: str) -> Chip | None:
    """Return the row whose product name the driver reports, or None for a GPU that is not in the table."""
    wanted = device_name.removeprefix("NVIDIA ").strip()
    for row in CHIPS.values():
        if row.name.removeprefix("NVIDIA ") == wanted:
            return row
    return None
