"""Loading a Binary on the GPU at hand, launching a Program, and CUDA's error codes in our words."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cupy
import numpy as np
from cupy.cuda import driver, runtime
from cupy.cuda.runtime import CUDARuntimeError

from evo.cuda.compile import Binary, assembled
from evo.device import Argument, Program, place_of
from evo.errors import CandidateFailed, DeviceMissing, HarnessFault
from evo.results import Fault, FaultKind
from evo.spec.dtypes import NUMPY
from evo.spec.launch import Launch

_DEFAULT_SHARED = 48 * 1024
_OUT_OF_MEMORY = 2
_ON_DEVICE = 3  # a copy within the GPU
_CANNOT_LOAD = {200, 209, 218, 220, 221, 222, 223}  # invalid image, no binary, invalid or unsupported PTX, no JIT

# CUDA code -> (fault kind, words). From 700 on, but for 701, the context is lost and the process with it.
_FAULTS = {
    1: (FaultKind.LAUNCH, "the driver refuses the launch (invalid value)"),
    9: (FaultKind.LAUNCH, "the driver refuses the launch (invalid configuration)"),
    98: (FaultKind.LAUNCH, "the driver refuses the launch (invalid device function)"),
    700: (FaultKind.OUT_OF_BOUNDS, "illegal memory access"),
    701: (FaultKind.LAUNCH, "the launch needs more registers or shared memory than the chip has"),
    702: (FaultKind.BUDGET, "launch timed out"),
    710: (FaultKind.TRAP, "device-side assertion"),
    714: (FaultKind.STACK_OVERFLOW, "hardware stack error"),
    715: (FaultKind.TRAP, "illegal instruction, or a trap"),
    716: (FaultKind.MISALIGNED, "misaligned address"),
    717: (FaultKind.OUT_OF_BOUNDS, "address in the wrong memory space"),
    718: (FaultKind.TRAP, "the program counter left the kernel"),
    719: (FaultKind.TRAP, "launch failure, or a trap"),
}


class KernelFault(CandidateFailed):
    """A CUDA error that a variant caused, as a Fault. `sticky`: the context is lost."""

    def __init__(self, fault: Fault, sticky: bool) -> None:
        super().__init__(fault.message)
        self.fault = fault
        self.sticky = sticky


@contextlib.contextmanager
def blamed_on(kernel: str) -> Iterator[None]:
    """CUDA errors inside are the kernel's. Raises KernelFault, or HarnessFault for errors that no kernel causes."""
    try:
        yield
    except (CUDARuntimeError, driver.CUDADriverError) as error:
        code = int(error.status)
        if code == _OUT_OF_MEMORY and mostly_free():
            message = f"{kernel} needs more local memory than the GPU has"
            raise KernelFault(Fault(kind=FaultKind.LAUNCH, kernel=kernel, message=message), sticky=False) from None
        if code not in _FAULTS:
            raise cuda_trouble(error) from error
        kind, message = _FAULTS[code]
        fault = Fault(kind=kind, kernel=kernel, message=f"{message} in {kernel}")
        raise KernelFault(fault, sticky=code >= 700 and code != 701) from None


def mostly_free() -> bool:
    """Whether more than half of the GPU's memory is free: who finds too little then has asked for too much."""
    with contextlib.suppress(CUDARuntimeError):
        free, total = runtime.memGetInfo()
        return bool(free > total / 2)
    return False


def cuda_trouble(error: Exception) -> HarnessFault:
    """A CUDA error that is not a variant's doing."""
    text = " ".join(str(error).split())
    if getattr(error, "status", None) == _OUT_OF_MEMORY:
        return HarnessFault(f"out of GPU memory: {text}", hint="free the GPU (see nvidia-smi), or time fewer cases")
    return HarnessFault(f"CUDA: {text}", hint="run `evo doctor`")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A module in the context. how: `cubin` or `ptx_jit`."""

    module: Any
    how: str

    def kernel(self, name: str) -> Any:
        return self.module.get_function(name)


def loads_as_is(arch: str, capability: int) -> bool:
    """Whether machine code for `arch` runs on a chip: same major version, and not newer."""
    digits = arch.partition("_")[2]
    if digits.endswith(("a", "f")):
        return digits[:-1] == str(capability)
    return int(digits) // 10 == capability // 10 and int(digits) <= capability


def load(binary: Binary, capability: int) -> Loaded:
    """Load machine code if the chip runs it, else what its PTX assembles to, by nvJitLink or else by the driver.

    Raises HarnessFault if none of them loads.
    """
    as_is = bool(binary.cubin) and loads_as_is(binary.arch, capability)
    # CuPy remembers modules by path, so a path never gets other content; one of its own per load cannot be raced.
    folder = Path(tempfile.mkdtemp(prefix="evo-module-"))
    try:
        data = binary.cubin if as_is else assembled(binary.ptx, f"sm_{capability}")
        data, kind = (data, "cubin") if data is not None else (binary.ptx.encode(), "ptx")
        path = folder / f"{hashlib.sha256(data).hexdigest()}.{kind}"
        path.write_bytes(data)
        module = cupy.RawModule(path=str(path))
        version = int(module.get_function(binary.kernels[0].name).binary_version)
    except (CUDARuntimeError, driver.CUDADriverError) as error:
        if int(error.status) not in _CANNOT_LOAD:
            raise cuda_trouble(error) from error
        hint = "the driver may be older than the compiler; `evo doctor` says which wheels to use"
        kind = "machine code" if as_is else "PTX"
        raise HarnessFault(f"the driver cannot load {binary.arch} {kind}: {error}", hint=hint) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if as_is and version != int("".join(c for c in binary.arch if c.isdigit())):
        hint = "an override such as CUDA_FORCE_PTX_JIT may be set; unset it"
        raise HarnessFault(f"compiled for {binary.arch}, but the driver loaded code for sm_{version}", hint=hint)
    return Loaded(module, "cubin" if as_is else "ptx_jit")


@dataclass(frozen=True, slots=True)
class _Step:
    name: str
    kernel: Any
    launch: Launch
    arguments: tuple[Any, ...]


class Sequence:
    """A program's launches bound to addresses: one timed unit.

    It starts with the clearing of workspaces and outputs that begin at zero, and with a copy of what is changed in
    place from where its values are kept.
    """

    def __init__(self, program: Program, loaded: Loaded, addresses: Mapping[str, int]) -> None:
        self.names = ", ".join(dict.fromkeys(bound.launch.kernel for bound in program.launches))
        self._clears = [(addresses[s.name], s.size_bytes) for s in program.scratch if s.init == "zero"]
        self._clears += [(addresses[b.name], b.size_bytes) for b in program.outputs if b.init == "zero"]
        self._copies = [
            (addresses[output.name], addresses[place_of(program, output.name)], output.size_bytes)
            for output in program.outputs
            if output.init == "input"
        ]
        self._steps = [
            _Step(
                bound.launch.kernel,
                loaded.kernel(bound.launch.kernel),
                bound.launch,
                tuple(_packed(argument, addresses) for argument in bound.arguments),
            )
            for bound in program.launches
        ]
        largest: dict[str, int] = {}
        for step in self._steps:
            largest[step.name] = max(largest.get(step.name, 0), step.launch.shared_bytes)
        for step in self._steps:
            wanted = largest[step.name]
            if wanted and wanted + step.kernel.shared_size_bytes > _DEFAULT_SHARED:
                with blamed_on(step.name):  # never lowered: cases that share the module may need different sizes
                    allowed = step.kernel.max_dynamic_shared_size_bytes
                    step.kernel.max_dynamic_shared_size_bytes = max(allowed, wanted)

    def _begin(self, stream: Any) -> None:
        for address, size in self._clears:
            runtime.memsetAsync(address, 0, size, stream.ptr)
        for to, of, size in self._copies:
            runtime.memcpyAsync(to, of, size, _ON_DEVICE, stream.ptr)

    def enqueue(self, stream: Any) -> None:
        """Put the whole sequence on the stream; nothing is waited for."""
        self._begin(stream)
        for step in self._steps:
            step.kernel(step.launch.grid, step.launch.block, step.arguments, shared_mem=step.launch.shared_bytes)

    def execute(self, stream: Any) -> None:
        """Run launch by launch, so that a fault has the name of its kernel. Raises KernelFault."""
        self._begin(stream)
        for step in self._steps:
            with blamed_on(step.name):
                step.kernel(step.launch.grid, step.launch.block, step.arguments, shared_mem=step.launch.shared_bytes)
                stream.synchronize()


def _packed(argument: Argument, addresses: Mapping[str, int]) -> Any:
    """One argument as an unsigned integer of its size: CuPy passes NumPy scalars as they are."""
    if argument.is_buffer:
        return np.uint64(addresses[argument.name])
    value = np.asarray([argument.value], NUMPY[argument.dtype])
    return value.view(f"u{value.itemsize}")[0]


def missing(message: str) -> DeviceMissing:
    return DeviceMissing(message, hint="use --device sim:l4, or run `evo doctor`")
