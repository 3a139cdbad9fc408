"""PTX arithmetic on many values at once, with NumPy. Values are bits; an instruction's type says what they mean.

PTX ISA 8.x, chapter 9. Approximate functions are computed exactly, which is off by an ulp or two at most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evo.sim.ptx.ast import WIDTH

Bits = NDArray[np.uint64]
FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}

TESTS: dict[str, Callable[..., NDArray[np.bool_]]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
    "num": lambda a, b: ~(np.isnan(a) | np.isnan(b)), "nan": lambda a, b: np.isnan(a) | np.isnan(b),
}  # fmt: skip


def cut(value: Bits, kind: str) -> Bits:
    width = WIDTH[kind]
    return value if width >= 64 else value & np.uint64((1 << width) - 1)


def typed(value: Bits, kind: str) -> NDArray[Any]:
    """The numbers that bits of a type stand for."""
    width = WIDTH[kind]
    if kind in FLOATS:
        return value.astype(f"u{width // 8}").view(FLOATS[kind])
    if kind[0] == "s":
        return value.astype(f"u{width // 8}").view(f"i{width // 8}").astype(np.int64)
    return value


def bits_of(value: NDArray[np.generic], kind: str) -> Bits:
    """The bits of numbers in a type."""
    width = WIDTH[kind]
    if kind in FLOATS:
        return np.asarray(value).astype(FLOATS[kind]).view(f"u{width // 8}").astype(np.uint64)
    array = np.asarray(value)
    if array.dtype.kind == "f":  # a float parameter that is loaded as bits
        return array.view(f"u{array.dtype.itemsize}").astype(np.uint64)
    return cut(array.astype(np.int64).view(np.uint64) if array.dtype != np.uint64 else array, kind)


def tested(test: str, kind: str, left: Bits, right: Bits) -> NDArray[np.bool_]:
    """What a comparison says of numbers of a type."""
    left, right = typed(left, kind), typed(right, kind)
    found = TESTS[test.rstrip("u") if kind[0] == "f" and test != "num" else test](left, right)
    if kind[0] == "f" and test in ("equ", "neu", "ltu", "leu", "gtu", "geu"):
        found = found | np.isnan(left) | np.isnan(right)
    return found


def masks(test: str, to: str, left: Bits, right: Bits) -> Bits:
    """What a comparison of two halves each leaves in 32 bits: a one of their type where it holds, or all bits."""
    one = np.uint64(0x3C00 if to == "f16x2" else 0xFFFF)
    sides = [[cut(side >> np.uint64(shift), "f16") for side in (left, right)] for shift in (0, 16)]
    return packed([np.where(tested(test, "f16", *pair), one, np.uint64(0)) for pair in sides], "b32")


def packed(parts: Sequence[Bits], kind: str) -> Bits:
    """Parts of a type side by side; the first lies lowest."""
    width = WIDTH[kind] // len(parts)
    total = parts[0]
    for at, part in enumerate(parts[1:], 1):
        total = total | part << np.uint64(width * at)
    return total


def converted(value: Bits, mods: Sequence[str]) -> Bits:
    to, origin = mods[-2], mods[-1]
    number = typed(cut(value, origin), origin)
    if to in FLOATS:
        return bits_of(number.astype(np.float64), to)
    if number.dtype.kind == "f":
        rounded = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
        number = next((rounded[mod] for mod in mods if mod in rounded), np.trunc)(number.astype(np.float64))
        low, high = (0, 2 ** WIDTH[to] - 1) if to[0] == "u" else (-(2 ** (WIDTH[to] - 1)), 2 ** (WIDTH[to] - 1) - 1)
        number = np.clip(np.nan_to_num(number), low, min(high, 2**62)).astype(np.int64)
    return bits_of(number, to)


Operation = Callable[..., Bits]


def _of_numbers(function: Callable[..., NDArray[Any]]) -> Operation:
    def compute(kind: str, _mods: Sequence[str], *given: Bits) -> Bits:
        if kind[0] != "f":
            return bits_of(function(*(typed(value, kind) for value in given)), kind)
        return bits_of(function(*(typed(value, kind).astype(np.float64) for value in given)), kind)

    return compute


def _product(kind: str, mods: Sequence[str], left: Bits, right: Bits, *more: Bits) -> Bits:
    if kind[0] == "f":
        return _of_numbers(np.multiply)(kind, mods, left, right)
    a, b = typed(left, kind), typed(right, kind)
    if "hi" in mods:
        if WIDTH[kind] == 64:
            wide = np.asarray(a, object) * np.asarray(b, object) // 2**64
            whole = np.asarray([int(v) & (2**64 - 1) for v in wide.reshape(-1)], np.uint64)
            return whole.reshape(wide.shape)
        product = bits_of((a * b) >> a.dtype.type(WIDTH[kind]), kind)
    else:
        product = bits_of(a * b, "b64" if "wide" in mods else kind)
    if not more:
        return product
    total = product + more[0]
    return total if "wide" in mods else cut(total, kind)


def _quotient(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    if np.asarray(a).dtype.kind == "f":
        return np.asarray(np.divide(a, b))
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    return np.asarray(np.sign(a) * np.sign(safe) * (np.abs(a) // np.abs(safe)) if a.dtype.kind == "i" else a // safe)


def _remainder(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(a - _quotient(a, b) * np.where(b == 0, 1, b).astype(a.dtype))


def _shift_left(kind: str, _mods: Sequence[str], value: Bits, by: Bits) -> Bits:
    return np.where(by < WIDTH[kind], cut(value << np.minimum(by, 63), kind), np.uint64(0))


def _shift_right(kind: str, _mods: Sequence[str], value: Bits, by: Bits) -> Bits:
    number = typed(value, kind)
    return bits_of(number >> np.minimum(by, WIDTH[kind] - 1).astype(number.dtype), kind)


def _bit_count(_kind: str, _mods: Sequence[str], value: Bits) -> Bits:
    return np.bitwise_count(value).astype(np.uint64)


def _leading_zeros(kind: str, _mods: Sequence[str], value: Bits) -> Bits:
    filled = value
    for step in (1, 2, 4, 8, 16, 32):
        filled = filled | (filled >> np.uint64(step))
    return np.uint64(WIDTH[kind]) - np.bitwise_count(filled).astype(np.uint64)


def _field(_kind: str, _mods: Sequence[str], value: Bits, start: Bits, length: Bits) -> Bits:
    mask = (np.uint64(1) << np.minimum(length, 63)) - np.uint64(1)
    return (value >> np.minimum(start, 63)) & mask


def _logic(kind: str, _mods: Sequence[str], a: Bits, b: Bits, c: Bits, table: Bits) -> Bits:
    out = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), np.uint64)
    for number in range(8):
        if int(table) >> number & 1:
            out |= (a if number & 4 else ~a) & (b if number & 2 else ~b) & (c if number & 1 else ~c)
    return cut(out, kind)


OPERATIONS: dict[str, Operation] = {
    "add": _of_numbers(np.add), "sub": _of_numbers(np.subtract), "mul": _product, "mad": _product,
    "mul24": _product, "div": _of_numbers(_quotient), "rem": _of_numbers(_remainder),
    "min": _of_numbers(np.minimum), "max": _of_numbers(np.maximum), "abs": _of_numbers(np.abs),
    "neg": _of_numbers(np.negative), "fma": _of_numbers(lambda a, b, c: a * b + c),
    "sqrt": _of_numbers(np.sqrt), "rsqrt": _of_numbers(lambda a: 1 / np.sqrt(a)),
    "rcp": _of_numbers(lambda a: 1 / a), "ex2": _of_numbers(np.exp2), "lg2": _of_numbers(np.log2),
    "sin": _of_numbers(np.sin), "cos": _of_numbers(np.cos),
    "shl": _shift_left, "shr": _shift_right, "popc": _bit_count, "clz": _leading_zeros, "bfe": _field, "lop3": _logic,
    "and": lambda _kind, _mods, a, b: a & b, "or": lambda _kind, _mods, a, b: a | b,
    "xor": lambda _kind, _mods, a, b: a ^ b, "not": lambda kind, _mods, a: cut(~a, kind),
}  # fmt: skip
