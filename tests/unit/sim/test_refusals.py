"""What is not understood is refused by name with its PTX line, and no text, however mangled, does worse."""

# ruff: noqa: E501 a CUDA or PTX snippet reads best on one line
from __future__ import annotations

import random
from dataclasses import replace

import pytest
from harness import HEAD, KERNELS, nvrtc

from evo import sim
from evo.errors import CandidateFailed, EvoError, HarnessFault
from evo.sim.lower.isa import TABLE


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
    ("add.rn.f64x2 %d1, %d2, %d3;", "f64x2"),
    ("call %d1, (%r1), proto;", "call"),
    ("atom.global.add.v2.f32 %r1, [%d1], %r2;", "atom"),
    ("ld.param.u64 %d1, [p+4];", "8 bytes of parameters"),
    ("ld.param.u32 %r1, [p+-4];", "8 bytes of parameters"),
    ("ld.param.u32 %r1, [p+4000000000];", "8 bytes of parameters"),
    ("ld.param.u32 %r1, [4000000000];", "8 bytes of parameters"),
    ("st.global.u32 [%d1+4294967296], %r1;", "does not fit 32 bits"),
    ("bar.sync 16;", "barrier operand 16"),
    ("mov.u32 %r1, %envreg2;", "grid.sync()"),
    # Operands and modifiers of the wrong form
    ("ld.global %r1, [%d1];", "type"),
    ("ld.global.relaxed %r1, [%d1];", "type"),
    ("ld.param.u32 %r1, 4;", "address"),
    ("ld.shared.u32 %r1, %r2;", "address"),
    ("ld.global.u32 %r1, [%p1];", "an address of 1 bits"),
    ("st.global.v2.b32 [%d1], %r1;", "vector length"),
    ("st.global.b32 [%d1], {%r1, %r2};", "vector length"),
    ("mad.wide.u64 %d1, %d2, %d3, %d4;", "128-bit"),
    ("mad.wide.hi %d1, %r2, %r3, %d4;", "type"),
    ("mul.lo.hi.u32 %r1, %r2, %r3;", "one of .lo, .hi"),
    ("lop3.b32 %r1, %r2, %r3, %r4, 7, %p1;", "one of .and, .or"),
    ("testp.f32 %p1, %f1;", "one of .finite"),
    ("setp.lt.and.f16 %p1, %h1, %h2;", "operands"),
    ("setp.lt.f32 %p1, %f1, %f2, %p2;", "operands"),
    ("setp.f32 %p1, %f1, %f2;", "one of .eq"),
    ("div.f16 %h1, %h2, %h3;", "type .f16"),
    ("lg2.f16 %h1, %h2;", "type .f16"),
    ("cvt.pack.sat %r1, %r2, %r3;", "cvt"),
    ("cvt.u32.f16x2 %r1, %r2;", "cvt"),
    ("isspacep %p1, %d1;", "one of .shared"),
    ("shfl.sync.b32 %r1, %r2, 1, 31, -1;", "one of .idx"),
    ("vote.sync.pred %p1, %p2, -1;", "one of .all"),
    ("redux.sync %r1, %r2, -1;", "one of .add"),
    ("match.sync.b32 %r1, %r2, -1;", "one of .any"),
    ("bar.red.popc.u32 %r1;", "operands"),
    ("mma.sync.aligned.row.col.f32.f16.f16.f32 {%r1}, {%r2}, {%r3}, {%r4};", "one of .m8n8k4"),
    ("call (%r1), 7, (%r2);", "no function"),
    ("add.u32 %r1, !%r2, 1;", "operand form"),
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
    assert not sim.load(HEAD).kernels
    for text in (
        "",
        "\n\0",
        "hello",
        kernel("mov.u32 %r1"),
        kernel("bra nowhere;"),
        kernel("mov.u32 %zz, 1;"),
        kernel("{"),
        kernel(".reg %x;"),
        kernel(".shared .u32 s = 1;"),
        kernel("mov.u32 %r1, " + "(" * 5000 + "1;"),
        HEAD + ".global .f32 x = 1.0e300;",
        HEAD + ".global .u64 x = 0xFF({});",
        HEAD + ".func f(.reg .b32 a[4]) { ret; }",
    ):
        with pytest.raises(sim.PtxError):
            sim.load(text)


@pytest.mark.parametrize("error", [KeyError, IndexError, AssertionError, AttributeError, TypeError, ValueError])
def test_a_defect_of_the_simulator_is_no_refusal(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def emit(*_: object) -> None:
        raise error("a register nobody knows")

    monkeypatch.setitem(TABLE, "add", replace(TABLE["add"], emit=emit))
    with pytest.raises(HarnessFault) as caught:
        sim.load(kernel("add.u32 %r1, %r2, 77;"))
    assert caught.value.exit_code == 5
    for word in (error.__name__, "a register nobody knows", "PTX line 6", "add.u32 %r1, %r2, 77;"):
        assert word in caught.value.message


def test_a_refusal_is_no_failure_of_the_harness() -> None:
    for text in ("", kernel("frobnicate.u32 %r1, %r2;")):
        with pytest.raises(CandidateFailed) as caught:
            sim.load(text)
        assert not isinstance(caught.value, EvoError)


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


@pytest.mark.parametrize("text", ["", "  \n", "\0"])
def test_no_text_is_no_module(text: str) -> None:
    with pytest.raises(sim.PtxError):
        sim.load(text)


@pytest.mark.parametrize("text", ["", " \n", "\0", "// nothing\n", ".version 9.0\n", "/* .target sm_89 */"])
def test_a_text_without_ptx_is_none(text: str) -> None:
    with pytest.raises(CandidateFailed):
        sim.load(text)
