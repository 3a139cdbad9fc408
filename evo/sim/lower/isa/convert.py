"""mov, cvt and cvta: copies, packing, and conversions between all register types."""

from __future__ import annotations

from evo.sim.abi import CONST_BASE, GLOBAL_BASE, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_SIZE
from evo.sim.errors import refuse
from evo.sim.llvm_values import V, const, elem, fconst, is_vec
from evo.sim.lower.emitter import Emitter
from evo.sim.lower.isa.opcode_table import one_of, opcode, type_of
from evo.sim.lower.isa.rounding import (
    directed,
    flush,
    narrow,
    narrow_directed,
    note_unrounded,
    odd,
    saturate,
    stepped,
    two_sum,
    widen,
)
from evo.sim.ptx.ast import WIDTH, Instr, Operand, Sym, Vec
from evo.sim.runtime.tensor import eight_bit

EIGHT = {"e4m3x2", "e5m2x2"}
# mantissa bits, smallest normal exponent, bias against f32, largest finite, NaN
_FORMATS = {"e4m3x2": (3, -6, 120, 0x7E, 0x7F), "e5m2x2": (2, -14, 112, 0x7B, 0x7F)}


def convert_eight(e: Emitter, ins: Instr, to: str, source: str) -> None:
    """cvt.rn.satfinite.{e4m3x2,e5m2x2}.{f32,f16x2} and cvt.rn.f16x2.{e4m3x2,e5m2x2}, each with .relu."""
    c = e.c
    if source in EIGHT:
        if to != "f16x2" or len(ins.args) != 2 or set(ins.mods[:-2]) - {"rn", "relu"}:
            raise refuse(ins)
        both = e.src(ins.args[1], "b16")
        values = [c.trunc(both, "i8"), c.trunc(c.lshr(both, 8), "i8")]
        halves = [narrow(e, eight_bit(c, value, source[:4]), "f16") for value in values]
        if "relu" in ins.mods:
            halves = [_relu_half(e, half) for half in halves]
        low, high = (c.zext(half, "i32") for half in halves)
        e.dst(ins.args[0], c.or_(low, c.shl(high, 16)))
        return
    if not {"rn", "satfinite"} <= set(ins.mods) or source not in ("f32", "f16x2"):
        raise refuse(ins)
    if source == "f32":
        if len(ins.args) != 3:
            raise refuse(ins, "operands")
        high, low = c.same(e.src(ins.args[1], "f32"), e.src(ins.args[2], "f32"))
    else:
        pair = e.src(ins.args[1], "b32")
        low, high = (widen(e, c.trunc(c.lshr(pair, at), "i16"), "f16") for at in (0, 16))
    low, high = (c.zext(encode(e, x, to, relu="relu" in ins.mods), "i16") for x in (low, high))
    e.dst(ins.args[0], c.or_(low, c.shl(high, 8)))


def _relu_half(e: Emitter, half: V) -> V:
    c = e.c
    nan = c.icmp("ugt", c.and_(half, 0x7FFF), 0x7C00)
    negative = c.icmp("slt", half, 0)
    return c.select(nan, const(half.t, 0x7FFF), c.select(negative, const(half.t, 0), half))


def encode(e: Emitter, x: V, kind: str, *, relu: bool) -> V:
    """float -> 8 bits, to nearest even; too large becomes the largest finite value, NaN stays NaN."""
    c = e.c
    digits, least, bias, largest, nan = _FORMATS[kind]
    bits = c.bits(x, "i32")
    size = c.and_(bits, 0x7FFFFFFF)
    drop = 23 - digits
    even = c.add(c.and_(c.lshr(size, drop), 1), (1 << (drop - 1)) - 1)
    normal = c.sub(c.lshr(c.add(size, even), drop), bias << digits)
    # Below the smallest normal number the code is a plain count of the smallest denormal.
    magnitude = c.bits(size, "float")
    scaled = c.bin("fmul", magnitude, fconst(x.t, 2.0 ** (digits - least)))
    small = c.fcmp("olt", magnitude, fconst(x.t, 2.0**least))
    bounded = c.select(small, scaled, fconst(x.t, 0.0))
    tiny = c.cast("fptosi", c.intrinsic("rint", bounded), "i32")
    code = c.intrinsic("umin", c.select(small, tiny, normal), const(size.t, largest))
    code = c.or_(code, c.and_(c.lshr(bits, 24), 0x80))
    if relu:
        code = c.select(c.icmp("slt", bits, 0), const(code.t, 0), code)
    return c.trunc(c.select(c.fcmp("uno", x, x), const(code.t, nan), code), "i8")


_ALL = "pred b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f16 bf16 f32 f64 f16x2 bf16x2 tf32"
_FLOAT = {"f16", "bf16", "f32", "f64"}
_NUMBERS = {*["u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64"], *_FLOAT}
_WINDOWS = {
    "shared": SHARED_WINDOW, "shared::cta": SHARED_WINDOW, "local": LOCAL_WINDOW,
    "param": PARAM_WINDOW, "param::entry": PARAM_WINDOW,
}  # fmt: skip
_SPANS = {
    "shared": (SHARED_WINDOW, WINDOW_SIZE),
    "local": (LOCAL_WINDOW, WINDOW_SIZE),
    "param": (PARAM_WINDOW, WINDOW_SIZE),
    "const": (CONST_BASE, GLOBAL_BASE - CONST_BASE),
}


@opcode("mov", _ALL, "mov", operands=(2, 2))
def move(e: Emitter, ins: Instr) -> None:
    kind = type_of(ins)
    target, source = ins.args
    if isinstance(target, Vec) and isinstance(source, Vec):
        raise refuse(ins)
    if isinstance(target, Vec):
        _unpack(e, ins, target, source, kind)
    elif isinstance(source, Vec):
        _pack(e, ins, target, source, kind)
    elif isinstance(source, Sym):
        e.dst(target, const(f"i{WIDTH[kind]}", e.address_of(source)))
    else:
        e.dst(target, e.src(source, kind if kind not in ("f16", "bf16") else "b16"), signed=kind[0] == "s")


def _unpack(e: Emitter, ins: Instr, target: Vec, source: Operand, kind: str) -> None:
    width = WIDTH[kind] // len(target.items)
    value = e.src(source, kind)
    if width not in (8, 16, 32, 64):
        raise refuse(ins)
    value = e.c.bits(value, f"i{WIDTH[kind]}")
    for index, item in enumerate(target.items):
        e.dst(item, e.c.trunc(e.c.lshr(value, index * width) if index else value, f"i{width}"))


def _pack(e: Emitter, ins: Instr, target: Operand, source: Vec, kind: str) -> None:
    width = WIDTH[kind] // len(source.items)
    if width not in (8, 16, 32, 64):
        raise refuse(ins)
    values = [e.c.zext(e.src(item, f"b{width}"), f"i{WIDTH[kind]}") for item in source.items]
    total = values[0]
    for index, value in enumerate(values[1:], 1):
        shifted = e.c.shl(value, index * width)
        total = e.c.or_(*e.c.same(total, shifted))
    e.dst(target, total)


@opcode("cvta", "to global shared local const param param::entry shared::cta u32 u64", "int", operands=(2, 2))
def convert_address(e: Emitter, ins: Instr) -> None:
    """Generic <-> space: global and const are the identity, the others have windows."""
    kind, c = type_of(ins), e.c
    if kind != "u64":
        raise refuse(ins)
    base = next((_WINDOWS[mod] for mod in ins.mods if mod in _WINDOWS), 0)
    value = e.src(ins.args[1], kind)
    if base:
        # A null pointer stays null in both directions only by accident of the program; PTX defines neither.
        value = c.sub(value, base) if "to" in ins.mods else c.add(value, base)
    e.dst(ins.args[0], value)


@opcode("isspacep", "global shared shared::cta local const param param::entry", "int", operands=(2, 2))
def in_space(e: Emitter, ins: Instr) -> None:
    """Does a generic address lie in the window of a space? The global one holds the rest, parameters included."""
    c = e.c
    address = e.src(ins.args[1], "u64")
    space = one_of(ins, *_WINDOWS, "global", "const").split("::")[0]
    inside = {name: c.icmp("ult", c.sub(address, base), size) for name, (base, size) in _SPANS.items()}
    inside["global"] = c.not_(c.or_(c.or_(inside["shared"], inside["local"]), inside["const"]))
    e.dst(ins.args[0], inside[space])


def _pack_saturated(e: Emitter, ins: Instr) -> None:
    """cvt.pack: two integers clamped, the first above the second; those of up to 8 bits go below a third operand."""
    c = e.c
    kinds = ins.mods[2:]
    narrow, short = ("s16", "u16"), ("s8", "u8", "s4", "u4", "s2", "u2")
    legal = [(kind, "s32") for kind in narrow] + [(kind, "s32", "b32") for kind in short]
    if ins.mods[:2] != ("pack", "sat") or kinds not in legal or len(ins.args) != len(kinds) + 1:
        raise refuse(ins)
    width = int(kinds[0][1:])
    low = -(1 << width - 1) if kinds[0][0] == "s" else 0
    parts = []
    for arg in ins.args[1:3]:
        value = e.src(arg, "s32")
        value = c.intrinsic(
            "smin", c.intrinsic("smax", value, const(value.t, low)), const(value.t, low + (1 << width) - 1)
        )
        parts.append(c.and_(value, (1 << width) - 1))
    total = c.or_(*c.same(c.shl(parts[0], width), parts[1]))
    if kinds[0] in short:
        total = c.or_(*c.same(c.shl(e.src(ins.args[3], "b32"), 2 * width), total))
    e.dst(ins.args[0], total)


@opcode(
    "cvt",
    f"rn rz rm rp rna rni rzi rmi rpi ftz sat relu satfinite pack {_ALL} e4m3x2 e5m2x2 s4 u4 s2 u2",
    "cvt",
    operands=(2, 4),
)
def convert(e: Emitter, ins: Instr) -> None:
    if "pack" in ins.mods:
        _pack_saturated(e, ins)
        return
    types = [m for m in ins.mods if m in WIDTH]
    if len(types) == 1 and len(ins.args) == 2 and types[0][0] == "b":
        e.dst(ins.args[0], e.src(ins.args[1], types[0]))
        return
    if len(types) != 2:
        raise refuse(ins)
    to, source = types
    if to in EIGHT or source in EIGHT:
        convert_eight(e, ins, to, source)
        return
    if to in ("f16x2", "bf16x2"):
        _pack_halves(e, ins, to, source)
        return
    finite = to in ("f16", "bf16", "tf32") and source == "f32" and _mode(ins) == "rn"
    if "satfinite" in ins.mods and not finite:
        raise refuse(ins)
    if len(ins.args) != 2 or source not in _NUMBERS or to not in (*_NUMBERS, "tf32"):
        raise refuse(ins)
    if to == "tf32":
        _to_tf32(e, ins, source)
        return
    value = _load(e, ins, source)
    if to in _FLOAT:
        if source in _FLOAT and WIDTH[to] < WIDTH[source]:
            note_unrounded(e, ins, value)
        out = _to_float(e, ins, value, source, to)
    elif source in _FLOAT:
        out = _float_to_int(e, ins, value, to)
    else:
        out = _int_to_int(e, ins, value, source, to)
    e.dst(ins.args[0], out, signed=to[0] == "s")


def _load(e: Emitter, ins: Instr, source: str) -> V:
    """The source; 16-bit floats become f32 at once."""
    if source in ("f16", "bf16"):
        return widen(e, e.src(ins.args[1], "b16"), source)
    value = e.src(ins.args[1], source)
    if "ftz" in ins.mods and source == "f32":
        value = flush(e, value, always=True)
    return value


def _mode(ins: Instr) -> str:
    return next((m for m in ins.mods if m in ("rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi")), "rn")


def _int_to_int(e: Emitter, ins: Instr, value: V, source: str, to: str) -> V:
    c = e.c
    have, want = WIDTH[source], WIDTH[to]
    is_signed = source[0] == "s"
    if "sat" in ins.mods:
        wide = max(have, want) * 2
        big = c.sext(value, f"i{wide}") if is_signed else c.zext(value, f"i{wide}")
        low = -(1 << (want - 1)) if to[0] == "s" else 0
        high = (1 << (want - 1)) - 1 if to[0] == "s" else (1 << want) - 1
        big = c.intrinsic("smin", c.intrinsic("smax", big, const(big.t, low)), const(big.t, high))
        return c.trunc(big, f"i{want}")
    if have > want:
        return c.trunc(value, f"i{want}")
    if have < want:
        return c.sext(value, f"i{want}") if is_signed else c.zext(value, f"i{want}")
    return value


def _round_whole(e: Emitter, value: V, mode: str) -> V:
    name = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}[mode]
    return e.c.intrinsic("rint" if name == "roundeven" else name, value)


def _float_to_int(e: Emitter, ins: Instr, value: V, to: str) -> V:
    """Saturating; NaN gives the top bit alone if one of the types has 64 bits, else 0 (PTX ISA 9.0, and the H200)."""
    c = e.c
    mode = _mode(ins)
    if mode not in ("rni", "rzi", "rmi", "rpi"):
        raise refuse(ins, "needs an integer rounding")
    whole = _round_whole(e, value, mode)
    width = WIDTH[to]
    t = f"i{width}" if not is_vec(value.t) else f"<32 x i{width}>"
    op = "fptosi.sat" if to[0] == "s" else "fptoui.sat"
    prefix = "v32" if is_vec(value.t) else ""
    letters = {"float": "f32", "double": "f64"}[elem(value.t)]
    out = c.extern(t, f"llvm.{op}.{prefix}i{width}.{prefix}{letters}", whole)
    if width == 64 or elem(value.t) == "double":
        out = c.select(c.fcmp("uno", value, value), const(t, 1 << (width - 1)), out)
    return out


def _to_float(e: Emitter, ins: Instr, value: V, source: str, to: str) -> V:
    c = e.c
    mode = _mode(ins)
    if source not in _FLOAT:
        value = _int_to_float(e, value, source, to, mode)
        return _saturated(e, ins, value)
    if mode in ("rni", "rzi", "rmi", "rpi"):
        value = _round_whole(e, value, mode)
        mode = "rn"
    have = "f64" if elem(value.t) == "double" else "f32"
    if to == "f64":
        return _saturated(e, ins, c.cast("fpext", value, "double") if have == "f32" else value)
    if have == "f64":
        exact = fconst(value.t, 0.0)
        if to != "f32":
            value = odd(e, value, exact)
        else:
            value = c.cast("fptrunc", value, "float") if mode == "rn" else directed(e, value, exact, mode)
    if "ftz" in ins.mods and to == "f32":
        value = flush(e, value, always=True)
    value = _saturated(e, ins, value)
    if to == "f32":
        return value
    return _half(e, ins, value, to, mode)


def _half(e: Emitter, ins: Instr, value: V, to: str, mode: str) -> V:
    """f32 -> 16 bits; with .satfinite what overflows becomes the largest number, with .relu what is negative zero."""
    c = e.c
    out = narrow(e, value, to) if mode == "rn" else narrow_directed(e, value, to, mode)
    if "satfinite" in ins.mods:
        infinite = c.icmp("eq", c.and_(out, 0x7FFF), 0x7C00 if to == "f16" else 0x7F80)
        out = c.select(infinite, c.sub(out, 1), out)
    if "relu" in ins.mods:
        out = c.select(c.icmp("slt", out, 0), const(out.t, 0), out)
    return out


def _saturated(e: Emitter, ins: Instr, value: V) -> V:
    return saturate(e, value) if "sat" in ins.mods else value


def _int_to_float(e: Emitter, value: V, source: str, to: str, mode: str) -> V:
    c = e.c
    op = "sitofp" if source[0] == "s" else "uitofp"
    if mode == "rn" and to in ("f32", "f64"):
        return c.cast(op, value, "double" if to == "f64" else "float")
    total = c.cast(op, value, "double")
    error = fconst(total.t, 0.0)
    if WIDTH[source] == 64:
        # Two exact halves; their sum and its error are the integer.
        high = c.ashr(value, 32) if op == "sitofp" else c.lshr(value, 32)
        high = c.bin("fmul", c.cast(op, high, "double"), fconst(total.t, 2.0**32))
        total, error = two_sum(e, high, c.cast("uitofp", c.and_(value, 0xFFFFFFFF), "double"))
    if to == "f64":
        return stepped(e, total, error, mode, c.fcmp("ord", total, total))
    if to == "f32":
        return directed(e, total, error, mode)
    single = odd(e, total, error)
    return narrow(e, single, to) if mode == "rn" else narrow_directed(e, single, to, mode)


def _pack_halves(e: Emitter, ins: Instr, to: str, source: str) -> None:
    """cvt.rn.f16x2.f32 d, a, b: a is the upper half."""
    c = e.c
    mode = _mode(ins)
    if source != "f32" or len(ins.args) != 3 or mode not in ("rn", "rz") or ("satfinite" in ins.mods and mode != "rn"):
        raise refuse(ins)
    base = to.removesuffix("x2")
    values = [e.src(arg, "f32") for arg in ins.args[1:3]]
    note_unrounded(e, ins, *values)
    high, low = c.same(*(c.zext(_half(e, ins, value, base, mode), "i32") for value in values))
    e.dst(ins.args[0], c.or_(c.shl(high, 16), low))


def _to_tf32(e: Emitter, ins: Instr, source: str) -> None:
    c = e.c
    mode = one_of(ins, "rna", "rn")
    if source != "f32":
        raise refuse(ins)
    bits = e.src(ins.args[1], "b32")
    half = const(bits.t, 0x1000) if mode == "rna" else c.add(c.and_(c.lshr(bits, 13), 1), 0xFFF)
    rounded = c.and_(c.add(bits, half), 0xFFFFE000)
    special = c.icmp("eq", c.and_(bits, 0x7F800000), 0x7F800000)
    out = c.select(special, bits, rounded)
    if "satfinite" in ins.mods:
        out = c.select(c.icmp("eq", c.and_(out, 0x7FFFFFFF), 0x7F800000), c.sub(out, 0x2000), out)
    e.dst(ins.args[0], out)
