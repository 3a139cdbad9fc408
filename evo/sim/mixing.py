"""What floats come to before they are rounded, as one number that names no place and no order."""

from __future__ import annotations

from evo.sim.llvm_ir import Code
from evo.sim.llvm_values import V

_MIX = 0x1E3779B97F4A7C15


def mixed(c: Code, bits: V) -> V:
    """A number of 64 bits that differs much between values that differ little."""
    wide = c.mul(bits if bits.t.endswith(("i64", "i64>")) else c.zext(bits, "i64"), _MIX)
    return c.mul(c.bin("xor", wide, c.lshr(wide, 29)), _MIX)
