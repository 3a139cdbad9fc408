"""The `sim:` device: runs Programs on the PTX simulator, and models their time.

Binds the device contract to `evo.sim`, which knows nothing of tasks. Lives in a child process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evo import sim
from evo.cuda.compile.machine_code import machine_code
from evo.device import (
    Arrays,
    BenchCase,
    DeviceName,
    ExtremesRequest,
    LaunchCounters,
    OutputExtremes,
    Program,
    RehearsalRequest,
    RunRequest,
    RunResult,
    SampledRun,
    SampleRequest,
)
from evo.device.output_extremes import reduced
from evo.device.protocol import ModellingDevice
from evo.device.sim_execution import SECOND_LOOK, THREADS, Execution, add
from evo.results import CaseBench, Estimate, Fault, FaultKind
from evo.results.coverage import Coverage
from evo.sim.rehearsed_runs import RehearsedKernel
from evo.spec.chips import chip
from evo.spec.recent_cache import RecentCache

_WHOLE = 160  # a launch of up to this many blocks is executed whole for an estimate
_SAMPLE = 48  # ... and a larger one by this many, one from each stratum
_QUICK = 8
_PTX_BYTES = 4 << 20  # of the modules held, some fifty: a trial has ten
_LITTLE = 4_000_000  # warp instructions of all blocks, that take seconds
_ALONE, _MOST_ALONE = 16, 64  # blocks whose writes are counted one by one
_FAIR_SHARE = 0.5  # of the outputs that a sample of blocks is due to write; below, it does not stand for the others
_EXACT = 1 - 1e-9  # of what was due, but for rounding


class SimDevice(ModellingDevice):
    """One modelled chip. The modules loaded last are kept by binary key."""

    def __init__(self, name: DeviceName) -> None:
        self.name = name
        self.chip = chip(name.which)
        # By binary key, and whether it keeps coverage; by the length of their PTX, of which they are some ten times.
        self._modules: RecentCache[sim.Module] = RecentCache(_PTX_BYTES)
        self._rehearsed: RecentCache[RehearsedKernel] = RecentCache(_PTX_BYTES)
        self._quick: RecentCache[sim.Module] = RecentCache(_PTX_BYTES)  # the same, translated for a few blocks

    def describe(self) -> dict[str, str]:
        return {"simulator": sim.VERSION, "loaded": "sim"}

    def health(self) -> None:
        """Nothing can be wrong with a simulator that a fresh process does not mend."""

    def run(self, request: RunRequest) -> RunResult:
        """Execute a program whole (or a sample of blocks), every access checked."""
        module = self._module(request.program, coverage=request.coverage)
        if isinstance(module, Fault):
            return RunResult(outputs=(), faults=(module,))
        repeats: list[Arrays] = []
        counters: dict[str, int] = {}
        faults: tuple[Fault, ...] = ()
        launches: tuple[LaunchCounters, ...] = ()
        seen: list[Coverage] = []
        for _ in range(request.repeats):
            run = Execution(module, request)
            faults = run.execute()
            launches = tuple(run.launches)
            seen += [result.coverage for result in run.results if result.coverage is not None]
            add(counters, run.totals)
            if faults:
                break
            repeats.append(run.outputs())
        return RunResult(
            outputs=tuple(repeats),
            faults=faults,
            counters=counters,
            launches=launches,
            coverage=Coverage.merged(seen) if request.coverage else None,
            left=tuple(result.counters.left for result in run.results),
        )

    def estimate(self, cases: Sequence[BenchCase]) -> tuple[CaseBench, ...] | Fault:
        """Model each case's time from the counters of an execution (sampled where the grid is large).

        A Fault is the variant's: one that passed the gate may still fault at a size that the gate did not run.
        """
        return self._all(cases, whole=_WHOLE, sample=_SAMPLE, fair=_FAIR_SHARE)

    def _all(
        self, cases: Sequence[BenchCase], *, whole: int, sample: int, fair: float = 0.0, quick: bool = False
    ) -> tuple[CaseBench, ...] | Fault:
        rows: list[CaseBench] = []
        for case in cases:
            module = self._module(case.program, quick=quick)
            run = module if isinstance(module, Fault) else self._representative(module, case, whole, sample, fair)
            if isinstance(run, Fault):
                return run
            rows.append(self._modelled(run))
        return tuple(rows)

    def screen(self, cases: Sequence[BenchCase]) -> tuple[CaseBench, ...] | Fault:
        """Quicker estimates from a handful of blocks, to choose between proposals; never recorded."""
        return self._all(cases, whole=_QUICK, sample=_QUICK, quick=True)

    def translate(self, program: Program) -> None:
        """Translate a program's kernels, and keep their code in the cache."""
        module = self._module(program)
        if isinstance(module, sim.Module):
            for bound in program.launches:
                module.compile(bound.launch.kernel)

    def run_sample(self, request: SampleRequest) -> SampledRun:
        """Run some blocks of a case for their numbers, or all of them."""
        program, blocks = request.case.program, request.blocks
        whole = blocks is None or program.blocks <= blocks
        asked = RunRequest(
            program=program,
            inputs=request.case.inputs,
            blocks=None if whole else blocks,
            draw=request.draw,
            budget=request.budget,
            filled=request.filled,
            check_races=request.check_races,
            first_whole=request.first_whole,
        )
        module = self._module(program)
        if isinstance(module, Fault):  # a binary that the gate's cases do not need
            return SampledRun(fault=module, whole=True)
        run = Execution(module, asked)
        ordered = module.depends_on_order(run.last.launch.kernel)
        if faults := run.execute():
            return SampledRun(fault=faults[0], whole=whole or not self._needs_others(run, faults[0]))
        written = run.changed if request.only_changed else run.written
        places = {output.name: written(output) for output in program.outputs}
        values = {output.name: run.values_at(output, places[output.name]) for output in program.outputs}
        shares = [run.share(output) for output in program.outputs]
        return SampledRun(
            row=self._modelled(run),
            places=places,
            values=values,
            share=_least(run),
            doubtful=not whole and (ordered or run.work() <= _LITTLE or any(share < _EXACT for share, _ in shares)),
            whole=whole,
            work=run.work(),
            blocks=run.results[-1].blocks_total,
            atomics=run.totals.get("atomic_lanes", 0),
        )

    def rehearse(self, request: RehearsalRequest) -> NDArray[np.uint8]:
        """Run a kernel without its data at many sizes."""
        bound = request.program.launches[request.launch]
        key = (request.program.binary.key, bound.launch.kernel, request.pointers)
        if (kernel := self._rehearsed.get(key)) is None:
            ptx, name = request.program.binary.ptx, bound.launch.kernel
            kernel = RehearsedKernel(ptx, name, request.pointers, self.chip, THREADS)
            self._rehearsed.put(key, kernel, len(request.program.binary.ptx))
        return kernel.outcomes(request.parameters, request.grid, request.block, request.seconds, request.wanted)

    def output_extremes(self, request: ExtremesRequest) -> OutputExtremes:
        """Run a case for its numbers alone, and reduce what the blocks that ran have written."""
        program = request.case.program
        asked = RunRequest(
            program=program,
            inputs=request.case.inputs,
            blocks=request.blocks,
            draw=request.draw,
            budget=request.budget,
            check_races=False,
            backwards=True,  # another order than that of the look at races
        )
        module = self._module(program)
        if isinstance(module, Fault):
            return OutputExtremes(whole=True, fault=module)
        run = Execution(module, asked)
        faults = run.execute()
        whole = all(result.blocks_run == result.blocks_total for result in run.results)
        if faults:
            return OutputExtremes(whole=whole or request.blocks is None, fault=faults[0])
        masks = {output.name: run.mask(output) for output in program.outputs}
        dtypes = {output.name: output.dtype for output in program.outputs}
        extremes, place = reduced(run.views(), dtypes, masks, request.groups, request.find)
        if place is not None:
            return OutputExtremes(whole=whole, place=place)
        share = _least(run)  # before blocks are run by themselves
        last = run.results[-1]
        atomics = run.totals.get("atomic_lanes", 0) * last.blocks_total // max(1, last.blocks_run)
        missing = {name: mask for name, mask in masks.items() if mask is not None}
        gaps = [(name, int(np.argmin(mask)), int(mask.size - mask.sum())) for name, mask in missing.items()]
        return OutputExtremes(
            whole=whole,
            extremes=extremes,
            unwritten=gaps[0] if whole and gaps else None,
            short=None if whole else self._short(run),
            share=share,
            atomics=atomics,
        )

    def _short(self, run: Execution) -> str | None:
        """Whether blocks leave out a part of what each of them is due, in words.

        A deficit that what blocks write varies by may be the luck of the draw; what depends on order is no block's own.
        """
        if run.module.depends_on_order(run.last.launch.kernel):
            return None
        for output in run.program.outputs:
            share, _ = run.share(output)
            if share >= _EXACT or run.before[output.name]:
                continue
            total = -(-run.buffers[output.name].size_bytes // 4)
            due = total / run.results[-1].blocks_total
            counts = run.alone(output, max(_ALONE, min(run.request.blocks or 0, _MOST_ALONE)))
            idle = counts.count(0)
            # Idle blocks are honest if the others write so much more that all is written in the end.
            if (
                idle
                and (len(counts) - idle) / len(counts) * run.results[-1].blocks_total * max(counts) < total * _EXACT
            ):
                return f"{idle} of {len(counts)} sampled blocks write nothing of {output.name}"
            if counts and np.mean(counts) + np.std(counts) < due * _EXACT:
                return f"its blocks write {np.mean(counts):.6g} words of {output.name}, and are due {due:.6g}"
        return None

    def _needs_others(self, run: Execution, fault: Fault) -> bool:
        """Whether a fault may be due to blocks that were left out: they may be waited for, or write what is read.

        Launches before the last one are whole. In the last one, plain stores of other blocks would be a race.
        """
        if len(run.results) < len(run.program.launches) and run.request.first_whole:
            return False
        if fault.kind in (FaultKind.UNINITIALISED, FaultKind.BUDGET):  # what no order changes, no other block ends
            return run.module.depends_on_order(fault.kernel)
        return fault.kind is FaultKind.DEADLOCK

    def _representative(
        self, module: sim.Module, case: BenchCase, whole: int, sample: int, fair: float
    ) -> Execution | Fault:
        """An execution whose counts stand for the whole grid: of all blocks, or of a sample that wrote its fair share.

        A sample that writes less may be the luck of the draw (a last block that writes for all), or few blocks may do
        the work of all, or none of them any: the whole grid is run before one of these is believed.
        """
        program = case.program
        blocks = None if program.blocks <= whole else sample
        request = RunRequest(
            program=program, inputs=case.inputs, check_races=False, blocks=blocks, first_whole=fair > 0
        )
        run = Execution(module, request)
        faults = run.execute()
        if faults and faults[0].kind is FaultKind.BUDGET and len(program.launches) > 1 and request.first_whole:
            run = Execution(module, replace(request, first_whole=False))  # too much: a sample of every launch
            faults = run.execute()
        if faults and fair and blocks is not None and self._needs_others(run, faults[0]):
            of_a_part = faults[0]
            run = Execution(module, replace(request, blocks=None, budget=SECOND_LOOK))
            if (faults := run.execute()) and faults[0].kind is FaultKind.BUDGET:
                return of_a_part
        if faults:
            return faults[0]
        if blocks is not None and (run.without_a_byte() or run.share(*program.outputs)[0] < fair):
            again = Execution(module, replace(request, blocks=None, budget=SECOND_LOOK))
            if faults := again.execute():
                # Too much to run: what is to be kept is looked at again, and not kept where that cannot be either.
                return run if not fair or faults[0].kind is FaultKind.BUDGET else faults[0]
            run = again
        if names := run.without_a_byte():
            message = f"case {program.case}: not one byte of output {names[0]} is written"
            return Fault(kind=FaultKind.UNINITIALISED, kernel=program.launches[-1].launch.kernel, message=message)
        return run

    def _modelled(self, run: Execution) -> CaseBench:
        program = run.program
        _note_turns(run)
        reports = {report.name: report for report in program.binary.kernels}
        code = machine_code(program.binary.cubin, program.binary.arch) if program.binary.cubin else {}
        parts = [
            sim.LaunchCounts(
                counters=result.counters,
                grid=bound.launch.grid,
                block=bound.launch.block,
                shared_bytes=bound.launch.shared_bytes + reports[bound.launch.kernel].shared_bytes,
                registers=reports[bound.launch.kernel].registers,
                blocks_run=result.blocks_run,
                blocks_total=result.blocks_total,
                machine=code.get(bound.launch.kernel),
                local_bytes=reports[bound.launch.kernel].stack_bytes,
            )
            for bound, result in zip(program.launches, run.results, strict=True)
        ]
        cleared = [space.size_bytes for space in program.scratch if space.init == "zero"]
        cleared += [output.size_bytes for output in program.outputs if output.init == "zero"]
        estimate: Estimate = sim.estimate(parts, self.chip, footprint_bytes=run.footprint_bytes, cleared=cleared)
        return CaseBench.modelled(program.case, estimate)

    def _module(self, program: Program, *, coverage: bool = False, quick: bool = False) -> sim.Module | Fault:
        """PTX that the simulator cannot execute is the variant's failure here, named by instruction and line.

        quick: a few blocks are all that it will run, for what they count, so the code has no more and is not optimised.
        """
        # Code that keeps coverage does for all: it costs a few percent, compiling once more costs seconds.
        binary = program.binary
        key = (binary.key, coverage or self._modules.get((binary.key, True)) is not None)
        known = self._quick if quick and self._modules.get(key) is None else self._modules
        if (held := known.get(key)) is not None:
            return held
        try:
            less = known is self._quick
            level = 0 if less else 1
            module = sim.load(binary.ptx, chip=self.chip, opt_level=level, coverage=key[1], counts_only=less)
        except sim.PtxError as refusal:
            return Fault(kind=FaultKind.UNSUPPORTED, kernel=program.launches[0].launch.kernel, message=refusal.message)
        return known.put(key, module, len(binary.ptx))


def _least(run: Execution) -> float:
    """Of the least written output: elements written over the elements that the blocks that ran should write."""
    shares = (run.share(output) for output in run.program.outputs)
    return min((share for share, due in shares if due >= 1), default=1.0)


def _note_turns(run: Execution) -> None:
    """Let blocks that may wait for one another run side by side, and note how many work at a time."""
    if any(run.module.waits(bound.launch.kernel) for bound in run.program.launches):
        fair = Execution(run.module, replace(run.request, budget=SECOND_LOOK // 4), fair=True)
        if not fair.execute():  # else they wait for blocks behind the first ones, which tells of no chain
            for result, other in zip(run.results, fair.results, strict=True):
                result.counters.turns = other.counters.turns
