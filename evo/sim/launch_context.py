"""The structures of one launch in host memory, as abi.py describes them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evo.sim import abi, page_pool
from evo.sim.abi import CTX, REC, REC_SIZE, ROW, WARP
from evo.sim.counters import COUNTED, UNUSED_SECTORS, Counters, Turns
from evo.sim.lower.kernel import BLOCK_COUNTER, Kernel, comparisons_at
from evo.sim.lower.kernel_traits import is_strong
from evo.sim.lower.looks import Look
from evo.sim.lower.probes import LOG_BLOCK, LOG_LEFT, LOG_SIZE
from evo.sim.memory import SLACK, SimBuffer
from evo.sim.printing import printed
from evo.sim.timing_model import occupancy
from evo.spec.chips import Chip

_PAD = 4096
_IDLE_LIMIT = 4096  # yields in which nothing changed, before a launch counts as waiting for ever
_UNCACHED = frozenset(("cg", "cv", "shared", "shared::cta", "local", "param", "const"))
_RESIDENT_BYTES = 1 << 30  # of all blocks under way; untouched pages cost nothing


class LaunchContext:
    """Owns every array that generated code touches during one launch."""

    def __init__(
        self,
        kernel: Kernel,
        chip: Chip,
        buffers: Sequence[SimBuffer],
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        ids: NDArray[np.int64],
        params: NDArray[np.uint8],
        *,
        shared: int,
        dynamic: int,
        local: int,
        race: bool,
        budgets: tuple[int, int],
        backwards: bool = False,
        fair: bool = False,
        registers: int = 32,
        ticket: NDArray[np.uint8] | None = None,
    ) -> None:
        """budgets: warp instructions of the launch, and of a block (0: any number; blocks that take turns share those).
        ticket: for one part of a launch, whose parts draw their blocks from it; they share nothing else but it and
        the bytes of buffers.
        """
        self.kernel, self.grid, self.registers = kernel, grid, registers
        self.buffers = sorted(buffers, key=lambda buffer: buffer.address)  # as an access looks for one among them
        self.shared, self.dynamic, self.in_turns = shared, dynamic, kernel.waits or (backwards and not kernel.parallel)
        self.cpu_s: tuple[float, ...] = ()  # of each thread that ran generated code
        self.private = ticket is not None
        self.taken: list[NDArray[np.uint8]] = []
        self.raw = self._bytes(abi.CTX_SIZE)
        self.fields = self.raw.view(np.int64)
        self.between = kernel.global_granule if race or self.private else 0
        self.kept: dict[str, NDArray[np.uint8]] = {}
        self.shadows: dict[int, tuple[NDArray[np.uint64], NDArray[np.uint64]]] = {}
        self.states: dict[int, NDArray[np.uint8]] = {}
        self.strides, self.under_way = dict[str, int](), 1  # blocks at a time
        threads = block[0] * block[1] * block[2]
        warps = self.warps = -(-threads // 32)
        granule, sets = kernel.granule if race else 0, self._tags(chip, threads)
        self._rows()
        self._records()
        self._memories(self._sizes(shared, local * warps * 32 + 64, granule, warps, sets), chip, threads, ids.size)
        self._params(params)
        self._warps(kernel, block, threads, warps)
        self._list_blocks(ids, ticket)
        self._scalars(kernel, block, grid)
        self.set_fields(
            budget=budgets[0],
            block_budget=budgets[1] if self.under_way == 1 else 0,
            warp_count=warps,
            threads=threads,
            local_size=local,
            race=granule,
            idle_limit=_IDLE_LIMIT + abi.IDLE_PER_WARP * warps,
            backwards=int(backwards),
        )
        if self.under_way > 1:
            self._table(fair)

    def _params(self, params: NDArray[np.uint8]) -> None:
        self._array("params", params.size + 256)[: params.size] = params
        self.set_field("param_size", params.size)

    def _memories(self, sizes: dict[str, int], chip: Chip, threads: int, blocks: int) -> None:
        """Arrays of one block, and how many blocks may be under way with arrays of their own."""
        self.under_way = self._residents(chip, threads, blocks, sum(sizes.values()))
        for name, size in sizes.items():
            self._array(name, size, _PAD // 2 if name in ("shared", "state") else 0, clear=name != "queue")
        if "newest" in sizes:
            self.set_field("reader_stride", sizes["newest"])
        self._array("faults", abi.FAULT_LIMIT * abi.FAULT_SIZE)
        if self.kernel.prints:
            self._array("prints", (abi.PRINT_LIMIT + 1) * abi.PRINT_SIZE)

    def _tags(self, chip: Chip, threads: int) -> int:
        """Sets of the L1 model of one block: what shared memory leaves of L1, shared by the blocks of an SM alike.

        Sets are a power of two; three ways instead of four come closer to what lies between two of these.
        """
        blocks = min(occupancy(chip, threads, self.registers, self.shared), -(-math.prod(self.grid) // chip.sms))
        left = max(16 * 1024, chip.l1_bytes - blocks * (self.shared + chip.shared_reserved_per_block)) // blocks
        most = abi.L1_WAYS
        found = [(max(8, 1 << (left // (128 * ways)).bit_length() - 1), ways) for ways in (most - 1, most)]
        sets, ways = max(found, key=math.prod)
        self.set_fields(tag_sets=sets, tag_ways=ways)
        return sets

    def _list_blocks(self, ids: NDArray[np.int64], ticket: NDArray[np.uint8] | None) -> None:
        """The blocks to run, and the number of the next one, which the parts of a launch share."""
        self.kept["block_ids"] = np.ascontiguousarray(ids).view(np.uint8)
        self.set_field("block_ids", self.kept["block_ids"].ctypes.data)
        self.kept["next_block"] = self._bytes(64) if ticket is None else ticket
        self.set_field("next_block", self.kept["next_block"].ctypes.data)
        self._array("releases", 8 * ids.size)
        warps = ids.size * self.warps
        if self.kernel.fences and self.between and warps <= abi.MOST_KNOWN:
            stride = (2 * warps + 63) // 64 * 64
            rows = max(abi.FLAGS, 1 << (abi.FLAG_BYTES // (stride + abi.FLAG_HEAD_SIZE)).bit_length() - 1)
            self._array("known", 2 * stride * warps)
            self._array("known_flags", (stride + abi.FLAG_HEAD_SIZE) * rows)
            self._array("voices", abi.VOICE_SIZE * warps)
            self.set_fields(known_rows=rows, known_stride=stride)
        self.set_fields(blocks=ids.size, oldest=ids.size)

    def _residents(self, chip: Chip, threads: int, blocks: int, size: int) -> int:
        """Blocks that are under way together: as many as the chip holds, if they may meet."""
        if self.private or not self.in_turns:
            return 1
        held = chip.sms * occupancy(chip, threads, self.registers, self.shared)
        return max(1, min(held, blocks, _RESIDENT_BYTES // size))

    def _table(self, fair: bool) -> None:
        """A row for each block under way: where its arrays are."""
        self.set_field("fair", int(fair))
        table = self._array("residents", abi.RESIDENT_SIZE * (self.under_way + 1)).view(np.int64)
        rows = table[: abi.RESIDENT_SIZE // 8 * (self.under_way + 1)].reshape(self.under_way + 1, -1)
        first = abi.BLOCK_AT // 8
        rows[:, : abi.BLOCK_SIZE // 8] = self.fields[first : first + abi.BLOCK_SIZE // 8]
        steps = np.arange(self.under_way + 1)
        for name, stride in self.strides.items():
            rows[:, CTX[name] // 8 - first] += stride * steps
        self.set_field("resident_count", self.under_way)

    def _scalars(self, kernel: Kernel, block: tuple[int, int, int], grid: tuple[int, int, int]) -> None:
        for axis, threads, blocks in zip("xyz", block, grid, strict=True):
            self.set_fields(**{f"ntid_{axis}": threads, f"nctaid_{axis}": blocks})
        self.set_fields(
            shared_size=self.shared,
            shared_clear=self.shared // 4 + 65,
            warp_stride=kernel.warp_stride,
            dynamic_shared=self.dynamic,
            queue_size=abi.QUEUE_LENGTH,
            granule=self.between,
            template=self.field("warps"),
        )

    @property
    def address(self) -> int:
        return int(self.raw.ctypes.data)

    def field(self, name: str) -> int:
        return int(self.fields[CTX[name] // 8])

    def absorb(self, other: LaunchContext) -> None:
        """Add what another part of the same launch counted and initialised."""
        columns = [REC[name] // 8 for name in COUNTED]
        self.records[:, columns] += other.records[:, columns]
        self.block_counts += other.block_counts
        self.probe_counts += other.probe_counts
        later = other.last_blocks > self.last_blocks  # as in one thread, whichever part ran which block
        self.comparisons[later] = other.comparisons[later]
        for index, theirs in enumerate(other.touched):
            self.touched[index] |= theirs
        for index, state in other.states.items():
            self.states[index] |= state
        left = np.int64(self.field("left")) + np.int64(other.field("left"))
        sums = {name: self.field(name) + other.field(name) for name in ("blocks_done", "squares")}
        self.set_fields(left=int(left), **sums)
        for name in ("heaviest", "longest"):
            self.set_field(name, max(self.field(name), other.field(name)))

    @property
    def last_blocks(self) -> NDArray[np.uint32]:
        """Of each comparison, the number in the list of the block that logged it last, from 1; 0 if none did."""
        return self.comparisons[:, LOG_BLOCK:LOG_LEFT].view(np.uint32)[:, 0]

    def publish_states(self) -> None:
        """Give the buffers the initialised bits of a private context."""
        for index, state in self.states.items():
            self.buffers[index].state = state

    def set_field(self, name: str, value: int) -> None:
        self.fields[CTX[name] // 8] = value

    def set_fields(self, **values: int) -> None:
        for name, value in values.items():
            self.set_field(name, value)

    def _bytes(self, size: int, *, clear: bool = True) -> NDArray[np.uint8]:
        data = page_pool.take(size, clear=clear)
        self.taken.append(data)
        return data

    def release(self) -> None:
        """Give the memory back. Nothing of this context may be used afterwards, but for published states."""
        for data in self.taken:
            page_pool.give_back(data)
        self.taken = []

    def _array(self, name: str, size: int, lead: int = 0, *, clear: bool = True) -> NDArray[np.uint8]:
        """An array that a field points to; of what belongs to a block, one piece for each that is under way."""
        size = max(64, size)
        if name in abi.OF_BLOCK and self.under_way > 1:
            self.strides[name] = (size + 63) // 64 * 64
            size = self.strides[name] * self.under_way
        data = self._bytes(size, clear=clear)
        self.kept[name] = data
        self.set_field(name, data.ctypes.data + lead)
        return data

    def _sizes(self, shared: int, local: int, granule: int, warps: int, sets: int) -> dict[str, int]:
        """Bytes of every array that belongs to one block."""
        sizes = {
            "shared": shared + 2 * _PAD,
            "state": shared + 2 * _PAD,
            "clocks": 4 * abi.MAX_WARPS**2,
            "told": 4 * abi.MAX_WARPS**2,
            "flags": abi.FLAGS * abi.FLAG_SIZE if self.kernel.fences else 0,
            "clock_base": 4 * abi.MAX_WARPS,
            "barriers": abi.BARRIERS * 256,
            "local": local,
            "local_state": local,
            "tags": 128 * sets,
            "warps": self.kernel.warp_stride * warps,
        }
        if granule:
            # Who wrote each granule of shared memory last, when each warp has read it, and the newest of these times.
            granules = shared // granule + 32
            sizes |= {"writer": 8 * granules, "reader": 4 * granules * warps, "newest": 4 * granules}
            if self.kernel.strikes:  # the newest atomic, then that of each warp
                sizes["struck"] = 4 * granules * (warps + 1)
        if self.kernel.copies:
            sizes["queue"] = warps * abi.QUEUE_LENGTH * abi.QUEUE_ENTRY
        if self.kernel.mbarriers:
            sizes["mbarriers"] = (shared // 8 + 2) * abi.MB_CLOCKS
            sizes["copies"] = abi.COPY_LENGTH * abi.COPY_SIZE
        return sizes

    def _rows(self) -> None:
        table = self._array("buffers", abi.ROW_SIZE * max(1, len(self.buffers))).view(np.int64)
        self.touched = []
        for index, buffer in enumerate(self.buffers):
            sectors = ((buffer.address & 31) + buffer.size_bytes) // 32 + UNUSED_SECTORS
            touched = self._bytes(sectors)
            self.touched.append(touched)
            at = index * abi.ROW_SIZE // 8
            flags = (abi.WRITABLE if buffer.writable else 0) | (abi.TRACKED if buffer.state is not None else 0)
            values = {
                "low": buffer.address,
                "size": buffer.size_bytes,
                "delta": buffer.data.ctypes.data + SLACK - buffer.address,
                "flags": flags,
                "touched": touched.ctypes.data,
                "state": self._state(index, buffer),
            }
            values |= self._shadow(index, buffer)
            for name, value in values.items():
                table[at + ROW[name] // 8] = value
        self.set_field("buffer_count", len(self.buffers))

    def _state(self, index: int, buffer: SimBuffer) -> int:
        """Where the initialised bits of a buffer are; 0 if all of it is defined."""
        if buffer.state is None:
            return 0
        self.states[index] = buffer.state.copy() if self.private else buffer.state
        return int(self.states[index].ctypes.data)

    def _shadow(self, index: int, buffer: SimBuffer) -> dict[str, int]:
        """Who wrote and who read each granule of a buffer; untouched pages of these arrays cost nothing."""
        if not self.between or not buffer.writable:
            return {}
        granules = (buffer.size_bytes + buffer.address % self.between) // self.between + 33
        pair = self._bytes(8 * granules).view(np.uint64), self._bytes(8 * granules).view(np.uint64)
        self.shadows[index] = pair
        return {"writers": pair[0].ctypes.data, "readers": pair[1].ctypes.data}

    def _records(self) -> None:
        sites = len(self.kernel.sites)
        size = sites * REC_SIZE + len(self.kernel.blocks) * BLOCK_COUNTER
        logs = comparisons_at(size, self.kernel.probe_counts)
        end = logs + self.kernel.comparison_logs * LOG_SIZE
        data = self._array("counters", end + 64)
        self.probe_counts = data[size : size + 8 * self.kernel.probe_counts].view(np.int64)
        self.comparisons = data[logs:end].reshape(-1, LOG_SIZE)
        self.records = data[: sites * REC_SIZE].view(np.int64).reshape(sites, REC_SIZE // 8)
        start = sites * REC_SIZE
        self.block_counts = data[start:size].view(np.int64).reshape(-1, 2)
        marked = self.kernel.marked
        if self.shared not in marked:
            marked[self.shared] = _marks(self.kernel, self.shared)
        self.records[:, (REC["strong"] // 8, REC["marks"] // 8)] = marked[self.shared]

    def _warps(self, kernel: Kernel, block: tuple[int, int, int], threads: int, warps: int) -> None:
        stride = kernel.warp_stride
        data = self.kept["warps"]
        linear = np.arange(warps * 32)
        tid = (linear % block[0], linear // block[0] % block[1], linear // (block[0] * block[1]))
        for index in range(warps):
            row = data[index * stride : (index + 1) * stride]
            words = row[: abi.WARP_TID].view(np.int64)
            words[WARP["index"] // 8] = index
            live = min(32, threads - 32 * index)
            words[WARP["frame"] // 8] = (1 << live) - 1
            lanes = row[abi.WARP_TID : abi.WARP_TID + 384].view(np.int32).reshape(3, 32)
            for axis in range(3):
                lanes[axis] = tid[axis][32 * index : 32 * index + 32]

    def text(self) -> str:
        """What the kernel printed."""
        count = self.field("print_count")
        return printed(self.kept["prints"], count, self.buffers) if count else ""

    def collect(self, counters: Counters) -> None:
        """Copy what was counted."""
        counters.warps = self.field("blocks_done") * self.field("warp_count")
        counters.heaviest, counters.longest = self.field("heaviest"), self.field("longest")
        counters.left, counters.squares = self.field("left"), self.field("squares")
        turns = Turns(*(self.field(name) for name in ("rounds", "busy_turns", "busy", "critical")))
        counters.turns = turns if self.field("fair") else None
        counters.fill(self.records, self.block_counts, self.touched)


def _marks(kernel: Kernel, shared: int) -> NDArray[np.int64]:
    """Of each site of a kernel, with so many bytes of shared memory: what its record says from the start."""
    polls, looks = kernel.polls, kernel.looks
    found = np.zeros((len(kernel.sites), 2), np.int64)
    for number, ins in enumerate(kernel.sites):
        marks, strong = 0, is_strong(ins)
        if ins.name == "ld":
            marks = abi.READ_ONLY_LOAD * ("nc" in ins.mods) | abi.TAKES_VALUE * (looks.get(number) is Look.TAKES)
            marks |= abi.MOVES_ONLY * (looks.get(number) is Look.MOVES)
            marks |= abi.POLLING_LOAD * (number in polls and strong)
            marks |= abi.CACHED_LOAD * (not strong and not _UNCACHED & set(ins.mods))
        elif ins.name.startswith("wmma"):
            marks = abi.ANY_LANE
        elif ins.name in ("atom", "red") and "cta" in ins.mods:
            marks = abi.BLOCK_SCOPE
        array = kernel.arrays.get(number)
        start, end = (array.start, array.end or shared) if array else (0, shared)
        marks |= abi.IN_LOCAL * (array is not None and array.space == "local")
        marks |= start << abi.ARRAY_START | end << abi.ARRAY_END
        found[number] = ((3 if number in polls else 1) if strong else int(looks.get(number) is Look.PEEKS)), marks
    return found
