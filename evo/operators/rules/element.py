"""Types of elements that rules copy and pack: the size of each in bytes. Others are left alone."""

from __future__ import annotations

from evo.spec.element_types import DTYPES, OF_C_TYPE

BYTES = {
    **{spelled: DTYPES[name] for spelled, name in OF_C_TYPE.items() if name != "bool"},
    **dict.fromkeys(("half2", "__half2", "__nv_bfloat162", "nv_bfloat162"), 4),
    **dict.fromkeys(("float2", "int2", "uint2"), 8),
}
