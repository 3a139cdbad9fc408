"""Running a kernel without its data (`rehearsal`) at many sizes: which outcomes its conditions have at each."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from evo.sim import jit
from evo.sim.bit_arithmetic import bits_of
from evo.sim.memory import Memory
from evo.sim.module import Module
from evo.sim.ptx.ast import WIDTH
from evo.sim.rehearsal import HEAD, RUN, rehearsal_of
from evo.sim.translate import translate
from evo.spec.chips import Chip

Bytes = NDArray[np.uint8]
Parameters = Mapping[int, NDArray[np.generic]]
_FIRST, _GROWTH, _MOST = 16, 4, 1 << 14  # sizes of one launch: of the first, over those of the last, at most
_FAULTS = 40  # sizes that may end in a fault, before the rest counts as not known
_BUDGET = 2_000_000_000  # warp instructions of a launch
_SEEDS = (0x9E3779B9, 0x1F123BB5)  # of what is drawn in the first block of a launch, and in its last


class RehearsedKernel:
    """A rehearsal of a kernel that has one. Raises PtxError for what cannot be executed."""

    def __init__(self, ptx: str, kernel: str, pointers: frozenset[int], chip: Chip, threads: int) -> None:
        rehearsal = rehearsal_of(ptx, kernel, pointers)
        if rehearsal is None:
            raise ValueError(f"{kernel} decides nothing that has to be rehearsed")
        self.rehearsal, self._threads = rehearsal, threads
        self.module = Module(translate(rehearsal.module), "", chip, 1, jit.cache_of(None))
        most = chip.shared_per_block_optin if rehearsal.keeps_memory else 0  # whatever a size asks for
        self.shared_bytes = max(0, most - self.module.static_shared_bytes(kernel))

    def outcomes(
        self,
        parameters: Parameters,
        grid: NDArray[np.int64],
        block: NDArray[np.int64],
        seconds: float,
        wanted: tuple[int, bool, int] | None = None,
    ) -> Bytes:
        """Of each size and each point, as bits: 1 if it was true or not zero somewhere, 2 if not, and 4 if it was run.

        The first and the last block of a launch stand for all. What is not reached in so many seconds is not run,
        nor is what would be run when so many sizes as are wanted have that outcome of that point.
        """
        found = np.zeros((grid.shape[1], len(self.rehearsal.points)), np.uint8)
        shapes, which = np.unique(block, axis=1, return_inverse=True)
        begun = time.monotonic()
        for number, shape in enumerate(shapes.T.tolist()):
            places = np.flatnonzero(which.reshape(-1) == number)
            table = self._table(parameters, grid, places)
            left_s = seconds - (time.monotonic() - begun)
            found[places] = self._told(table, (shape[0], shape[1], shape[2]), left_s, wanted)
            if _is_enough(found, wanted):
                break
        return found

    def _told(
        self, table: Bytes, block: tuple[int, int, int], seconds: float, wanted: tuple[int, bool, int] | None
    ) -> Bytes:
        """The outcomes at the sizes of a table, as far as there is time for them and they are wanted."""
        found = np.zeros((len(table), len(self.rehearsal.points)), np.uint8)
        begun = time.monotonic()
        at, faults, count = 0, 0, _FIRST
        while at < len(table) and faults <= _FAULTS:
            part = table[at : at + count]
            done, outcomes = self._run(part, block)
            found[at : at + len(outcomes)] = outcomes | RUN
            faults += done < len(part)
            at += max(1, done)
            spent = time.monotonic() - begun
            if spent > seconds or _is_enough(found, wanted):
                break
            count = max(1, min(_GROWTH * count, int((seconds - spent) / 2 * at / spent), _MOST))
        return found

    def _run(self, table: Bytes, block: tuple[int, int, int]) -> tuple[int, Bytes]:
        """How many sizes were run, and the outcomes of those and of the one that ended in a fault."""
        count, points = len(table), len(self.rehearsal.points)
        memory = Memory()
        rows = memory.allocate(table.nbytes, "sizes", writable=False, fill=b"\0")
        memory.write(rows, table)
        out = memory.allocate(2 * count * 2 * points, "outcomes", fill=b"\0")
        result = self.module.launch(
            self.rehearsal.kernel,
            grid=(2 * count,),
            block=block,
            args=(rows, out),
            memory=memory,
            shared_bytes=self.shared_bytes,
            race=False,
            budget=_BUDGET,
            threads=self._threads,
        )
        told: NDArray[np.bool_] = np.any(out.bytes.reshape(count, 2, points, 2), axis=1)
        done = min(result.blocks_run // 2, count - 1) if result.faults else count
        return done, (told[: done + 1, :, 0] + 2 * told[: done + 1, :, 1]).astype(np.uint8)

    def _table(self, parameters: Parameters, grid: NDArray[np.int64], places: NDArray[np.intp]) -> Bytes:
        """Of each size two rows, for the first block of its launch and for the last one."""
        rehearsal = self.rehearsal
        table = np.zeros((len(places), 2, rehearsal.row_bytes), np.uint8)

        def put(at: int, values: NDArray[np.generic], width: int, turns: tuple[int, ...] = (0, 1)) -> None:
            raw = np.ascontiguousarray(np.broadcast_to(values, (len(places),))).view(np.uint8)
            for turn in turns:
                table[:, turn, at : at + width] = raw.reshape(len(places), -1)[:, :width]

        for turn, seed in enumerate(_SEEDS):
            put(HEAD["seed"], np.asarray(seed, np.uint32), 4, (turn,))
        for axis, row in zip("xyz", grid[:, places], strict=True):
            put(HEAD[f"nctaid.{axis}"], row.astype(np.uint32), 4)
            put(HEAD[f"ctaid.{axis}"], (row - 1).astype(np.uint32), 4, (1,))
        for number, param in enumerate(rehearsal.params):
            if number in parameters and param.type in WIDTH:
                values = np.asarray(parameters[number])
                values = values[places] if values.size > 1 else values.reshape(-1)
                put(rehearsal.offsets[param.name], bits_of(values, param.type), param.size)
        return table


def _is_enough(found: Bytes, wanted: tuple[int, bool, int] | None) -> bool:
    if wanted is None:
        return False
    point, outcome, count = wanted
    return int(np.count_nonzero(found[:, point] & (1 if outcome else 2))) >= count
