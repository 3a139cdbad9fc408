"""ldmatrix and mma. A register of the A or B operand, seen over the warp, is a row-major block of 8 rows.

That view makes fragments cheap: A needs no rearranging, B one transposition, and rows of D are vectors of 8.
"""

from __future__ import annotations

import re

from evo.device.sim.ir import Code, V, const
from evo.device.sim.layout import REC, WARP_SCRATCH
from evo.device.sim.run.base import ctx, lane_of, memory_code, report, spill
from evo.device.sim.run.registry import runtime
from evo.device.sim.run.shared import checked_mask

MMA_A, MMA_B, MMA_C = WARP_SCRATCH, WARP_SCRATCH + 512, WARP_SCRATCH + 768
_COLUMNS = {"f16": 8, "bf16": 8, "tf32": 4, "s8": 16, "u8": 16}


@runtime(r"(ld|st)matrix_(\d)")
def _matrix(m: re.Match[str]) -> Code:
    """8 x 16 bytes per matrix, row addresses from lanes 8i..8i+7; packed in the scratch in order."""
    store, count = m[1] == "st", int(m[2])
    c = memory_code("void", m[0], "<32 x i32>")
    context, w, rec, addr, mask = (c.arg(i) for i in range(5))
    rows = (1 << 8 * count) - 1
    with c.if_(c.icmp("ne", c.and_(mask, rows), const("i32", rows)), likely=False):
        lead = c.intrinsic("cttz", c.not_(mask), False)
        report(c, "barrier", rec, w, c.intrinsic("cttz", mask, False), const("i64", 0), extra=c.zext(lead, "i64"))
    good = checked_mask(c, 16, only=rows)
    c.bump(rec, REC["requests"])
    c.bump(rec, REC["lanes"], 32)
    c.call("void", "waves_16", rec, addr, good)
    c.call("void", "mark_16" if store else "demand_16", context, w, rec, addr, good)
    place = spill(c, addr, 128)
    base, scratch = ctx(c, context, "shared", "ptr"), c.at(w, WARP_SCRATCH)
    with c.each_lane(good) as lane:
        host = c.at(base, c.zext(lane_of(c, place, lane, "i32"), "i64"))
        packed = c.at(scratch, c.shl(c.zext(lane, "i64"), 4))
        if store:
            c.store(c.load("i128", packed), host)
        else:
            c.store(c.load("i128", host), packed)
    c.ret_()
    return c


def _elements(c: Code, place: V, offset: int, kind: str) -> V:
    """One operand register over the warp as 8 rows of float or i32 elements."""
    columns = _COLUMNS[kind]
    count = 8 * columns
    if kind == "tf32":
        bits = c.load("<32 x i32>", place, offset)
        # The hardware reads 19 bits of a tf32 operand.
        return c.bitcast(c.and_(bits, 0xFFFFE000), "<32 x float>")
    if kind == "f16":
        return c.cast("fpext", c.load(f"<{count} x half>", place, offset), "float")
    if kind == "bf16":
        bits = c.zext(c.load(f"<{count} x i16>", place, offset), "i32")
        wide = c.bin("shl", bits, const(bits.t, 16))
        return c.bitcast(wide, f"<{count} x float>")
    raw = c.load(f"<{count} x i8>", place, offset)
    return c.sext(raw, "i32") if kind == "s8" else c.zext(raw, "i32")


@runtime(r"mma_(f16|bf16|tf32|s8|u8)_(f16|bf16|tf32|s8|u8)_(1|2)_(f32|f16|s32)")
def _mma(m: re.Match[str]) -> Code:
    """D = A B + C for one m16n8 tile; `m[3]` blocks along k."""
    a_kind, b_kind, blocks, d_kind = m[1], m[2], int(m[3]), m[4]
    c = Code("void", m[0], [("ptr", "w")], "noinline")
    w = c.arg(0)
    columns = _COLUMNS[a_kind]
    whole = d_kind == "s32"
    e = "i32" if whole else "float"
    a_store = c.buffer(4 * 8 * columns * 2 * blocks)
    for index in range(2 * blocks):
        c.store(_elements(c, w, MMA_A + 128 * index, a_kind), a_store, index * 32 * columns, 4)
    b_rows: list[V] = []
    for index in range(blocks):
        block = _elements(c, w, MMA_B + 128 * index, b_kind)
        for k in range(columns):
            b_rows.append(c.shuffle(block, None, [n * columns + k for n in range(8)]))
    outs: list[V] = []
    for half in range(2):
        rows = _initial_rows(c, w, half, d_kind)
        for k, b_row in enumerate(b_rows):
            index, column = 2 * (k // columns) + half, k % columns
            for r in range(8):
                a = c.load(e, a_store, 4 * (index * 8 * columns + r * columns + column), 4)
                wide = c.op(f"<8 x {e}>", f"insertelement <8 x {e}> poison, {e} {a.s}, i64 0")
                wide = c.op(wide.t, f"shufflevector {wide.t} {wide.s}, {wide.t} poison, <8 x i32> zeroinitializer")
                if whole:
                    rows[r] = c.add(rows[r], c.mul(wide, b_row))
                else:
                    c.needs.add("llvm.fma.v8f32")
                    operands = ", ".join(f"<8 x float> {x.s}" for x in (wide, b_row, rows[r]))
                    call = f"call <8 x float> @llvm.fma.v8f32({operands})"
                    rows[r] = c.op("<8 x float>", call)
        outs += rows
    _finish(c, w, outs, d_kind)
    c.ret_()
    return c


def _initial_rows(c: Code, w: V, half: int, kind: str) -> list[V]:
    if kind == "f16":
        block = c.cast("fpext", c.load("<64 x half>", w, MMA_C + 128 * half), "float")
    else:
        e = "i32" if kind == "s32" else "float"
        left = c.load(f"<32 x {e}>", w, MMA_C + 256 * half)
        right = c.load(f"<32 x {e}>", w, MMA_C + 256 * half + 128)
        block = c.shuffle(left, right, [i // 2 + 32 * (i % 2) for i in range(64)])
    return [c.shuffle(block, None, range(8 * r, 8 * r + 8)) for r in range(8)]


def _finish(c: Code, w: V, rows: list[V], kind: str) -> None:
    for half in range(2):
        level = rows[8 * half : 8 * half + 8]
        while len(level) > 1:
            width = int(level[0].t[1:].split(" ")[0])
            level = [c.shuffle(a, b, range(2 * width)) for a, b in zip(level[::2], level[1::2], strict=True)]
        block = level[0]
        if kind == "f16":
            c.store(c.cast("fptrunc", block, "half"), w, MMA_C + 128 * half)
            continue
        for part in range(2):
            c.store(c.shuffle(block, None, range(part, 64, 2)), w, MMA_C + 256 * half + 128 * part)
