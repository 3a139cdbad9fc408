"""Machine code made ahead of the devices that run it, by processes of their own in which no candidate runs.

A GPU of another architecture than `--arch` has its PTX assembled, a simulator has it translated. Both are kept in the
user's cache, where the device finds them: it runs the same code, sooner.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from queue import LifoQueue
from typing import Generic, TypeVar

from evo.device import DeviceName, Program
from evo.device.remote_device import RemoteGpu, RemoteSimulator
from evo.errors import Crashed, EvoError, TimedOut
from evo.evaluate.prepare import Prepared, PrepareFailure

CORES_TO_SPARE = 6  # on fewer, what is done ahead takes the time of what is waited for
_CORES_EACH = 4  # of the machine, for a process of either kind
_MOST = 3  # each takes some 200 MB, and starts when those before it are found busy

D = TypeVar("D", RemoteGpu, RemoteSimulator)


class CodeAhead:
    """Begins with the machine code of programs. gpu: the one that PTX is assembled for, if it needs that.

    most: processes of either kind.
    """

    def __init__(self, simulator: DeviceName, gpu: DeviceName | None, *, most: int = _MOST) -> None:
        cores = os.cpu_count() or 1
        most = max(1, min(most, cores // _CORES_EACH))
        self._assembly = _Processes([RemoteGpu(gpu) for _ in range(most)], _assemble) if gpu is not None else None
        if self._assembly is not None:
            self._assembly.prepare()
        simulators = [RemoteSimulator(simulator) for _ in range(most)] if cores >= CORES_TO_SPARE else []
        self._translation = _Processes(simulators, _translate) if simulators else None

    def begin(self, programs: Mapping[str, Program]) -> None:
        """Begin with the binaries of some programs, and wait for none."""
        found = _by_binary(programs.values())
        if self._assembly is not None:
            self._assembly.begin(found)
        if self._translation is not None:  # the first is what a simulator is given at once
            self._translation.begin(found[1:])

    def assembled(self, prepared: Prepared | PrepareFailure) -> None:
        """Wait until a variant's binaries are assembled; what fails is told where it is loaded."""
        if self._assembly is not None and isinstance(prepared, Prepared):
            self._assembly.wait(_by_binary(prepared.programs.values()))

    def close(self) -> None:
        """End the processes; afterwards devices make all code themselves."""
        for processes in (self._assembly, self._translation):
            if processes is not None:
                processes.close()
        self._assembly = self._translation = None


class _Processes(Generic[D]):
    """Processes that do one thing with each binary, once; the one that was used last is used first."""

    def __init__(self, processes: list[D], work: Callable[[D, Program], None]) -> None:
        self._all: list[D] = processes
        self._work: Callable[[D, Program], None] = work
        self._free: LifoQueue[D] = LifoQueue()
        for each in reversed(processes):
            self._free.put(each)
        self._threads = ThreadPoolExecutor(len(processes), thread_name_prefix="evo-code-ahead")
        self._begun: dict[str, Future[None]] = {}

    def prepare(self) -> None:
        self._all[0].prepare_spare()

    def begin(self, programs: Iterable[Program]) -> None:
        for program in programs:
            if (key := program.binary.key) not in self._begun:
                self._begun[key] = self._threads.submit(self._done, program)

    def wait(self, programs: list[Program]) -> None:
        self.begin(programs)
        for program in programs:
            self._begun[program.binary.key].result()

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for each in self._all:
            each.close()

    def _done(self, program: Program) -> None:
        process = self._free.get()
        try:
            with contextlib.suppress(EvoError, TimedOut, Crashed):
                self._work(process, program)
        finally:
            self._free.put(process)


def _assemble(gpu: RemoteGpu, program: Program) -> None:
    gpu.assemble(program.binary)


def _translate(simulator: RemoteSimulator, program: Program) -> None:
    simulator.translate(program)


def _by_binary(programs: Iterable[Program]) -> list[Program]:
    """One program of each binary, in order."""
    found: dict[str, Program] = {}
    for program in programs:
        found.setdefault(program.binary.key, program)
    return list(found.values())
