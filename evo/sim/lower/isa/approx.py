"""The approximate f32 functions, as vector polynomials well inside the error bounds of the PTX ISA.

Bounds there: ex2 2 ulp; lg2 2^-22 (absolute in (0.5, 2), relative elsewhere); sin, cos 2^-20.5 absolute in [-pi, pi];
tanh 2^-11 relative; div.approx, div.full 2 ulp; rcp, sqrt 1 ulp and rsqrt 2^-22.4 relative (those are exact here).
"""

from __future__ import annotations

import math

from evo.sim.llvm_ir import Code
from evo.sim.llvm_values import V, const, fconst, is_vec
from evo.sim.lower.isa.rounding import flushed
from evo.sim.runtime.routine import routine

_SQRT_HALF = 0x3F3504F3  # bits of sqrt(0.5)
_PER_TURN = 0.15915493667125702  # 1 / 2 pi in float


def approximation(c: Code, name: str, x: V, *, ftz: bool = False) -> V:
    """The function of that name of a float or of a vector. ftz: denormals are zeros, before and after."""
    if is_vec(x.t):  # some forty instructions, in each of hundreds of places: called, they are compiled once
        return c.call(approximate_lanes(name, ftz=ftz), x)
    return _inline(c, name, x, ftz=ftz)


def _inline(c: Code, name: str, x: V, *, ftz: bool) -> V:
    written = {"ex2": exp2, "lg2": log2, "sin": sine, "cos": cosine, "tanh": tanh}[name]
    return flushed(c, written(c, flushed(c, x))) if ftz else written(c, x)


@routine("<32 x float>", "<32 x float> x")
def approximate_lanes(c: Code, name: str, *, ftz: bool) -> None:
    c.ret_(_inline(c, name, c.arg(0), ftz=ftz))


def _horner(c: Code, x: V, *terms: float) -> V:
    """The polynomial with these coefficients, highest power first."""
    total: V = fconst(x.t, terms[0])
    for term in terms[1:]:
        total = c.intrinsic("fma", total, x, fconst(x.t, term))
    return total


def exp2(c: Code, x: V) -> V:
    """2^x by a degree-7 polynomial around the nearest integer: relative error below 2e-7."""
    bounded = c.select(c.fcmp("olt", x, fconst(x.t, 129.0)), x, fconst(x.t, 129.0))
    bounded = c.select(c.fcmp("ogt", bounded, fconst(x.t, -160.0)), bounded, fconst(x.t, -160.0))
    whole = c.intrinsic("rint", bounded)
    part = c.bin("fsub", bounded, whole)
    total = _horner(c, part, *(math.log(2) ** power / math.factorial(power) for power in range(7, -1, -1)))
    exponent = c.cast("fptosi", whole, "i32")
    # Two factors, so that results below the normal range are rounded once, by the last product.
    first = c.ashr(exponent, 1)
    for scale in (first, c.sub(exponent, first)):
        total = c.bin("fmul", total, c.bits(c.shl(c.add(scale, 127), 23), "float"))
    return c.select(c.fcmp("uno", x, x), x, total)


def log2(c: Code, x: V) -> V:
    """x = 2^n m with m in [sqrt(1/2), sqrt(2)); log2(m) = 2 / ln 2 * atanh((m - 1) / (m + 1)) by its series."""
    tiny = c.fcmp("olt", x, fconst(x.t, 2.0**-126))
    scaled = c.select(tiny, c.bin("fmul", x, fconst(x.t, 2.0**32)), x)
    bits = c.bits(scaled, "i32")
    exponent = c.ashr(c.sub(bits, _SQRT_HALF), 23)
    m = c.bits(c.sub(bits, c.shl(exponent, 23)), "float")
    one = fconst(x.t, 1.0)
    t = c.bin("fdiv", c.bin("fsub", m, one), c.bin("fadd", m, one))
    series = _horner(c, c.bin("fmul", t, t), *(2 / math.log(2) / k for k in (9, 7, 5, 3, 1)))
    whole = c.cast("sitofp", c.sub(exponent, c.select(tiny, const(exponent.t, 32), 0)), "float")
    out = c.intrinsic("fma", t, series, whole)
    zero, infinity = fconst(x.t, 0.0), fconst(x.t, math.inf)
    out = c.select(c.fcmp("oeq", x, infinity), infinity, out)
    out = c.select(c.fcmp("oeq", x, zero), fconst(x.t, -math.inf), out)
    return c.select(c.fcmp("uge", x, zero), c.select(c.fcmp("uno", x, x), _nan(c, x), out), _nan(c, x))


def _nan(c: Code, x: V) -> V:
    return c.bits(const(c.bits(x, "i32").t, 0x7FFFFFFF), "float")


def _reduced(c: Code, x: V) -> tuple[V, V]:
    """x beyond the nearest quarter of a turn, and which quarter modulo 4 (as i32).

    Hardware takes x times 1 / 2 pi in float first, rounded towards zero: a large x keeps few digits of its place in a
    turn, which the bounds near zero follow from as well.
    """
    wide = c.cast("fpext", x, "double")
    turns = c.bin("fmul", wide, fconst(wide.t, _PER_TURN))
    turns = c.bits(c.and_(c.bits(turns, "i64"), -1 << 29), "double")
    count = c.intrinsic("rint", c.bin("fmul", turns, fconst(turns.t, 4.0)))
    rest = c.bin("fmul", c.intrinsic("fma", count, fconst(count.t, -0.25), turns), fconst(turns.t, 2 * math.pi))
    whole = c.intrinsic("floor", c.bin("fmul", count, fconst(count.t, 0.25)))
    quarter = c.cast("fptosi", c.intrinsic("fma", whole, fconst(whole.t, -4.0), count), "i32")
    return c.cast("fptrunc", rest, "float"), quarter


def _circular(c: Code, x: V, shift: int) -> V:
    r, quarter = _reduced(c, x)
    quarter = c.add(quarter, shift)
    square = c.bin("fmul", r, r)
    sin = c.intrinsic("fma", c.bin("fmul", r, square), _horner(c, square, 1 / 362880, -1 / 5040, 1 / 120, -1 / 6), r)
    cos = _horner(c, square, -1 / 3628800, 1 / 40320, -1 / 720, 1 / 24, -0.5, 1.0)
    out = c.select(c.icmp("ne", c.and_(quarter, 1), 0), cos, sin)
    negative = c.icmp("ne", c.and_(quarter, 2), 0)
    out = c.select(negative, c.fneg(out), out)
    return c.select(c.fcmp("olt", c.intrinsic("fabs", x), fconst(x.t, math.inf)), out, _nan(c, x))


def sine(c: Code, x: V) -> V:
    zero = fconst(x.t, 0.0)  # whose sign stays; a subnormal is one where it is flushed
    return c.select(c.fcmp("oeq", x, zero), c.intrinsic("copysign", zero, x), _circular(c, x, 0))


def cosine(c: Code, x: V) -> V:
    return _circular(c, x, 1)


def tanh(c: Code, x: V) -> V:
    """By its series near 0, by 1 - 2 / (e^2x + 1) elsewhere."""
    size = c.intrinsic("fabs", x)
    square = c.bin("fmul", x, x)
    series = _horner(c, square, 62 / 2835, -17 / 315, 2 / 15, -1 / 3)
    small = c.intrinsic("fma", c.bin("fmul", size, square), series, size)
    bounded = c.select(c.fcmp("olt", size, fconst(x.t, 20.0)), size, fconst(x.t, 20.0))
    power = exp2(c, c.bin("fmul", bounded, fconst(x.t, 2 / math.log(2))))
    one = fconst(x.t, 1.0)
    large = c.bin("fsub", one, c.bin("fdiv", fconst(x.t, 2.0), c.bin("fadd", power, one)))
    out = c.select(c.fcmp("olt", size, fconst(x.t, 0.4)), small, large)
    out = c.intrinsic("copysign", out, x)
    return c.select(c.fcmp("uno", x, x), _nan(c, x), out)


def divide(c: Code, a: V, b: V) -> V:
    """div.approx is a * (1 / b): for 2^126 < |b| < 2^128 it gives 0, or NaN for an infinite a."""
    near = c.bin("fdiv", a, b)
    size = c.intrinsic("fabs", b)
    huge = c.and_(c.fcmp("ogt", size, fconst(b.t, 2.0**126)), c.fcmp("olt", size, fconst(b.t, math.inf)))
    nothing = c.bin("fmul", a, c.intrinsic("copysign", fconst(b.t, 0.0), b))
    return c.select(huge, nothing, near)
