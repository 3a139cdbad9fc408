"""Text that a kernel printed: C format strings applied to the argument bytes that the launch recorded."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evo.sim.abi import PRINT, PRINT_LIMIT, PRINT_SIZE
from evo.sim.memory import SLACK, SimBuffer

_TEXT_LIMIT = 4096  # bytes of one string
_WIDEST = 1000  # characters that one number is padded to
_SPEC = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<digits>\*|\d+))?(?P<size>hh|h|ll|l|j|z|t|L)?(?P<kind>.)"
)


def printed(records: NDArray[np.uint8], count: int, buffers: Sequence[SimBuffer]) -> str:
    """Everything the launch printed, in the order of execution; says how many records were dropped."""
    out = []
    for index in range(min(count, PRINT_LIMIT)):
        row = records[index * PRINT_SIZE : (index + 1) * PRINT_SIZE].tobytes()
        words = (struct.unpack_from("<q", row, PRINT[name])[0] for name in ("block", "thread", "format", "length"))
        block, thread, place, length = map(int, words)
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


def text_at(address: int, buffers: Sequence[SimBuffer]) -> str:
    """The zero-terminated string at a device address; `(invalid)` if there is none."""
    for buffer in buffers:
        start = address - buffer.address
        if 0 <= start < buffer.size_bytes:
            raw = buffer.data[SLACK + start : SLACK + min(buffer.size_bytes, start + _TEXT_LIMIT)].tobytes()
            return raw.split(b"\0", 1)[0].decode("utf-8", "replace")
    return "(invalid)"


def formatted(text: str, data: bytes, buffers: Sequence[SimBuffer]) -> str:
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
        width, digits = (int(take(4, "i") if p == "*" else p or -1) for p in (found["width"], found["digits"]))
        flags = found["flags"] + ("-" if width < 0 and found["width"] else "")
        spec = f"%{flags}{min(abs(width), _WIDEST) if found['width'] else ''}"
        spec += f".{min(digits, _WIDEST)}" if digits >= 0 else ""  # a negative one is as if there were none
        wide = found["size"] in ("l", "ll", "j", "z", "t")
        bits = {"hh": 8, "h": 16}.get(found["size"], 64 if wide else 32)
        if kind in "fFeEgG":
            return (spec + kind) % take(8, "d")
        if kind in "aA":
            return (f"%{flags}{min(abs(width), _WIDEST) if found['width'] else ''}s") % _hexadecimal(take(8, "d"), kind)
        if kind in "di":
            value = int(take(8 if wide else 4, "q" if wide else "i"))
            return (spec + "d") % ((value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1))
        if kind in "uxXo":
            value = int(take(8 if wide else 4, "Q" if wide else "I")) % (1 << bits)
            text = (spec.replace("+", "").replace(" ", "") + ("d" if kind == "u" else kind)) % value
            return text.replace("0o", "0", 1) if kind == "o" else text
        if kind == "c":
            return (spec + "c") % (int(take(4, "i")) & 0xFF)
        if kind == "p":
            place = int(take(8, "Q"))
            return (spec + "s") % (f"0x{place:x}" if place else "(nil)")
        if kind == "s":
            place = int(take(8, "Q"))
            return (spec + "s") % (text_at(place, buffers) if place else "(null)")
        return found[0]

    return _SPEC.sub(replace, text)


def _hexadecimal(value: float, kind: str) -> str:
    """C's %a: as float.hex, without the zeros at the end of the fraction."""
    head, mark, exponent = float(value).hex().partition("p")
    if "." in head:
        head = head.rstrip("0").removesuffix(".")
    text = head + mark + exponent
    return text.upper() if kind == "A" else text
