"""ldmatrix and mma. A register of the A or B operand, seen over the warp, is a row-major block of 8 rows.

That view makes fragments cheap: A needs no rearranging, B one transposition, and rows of D are vectors of 8.
"""

from __future__ import annotations

from evo.sim.abi import REC, WARP_SCRATCH
from evo.sim.faults import SimFault
from evo.sim.llvm_ir import Code
from evo.sim.llvm_values import V, const, fconst
from evo.sim.runtime.fault_report import ACCESS32, ctx, lane_of, report, spill
from evo.sim.runtime.routine import routine
from evo.sim.runtime.shared_memory import checked_mask, demand, mark, waves

MMA_A, MMA_B, MMA_C = WARP_SCRATCH, WARP_SCRATCH + 512, WARP_SCRATCH + 768
# Elements of a row of eight; those of b1 are words of 32 bits.
_COLUMNS = {
    "f16": 8, "bf16": 8, "tf32": 4, "s8": 16, "u8": 16, "e4m3": 16, "e5m2": 16, "s4": 32, "u4": 32, "b1": 4,
}  # fmt: skip


@routine("void", ACCESS32)
def ldmatrix(c: Code, count: int) -> None:
    _matrix(c, count, store=False)


@routine("void", ACCESS32)
def stmatrix(c: Code, count: int) -> None:
    _matrix(c, count, store=True)


def _matrix(c: Code, count: int, *, store: bool) -> None:
    """8 x 16 bytes per matrix, row addresses from lanes 8i..8i+7; packed in the scratch in order."""
    context, w, rec, addr, mask = c.args(5)
    rows = (1 << 8 * count) - 1
    with c.if_(c.icmp("ne", c.and_(mask, rows), const("i32", rows)), likely=False):
        lead = c.intrinsic("cttz", c.not_(mask), False)
        running = c.intrinsic("cttz", mask, False)
        report(c, SimFault.BARRIER, rec, w, running, const("i64", 0), extra=c.zext(lead, "i64"))
    good = checked_mask(c, 16, only=rows)
    c.bump(rec, REC["requests"])
    c.bump(rec, REC["lanes"], 32)
    c.call(waves(16), rec, addr, good)
    c.call(mark(16) if store else demand(16), context, w, rec, addr, good)
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


def floats_of(c: Code, place: V, offset: int, kind: str, count: int) -> V:
    """Packed operand elements as a vector of float (of i32 for the integer types); every conversion is exact."""
    if kind == "tf32":
        bits = c.load(f"<{count} x i32>", place, offset)
        # The hardware reads 19 bits of a tf32 operand.
        return c.bitcast(c.and_(bits, 0xFFFFE000), f"<{count} x float>")
    if kind == "f16":
        return c.cast("fpext", c.load(f"<{count} x half>", place, offset), "float")
    if kind == "bf16":
        bits = c.zext(c.load(f"<{count} x i16>", place, offset), "i32")
        wide = c.bin("shl", bits, const(bits.t, 16))
        return c.bitcast(wide, f"<{count} x float>")
    if kind == "b1":
        return c.load(f"<{count} x i32>", place, offset)
    if kind in ("s4", "u4"):
        pairs = c.zext(c.load(f"<{count // 2} x i8>", place, offset), "i32")
        nibbles = c.shuffle(
            pairs, c.lshr(pairs, const(pairs.t, 4)), [i // 2 + count // 2 * (i % 2) for i in range(count)]
        )
        top = c.shl(nibbles, const(nibbles.t, 28))
        return c.ashr(top, const(top.t, 28)) if kind == "s4" else c.lshr(top, const(top.t, 28))
    raw = c.load(f"<{count} x i8>", place, offset)
    if kind in ("e4m3", "e5m2"):
        return eight_bit(c, raw, kind)
    return c.sext(raw, "i32") if kind == "s8" else c.zext(raw, "i32")


def eight_bit(c: Code, raw: V, kind: str) -> V:
    """fp8 bytes -> float. e5m2 is the upper half of an f16; e4m3 is an f16 with its exponent off by 8 and one NaN."""
    wide = c.zext(raw, "i16")
    if kind == "e5m2":
        return c.cast("fpext", c.bits(c.shl(wide, 8), "half"), "float")
    bits = c.or_(c.shl(c.and_(wide, 0x80), 8), c.shl(c.and_(wide, 0x7F), 7))
    value = c.cast("fpext", c.bits(bits, "half"), "float")
    value = c.bin("fmul", value, fconst(value.t, 256.0))
    nan = c.icmp("eq", c.and_(wide, 0x7F), 0x7F)
    return c.select(nan, c.bits(const(c.bits(value, "i32").t, 0x7FFFFFFF), "float"), value)


@routine("void", "ptr w")
def mma(c: Code, a_kind: str, b_kind: str, blocks: int, d_kind: str, op: str, *, sat: bool) -> None:
    """D = A B + C for one m16n8 tile; `blocks` blocks along k. op: `mul`; of bits, `and` or `xor` and then a count."""
    w = c.arg(0)
    columns = _COLUMNS[a_kind]
    whole = d_kind == "s32"
    e = "i32" if whole else "float"
    a_store = c.buffer(4 * 8 * columns * 2 * blocks)
    for index in range(2 * blocks):
        c.store(floats_of(c, w, MMA_A + 128 * index, a_kind, 8 * columns), a_store, index * 32 * columns, 4)
    b_rows: list[V] = []
    for index in range(blocks):
        block = floats_of(c, w, MMA_B + 128 * index, b_kind, 8 * columns)
        for k in range(columns):
            b_rows.append(c.shuffle(block, None, [n * columns + k for n in range(8)]))
    outs: list[V] = []
    for half in range(2):
        addends = _initial_rows(c, w, half, d_kind)
        rows = [const(row.t, 0) for row in addends] if sat else list(addends)
        for k, b_row in enumerate(b_rows):
            index, column = 2 * (k // columns) + half, k % columns
            for r in range(8):
                a = c.load(e, a_store, 4 * (index * 8 * columns + r * columns + column), 4)
                wide = c.op(f"<8 x {e}>", f"insertelement <8 x {e}> poison, {e} {a.s}, i64 0")
                wide = c.op(wide.t, f"shufflevector {wide.t} {wide.s}, {wide.t} poison, <8 x i32> zeroinitializer")
                if op != "mul":
                    both = c.bin(op, wide, b_row)
                    rows[r] = c.add(rows[r], c.extern(both.t, "llvm.ctpop.v8i32", both))
                elif whole:
                    rows[r] = c.add(rows[r], c.mul(wide, b_row))
                else:
                    rows[r] = c.extern("<8 x float>", "llvm.fma.v8f32", wide, b_row, rows[r])
        if sat:
            rows = [c.extern(x.t, "llvm.sadd.sat.v8i32", x, y) for x, y in zip(rows, addends, strict=True)]
        outs += rows
    _finish(c, w, outs, d_kind)
    c.ret_()


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


@routine("void", "ptr w")
def mma_f64(c: Code) -> None:
    """m8n8k4: A is 8 x 4 row by row, B is 8 columns of 4, C two registers of alternating columns."""
    w = c.arg(0)
    b = c.load("<32 x double>", w, MMA_B)
    columns = [c.shuffle(b, None, [4 * n + k for n in range(8)]) for k in range(4)]
    left, right = (c.load("<32 x double>", w, MMA_C + 256 * i) for i in range(2))
    block = c.shuffle(left, right, [i // 2 + 32 * (i % 2) for i in range(64)])
    rows = []
    for r in range(8):
        total = c.shuffle(block, None, range(8 * r, 8 * r + 8))
        for k, column in enumerate(columns):
            x = c.load("double", w, MMA_A + 8 * (4 * r + k))
            wide = c.op(total.t, f"insertelement {total.t} poison, double {x.s}, i64 0")
            wide = c.op(total.t, f"shufflevector {total.t} {wide.s}, {total.t} poison, <8 x i32> zeroinitializer")
            total = c.extern(total.t, "llvm.fma.v8f64", wide, column, total)
        rows.append(total)
    while len(rows) > 1:
        width = int(rows[0].t[1:].split(" ")[0])
        rows = [c.shuffle(x, y, range(2 * width)) for x, y in zip(rows[::2], rows[1::2], strict=True)]
    for part in range(2):
        c.store(c.shuffle(rows[0], None, range(part, 64, 2)), w, MMA_C + 256 * part)
    c.ret_()
