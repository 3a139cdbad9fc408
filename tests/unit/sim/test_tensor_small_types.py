"""mma of four-bit integers and of single bits, from the fragment tables of the PTX ISA; rarely used integer forms."""

from __future__ import annotations

import numpy as np
import pytest
from harness import one, run

RNG = np.random.default_rng(17)
TEXT = """extern "C" __global__ void k(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* d) {
  int t = threadIdx.x;
  asm volatile("mma.sync.aligned.%s;" : %s);
}"""
FORMS = [
    (f"{shape}.row.col{sat}.s32.{a}.{b}.s32", shape, a, b)
    for shape in ("m8n8k32", "m16n8k32", "m16n8k64")
    for a, b, sat in (("s4", "s4", ""), ("u4", "s4", ""), ("s4", "u4", ".satfinite"), ("u4", "u4", ""))
] + [
    (f"{shape}.row.col.s32.b1.b1.s32.{op}.popc", shape, "b1", op)
    for shape in ("m8n8k128", "m16n8k128", "m16n8k256")
    for op in ("and", "xor")
]


def elements(words: np.ndarray, kind: str) -> np.ndarray:
    """What the bits of each word stand for, lowest first."""
    if kind == "b1":
        return (words[:, None] >> np.arange(32, dtype=np.uint32)).astype(np.int64) & 1
    digits = (words[:, None] >> (4 * np.arange(8, dtype=np.uint32))).astype(np.int64) & 15
    return np.where(digits > 7, digits - 16, digits) if kind == "s4" else digits


@pytest.mark.parametrize(
    ("spelling", "shape", "kind", "other"),
    [pytest.param(*form, id=form[0], marks=() if form[1] == "m8n8k128" else pytest.mark.long) for form in FORMS],
)
def test_small_types(spelling: str, shape: str, kind: str, other: str) -> None:
    tall, per = shape.startswith("m16"), 32 if kind == "b1" else 8
    depth = int(shape.split("k")[1])
    blocks, halves = depth // (4 * per), 2 if tall else 1
    counts = (halves * blocks, blocks, 2 * halves)
    a, b = (RNG.integers(0, 1 << 32, (count, 32), dtype=np.uint32) for count in counts[:2])
    c = RNG.integers(-(1 << 31), 1 << 31, (counts[2], 32)).astype(np.int32)
    if "satfinite" not in spelling:
        c >>= 8
    lists, at = [], 0
    for count in (counts[2], *counts):
        lists.append("{" + ",".join(f"%{at + i}" for i in range(count)) + "}")
        at += count
    outs = ", ".join(f'"=r"(d[t + {32 * i}])' for i in range(counts[2]))
    ins = [f'"r"({name}[t + {32 * i}])' for name, count in zip("abc", counts, strict=True) for i in range(count)]
    text = TEXT % (f"{spelling} {', '.join(lists)}", f"{outs} : {', '.join(ins)}")
    out, result = run(
        text, "k", [a.reshape(-1), b.reshape(-1), c.reshape(-1).view(np.uint32), np.zeros(128, np.uint32)]
    )
    assert result.faults == ()

    lane = np.arange(32)
    group, quad = lane // 4, lane % 4
    left, right = np.zeros((8 * halves, depth), np.int64), np.zeros((depth, 8), np.int64)
    for j in range(per):
        for i in range(halves * blocks):
            left[group + 8 * (i % halves), quad * per + j + 4 * per * (i // halves)] = elements(a[i], kind)[:, j]
        for i in range(blocks):
            right[quad * per + j + 4 * per * i, group] = elements(b[i], kind if kind == "b1" else other)[:, j]
    products = (left[:, :, None] ^ right[None]).sum(axis=1) if other == "xor" else left @ right
    for i in range(counts[2]):
        expected = products[group + 8 * (i // 2), 2 * quad + i % 2] + c[i]
        if "satfinite" in spelling:
            expected = np.clip(expected, -(1 << 31), (1 << 31) - 1)
        np.testing.assert_array_equal(out[3][32 * i : 32 * i + 32].view(np.int32), expected)


WIDE = RNG.integers(-(1 << 31), 1 << 31, (3, 512))


def test_sums_of_high_products_saturate() -> None:
    a, b, c = WIDE
    low, high = -(1 << 31), (1 << 31) - 1
    got = one("mad.hi.sat.s32 %o, %a, %b, %c;", "s32", ("s32", a), ("s32", b), ("s32", c))
    np.testing.assert_array_equal(got, np.clip((a * b >> 32) + c, low, high))
    cut = [(x << 40) >> 40 for x in (a, b)]
    got = one("mad24.hi.sat.s32 %o, %a, %b, %c;", "s32", ("s32", a), ("s32", b), ("s32", c))
    middle = (cut[0] * cut[1] >> 16).astype(np.int32).astype(np.int64)
    np.testing.assert_array_equal(got, np.clip(middle + c, low, high))


@pytest.mark.parametrize("kind", ["s4", "u4", "s2", "u2"])
def test_small_integers_are_packed_saturated(kind: str) -> None:
    a, b, c = RNG.integers(-20, 20, (3, 256))
    bits = int(kind[1])
    low = -(1 << bits - 1) if kind[0] == "s" else 0
    parts = [np.clip(x, low, low + (1 << bits) - 1) & ((1 << bits) - 1) for x in (a, b)]
    got = one(f"cvt.pack.sat.{kind}.s32.b32 %o, %a, %b, %c;", "b32", ("s32", a), ("s32", b), ("s32", c))
    expected = (c << 2 * bits) | parts[0] << bits | parts[1]
    np.testing.assert_array_equal(got, (expected & 0xFFFFFFFF).astype(np.uint32))


@pytest.mark.parametrize("name", ["min", "max"])
def test_magnitudes_of_halves_with_the_sign_of_the_product(name: str) -> None:
    a, b = RNG.standard_normal((2, 256)).astype(np.float16)
    got = one(f"{name}.xorsign.abs.f16 %o, %a, %b;", "f16", ("f16", a), ("f16", b))
    pick = np.minimum if name == "min" else np.maximum
    expected = np.copysign(pick(abs(a), abs(b)), np.sign(a) * np.sign(b))
    np.testing.assert_array_equal(got.view(np.uint16), expected.astype(np.float16).view(np.uint16))
