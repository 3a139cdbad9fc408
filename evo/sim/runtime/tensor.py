"""ldmatrix, mma and wmma. A register of the A or B operand, seen over the warp, is a row-major block of 8 rows.

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
                wide = c.splat(a, 8)
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
            total = c.extern(total.t, "llvm.fma.v8f64", c.splat(x, 8), column, total)
        rows.append(total)
    while len(rows) > 1:
        width = int(rows[0].t[1:].split(" ")[0])
        rows = [c.shuffle(x, y, range(2 * width)) for x, y in zip(rows[::2], rows[1::2], strict=True)]
    for part in range(2):
        c.store(c.shuffle(rows[0], None, range(part, 64, 2)), w, MMA_C + 256 * part)
    c.ret_()


WMMA_A, WMMA_B, WMMA_C = WARP_SCRATCH, WARP_SCRATCH + 1024, WARP_SCRATCH + 2048
# Of an element; those of b1 are words.
_BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "s8": 8, "u8": 8, "s32": 32, "s4": 4, "u4": 4, "b1": 32,
}  # fmt: skip


@routine("void", "ptr w")
def wmma(
    c: Code, kind: str, m: int, n: int, k: int, a_layout: str, b_layout: str, d_kind: str, c_kind: str, op: str, *,
    sat: bool,
) -> None:  # fmt: skip
    """op: as of `mma`."""
    w = c.arg(0)
    e = "double" if kind == "f64" else "float" if d_kind[0] == "f" else "i64" if sat else "i32"
    size = 8 if e in ("double", "i64") else 4
    a = _widened(c, c.at(w, WMMA_A), kind, e, m * k)
    b = _widened(c, c.at(w, WMMA_B), kind, e, k * n)
    if b_layout == "col":
        b = _transposed(c, b, e, n, k)
    rows = _accumulators(c, w, c_kind, e, m * n)
    a_row, a_column = (k, 1) if a_layout == "row" else (1, m)
    with c.times(const("i64", m)) as row:
        place = c.at(rows, c.mul(row, n * size))
        total = c.load(f"<{n} x {e}>", place, 0, size)
        first = c.at(a, c.mul(row, a_row * size))
        for step in range(k):
            x = c.load(e, first, step * a_column * size, size)
            total = _step(c, c.splat(x, n), c.load(total.t, b, step * n * size, size), total, e, op)
        c.store(total, place, 0, size)
    if not (d_kind == c_kind and d_kind != "f16" and e != "i64"):  # otherwise the rows are in place
        _deliver(c, w, rows, d_kind, e, m, n)
    c.ret_()


def _step(c: Code, x: V, y: V, total: V, e: str, op: str) -> V:
    if op != "mul":
        both = c.bin(op, x, y)
        return c.add(total, c.extern(both.t, f"llvm.ctpop.v{both.t[1:].split(' ')[0]}i32", both))
    if e[0] == "i":
        return c.add(total, c.mul(x, y))
    count = total.t[1:].split(" ")[0]
    name = f"llvm.fma.v{count}f{64 if e == 'double' else 32}"
    return c.extern(total.t, name, x, y, total)


def _widened(c: Code, source: V, kind: str, e: str, count: int) -> V:
    """Elements in the type that is computed in, 64 at a time to keep vectors small."""
    size = 8 if e in ("double", "i64") else 4
    out = c.buffer(count * size)
    chunk = min(count, 64)
    with c.times(const("i64", count // chunk)) as part:
        place = c.at(source, c.mul(part, chunk * _BITS[kind] // 8))
        values = c.load(f"<{chunk} x double>", place) if kind == "f64" else floats_of(c, place, 0, kind, chunk)
        if e == "i64":
            values = c.sext(values, e)
        c.store(values, c.at(out, c.mul(part, chunk * size)), 0, size)
    return out


def _transposed(c: Code, source: V, e: str, lines: int, length: int) -> V:
    size = 8 if e in ("double", "i64") else 4
    out = c.buffer(lines * length * size)
    with c.times(const("i64", lines)) as line:
        start = c.at(source, c.mul(line, length * size))
        to = c.at(out, c.mul(line, size))
        for at in range(length):
            c.store(c.load(e, start, at * size, size), to, at * lines * size, size)
    return out


def _accumulators(c: Code, w: V, kind: str, e: str, count: int) -> V:
    source = c.at(w, WMMA_C)
    if kind == "f16":
        return _widened(c, source, "f16", e, count)
    if e != "i64":
        return source
    out = c.buffer(count * 8)
    with c.times(const("i64", count // 32)) as part:
        values = c.sext(c.load("<32 x i32>", c.at(source, c.mul(part, 128))), "i64")
        c.store(values, c.at(out, c.mul(part, 256)), 0, 8)
    return out


def _deliver(c: Code, w: V, rows: V, kind: str, e: str, m: int, n: int) -> None:
    """Results to the scratch in D's type, row by row; narrowing in place never overtakes what is still to be read."""
    target = c.at(w, WMMA_C)
    size = 8 if e in ("double", "i64") else 4
    with c.times(const("i64", m)) as row:
        values = c.load(f"<{n} x {e}>", c.at(rows, c.mul(row, n * size)), 0, size)
        if kind == "f16":
            values = c.cast("fptrunc", values, "half")
        elif e == "i64":
            values = _clamped(c, values, n)
        c.store(values, c.at(target, c.mul(row, n * _BITS[kind] // 8)))


def _clamped(c: Code, values: V, n: int) -> V:
    for name, limit in (("smin", 2**31 - 1), ("smax", -(2**31))):
        values = c.extern(values.t, f"llvm.{name}.v{n}i64", values, const(values.t, limit))
    return c.trunc(values, "i32")
