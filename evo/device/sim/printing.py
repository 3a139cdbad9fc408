"""Text that a kernel printed: C format strings applied to the argument bytes that the launch recorded."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evo.device.sim.layout import PRINT, PRINT_LIMIT, PRINT_SIZE
from evo.device.sim.memory import SLACK, Buffer

_TEXT_LIMIT = 4096  # bytes of one string
_SPEC = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<digits>\*|\d+))?(?P<size>hh|h|ll|l|j|z|t)?(?P<kind>.)"
)


def printed(records: NDArray[np.uint8], count: int, buffers: Sequence[Buffer]) -> str:
    """Everything the launch printed, in the order of execution; says how many records were dropped."""
    out = []
    for index in range(min(count, PRINT_LIMIT)):
        row = records[index * PRINT_SIZE : (index + 1) * PRINT_SIZE].tobytes()
        block, thread, place, length = (_word(row, PRINT[name]) for name in ("block", "thread", "format", "length"))
        data = row[PRINT["data"] : PRINT["data"] + length]
        if place:
            out.append(formatted(text_at(place, buffers), data, buffers))
            continue
        message, file, line, function = struct.unpack("<4Q", data)
        names = [text_at(address, buffers) for address in (file, function, message)]
        where = f"{names[0]}:{line}: {names[1]}: block {block}, thread {thread}"
        out.append(f"{where} Assertion `{names[2]}` failed.\n")
    if count > PRINT_LIMIT:
        out.append(f"[{count - PRINT_LIMIT} more calls of printf are not kept]\n")
    return "".join(out)


def _word(row: bytes, at: int) -> int:
    return int(struct.unpack_from("<q", row, at)[0])


def text_at(address: int, buffers: Sequence[Buffer]) -> str:
    """The zero-terminated string at a device address; `(invalid)` where there is none."""
    for buffer in buffers:
        start = address - buffer.address
        if 0 <= start < buffer.size_bytes:
            raw = buffer.data[SLACK + start : SLACK + min(buffer.size_bytes, start + _TEXT_LIMIT)].tobytes()
            return raw.split(b"\0", 1)[0].decode("utf-8", "replace")
    return "(invalid)"


def formatted(text: str, data: bytes, buffers: Sequence[Buffer]) -> str:
    """printf on the packed arguments: 4 bytes for int, 8 for everything wider, each naturally aligned."""
    at = 0

    def take(size: int, code: str) -> float | int:
        nonlocal at
        at = -(-at // size) * size
        if at + size > len(data):
            return 0
        value = struct.unpack_from("<" + code, data, at)[0]
        at += size
        return value  # type: ignore[no-any-return]

    def replace(found: re.Match[str]) -> str:
        kind = found["kind"]
        if kind == "%":
            return "%"
        width, digits = (str(take(4, "i")) if part == "*" else part for part in (found["width"], found["digits"]))
        spec = f"%{found['flags']}{min(int(width), 1000) if width else ''}"
        spec += f".{min(int(digits), 1000)}" if digits is not None else ""
        wide = found["size"] in ("l", "ll", "j", "z", "t")
        if kind in "fFeEgG":
            return (spec + kind) % take(8, "d")
        if kind in "aA":
            return float(take(8, "d")).hex()
        if kind in "di":
            return (spec + "d") % take(8 if wide else 4, "q" if wide else "i")
        if kind in "uxXo":
            return (spec + ("d" if kind == "u" else kind)) % take(8 if wide else 4, "Q" if wide else "I")
        if kind == "c":
            return (spec + "c") % (int(take(4, "i")) & 0xFF)
        if kind == "p":
            return f"0x{int(take(8, 'Q')):x}"
        if kind == "s":
            return (spec + "s") % text_at(int(take(8, "Q")), buffers)
        return found[0]

    return _SPEC.sub(replace, text)
