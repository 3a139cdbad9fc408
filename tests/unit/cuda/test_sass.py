"""Instruction mixes from opcodes are those of the disassembler, which is asked for what is not known."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from long_cases import long

from evo.cuda.compile import Binary, Cache, compile_source
from evo.cuda.compile.machine_code import instruction_mix
from evo.cuda.compile.toolkit import find_toolkit
from evo.spec.task import load_task, task_names
from evo.spec.variant import read_variant

ROOT = Path(__file__).resolve().parents[3]
RUNGS = [path for name in task_names(ROOT) for path in load_task(ROOT, name).ladder()]
MANY = """\
#include <cuda_fp16.h>
__device__ __noinline__ float called(float x, int n) { return n > 3 ? sinf(x) / n : __expf(x); }
extern "C" __global__ void floats(float* o, const float4* a, int n) {
    __shared__ float s[256];
    const float4 v = a[threadIdx.x];
    s[threadIdx.x] = called(v.x, n) + sqrtf(v.y) * fmaxf(v.z, v.w);
    __syncthreads();
    atomicAdd(o + 1, v.x);
    atomicAdd(o, __shfl_xor_sync(~0u, s[255 - threadIdx.x], 1));
}
extern "C" __global__ void halves(__half2* o, const __half2* a, double* d, long long* l) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < l[0] % 7; ++k) o[i] = __hfma2(a[i], o[k], h2exp(a[k]));
    d[i] = d[i + 1] / 3.0 + static_cast<double>(l[i] >> 5) + __popcll(l[i + 1]) + __brev(i);
    l[i] = __ballot_sync(~0u, i > 5) ^ clock64();
}
"""


def built(text: str, arch: str) -> Binary:
    found = compile_source(text, name="k.cu", macros={}, arch=arch, cache=Cache(None))
    assert isinstance(found, Binary), found.reason
    return found


def disassembled(binary: Binary, folder: Path) -> dict[str, Counter[str]]:
    image = folder / "image.cubin"
    image.write_bytes(binary.cubin)
    command = [find_toolkit().nvdisasm, "-json", "-ndf", str(image)]
    functions = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)[1]
    names = {f["function-name"]: [i["opcode"].split(".")[0] for i in f["sass-instructions"]] for f in functions}
    return {name: Counter(found) - Counter({"NOP": len(found)}) for name, found in names.items()}


@pytest.mark.parametrize("arch", [long("sm_80"), "sm_89", "sm_90"])
def test_the_mix_is_the_disassemblers(arch: str, tmp_path: Path) -> None:
    binary = built(MANY, arch)
    mix = instruction_mix(binary.cubin, arch)
    assert mix is not None
    assert mix == disassembled(binary, tmp_path)
    assert {kernel.name: kernel.sass for kernel in binary.kernels} == mix
    assert mix["floats"]["MUFU"] >= 2  # also what stands in the called function


@pytest.mark.parametrize("arch", ["sm_75", "sm_89"])
def test_what_is_not_known_is_left_to_the_disassembler(arch: str) -> None:
    binary = built('extern "C" __global__ void k(int* o) { if (o[0] == 7) asm volatile("brkpt;"); }', arch)
    assert arch != "sm_89" or instruction_mix(binary.cubin, arch) is None
    assert binary.kernel("k").sass["BPT"] == 1


def test_an_image_that_the_disassembler_refuses_is_refused() -> None:
    text = '__device__ char large[1ull << 32];\nextern "C" __global__ void k(char* o) { o[0] = large[threadIdx.x]; }'
    found = compile_source(text, name="k.cu", macros={}, cache=Cache(None))
    assert not isinstance(found, Binary)
    assert "nvdisasm" in found.reason


@pytest.mark.long
@pytest.mark.parametrize("path", RUNGS, ids=lambda path: f"{path.parents[1].name}-{path.stem}")
@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90"])
def test_the_mix_of_every_rung(path: Path, arch: str, tmp_path: Path) -> None:
    variant = read_variant(path)
    axes = load_task(ROOT, variant.task).check[0].axes
    macros = {name: axes[name] for name in variant.macros}
    binary = compile_source(
        variant.text, name=path.name, macros=macros, flags=variant.flags, arch=arch, cache=Cache(None)
    )
    assert isinstance(binary, Binary), binary.reason
    assert instruction_mix(binary.cubin, arch) == disassembled(binary, tmp_path)
