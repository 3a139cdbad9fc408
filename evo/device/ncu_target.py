"""One launch sequence on prepared inputs, for a profiler to watch: `python -m evo.device.ncu_target REQUEST GPU`.

REQUEST is a pickled RunRequest that this user's evo has written. The sequence runs once unwatched, so that modules are
loaded and memory is mapped; then inputs and outputs are laid down anew and it runs once between start and stop.
"""

from __future__ import annotations

import pickle
import secrets
import sys
from pathlib import Path

import cupy

from evo.device import Arrays, DeviceName, RunRequest, place_of
from evo.device.gpu import GpuDevice
from evo.device.gpu_load import KernelFault, Sequence
from evo.device.gpu_memory import Arena
from evo.errors import EvoError


def launch_once(request: RunRequest, index: str) -> None:
    """Raises KernelFault for the variant's faults, EvoError for the harness's."""
    device = GpuDevice(DeviceName("gpu", index))
    program = request.program
    inputs = {place_of(program, name): array for name, array in request.inputs.items()}
    sizes = {name: array.nbytes for name, array in inputs.items()}
    sizes |= {output.name: output.size_bytes for output in program.outputs}
    sizes |= {space.name: space.size_bytes for space in program.scratch}
    with device.locked(exclusive=True):
        arena = Arena(sizes, device.tools, key=secrets.randbits(63))
        sequence = Sequence(program, device.load(program), {name: arena.address(name) for name in sizes})
        with device.stream:
            _lay_down(request, inputs, arena, sizes)
            sequence.execute(device.stream)
            _lay_down(request, inputs, arena, sizes)
            device.stream.synchronize()
            cupy.cuda.runtime.profilerStart()
            sequence.execute(device.stream)
            device.stream.synchronize()
            cupy.cuda.runtime.profilerStop()


def _lay_down(request: RunRequest, inputs: Arrays, arena: Arena, sizes: dict[str, int]) -> None:
    for name in sizes:
        if name in inputs:
            arena.upload(name, inputs[name])
        else:
            arena.fill(name, request.poison)


if __name__ == "__main__":
    try:
        launch_once(pickle.loads(Path(sys.argv[1]).read_bytes()), sys.argv[2])
    except (KernelFault, EvoError) as failure:
        sys.exit(str(failure))
