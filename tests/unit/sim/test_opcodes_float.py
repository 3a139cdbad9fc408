"""Floating-point instructions against NumPy, with NaN, infinities, denormals and every rounding that is executed."""

# ruff: noqa: E501 a CUDA or PTX snippet reads best on one line
from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from harness import one
from integer_samples import samples
from long_cases import long

RNG = np.random.default_rng(11)
TINY = np.float32(1e-41)
EDGES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    np.inf,
    -np.inf,
    np.nan,
    TINY,
    -TINY,
    2.0**-126,
    -(2.0**-126),
    3.4e38,
    -3.4e38,
    2.0**-149,
]


def floats(count: int = 300, dtype: type = np.float32) -> np.ndarray:
    random = RNG.standard_normal(count) * 10.0 ** RNG.integers(-6, 7, count)
    with np.errstate(over="ignore"):
        out = np.concatenate([np.array(EDGES, dtype), random.astype(dtype)])
    RNG.shuffle(out)
    return out


def pairs(dtype: type = np.float32) -> tuple[np.ndarray, np.ndarray]:
    """Every edge with every edge, then random."""
    x, y = np.meshgrid(np.array(EDGES, dtype), np.array(EDGES, dtype))
    return np.concatenate([x.ravel(), floats(dtype=dtype)]), np.concatenate([y.ravel(), floats(dtype=dtype)])


def same(got: np.ndarray, expect: np.ndarray) -> None:
    bits = f"u{got.itemsize}"
    nan = np.isnan(expect)
    assert (np.isnan(got) == nan).all()
    assert (got.view(bits)[~nan] == expect.astype(got.dtype).view(bits)[~nan]).all()


def flush(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < 2.0**-126, np.copysign(np.float32(0), x), x)


OPS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("suffix", ["f32", "ftz.f32", "f64"])
def test_arithmetic(op: str, suffix: str) -> None:
    a, b = pairs(np.float64 if suffix == "f64" else np.float32)
    kind = suffix[-3:]
    got = one(f"{op}.rn.{suffix} %o, %a, %b;", kind, (kind, a), (kind, b))
    with np.errstate(all="ignore"):
        if suffix == "ftz.f32":
            same(got, flush(OPS[op](flush(a), flush(b))))
        else:
            same(got, OPS[op](a, b))


def test_ftz_and_not_in_one_kernel() -> None:
    """Mixed modes cannot use the processor's flag: both must still be exact."""
    a, b = pairs()
    body = "{ .reg .f32 x; add.f32 x, %a, %b; add.ftz.f32 %o, %a, %b; sub.f32 %o, x, %o; }"
    got = one(body, "f32", ("f32", a), ("f32", b))
    with np.errstate(all="ignore"):
        same(got, (a + b) - flush(flush(a) + flush(b)))


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
@pytest.mark.parametrize("op", ["add", "mul", "fma"])
def test_directed_rounding(op: str, mode: str) -> None:
    a, b, c = (np.float32(RNG.standard_normal(200) * 10.0 ** RNG.integers(-3, 4, 200)) for _ in range(3))
    ins = f"{op}.{mode}.f32 %o, %a, %b{', %c' if op == 'fma' else ''};"
    inputs = [("f32", x) for x in ((a, b, c) if op == "fma" else (a, b))]
    got = one(ins, "f32", *inputs)
    for index, value in enumerate(got):
        x, y, z = (Fraction(float(v[index])) for v in (a, b, c))
        exact = {"add": x + y, "mul": x * y, "fma": x * y + z}[op]
        assert float(value) == rounded(exact, mode)


def rounded(exact: Fraction, mode: str) -> float:
    near = np.float32(float(exact))
    below = near if Fraction(float(near)) <= exact else np.nextafter(near, np.float32(-np.inf))
    above = near if Fraction(float(near)) >= exact else np.nextafter(near, np.float32(np.inf))
    if mode == "rz":
        mode = "rm" if exact > 0 else "rp"
    return float(below if mode == "rm" else above)


def test_fma_is_fused() -> None:
    a, b = floats(), floats()
    with np.errstate(over="ignore"):
        c = -(a * b)
    got = one("fma.rn.f32 %o, %a, %b, %c;", "f32", ("f32", a), ("f32", b), ("f32", c))
    with np.errstate(all="ignore"):
        expect = (a.astype(np.float64) * b + c.astype(np.float64)).astype(np.float32)
    finite = np.isfinite(expect) & np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    assert (got[finite] == expect[finite]).all()


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("nan", [False, True])
def test_extrema(op: str, nan: bool) -> None:
    a, b = pairs()
    got = one(f"{op}{'.NaN' if nan else ''}.f32 %o, %a, %b;", "f32", ("f32", a), ("f32", b))
    with np.errstate(all="ignore"):
        expect = {"min": (np.fmin, np.minimum), "max": (np.fmax, np.maximum)}[op][nan](a, b)
    zero = (a == 0) & (b == 0)
    sign = np.signbit(a) | np.signbit(b) if op == "min" else np.signbit(a) & np.signbit(b)
    expect[zero] = np.where(sign[zero], -0.0, 0.0)
    same(got, expect)


def test_saturate_neg_abs_copysign() -> None:
    a, b = pairs()
    with np.errstate(all="ignore"):
        total = np.clip(a + b, 0, 1)
        total[np.isnan(total)] = 0
        total = total + np.float32(0)
    same(one("add.sat.f32 %o, %a, %b;", "f32", ("f32", a), ("f32", b)), total)
    assert (one("neg.f32 %o, %a;", "f32", ("f32", a)).view("u4") == a.view("u4") ^ (1 << 31)).all()
    assert (one("abs.f32 %o, %a;", "f32", ("f32", a)).view("u4") == a.view("u4") & 0x7FFFFFFF).all()
    same(one("neg.ftz.f32 %o, %a;", "f32", ("f32", a)), -flush(a))
    got = one("copysign.f32 %o, %a, %b;", "f32", ("f32", a), ("f32", b))
    assert (got.view("u4") == (a.view("u4") & (1 << 31) | b.view("u4") & 0x7FFFFFFF)).all()


@pytest.mark.parametrize("op", ["add.f32 t, %a, %b", "mul.f32 t, %a, %b", "fma.rn.f32 t, %a, %b, %a"])
def test_a_result_has_but_one_nan_and_a_move_keeps_any(op: str) -> None:
    payload = np.uint32([0x7FC01234, 0xFFC00000]).view(np.float32)
    a, b = np.float32([*payload, np.inf, 0, 1]), np.float32([1, 2, -np.inf, np.inf, 1])
    found = one(f"{{ .reg .f32 t; {op}; mov.b32 %o, t; }}", "b32", ("f32", a), ("f32", b))
    value = one(f"{{ .reg .f32 t; {op}; mov.f32 %o, t; }}", "f32", ("f32", a), ("f32", b))
    assert np.isnan(value).sum() >= 2
    assert set(found[np.isnan(value)].tolist()) == set(value.view("u4")[np.isnan(value)].tolist()) == {0x7FFFFFFF}
    assert (one("mov.b32 %o, %a;", "b32", ("f32", payload)) == payload.view("u4")).all()


@pytest.mark.parametrize("more", ["", "add.f32 %o, %o, 0f00000000;"])
def test_the_sine_of_a_subnormal_is_a_zero_where_it_is_flushed(more: str) -> None:
    """Also in a kernel that flushes throughout; one instruction that does not makes each flush for itself."""
    x = np.float32([1e-40, -1e-40, 0.0, -0.0])
    got = one(f"sin.approx.ftz.f32 %o, %a; {more}", "f32", ("f32", x))
    assert (got == 0).all()
    if not more:
        assert np.signbit(got).tolist() == [False, True, False, True]
    kept = one("sin.approx.f32 %o, %a;", "f32", ("f32", x[:2]))
    assert kept.tolist() == x[:2].tolist()


def test_approximations_meet_the_isa_bounds() -> None:
    """PTX ISA: lg2 2^-22 absolute in (0.5, 2), else relative; sin, cos 2^-20.5; tanh 2^-11 relative; ex2 2 ulp."""
    near, wide = np.float32(RNG.uniform(-np.pi, np.pi, 3000)), np.float32(RNG.standard_normal(3000) * 50)
    for op, exact in (("sin", np.sin), ("cos", np.cos)):
        for x, least, most in ((near, 2.0**-23, 2.0**-21.41), (wide, 1e-6, 1e-4), (wide * 400, 1e-3, 1e-1)):
            got = one(f"{op}.approx.f32 %o, %a;", "f32", ("f32", x)).astype(np.float64)
            assert least < np.abs(got - exact(x.astype(np.float64))).max() < most  # as an H200 does: 8.3e-3 at 60000
    x = np.float32(
        np.concatenate([RNG.uniform(0.5, 2, 3000), np.exp(RNG.uniform(-100, 88, 3000)), [2e-45, 1.0, 1e-39]])
    )
    got, expect = one("lg2.approx.f32 %o, %a;", "f32", ("f32", x)).astype(np.float64), np.log2(x.astype(np.float64))
    inside = (x > 0.5) & (x < 2)
    assert np.abs(got - expect)[inside].max() < 2.0**-22
    assert (np.abs(got - expect)[~inside & (x != 1)] / np.abs(expect[~inside & (x != 1)])).max() < 2.0**-22
    assert got[x == 1.0].all() == 0
    x = np.float32(np.concatenate([RNG.standard_normal(2000) * 3, RNG.uniform(-0.6, 0.6, 2000), [1e-30, 1e-41]]))
    got, expect = one("tanh.approx.f32 %o, %a;", "f32", ("f32", x)).astype(np.float64), np.tanh(x.astype(np.float64))
    assert (np.abs(got - expect) / np.abs(expect)).max() < 2.0**-14
    x = np.float32(RNG.uniform(-126, 127, 4000))
    got, expect = one("ex2.approx.f32 %o, %a;", "f32", ("f32", x)).astype(np.float64), np.exp2(x.astype(np.float64))
    assert (np.abs(got - expect) / expect).max() < 2 * 2.0**-23


def test_approximations_at_the_edges() -> None:
    x = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, TINY, 1e38])
    with np.errstate(all="ignore"):
        same(one("lg2.approx.f32 %o, %a;", "f32", ("f32", x))[:6], np.log2(x)[:6])
        same(one("lg2.approx.ftz.f32 %o, %a;", "f32", ("f32", x))[6:7], np.float32([-np.inf]))
        for op, exact in (("sin", np.sin), ("cos", np.cos)):
            same(one(f"{op}.approx.f32 %o, %a;", "f32", ("f32", x))[:5], exact(x)[:5])
        assert np.isfinite(one("sin.approx.f32 %o, %a;", "f32", ("f32", x))[7])
    x = x[[0, 1, 2, 3, 4, 6, 7]]
    same(one("tanh.approx.f32 %o, %a;", "f32", ("f32", x)), np.tanh(x))


def test_division_by_large_numbers() -> None:
    """PTX ISA, div.approx: 0 (or NaN) for a divisor above 2^126; div.full and div.rn have no such hole."""
    a = np.float32([1e38, np.inf, -1e38, 1e38, 6.0])
    b = np.float32([1.5e38, 1.5e38, 1.5e38, 2.0**126, 3.0])
    same(
        one("div.approx.f32 %o, %a, %b;", "f32", ("f32", a), ("f32", b)),
        np.float32([0.0, np.nan, -0.0, a[3] / b[3], 2.0]),
    )
    same(one("div.full.f32 %o, %a, %b;", "f32", ("f32", a), ("f32", b)), a / b)


def test_ex2_edges() -> None:
    x = np.float32([np.inf, -np.inf, np.nan, 0.0, -0.0, 128.0, 1000.0, -149.0, -150.5, -1000.0, 1.0, TINY])
    got = one("ex2.approx.f32 %o, %a;", "f32", ("f32", x))
    same(got, np.float32([np.inf, 0, np.nan, 1, 1, np.inf, np.inf, 2.0**-149, 0, 0, 2, 1]))
    got = one("ex2.approx.ftz.f32 %o, %a;", "f32", ("f32", np.float32([-127.0, -126.0])))
    same(got, np.float32([0.0, 2.0**-126]))
    tiny, least = 0xC2FF, 0xC2FC  # -127.5 and -126 in bf16; an H200 flushes what the first one gives
    got = one("ex2.approx.ftz.bf16 %o, %a;", "bf16", ("bf16", np.uint16([tiny, least])))
    assert got.tolist() == [0, 0x0080]


@pytest.mark.parametrize("op", ["rcp.rn", "sqrt.rn", "rcp.approx", "sqrt.approx", "rsqrt.approx"])
def test_reciprocals(op: str) -> None:
    a = floats()
    got = one(f"{op}.f32 %o, %a;", "f32", ("f32", a))
    with np.errstate(all="ignore"):
        root = np.sqrt(a)
        expect = {"rcp": np.float32(1) / a, "sqrt": root, "rsqrt": np.float32(1) / root}[op.split(".", maxsplit=1)[0]]
    if op.endswith("rn"):
        same(got, expect)
    else:
        finite = np.isfinite(expect) & (expect != 0)
        assert np.abs(got[finite] / expect[finite] - 1).max() < 2e-6


@pytest.mark.parametrize(
    "how", ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
)
def test_comparisons(how: str) -> None:
    a, b = pairs()
    got = one(f"setp.{how}.f32 %p, %a, %b; selp.u32 %o, 1, 0, %p;", "u32", ("f32", a), ("f32", b))
    some = np.isnan(a) | np.isnan(b)
    base = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}
    if how in ("num", "nan"):
        expect = some if how == "nan" else ~some
    elif how.endswith("u") and how[:-1] in base:
        expect = base[how[:-1]] | some
    else:
        expect = base[how] & ~some
    assert (got == expect).all()


def test_predicate_pairs_and_combination() -> None:
    a, b = floats(), floats()
    body = "setp.lt.f32 %p, %a, %b; setp.gt.and.f32 %p|%q, %a, 0f00000000, %p; selp.u32 %t, 1, 0, %p; selp.u32 %u, 2, 0, %q; or.b32 %o, %t, %u;"
    got = one(body, "u32", ("f32", a), ("f32", b))
    less, positive = a < b, a > 0
    assert (got == (positive & less) + 2 * (~positive & less)).all()


@pytest.mark.parametrize("source", [long("f16"), "f32", "f64"])
@pytest.mark.parametrize("to", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("mode", ["rzi", "rni", "rmi", "rpi"])
def test_float_to_integer(source: str, to: str, mode: str) -> None:
    dtype = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[source]
    with np.errstate(all="ignore"):
        a = np.array(
            [
                0,
                -0.0,
                0.5,
                1.5,
                2.5,
                -0.5,
                -1.5,
                127.4,
                128,
                255.5,
                300,
                -129,
                32768,
                65504,
                3e9,
                -3e9,
                1e19,
                -1e19,
                1e30,
                np.inf,
                -np.inf,
                np.nan,
            ],
            dtype,
        )
    got = one(f"cvt.{mode}.{to}.{source} %o, %a;", to, (source, a))
    info = np.iinfo(got.dtype)
    # NaN: the top bit alone if one of the types has 64 bits, else 0 (PTX ISA 9.0).
    assert int(got[-1]) % (1 << info.bits) == (1 << (info.bits - 1) if "64" in to + source else 0)
    how = {"rzi": math.trunc, "rni": round, "rmi": math.floor, "rpi": math.ceil}[mode]
    for x, y in zip(a[:-1].astype(np.float64), got, strict=False):
        expect = info.max if x == np.inf else info.min if x == -np.inf else min(max(how(x), info.min), info.max)
        assert int(y) == expect


@pytest.mark.parametrize("source", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("to", ["f16", "f32", "f64"])
def test_integer_to_float(source: str, to: str) -> None:
    a = samples(source)
    got = one(f"cvt.rn.{to}.{source} %o, %a;", to, (source, a))
    with np.errstate(over="ignore"):
        same(got, a.astype(got.dtype))


def test_float_widths() -> None:
    a = floats()
    with np.errstate(all="ignore"):
        same(one("cvt.rn.f16.f32 %o, %a;", "f16", ("f32", a)), a.astype(np.float16))
        same(one("cvt.f64.f32 %o, %a;", "f64", ("f32", a)), a.astype(np.float64))
        wide = a.astype(np.float64) * (1 + 2.0**-30)
        same(one("cvt.rn.f32.f64 %o, %a;", "f32", ("f64", wide)), wide.astype(np.float32))
    every = np.arange(1 << 16, dtype=np.uint16)
    same(one("cvt.f32.f16 %o, %a;", "f32", ("f16", every.view(np.float16))), every.view(np.float16).astype(np.float32))
    exact = (every.astype(np.uint32) << 16).view(np.float32)
    same(one("cvt.f32.bf16 %o, %a;", "f32", ("bf16", every)), exact)
    same(one("cvt.rni.f32.f32 %o, %a;", "f32", ("f32", a)), np.rint(a))
    same(one("cvt.rzi.f32.f32 %o, %a;", "f32", ("f32", a)), np.trunc(a))


def test_bf16_rounding_and_packing() -> None:
    a, b = floats(), floats()
    got = one("cvt.rn.bf16.f32 %o, %a;", "bf16", ("f32", a))
    bits = a.view("u4").astype(np.uint64)
    expect = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    keep = ~np.isnan(a)
    assert (got[keep] == expect[keep]).all()
    got = one("cvt.rn.f16x2.f32 %o, %a, %b;", "b32", ("f32", a), ("f32", b))
    with np.errstate(all="ignore"):
        high, low = a.astype(np.float16), b.astype(np.float16)
    same((got >> 16).astype(np.uint16).view(np.float16), high)
    same((got & 0xFFFF).astype(np.uint16).view(np.float16), low)


@pytest.mark.parametrize("beside", ["", "add.ftz.f32 %f, %f, %f; "])
@pytest.mark.parametrize("relu", ["", ".relu"])
def test_bf16_fused(relu: str, beside: str) -> None:
    """Products beyond the range of f32 in both directions, exactly cancelled sums, denormals; .relu makes -0 a +0."""
    a, b, d = RNG.integers(0, 1 << 16, (3, 3000)).astype(np.uint16)
    b[:1000] = 0x7F00 - (a[:1000] & 0x7F80) + (b[:1000] & 0x807F)  # around 1
    b[1000:2000] = (0x7F80 - (a[1000:2000] & 0x7F80) >> 7 << 7) - 0x4000 & 0xFFFF  # tiny
    d[500:2000] = d[500:2000] & 0x83FF
    body = f".reg .f32 %f; mov.f32 %f, 0f3F800000; {beside}fma.rn{relu}.bf16 %o, %a, %b, %c;"
    got = one(body, "bf16", ("bf16", a), ("bf16", b), ("bf16", d))
    # The product is exact in f64; rounding the sum to odd keeps the second rounding correct.
    with np.errstate(all="ignore"):
        x, y, z = ((v.astype(np.uint32) << 16).view(np.float32).astype(np.float64) for v in (a, b, d))
        product, total = x * y, x * y + z
        part = total - product
        error = (product - (total - part)) + (z - part)
        inexact = (error != 0) & np.isfinite(total) & (total.view(np.uint64) & 1 == 0)
        away = np.where((error > 0) == (total > 0), np.inf, 0.0) * np.sign(total)
        total = np.where(inexact, np.nextafter(total, away), total)
        bits = np.abs(total)
        scale = 2.0 ** (np.maximum(np.floor(np.log2(np.where(bits > 0, bits, 1.0))), -126) - 7)
        near = np.round(total / scale) * scale
    near = np.where(np.isfinite(total), near, total)
    with np.errstate(over="ignore"):
        expect = (near.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    zero = near == 0
    expect[zero] = np.signbit(total[zero]).astype(np.uint16) << 15
    expect[np.isnan(total)] = 0x7FFF
    if relu:
        expect[~np.isnan(total) & np.signbit(total)] = 0
    assert (got == expect).all(), [(hex(v[np.flatnonzero(got != expect)[0]])) for v in (a, b, d, got, expect)]


@pytest.mark.parametrize("op", ["add", "sub", "mul", "fma", "min", "max"])
def test_half_arithmetic(op: str) -> None:
    every = RNG.integers(0, 1 << 16, (3, 4000)).astype(np.uint16).view(np.float16)
    a, b, _ = every
    operands = "%a, %b, %c" if op == "fma" else "%a, %b"
    inputs = [("f16", x) for x in (every if op == "fma" else every[:2])]
    got = one(f"{op}{'.rn' if op == 'fma' else ''}.f16 %o, {operands};", "f16", *inputs)
    with np.errstate(all="ignore"):
        wide = [x.astype(np.float64) for x in every]
        if op == "fma":
            exact = (wide[0] * wide[1]).astype(np.longdouble) + wide[2]
            expect = exact.astype(np.float16)
        else:
            how = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.fmin, "max": np.fmax}[op]
            expect = how(a, b)
    zero = (expect == 0) & (got == 0)
    same(got[~zero], expect[~zero])


def test_packed_half_and_comparison() -> None:
    a, b = (RNG.integers(0, 1 << 32, 500, dtype=np.uint32) for _ in range(2))
    x, y = a.view(np.float16), b.view(np.float16)
    with np.errstate(all="ignore"):
        same(one("mul.f16x2 %o, %a, %b;", "b32", ("b32", a), ("b32", b)).view(np.float16), x * y)
        less = x < y
    got = one(
        "setp.lt.f16x2 %p|%q, %a, %b; selp.u32 %t, 1, 0, %p; selp.u32 %u, 2, 0, %q; or.b32 %o, %t, %u;",
        "u32",
        ("b32", a),
        ("b32", b),
    )
    assert (got == less[::2] + 2 * less[1::2]).all()
    got = one("set.lt.f16x2.f16x2 %o, %a, %b;", "b32", ("b32", a), ("b32", b)).view(np.float16)
    assert (got == less).all()


def test_testp() -> None:
    a = floats()
    checks = {"finite": np.isfinite(a), "infinite": np.isinf(a), "number": ~np.isnan(a), "notanumber": np.isnan(a)}
    size = np.abs(a)
    checks |= {"subnormal": (size < 2.0**-126) & (size > 0), "normal": np.isfinite(a) & (size >= 2.0**-126)}
    for name, expect in checks.items():
        assert (one(f"testp.{name}.f32 %p, %a; selp.u32 %o, 1, 0, %p;", "u32", ("f32", a)) == expect).all()


@pytest.mark.parametrize(
    "body",
    ["fma.rn.f32 %o, %a, %b, %a;", "ex2.approx.ftz.f32 %o, %a;", "div.rn.f32 %o, %a, %b;", "add.rz.f32 %o, %a, %b;"],
)
def test_same_at_every_optimisation_level(body: str) -> None:
    a, b = pairs()
    results = [one(body, "f32", ("f32", a), ("f32", b), opt_level=level).view("u4") for level in (0, 1, 2)]
    assert (results[0] == results[1]).all()
    assert (results[0] == results[2]).all()
