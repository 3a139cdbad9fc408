"""Integer instructions against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from harness import DTYPES, one
from integer_samples import RNG, samples

WIDTHS = {"16": 16, "32": 32, "64": 64}


def big(x: np.ndarray) -> list[int]:
    return [int(v) for v in x]


def wrap(values: list[int], kind: str) -> np.ndarray:
    width = DTYPES[kind](0).itemsize * 8
    raw = np.array([v & ((1 << width) - 1) for v in values], dtype=np.uint64)
    return raw.astype(f"u{width // 8}").view(DTYPES[kind])


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("op", ["add", "sub", "mul.lo", "mul.hi", "min", "max", "div", "rem"])
def test_binary(op: str, kind: str) -> None:
    a, b = samples(kind), samples(kind)
    if op in ("div", "rem"):
        b[b == 0] = 3
    got = one(f"{op}.{kind} %o, %a, %b;", kind, (kind, a), (kind, b))
    width = a.itemsize * 8

    def trunc_div(x: int, y: int) -> int:
        return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)

    how = {
        "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul.lo": lambda x, y: x * y,
        "mul.hi": lambda x, y: x * y >> width, "min": min, "max": max, "div": trunc_div,
        "rem": lambda x, y: x - y * trunc_div(x, y),
    }[op]  # fmt: skip
    assert (got == wrap([how(x, y) for x, y in zip(big(a), big(b), strict=True)], kind)).all()


def test_division_by_zero_and_overflow_do_not_trap() -> None:
    low = np.iinfo(np.int32).min
    got = one("div.s32 %o, %a, %b;", "s32", ("s32", [low, 5, -5]), ("s32", [-1, 0, 0]))
    assert got.tolist() == [low, -1, -1]
    assert one("rem.s32 %o, %a, %b;", "s32", ("s32", [low, 5]), ("s32", [-1, 0])).tolist() == [0, 5]
    assert one("div.u64 %o, %a, %b;", "u64", ("u64", [9]), ("u64", [0])).tolist() == [2**64 - 1]


@pytest.mark.parametrize(("kind", "wide"), [("u16", "u32"), ("s16", "s32"), ("u32", "u64"), ("s32", "s64")])
def test_wide_products(kind: str, wide: str) -> None:
    a, b, c = samples(kind), samples(kind), samples(wide)
    expect = [x * y for x, y in zip(big(a), big(b), strict=True)]
    assert (one(f"mul.wide.{kind} %o, %a, %b;", wide, (kind, a), (kind, b)) == wrap(expect, wide)).all()
    got = one(f"mad.wide.{kind} %o, %a, %b, %c;", wide, (kind, a), (kind, b), (wide, c))
    assert (got == wrap([e + z for e, z in zip(expect, big(c), strict=True)], wide)).all()


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64", "b32", "b64"])
@pytest.mark.parametrize("op", ["shl", "shr"])
def test_shifts_clamp(op: str, kind: str) -> None:
    if op == "shl":
        kind = "b" + kind[1:]
    a = samples(kind)
    n = np.array([0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 2**31, 2**32 - 1] * 12, np.uint32)[: len(a)]
    got = one(f"{op}.{kind} %o, %a, %b;", kind, (kind, a), ("u32", n))
    expect = [x << min(s, 64) if op == "shl" else x >> min(s, 64) for x, s in zip(big(a), big(n), strict=True)]
    assert (got == wrap(expect, kind)).all()


@pytest.mark.parametrize("side", ["l", "r"])
@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_funnel_shift(side: str, mode: str) -> None:
    low, high = samples("b32"), samples("b32")
    n = np.array([0, 1, 8, 31, 32, 33, 40, 63, 64] * 20, np.uint32)[: len(low)]
    got = one(f"shf.{side}.{mode}.b32 %o, %a, %b, %c;", "b32", ("b32", low), ("b32", high), ("u32", n))
    expect = []
    for x, y, amount in zip(big(low), big(high), big(n), strict=True):
        s = amount & 31 if mode == "wrap" else min(amount, 32)
        pair = y << 32 | x
        expect.append((pair << s) >> 32 if side == "l" else pair >> s)
    assert (got == wrap(expect, "b32")).all()


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_bit_fields(kind: str) -> None:
    a, b = samples(kind), samples("b" + kind[1:])
    width = a.itemsize * 8
    pos = np.array([0, 1, 5, 16, 31, 32, 63, 64, 200] * 20, np.uint32)[: len(a)]
    size = np.array([0, 1, 3, 8, 16, 32, 64, 255] * 20, np.uint32)[: len(a)]
    got = one(f"bfe.{kind} %o, %a, %b, %c;", kind, (kind, a), ("u32", pos), ("u32", size))
    expect = []
    for x, p, n in zip(big(a), big(pos), big(size), strict=True):
        bits = x & ((1 << width) - 1)
        sign = 0 if kind[0] == "u" or n == 0 else bits >> min(p + n - 1, width - 1) & 1
        expect.append(sum((bits >> (p + i) & 1 if i < n and p + i < width else sign) << i for i in range(width)))
    assert (got == wrap(expect, kind)).all()
    other = "b" + kind[1:]
    got = one(
        f"bfi.{other} %o, %a, %b, %c, %d;", other, (other, a.view(b.dtype)), (other, b), ("u32", pos), ("u32", size)
    )
    expect = []
    for x, y, p, n in zip(big(a.view(b.dtype)), big(b), big(pos), big(size), strict=True):
        value = y
        for i in range(n):
            if p + i < width:
                value = value & ~(1 << (p + i)) | (x >> i & 1) << (p + i)
        expect.append(value)
    assert (got == wrap(expect, other)).all()


@pytest.mark.parametrize("width", [32, 64])
def test_bit_counts(width: int) -> None:
    a = samples(f"b{width}")
    a[:3] = [0, 1, 2**width - 1]
    bins = [format(int(x), f"0{width}b") for x in a]
    kind = (f"b{width}", a)
    assert one(f"popc.b{width} %o, %a;", "u32", kind).tolist() == [b.count("1") for b in bins]
    assert one(f"clz.b{width} %o, %a;", "u32", kind).tolist() == [len(b) - len(b.lstrip("0")) for b in bins]
    assert one(f"brev.b{width} %o, %a;", f"b{width}", kind).tolist() == [int(b[::-1], 2) for b in bins]
    tops = [int(x).bit_length() - 1 if x else 2**32 - 1 for x in a]
    assert one(f"bfind.u{width} %o, %a;", "u32", (f"u{width}", a)).tolist() == tops
    signed = a.view(f"i{width // 8}")
    tops = [(int(x) if x >= 0 else ~int(x)).bit_length() - 1 & 0xFFFFFFFF for x in signed]
    assert one(f"bfind.s{width} %o, %a;", "u32", (f"s{width}", signed)).tolist() == tops


@pytest.mark.parametrize("table", [0x00, 0x80, 0xE8, 0x96, 0xCA, 0xFF, 0x1B])
def test_lop3(table: int) -> None:
    a, b, c = samples("b32"), samples("b32"), samples("b32")
    got = one(f"lop3.b32 %o, %a, %b, %c, {table};", "b32", ("b32", a), ("b32", b), ("b32", c))
    expect = np.zeros_like(a)
    for bit in range(32):
        index = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1)
        expect |= (np.uint32(table) >> index & 1) << np.uint32(bit)
    assert (got == expect).all()


@pytest.mark.parametrize("joined", ["and", "or"])
@pytest.mark.parametrize("target", ["%t", "_"])
def test_lop3_into_a_predicate(joined: str, target: str) -> None:
    a, b = samples("b32"), samples("b32")
    a[::5], b[::3] = 0, 0
    body = (
        f"setp.ne.u32 %p, %b, 0; lop3.{joined}.b32 {target}|%q, %a, %b, %a, 0xf0, %p; mov.b32 %t, 0;"
        " selp.u32 %o, 1, %t, %q;"
    )
    got = one(body, "u32", ("b32", a), ("b32", b))
    both = {"and": np.logical_and, "or": np.logical_or}[joined]
    assert (got == both(a != 0, b != 0)).all()


@pytest.mark.parametrize("kind", ["u32", "s32"])
def test_products_of_24_bits(kind: str) -> None:
    a, b, c = samples(kind), samples(kind), samples(kind)
    low = [[(x & 0xFFFFFF) - (x << 1 & 1 << 24 if kind == "s32" else 0) for x in big(v)] for v in (a, b)]
    products = [x * y for x, y in zip(*low, strict=True)]
    inputs = ((kind, a), (kind, b), (kind, c))
    for part, shift in (("lo", 0), ("hi", 16)):
        got = one(f"mul24.{part}.{kind} %o, %a, %b;", kind, *inputs[:2])
        assert (got == wrap([p >> shift for p in products], kind)).all()
        got = one(f"mad24.{part}.{kind} %o, %a, %b, %c;", kind, *inputs)
        assert (got == wrap([(p >> shift) + z for p, z in zip(products, big(c), strict=True)], kind)).all()


def test_permute_and_dot() -> None:
    a, b = samples("b32"), samples("b32")
    s = RNG.integers(0, 1 << 16, len(a), dtype=np.uint32)
    got = one("prmt.b32 %o, %a, %b, %c;", "b32", ("b32", a), ("b32", b), ("b32", s))
    expect = []
    for x, y, pick in zip(big(a), big(b), big(s), strict=True):
        source = (y << 32 | x).to_bytes(8, "little")
        out = []
        for i in range(4):
            p = pick >> 4 * i & 15
            out.append((255 if source[p & 7] & 128 else 0) if p & 8 else source[p & 7])
        expect.append(int.from_bytes(bytes(out), "little"))
    assert got.tolist() == expect
    c = samples("s32")
    got = one("dp4a.s32.u32 %o, %a, %b, %c;", "s32", ("b32", a), ("b32", b), ("s32", c))
    left, right = a.view(np.int8).reshape(-1, 4).astype(np.int64), b.view(np.uint8).reshape(-1, 4).astype(np.int64)
    assert (got == wrap(big((left * right).sum(1) + c), "s32")).all()


def test_carries() -> None:
    a, b = samples("u64"), samples("u64")
    body = """mov.b64 {%t, %u}, %a; { .reg .b32 l, h; mov.b64 {l, h}, %b; add.cc.u32 %t, %t, l; addc.u32 %u, %u, h; }
    mov.b64 %o, {%t, %u};"""
    assert (one(body, "u64", ("u64", a), ("u64", b)) == a + b).all()
    body = body.replace("add.cc", "sub.cc").replace("addc", "subc")
    assert (one(body, "u64", ("u64", a), ("u64", b)) == a - b).all()
    with pytest.raises(Exception, match="carry"):
        one("addc.u32 %o, %a, %b;", "u32", ("u32", [1]), ("u32", [2]))


@pytest.mark.parametrize("how", ["eq", "ne", "lt", "le", "gt", "ge"])
@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_compare(how: str, kind: str) -> None:
    a, b = samples(kind), samples(kind)
    b[::3] = a[::3]
    got = one(f"setp.{how}.{kind} %p, %a, %b; selp.u32 %o, 1, 0, %p;", "u32", (kind, a), (kind, b))
    ufunc = {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }[how]
    assert (got == ufunc(a, b)).all()


def test_saturation_abs_neg_sad_slct_cnot() -> None:
    a, b, c = samples("s32"), samples("s32"), samples("s32")
    info = np.iinfo(np.int32)
    pairs = list(zip(big(a), big(b), strict=True))
    got = one("add.sat.s32 %o, %a, %b;", "s32", ("s32", a), ("s32", b))
    assert got.tolist() == [min(max(x + y, info.min), info.max) for x, y in pairs]
    assert (one("abs.s32 %o, %a;", "s32", ("s32", a)) == wrap([abs(x) for x in big(a)], "s32")).all()
    assert (one("neg.s32 %o, %a;", "s32", ("s32", a)) == wrap([-x for x in big(a)], "s32")).all()
    got = one("sad.s32 %o, %a, %b, %c;", "s32", ("s32", a), ("s32", b), ("s32", c))
    assert (got == wrap([abs(x - y) + z for (x, y), z in zip(pairs, big(c), strict=True)], "s32")).all()
    got = one("slct.b32.s32 %o, %a, %b, %c;", "s32", ("s32", a), ("s32", b), ("s32", c))
    assert (got == np.where(c >= 0, a, b)).all()
    assert (one("cnot.b32 %o, %a;", "b32", ("b32", a.view(np.uint32))) == (a == 0)).all()


WIDTHS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")


@pytest.mark.parametrize(
    ("source", "to"),
    [  # one of three by default: each width from and to each sign
        pytest.param(source, to, marks=() if (8 * m + n) % 3 == 0 else pytest.mark.long, id=f"{to}-{source}")
        for m, source in enumerate(WIDTHS)
        for n, to in enumerate(WIDTHS)
    ],
)
def test_integer_conversions(source: str, to: str) -> None:
    a = samples(source)
    assert (one(f"cvt.{to}.{source} %o, %a;", to, (source, a)) == wrap(big(a), to)).all()
    info = np.iinfo(DTYPES[to])
    got = one(f"cvt.sat.{to}.{source} %o, %a;", to, (source, a))
    assert (got == wrap([min(max(x, info.min), info.max) for x in big(a)], to)).all()


PERMUTE_MODES = {
    "f4e": lambda n: [n, n + 1, n + 2, n + 3],
    "b4e": lambda n: [n, (n - 1) % 8, (n - 2) % 8, (n - 3) % 8],
    "rc8": lambda n: [n] * 4,
    "ecl": lambda n: [max(n, i) for i in range(4)],
    "ecr": lambda n: [min(n, i) for i in range(4)],
    "rc16": lambda n: [2 * (n & 1), 2 * (n & 1) + 1] * 2,
}


@pytest.mark.parametrize("mode", PERMUTE_MODES)
def test_permute_modes(mode: str) -> None:
    a, b, s = (np.random.default_rng(5).integers(0, 1 << 32, 64, dtype=np.uint32) for _ in range(3))
    got = one(f"prmt.b32.{mode} %o, %a, %b, %c;", "b32", ("b32", a), ("b32", b), ("b32", s))
    for x, y, c, value in zip(a, b, s, got, strict=True):
        pool = [*int(x).to_bytes(4, "little"), *int(y).to_bytes(4, "little")]
        assert int(value) == int.from_bytes(bytes(pool[i] for i in PERMUTE_MODES[mode](int(c) & 3)), "little")


def test_carry_chains_cross_blocks_and_lanes() -> None:
    """The flag differs between lanes though its readers' operands do not; a branch lies between."""
    a, b = (np.random.default_rng(6).integers(0, 1 << 32, 64, dtype=np.uint32) for _ in range(2))
    a[:4], b[:4] = 0xFFFFFFFF, 1
    body = "add.cc.u32 %t, %a, %b; setp.eq.u32 %p, %a, %a; @%p bra on; mov.u32 %t, 9; on: addc.u32 %o, 0, 0;"
    carry = (a.astype(np.uint64) + b) >> np.uint64(32)
    assert (one(body, "u32", ("u32", a), ("u32", b)) == carry).all()
    # subc takes the flag as borrow after sub.cc; addc finds it set where nothing was borrowed.
    assert (
        one("sub.cc.u32 %t, %a, %b; subc.u32 %o, 0, 0;", "s32", ("u32", a), ("u32", b)) == -(a < b).astype(int)
    ).all()
    assert (one("sub.cc.u32 %t, %a, %b; addc.u32 %o, 0, 0;", "u32", ("u32", a), ("u32", b)) == (a >= b)).all()
    assert (
        one("mad.lo.cc.u32 %t, %a, %b, %a; madc.hi.u32 %o, %a, %b, 0;", "u32", ("u32", a), ("u32", b))
        == ((a.astype(object) * b + a) >> 32).astype(np.uint64)
    ).all()


@pytest.mark.parametrize("kind", ["u8", "s8", "u16", "s16"])
def test_pack_with_saturation(kind: str) -> None:
    rng = np.random.default_rng(8)
    a, b = (rng.integers(-70_000, 70_000, 96).astype(np.int32) // k for k in (1, 300))
    c = rng.integers(0, 1 << 32, 96, dtype=np.uint64).astype(np.uint32)
    width = int(kind[1:])
    low = -(1 << width - 1) if kind[0] == "s" else 0
    high, low_part = (np.clip(v.astype(np.int64), low, low + (1 << width) - 1) & ((1 << width) - 1) for v in (a, b))
    expected = high << width | low_part
    if width == 8:
        got = one(f"cvt.pack.sat.{kind}.s32.b32 %o, %a, %b, %c;", "b32", ("s32", a), ("s32", b), ("b32", c))
        expected |= c.astype(np.int64) << 16 & 0xFFFFFFFF
    else:
        got = one(f"cvt.pack.sat.{kind}.s32 %o, %a, %b;", "b32", ("s32", a), ("s32", b))
    assert (got == expected).all()
