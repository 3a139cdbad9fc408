"""Counters of a launch: executions per basic block, and per memory instruction its requests, sectors and wavefronts.

Instruction counts are the static mix of each block times its executions, so they cost nothing while a kernel runs.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evo.sim.abi import READ, REC, WRITTEN, WRITTEN_LATE
from evo.sim.counters_static import BlockCounts, spent_by
from evo.sim.lower.kernel import Kernel

UNUSED_SECTORS = 8  # at the end of a buffer's map of touched sectors
CHUNK = 16  # sectors side by side in one slice of L2, 512 bytes
_ALIKE = 0.1  # of the sectors of a half; below, blocks are neighbours that meet in one
_ANY_WRITTEN = np.uint64(0x0101010101010101 * (WRITTEN | WRITTEN_LATE))  # of eight sectors
_NONE = np.zeros(0, np.uint64)
_FEW_ROUNDS, _CHAINED = 32, 0.25  # a chain: so few turns fall into a round
COUNTED = ("requests", "lanes", "sectors", "lines", "passes", "wavefronts", "ideal", "l1_misses", "alone")


class Touched(NamedTuple):
    """Of a buffer: distinct sectors that were read and written, and all of it.

    early, late: written by the first and the second half of the blocks. chunks: groups of sectors that were written,
    each in one slice of L2.
    """

    read: int
    written: int
    sectors: int
    early: int
    late: int
    chunks: int

    @classmethod
    def of(cls, marks: NDArray[np.uint8]) -> Touched:
        """By the map of its sectors."""
        read, early, late = (int(np.count_nonzero(marks & mark)) for mark in (READ, WRITTEN, WRITTEN_LATE))
        written = int(np.count_nonzero(marks > READ)) if early and late else early + late
        # What does not fill a word at the end is beyond the buffer.
        words = marks[: marks.size // 8 * 8].view(np.uint64) & _ANY_WRITTEN if written else _NONE
        half = words.size // 2 * 2
        chunks = int(np.count_nonzero(words[:half:2] | words[1:half:2]) + np.count_nonzero(words[half:]))
        return cls(read, written, marks.size - UNUSED_SECTORS, early, late, chunks)

    def growth(self, share: float) -> float:
        """How many times as much all blocks write, if those that ran are this share of them, before it is all written.

        Two halves that write the same sectors by chance tell within how many they do (Lincoln and Petersen's estimate
        of a population). Where they share few, each block counts as one that writes sectors of its own.
        """
        again = self.early + self.late - self.written
        if again <= _ALIKE * min(self.early, self.late):
            return 1 / share
        reach = self.early * self.late / again
        unseen = max(0.0, 1 - self.written / reach)
        return max(1.0, reach / self.written * (1 - float(unseen ** (1 / share))))


@dataclass(frozen=True, slots=True)
class Turns:
    """Of blocks that took short turns, round by round, where one may wait for another.

    busy_turns: in which a block did more than wait. busy: what these spent. critical: what the longest one of each
    round spent, in all.
    """

    rounds: int
    busy_turns: int
    busy: int
    critical: int

    def side_by_side(self) -> float | None:
        """How many blocks work at a time; None if they are in no chain, or too few to tell.

        Blocks in a chain take a number of rounds that grows with theirs; a last block that finishes, or a barrier of
        all, takes a few more than one block alone.
        """
        if self.rounds < _FEW_ROUNDS or self.rounds < _CHAINED * self.busy_turns:
            return None
        return self.busy / max(1, self.critical)


class Counters:
    """Exact counts of one launch (of the blocks that ran)."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.warps = 0  # that ran
        self.heaviest = 0  # warp instructions of the block that took most; 0 if blocks waited for one another
        self.longest = 0  # ... and of the warp
        self.squares = 0  # ... the sum of the squares of all blocks; what is over 2^26 counts as that
        self.left = 0  # what sums by atomics, and results before they are rounded, have come to
        self.turns: Turns | None = None  # if blocks that may wait for one another took short ones
        self.records: dict[str, NDArray[np.int64]] = {n: np.zeros(len(kernel.sites), np.int64) for n in COUNTED}
        self.executions = np.zeros(len(kernel.blocks), np.int64)  # of each basic block, by warps
        self.lanes = np.zeros(len(kernel.blocks), np.int64)
        self.touched: list[Touched] = []  # of each buffer

    def fill(self, records: NDArray[np.int64], blocks: NDArray[np.int64], touched: list[NDArray[np.uint8]]) -> None:
        """Take over the arrays of a finished launch."""
        for name in COUNTED:
            self.records[name] = records[:, REC[name] // 8].copy()
        self.executions, self.lanes = blocks[:, 0].copy(), blocks[:, 1].copy()
        self.touched = [Touched.of(marks) for marks in touched]
        for site, block in self.kernel.uniform_sites.items():
            if block >= 0:
                self.records["requests"][site] = self.executions[block]
                self.records["lanes"][site] = self.lanes[block]
            for name in ("sectors", "lines", "passes"):
                self.records[name][site] = self.records["requests"][site]

    def imbalance(self, blocks: int) -> tuple[float, float, float]:
        """The work of the heaviest of so many blocks over that of an average one; of the longest warp likewise; and the
        standard deviation of a block's work over its mean.

        In what they spend of the budget, mostly warp instructions; the first two at least 1.
        """
        work = 0
        for block, executions, lanes in zip(self.kernel.blocks, self.executions, self.lanes, strict=True):
            by_warp, by_lane = spent_by(block)
            work += by_warp * int(executions) + by_lane * int(lanes)
        if not work:
            return 1.0, 1.0, 0.0
        scatter = math.sqrt(max(0.0, blocks * self.squares / work**2 - 1)) if self.heaviest else 0.0
        return max(1.0, self.heaviest * blocks / work), max(1.0, self.longest * self.warps / work), scatter

    def reached(self, share: float) -> dict[str, float]:
        """Bytes that all blocks read and write at least once, and chunks of L2 that they write, if this share ran.

        Each block counts as one that reads sectors of its own, until a buffer has no more.
        """
        read = sum(min(row.read / share, row.sectors) for row in self.touched)
        grown = [(row, row.growth(share)) for row in self.touched]
        written = sum(min(row.written * times, row.sectors) for row, times in grown)
        chunks = sum(min(row.chunks * times, -(-row.sectors // CHUNK)) for row, times in grown)
        return {
            "reached_read_bytes": 32.0 * read,
            "reached_write_bytes": 32.0 * written,
            "write_chunks": float(chunks),
        }

    @property
    def _tally(self) -> BlockCounts:
        if self.kernel.tally is None:
            self.kernel.tally = BlockCounts(self.kernel.blocks, self.kernel.sites)
        return self.kernel.tally

    def by_line(self) -> dict[int, dict[str, int]]:
        """Per source line (0 if unknown): instructions by class, their active lanes, and memory counts."""
        out: dict[int, Counter[str]] = {line: Counter() for line in self._tally.lines}
        for (_, lines), executions, lanes in zip(self._tally.blocks, self.executions, self.lanes, strict=True):
            if executions:
                for line, mix in lines.items():
                    mix.add_to(out.setdefault(line, Counter()), int(executions), int(lanes))
        for name, (counted, values) in self._tally.memory(self.records).items():
            for place in np.flatnonzero(counted & (values != 0)):
                out[self._tally.lines[place]][name] += int(values[place])
        return {line: {k: v for k, v in row.items() if v} for line, row in sorted(out.items())}

    def totals(self) -> dict[str, int]:
        """Sums over the launch. Instruction counts are per warp; `thread_instructions` counts active lanes."""
        tally = self._tally
        sums = self.executions @ tally.by_warp + self.lanes @ tally.by_lane
        ran = np.flatnonzero(tally.has[self.executions > 0].any(axis=0))
        out: Counter[str] = Counter({tally.names[place]: int(sums[place]) for place in ran})
        for name, (counted, values) in tally.memory(self.records).items():
            if counted.any():
                out[name] += int(values[counted].sum())
        out["unique_read_bytes"] = 32 * sum(row.read for row in self.touched)
        out["unique_write_bytes"] = 32 * sum(row.written for row in self.touched)
        out["warps"] = self.warps
        return {name: int(value) for name, value in sorted(out.items())}
