"""The `sim:` device: runs Programs on the PTX simulator, and models their time.

Binds the device contract to `evo.device.sim`, which knows nothing of tasks. Lives in the worker's child process.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from evo.device import (
    Array,
    Arrays,
    BenchCase,
    BoundLaunch,
    Buffer,
    DeviceName,
    LaunchCounters,
    Program,
    RunRequest,
    RunResult,
    SecondLook,
    sim,
)
from evo.dtypes import NUMPY
from evo.hardware import chip
from evo.launch import Launch
from evo.result import CaseBench, Estimate, Fault

_WHOLE = 160  # a launch of up to this many blocks is executed whole for an estimate
_SAMPLE = 48  # ... and a larger one by this many, one from each stratum
_QUICK = 8
_THREADS = min(os.cpu_count() or 1, 8)  # blocks in parallel; results and counts are those of one thread
_SECOND_LOOK = 200_000_000  # warp instructions
_LITTLE = 4_000_000  # warp instructions of all blocks, that take seconds
_BESIDE = 4  # one in so many of them is a neighbour of another, for races between the two
_FAIR_SHARE = 0.5  # of the outputs that a sample of blocks is due to write; below, it does not stand for the others
_EXACT = 1 - 1e-9  # of what was due, but for rounding


class SimDevice:
    """One modelled chip. Loaded modules are kept by binary key."""

    def __init__(self, name: DeviceName) -> None:
        self.name = name
        self.chip = chip(name.which)
        self._modules: dict[str, sim.Module] = {}

    def describe(self) -> dict[str, str]:
        return {"simulator": sim.VERSION, "loaded": "sim"}

    def run(self, request: RunRequest) -> RunResult:
        """Execute a program whole (or a sample of blocks), every access checked."""
        try:
            module = self._module(request.program)
        except sim.PtxError as refusal:
            return RunResult(outputs=(), faults=(_refused(request.program, refusal),))
        repeats: list[Arrays] = []
        counters: dict[str, int] = {}
        by_line: dict[int, dict[str, int]] = {}
        faults: tuple[Fault, ...] = ()
        launches: tuple[LaunchCounters, ...] = ()
        for _ in range(request.repeats):
            run = _Run(module, request)
            faults = run.execute()
            launches = tuple(run.launches)
            _add(counters, run.totals)
            for line, row in run.by_line.items():
                _add(by_line.setdefault(line, {}), row)
            if faults:
                break
            repeats.append(run.outputs())
        return RunResult(
            outputs=tuple(repeats),
            faults=faults,
            counters=counters,
            counters_by_line=by_line,
            launches=launches,
        )

    def estimate(self, cases: list[BenchCase]) -> tuple[CaseBench, ...] | Fault:
        """Model each case's time from the counters of an execution (sampled where the grid is large).

        A Fault is the variant's: one that passed the gate may still fault at a size that the gate did not run.
        """
        return self._all(cases, whole=_WHOLE, sample=_SAMPLE, fair=_FAIR_SHARE)

    def _all(
        self, cases: list[BenchCase], *, whole: int, sample: int, fair: float = 0.0
    ) -> tuple[CaseBench, ...] | Fault:
        rows: list[CaseBench] = []
        for case in cases:
            run = self._representative(case, whole, sample, fair)
            if isinstance(run, Fault):
                return run
            rows.append(self._modelled(run))
        return tuple(rows)

    def screen(self, cases: list[BenchCase]) -> tuple[CaseBench, ...] | Fault:
        """Quicker estimates from a handful of blocks, to choose between proposals; never recorded."""
        try:
            return self._all(cases, whole=_QUICK, sample=_QUICK)
        except sim.PtxError as refusal:
            return _refused(cases[0].program, refusal)

    def look_again(self, case: BenchCase, draw: int, blocks: int | None, budget: int | None) -> SecondLook:
        """Run one case for its numbers, with races checked: so many blocks, drawn by `draw`, or all (None)."""
        program = case.program
        whole = blocks is None or max(bound.launch.blocks for bound in program.launches) <= blocks
        request = RunRequest(
            program=program, inputs=case.inputs, blocks=None if whole else blocks, draw=draw, budget=budget
        )
        try:
            module = self._module(program)
        except sim.PtxError as refusal:  # a binary that the gate's cases do not need
            return SecondLook(fault=_refused(program, refusal), whole=True)
        run = _Run(module, request)
        ordered = module.depends_on_order(run.last.launch.kernel)
        if faults := run.execute():
            return SecondLook(fault=faults[0], whole=whole or not self._needs_others(run, faults[0]))
        places = {output.name: run.written(output) for output in program.outputs}
        values = {name: array.reshape(-1)[places[name]] for name, array in run.outputs().items()}
        shares = [run.share(output) for output in program.outputs]
        return SecondLook(
            row=self._modelled(run),
            places=places,
            values=values,
            share=min((share for share, due in shares if due >= 1), default=1.0),
            doubtful=not whole and (ordered or run.work() <= _LITTLE or any(share < _EXACT for share, _ in shares)),
            whole=whole,
        )

    def _needs_others(self, run: _Run, fault: Fault) -> bool:
        """Whether a fault may be due to blocks that were left out: they may be waited for, or write what is read.

        Launches before the last one are whole. In the last one, plain stores of other blocks would be a race.
        """
        if len(run.results) < len(run.program.launches) and run.request.first_whole:
            return False
        if fault.kind == "uninitialised":
            return run.module.depends_on_order(fault.kernel)
        return fault.kind in ("budget", "deadlock")

    def _representative(self, case: BenchCase, whole: int, sample: int, fair: float) -> _Run | Fault:
        """An execution whose counts stand for the whole grid: of all blocks, or of a sample that wrote its fair share.

        A sample that writes less may be the luck of the draw (a last block that writes for all), or few blocks may do
        the work of all, or none of them any: the whole grid is run before one of these is believed.
        """
        program, module = case.program, self._module(case.program)
        blocks = None if max(bound.launch.blocks for bound in program.launches) <= whole else sample
        request = RunRequest(
            program=program, inputs=case.inputs, check_races=False, blocks=blocks, first_whole=fair > 0
        )
        run = _Run(module, request)
        faults = run.execute()
        if faults and faults[0].kind == "budget" and len(program.launches) > 1 and request.first_whole:
            run = _Run(module, replace(request, first_whole=False))  # too much: a sample of every launch
            faults = run.execute()
        if faults and fair and blocks is not None and self._needs_others(run, faults[0]):
            of_a_part = faults[0]
            run = _Run(module, replace(request, blocks=None, budget=_SECOND_LOOK))
            if (faults := run.execute()) and faults[0].kind == "budget":
                return of_a_part
        if faults:
            return faults[0]
        if blocks is not None and (run.without_a_byte() or run.share(*program.outputs)[0] < fair):
            again = _Run(module, replace(request, blocks=None, budget=_SECOND_LOOK))
            if faults := again.execute():
                # Too much to run: what is to be kept is looked at again, and not kept where that cannot be either.
                return run if not fair or faults[0].kind == "budget" else faults[0]
            run = again
        if names := run.without_a_byte():
            message = f"case {program.case}: not one byte of output {names[0]} is written"
            return Fault(kind="uninitialised", kernel=program.launches[-1].launch.kernel, message=message)
        return run

    def _modelled(self, run: _Run) -> CaseBench:
        program = run.program
        reports = {report.name: report for report in program.binary.kernels}
        parts = [
            sim.LaunchCounts(
                counters=result.counters,
                grid=bound.launch.grid,
                block=bound.launch.block,
                shared_bytes=bound.launch.shared_bytes + reports[bound.launch.kernel].shared_bytes,
                registers=reports[bound.launch.kernel].registers,
                blocks_run=result.blocks_run,
                blocks_total=result.blocks_total,
            )
            for bound, result in zip(program.launches, run.results, strict=True)
        ]
        estimate: Estimate = sim.estimate(parts, self.chip, footprint_bytes=run.footprint_bytes)
        return CaseBench(name=program.case, estimate=estimate)

    def _module(self, program: Program) -> sim.Module:
        key = program.binary.key
        if key not in self._modules:
            self._modules[key] = sim.load(program.binary.ptx, chip=self.chip)
        return self._modules[key]


def _refused(program: Program, refusal: sim.PtxError) -> Fault:
    """PTX that the simulator cannot execute is the variant's failure here, named by instruction and line."""
    return Fault(kind="unsupported", kernel=program.launches[0].launch.kernel, message=refusal.message)


class _Run:
    """One execution of a program in a memory of its own."""

    def __init__(self, module: sim.Module, request: RunRequest) -> None:
        self.module, self.request = module, request
        self.program = request.program
        self.memory = sim.Memory()
        self.buffers: dict[str, sim.Buffer] = {}
        self.totals: dict[str, int] = {}
        self.by_line: dict[int, dict[str, int]] = {}
        self.results: list[sim.LaunchResult] = []
        self.launches: list[LaunchCounters] = []
        self.footprint_bytes = 0
        self.last = self.program.launches[-1]
        self.before: dict[str, int] = {}  # words of the outputs that launches before the last one wrote
        for name, array in request.inputs.items():
            self._allocate(name, array.nbytes, writable=False)
            self.memory.write(self.buffers[name], array)
        for output in self.program.outputs:
            size = int(np.prod(output.dims)) * NUMPY[output.dtype].itemsize
            self._allocate(output.name, size, writable=True)
            self._poison(output.name)
        for space in self.program.scratch:
            self._allocate(space.name, space.size_bytes, writable=True, fill=b"\0" if space.init == "zero" else None)
            if space.init != "zero":
                self._poison(space.name)

    def _allocate(self, name: str, size: int, *, writable: bool, fill: bytes | None = None) -> None:
        self.footprint_bytes += size
        self.buffers[name] = self.memory.allocate(
            size, name=name, offset=self.request.offset_bytes, writable=writable, fill=fill
        )

    def _poison(self, name: str) -> None:
        """Give memory that a kernel must write before it reads contents of its own; to read them stays a fault."""
        self.buffers[name].bytes[:] = self.request.poison

    def execute(self) -> tuple[Fault, ...]:
        first = _SECOND_LOOK if self.request.draw is not None else _SECOND_LOOK // 4
        for bound in self.program.launches:
            launch = bound.launch
            if bound is self.last:
                self.before = {output.name: self._words(output) for output in self.program.outputs}
            in_full = self.request.blocks is not None and self.request.first_whole and bound is not self.last
            result = self.module.launch(
                launch.kernel,
                grid=launch.grid,
                block=launch.block,
                shared_bytes=launch.shared_bytes,
                args=[self._value(bound, index) for index in range(len(bound.arguments))],
                memory=self.memory,
                blocks=None if in_full else _sample(launch, self.request.blocks, self.request.draw),
                race=self.request.check_races,
                budget=self.request.budget or (first if in_full else sim.DEFAULT_BUDGET),
                threads=_THREADS,
            )
            self.results.append(result)
            counted = LaunchCounters(
                kernel=launch.kernel,
                totals=result.counters.totals(),
                by_line=result.counters.by_line(),
                blocks_run=result.blocks_run,
                blocks_total=result.blocks_total,
            )
            self.launches.append(counted)
            _add(self.totals, counted.totals)
            for line, row in counted.by_line.items():
                _add(self.by_line.setdefault(line, {}), row)
            if result.faults:
                return tuple(result.faults)
            if result.blocks_run < result.blocks_total and bound is not self.last:
                # Blocks that were left out write what the next launch reads.
                for name in (*(s.name for s in self.program.scratch), *(o.name for o in self.program.outputs)):
                    self.buffers[name].state = None
        return ()

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
        words = np.flatnonzero(buffer.state & 15)
        if size >= 4:
            found = words // (size // 4)
        else:
            bits = np.unpackbits(buffer.state[words][:, None], axis=1, bitorder="little")[:, :4]
            which, part = np.nonzero(bits.reshape(len(words), 4 // size, size).any(axis=2))
            found = words[which] * (4 // size) + part
        found = np.unique(found) if size > 4 else found
        return np.asarray(found[found < count], np.int64)

    def share(self, *outputs: Buffer) -> tuple[float, float]:
        """What the last launch's blocks wrote of these outputs over what they were due (1 is fair), and that in words.

        Due is their part of what the launches before have left.
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
        """Of an output, that hold a written byte; all of them where nobody kept account."""
        buffer = self.buffers[output.name]
        return -(-buffer.size_bytes // 4) if buffer.state is None else int(np.count_nonzero(buffer.state & 15))

    def _value(self, bound: BoundLaunch, index: int) -> sim.Buffer | np.generic:
        argument = bound.arguments[index]
        if argument.is_buffer:
            return self.buffers[argument.name]
        return NUMPY[argument.dtype].type(argument.value)

    def outputs(self) -> Arrays:
        found: dict[str, Array] = {}
        for output in self.program.outputs:
            found[output.name] = self.memory.read(self.buffers[output.name], NUMPY[output.dtype], output.dims)
        return found


def _sample(launch: Launch, count: int | None, draw: int | None) -> Sequence[int] | None:
    """Block ids, one from each of equal strata, the same on every run; None for the whole grid.

    By `draw`, some of the `count` are next to another one along the grid, and two are the first and the last.
    """
    total = launch.blocks
    if count is None or total <= count:
        return None
    # A plain stride would alias with the grid's own period, so the place within each stratum is drawn.
    rng = random.Random(total if draw is None else f"{draw} {total}")
    beside = 0 if draw is None else count // _BESIDE
    strata = count if draw is None else count - beside - 2
    edges = [index * total // strata for index in range(strata + 1)]
    drawn = [rng.randrange(low, high) for low, high in pairwise(edges)]
    if draw is None:
        return drawn
    steps = [1, launch.grid[0], launch.grid[0] * launch.grid[1]]
    near = [(block + rng.choice(steps)) % total for block in rng.sample(drawn, beside)]
    return sorted({0, total - 1, *drawn, *near})


def _add(total: dict[str, int], part: dict[str, int]) -> None:
    for name, value in part.items():
        total[name] = total.get(name, 0) + value
