"""What each kernel takes according to its PTX, held against what a launch passes.

A macro can add a parameter that the text does not show, or change its type: the machine code would read beyond what
the launch passes. That is the variant's own failure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from evo.device import Argument
from evo.spec.element_types import DTYPES

_ENTRY = re.compile(r"\.entry\s++([\w$]++)\s*+(?:\(([^)]*+)\))?")
_TYPE = re.compile(r"\.param\b[^,]*?\.(?P<kind>[busf])(?P<bits>8|16|32|64)\b[^,\[]*+(?:\[(?P<count>\d{1,9}+)\])?")
_POINTER = 8  # bytes
_REAL = {"float32", "float64"}  # what PTX declares `.f32` and `.f64`; narrower ones are bits to it

Parameter = tuple[int, bool]  # bytes, and whether it is a float


def parameter_problem(ptx: str, kernel: str, arguments: Sequence[Argument]) -> str | None:
    """How a kernel's parameters differ from what its launch passes, in words; None if they agree."""
    taken = _entries(ptx).get(kernel)
    if taken is None:
        return f"the compiler produced no kernel {kernel}"
    if len(taken) != len(arguments):
        return f"{kernel} takes {len(taken)} parameters as compiled, its text shows {len(arguments)}"
    for number, ((size, is_real), argument) in enumerate(zip(taken, arguments, strict=True), start=1):
        wanted = _POINTER if argument.is_buffer else DTYPES[argument.dtype]
        if size != wanted or (is_real and (argument.is_buffer or argument.dtype not in _REAL)):
            kind = f"{'a float' if is_real else 'a value'} of {size} bytes"
            return f"{kernel}: parameter {number} is {kind} as compiled, the task passes {argument.name} ({wanted})"
    return None


@lru_cache(maxsize=32)  # a variant has a few binaries, and each is bound to many cases
def _entries(ptx: str) -> dict[str, tuple[Parameter, ...]]:
    found = {}
    for match in _ENTRY.finditer(ptx):
        parts = [part for part in (match[2] or "").split(",") if part.strip()]
        found[match[1]] = tuple(_parameter(part) for part in parts)
    return found


def _parameter(text: str) -> Parameter:
    match = _TYPE.search(text)
    if match is None:
        return 0, False
    return int(match["bits"]) // 8 * int(match["count"] or 1), match["kind"] == "f"
