"""What a launch counted: executions per basic block, and per memory instruction its requests, sectors and wavefronts.

Instruction counts are the static mix of each block times its executions, so they cost nothing while a kernel runs.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evo.device.sim.isa.table import TABLE
from evo.device.sim.layout import REC
from evo.device.sim.program import WIDTH, Imm, Instr

if TYPE_CHECKING:
    from evo.device.sim.cfg import Block
    from evo.device.sim.flow import Kernel

COUNTED = ("requests", "lanes", "sectors", "lines", "wavefronts", "ideal", "l1_misses")
_HALF = ("f16", "f16x2", "bf16", "bf16x2")
_MEMORY = ("ld", "st", "atom", "red", "cp", "ldmatrix", "stmatrix", "wmma.load", "wmma.store")
_LOADS = ("ld", "cp", "wmma.load")


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
    """shared, local, param, atomic or global (generic counts as global)."""
    spaces = {m.split("::")[0] for m in ins.mods}
    if ins.name in ("ldmatrix", "stmatrix"):
        return "shared"
    for space in ("local", "param"):
        if space in spaces:
            return space
    if ins.name == "cp":
        return "copy"
    return "shared" if "shared" in spaces else "global"


def mma_fma(ins: Instr) -> int:
    """Multiply-adds of one warp-wide mma: m x n x k of its shape."""
    found = re.search(r"m(\d+)n(\d+)k(\d+)", ins.spelling)
    return math.prod(int(size) for size in found.groups()) if found else 0


def access_bytes(ins: Instr) -> int:
    """Bytes that one lane moves in one execution of a memory instruction; 0 where its lanes share the work (wmma)."""
    if ins.name == "cp":
        size = ins.args[2] if len(ins.args) > 2 else None
        return size.value if isinstance(size, Imm) else 0
    bits = next((WIDTH[mod] for mod in reversed(ins.mods) if mod in WIDTH), 0)
    vector = next((int(mod[1:]) for mod in ins.mods if mod in ("v2", "v4", "v8")), 1)
    return bits * vector // 8 if ins.name in ("ld", "st", "atom", "red") else 0


class Counters:
    """Exact counts of one launch (of the blocks that ran)."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.warps = 0  # that ran
        self.heaviest = 0  # warp instructions of the block that took most; 0 where blocks waited for one another
        self.longest = 0  # ... and of the warp
        self.records: dict[str, NDArray[np.int64]] = {n: np.zeros(len(kernel.sites), np.int64) for n in COUNTED}
        self.executions = np.zeros(len(kernel.blocks), np.int64)  # of each basic block, by warps
        self.lanes = np.zeros(len(kernel.blocks), np.int64)
        self.unique_read_sectors = 0
        self.unique_write_sectors = 0

    def fill(self, records: NDArray[np.int64], blocks: NDArray[np.int64], touched: list[NDArray[np.uint8]]) -> None:
        """Take over the arrays of a finished launch."""
        for name in COUNTED:
            self.records[name] = records[:, REC[name] // 8].copy()
        self.executions, self.lanes = blocks[:, 0].copy(), blocks[:, 1].copy()
        self.unique_read_sectors = int(sum(np.count_nonzero(t & 1) for t in touched))
        self.unique_write_sectors = int(sum(np.count_nonzero(t & 2) for t in touched))
        for site, block in self.kernel.uniform_sites.items():
            if block >= 0:
                self.records["requests"][site] = self.executions[block]
                self.records["lanes"][site] = self.lanes[block]
            for name in ("sectors", "lines"):
                self.records[name][site] = self.records["requests"][site]

    def imbalance(self, blocks: int) -> tuple[float, float]:
        """The work of the heaviest of so many blocks over that of an average one; of the longest warp likewise.

        In warp instructions; each at least 1.
        """
        work = sum(int(n) * (len(b.code) + 1) for b, n in zip(self.kernel.blocks, self.executions, strict=True))
        if not work:
            return 1.0, 1.0
        return max(1.0, self.heaviest * blocks / work), max(1.0, self.longest * self.warps / work)

    def by_instruction(self) -> list[dict[str, Any]]:
        """Per memory instruction: PTX line, source line, spelling and its counts."""
        out = []
        for index, ins in enumerate(self.kernel.sites):
            if ins.name not in _MEMORY or space_of_site(ins) == "param":
                continue
            row: dict[str, Any] = {"ptx_line": ins.line, "source_line": ins.loc, "instruction": ins.spelling}
            row |= {name: int(values[index]) for name, values in self.records.items()}
            out.append(row)
        return out

    def _issued(self) -> Iterator[tuple[Instr, int, int]]:
        """Every instruction that ran, with its executions by warps and the active lanes of all of them."""
        for block, executions, lanes in zip(self.kernel.blocks, self.executions, self.lanes, strict=True):
            if executions:
                yield from ((ins, int(executions), int(lanes)) for ins in _all(block))

    def by_line(self) -> dict[int, dict[str, int]]:
        """Per source line (0 if unknown): instructions by class, their active lanes, and memory counts."""
        out: dict[int, Counter[str]] = {}
        for ins, executions, lanes in self._issued():
            out.setdefault(ins.loc, Counter()).update(_instruction(ins, executions, lanes))
        for index, ins in enumerate(self.kernel.sites):
            if ins.name in _MEMORY:
                out.setdefault(ins.loc, Counter()).update(self._memory(index, ins))
        return {line: {k: v for k, v in row.items() if v} for line, row in sorted(out.items())}

    def _memory(self, index: int, ins: Instr) -> dict[str, int]:
        count = {name: int(values[index]) for name, values in self.records.items()}
        space = space_of_site(ins)
        row: dict[str, int] = {}
        if space in ("global", "copy"):
            row |= {
                "global_requests": count["requests"],
                "global_sectors": count["sectors"],
                "global_lines": count["lines"],
                "global_sectors_ideal": _ideal_sectors(ins, count),
            }
            loads = ins.name in _LOADS
            row["l1_hit_sectors"] = count["sectors"] - count["l1_misses"] if loads else 0
            row["l2_sectors"] = count["l1_misses"] if loads else count["sectors"]
            if ins.name in ("atom", "red"):
                row["global_atomics"] = count["lanes"]
        if space in ("shared", "copy"):
            row["shared_requests"] = count["requests"]
            row["shared_wavefronts"] = count["wavefronts"]
            row["shared_wavefronts_ideal"] = count["ideal"]
            row["bank_conflicts"] = count["wavefronts"] - count["ideal"]
        if ins.name in ("atom", "red"):
            row |= {"atomic_lanes": count["lanes"], "atomic_addresses": count["l1_misses"]}
        if space == "local":
            row |= {"local_requests": count["requests"], "local_sectors": count["sectors"]}
        return row

    def totals(self) -> dict[str, int]:
        """Sums over the launch. Instruction counts are per warp; `thread_instructions` counts active lanes."""
        out: Counter[str] = Counter()
        for ins, executions, lanes in self._issued():
            out.update(_instruction(ins, executions, lanes))
        for index, ins in enumerate(self.kernel.sites):
            if ins.name in _MEMORY:
                out.update(self._memory(index, ins))
        out["unique_read_bytes"] = 32 * self.unique_read_sectors
        out["unique_write_bytes"] = 32 * self.unique_write_sectors
        out["warps"] = self.warps
        return {name: int(value) for name, value in sorted(out.items())}


def _instruction(ins: Instr, executions: int, lanes: int) -> dict[str, int]:
    unit = unit_of(ins)
    row = {"warp_instructions": executions, "thread_instructions": lanes, f"{unit}_instructions": executions}
    if unit == "mma":
        row["mma_fma"] = executions * mma_fma(ins)
    if ins.name == "ex2":
        row["ex2"] = lanes * (2 if ins.mods[-1].endswith("x2") else 1)
    return row


def _ideal_sectors(ins: Instr, count: dict[str, int]) -> int:
    """The least number of sectors for as many lanes on distinct addresses: what adjacent lanes would touch."""
    size = access_bytes(ins)
    return max(count["requests"], -(-count["lanes"] * size // 32)) if size else count["sectors"]


def _all(block: Block) -> list[Instr]:
    """The instructions of a block that the hardware would issue."""
    code = [*block.code, block.end] if block.end is not None else block.code
    return [ins for ins in code if not (ins.name == "ld" and "param" in ins.mods)]
