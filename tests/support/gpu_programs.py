"""Tiny programs for the GPU tests, compiled through evo.cuda.compile."""

import numpy as np

from evo.cuda.compile import Binary, compile_source
from evo.device import Argument, Arrays, BenchCase, BoundLaunch, Buffer, Program
from evo.spec.launch import Launch, Workspace

N = 1 << 16

HEAD = 'extern "C" __global__ void k(const float* x, float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; '
SCRATCH_HEAD = (
    'extern "C" __global__ void k(const float* x, float* y, float* s, int n) '
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; "
)


def inputs(seed: int = 0, n: int = N) -> Arrays:
    return {"x": np.random.default_rng(seed).standard_normal(n).astype(np.float32)}


def program(
    body: str,
    *,
    name: str = "v",
    case: str = "c",
    n: int = N,
    grid: int | None = None,
    block: int = 256,
    shared: int = 0,
    scratch: Workspace | None = None,
    flop: float | None = None,
    arch: str = "sm_89",
) -> Program:
    """One kernel `k(x, y[, s], n)` of the given body."""
    text = (SCRATCH_HEAD if scratch else HEAD) + body + " }\n"
    binary = compile_source(text, name=f"{name}.cu", macros={}, arch=arch)
    assert isinstance(binary, Binary), binary
    launch = Launch(kernel="k", grid=(grid or -(-n // block), 1, 1), block=(block, 1, 1), shared_bytes=shared)
    buffers = [Argument(name=b, dtype="float32") for b in ("x", "y", *([scratch.name] if scratch else []))]
    return Program(
        variant=name,
        case=case,
        binary=binary,
        launches=(BoundLaunch(launch=launch, arguments=(*buffers, Argument(name="n", dtype="int32", value=n))),),
        outputs=(Buffer(name="y", dtype="float32", dims=(n,)),),
        scratch=(scratch,) if scratch else (),
        flop=flop,
        bytes=8.0 * n,
    )


def fma(iterations: int, *, name: str = "fma", case: str = "c", n: int = N, arch: str = "sm_89") -> Program:
    """A kernel whose time is in proportion to `iterations`."""
    body = f"float a = x[i]; for (int j = 0; j < {iterations}; ++j) a = fmaf(a, 0.999f, 0.001f); y[i] = a;"
    return program(body, name=name, case=case, n=n, arch=arch)


def case_of(prog: Program, seed: int = 0) -> BenchCase:
    return BenchCase(program=prog, inputs=inputs(seed, prog.outputs[0].dims[0]))
