"""Types of elements that rules copy and pack: the size of each in bytes. Others are left alone."""

from __future__ import annotations

BYTES = {
    **dict.fromkeys(("unsigned char", "signed char", "uint8_t", "int8_t"), 1),
    **dict.fromkeys(("half", "__half", "__nv_bfloat16", "nv_bfloat16", "short", "unsigned short"), 2),
    **dict.fromkeys(("int16_t", "uint16_t"), 2),
    **dict.fromkeys(("float", "int", "unsigned", "unsigned int", "int32_t", "uint32_t"), 4),
    **dict.fromkeys(("half2", "__half2", "__nv_bfloat162", "nv_bfloat162"), 4),
    **dict.fromkeys(("double", "float2", "int2", "uint2", "long long", "unsigned long long"), 8),
    **dict.fromkeys(("int64_t", "uint64_t"), 8),
}
