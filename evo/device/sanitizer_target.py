"""Programs at small cases, for compute-sanitizer to watch: `python -m evo.device.sanitizer_target REQUESTS GPU`.

REQUESTS is a pickled list of RunRequests that this user's evo has written. Every buffer is an allocation of its own,
so that the byte behind it belongs to nobody; outputs and workspaces are left as they come, so that reading them is
reading uninitialised memory.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from cupy.cuda import runtime

from evo.device import DeviceName, RunRequest, place_of
from evo.device.gpu import GpuDevice
from evo.device.gpu_load import KernelFault, Sequence
from evo.errors import EvoError

_TO_DEVICE = 1


def run_all(requests: list[RunRequest], index: str) -> None:
    """Raises EvoError for the harness's faults. The variant's own are the sanitizer's to tell, and end the run."""
    cupy.cuda.set_allocator(None)  # a pool would hide an overrun inside one large allocation
    device = GpuDevice(DeviceName("gpu", index))
    with device.locked(exclusive=False), device.stream:
        for request in requests:
            try:
                _run(request, device)
            except KernelFault as error:
                sys.stdout.write(f"evo: {request.program.case}: {error.fault.message}\n")
                return
    sys.stdout.write(f"evo: ran {len(requests)} cases\n")


def _run(request: RunRequest, device: GpuDevice) -> None:
    program, stream = request.program, device.stream
    buffers: dict[str, Any] = {}
    for name, array in request.inputs.items():
        data = np.ascontiguousarray(array)
        place = place_of(program, name)
        buffers[place] = cupy.cuda.Memory(data.nbytes)
        runtime.memcpyAsync(buffers[place].ptr, data.ctypes.data, data.nbytes, _TO_DEVICE, stream.ptr)
        stream.synchronize()
    for output in program.outputs:
        buffers[output.name] = cupy.cuda.Memory(output.size_bytes)
    for space in program.scratch:
        buffers[space.name] = cupy.cuda.Memory(space.size_bytes)
    addresses = {name: int(memory.ptr) for name, memory in buffers.items()}
    Sequence(program, device.load(program), addresses).execute(stream)


if __name__ == "__main__":
    try:
        run_all(pickle.loads(Path(sys.argv[1]).read_bytes()), sys.argv[2])
    except EvoError as trouble:
        sys.exit(f"evo: {trouble.message}")
