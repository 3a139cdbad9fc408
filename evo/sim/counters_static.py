"""Static counts of a kernel's instructions, worked out once per kernel, so that a launch only multiplies and adds.

Instruction counts are the static mix of each block times its executions; memory counts are per memory instruction.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evo.sim.lower.cfg import Block
from evo.sim.lower.isa.opcode_table import TABLE
from evo.sim.ptx.ast import WIDTH, Imm, Instr

MEMORY = ("ld", "st", "atom", "red", "cp", "ldmatrix", "stmatrix", "wmma.load", "wmma.store")
_HALF = ("f16", "f16x2", "bf16", "bf16x2")
_LOADS = ("ld", "cp", "wmma.load")
_ATOMICS = ("atom", "red")
# Warp instructions of the budget that one lane of these counts for: lanes take theirs one by one.
_PER_LANE = {"atom": 2, "red": 2, "@vprintf": 32}


def unit_of(ins: Instr) -> str:
    """The pipe an instruction occupies: fp, int, sfu, mma, fp64, shuffle, mem, barrier, branch, cvt or mov."""
    unit = TABLE[ins.name].unit if ins.name in TABLE else "int"
    kind = ins.mods[-1] if ins.mods else ""
    if unit in ("alu", "fp"):
        if kind == "f64":
            return "fp64"
        if ins.name in ("div", "rem"):
            return "sfu"
        return "fp" if kind in ("f32", *_HALF) and ins.name not in ("selp", "setp", "set", "min", "max") else "int"
    return "fp64" if unit == "sfu" and kind == "f64" else unit


def space_of_site(ins: Instr) -> str:
    """shared, local, param, const, copy or global (generic counts as global)."""
    spaces = {m.split("::")[0] for m in ins.mods}
    if ins.name in ("ldmatrix", "stmatrix"):
        return "shared"
    for space in ("local", "param", "const"):
        if space in spaces:
            return space
    if ins.name == "cp":
        return "copy"
    return "shared" if "shared" in spaces else "global"


def spent_by(block: Block) -> tuple[int, int]:
    """What an execution of a block takes of the budget: by a warp, and by each of its lanes."""
    return len(block.code) + 1, sum(_PER_LANE.get(ins.name, 0) for ins in block.code)


def mma_fma(ins: Instr) -> int:
    """Multiply-adds of one warp-wide mma: m x n x k of its shape."""
    found = re.search(r"m(\d+)n(\d+)k(\d+)", ins.spelling)
    return math.prod(int(size) for size in found.groups()) if found else 0


def access_bytes(ins: Instr) -> int:
    """Bytes that one lane moves in one execution of a memory instruction; 0 if its lanes share the work (wmma)."""
    if ins.name == "cp":
        size = ins.args[2] if len(ins.args) > 2 else None
        return size.value if isinstance(size, Imm) else 0
    bits = next((WIDTH[mod] for mod in reversed(ins.mods) if mod in WIDTH), 0)
    vector = next((int(mod[1:]) for mod in ins.mods if mod in ("v2", "v4", "v8")), 1)
    return bits * vector // 8 if ins.name in ("ld", "st", "atom", "red") else 0


@dataclass(frozen=True, slots=True)
class InstructionMix:
    """Counts of some instructions of a block: of a name, so many per execution by a warp, or per active lane of it."""

    by_warp: dict[str, int]
    by_lane: dict[str, int]

    def add_to(self, out: Counter[str], executions: int, lanes: int) -> None:
        for name, count in self.by_warp.items():
            out[name] += count * executions
        for name, count in self.by_lane.items():
            out[name] += count * lanes


class BlockCounts:
    """The counts of a kernel's blocks and memory instructions (`sites`)."""

    def __init__(self, blocks: Iterable[Block], sites: list[Instr]) -> None:
        self.blocks: list[
            tuple[InstructionMix, dict[int, InstructionMix]]
        ] = []  # of each: all of it, and by source line
        for block in blocks:
            issued = list(_issued(block))
            lines: dict[int, list[Instr]] = {}
            for ins in issued:
                lines.setdefault(ins.loc, []).append(ins)
            self.blocks.append((_mix(issued), {line: _mix(part) for line, part in lines.items()}))
        mixes = [mix for mix, _ in self.blocks]
        self.names = sorted({name for mix in mixes for name in (*mix.by_warp, *mix.by_lane)})
        # Of each block, by name: how many per execution by a warp, how many per active lane, and whether any.
        self.by_warp = np.array([[mix.by_warp.get(n, 0) for n in self.names] for mix in mixes], np.int64)
        self.by_lane = np.array([[mix.by_lane.get(n, 0) for n in self.names] for mix in mixes], np.int64)
        self.has = np.array([[n in mix.by_warp or n in mix.by_lane for n in self.names] for mix in mixes], np.bool_)
        memory = [(index, ins, space_of_site(ins)) for index, ins in enumerate(sites) if ins.name in MEMORY]
        self.lines = [sites[index].loc for index, _, _ in memory]
        self.sites = np.array([index for index, _, _ in memory], np.int64)
        spaces = [space for _, _, space in memory]
        self.in_global = np.array([space in ("global", "copy") for space in spaces], np.bool_)
        self.in_shared = np.array([space in ("shared", "copy") for space in spaces], np.bool_)
        self.in_local = np.array([space == "local" for space in spaces], np.bool_)
        self.loads = np.array([ins.name in _LOADS for _, ins, _ in memory], np.bool_)
        self.atomics = np.array([ins.name in _ATOMICS for _, ins, _ in memory], np.bool_)
        self.bytes = np.array([access_bytes(ins) for _, ins, _ in memory], np.int64)

    def memory(
        self, records: Mapping[str, NDArray[np.int64]]
    ) -> dict[str, tuple[NDArray[np.bool_], NDArray[np.int64]]]:
        """By name, which of the memory instructions (places in `sites`) it is counted of, and the counts of all."""
        count = {name: values[self.sites] for name, values in records.items()}
        missed, sectors = count["l1_misses"], count["sectors"]
        # The least number of sectors for as many lanes on distinct addresses: what adjacent lanes would touch.
        least = np.maximum(count["requests"], -(-count["lanes"] * self.bytes // 32))
        return {
            "global_requests": (self.in_global, count["requests"]),
            "global_sectors": (self.in_global, sectors),
            "global_lines": (self.in_global, count["lines"]),
            "global_passes": (self.in_global, count["passes"]),
            "global_sectors_ideal": (self.in_global, np.where(self.bytes > 0, least, sectors)),
            "l1_hit_sectors": (self.in_global, np.where(self.loads, sectors - missed, 0)),
            "l2_sectors": (self.in_global, np.where(self.loads, missed, sectors)),
            "global_atomics": (self.in_global & self.atomics, count["lanes"]),
            "shared_requests": (self.in_shared, count["requests"]),
            "shared_wavefronts": (self.in_shared, count["wavefronts"]),
            "shared_wavefronts_ideal": (self.in_shared, count["ideal"]),
            "bank_conflicts": (self.in_shared, count["wavefronts"] - count["ideal"]),
            "atomic_lanes": (self.atomics, count["lanes"]),
            "atomic_addresses": (self.atomics, missed),
            "local_requests": (self.in_local, count["requests"]),
            "local_sectors": (self.in_local, sectors),
        }


def _issued(block: Block) -> Iterator[Instr]:
    """The instructions of a block that the hardware would issue."""
    return (ins for ins in block.instructions() if not (ins.name == "ld" and "param" in ins.mods))


def _mix(code: Iterable[Instr]) -> InstructionMix:
    by_warp, by_lane = Counter[str](), Counter[str]()
    for ins in code:
        unit = unit_of(ins)
        by_warp["warp_instructions"] += 1
        by_lane["thread_instructions"] += 1
        by_warp[f"{unit}_instructions"] += 1
        if unit == "mma":
            by_warp["mma_fma"] += mma_fma(ins)
        if ins.name == "ex2":
            by_lane["ex2"] += 2 if ins.mods[-1].endswith("x2") else 1
    return InstructionMix(dict(by_warp), dict(by_lane))
