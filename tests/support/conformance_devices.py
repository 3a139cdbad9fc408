"""The implementations of `evo.device.protocol`, and programs that do one thing right or wrong on each of them.

Every program has a kernel `DEED_US(x, y, s, n)`, with y = 2 x but for its deed; `fake_gpu` knows by the name what to
do.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import fake_gpu
import numpy as np
from stand_in_gpu import StandInGpu

from evo.cuda.compile import Binary, compile_source
from evo.device import Argument, Arrays, BoundLaunch, Buffer, DeviceName, Program, RunRequest, RunResult
from evo.device.child import open_device
from evo.device.protocol import Device
from evo.device.remote_device import RemoteGpu, RemoteSimulator
from evo.device.sim_device import SimDevice
from evo.errors import HarnessFault
from evo.results import FaultKind
from evo.spec.launch import Launch, Workspace

SUPPORT = Path(__file__).parent
N = 256
SIM, GPU = DeviceName("sim", "l4"), DeviceName("gpu", "0")


@dataclass(frozen=True)
class Implementation:
    """family: whose faults it shows. make: the device in this process, or its remote end for an opener."""

    name: str
    family: str
    make: Callable[[str], Any]
    is_remote: bool
    opener: str = ""

    def __str__(self) -> str:
        return self.name


IN_PROCESS = (
    Implementation("simulator", "sim", lambda _: SimDevice(SIM), is_remote=False),
    Implementation("stand-in GPU", "sim", lambda _: StandInGpu(GPU), is_remote=False),
    Implementation("fake GPU", "fake", lambda _: fake_gpu.FakeGpu(GPU), is_remote=False),
)
REMOTE = (
    Implementation(
        "simulator in a child",
        "sim",
        lambda opener: RemoteSimulator(SIM, opener=opener),
        is_remote=True,
        opener="conformance_devices:open_unruly",
    ),
    Implementation(
        "stand-in GPU in a child",
        "sim",
        lambda opener: RemoteGpu(GPU, opener=opener),
        is_remote=True,
        opener="conformance_devices:open_unruly_stand_in",
    ),
    Implementation(
        "fake GPU in a child",
        "fake",
        lambda opener: RemoteGpu(GPU, opener=opener),
        is_remote=True,
        opener="conformance_devices:open_unruly_fake",
    ),
)
STAND_IN = REMOTE[1]
REAL_GPU = Implementation(
    "GPU", "gpu", lambda opener: RemoteGpu(GPU, opener=opener), is_remote=True, opener="conformance_devices:open_unruly"
)


@contextmanager
def opened(implementation: Implementation) -> Iterator[Any]:
    device = implementation.make(implementation.opener)
    with device if implementation.is_remote else contextlib.nullcontext():
        yield device


# --- programs


def kernel(name: str, body: str) -> str:
    return (
        f'extern "C" __global__ void {name}(const float* x, float* y, int* s, int n) {{\n'
        f"    const int i = blockIdx.x * blockDim.x + threadIdx.x;\n    {body}\n}}\n"
    )


@cache
def _binary(text: str) -> Binary:
    found = compile_source(text, name="deed.cu", macros={})
    assert isinstance(found, Binary), found
    return found


def program(name: str, body: str, *, before: str = "", shared: int = 0, n: int = N) -> Program:
    launch = Launch(kernel=name, grid=(n // 64, 1, 1), block=(64, 1, 1), shared_bytes=shared)
    arguments = [Argument(name=buffer, dtype="float32") for buffer in ("x", "y")]
    arguments += [Argument(name="s", dtype="int32"), Argument(name="n", dtype="int32", value=n)]
    return Program(
        variant=name,
        case="size",
        binary=_binary(before + kernel(name, body)),
        launches=(BoundLaunch(launch=launch, arguments=tuple(arguments)),),
        outputs=(Buffer(name="y", dtype="float32", dims=(n,)),),
        scratch=(Workspace(name="s", size_bytes=4 * n, init="poison"),),
        flop=float(n),
        bytes=8.0 * n,
    )


RIGHT = "y[i] = 2.0f * x[i];"
ENDLESS = """\
float a = x[i];
    do { a += 1.0f; ((volatile float*)y)[i] = a; } while (a != -1.0f);  // without the store it may be taken to end
"""
DEEP = """\
__device__ __noinline__ int deep(int d, int* s) {
    s[d & 63] = d;
    return d < 1 ? s[0] : deep(d - 1, s) + s[1];
}
"""


def right(n: int = N) -> Program:
    return program("good_10", RIGHT, n=n)


def inputs(n: int = N) -> Arrays:
    return {"x": np.arange(n, dtype=np.float32)}


@dataclass(frozen=True)
class Deed:
    """A program that does one thing wrong, and the kinds of fault that it may be on a family of devices."""

    body: str
    kinds: dict[str, tuple[FaultKind, ...]]
    before: str = ""
    shared: int = 0
    budget: int | None = None


K = FaultKind
DEEDS = {
    "trap_1": Deed("if (x[i] >= 0.0f) __trap(); y[i] = x[i];", {"sim": (K.TRAP,), "fake": (K.TRAP,), "gpu": (K.TRAP,)}),
    "stray_1": Deed(
        "y[i + (1LL << 40)] = x[i];",
        {"sim": (K.OUT_OF_BOUNDS,), "fake": (K.OUT_OF_BOUNDS,), "gpu": (K.OUT_OF_BOUNDS,)},
    ),
    "deep_1": Deed(
        "y[i] = deep((int)x[i] + (1 << 28), s);",
        {"sim": (K.STACK_OVERFLOW,), "fake": (K.STACK_OVERFLOW,), "gpu": (K.STACK_OVERFLOW, K.OUT_OF_BOUNDS, K.TRAP)},
        before=DEEP,
    ),
    "memory_1": Deed(
        "extern __shared__ float d[]; d[threadIdx.x] = x[i]; y[i] = d[threadIdx.x];",
        {"sim": (K.LAUNCH,), "fake": (K.LAUNCH,), "gpu": (K.LAUNCH,)},
        shared=300_000,
    ),
    "misaligned_1": Deed("*(double*)((char*)(y + i) + 4) = 1.0;", {"sim": (K.MISALIGNED,), "gpu": (K.MISALIGNED,)}),
    "unwritten_1": Deed("y[i] += x[i];", {"sim": (K.UNINITIALISED,)}),
    "race_1": Deed("__shared__ float t[64]; t[threadIdx.x] = x[i]; y[i] = t[63 - threadIdx.x];", {"sim": (K.RACE,)}),
    "shuffle_1": Deed("y[i] = __shfl_down_sync(0xffff, x[i], 1);", {"sim": (K.WARP_SYNC,)}),
    "barrier_1": Deed("if (i % 2) __syncthreads(); y[i] = x[i];", {"sim": (K.BARRIER,)}),
    "input_1": Deed("((float*)x)[i] = 1.0f;", {"sim": (K.READ_ONLY,)}),
    "deadlock_1": Deed(
        'if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;"); else asm volatile("bar.sync 2, 64;"); y[i] = 0;',
        {"sim": (K.DEADLOCK,)},
    ),
    "endless_1": Deed(ENDLESS, {"sim": (K.BUDGET,)}, budget=100_000),
    "clock_1": Deed('unsigned c; asm volatile("mov.u32 %0, %%clock;" : "=r"(c)); y[i] = c;', {"sim": (K.UNSUPPORTED,)}),
}


def deed_request(name: str) -> RunRequest:
    deed = DEEDS[name]
    made = program(name, deed.body, before=deed.before, shared=deed.shared)
    return RunRequest(program=made, inputs=inputs(), budget=deed.budget)


# --- what a child does beside its programs, by the name of the variant


def unruly(what: str) -> RunRequest:
    """A run of a right program that its child is told to spoil."""
    return RunRequest(program=replace(right(), variant=f"unruly {what}"), inputs=inputs())


class Unruly:
    """A device, but for what it does to its own process when a variant called `unruly ...` is run."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def describe(self) -> dict[str, str]:
        names = [name for name in os.environ if name.startswith("EVO_TEST")]
        return {**self._device.describe(), **{name: os.environ[name] for name in names}}

    def health(self) -> None:
        if os.path.exists(os.environ.get("EVO_TEST_SICK", "")):
            raise HarnessFault("the device returns wrong data", hint="reset it")
        self._device.health()

    def run(self, request: RunRequest) -> RunResult:
        kind, _, what = request.program.variant.partition(" ")
        if kind == "unruly":
            _spoil(what)
        return self._device.run(request)


def _spoil(what: str) -> None:
    match what:
        case "hang":
            time.sleep(3600)
        case "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
            time.sleep(10)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            sys.stderr.write("out of patience\n")
            sys.stderr.flush()
            os._exit(3)
        case "hang up":
            _pipe().shutdown(socket.SHUT_RDWR)
            time.sleep(10)
        case "garbage":
            _pipe().sendall(b"Segmentation fault (core dumped)\n" * 9)
            time.sleep(10)
        case "wrong message":
            from evo.spec.connection import Connection

            Connection(_pipe()).send({"not": "an answer"})
            time.sleep(10)
        case "half a message":
            from evo.spec import connection

            _pipe().sendall(connection._HEAD.pack(connection._MAGIC, 1) + connection._SIZE.pack(1 << 20) + b"x" * 99)
            os._exit(4)
        case "defect":
            raise ZeroDivisionError("a bug of ours")


def _pipe() -> socket.socket:
    """The child's end of the socket to the driver, whose number it was started with: drivers of GPUs have others."""
    return socket.socket(fileno=os.dup(int(sys.argv[1])))


def open_unruly(name: DeviceName) -> Unruly:
    return Unruly(open_device(name))


def open_unruly_fake(name: DeviceName) -> Unruly:
    return Unruly(fake_gpu.FakeGpu(name))


def open_unruly_stand_in(name: DeviceName) -> Unruly:
    return Unruly(StandInGpu(name))
