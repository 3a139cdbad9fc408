"""PTX assembled for the chip at hand ahead of the device, by processes of their own in which no candidate runs."""

from __future__ import annotations

import contextlib
from queue import SimpleQueue

from evo.device import DeviceName
from evo.device.remote_device import RemoteGpu
from evo.errors import EvoError
from evo.evaluate.prepare import Prepared, PrepareFailure

_PROCESSES = 1  # each takes some 200 MB


class Assemblers:
    """For a chip of another architecture than `--arch`: machine code is kept for the process that loads it."""

    def __init__(self, device: DeviceName) -> None:
        self._all = [RemoteGpu(device) for _ in range(_PROCESSES)]
        self._free: SimpleQueue[RemoteGpu] = SimpleQueue()
        for each in self._all:
            each.prepare_spare()
            self._free.put(each)
        self._done: set[str] = set()

    def assemble(self, prepared: Prepared | PrepareFailure) -> None:
        """Wait until all of a variant's binaries are assembled; what fails is told where it is loaded."""
        if isinstance(prepared, PrepareFailure):
            return
        binaries = {program.binary.key: program.binary for program in prepared.programs.values()}
        for key, binary in binaries.items():
            if key in self._done:
                continue
            self._done.add(key)
            process = self._free.get()
            try:
                with contextlib.suppress(EvoError):
                    process.assemble(binary)
            finally:
                self._free.put(process)

    def close(self) -> None:
        for each in self._all:
            each.close()
