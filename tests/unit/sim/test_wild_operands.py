"""Addresses, indices and numbers that a kernel computes and nobody expects: a fault each, never a stray access."""

# ruff: noqa: E501 a CUDA or PTX snippet reads best on one line
from __future__ import annotations

import numpy as np
import pytest
from harness import HEAD, run

from evo import sim
from evo.sim.printing import formatted

I32 = np.int32
DECLARED = ".reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<9>; .reg .b64 %d<9>; ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, %tid.x;"


def kernel(body: str) -> sim.Module:
    text = f".visible .entry k(.param .u64 p0, .param .u64 p1) {{ {DECLARED}\n{body}\nret; }}"
    return sim.load(HEAD + text, opt_level=0)


def first_fault(body: str, value: int = 0) -> sim.LaunchResult:
    _, result = run(kernel(body), "k", [np.zeros(64, I32), np.uint64(value)])
    assert result.faults, "nothing was reported"
    return result


@pytest.mark.parametrize("address", [0, 1 << 63, (1 << 63) + 1, (1 << 64) - 1, 0x7001_0000_0000])
@pytest.mark.parametrize(
    "line",
    [
        "ld.global.u8 %r2, [%d2];",
        "setp.eq.u32 %p1, %r1, 7; selp.b64 %d2, %d2, %d1, %p1; ld.u8 %r2, [%d2];",
        "setp.eq.u32 %p1, %r1, 7; selp.b64 %d2, %d2, %d1, %p1; st.global.u8 [%d2], 1;",
        "setp.eq.u32 %p1, %r1, 7; selp.b64 %d2, %d2, %d1, %p1; atom.cas.b16 %h1, [%d2], 0, 1;",
    ],
)
def test_bytes_at_addresses_that_no_buffer_has(line: str, address: int) -> None:
    fault = first_fault(f"{line} st.global.u32 [%d1+128], %r2;" if "%r2" in line else line, address).faults[0]
    assert fault.kind in ("out_of_bounds", "misaligned")
    assert fault.address == address
    assert f"{address:#x}" in fault.message


@pytest.mark.parametrize("offset", [1, 4, 8, 12])
def test_wide_accesses_of_buffers_at_odd_places(offset: int) -> None:
    """Device alignment decides; where the host keeps the bytes does not matter."""
    memory = sim.Memory()
    buffer = memory.allocate(16 * 40, "odd", offset=offset)
    values = np.arange(160, dtype=I32)
    memory.write(buffer, values)
    body = """add.u64 %d1, %d1, 15; and.b64 %d1, %d1, -16; mad.wide.u32 %d1, %r1, 16, %d1; setp.ne.u32 %p1, %r1, 3; setp.lt.u32 %p2, %r1, 30;
    @%p2 ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%d1]; add.u32 %r2, %r2, 1; and.pred %p1, %p1, %p2; @%p1 st.global.v4.u32 [%d1], {%r2, %r3, %r4, %r5};
    @%p1 st.v2.b64 [%d1], {%d1, %d1}; @%p1 st.global.v4.u32 [%d1], {%r2, %r3, %r4, %r5};"""
    result = kernel(body).launch("k", grid=(1,), block=(32,), args=[buffer, np.uint64(0)], memory=memory)
    assert result.faults == ()
    raw, skip = bytearray(values.tobytes()), 16 - offset
    for lane in range(30):
        at = skip + 16 * lane
        if lane != 3:
            raw[at : at + 4] = ((int.from_bytes(raw[at : at + 4], "little") + 1) % 2**32).to_bytes(4, "little")
    assert memory.read(buffer, np.uint8, 640).tobytes() == bytes(raw)


def test_parameters_end() -> None:
    result = first_fault(
        "mov.u64 %d3, p0; mad.wide.u32 %d3, %r1, 4, %d3; ld.param.u32 %r2, [%d3]; st.global.u32 [%d1], %r2;"
    )
    assert (result.faults[0].kind, result.faults[0].thread) == ("out_of_bounds", (4, 0, 0))
    assert "parameter offset 16 of 16 bytes" in result.faults[0].message
    result = first_fault(
        "mov.u64 %d3, p0; add.u64 %d3, %d3, %d2; ld.param.u32 %r2, [%d3]; st.global.u32 [%d1], %r2;", 2
    )
    assert result.faults[0].kind == "misaligned"


TABLE = (
    "t: .branchtargets A, B; brx.idx %r1, t; A: mov.u32 %r2, 1; bra E; B: mov.u32 %r2, 2; E: st.global.u32 [%d1], %r2;"
)


@pytest.mark.parametrize(("first", "thread"), [("", 2), ("cvt.u32.u64 %r1, %d2;", 0)])
def test_a_jump_beyond_its_table(first: str, thread: int) -> None:
    fault = first_fault(first + TABLE, 5).faults[0]
    assert (fault.kind, fault.thread) == ("trap", (thread, 0, 0))
    assert fault.message == "brx.idx with an index beyond the 2 targets of its table"


@pytest.mark.parametrize("line", ["bar.sync %r2;", "bar.arrive %r2, 64;"])
def test_a_barrier_that_a_block_does_not_have(line: str) -> None:
    fault = first_fault(f"cvt.u32.u64 %r2, %d2; {line}", 20).faults[0]
    assert fault.kind == "barrier"
    assert "at barrier 20, but a block has 16: 0 to 15" in fault.message
    with pytest.raises(sim.UnsupportedInstruction, match="barrier operand 20"):
        kernel(line.replace("%r2", "20"))


def test_generic_addresses_of_parameters_and_the_space_of_a_pointer() -> None:
    text = """struct P { int a[8]; }; __constant__ int c[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    extern "C" __global__ void k(const __grid_constant__ P p, int* y, int n) { __shared__ int s[32]; int l[2], i = threadIdx.x; l[i & 1] = i; l[~i & 1] = 0; s[i] = -i;
      const int* q = i % 5 == 0 ? p.a + (i & n) : i % 5 == 1 ? y + 32 + i : i % 5 == 2 ? s + i : i % 5 == 3 ? l + (i & 1) : c + (i & 7);
      int g; asm volatile("{ .reg .pred p; isspacep.global p, %1; selp.s32 %0, 1, 0, p; }" : "=r"(g) : "l"(q));
      y[i] = *q * 32 + g + 2 * __isShared(q) + 4 * __isLocal(q) + 8 * __isConstant(q); }"""
    values = np.arange(10, 18, dtype=I32)
    whole = np.frombuffer(values.tobytes(), np.uint8)[None].view("V32")[0, 0]
    y = np.arange(64, dtype=I32)
    out, result = run(text, "k", [whole, y, I32(7)])
    assert result.faults == ()
    expected = [
        [32 * values[i & 7] + 1, 32 * (i + 32) + 1, -32 * i + 2, 32 * i + 4, 32 * (1 + (i & 7)) + 8][i % 5]
        for i in range(32)
    ]
    assert out[1][:32].tolist() == expected
    _, result = run(text, "k", [whole, y, I32(31)])
    assert (result.faults[0].kind, result.faults[0].thread) == ("out_of_bounds", (15, 0, 0))
    assert "byte 60 of buffer of the parameters" in result.faults[0].message


FORMATS = [
    ("%.*f", np.array([-1], I32).tobytes() + bytes(4) + np.array([2.5]).tobytes(), "2.500000"), ("%*d|", np.array([-6, 7], I32).tobytes(), "7     |"),
    ("%hhd %hu", np.array([300, 70000], I32).tobytes(), "44 4464"), ("%a|%8a", np.array([1.5, 2.0]).tobytes(), "0x1.8p+0|  0x1p+1"),
    ("%#o %#x", np.array([9, 255], I32).tobytes(), "011 0xff"), ("%p %s", bytes(16), "(nil) (null)"), ("%+u % d", np.array([5, 5], I32).tobytes(), "5  5"),
    ("%.99999f"[:5], np.array([1.0]).tobytes(), "%.999"), ("%d %d", b"", "0 0"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "data", "expected"), FORMATS)
def test_formats_of_c(text: str, data: bytes, expected: str) -> None:
    assert formatted(text, data, []) == expected
