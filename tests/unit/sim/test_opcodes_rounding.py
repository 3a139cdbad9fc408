"""Directed roundings and narrow formats against exact rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from harness import one

RNG = np.random.default_rng(25)
MODES = ["rz", "rm", "rp"]


def round_to(exact: Fraction, dtype: type, mode: str) -> float:
    """The element of dtype that a directed rounding of a finite exact value gives, overflow included."""
    info = np.finfo(dtype)
    if mode == "rz":
        mode = "rm" if exact > 0 else "rp"
    largest = Fraction(float(info.max))
    if abs(exact) > largest:
        inward = (exact > 0) == (mode == "rm")
        return (float(info.max) if inward else math.inf) * (1 if exact > 0 else -1)
    if abs(exact) < Fraction(float(info.smallest_subnormal)) and exact:
        near = dtype(0.0)
    else:
        near = (
            dtype(exact.numerator / exact.denominator)
            if dtype is not np.float64
            else exact.numerator / exact.denominator
        )
    near = dtype(near)
    if mode == "rm" and Fraction(float(near)) > exact:
        near = np.nextafter(near, dtype(-np.inf))
    if mode == "rp" and Fraction(float(near)) < exact:
        near = np.nextafter(near, dtype(np.inf))
    return float(near)


def numbers(dtype: type, count: int, spread: int) -> np.ndarray:
    with np.errstate(all="ignore"):
        values = (RNG.standard_normal(count) * 2.0 ** RNG.integers(-spread, spread, count)).astype(dtype)
        values[:6] = [1.0, -1.0, 3.0, np.finfo(dtype).max, -np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal]
    RNG.shuffle(values)
    return values[np.isfinite(values) & (values != 0)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "fma"])
def test_directed(op: str, kind: str, mode: str) -> None:
    dtype = np.float32 if kind == "f32" else np.float64
    spread = 148 if kind == "f32" else 1070
    if op in ("fma", "add", "sub"):
        spread = 40
    a, b, c = (numbers(dtype, 300, spread)[:200] for _ in range(3))
    body = f"{op}.{mode}.{kind} %o, %a, %b{', %c' if op == 'fma' else ''};"
    got = one(body, kind, *[(kind, x) for x in ((a, b, c) if op == "fma" else (a, b))])
    for x, y, z, value in zip(a, b, c, got, strict=True):
        p, q, r = (Fraction(float(v)) for v in (x, y, z))
        exact = {"add": p + q, "sub": p - q, "mul": p * q, "div": p / q, "fma": p * q + r}[op]
        assert float(value) == round_to(exact, dtype, mode), (x, y, z)


@pytest.mark.parametrize("mode", MODES)
def test_fused_of_tiny_numbers(mode: str) -> None:
    a, b, c = (numbers(np.float64, 400, s)[:300] for s in (500, 560, 1000))
    got = one(f"fma.{mode}.f64 %o, %a, %b, %c;", "f64", ("f64", a), ("f64", b), ("f64", c))
    for x, y, z, value in zip(a, b, c, got, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        assert float(value) == round_to(exact, np.float64, mode), (x, y, z)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_directed_roots_and_reciprocals(kind: str, mode: str) -> None:
    dtype = np.float32 if kind == "f32" else np.float64
    a = np.abs(numbers(dtype, 300, 140 if kind == "f32" else 1060))
    got = one(f"rcp.{mode}.{kind} %o, %a;", kind, (kind, a))
    assert all(float(y) == round_to(1 / Fraction(float(x)), dtype, mode) for x, y in zip(a, got, strict=True))
    got = one(f"sqrt.{mode}.{kind} %o, %a;", kind, (kind, a))
    for x, y in zip(a, got, strict=True):
        exact, root = Fraction(float(x)), Fraction(float(y))
        away = Fraction(float(np.nextafter(y, dtype(np.inf if mode != "rp" else 0))))
        assert root**2 <= exact < away**2 if mode != "rp" else away**2 < exact <= root**2


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_directed_specials(kind: str) -> None:
    a = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1.0, 0.0, -0.0, 0.0], {"f32": "f4", "f64": "f8"}[kind])
    b = np.array([0.0, -0.0, -1.0, 1.0, 1.0, np.inf, 1.0, 0.0, 0.0, 0.0, -0.0], a.dtype)
    for mode in MODES:
        got = one(f"add.{mode}.{kind} %o, %a, %b;", kind, (kind, a), (kind, b))
        with np.errstate(all="ignore"):
            expect = a + b
        zero = expect == 0
        if mode == "rm":  # unlike signs give -0, like signs keep theirs
            expect[zero] = np.where(np.signbit(a) | np.signbit(b), -0.0, 0.0)[zero]
        nan = np.isnan(expect)
        assert (np.isnan(got) == nan).all()
        assert (got[~nan] == expect[~nan]).all()
        assert (np.signbit(got[zero]) == np.signbit(expect[zero])).all()
        got = one(f"div.{mode}.{kind} %o, %a, %b;", kind, (kind, a), (kind, b))
        with np.errstate(all="ignore"):
            expect = a / b
        assert np.array_equal(got, expect, equal_nan=True)


@pytest.mark.parametrize("mode", ["rn", *MODES])
@pytest.mark.parametrize("source", ["s64", "u64", "s32", "u32"])
@pytest.mark.parametrize("to", ["f32", "f64", "f16"])
def test_integers_to_floats(to: str, source: str, mode: str) -> None:
    width = int(source[1:])
    bits = RNG.integers(0, 1 << 63, 200, dtype=np.uint64) >> RNG.integers(0, 64, 200, dtype=np.uint64)
    bits = np.concatenate([bits, np.uint64([0, 1, 2**63, 2**64 - 1, 2**53 + 1, 2**24 + 1, 2049, 65519, 65520])])
    a = bits.astype(np.uint32 if width == 32 else np.uint64)
    a = a.view(a.dtype.str.replace("u", "i")) if source[0] == "s" else a
    dtype = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[to]
    got = one(f"cvt.{mode}.{to}.{source} %o, %a;", to, (source, a))
    for x, y in zip(a, got, strict=True):
        if mode == "rn":
            with np.errstate(over="ignore"):
                expect = float(dtype(int(x)) if to != "f16" else np.float16(min(max(int(x), -70000), 70000)))
        else:
            expect = round_to(Fraction(int(x)), dtype, mode)
        assert float(y) == expect, (x, mode)


@pytest.mark.parametrize("mode", ["rn", *MODES])
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_floats_to_half(source: str, mode: str) -> None:
    dtype = np.float32 if source == "f32" else np.float64
    a = (RNG.standard_normal(300) * 2.0 ** RNG.integers(-28, 18, 300)).astype(dtype)
    a[:8] = [0.0, -0.0, 65519, 65520, -65536, 1e30, 2.0**-25, -(2.0**-26)]
    a[8] = 1 + 2.0**-11 + 2.0**-40  # double rounding through f32 would lose the last bit
    got = one(f"cvt.{mode}.f16.{source} %o, %a;", "f16", (source, a))
    for x, y in zip(a, got, strict=True):
        with np.errstate(over="ignore"):
            expect = float(np.float16(x)) if mode == "rn" else round_to(Fraction(float(x)), np.float16, mode)
        assert float(y) == expect
        assert np.signbit(y) == np.signbit(x)
    special = np.array([np.inf, -np.inf, np.nan], dtype)
    got = one(f"cvt.{mode}.f16.{source} %o, %a;", "f16", (source, special))
    assert np.array_equal(got, special.astype(np.float16), equal_nan=True)


def eight(kind: str) -> np.ndarray:
    """Every code of an 8-bit format as float, by its definition."""
    digits, bias = (3, 7) if kind == "e4m3" else (2, 15)
    out = np.empty(256)
    for code in range(256):
        exponent, fraction = (code & 0x7F) >> digits, code & ((1 << digits) - 1)
        value = (
            fraction * 2.0 ** (1 - bias - digits)
            if exponent == 0
            else (1 + fraction / 2**digits) * 2.0 ** (exponent - bias)
        )
        if kind == "e5m2" and exponent == 31:
            value = math.inf if fraction == 0 else math.nan
        if kind == "e4m3" and code & 0x7F == 0x7F:
            value = math.nan
        out[code] = -value if code & 0x80 else value
    return out


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_eight_bit_to_half(kind: str) -> None:
    codes = np.arange(256, dtype=np.uint16) | np.arange(255, -1, -1, dtype=np.uint16) << 8
    got = one(f"cvt.rn.f16x2.{kind}x2 %o, %a;", "b32", ("b16", codes)).view(np.float16).reshape(-1, 2)
    table = eight(kind)
    assert np.array_equal(got[:, 0], table.astype(np.float16), equal_nan=True)
    assert np.array_equal(got[:, 1], table[::-1].astype(np.float16), equal_nan=True)
    assert (np.signbit(got[:, 0]) == np.signbit(table))[~np.isnan(table)].all()
    relu = one(f"cvt.rn.relu.f16x2.{kind}x2 %o, %a;", "b32", ("b16", codes)).view(np.float16).reshape(-1, 2)
    assert np.array_equal(relu[:, 0], np.where(table < 0, 0, table).astype(np.float16), equal_nan=True)


def nearest_eight(x: float, kind: str) -> int:
    """The code nearest to x, ties to an even code, saturated."""
    table = eight(kind)
    sign = 0x80 if math.copysign(1, x) < 0 else 0
    if math.isnan(x):
        return 0x7F
    finite = table[:0x80][np.isfinite(table[:0x80])]
    gap = np.abs(finite - min(abs(x), finite[-1]))
    best = np.flatnonzero(gap == gap.min())
    return int(best[np.argmin(best % 2)]) | sign


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
@pytest.mark.parametrize("source", ["f32", "f16x2"])
def test_to_eight_bit(kind: str, source: str) -> None:
    table = eight(kind)
    finite = np.sort(table[np.isfinite(table)])
    values = np.concatenate(
        [finite, (finite[1:] + finite[:-1]) / 2, RNG.standard_normal(100) * 2.0 ** RNG.integers(-16, 16, 100)]
    )
    values = np.concatenate([values, [np.inf, -np.inf, np.nan, -0.0, 1e-30, 448.0, 449.0, 480.0, 60000.0]])
    if source == "f32":
        a = values.astype(np.float32)
        got = one(f"cvt.rn.satfinite.{kind}x2.f32 %o, %a, %b;", "b16", ("f32", a), ("f32", -a))
        low, high = -a, a
    else:
        with np.errstate(over="ignore"):
            low = values.astype(np.float16)
        high = -low
        pairs = low.view(np.uint16).astype(np.uint32) | high.view(np.uint16).astype(np.uint32) << 16
        got = one(f"cvt.rn.satfinite.{kind}x2.f16x2 %o, %a;", "b16", ("b32", pairs))
    assert [int(v) & 0xFF for v in got] == [nearest_eight(float(x), kind) for x in low]
    assert [int(v) >> 8 for v in got] == [nearest_eight(float(x), kind) for x in high]
