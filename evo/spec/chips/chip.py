"""One GPU model: capacities that launch plans are held to, and rates per clock that peaks follow from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evo.errors import DeviceMissing

# Every rate a row may state, with its unit. What no source states is left out of a row.
RATES = {
    "dram_bytes_per_s": "bytes/s",
    "fp32_lanes": "FMA per clock per SM",
    "int_lanes": "additions per clock per SM",
    "sfu_lanes": "exp2, log2, sin, rsqrt (MUFU) results per clock per SM",
    "lsu_lanes": "load and store lanes per clock per SM",
    "fp64_lanes": "FMA per clock per SM",
    "shared_bytes_per_clock": "bytes per clock per SM",
    "mma_f16_fma": "FMA per clock per SM, dense, fp16 operands, fp32 accumulate, by mma.sync",
    "tensor_f16_fma": "FMA per clock per SM, dense, fp16 operands, fp32 accumulate, by the chip's widest instruction",
    "tensor_f8_fma": "FMA per clock per SM, dense, fp8 operands, fp32 accumulate",
    "tensor_clock_hz": "Hz, the clock that the datasheet's tensor peak is stated at, where it is not the boost clock",
    "l2_bytes_per_clock": "bytes per clock, whole chip",
    "latency_shared": "clocks",
    "latency_l1": "clocks",
    "latency_l2": "clocks",
    "latency_dram": "clocks",
    "launch_s": "s",
}
_MODEL_NEEDS = (
    "dram_bytes_per_s", "int_lanes", "sfu_lanes", "lsu_lanes", "fp64_lanes", "shared_bytes_per_clock", "mma_f16_fma",
    "l2_bytes_per_clock", "latency_shared", "latency_l1", "latency_l2", "launch_s",
)  # fmt: skip


class _NeededRate:
    """A rate of `Chip.rates` under its own name, which the chip must have."""

    def __set_name__(self, _owner: type, name: str) -> None:
        self.name = name

    def __get__(self, chip: Chip, _owner: type | None = None) -> float:
        return chip.needed(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One GPU model. Sizes in bytes, clock in Hz; units of the rates are in `RATES`.

    sources: for a field or rate, where its number comes from and under which condition it holds. estimates: names of
    rates that no source states for this chip and the simulator's model needs; they bind nothing. products: further
    names that the driver reports for this row.
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
    rates: Mapping[str, float]
    sources: Mapping[str, str] = field(default_factory=dict)
    estimates: tuple[str, ...] = ()
    products: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if unknown := sorted({*self.rates, *self.estimates} - set(RATES)):
            raise ValueError(f"{self.slug}: unknown rate {unknown[0]!r}")

    def rate(self, name: str) -> float | None:
        """A rate by name, None if no source states one."""
        return self.rates.get(name)

    def stated(self, name: str) -> float | None:
        """A rate that a source states or a measurement gave; None for an estimate."""
        return None if name in self.estimates else self.rates.get(name)

    def needed(self, name: str) -> float:
        """A rate by name. Raises DeviceMissing if no source states it."""
        value = self.rates.get(name)
        if value is None:
            raise DeviceMissing(
                f"{self.name}: no source states its {name} ({RATES[name]}), so its times cannot be modelled",
                problem="rate-unknown",
                hint="model another chip, e.g. --device sim:l4; `evo doctor --calibrate` measures the GPU at hand",
            )
        return value

    @property
    def missing_for_model(self) -> tuple[str, ...]:
        """Rates that the simulator's time model needs and this row does not have."""
        return tuple(name for name in _MODEL_NEEDS if name not in self.rates)

    dram_bytes_per_s = _NeededRate()
    fp32_lanes = _NeededRate()
    int_lanes = _NeededRate()
    sfu_lanes = _NeededRate()
    fp64_lanes = _NeededRate()
    lsu_lanes = _NeededRate()
    l2_bytes_per_clock = _NeededRate()
    launch_s = _NeededRate()

    @property
    def warps_per_sm(self) -> int:
        return self.threads_per_sm // 32

    @property
    def arch(self) -> str:
        return f"sm_{self.capability}"

    @property
    def peak_mma_flop_per_s(self) -> float | None:
        """Dense FP16 tensor peak with FP32 accumulate by mma.sync at boost clock, FLOP/s; None if it is unknown."""
        return self._chip_wide("mma_f16_fma", 2 * self.clock_hz)

    @property
    def peak_tensor_flop_per_s(self) -> float | None:
        """As the datasheet states it: the widest instruction, at the clock stated for tensor operations."""
        return self._chip_wide("tensor_f16_fma", 2 * self.rates.get("tensor_clock_hz", self.clock_hz))

    @property
    def peak_fp32_flop_per_s(self) -> float | None:
        return self._chip_wide("fp32_lanes", 2 * self.clock_hz)

    @property
    def l2_bytes_per_s(self) -> float | None:
        per_clock = self.rates.get("l2_bytes_per_clock")
        return per_clock * self.clock_hz if per_clock is not None else None

    def _chip_wide(self, name: str, factor: float) -> float | None:
        per_sm = self.rates.get(name)
        return self.sms * per_sm * factor if per_sm is not None else None

    def registers_of_warp(self, registers: int) -> int:
        """Registers that one warp takes, in whole allocation units."""
        unit = self.register_allocation_unit
        return -(-registers * 32 // unit) * unit

    def resident_limits(self, threads: int, registers: int, shared_bytes: int) -> dict[str, int]:
        """Blocks of this shape that one SM holds at once, by each of its resources alone."""
        warps = -(-threads // 32)
        return {
            "registers": self.registers_per_sm // (self.registers_of_warp(max(registers, 1)) * warps),
            "shared": self.shared_per_sm // max(1, shared_bytes + self.shared_reserved_per_block),  # a T4 reserves none
            "threads": self.warps_per_sm // warps,
            "blocks": self.blocks_per_sm,
        }

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
