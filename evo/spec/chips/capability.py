"""Limits of an SM and results per clock by compute capability, as NVIDIA states them."""

from __future__ import annotations

from dataclasses import dataclass

LIMITS = "CUDA C++ Programming Guide, Compute Capabilities, table Technical Specifications per Compute Capability"
THROUGHPUT = (
    "CUDA C++ Programming Guide, Performance Guidelines, table Throughput of Native Arithmetic Instructions"
    " (results per clock per SM)"
)
BANKS = "CUDA C++ Programming Guide, Compute Capabilities, Shared Memory: 32 banks of 32 bits per clock"
UNIFIED = "CUDA C++ Programming Guide, Compute Capabilities: unified data cache size"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """One row of the tables. Sizes in bytes; lanes are results per clock per SM."""

    warps_per_sm: int
    blocks_per_sm: int
    shared_per_sm: int
    shared_per_block_optin: int
    shared_reserved_per_block: int
    l1_bytes: int
    fp32_lanes: int
    int_lanes: int
    fp64_lanes: int
    sfu_lanes: int = 16

    def limits(self) -> dict[str, int]:
        """The fields of a Chip that follow from the capability."""
        return {
            "registers_per_sm": 65_536,
            "registers_per_thread": 255,
            "register_allocation_unit": 256,
            "threads_per_sm": 32 * self.warps_per_sm,
            "threads_per_block": 1024,
            "blocks_per_sm": self.blocks_per_sm,
            "shared_per_sm": self.shared_per_sm,
            "shared_per_block": 49_152,
            "shared_per_block_optin": self.shared_per_block_optin,
            "shared_reserved_per_block": self.shared_reserved_per_block,
            "l1_bytes": self.l1_bytes,
        }

    def rates(self) -> dict[str, float]:
        return {
            "fp32_lanes": self.fp32_lanes,
            "int_lanes": self.int_lanes,
            "fp64_lanes": self.fp64_lanes,
            "sfu_lanes": self.sfu_lanes,
            "shared_bytes_per_clock": 128,
        }


_KIB = 1024
CAPABILITIES: dict[int, Capability] = {
    75: Capability(
        warps_per_sm=32, blocks_per_sm=16, shared_per_sm=64 * _KIB, shared_per_block_optin=64 * _KIB,
        shared_reserved_per_block=0, l1_bytes=96 * _KIB, fp32_lanes=64, int_lanes=64, fp64_lanes=2,
    ),
    80: Capability(
        warps_per_sm=64, blocks_per_sm=32, shared_per_sm=164 * _KIB, shared_per_block_optin=163 * _KIB,
        shared_reserved_per_block=_KIB, l1_bytes=192 * _KIB, fp32_lanes=64, int_lanes=64, fp64_lanes=32,
    ),
    86: Capability(
        warps_per_sm=48, blocks_per_sm=16, shared_per_sm=100 * _KIB, shared_per_block_optin=99 * _KIB,
        shared_reserved_per_block=_KIB, l1_bytes=128 * _KIB, fp32_lanes=128, int_lanes=64, fp64_lanes=2,
    ),
    89: Capability(
        warps_per_sm=48, blocks_per_sm=24, shared_per_sm=100 * _KIB, shared_per_block_optin=99 * _KIB,
        shared_reserved_per_block=_KIB, l1_bytes=128 * _KIB, fp32_lanes=128, int_lanes=64, fp64_lanes=2,
    ),
    90: Capability(
        warps_per_sm=64, blocks_per_sm=32, shared_per_sm=228 * _KIB, shared_per_block_optin=227 * _KIB,
        shared_reserved_per_block=_KIB, l1_bytes=256 * _KIB, fp32_lanes=128, int_lanes=64, fp64_lanes=64,
    ),
    100: Capability(
        warps_per_sm=64, blocks_per_sm=32, shared_per_sm=228 * _KIB, shared_per_block_optin=227 * _KIB,
        shared_reserved_per_block=_KIB, l1_bytes=256 * _KIB, fp32_lanes=128, int_lanes=64, fp64_lanes=64,
    ),
}  # fmt: skip


def sources(capability: int) -> dict[str, str]:
    """Where a row's per-capability numbers come from."""
    row = CAPABILITIES[capability]
    found = dict.fromkeys(row.limits(), f"{LIMITS}, {capability / 10:.1f}")
    found |= dict.fromkeys(row.rates(), f"{THROUGHPUT}, {capability / 10:.1f}")
    return found | {"l1_bytes": UNIFIED, "shared_bytes_per_clock": BANKS}
