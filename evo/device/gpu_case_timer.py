"""One bench case on the GPU: the buffers that both sides share, captured graphs, and blocks of samples on them.

Sequences rotate over three sets of inputs and two of outputs. An output buffer thus always holds the result of other
inputs, and a kernel that trusts what it finds there gives a wrong answer. After each block the values move to other
addresses, and a random number of further launches, which no kernel can tell from timed ones, ends in a look at the
output: neither a remembered address nor a count of launches says what is asked for or when it is checked.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle, pairwise
from typing import Any

import cupy
import numpy as np

from evo.device import POISON_NAN, BenchCase, place_of
from evo.device.gpu_context import GpuContext
from evo.device.gpu_l2 import PersistingL2
from evo.device.gpu_load import KernelFault, Sequence, blamed_on
from evo.device.gpu_memory import Arena
from evo.device.timing_types import (
    BLOCK_SAMPLES,
    BLOCK_US,
    LONG_US,
    SAMPLE_US,
    SHORT_SAMPLES,
    BenchRequest,
    Side,
    StageTimer,
    sequences_per_sample,
)
from evo.errors import CandidateFailed, Crashed, HarnessFault
from evo.results import Fault, FaultKind
from evo.spec.dtypes import NUMPY

INPUT_SETS = 3
OUTPUT_SETS = 2
CYCLE = INPUT_SETS * OUTPUT_SETS  # coprime, so this many sequences meet every pairing once


class OutputsDiverged(CandidateFailed):
    """Timed launches of one side gave other outputs than the verified ones."""

    def __init__(self, fault: Fault, side: Side) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.side = side


@dataclass(slots=True)
class TimedVariant:
    """One variant at one case: its graphs, what each input set must give, and its samples."""

    which: Side
    case: BenchCase
    sequences: list[Sequence]
    expected: list[int] = field(default_factory=list)
    graphs: list[Any] = field(default_factory=list)
    per_graph: int = 1
    block_samples: int = BLOCK_SAMPLES
    warm: list[float] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)
    next_graph: int = 0


class CaseTimer:
    """One bench case: the buffers that both sides share, and blocks of samples on them."""

    def __init__(
        self,
        device: GpuContext,
        request: BenchRequest,
        index: int,
        stages: StageTimer,
        *,
        capture: int = 0,
        before: Mapping[Side, TimedVariant] | None = None,
        aside: PersistingL2 | None = None,
    ) -> None:
        """capture: its number, where each has modules of its own. before: the sides of the capture before this one.

        aside: L2 that the captured launches keep the inputs in.
        """
        self.device, self.request, self.stages = device, request, stages
        self.capture = capture
        self.clock_mhz: float | None = None  # over the latest block
        self.random = random.SystemRandom()  # what is checked when must not follow from a seed
        self.values_at = list(range(INPUT_SETS))  # which set's values lie at each set's addresses
        sides = [(Side.CANDIDATE, request.child[index])]
        if request.parent:
            sides.append((Side.PARENT, request.parent[index]))
        if request.options.swap:
            sides.reverse()
        case = request.child[index]
        self.name = case.program.case
        given = [case.inputs, *request.others.get(self.name, ())]
        self.inputs = [given[number % len(given)] for number in range(INPUT_SETS)]
        sizes: dict[str, int] = {}
        for number, arrays in enumerate(self.inputs):
            sizes |= {f"{name}#{number}": array.nbytes for name, array in arrays.items()}
        self.outputs = {b.name: (NUMPY[b.dtype], b.dims) for b in case.program.outputs}
        sizes |= {f"{name}#spare": array.nbytes for name, array in self.inputs[0].items()}
        for number in range(OUTPUT_SETS):
            for name, (dtype, dims) in self.outputs.items():
                sizes[f"{name}@{number}"] = math.prod(dims) * dtype.itemsize
        for which, timed in sides:
            sizes |= {f"{which}.{s.name}": s.size_bytes for s in timed.program.scratch}
        with stages.time("inputs"):
            self.arena = Arena(sizes, device.tools, key=self.random.getrandbits(63))
            for number, arrays in enumerate(self.inputs):
                for name, array in arrays.items():
                    self.arena.upload(f"{name}#{number}", array)
        self.sides = {which: self._side(which, timed) for which, timed in sides}
        with stages.time("capture"), self._inputs_in(aside):
            self._capture(before or {})

    def _inputs_in(self, aside: PersistingL2 | None) -> contextlib.AbstractContextManager[None]:
        """What is captured meanwhile keeps all sets of inputs in L2."""
        if aside is None or not self.inputs[0]:
            return contextlib.nullcontext()
        sets = [
            (f"{name}#{number}", array) for number, arrays in enumerate(self.inputs) for name, array in arrays.items()
        ]
        first = min(self.arena.address(name) for name, _ in sets)
        end = max(self.arena.address(name) + array.nbytes for name, array in sets)
        return aside.window(self.device.stream.ptr, first, end - first)

    def _side(self, which: Side, case: BenchCase) -> TimedVariant:
        with self.stages.time("load"):
            copy = f"{which} {self.capture}" if self.request.options.captures > 1 else ""
            loaded = self.device.load(case.program, copy)
        sequences = []
        for number in range(CYCLE):
            addresses = {
                place_of(case.program, name): self.arena.address(f"{name}#{number % INPUT_SETS}")
                for name in self.inputs[0]
            }
            addresses |= {name: self.arena.address(f"{name}@{number % OUTPUT_SETS}") for name in self.outputs}
            addresses |= {s.name: self.arena.address(f"{which}.{s.name}") for s in case.program.scratch}
            sequences.append(Sequence(case.program, loaded, addresses))
        side = TimedVariant(which, case, sequences)
        with self._running(side), self.stages.time("verify"):
            self._verify(side)
        return side

    @contextlib.contextmanager
    def _running(self, side: TimedVariant) -> Iterator[None]:
        """CUDA errors inside are this side's: a fault of the child, or a parent that should not be a parent."""
        try:
            with blamed_on(side.sequences[0].names):
                yield
        except KernelFault as error:
            if side.which is Side.CANDIDATE:
                raise Crashed(f"{error.fault.message} while it was timed, case {self.name}") from None
            hint = "demote it: it passed its gate once and faults now"
            raise HarnessFault(f"the parent: {error.fault.message}, case {self.name}", hint=hint) from None

    def _verify(self, side: TimedVariant) -> None:
        """One launch per input set on poisoned outputs: what every timed launch on that set must repeat."""
        for number in range(INPUT_SETS):
            self._poison()
            for space in side.case.program.scratch:  # nothing is left of an earlier launch that could be replayed
                self.arena.fill(f"{side.which}.{space.name}", POISON_NAN)
            with self.device.stream:
                side.sequences[number].execute(self.device.stream)
            side.expected.append(self._digest(number))
            if number == 0 and side.which is Side.CANDIDATE:
                self._hold_to_verified(side)

    def _hold_to_verified(self, side: TimedVariant) -> None:
        for name, wanted in self.request.expected.get(self.name, {}).items():
            dtype, dims = self.outputs[name]
            got = self.arena.download(f"{name}@0", dtype, dims)
            if not np.array_equal(got.view(np.uint8), np.ascontiguousarray(wanted).view(np.uint8)):
                raise self._diverged(side, f"{name} differs from the verified output before timing")

    def _capture(self, before: Mapping[Side, TimedVariant]) -> None:
        """Graphs of every side; with sides before these, of as many launches, and their samples are taken over."""
        if before:
            for which, side in self.sides.items():
                old = before[which]
                side.per_graph, side.block_samples = old.per_graph, old.block_samples
                side.warm, side.cold = old.warm, old.cold
                self._final_graphs(side)
            return
        each_us = [self._first_time_us(side) for side in self.sides.values()]
        for side, each, count in zip(self.sides.values(), each_us, sequences_per_sample(each_us, CYCLE), strict=True):
            side.per_graph = count
            fewest = 1 if each >= LONG_US else SHORT_SAMPLES
            side.block_samples = max(fewest, min(BLOCK_SAMPLES, int(BLOCK_US / (each * count))))
            self._final_graphs(side)

    def _first_time_us(self, side: TimedVariant) -> float:
        """About how long a sequence takes, from two launches if that is more than the length of a sample."""
        with self._running(side):
            alone = min(self._replay(self._graph(side, [0]), 2))
            if alone >= SAMPLE_US:
                return alone
            trial = self._graph(side, range(CYCLE))
            self._replay(trial, 2)
            return float(np.median(self._replay(trial, 3))) / CYCLE

    def _final_graphs(self, side: TimedVariant) -> None:
        count = side.per_graph
        with self._running(side):
            rounds = [[number] for number in range(CYCLE)] if count == 1 else [range(count)]
            side.graphs = [self._graph(side, numbers) for numbers in rounds]

    def _graph(self, side: TimedVariant, numbers: Any) -> Any:
        stream = self.device.stream
        with stream:
            stream.begin_capture()
            for number in numbers:
                side.sequences[number % CYCLE].enqueue(stream)
            graph = stream.end_capture()
            graph.upload(stream)
        return graph

    def _replay(self, graph: Any, count: int) -> list[float]:
        return self._timed(count, lambda: graph.launch(self.device.stream))

    def _timed(self, count: int, launch: Any, before: Any = None, *, stamped: bool = False) -> list[float]:
        """Microseconds of `count` launches, all queued before the host waits once; stamped: the clock is too."""
        stream = self.device.stream
        events = [(cupy.cuda.Event(), cupy.cuda.Event()) for _ in range(count)]
        for start, end in events:
            if before is not None:
                before()
            start.record(stream)
            launch()
            end.record(stream)
        if stamped:
            self.device.tools.stamp(1)
        stream.synchronize()
        return [cupy.cuda.get_elapsed_time(start, end) * 1000 for start, end in events]

    def block(self, side: TimedVariant, most: int = BLOCK_SAMPLES) -> list[float]:
        """One warm block: poison, one untimed replay, samples, and a look at what the last launch wrote.

        A block of one long launch has no untimed one.
        """
        with self._running(side):
            return self._block(side, min(side.block_samples, most))

    def _block(self, side: TimedVariant, samples: int) -> list[float]:
        self._poison()
        stream = self.device.stream
        graphs = side.graphs
        first = side.next_graph
        self.device.tools.stamp(0)
        untimed = 1 if side.block_samples > 1 else 0
        if untimed:
            graphs[first % len(graphs)].launch(stream)
        order = iter(range(first + untimed, first + untimed + samples))
        taken = self._timed(samples, lambda: graphs[next(order) % len(graphs)].launch(stream), stamped=True)
        self.clock_mhz = self.device.tools.clock_mhz()
        last = first + untimed + samples - 1
        side.next_graph = (last + 1) % len(graphs)
        self._check(side, (last if side.per_graph == 1 else side.per_graph - 1) % CYCLE)
        self._audit(side)
        return [value / side.per_graph for value in taken]

    def _audit(self, side: TimedVariant) -> None:
        """Values at other addresses, a random number of launches, and a look at what the last one wrote."""
        self._move_values()
        if side.which is Side.PARENT and side.block_samples == 1:
            return  # it was a candidate once, and its launches take longer than all that is asked of the candidate
        first = self.random.randrange(CYCLE)
        most = CYCLE if side.per_graph > 1 else 2  # of long launches few, whose numbers add up from block to block
        count = self.random.randrange(1, most + 1)
        with self.device.stream:
            for number in range(first, first + count):
                side.sequences[number % CYCLE].enqueue(self.device.stream)
        self._check(side, (first + count - 1) % CYCLE)

    def _move_values(self) -> None:
        """Each set of values goes to the addresses of the set before it."""
        for name in self.inputs[0]:
            places = [f"{name}#spare", *(f"{name}#{number}" for number in range(INPUT_SETS)), f"{name}#spare"]
            for to, of in pairwise(places):
                self.arena.copy(to, of)
        self.values_at = [*self.values_at[1:], self.values_at[0]]

    def cold_block(self, side: TimedVariant, count: int) -> list[float]:
        stream = self.device.stream
        numbers = cycle(range(CYCLE))
        last = (count - 1) % CYCLE

        def launch() -> None:
            with stream:
                side.sequences[next(numbers)].enqueue(stream)

        with self._running(side):
            self._poison()
            taken = self._timed(count, launch, before=self.device.tools.flush_l2)
            self._check(side, last)
        return taken

    def _check(self, side: TimedVariant, number: int) -> None:
        if self._digest(number) != side.expected[self.values_at[number % INPUT_SETS]]:
            raise self._diverged(side, "a timed launch gave other outputs than the verified ones")

    def _diverged(self, side: TimedVariant, what: str) -> OutputsDiverged:
        message = f"case {self.name}: {side.which}: {what}"
        fault = Fault(kind=FaultKind.TIMING_DIVERGENCE, kernel=side.sequences[0].names, message=message)
        return OutputsDiverged(fault, side.which)

    def _poison(self) -> None:
        for number in range(OUTPUT_SETS):
            for name in self.outputs:
                self.arena.fill(f"{name}@{number}", POISON_NAN)

    def _digest(self, number: int) -> int:
        parts = tuple(self.arena.digest(f"{name}@{number % OUTPUT_SETS}") for name in self.outputs)
        return hash(parts)
