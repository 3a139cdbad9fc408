"""What a launch asks of a chip, in the terms that its time is modelled from: instructions by pipe, memory traffic, and
what each warp waits for, by kind of wait.

All of it follows from the counters of an execution and the machine code; nothing here is a time. Without machine code
the waits are those of the longest chain of dependent PTX instructions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evo.sim.counters import Counters
from evo.sim.counters_static import access_bytes, space_of_site, unit_of
from evo.sim.lower.cfg import Block
from evo.sim.lower.isa.opcode_table import defs, uses
from evo.sim.machine_runs import Executions
from evo.sim.machine_waits import Accesses, StoreShape, Waits, machine_work
from evo.sim.ptx.ast import Imm, Instr, Mem
from evo.spec.machine_instruction import MachineInstruction
from evo.spec.metrics import SECTOR_BYTES

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
# What machine code waits for instead, of each kind in a chain of PTX: a fixed latency is that many issues.
_AS_MACHINE: Mapping[str, tuple[str, float]] = {
    "alu": ("issue", 4), "convert": ("issue", 6), "move": ("issue", 2), "mma_16": ("issue", 33),
    "mma_8": ("issue", 18), "divide": ("issue", 150), "param": ("issue", 8),
}  # fmt: skip
# Clocks of the load and store unit for a line whose words no other line's are in the way of; 18 random lines, H200.
PER_LINE = 0.36
# ... and beyond that of a sector that a store writes in parts: rows by single threads on an H200, 1.3 to 1.6 where
# nothing else binds.
PER_PART = 1.3
_WIDE = frozenset(("s64", "u64", "b64"))
_PIPES = {
    "fma": ("fp_instructions",),
    "alu": ("int_instructions", "cvt_instructions"),
    "xu": ("sfu_instructions",),
    "fp64": ("fp64_instructions",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCounts:
    """One launch of the timed sequence: its counters and what it occupies. `shared_bytes` is static plus dynamic.

    machine: the kernel's machine code, with spills and all; None if there is none. local_bytes: of a thread.
    """

    counters: Counters
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int
    registers: int  # per thread
    blocks_run: int
    blocks_total: int
    machine: Sequence[MachineInstruction] | None = None
    local_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchWork:
    """counts: sums over the blocks that ran. waits: of each kind, how many one warp meets, on average.

    issued: instructions by pipe, over the blocks that ran; of machine code if it is known.

    block_share, warp_share: the work of the heaviest block over that of an average one, and of a block's longest warp.
    block_scatter: the standard deviation of a block's work over its mean.
    side_by_side: how many blocks work at a time, if they wait for one another in a chain.
    """

    counts: Mapping[str, float]
    waits: Mapping[str, float]
    issued: Mapping[str, float]
    threads: int
    shared_bytes: int
    registers: int
    blocks_run: int
    blocks_total: int
    block_share: float
    warp_share: float
    extra: Mapping[str, float] = field(default_factory=dict)
    side_by_side: float | None = None
    local_bytes: int = 0  # of a thread
    block_scatter: float = 0.0


def work_of(part: LaunchCounts) -> LaunchWork:
    """The work of a launch."""
    counters = part.counters
    counts = counters.totals()
    run = max(1, part.blocks_run)
    warps = max(1, counters.warps)
    block, warp, scatter = counters.imbalance(run)
    extra = _loads(counters) | _atomics(counters, _reduced_before(part.machine or ()))
    extra |= counters.reached(run / max(run, part.blocks_total))
    if part.machine:
        executed = _executions(counters)
        of_block = -(-math.prod(part.block) // 32)
        found = machine_work(part.machine, executed, _accesses(counters, executed), of_block)
        waits = {kind: count / warps for kind, count in found.waits.items()}
        issued = found.issued
        requests, wavefronts = found.shared
        extra |= {"shared_requests": requests, "shared_wavefronts": wavefronts}
        joined = found.joined
        extra |= {"joined_sectors": joined.sectors, "open_sectors": joined.open, "open_together": joined.together}
    else:
        waits, issued = _chain(counters), _issued(counters, counts)
    return LaunchWork(
        counts={name: float(value) for name, value in counts.items() if value},
        waits=waits,
        issued=issued,
        threads=math.prod(part.block),
        shared_bytes=part.shared_bytes,
        registers=part.registers,
        blocks_run=run,
        blocks_total=part.blocks_total,
        block_share=block,
        warp_share=warp,
        block_scatter=scatter,
        extra=extra,
        side_by_side=counters.turns.side_by_side() if counters.turns is not None else None,
        local_bytes=part.local_bytes,
    )


def _executions(counters: Counters) -> Executions:
    executed: dict[int, float] = {}
    branches: dict[int, float] = {}
    wide: set[int] = set()
    for block, times in zip(counters.kernel.blocks, counters.executions, strict=True):
        for ins in block.instructions():
            executed[ins.line] = executed.get(ins.line, 0.0) + float(times)
            if not _WIDE.isdisjoint(ins.mods):
                wide.add(ins.line)
        if block.end is not None:
            branches[block.end.line] = branches.get(block.end.line, 0.0) + float(times)
    return Executions(executed, branches, counters.warps, frozenset(wide))


def _accesses(counters: Counters, executed: Executions) -> Accesses:
    records = counters.records
    loads = _site_waits(counters)
    stores: dict[int, StoreShape] = {}
    by_line: dict[int, Waits] = {}
    passes: dict[int, float] = {}
    shared: set[int] = set()
    for index, ins in enumerate(counters.kernel.sites):
        space = space_of_site(ins)
        requests = max(1, int(records["requests"][index]))
        if ins.name == "st" and space == "global":
            of_all = (int(records["sectors"][index]), _fewest(counters, index), _whole_clocks(counters, index))
            sectors, fewest, clocks = (value / requests for value in of_all)
            address = ins.args[0]
            base, offset = (str(address.base), address.offset) if isinstance(address, Mem) else ("", 0)
            stores[ins.line] = StoreShape(sectors, fewest, clocks, base, offset)
        elif found := loads.get(id(ins)):
            by_line[ins.line] = found
        taken = _unit_clocks(counters, index) if space == "global" else int(records["wavefronts"][index])
        shared |= {ins.line} if space in ("shared", "copy") else set()
        # A copy that only fills with zeros asks nothing of global memory, and is no request there.
        times = max(1.0, executed.all.get(ins.line, 0.0)) if space == "copy" else requests
        passes[ins.line] = max(1.0, taken / times)
    pending = {
        ins.line: ins.args[0].value
        for block in counters.kernel.blocks
        for ins in block.instructions()
        if ins.name == "cp" and "wait_group" in ins.mods and ins.args and isinstance(ins.args[0], Imm)
    }
    return Accesses(by_line, stores, passes, frozenset(shared), pending)


def _unit_clocks(counters: Counters, index: int) -> float:
    """Clocks of the load and store unit, with those of sectors that are written in parts."""
    taken = _whole_clocks(counters, index)
    return taken + PER_PART * _parts(counters, index) if counters.kernel.sites[index].name == "st" else taken


def _whole_clocks(counters: Counters, index: int) -> float:
    """Words of one bank come one after the other, and so do lines."""
    return float(max(int(counters.records["passes"][index]), PER_LINE * int(counters.records["lines"][index])))


def _parts(counters: Counters, index: int) -> int:
    """Sectors that a store writes beyond the fewest that could hold what it moves."""
    return max(0, int(counters.records["sectors"][index]) - _fewest(counters, index))


def _fewest(counters: Counters, index: int) -> int:
    """Sectors that could hold what a store or load moves."""
    records = counters.records
    whole = -(-int(records["lanes"][index]) * access_bytes(counters.kernel.sites[index]) // SECTOR_BYTES)
    return max(int(records["requests"][index]), whole)


def _issued(counters: Counters, counts: Mapping[str, int]) -> dict[str, float]:
    """Instructions by pipe from PTX: ptxas removes nearly every mov, so they are not issued."""
    found = {pipe: float(sum(counts.get(name, 0) for name in names)) for pipe, names in _PIPES.items()}
    rest = counts.get("warp_instructions", 0) - counts.get("mov_instructions", 0) - sum(found.values())
    return {**found, "control": max(0.0, rest) + _expanded(counters)}


def _loads(counters: Counters) -> dict[str, float]:
    """In global memory: sectors that loads miss in L1, requests of loads and of stores, and what stores write in parts.

    split_sectors: sectors of stores beyond the fewest that could hold what they write. unit_passes: of all accesses.
    missed_alone, stored_alone: sectors that loads miss and that stores write without another of their line.
    """
    names = (
        "load_misses", "load_requests", "store_requests", "split_sectors", "unit_passes", "missed_alone",
        "stored_alone",
    )  # fmt: skip
    found = dict.fromkeys(names, 0.0)
    for index, ins in enumerate(counters.kernel.sites):
        if space_of_site(ins) not in ("global", "copy"):
            continue
        found["unit_passes"] += _unit_clocks(counters, index)
        if ins.name not in ("ld", "cp", "st"):
            continue
        requests = int(counters.records["requests"][index])
        found["store_requests" if ins.name == "st" else "load_requests"] += requests
        found["stored_alone" if ins.name == "st" else "missed_alone"] += int(counters.records["alone"][index])
        if ins.name == "st":
            found["split_sectors"] += _parts(counters, index)
        else:
            found["load_misses"] += int(counters.records["l1_misses"][index])
    return found


_FLOATS = frozenset(("f16", "f16x2", "bf16", "bf16x2", "f32", "f64"))


# What ptxas puts before an atomic of integers by which the lanes of a warp have become one.
_ACROSS_LANES = frozenset(("VOTE", "VOTEU", "REDUX", "POPC", "UPOPC"))


def _reduced_before(code: Sequence[MachineInstruction]) -> frozenset[int]:
    """PTX lines whose lanes are reduced to one before memory is asked."""
    return frozenset(ins.line for ins in code if ins.opcode in _ACROSS_LANES)


def _atomics(counters: Counters, reduced: frozenset[int]) -> dict[str, float]:
    """Atomics by distinct addresses within a warp, in shared and in global memory, there by sectors as well.

    atomics: distinct addresses. atomic_turns: for each sector as many as lanes meet at one of its addresses.
    float_lanes: those that add to floats in global memory, where no unit adds up lanes.
    """
    found = {
        "atomics": 0.0,
        "atomic_sectors": 0.0,
        "atomic_turns": 0.0,
        "atomic_lanes": 0.0,
        "float_lanes": 0.0,
        "shared_atomics": 0.0,
        "shared_atomic_lanes": 0.0,
        "shared_float_atomics": 0.0,  # of warps
        "shared_float_turns": 0.0,  # lanes of a warp at one address add one after the other, by compare and swap
    }
    for index, ins in enumerate(counters.kernel.sites):
        if ins.name not in ("atom", "red"):
            continue
        shared = "shared_" if space_of_site(ins) == "shared" else ""
        requests, lanes, sectors, addresses, turns = (
            int(counters.records[name][index]) for name in ("requests", "lanes", "sectors", "l1_misses", "wavefronts")
        )
        addresses = addresses or requests
        lanes = addresses if ins.line in reduced else lanes
        floats = not _FLOATS.isdisjoint(ins.mods)
        found[f"{shared}atomics"] += addresses
        found[f"{shared}atomic_lanes"] += lanes
        if shared:
            found["shared_float_atomics"] += requests if floats else 0
            found["shared_float_turns"] += requests * lanes / max(1, addresses) if floats else 0
        else:
            found["atomic_sectors"] += sectors or requests
            found["atomic_turns"] += max(sectors or requests, 0 if ins.line in reduced else turns)
            found["float_lanes"] += lanes if floats else 0
    return found if any(found.values()) else {}


def _expanded(counters: Counters) -> int:
    """Extra issue slots of instructions that are sequences in hardware."""
    extra = 0
    for block, executions in zip(counters.kernel.blocks, counters.executions, strict=True):
        if executions:
            slots = sum(_EXPANDED.get(ins.name, 1) - 1 for ins in block.code if ins.mods and "approx" not in ins.mods)
            extra += slots * int(executions)
    return extra


def _chain(counters: Counters) -> dict[str, float]:
    """What one warp waits for alone by its PTX: the longest chain of each block, times how often a warp runs it."""
    sites = _site_waits(counters)
    warps = max(1, counters.warps)
    total: dict[str, float] = {}
    for block, executions in zip(counters.kernel.blocks, counters.executions, strict=True):
        if executions:
            times = float(executions) / warps
            for kind, count in longest_chain(block, sites).items():
                wait, each = _AS_MACHINE.get(kind, (kind, 1.0))
                total[wait] = total.get(wait, 0.0) + count * each * times
    return total


def _site_waits(counters: Counters) -> dict[int, Waits]:
    """Of each memory instruction that misses, conflicts or spreads over lines: its waits on average."""
    out: dict[int, Waits] = {}
    records = counters.records
    for index, ins in enumerate(counters.kernel.sites):
        requests = int(records["requests"][index])
        if not requests or ins.name not in ("ld", "cp", "ldmatrix", "atom"):
            continue
        waits: dict[str, float] = {}
        space = space_of_site(ins)
        if space == "shared":
            waits["conflict"] = max(0.0, int(records["wavefronts"][index]) / requests - 1)
        elif space in ("global", "copy") and (sectors := int(records["sectors"][index])) and ins.name != "atom":
            waits["l2"] = min(1.0, int(records["l1_misses"][index]) / sectors)
            waits["lines"] = max(0.0, int(records["lines"][index]) / requests - 1)
        if any(waits.values()):
            out[id(ins)] = waits
    return out


def longest_chain(block: Block, sites: Mapping[int, Waits]) -> dict[str, float]:
    """The waits along the longest chain of dependent instructions of a block, or its length if that is more.

    Program order is ignored beyond data flow, since ptxas moves loads up; a wait for copies is a chain of its own.
    """
    ready: dict[str, int] = {}  # register -> the instruction it comes from
    clocks: list[float] = []
    before: list[int] = []
    waits: list[Waits] = []
    last, longest, copies = -1, 0.0, 0.0
    for number, ins in enumerate(block.instructions()):
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
        found: dict[str, float] = {"copy": copies}
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
    if space in ("param", "const"):
        return {"param": 1.0}
    if ins.name == "atom":
        return {"atomic_shared" if space == "shared" else "atomic": 1.0}
    return {"shared" if space == "shared" else "l1": 1.0, **sites.get(id(ins), {})}
