"""Modelled latency from counters: a sum of bounds, never a measurement. Version `sim-2`, uncalibrated.

Throughput, latency, L2 and DRAM terms are computed apart and combined by a p-norm, because they overlap. Every rate
is the chip row's; the constants below are the model's own assumptions and are not fitted to any kernel.
What ptxas does (scheduling, spills, fusing) is not seen: latency is the dataflow path of each PTX basic block.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evo.results import Estimate
from evo.sim.counters import Counters
from evo.sim.counters_static import space_of_site, unit_of
from evo.sim.lower.cfg import Block
from evo.sim.lower.isa.opcode_table import defs, uses
from evo.sim.ptx.ast import Imm, Instr
from evo.spec.chips import Chip
from evo.spec.metrics import pipe_clocks

MODEL_VERSION = "sim-2"
CALIBRATION = "uncalibrated"
_P = 4.0
_SCHEDULERS = 4
_BARRIER_CLOCKS = 30
_BLOCK_START_CLOCKS = 250  # launch of a block on an SM, first instruction fetch
# Clocks from issue to a dependent instruction, by unit; memory comes from the chip row.
_LATENCY = {
    "fp": 4, "int": 4, "cvt": 6, "mov": 2, "sfu": 20, "fp64": 40, "mma": 33, "shuffle": 24, "barrier": 4, "branch": 8,
}  # fmt: skip
_EMULATED = {"div": 8, "rem": 10}  # instructions that ptxas expands, in issue slots


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCounts:
    """One launch of the timed sequence: its counters and what it occupies. `shared_bytes` is static plus dynamic."""

    counters: Counters
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int
    registers: int  # per thread
    blocks_run: int
    blocks_total: int


def occupancy(chip: Chip, threads: int, registers: int, shared_bytes: int) -> int:
    """Blocks of this shape that fit one SM together; at least 1."""
    warps = -(-threads // 32)
    unit = chip.register_allocation_unit
    per_warp = -(-max(16, registers) * 32 // unit) * unit
    limits = [chip.blocks_per_sm, chip.warps_per_sm // warps, chip.registers_per_sm // (per_warp * warps)]
    if shared_bytes:
        limits.append(chip.shared_per_sm // (shared_bytes + chip.shared_reserved_per_block))
    return max(1, min(limits))


def estimate(parts: Sequence[LaunchCounts], chip: Chip, *, footprint_bytes: int = 0, cold: bool = False) -> Estimate:
    """Model the time of launches that run one after the other. Deterministic; the same counts give the same number.

    footprint_bytes: all memory the sequence touches; what fits L2 is taken to be there unless `cold`.
    """
    if not parts:
        raise ValueError("an estimate needs at least one launch")
    terms: dict[str, float] = {}
    total = 0.0
    for part in parts:
        clocks = _terms(part, chip, footprint_bytes, cold)
        throughput = max(v for k, v in clocks.items() if k not in ("latency", "l2", "dram", "block"))
        bounds = (throughput, clocks["latency"], clocks["l2"], clocks["dram"])
        top = max(bounds) or 1.0
        combined = top * sum((b / top) ** _P for b in bounds) ** (1 / _P)
        combined = max(combined, clocks["block"])
        total += combined / chip.clock_hz * 1e6
        for name, value in clocks.items():
            terms[name] = terms.get(name, 0.0) + value / chip.clock_hz * 1e6
    terms["launch"] = chip.launch_s * 1e6 * len(parts)
    total += terms["launch"]
    return Estimate(
        modelled_us=total,
        model_version=MODEL_VERSION,
        chip=chip.slug,
        calibration=CALIBRATION,
        limiter=max(terms, key=lambda name: terms[name] * (0.99 if name == "block" else 1)),  # a tie is the other's
        terms_us=terms,
        blocks_run=sum(p.blocks_run for p in parts),
        blocks_total=sum(p.blocks_total for p in parts),
    )


def _terms(part: LaunchCounts, chip: Chip, footprint: int, cold: bool) -> dict[str, float]:
    """Clocks of one launch by bound, at the chip's boost clock."""
    counts = part.counters.totals()
    run = max(1, part.blocks_run)

    waves = math.ceil(part.blocks_total / chip.sms)  # blocks that the busiest SM runs
    per_block = {name: value / run for name, value in counts.items()}
    clocks = pipe_clocks(per_block, chip)
    clocks["issue"] += _expanded(part.counters) / run / _SCHEDULERS
    latency = _BLOCK_START_CLOCKS + _warp_latency(part.counters, chip)
    alone = max(*clocks.values(), latency)
    clocks = {name: waves * value for name, value in clocks.items()}
    block, warp = part.counters.imbalance(run)
    threads = math.prod(part.block)
    resident = min(waves, occupancy(chip, threads, part.registers, part.shared_bytes))
    clocks["latency"] = math.ceil(waves / resident) * latency
    # Nothing ends before the block that has most to do, and no block before its longest warp.
    clocks["block"] = max(block * alone, max(1.0, warp / block) * clocks["latency"])
    scale = part.blocks_total / run
    l2_bytes = 32 * (counts.get("l2_sectors", 0) + counts.get("local_sectors", 0)) * scale
    clocks["l2"] = l2_bytes / chip.l2_bytes_per_clock
    clocks["dram"] = _dram_bytes(counts, scale, footprint, chip, cold) / chip.dram_bytes_per_s * chip.clock_hz
    return clocks


def _dram_bytes(counts: dict[str, int], scale: float, footprint: int, chip: Chip, cold: bool) -> float:
    unique = (counts["unique_read_bytes"] + counts["unique_write_bytes"]) * scale
    if footprint:
        unique = min(unique, footprint)
    elif scale > 1 and not cold:
        footprint = int(unique)
    return unique if cold or max(footprint, unique) > chip.l2_bytes else 0.0


def _expanded(counters: Counters) -> int:
    """Extra issue slots of instructions that are sequences in hardware."""
    extra = 0
    for block, executions in zip(counters.kernel.blocks, counters.executions, strict=True):
        slots = sum(_EMULATED.get(ins.name, 1) - 1 for ins in block.code if ins.mods and "approx" not in ins.mods)
        extra += slots * int(executions)
    return extra


def _warp_latency(counters: Counters, chip: Chip) -> float:
    """Clocks one warp needs alone: each block's path times how often a warp runs it."""
    loads = _load_latencies(counters, chip)
    warps = max(1, counters.warps)
    total = 0.0
    for block, executions in zip(counters.kernel.blocks, counters.executions, strict=True):
        if executions:
            total += critical_path(block, chip, loads) * float(executions) / warps
    return total


def _load_latencies(counters: Counters, chip: Chip) -> dict[int, float]:
    """Average latency of each global load by the share of its sectors that the L1 model found."""
    out: dict[int, float] = {}
    for index, ins in enumerate(counters.kernel.sites):
        sectors = int(counters.records["sectors"][index])
        if ins.name in ("ld", "cp") and sectors:
            missed = min(1.0, int(counters.records["l1_misses"][index]) / sectors)
            out[id(ins)] = chip.latency_l1 + missed * (chip.latency_l2 - chip.latency_l1)
    return out


def critical_path(block: Block, chip: Chip, loads: dict[int, float]) -> float:
    """The longest chain of dependent instructions in a block, or its length where that is more.

    Program order is ignored beyond data flow, since ptxas moves loads up; a wait for copies is a chain of its own.
    """
    ready: dict[str, float] = {}
    longest = copies = 0.0
    count = 0
    for ins in _with_end(block):
        count += 1
        start = max((ready.get(name, 0.0) for name in uses(ins)), default=0.0)
        if ins.name == "cp":
            copies = _copy_time(ins, start, copies, chip)
            continue
        end = start + _latency(ins, chip, loads)
        for name in defs(ins):
            ready[name] = end
        longest = max(longest, end)
    return max(longest, copies, float(count)) + (_BARRIER_CLOCKS if _is_barrier(block.end) else 0)


def _copy_time(ins: Instr, start: float, copies: float, chip: Chip) -> float:
    waits = "wait_all" in ins.mods or ("wait_group" in ins.mods and ins.args == (Imm(0),))
    if waits:
        # The copies were started in another block: assume nothing hides what is still in flight.
        return max(copies, float(chip.latency_l2) / 2)
    return max(copies, start) if "ca" not in ins.mods and "cg" not in ins.mods else copies


def _with_end(block: Block) -> Iterable[Instr]:
    return (*block.code, block.end) if block.end is not None else block.code


def _is_barrier(end: Instr | None) -> bool:
    return end is not None and end.name in ("bar", "barrier")


def _latency(ins: Instr, chip: Chip, loads: dict[int, float]) -> float:
    unit = unit_of(ins)
    if unit == "mma":
        return 33.0 if "m16n8k16" in ins.mods else 18.0
    if unit != "mem":
        return float(_LATENCY.get(unit, 4))
    space = space_of_site(ins)
    if ins.name in ("st", "red"):
        return 4.0
    if space == "param":
        return 8.0
    if space == "shared":
        return float(chip.latency_shared)
    if ins.name == "atom":
        return float(chip.latency_l2)
    if space == "local":
        return float(chip.latency_l1)
    return loads.get(id(ins), float(chip.latency_l1))
