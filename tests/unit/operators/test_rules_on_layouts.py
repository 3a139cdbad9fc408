"""Products and convolutions whose factors lie in any order, of any type and idiom, become tiles that pass the gate."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from rule_children import TASKS, built, example, passes

from evo.evaluate.session import EvaluationSession
from evo.spec.task import Task, read_task
from evo.spec.variant import Variant, parse_variant

KERNEL = """\
// evo: task product
// evo: launch product grid ({grid}) block (16, 16) shared 0
#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void product(const {kind}* a, const {kind}* b, {out}* c{axes}) {{
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y, z = blockIdx.z;
{body}
}}
"""
TASK = """\
name: product
axes: {{{names}}}
tensors:
  - {{name: a, role: in, dtype: {dtype}, shape: [{left}]}}
  - {{name: b, role: in, dtype: {dtype}, shape: [{right}]}}
  - {{name: c, role: out, dtype: {out}, shape: [{shape}]{init}}}
tolerance: {{rtol: {near}, atol: {near}, rival_error_factor: 64, because: an example}}
check:
  - {{name: whole, {whole}}}
  - {{name: ragged, {ragged}}}
bench:
  big: {{{big}}}
work: {{flop: 1, bytes: 1}}
"""
REFERENCE = """\
import numpy as np


def inputs(case, rng):
    S, H, D, T = (case.get(axis, 1) for axis in "SHDT")
    return {{"a": rng.{draw}({left}), "b": rng.{draw}({right})}}


def expected(inputs):
    a, b = (inputs[name].astype(np.{wide}) for name in "ab")
{lines}
    return {{"c": c}}
"""
# One product for each way to lie: name, types, shapes of a, b and c, cases, the kernel's body, the reference.
HEADS = ("S=64, H=2, D=32, T=48", "S=37, H=3, D=19, T=21", "S=512, H=8, D=64, T=512")
PLANES = """\
    if (x >= T || y >= S) return;
    float sum = 0.0f;
    for (int d = 0; d < D; d++)
        sum += (float)a[(y * H + z) * D + d] * (float)b[(z * D + d) * T + x];
    c[(z * S + y) * T + x] = (half)(sum * 0.5f);"""
TURNS = """\
    if (x >= T || y >= S) return;
    float sum = 0.0f;
    for (int h = 0; h < H; h++)
        for (int d = 0; d < D; d++)
            sum += __bfloat162float(a[(y * H + h) * D + d]) * __bfloat162float(b[(h * T + x) * D + d]);
    c[y * T + x] = __float2bfloat16(sum);"""
BYTES = """\
    if (x >= T || y >= S) return;
    int sum = 0;
    for (int d = 0; d < D; d++) sum += a[d * S + y] * b[x * D + d];
    c[y * T + x] = sum;"""
SHARES = """\
    if (x >= T || y >= S) return;
    float sum = 0.0f;
    for (int d = z * 8; d < min(D, z * 8 + 8); d++) sum += __half2float(a[y * D + d]) * __half2float(b[x * D + d]);
    atomicAdd(&c[y * T + x], sum);"""
BY_HAND = """\
    if (x >= T || y >= S) return;
    float sum = 0.0f;
    for (int d = 0; d < D; d += 4) {
        sum += __half2float(a[y * D + d]) * __half2float(b[x * D + d]);
        sum += __half2float(a[y * D + d + 1]) * __half2float(b[x * D + d + 1]);
        sum += __half2float(a[y * D + d + 2]) * __half2float(b[x * D + d + 2]);
        sum += __half2float(a[y * D + d + 3]) * __half2float(b[x * D + d + 3]);
    }
    c[y * T + x] = __float2half(sum);"""
IMAGE = """\
    if (x >= T || y >= S) return;
    float sum = 0.0f;
    for (int d = 0; d < D; d++)
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) {
                int r = y + i - 1, q = x + j - 1;
                float v = (r >= 0 && r < S && q >= 0 && q < T) ? __half2float(a[((D - 1 - d) * S + r) * T + q]) : 0.0f;
                sum += v * __half2float(b[((z * D + d) * 3 + i) * 3 + j]);
            }
    c[(z * S + y) * T + x] = __float2half(sum);"""
WINDOWS = (
    "    s, t = a.shape[1:]\n    c = np.zeros((b.shape[0], s, t))\n    for i in range(3):\n        for j in range(3):\n"
    "            r, q = slice(max(0, 1 - i), min(s, s + 1 - i)), slice(max(0, 1 - j), min(t, t + 1 - j))\n"
    "            near = a[:, r.start + i - 1 : r.stop + i - 1, q.start + j - 1 : q.stop + j - 1]\n"
    "            c[:, r, q] += np.einsum('dst,nd->nst', near[::-1], b[:, :, i, j])"
)
GRID, PLANE = "ceil_div(T, 16), ceil_div(S, 16)", "ceil_div(T, 16), ceil_div(S, 16), H"
FLAT = ("S=64, D=64, T=48", "S=37, D=20, T=21", "S=512, D=256, T=512")
WAYS = {
    "planes": ("half", "half", "S, H, D", "H, D, T", "H, S, T", HEADS, PLANE, PLANES,
               "    c = np.einsum('shd,hdt->hst', a, b) * 0.5"),
    "turns": ("bfloat16", "bfloat16", "S, H, D", "H, T, D", "S, T", HEADS, GRID, TURNS,
              "    c = np.einsum('shd,htd->st', a, b)"),
    "bytes": ("int8", "int32", "D, S", "T, D", "S, T", FLAT, GRID, BYTES,
              "    c = np.einsum('ds,td->st', a, b).astype(np.int32)"),
    "shares": ("half", "float32", "S, D", "T, D", "S, T", FLAT, f"{GRID}, ceil_div(D, 8)", SHARES, "    c = a @ b.T"),
    "by_hand": ("half", "half", "S, D", "T, D", "S, T", FLAT, GRID, BY_HAND, "    c = a @ b.T"),
    "image": ("half", "half", "D, S, T", "H, D, 3, 3", "H, S, T",
              ("S=16, H=9, D=4, T=12", "S=7, H=5, D=3, T=11", "S=64, H=64, D=64, T=64"), PLANE, IMAGE, WINDOWS),
}  # fmt: skip
C_TYPES = {"half": "half", "bfloat16": "__nv_bfloat16", "int8": "signed char", "int32": "int", "float32": "float"}


def laid_out(folder: Path, name: str) -> tuple[Task, Variant]:
    kind, out, left, right, shape, cases, grid, body, lines = WAYS[name]
    axes = [part.split("=")[0].strip() for part in cases[0].split(",")]
    whole, ragged, big = (case.replace("=", ": ") for case in cases)
    dtypes = {"half": "float16"}
    folder = folder / "product"
    (folder / "ladder").mkdir(parents=True)
    said = TASK.format(
        near={"half": 2e-3, "float32": 2e-3, "int32": 0}.get(out, 1e-2),
        names=", ".join(f"{axis}: int" for axis in axes),
        dtype=dtypes.get(kind, kind),
        out=dtypes.get(out, out),
        left=left,
        right=right,
        shape=shape,
        init=", init: zero" if name == "shares" else "",
        whole=whole,
        ragged=ragged,
        big=big,
    )
    (folder / "task.yaml").write_text(said)
    drawn = ("integers", f"-128, 128, ({left})", f"-128, 128, ({right})", "int64") if kind == "int8" else None
    draw, first, second, wide = drawn or ("standard_normal", f"({left})", f"({right})", "float64")
    (folder / "reference.py").write_text(REFERENCE.format(draw=draw, left=first, right=second, wide=wide, lines=lines))
    text = KERNEL.format(
        grid=grid, kind=C_TYPES[kind], out=C_TYPES[out], axes="".join(f", int {axis}" for axis in axes), body=body
    )
    return read_task(folder), parse_variant(text)


def rule_of(name: str) -> str:
    return "convolution_mma" if name == "image" else "tile_mma"


@pytest.mark.parametrize("name", WAYS)
def test_every_layout_is_seen(tmp_path: Path, name: str) -> None:
    task, before = laid_out(tmp_path, name)
    assert built(rule_of(name), before, task)


@pytest.mark.long
@pytest.mark.parametrize("name", WAYS)
def test_its_child_passes_the_gate(bench: EvaluationSession, tmp_path: Path, name: str) -> None:
    task, before = laid_out(tmp_path, name)
    child = built(rule_of(name), before, task)[0]
    assert passes(bench, task, child)


@pytest.mark.parametrize(("atol", "is_split"), [("1e-3", False), ("1e-4", True)])
def test_weights_of_attention_are_as_exact_as_the_task_wants(tmp_path: Path, atol: str, *, is_split: bool) -> None:
    folder = TASKS / "attention_mma"
    shutil.copytree(folder, tmp_path / "attention_mma")
    said = (folder / "task.yaml").read_text()
    (tmp_path / "attention_mma" / "task.yaml").write_text(re.sub(r"atol: [0-9.e-]+", f"atol: {atol}", said))
    text = built("attention_mma", example("attention_mma"), read_task(tmp_path / "attention_mma"))[0].text
    assert ("isfinite" in text) == is_split
