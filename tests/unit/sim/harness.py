"""Helpers of the simulator tests: compile CUDA text, run one-instruction PTX kernels over arrays."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from evo import sim
from evo.cuda.compile import toolkit_version
from evo.files import CacheFolder, cache_folder
from evo.sim.ptx.ast import WIDTH

_COMPILED = CacheFolder(cache_folder("compile-tests"), 64 << 20)
KERNELS = Path(__file__).parent / "kernels"
HEAD = ".version 9.0\n.target sm_89\n.address_size 64\n"
DTYPES = {
    "u8": np.uint8, "s8": np.int8, "u16": np.uint16, "s16": np.int16, "b16": np.uint16, "f16": np.float16,
    "bf16": np.uint16, "u32": np.uint32, "s32": np.int32, "b32": np.uint32, "f32": np.float32, "f16x2": np.uint32,
    "bf16x2": np.uint32, "u64": np.uint64, "s64": np.int64, "b64": np.uint64, "f64": np.float64,
}  # fmt: skip


def include_folder() -> Path:
    found = importlib.util.find_spec("nvidia")
    assert found is not None
    assert found.submodule_search_locations
    return Path(next(iter(found.submodule_search_locations))) / "cu13" / "include"


@functools.cache
def nvrtc(source: str, *options: str) -> str:
    """PTX of a CUDA text for compute_89, with line information; kept, as it is the same each time."""
    name = hashlib.sha256("\0".join([toolkit_version(), source, *options]).encode()).hexdigest()
    if (known := _COMPILED.read(name)) is not None:
        return known.decode()
    found = _compiled(source, options)
    _COMPILED.keep(name, found.encode())
    return found


def _compiled(source: str, options: tuple[str, ...]) -> str:
    from cuda.bindings import nvrtc as api

    _, program = api.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    flags = ["--gpu-architecture=compute_89", f"-I{include_folder()}", "-lineinfo", "--std=c++17", *options]
    raw = [flag.encode() for flag in flags]
    (error,) = api.nvrtcCompileProgram(program, len(raw), raw)
    if int(error):
        _, size = api.nvrtcGetProgramLogSize(program)
        log = b" " * size
        api.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.decode())
    _, size = api.nvrtcGetPTXSize(program)
    text = b" " * size
    api.nvrtcGetPTX(program, text)
    return text.decode().rstrip("\0")


def module(source: str, *options: str, opt_level: int = 1) -> sim.Module:
    return sim.load(nvrtc(source, *options), opt_level=opt_level)


def run(
    source: str | sim.Module,
    kernel: str,
    arrays: list[Any],
    *,
    grid: tuple[int, ...] = (1,),
    block: tuple[int, ...] = (32,),
    options: tuple[str, ...] = (),
    undefined: tuple[int, ...] = (),
    readonly: tuple[int, ...] = (),
    **launch: Any,
) -> tuple[list[Any], sim.LaunchResult]:
    """Launch with arrays as buffers (scalars as they are); returns the arrays afterwards and the result.

    undefined: indices of buffers that start undefined.
    """
    loaded = module(source, *options) if isinstance(source, str) else source
    memory = sim.Memory()
    args: list[Any] = []
    for index, value in enumerate(arrays):
        if isinstance(value, np.ndarray) and value.ndim:
            buffer = memory.allocate(value.nbytes, f"arg{index}", writable=index not in readonly)
            if index not in undefined:
                memory.write(buffer, value)
            args.append(buffer)
        else:
            args.append(value)
    result = loaded.launch(kernel, grid=grid, block=block, args=args, memory=memory, **launch)
    out = [
        memory.read(arg, value.dtype, value.shape) if isinstance(arg, sim.SimBuffer) else value
        for arg, value in zip(args, arrays, strict=True)
    ]
    return out, result


def _register(kind: str) -> str:
    return "pred" if kind == "pred" else f"b{max(16, WIDTH[kind])}" if kind not in ("f32", "f64") else kind


def _storage(kind: str) -> str:
    return kind if kind in ("f32", "f64", "u8", "s8") else f"b{WIDTH[kind]}"


def program_of(body: str, out: str, kinds: list[str], count: int) -> str:
    """PTX that runs `body` once per element of `count`; operands are %a, %b, %c, %d, the result is %o of type `out`."""
    params = ", ".join(f".param .u64 p{i}" for i in range(len(kinds) + 1))
    lines = [
        HEAD,
        f".visible .entry k({params})",
        "{",
        ".reg .pred %p, %q, %z; .reg .b32 %t, %u, %i; .reg .b64 %w, %x, %y;",
    ]
    lines += [f".reg .{_register(out)} %o;", "mov.u32 %i, %tid.x; mov.u32 %t, %ctaid.x; mad.lo.u32 %i, %t, 128, %i;"]
    lines += [f"setp.ge.u32 %z, %i, {count};", "@%z ret;"]
    for index, kind in enumerate(kinds):
        name, size = "abcd"[index], np.dtype(DTYPES[kind]).itemsize
        lines += [f".reg .{_register(kind)} %{name};", f"ld.param.u64 %x, [p{index}];"]
        lines += [f"mad.wide.u32 %x, %i, {size}, %x;", f"ld.global.{_storage(kind)} %{name}, [%x];"]
    size = np.dtype(DTYPES[out]).itemsize
    lines += [body, f"ld.param.u64 %x, [p{len(kinds)}];", f"mad.wide.u32 %x, %i, {size}, %x;"]
    lines += [f"st.global.{_storage(out)} [%x], %o;", "ret;", "}"]
    return "\n".join(lines)


def one(body: str, out: str, *inputs: tuple[str, Any], opt_level: int = 1) -> Any:
    """Run `body` once per element, see `program_of`.

    Extra registers for the body: %p, %q (pred), %t, %u (b32), %w (b64).
    """
    count = max(len(np.atleast_1d(values)) for _, values in inputs)
    arrays = [np.broadcast_to(np.asarray(values, DTYPES[kind]), (count,)).copy() for kind, values in inputs]
    loaded = sim.load(program_of(body, out, [kind for kind, _ in inputs], count), opt_level=opt_level)
    outs, launched = run(
        loaded, "k", [*arrays, np.zeros(count, DTYPES[out])], grid=((count + 127) // 128,), block=(128,)
    )
    assert launched.faults == ()
    return outs[-1]
