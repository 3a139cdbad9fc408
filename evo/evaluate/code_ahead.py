"""Machine code made ahead of the devices that run it, by processes in which no candidate runs.

A GPU of another architecture than `--arch` has its PTX assembled, a simulator has it translated. Both are kept in the
user's cache, where the device finds them: it runs the same code, sooner.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from queue import LifoQueue

from evo.cuda.compile import assemble_ahead
from evo.device import DeviceName, Program
from evo.device.remote_device import RemoteSimulator
from evo.errors import Crashed, EvoError, TimedOut
from evo.evaluate.prepare import Prepared, PrepareFailure

CORES_TO_SPARE = 6  # on fewer, what is done ahead takes the time of what is waited for
_CORES_EACH = 4  # of the machine, for a process that translates
_MOST = 3  # each takes some 200 MB, and starts when those before it are found busy
_MOST_ASSEMBLED = 8  # at once, in the compiler's processes


class CodeAhead:
    """Begins with the machine code of programs. arch: what PTX is assembled for, if the device needs that.

    most: processes that translate for a simulator.
    """

    def __init__(self, simulator: DeviceName, arch: str | None, *, most: int = _MOST) -> None:
        cores = os.cpu_count() or 1
        self._assembly: _OnceEach | None = None
        if arch is not None:
            self._assembly = _OnceEach(lambda program: assemble_ahead(program.binary.ptx, arch), _MOST_ASSEMBLED)
        most = max(1, min(most, cores // _CORES_EACH))
        self._translators = _Translators(simulator, most) if cores >= CORES_TO_SPARE else None
        self._translation = _OnceEach(self._translators.translate, most) if self._translators else None

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
        for work in (self._assembly, self._translation):
            if work is not None:
                work.close()
        if self._translators is not None:
            self._translators.close()
        self._assembly = self._translation = self._translators = None


class _OnceEach:
    """One thing that is done with each binary, once, in `most` threads; what fails is left to the device."""

    def __init__(self, work: Callable[[Program], None], most: int) -> None:
        self._work = work
        self._threads = ThreadPoolExecutor(most, thread_name_prefix="evo-code-ahead")
        self._begun: dict[str, Future[None]] = {}

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

    def _done(self, program: Program) -> None:
        with contextlib.suppress(EvoError, TimedOut, Crashed):
            self._work(program)


class _Translators:
    """Processes that translate for a simulator; the one that was used last is used first."""

    def __init__(self, simulator: DeviceName, count: int) -> None:
        self._all = [RemoteSimulator(simulator) for _ in range(count)]
        self._free: LifoQueue[RemoteSimulator] = LifoQueue()
        for each in reversed(self._all):
            self._free.put(each)

    def translate(self, program: Program) -> None:
        process = self._free.get()
        try:
            process.translate(program)
        finally:
            self._free.put(process)

    def close(self) -> None:
        for each in self._all:
            each.close()


def _by_binary(programs: Iterable[Program]) -> list[Program]:
    """One program of each binary, in order."""
    found: dict[str, Program] = {}
    for program in programs:
        found.setdefault(program.binary.key, program)
    return list(found.values())
