"""What a launch asks of a chip, in the terms that its time is modelled from: instructions by pipe, memory traffic, and
the chain of dependent instructions that each warp waits for, by kind of wait.

All of it follows from the counters of an execution and the compiler's report; nothing here is a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from evo.sim.counters import Counters
from evo.sim.counters_static import space_of_site, unit_of
from evo.sim.lower.cfg import Block
from evo.sim.lower.isa.opcode_table import defs, uses
from evo.sim.ptx.ast import Imm, Instr

# Clocks from issue to a dependent instruction by kind, to find the longest chain; the model has its own.
CHAIN_CLOCKS: Mapping[str, float] = {
    "alu": 4, "convert": 6, "move": 2, "special": 20, "double": 16, "mma_16": 33, "mma_8": 18, "shuffle": 24,
    "vote": 12, "shared": 29, "l1": 33, "l2": 227, "atomic": 260, "atomic_shared": 40, "divide": 30, "param": 8,
    "issue": 1, "barrier": 30, "copy": 130, "conflict": 1, "lines": 1,
}  # fmt: skip
_KIND = {
    "fp": "alu", "int": "alu", "cvt": "convert", "mov": "move", "sfu": "special", "fp64": "double",
    "shuffle": "shuffle", "barrier": "alu", "branch": "alu",
}  # fmt: skip
_EXPANDED = {"div": 8, "rem": 10}  # instructions that ptxas expands, in issue slots

Waits = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCounts:
    """One launch of the timed sequence: its counters and what it occupies. `shared_bytes` is static plus dynamic.

    spill_bytes: stored and loaded by the compiler's spills in one pass over the code, per thread.
    instructions: of the machine code, without padding; 0 if unknown.
    """

    counters: Counters
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int
    registers: int  # per thread
    blocks_run: int
    blocks_total: int
    spill_bytes: int = 0
    instructions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchWork:
    """counts: sums over the blocks that ran. chain: of each kind of wait, how many one warp meets, on average.

    atomics: global atomics by requests, after lanes of a warp with one address are one. atomic_depth: of the
    sectors that are written, how many atomics each gets at least, in the whole launch.
    block_share, warp_share: the work of the heaviest block over that of an average one, and of a block's longest warp.
    """

    counts: Mapping[str, float]
    chain: Mapping[str, float]
    threads: int
    shared_bytes: int
    registers: int
    blocks_run: int
    blocks_total: int
    warps_per_block: int
    expanded: float
    spills: float  # accesses of one warp
    block_share: float
    warp_share: float
    extra: Mapping[str, float] = field(default_factory=dict)


def work_of(part: LaunchCounts) -> LaunchWork:
    """The work of a launch."""
    counters = part.counters
    counts = counters.totals()
    run = max(1, part.blocks_run)
    threads = math.prod(part.block)
    warps = max(1, counters.warps)
    block, warp = counters.imbalance(run)
    executed = counts.get("warp_instructions", 0) / warps
    passes = max(1.0, executed / part.instructions) if part.instructions else 1.0
    return LaunchWork(
        counts={name: float(value) for name, value in counts.items() if value},
        chain=_chain(counters),
        threads=threads,
        shared_bytes=part.shared_bytes,
        registers=part.registers,
        blocks_run=run,
        blocks_total=part.blocks_total,
        warps_per_block=-(-threads // 32),
        expanded=float(_expanded(counters)),
        spills=part.spill_bytes / 4 * passes,
        block_share=block,
        warp_share=warp,
        extra=_loads(counters) | _atomics(counters, part.blocks_total / run),
    )


def _loads(counters: Counters) -> dict[str, float]:
    """Sectors that loads miss in L1, and requests of loads and of stores, in global memory."""
    found = {"load_misses": 0.0, "load_requests": 0.0, "store_requests": 0.0}
    for index, ins in enumerate(counters.kernel.sites):
        if ins.name not in ("ld", "cp", "st") or space_of_site(ins) not in ("global", "copy"):
            continue
        requests = int(counters.records["requests"][index])
        found["store_requests" if ins.name == "st" else "load_requests"] += requests
        found["load_misses"] += int(counters.records["l1_misses"][index]) if ins.name != "st" else 0
    return found


def _atomics(counters: Counters, scale: float) -> dict[str, float]:
    """Global and shared atomics by distinct addresses within a warp."""
    found = {"atomics": 0.0, "atomic_lanes": 0.0, "shared_atomics": 0.0, "shared_atomic_lanes": 0.0, "cas": 0.0}
    for index, ins in enumerate(counters.kernel.sites):
        if ins.name not in ("atom", "red"):
            continue
        shared = "shared_" if space_of_site(ins) == "shared" else ""
        addresses = int(counters.records["l1_misses"][index])
        found[f"{shared}atomics"] += addresses or int(counters.records["requests"][index])
        found[f"{shared}atomic_lanes"] += int(counters.records["lanes"][index])
        found["cas"] += int(counters.records["requests"][index]) if "cas" in ins.mods else 0
    if not any(found.values()):
        return {}
    sectors = max(1, counters.unique_write_sectors)
    return {**found, "atomic_depth": found["atomics"] * scale / sectors}


def _expanded(counters: Counters) -> int:
    """Extra issue slots of instructions that are sequences in hardware."""
    extra = 0
    for block, executions in zip(counters.kernel.blocks, counters.executions, strict=True):
        if executions:
            slots = sum(_EXPANDED.get(ins.name, 1) - 1 for ins in block.code if ins.mods and "approx" not in ins.mods)
            extra += slots * int(executions)
    return extra


def _chain(counters: Counters) -> Waits:
    """What one warp waits for alone: the longest chain of each block, times how often a warp runs it."""
    sites = _site_waits(counters)
    warps = max(1, counters.warps)
    total: Waits = {}
    for block, executions in zip(counters.kernel.blocks, counters.executions, strict=True):
        if executions:
            times = float(executions) / warps
            for kind, count in longest_chain(block, sites).items():
                total[kind] = total.get(kind, 0.0) + count * times
    return total


def _site_waits(counters: Counters) -> dict[int, Waits]:
    """Of each memory instruction that misses, conflicts or spreads over lines: its waits on average."""
    out: dict[int, Waits] = {}
    records = counters.records
    for index, ins in enumerate(counters.kernel.sites):
        requests = int(records["requests"][index])
        if not requests or ins.name not in ("ld", "cp", "ldmatrix", "atom"):
            continue
        waits: Waits = {}
        space = space_of_site(ins)
        if space == "shared":
            waits["conflict"] = max(0.0, int(records["wavefronts"][index]) / requests - 1)
        elif space in ("global", "copy") and (sectors := int(records["sectors"][index])) and ins.name != "atom":
            waits["l2"] = min(1.0, int(records["l1_misses"][index]) / sectors)
            waits["lines"] = max(0.0, int(records["lines"][index]) / requests - 1)
        if any(waits.values()):
            out[id(ins)] = waits
    return out


def longest_chain(block: Block, sites: Mapping[int, Waits]) -> Waits:
    """The waits along the longest chain of dependent instructions of a block, or its length if that is more.

    Program order is ignored beyond data flow, since ptxas moves loads up; a wait for copies is a chain of its own.
    """
    ready: dict[str, int] = {}  # register -> the instruction it comes from
    clocks: list[float] = []
    before: list[int] = []
    waits: list[Waits] = []
    last, longest, copies = -1, 0.0, 0.0
    for number, ins in enumerate(_with_end(block)):
        start, parent = 0.0, -1
        for name in uses(ins):
            if (at := ready.get(name, -1)) >= 0 and clocks[at] > start:
                start, parent = clocks[at], at
        if ins.name == "cp":
            copies = max(copies, _copy_waits(ins))
        mine = {} if ins.name == "cp" else _waits(ins, sites)
        waits.append(mine)
        before.append(parent)
        end = start + sum(CHAIN_CLOCKS[kind] * count for kind, count in mine.items())
        clocks.append(end)
        for name in defs(ins):
            ready[name] = number
        if end > longest:
            longest, last = end, number
    if copies * CHAIN_CLOCKS["copy"] > longest:
        found: Waits = {"copy": copies}
    elif len(clocks) > longest:
        found = {"issue": float(len(clocks))}
    else:
        found = {}
        while last >= 0:
            for kind, count in waits[last].items():
                found[kind] = found.get(kind, 0.0) + count
            last = before[last]
    if block.end is not None and block.end.name in ("bar", "barrier"):
        found["barrier"] = found.get("barrier", 0.0) + 1
    return found


def _copy_waits(ins: Instr) -> float:
    """The copies were started in another block: assume nothing hides what is still in flight."""
    return 1.0 if "wait_all" in ins.mods or ("wait_group" in ins.mods and ins.args == (Imm(0),)) else 0.0


def _with_end(block: Block) -> Iterable[Instr]:
    return (*block.code, block.end) if block.end is not None else block.code


def _waits(ins: Instr, sites: Mapping[int, Waits]) -> Waits:
    unit = unit_of(ins)
    if unit == "mma":
        return {"mma_16" if "m16n8k16" in ins.mods else "mma_8": 1.0}
    if unit != "mem":
        if ins.name in ("div", "rem") and "approx" not in ins.mods:
            return {"divide": 1.0}
        if ins.name in ("vote", "activemask", "match"):
            return {"vote": 1.0}
        return {_KIND.get(unit, "alu"): 1.0}
    space = space_of_site(ins)
    if ins.name in ("st", "red", "stmatrix"):
        return {"alu": 1.0}
    if space == "param":
        return {"param": 1.0}
    if ins.name == "atom":
        return {"atomic_shared" if space == "shared" else "atomic": 1.0}
    return {"shared" if space == "shared" else "l1": 1.0, **sites.get(id(ins), {})}
