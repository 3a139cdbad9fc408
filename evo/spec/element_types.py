"""Tensor element types by the names that task files use: sizes, rounding, C types. evo/spec/dtypes.py has NumPy's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ElementType:
    """One type of element. c_types: how CUDA C++ spells it, the usual one first. header: what declares it there.

    roundoff: half the distance from 1 to the next number; None for integers.
    """

    name: str
    size_bytes: int
    c_types: tuple[str, ...]
    roundoff: float | None = None
    header: str | None = None


_INT32 = ("int", "int32_t", "signed int", "signed")
_INT64 = ("long long", "int64_t", "long", "long long int", "long int")
ELEMENT_TYPES: dict[str, ElementType] = {
    one.name: one
    for one in (
        ElementType("float64", 8, ("double",), 2.0**-53),
        ElementType("float32", 4, ("float",), 2.0**-24),
        ElementType("float16", 2, ("__half", "half"), 2.0**-11, "cuda_fp16.h"),
        ElementType("bfloat16", 2, ("__nv_bfloat16", "nv_bfloat16"), 2.0**-8, "cuda_bf16.h"),
        ElementType("float8_e4m3", 1, ("__nv_fp8_e4m3",), 2.0**-4, "cuda_fp8.h"),
        ElementType("float8_e5m2", 1, ("__nv_fp8_e5m2",), 2.0**-3, "cuda_fp8.h"),
        ElementType("int8", 1, ("signed char", "char", "int8_t")),
        ElementType("int16", 2, ("short", "int16_t")),
        ElementType("int32", 4, _INT32),
        ElementType("int64", 8, _INT64),
        ElementType("uint8", 1, ("unsigned char", "uint8_t")),
        ElementType("uint16", 2, ("unsigned short", "uint16_t", "unsigned short int")),
        ElementType("uint32", 4, ("unsigned int", "unsigned", "uint32_t")),
        ElementType("uint64", 8, ("unsigned long long", "uint64_t", "size_t", "unsigned long", "unsigned long int")),
        ElementType("bool", 1, ("bool",)),
    )
}
DTYPES = {name: one.size_bytes for name, one in ELEMENT_TYPES.items()}  # bytes of an element
ROUNDOFF = {name: one.roundoff for name, one in ELEMENT_TYPES.items() if one.roundoff is not None}
OF_C_TYPE = {spelled: name for name, one in ELEMENT_TYPES.items() for spelled in one.c_types}


def is_float(dtype: str) -> bool:
    return dtype in ROUNDOFF


def is_integer(dtype: str) -> bool:
    return dtype.startswith(("int", "uint"))


def same_bits(dtype: str, other: str) -> bool:
    """Whether a number of one type passes for one of the other: the same, or an integer of the other sign."""
    return dtype == other or (is_integer(dtype) and is_integer(other) and DTYPES[dtype] == DTYPES[other])
