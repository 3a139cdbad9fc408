"""Directed roundings of f64 arithmetic and of division, square root and reciprocal in both widths.

The nearest result is computed first; the sign of its exact error then says whether to step to a neighbour. Errors are
exact by error-free transformations, scaled where they would underflow.
"""

from __future__ import annotations

import math

from evo.sim.llvm_values import V, elem, fconst
from evo.sim.lower.emitter import Emitter
from evo.sim.lower.isa.rounding import directed, signed_zero, stepped, two_sum

_TINY = 2.0**-300  # below it, products of a value and its neighbours may underflow
_SCALE = 2.0**600


def quotient(e: Emitter, a: V, b: V, mode: str) -> V:
    """a / b."""
    c = e.c
    single = elem(a.t) == "float"
    if single:
        a, b = c.cast("fpext", a, "double"), c.cast("fpext", b, "double")
    q = c.bin("fdiv", a, b)
    x, y, d = a, c.fneg(q), b
    if not single:
        x, (y, d) = _scaled_for(e, x, a), _scaled_smaller(e, y, d, a)
    rest = c.intrinsic("copysign", fconst(a.t, 1.0), b)
    rest = c.bin("fmul", c.intrinsic("fma", y, d, x), rest)
    return directed(e, q, rest, mode) if single else _bounded(e, q, rest, mode, a, b, nonzero=b)


def root(e: Emitter, a: V, mode: str) -> V:
    """sqrt(a)."""
    c = e.c
    single = elem(a.t) == "float"
    if single:
        a = c.cast("fpext", a, "double")
    q = c.intrinsic("sqrt", a)
    x, y = a, q
    if not single:
        small = c.fcmp("olt", a, fconst(a.t, _TINY))
        x = c.select(small, c.bin("fmul", a, fconst(a.t, _SCALE)), a)
        y = c.select(small, c.bin("fmul", q, fconst(a.t, math.sqrt(_SCALE))), q)
    rest = c.intrinsic("fma", c.fneg(y), y, x)
    return directed(e, q, rest, mode) if single else _bounded(e, q, rest, mode, a)


def total(e: Emitter, a: V, b: V, mode: str) -> V:
    """a + b in f64."""
    near, error = two_sum(e, a, b)
    out = _bounded(e, near, error, mode, a, b)
    return signed_zero(e, out, mode, a, b)


def product(e: Emitter, a: V, b: V, mode: str) -> V:
    """a * b in f64."""
    c = e.c
    p = c.bin("fmul", a, b)
    x, y, factors = _scaled_pair(e, a, b, _below(e, p, 2.0**-900))
    rest = c.intrinsic("fma", x, y, c.fneg(_times(e, p, factors)))
    return _bounded(e, p, rest, mode, a, b)


def fused(e: Emitter, a: V, b: V, d: V, mode: str) -> V:
    """a * b + d in f64; the error of the nearest result is a sum of two numbers. Exact unless a * b alone overflows."""
    c = e.c
    near = c.intrinsic("fma", a, b, d)
    high = c.bin("fmul", a, b)
    tiny, far = _below(e, high, 2.0**-900), c.not_(_below(e, d, 2.0**-800))
    x, y, factors = _scaled_pair(e, a, b, c.and_(tiny, c.not_(far)))
    addend, result = _times(e, d, factors), _times(e, near, factors)
    upper = c.bin("fmul", x, y)
    first, second = two_sum(e, addend, c.intrinsic("fma", x, y, c.fneg(upper)))
    total_, rest = two_sum(e, upper, first)
    rest = c.bin("fadd", c.bin("fadd", c.bin("fsub", total_, result), rest), second)
    # A product far below the addend's last bit leaves the addend as the nearest result: only its sign counts.
    one, none = fconst(a.t, 1.0), fconst(a.t, 0.0)
    sign = c.bin("fmul", c.intrinsic("copysign", one, a), c.intrinsic("copysign", one, b))
    zero = c.or_(c.fcmp("oeq", a, none), c.fcmp("oeq", b, none))
    rest = c.select(c.and_(tiny, far), c.select(zero, none, sign), rest)
    out = _bounded(e, near, rest, mode, a, b, d)
    exact = c.fcmp("oeq", rest, none)
    return c.select(exact, signed_zero(e, out, mode, c.bin("fmul", sign, none), d), out)


def _below(e: Emitter, x: V, limit: float) -> V:
    return e.c.fcmp("olt", e.c.intrinsic("fabs", x), fconst(x.t, limit))


def _scaled_pair(e: Emitter, a: V, b: V, tiny: V) -> tuple[V, V, list[V]]:
    """Factors of a tiny product, raised where they are below 1, and what each was multiplied with."""
    c = e.c
    one, large = fconst(a.t, 1.0), fconst(a.t, _SCALE)
    factors = [c.select(c.and_(tiny, _below(e, x, 1.0)), large, one) for x in (a, b)]
    return c.bin("fmul", a, factors[0]), c.bin("fmul", b, factors[1]), factors


def _times(e: Emitter, x: V, factors: list[V]) -> V:
    """One factor at a time: their product may be out of range."""
    for factor in factors:
        x = e.c.bin("fmul", x, factor)
    return x


def _scaled_for(e: Emitter, x: V, measure: V) -> V:
    c = e.c
    small = c.fcmp("olt", c.intrinsic("fabs", measure), fconst(measure.t, _TINY))
    return c.select(small, c.bin("fmul", x, fconst(x.t, _SCALE)), x)


def _scaled_smaller(e: Emitter, x: V, y: V, measure: V) -> tuple[V, V]:
    """Scale the smaller factor of a product that is as tiny as `measure`."""
    c = e.c
    first = c.fcmp("olt", c.intrinsic("fabs", x), c.intrinsic("fabs", y))
    return (c.select(first, _scaled_for(e, x, measure), x), c.select(first, y, _scaled_for(e, y, measure)))


def _bounded(e: Emitter, near: V, rest: V, mode: str, *inputs: V, nonzero: V | None = None) -> V:
    """Step a finite result; an overflow of finite inputs ends at the largest finite number where the mode says so."""
    c = e.c
    infinity = fconst(near.t, math.inf)
    size = c.intrinsic("fabs", near)
    out = stepped(e, near, rest, mode, c.fcmp("olt", size, infinity))
    over = c.fcmp("oeq", size, infinity)
    for x in inputs:
        over = c.and_(over, c.fcmp("olt", c.intrinsic("fabs", x), infinity))
    if nonzero is not None:
        over = c.and_(over, c.fcmp("one", nonzero, fconst(nonzero.t, 0.0)))
    largest = c.intrinsic("copysign", fconst(near.t, (2 - 2.0**-52) * 2.0**1023), near)
    positive = c.fcmp("ogt", near, fconst(near.t, 0.0))
    if mode != "rz":
        over = c.and_(over, positive if mode == "rm" else c.not_(positive))
    return c.select(over, largest, out)
