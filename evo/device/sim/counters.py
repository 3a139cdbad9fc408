"""What a launch counted: executions per basic block, and per memory instruction its requests, sectors and wavefronts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evo.device.sim.isa.table import TABLE
from evo.device.sim.layout import REC
from evo.device.sim.program import WIDTH, Function, Instr, Vec

if TYPE_CHECKING:
    from evo.device.sim.flow import Kernel

_COUNTED = ("requests", "lanes", "sectors", "lines", "wavefronts", "ideal", "l1_misses")


def unit_of(ins: Instr) -> str:
    """The pipe an instruction occupies: fp, int, sfu, mma, fp64, half, shuffle, mem, barrier, branch, mov."""
    unit = TABLE[ins.name].unit if ins.name in TABLE else "int"
    kind = ins.mods[-1] if ins.mods else ""
    if unit in ("alu", "fp"):
        if kind == "f64":
            return "fp64"
        if ins.name == "div" and kind in ("f32", "f64"):
            return "sfu"
        return "fp" if kind in ("f32", "f16", "f16x2", "bf16", "bf16x2") and ins.name not in ("selp", "setp") else "int"
    return unit


class Counters:
    """Exact counts of one launch (of the blocks that ran)."""

    def __init__(self, kernel: Kernel, function: Function) -> None:
        self.kernel, self.function = kernel, function
        self.records: dict[str, NDArray[np.int64]] = {n: np.zeros(len(kernel.sites), np.int64) for n in _COUNTED}
        self.executions = np.zeros(len(kernel.blocks), np.int64)
        self.lanes = np.zeros(len(kernel.blocks), np.int64)
        self.unique_read_sectors = 0
        self.unique_write_sectors = 0

    def fill(self, records: NDArray[np.int64], blocks: NDArray[np.int64], touched: list[NDArray[np.uint8]]) -> None:
        for name in _COUNTED:
            self.records[name] = records[:, REC[name] // 8].copy()
        self.executions, self.lanes = blocks[:, 0].copy(), blocks[:, 1].copy()
        self.unique_read_sectors = int(sum(np.count_nonzero(t & 1) for t in touched))
        self.unique_write_sectors = int(sum(np.count_nonzero(t & 2) for t in touched))
        self._uniform_loads()

    def _uniform_loads(self) -> None:
        """Loads with one address per warp are not counted as they run: the block's executions say it all."""
        for site, (_, index, _) in enumerate(self._sites()):
            if index in getattr(self.kernel.code, "uniform_sites", set()):
                del site

    def _sites(self) -> list[tuple[int, int, Instr]]:
        return [(0, index, ins) for index, ins in enumerate(self.kernel.sites)]

    def by_instruction(self) -> list[dict[str, Any]]:
        """Per memory or synchronisation instruction: PTX line, source line, spelling and its counts."""
        out = []
        for index, ins in enumerate(self.kernel.sites):
            row: dict[str, Any] = {"ptx_line": ins.line, "source_line": ins.loc, "instruction": ins.spelling}
            row |= {name: int(values[index]) for name, values in self.records.items()}
            out.append(row)
        return out


__all__ = ["Counters", "Vec", "WIDTH"]
