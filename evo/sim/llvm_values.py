"""Values of LLVM IR text: (type, text) pairs. Vectors have 32 lanes unless their type says otherwise."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple


class V(NamedTuple):
    """An IR value: its type and how it is written."""

    t: str
    s: str


@lru_cache(maxsize=4096)
def vec(t: str) -> str:
    return t if t[0] == "<" else f"<32 x {t}>"


@lru_cache(maxsize=4096)
def elem(t: str) -> str:
    return t.split(" x ", 1)[1][:-1] if t[0] == "<" else t


def bits_of(e: str) -> int:
    """The width of an element type."""
    return {"float": 32, "double": 64, "half": 16}.get(e) or int(e[1:])


def is_vec(t: str) -> bool:
    return t[0] == "<"


@lru_cache(maxsize=65536)
def const(t: str, value: int) -> V:
    """An integer constant, splat for a vector type."""
    e = elem(t)
    if e == "i1":
        text = "true" if value & 1 else "false"
    elif e in ("float", "double", "half"):
        return fconst(t, float(value))
    else:
        bits = int(e[1:])
        value &= (1 << bits) - 1
        if value >= 1 << (bits - 1):
            value -= 1 << bits
        text = str(value)
    return V(t, splat_text(t, e, text))


def known_integer(value: V) -> int | None:
    """The value of an integer constant, or of each element of a vector of it; None if it is not known."""
    text = value.s
    if is_vec(value.t) and text[0] == "<":
        elements = {part.rsplit(" ", 1)[1] for part in text[1:-1].split(", ")}
        text = elements.pop() if len(elements) == 1 else ""
    if text == "zeroinitializer":
        return 0
    return int(text) if text.lstrip("-").isdigit() else None


def splat_text(t: str, e: str, text: str) -> str:
    if not is_vec(t):
        return text
    if text in ("0", "false") or (text.startswith("0x") and int(text.lstrip("0xHL") or "0", 16) == 0):
        return "zeroinitializer"
    count = int(t[1:].split(" ", 1)[0])
    return "<" + ", ".join([f"{e} {text}"] * count) + ">"


@lru_cache(maxsize=65536)
def fconst(t: str, value: float) -> V:
    """A float constant by value."""
    e = elem(t)
    if e == "half":
        text = f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    else:
        stored = struct.unpack("<f", struct.pack("<f", value))[0] if e == "float" else value
        text = f"0x{struct.unpack('<Q', struct.pack('<d', stored))[0]:016X}"
    return V(t, splat_text(t, e, text))


def iconsts(t: str, values: Sequence[int]) -> V:
    e = elem(t)
    return V(t, "<" + ", ".join(f"{e} {v}" for v in values) + ">")


IOTA32 = iconsts("<32 x i32>", range(32))
IOTA64 = iconsts("<32 x i64>", range(32))
