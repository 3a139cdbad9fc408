"""Timing on the GPU: interleaved blocks of parent and child, on the same buffers and stream of one process.

Warm: replays of a CUDA graph. A sample is the time between two events around a replay, divided by its m sequences.
m = 1 where a sequence takes 150 us or more, so that percentiles are of single launches. Below that the cost of events
and graph start (2.8 us on an H200) would count for 2 % and more: m fills 300 us, and percentiles are of means over m
launches (`launches_per_sample` says which).
Cold: a read of twice the L2, then one launch between two events; a block is queued whole before anything is waited for.

Sequences rotate over three sets of inputs and two of outputs. An output buffer thus always holds the result of other
inputs, and a kernel that trusts what it finds there gives a wrong answer.
"""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle
from typing import TYPE_CHECKING, Any

import cupy
import numpy as np

from evo.decide import P99_SAMPLES, Sequential
from evo.device import POISON_NAN, Arrays, BenchCase
from evo.device.gpu_load import KernelFault, Sequence, blamed_on
from evo.device.gpu_memory import Arena
from evo.device.nvml import Reading
from evo.device.samples import BenchRequest, BenchResult, timing_of
from evo.device.worker import Crashed
from evo.dtypes import NUMPY
from evo.errors import HarnessFault
from evo.result import CaseBench, Fault, Json

if TYPE_CHECKING:
    from evo.device.gpu import GpuDevice

INPUT_SETS = 3
OUTPUT_SETS = 2
CYCLE = INPUT_SETS * OUTPUT_SETS  # coprime, so this many sequences meet every pairing once
SINGLE_US = 150.0
SAMPLE_US = 300.0
BLOCK_SAMPLES = 8
BLOCK_US = 20_000.0  # a block of long launches takes fewer samples, so that a pair stays short against clock drift
CLOCK_TOLERANCE = 0.02
STEADY = 0.01
MAX_PER_GRAPH = 1200


class Diverged(Exception):
    """Timed launches gave other outputs than the verified ones."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


@dataclass(slots=True)
class Side:
    """One variant at one case: its graphs, what each input set must give, and its samples."""

    label: str
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

    def __init__(self, device: GpuDevice, request: BenchRequest, index: int) -> None:
        self.device, self.request = device, request
        sides = [("child", request.child[index])]
        if request.parent:
            sides.append(("parent", request.parent[index]))
        if request.options.swap:
            sides.reverse()
        case = request.child[index]
        self.name = case.program.case
        self.inputs = self._input_sets(case)
        sizes: dict[str, int] = {}
        for number, arrays in enumerate(self.inputs):
            sizes |= {f"{name}#{number}": array.nbytes for name, array in arrays.items()}
        self.outputs = {b.name: (NUMPY[b.dtype], b.dims) for b in case.program.outputs}
        for number in range(OUTPUT_SETS):
            for name, (dtype, dims) in self.outputs.items():
                sizes[f"{name}@{number}"] = math.prod(dims) * dtype.itemsize
        for label, side in sides:
            sizes |= {f"{label}.{s.name}": s.size_bytes for s in side.program.scratch}
        self.arena = Arena(sizes, device.tools, key=random.SystemRandom().getrandbits(63))
        for number, arrays in enumerate(self.inputs):
            for name, array in arrays.items():
                self.arena.upload(f"{name}#{number}", array)
        self.sides = {label: self._side(label, side) for label, side in sides}

    def _input_sets(self, case: BenchCase) -> list[Arrays]:
        given = [case.inputs, *self.request.others.get(self.name, ())]
        return [given[number % len(given)] for number in range(INPUT_SETS)]

    def _side(self, label: str, case: BenchCase) -> Side:
        loaded = self.device.load(case.program)
        sequences = []
        for number in range(CYCLE):
            addresses = {name: self.arena.address(f"{name}#{number % INPUT_SETS}") for name in self.inputs[0]}
            addresses |= {name: self.arena.address(f"{name}@{number % OUTPUT_SETS}") for name in self.outputs}
            addresses |= {s.name: self.arena.address(f"{label}.{s.name}") for s in case.program.scratch}
            for space in case.program.scratch:
                self.arena.fill(f"{label}.{space.name}", POISON_NAN)
            sequences.append(Sequence(case.program, loaded, addresses))
        side = Side(label, case, sequences)
        with self._running(side):
            self._verify(side)
            self._capture(side)
        return side

    @contextlib.contextmanager
    def _running(self, side: Side) -> Iterator[None]:
        """CUDA errors inside are this side's: a fault of the child, or a parent that should not be a parent."""
        try:
            with blamed_on(side.sequences[0].names):
                yield
        except KernelFault as error:
            if side.label == "child":
                raise Crashed(f"{error.fault.message} while it was timed, case {self.name}") from None
            hint = "demote it: it passed its gate once and faults now"
            raise HarnessFault(f"the parent: {error.fault.message}, case {self.name}", hint=hint) from None

    def _verify(self, side: Side) -> None:
        """One launch per input set on poisoned outputs: what every timed launch on that set must repeat."""
        for number in range(INPUT_SETS):
            self._poison()
            with self.device.stream:
                side.sequences[number].execute(self.device.stream)
            side.expected.append(self._digest(number))
            if number == 0 and side.label == "child":
                self._hold_to_verified(side)

    def _hold_to_verified(self, side: Side) -> None:
        for name, wanted in self.request.expected.get(self.name, {}).items():
            dtype, dims = self.outputs[name]
            got = self.arena.download(f"{name}@0", dtype, dims)
            if not np.array_equal(got.view(np.uint8), np.ascontiguousarray(wanted).view(np.uint8)):
                raise Diverged(self._divergence(side, f"{name} differs from the verified output before timing"))

    def _capture(self, side: Side) -> None:
        trial = self._graph(side, range(CYCLE))
        self._replay(trial, 2)
        each_us = float(np.median(self._replay(trial, 3))) / CYCLE
        if each_us >= SINGLE_US:
            side.graphs = [self._graph(side, [number]) for number in range(CYCLE)]
            side.block_samples = max(3, min(BLOCK_SAMPLES, int(BLOCK_US / each_us)))
            return
        wanted = math.ceil(SAMPLE_US / each_us / CYCLE) * CYCLE
        side.per_graph = min(wanted, MAX_PER_GRAPH // CYCLE * CYCLE)
        side.graphs = [self._graph(side, range(side.per_graph))]

    def _graph(self, side: Side, numbers: Any) -> Any:
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

    def _timed(self, count: int, launch: Any, before: Any = None) -> list[float]:
        """Microseconds of `count` launches, all queued before the host waits once."""
        stream = self.device.stream
        events = [(cupy.cuda.Event(), cupy.cuda.Event()) for _ in range(count)]
        for start, end in events:
            if before is not None:
                before()
            start.record(stream)
            launch()
            end.record(stream)
        stream.synchronize()
        return [cupy.cuda.get_elapsed_time(start, end) * 1000 for start, end in events]

    def block(self, side: Side) -> list[float]:
        """One warm block: poison, one untimed replay, samples, and a look at what the last launch wrote."""
        with self._running(side):
            return self._block(side)

    def _block(self, side: Side) -> list[float]:
        self._poison()
        stream = self.device.stream
        graphs = side.graphs
        first = side.next_graph
        graphs[first % len(graphs)].launch(stream)
        order = iter(range(first + 1, first + 1 + side.block_samples))
        taken = self._timed(side.block_samples, lambda: graphs[next(order) % len(graphs)].launch(stream))
        last = first + side.block_samples
        side.next_graph = (last + 1) % len(graphs)
        self._check(side, (last if side.per_graph == 1 else side.per_graph - 1) % CYCLE)
        return [value / side.per_graph for value in taken]

    def cold_block(self, side: Side, count: int) -> list[float]:
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

    def _check(self, side: Side, number: int) -> None:
        if self._digest(number) != side.expected[number % INPUT_SETS]:
            raise Diverged(self._divergence(side, "a timed launch gave other outputs than the verified ones"))

    def _divergence(self, side: Side, what: str) -> Fault:
        message = f"case {self.name}: {side.label}: {what}"
        return Fault(kind="timing_divergence", kernel=side.sequences[0].names, message=message)

    def _poison(self) -> None:
        for number in range(OUTPUT_SETS):
            for name in self.outputs:
                self.arena.fill(f"{name}@{number}", POISON_NAN)

    def _digest(self, number: int) -> int:
        parts = tuple(self.arena.digest(f"{name}@{number % OUTPUT_SETS}") for name in self.outputs)
        return hash(parts)


class Bench:
    """One measurement: warm-up, pairs until the rule stops, more samples for the tails, cold samples."""

    def __init__(self, device: GpuDevice, request: BenchRequest) -> None:
        self.device, self.request, self.options = device, request, request.options
        self.random = random.Random(request.options.seed or None)
        self.deadline = time.monotonic() + request.options.budget_s
        self.timers: list[CaseTimer] = []
        self.pairs: list[dict[str, float]] = []
        self.dropped = 0
        self.clocks: list[Reading] = []

    def measure(self) -> BenchResult:
        try:
            return self._measure()
        except Diverged as found:
            if found.fault.message.partition(": ")[2].startswith("parent"):
                raise HarnessFault(
                    found.fault.message, hint="demote the parent: it no longer does what it did"
                ) from None
            return BenchResult(child=(), divergence=found.fault)

    def _measure(self) -> BenchResult:
        self.timers = [CaseTimer(self.device, self.request, index) for index in range(len(self.request.child))]
        self._one_way_of_loading()
        start_c = self.device.monitor.temperature_c()
        self._warm_up()
        if self.request.parent:
            self._take_pairs()
        self._top_up()
        for timer in self.timers:
            for side in timer.sides.values():
                side.cold = timer.cold_block(side, self.options.cold_samples) if self.options.cold_samples else []
            if broken := timer.arena.broken():
                message = f"case {timer.name}: written past the ends of {', '.join(broken)} while timed"
                raise Diverged(Fault(kind="timing_divergence", kernel="", message=message))
        return self._result(start_c)

    def _one_way_of_loading(self) -> None:
        ways = {self.device.load(s.case.program).how for t in self.timers for s in t.sides.values()}
        if len(ways) > 1:
            hint = "compile both for the same --arch"
            raise HarnessFault("parent and child are not loaded the same way (cubin and PTX)", hint=hint)

    def _warm_up(self) -> None:
        """Until five block medians in a row agree within 1 %, or the time for it is up."""
        end = min(time.monotonic() + self.options.warm_up_s, self.deadline)
        recent: dict[int, list[float]] = {}
        while time.monotonic() < end:
            for timer in self.timers:
                for side in timer.sides.values():
                    recent.setdefault(id(side), []).append(_median(timer.block(side)))
            last = [medians[-5:] for medians in recent.values()]
            if all(len(medians) == 5 and max(medians) <= (1 + STEADY) * min(medians) for medians in last):
                break

    def _take_pairs(self) -> None:
        rule = self.options.rule
        score = {t.name: self.request.score.get(t.name, 0.0) for t in self.timers} if self.request.score else {}
        sequential = Sequential(score or {t.name: 1.0 for t in self.timers}, rule)
        for _ in range(2 * rule.max_pairs):
            pair = self._pair()
            if pair is None:
                self.dropped += 1
                continue
            self.pairs.append(pair)
            if sequential.add(pair) is not None or time.monotonic() > self.deadline:
                break

    def _pair(self) -> dict[str, float] | None:
        """One block of each side of every case, in random order. None when the clock moved in between."""
        ratios: dict[str, float] = {}
        steady = True
        for timer in self.timers:
            order = ["child", "parent"]
            self.random.shuffle(order)
            medians: dict[str, float] = {}
            readings: list[Reading] = []
            for label in order:
                side = timer.sides[label]
                taken = timer.block(side)
                side.warm.extend(taken)
                medians[label] = _median(taken)
                readings.append(self._clock())
            steady = steady and _same_clock(*readings)
            ratios[timer.name] = math.log(medians["child"] / medians["parent"])
        return ratios if steady else None

    def _clock(self) -> Reading:
        reading = self.device.monitor.read()
        self.clocks.append(reading)
        return reading

    def _top_up(self) -> None:
        """More blocks until every side has its samples; a parent needs no more than its own tail takes."""
        for timer in self.timers:
            wanted = {"child": self.options.samples, "parent": min(self.options.samples, P99_SAMPLES)}
            while short := [s for label, s in timer.sides.items() if len(s.warm) < wanted[label]]:
                for side in short:
                    side.warm.extend(timer.block(side))
                if time.monotonic() > self.deadline and all(len(side.warm) >= BLOCK_SAMPLES for side in short):
                    break
            self._clock()

    def _result(self, start_c: int | None) -> BenchResult:
        def rows(label: str) -> tuple[CaseBench, ...]:
            return tuple(_case_bench(t.name, t.sides[label]) for t in self.timers if label in t.sides)

        return BenchResult(
            child=rows("child"),
            parent=rows("parent"),
            pairs=tuple(self.pairs),
            dropped=self.dropped,
            clocks=self._clock_summary(start_c),
            loaded=self.device.load(self.request.child[0].program).how,
            samples={t.name: np.asarray(t.sides["child"].warm, np.float32) for t in self.timers},
            launches_per_sample={t.name: t.sides["child"].per_graph for t in self.timers},
        )

    def _clock_summary(self, start_c: int | None) -> dict[str, Json]:
        clocks = [reading.sm_mhz for reading in self.clocks if reading.sm_mhz is not None]
        reasons = {reading.throttle for reading in self.clocks if reading.throttle}
        end_c, power = self.device.monitor.temperature_c(), self.device.monitor.power_w()
        summary: dict[str, Json] = {"blocks": len(self.clocks)}
        if clocks:
            summary |= {"sm_mhz_min": min(clocks), "sm_mhz_max": max(clocks), "sm_mhz_median": int(np.median(clocks))}
            summary["throttle_reasons"] = [f"0x{reason:x}" for reason in sorted(reasons)]
        else:
            summary["sm_mhz"] = "unavailable"  # then no pair can be dropped for its clock
        for name, value in (("start_c", start_c), ("end_c", end_c), ("power_w", power)):
            if value is not None:
                summary[name] = value
        return summary


def _case_bench(name: str, side: Side) -> CaseBench:
    warm = timing_of(side.warm)
    flop = side.case.program.flop
    return CaseBench(
        name=name,
        warm=warm,
        cold=timing_of(side.cold) if side.cold else None,
        tflop_per_s=flop / warm.p50_us * 1e-6 if flop else None,
    )


def _same_clock(first: Reading, second: Reading) -> bool:
    if first.throttle != second.throttle:
        return False
    if first.sm_mhz is None or second.sm_mhz is None:
        return True
    return abs(first.sm_mhz - second.sm_mhz) <= CLOCK_TOLERANCE * max(first.sm_mhz, second.sm_mhz)


def _median(values: list[float]) -> float:
    return float(np.median(values))
