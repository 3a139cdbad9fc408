"""Addresses, opcodes, predicates, branch targets and PTX lines of machine code are those of the disassembler."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from long_cases import long

from evo.cuda.compile import Binary, Cache, compile_source
from evo.cuda.compile.machine_code import machine_code
from evo.cuda.compile.toolkit import find_toolkit

SOURCE = """\
extern "C" __global__ void first(float* o, const float* a, int n) {
    for (int i = threadIdx.x; i < n; i += 32) o[i] = a[i] / a[i + 1];
}
__device__ __noinline__ float root(float x) { return sqrtf(x); }
extern "C" __global__ void second(float* o, const float* a, int n) {
    __shared__ float s[64];
    s[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    float x = 0;
    for (int i = 0; i < n; ++i) x += s[i] * x;
    if (x > 3) o[threadIdx.x] = root(x);
}
"""
ROW = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+ )?\s*([A-Z]\w*)([^;]*);")


def disassembled(binary: Binary, folder: Path) -> dict[str, dict[int, tuple[str, bool, int, int | None]]]:
    image = folder / "image.cubin"
    image.write_bytes(binary.cubin)
    command = [find_toolkit().nvdisasm, "-gp", str(image)]
    text = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    rows: dict[str, dict[int, tuple[str, bool, int, str]]] = {}
    labels: dict[str, int] = {}
    kernel, line, waiting = "", 0, []
    for row in text.splitlines():
        if found := re.match(r"\s*\.section\s+(\S+?),", row):
            kernel, line = found[1].removeprefix(".text.") if found[1].startswith(".text.") else "", 0
        elif found := re.search(r"//## File .*, line (\d+)", row):
            line = int(found[1])
        elif found := re.match(r"(\.L_x_\d+):", row):
            waiting.append(found[1])
        elif kernel and (found := ROW.match(row)):
            labels |= dict.fromkeys(waiting, int(found[1], 16))
            waiting = []
            rows.setdefault(kernel, {})[int(found[1], 16)] = (found[3], bool(found[2]), line, found[4])
    return {
        name: {
            at: (opcode, guarded, line, labels[label[1]] if (label := re.search(r"\((\.L_x_\d+)\)", rest)) else None)
            for at, (opcode, guarded, line, rest) in of.items()
        }
        for name, of in rows.items()
    }


@pytest.mark.parametrize("arch", ["sm_89", long("sm_90")])
def test_it_is_the_disassemblers(arch: str, tmp_path: Path) -> None:
    binary = compile_source(SOURCE, name="k.cu", macros={}, arch=arch, cache=Cache(None))
    assert isinstance(binary, Binary), binary.reason
    code = machine_code(binary.cubin, arch)
    found = disassembled(binary, tmp_path)
    assert set(code) == set(found) == {"first", "second"}
    for name, instructions in code.items():
        assert len(instructions) > 20
        for ins in instructions:
            opcode, guarded, line, target = found[name][ins.address]
            assert (ins.opcode, ins.guarded, ins.line) == (opcode, guarded, line), (arch, name, hex(ins.address))
            if ins.opcode == "BRA":
                assert ins.target == target
    assert any(ins.helper for ins in code["first"])  # the slow path of the division
    own = next(ins.target for ins in code["second"] if ins.opcode == "CALL" and not ins.helper)
    assert [ins.helper for ins in code["second"] if ins.address == own] == [False]  # the text's own function
    loads = [ins for ins in code["first"] if ins.opcode == "LDG"]
    assert all(0 <= ins.sets < 6 for ins in loads)
    assert machine_code(binary.cubin, "sm_120") == {}
