"""One execution of a program on the simulator: its memory, its launches, and what they wrote and counted."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from evo import sim
from evo.device import Array, Arrays, BoundLaunch, Buffer, LaunchCounters, RunRequest
from evo.results import Fault
from evo.sim.memory import touched
from evo.spec.dtypes import NUMPY
from evo.spec.launch import Launch
from evo.spec.shared_arrays import place_of

SECOND_LOOK = 200_000_000  # warp instructions
_SIDE_BY_SIDE = 64  # blocks, the first ones, that show whether they wait in a chain
THREADS = min(os.cpu_count() or 1, 8)  # blocks in parallel; results and counts are those of one thread
_BESIDE = 4  # one in so many of them is a neighbour of another, for races between the two
_PART = 1 << 22  # words
_NOWHERE = np.zeros(0, np.int64)
_OTHER_BASE = 0x7F5A_2C00_0000


class Execution:
    """One execution of a program in a memory of its own."""

    def __init__(self, module: sim.Module, request: RunRequest, *, fair: bool = False) -> None:
        self.module, self.request, self.fair = module, request, fair
        self.program = request.program
        # A second look has other addresses, such as a GPU's: no result may depend on them.
        self.memory = sim.Memory(_OTHER_BASE) if request.offset_bytes else sim.Memory()
        self.buffers: dict[str, sim.SimBuffer] = {}
        self.totals: dict[str, int] = {}
        self.results: list[sim.LaunchResult] = []
        self.launches: list[LaunchCounters] = []
        self.footprint_bytes = 0
        self.last = self.program.launches[-1]
        self.before: dict[str, int] = {}  # words of the outputs that launches before the last one wrote
        changed = {output.name for output in self.program.outputs if output.init == "input"}
        for name, array in request.inputs.items():
            if name in request.filled:
                pattern = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
                self._allocate(name, request.filled[name], writable=name in changed, fill=pattern)
                continue
            self._allocate(name, array.nbytes, writable=name in changed, file=place_of(array))
            if self.buffers[name].state is not None:
                self.memory.write(self.buffers[name], array)
        for output in self.program.outputs:
            if output.init == "input":
                continue
            zero = output.init == "zero"
            self._allocate(output.name, output.size_bytes, writable=True, fill=b"\0" if zero else None)
        for space in self.program.scratch:
            self._allocate(space.name, space.size_bytes, writable=True, fill=b"\0" if space.init == "zero" else None)

    def _allocate(
        self,
        name: str,
        size: int,
        *,
        writable: bool,
        fill: bytes | NDArray[np.uint8] | None = None,
        file: str | None = None,
    ) -> None:
        """Memory that a kernel must write before it reads has contents of its own; to read them stays a fault."""
        self.footprint_bytes += size
        self.buffers[name] = self.memory.allocate(
            size,
            name=name,
            offset=self.request.offset_bytes + self.request.shifted.get(name, 0),
            writable=writable,
            fill=fill,
            poison=self.request.poison,
            file=file,
        )

    def execute(self) -> tuple[Fault, ...]:
        first = SECOND_LOOK if self.request.draw is not None else SECOND_LOOK // 4
        for bound in self.program.launches:
            launch = bound.launch
            if bound is self.last:
                self.before = {output.name: self._words(output) for output in self.program.outputs}
            in_full = self.request.blocks is not None and self.request.first_whole and bound is not self.last
            blocks = None if in_full else sample_of(launch, self.request.blocks, self.request.draw)
            if self.fair and self.module.waits(launch.kernel):
                blocks = range(min(launch.blocks, _SIDE_BY_SIDE))
            if self.request.backwards:
                blocks = self._backwards(launch) if blocks is None else self._shuffled(launch, blocks)
            budget = self.request.budget or (first if in_full else None)
            result = self._launch(bound, blocks, race=self.request.check_races, budget=budget)
            self.results.append(result)
            counted = LaunchCounters(
                kernel=launch.kernel,
                totals=result.counters.totals(),
                by_line=result.counters.by_line() if self.request.lines else {},
                blocks_run=result.blocks_run,
                blocks_total=result.blocks_total,
            )
            self.launches.append(counted)
            add(self.totals, counted.totals)
            if result.faults:
                return tuple(result.faults)
            if result.blocks_run < result.blocks_total and bound is not self.last:
                # Blocks that were left out write what the next launch reads.
                for name in (*(s.name for s in self.program.scratch), *(o.name for o in self.program.outputs)):
                    self.buffers[name].state = None
        return ()

    def _backwards(self, launch: Launch) -> list[int]:
        """Falling order; of blocks that wait for others, within as many as are under way together on any chip."""
        together = self.module.chip.sms if self.module.waits(launch.kernel) else launch.blocks
        starts = range(0, launch.blocks, together)
        return [block for first in starts for block in reversed(range(first, min(first + together, launch.blocks)))]

    def _shuffled(self, launch: Launch, blocks: Sequence[int]) -> Sequence[int]:
        """A sample in an order that its draw tells; blocks that wait for others start in rising order."""
        if self.module.waits(launch.kernel):
            return blocks
        order = np.random.default_rng(self.request.draw).permutation(len(blocks))
        return [blocks[at] for at in order]

    def _launch(
        self, bound: BoundLaunch, blocks: Sequence[int] | None, *, race: bool, budget: int | None
    ) -> sim.LaunchResult:
        return self.module.launch(
            bound.launch.kernel,
            grid=bound.launch.grid,
            block=bound.launch.block,
            shared_bytes=bound.launch.shared_bytes,
            args=[self._value(bound, index) for index in range(len(bound.arguments))],
            memory=self.memory,
            blocks=blocks,
            race=race,
            budget=budget,
            backwards=self.request.backwards,
            fair=self.fair or self.request.backwards,
            registers=next(r.registers for r in self.program.binary.kernels if r.name == bound.launch.kernel),
            threads=1 if self.request.filled else THREADS,  # each thread has a copy of the account of a buffer
        )

    def alone(self, output: Buffer, count: int) -> list[int]:
        """Words of an output that each of so many blocks of the last launch writes; none if one of them faults."""
        launch, counts = self.last.launch, []
        for block in sample_of(launch, count, self.request.draw) or range(launch.blocks):
            state = self.buffers[output.name].state
            if state is None:
                return []
            state[:] = 0
            result = self._launch(self.last, [block], race=False, budget=SECOND_LOOK)
            if result.faults:
                return []
            counts.append(self._words(output))
        return counts

    def without_a_byte(self) -> list[str]:
        """Outputs that no block wrote to."""
        states = {output.name: self.buffers[output.name].state for output in self.program.outputs}
        return [name for name, state in states.items() if state is not None and not state.any()]

    def written(self, output: Buffer) -> NDArray[np.int64]:
        """Flat indices of the elements of an output that hold a written byte."""
        buffer, size = self.buffers[output.name], NUMPY[output.dtype].itemsize
        count = buffer.size_bytes // size
        if buffer.state is None:
            return np.arange(count, dtype=np.int64)
        words = _written_words(buffer.state)
        if size >= 4:
            found = words // (size // 4)
        else:
            bits = np.unpackbits(buffer.state[words][:, None], axis=1, bitorder="little")[:, :4]
            which, part = np.nonzero(bits.reshape(len(words), 4 // size, size).any(axis=2))
            found = words[which] * (4 // size) + part
        found = np.unique(found) if size > 4 else found
        return np.asarray(found[found < count], np.int64)

    def changed(self, output: Buffer) -> NDArray[np.int64]:
        """As `written`; of an output that is changed in place, what holds another value than before."""
        if output.init == "zero" and self.buffers[output.name].state is None:
            return self._nonzero(output)
        if output.init != "input":
            return self.written(output)
        bits = np.dtype(f"u{NUMPY[output.dtype].itemsize}")
        given = np.ascontiguousarray(self.request.inputs[output.name]).reshape(-1).view(bits)
        whole = self.buffers[output.name].bytes.view(bits)
        parts = []
        for first in range(0, len(whole), len(given)):  # what is filled repeats
            part = whole[first : first + len(given)]
            parts.append(np.flatnonzero(part != given[: len(part)]) + first)
        return np.concatenate(parts) if parts else _NOWHERE

    def _nonzero(self, output: Buffer) -> NDArray[np.int64]:
        """The elements of an output with a byte that is not zero."""
        held, size = self.buffers[output.name].bytes, NUMPY[output.dtype].itemsize
        places, high = [_NOWHERE], 0
        for part in touched(held):  # from the first to the last; an element may lie in two of them
            low, high = max(high, part.start // size), -(-part.stop // size)
            values = held[low * size : min(high * size, len(held) // size * size)].view(np.dtype(f"u{size}"))
            places.append(np.flatnonzero(values) + low)
        return np.concatenate(places)

    def mask(self, output: Buffer) -> NDArray[np.bool_] | None:
        """Which elements of an output hold a written byte; None if all are written throughout."""
        buffer, size = self.buffers[output.name], NUMPY[output.dtype].itemsize
        words, rest = divmod(buffer.size_bytes, 4)
        state = buffer.state
        if state is None or ((state[:words] == 15).all() and (not rest or state[words] == (1 << rest) - 1)):
            return None
        found = np.zeros(buffer.size_bytes // size, np.bool_)
        found[self.written(output)] = True
        return None if found.all() else found

    def share(self, *outputs: Buffer) -> tuple[float, float]:
        """Words of these outputs that the last launch's blocks wrote over those they were due (1 is fair); the latter.

        Due is their part of the words that the launches before have left.
        """
        part = min(result.blocks_run / max(1, result.blocks_total) for result in self.results)
        left = sum(-(-self.buffers[output.name].size_bytes // 4) - self.before[output.name] for output in outputs)
        if left <= 0:
            return 1.0, 0.0
        written = sum(self._words(output) - self.before[output.name] for output in outputs)
        return written / (left * part), left * part

    def work(self) -> float:
        """Warp instructions that all blocks of all launches would execute."""
        return sum(
            launch.totals["warp_instructions"] * launch.blocks_total / max(1, launch.blocks_run)
            for launch in self.launches
        )

    def _words(self, output: Buffer) -> int:
        """Of an output, that hold a written byte; all of them if nobody kept account."""
        buffer = self.buffers[output.name]
        return -(-buffer.size_bytes // 4) if buffer.state is None else _count(buffer.state)

    def _value(self, bound: BoundLaunch, index: int) -> sim.SimBuffer | np.generic:
        argument = bound.arguments[index]
        if argument.is_buffer:
            return self.buffers[argument.name]
        return NUMPY[argument.dtype].type(argument.value)

    def values_at(self, output: Buffer, places: NDArray[np.int64]) -> Array:
        """Elements of an output, by their flat indices."""
        whole: Array = self.buffers[output.name].bytes.view(NUMPY[output.dtype])
        return whole[places]

    def outputs(self) -> Arrays:
        return {name: view.copy() for name, view in self.views().items()}

    def views(self) -> Arrays:
        """The outputs in the memory of this execution."""
        found: dict[str, Array] = {}
        for output in self.program.outputs:
            whole: Array = self.buffers[output.name].bytes.view(NUMPY[output.dtype])
            found[output.name] = whole.reshape(output.dims)
        return found


def _written_words(state: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Words of which a byte is written; in parts, since of a large buffer few are."""
    parts = [np.flatnonzero(state[at : at + _PART] & 15) + at for at in range(0, len(state), _PART)]
    return np.asarray(np.concatenate(parts), np.int64)


def _count(state: NDArray[np.uint8]) -> int:
    return sum(int(np.count_nonzero(state[at : at + _PART] & 15)) for at in range(0, len(state), _PART))


def sample_of(launch: Launch, count: int | None, draw: int | None) -> Sequence[int] | None:
    """Block ids, one from each of equal strata, the same on every run; None for the whole grid.

    By `draw`, some of the `count` are next to another one along the grid, and two are the first and the last.
    """
    total = launch.blocks
    if count is None or total <= count:
        return None
    # A plain stride would alias with the grid's own period, so the place within each stratum is drawn.
    rng = random.Random(total if draw is None else f"{draw} {total}")
    beside = 0 if draw is None else count // _BESIDE
    strata = count if draw is None else max(1, count - beside - 2)
    edges = [index * total // strata for index in range(strata + 1)]
    drawn = [rng.randrange(low, high) for low, high in pairwise(edges)]
    if draw is None:
        return drawn
    steps = [1, launch.grid[0], launch.grid[0] * launch.grid[1]]
    near = [(block + rng.choice(steps)) % total for block in rng.sample(drawn, beside)]
    return sorted({0, total - 1, *drawn, *near})


def add(total: dict[str, int], part: dict[str, int]) -> None:
    for name, value in part.items():
        total[name] = total.get(name, 0) + value
