"""What is not understood is refused by name with its PTX line, and no text, however mangled, does worse."""

# ruff: noqa: E501 a CUDA or PTX snippet reads best on one line
from __future__ import annotations

import random

import pytest
from harness import HEAD, KERNELS, nvrtc

from evo import sim


def kernel(body: str) -> str:
    return (
        HEAD
        + f".visible .entry k(.param .u64 p) {{\n.reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %d<9>; .reg .pred %p<4>; .reg .b16 %h<4>;\n{body}\nret;\n}}\n"
    )


REFUSED = [
    ("wgmma.fence.sync.aligned;", "wgmma"),
    ("tcgen05.wait.sync.aligned;", "tcgen05"),
    ("cp.async.bulk.commit_group;", "bulk"),
    ("mov.u32 %r1, %clock;", "clock"),
    ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%d1, {%f1, %f2}];", ""),
    ("add.rn.bogus.f32 %f1, %f2, %f3;", "bogus"),
    ("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%r1}, {%r2}, {%r3}, {%r4};", "mma"),
    ("frobnicate.u32 %r1, %r2;", "frobnicate"),
    ("ld.global.v2.f64 {%f1, %f2}, [%d1];", ""),
    ("shfl.bfly.b32 %r1, %r2, 1, 31;", "shfl"),
    ("min.xorsign.abs.f64 %d1, %d2, %d3;", "xorsign"),
    ("rsqrt.rz.f32 %f1, %f2;", "rsqrt"),
    ("prmt.b32.f5e %r1, %r2, %r3, %r4;", "prmt"),
    ("vadd.u32.u32.u32 %r1, %r2, %r3;", "vadd"),
    ("add.rn.f64x2 %d1, %d2, %d3;", "f64x2"),
    ("call %d1, (%r1), proto;", "call"),
    ("atom.global.add.v2.f32 %r1, [%d1], %r2;", "atom"),
    ("ld.param.u64 %d1, [p+4];", "8 bytes of parameters"),
    ("ld.param.u32 %r1, [p+-4];", "8 bytes of parameters"),
    ("ld.param.u32 %r1, [p+4000000000];", "8 bytes of parameters"),
    ("ld.param.u32 %r1, [4000000000];", "8 bytes of parameters"),
    ("st.global.u32 [%d1+4294967296], %r1;", "does not fit 32 bits"),
    ("bar.sync 16;", "barrier operand 16"),
]


@pytest.mark.parametrize(("line", "name"), REFUSED)
def test_refused_by_name_and_line(line: str, name: str) -> None:
    with pytest.raises(sim.PtxError) as caught:
        sim.load(kernel(line))
    assert name in str(caught.value)
    if isinstance(caught.value, sim.UnsupportedInstruction):
        assert caught.value.line == 6
        assert caught.value.hint


def test_malformed_text() -> None:
    assert sim.load(HEAD).kernel_names == ()
    for text in (
        "",
        "\n\0",
        "hello",
        kernel("mov.u32 %r1"),
        kernel("bra nowhere;"),
        kernel("mov.u32 %zz, 1;"),
        kernel("{"),
    ):
        with pytest.raises(sim.PtxError):
            sim.load(text)


def mutated(text: str, rng: random.Random) -> str:
    kind = rng.randrange(6)
    at = rng.randrange(len(text))
    if kind == 0:
        return text[:at]
    if kind == 1:
        return text[:at] + text[at + rng.randrange(1, 30) :]
    if kind == 2:
        return text[:at] + chr(rng.randrange(32, 127)) + text[at + 1 :]
    tokens = text.split(" ")
    i, j = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    if kind == 3:
        tokens[i] = tokens[j]
    elif kind == 4:
        tokens[i], tokens[j] = tokens[j], tokens[i]
    else:
        lines = text.split("\n")
        k = rng.randrange(len(lines))
        lines.insert(k, lines[rng.randrange(len(lines))])
        return "\n".join(lines)
    return " ".join(tokens)


@pytest.mark.parametrize("name", ["mm"])
def test_mutated_text_is_loaded_or_refused(name: str) -> None:
    text = nvrtc((KERNELS / f"{name}.cu").read_text())
    rng = random.Random(42)
    refused = 0
    for _ in range(120):
        try:
            sim.load(mutated(text, rng))
        except sim.PtxError:
            refused += 1
    assert refused > 24


def test_errors_cross_processes() -> None:
    import pickle

    with pytest.raises(sim.UnsupportedInstruction) as caught:
        sim.load(kernel("frobnicate.u32 %r1, %r2;"))
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.name, copy.line, str(copy)) == (caught.value.name, caught.value.line, str(caught.value))
