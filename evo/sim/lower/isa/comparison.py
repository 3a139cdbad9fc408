"""Comparisons of floats: how LLVM spells them, and the smaller or larger of two."""

from __future__ import annotations

from evo.sim.errors import refuse
from evo.sim.llvm_values import V, elem, is_vec
from evo.sim.lower.emitter import Emitter
from evo.sim.ptx.ast import Instr

FLOAT_COMPARISONS = {
    "eq": "oeq", "ne": "one", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "num": "ord", "nan": "uno",
    "equ": "ueq", "neu": "une", "ltu": "ult", "leu": "ule", "gtu": "ugt", "geu": "uge",
}  # fmt: skip


def combined(ins: Instr) -> str | None:
    """How the result of a comparison is joined with a third operand; None if there is none."""
    found = [mod for mod in ins.mods if mod in ("and", "or", "xor")]
    if len(found) != len(ins.args) - 3:
        raise refuse(ins, "operands")
    return found[0] if found else None


def pick_extremum(e: Emitter, name: str, a: V, b: V, *, nan: bool) -> V:
    """The smaller or larger; -0 is below +0; one NaN gives the other operand unless `nan`."""
    c = e.c
    how = "olt" if name == "min" else "ogt"
    best = c.select(c.fcmp(how, a, b), a, b)
    t = {"float": "i32", "double": "i64"}[elem(a.t)]
    x, y = c.bits(a, t), c.bits(b, t)
    both = c.bits(c.or_(x, y) if name == "min" else c.and_(x, y), elem(a.t))
    best = c.select(c.fcmp("oeq", a, b), both, best)
    a_nan, b_nan = c.fcmp("uno", a, a), c.fcmp("uno", b, b)
    if nan:
        return c.select(c.or_(a_nan, b_nan), V(a.t, _nan(a.t)), best)
    best = c.select(b_nan, a, best)
    # With b a NaN the comparison already failed towards b; with a the NaN it chose b.
    return c.select(c.and_(a_nan, b_nan), V(a.t, _nan(a.t)), best)


def _nan(t: str) -> str:
    text = "0x7FFFFFFFE0000000" if elem(t) == "float" else "0x7FFFFFFFFFFFFFFF"
    return text if not is_vec(t) else "<" + ", ".join([f"{elem(t)} {text}"] * 32) + ">"
