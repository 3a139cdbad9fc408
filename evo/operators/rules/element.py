"""Types of elements that rules copy and pack: the size of each in bytes. Others are left alone."""

from __future__ import annotations

import re

from evo.spec.element_types import DTYPES, OF_C_TYPE

BYTES = {
    **{spelled: DTYPES[name] for spelled, name in OF_C_TYPE.items() if name != "bool"},
    **dict.fromkeys(("half2", "__half2", "__nv_bfloat162", "nv_bfloat162"), 4),
    **dict.fromkeys(("float2", "int2", "uint2"), 8),
}


def pack_name(kind: str) -> str:
    """`unsigned char` -> UnsignedChar."""
    return "".join(word.capitalize() for word in re.findall(r"[A-Za-z0-9]+", kind))


def pack_struct(name: str, kind: str, count: int, unit: int) -> str:
    """The struct of so many elements that is moved in aligned pieces of `unit` elements."""
    return f"struct alignas({unit * BYTES[kind]}) {name} {{\n    {kind} at[{count}];\n}};\n"
