"""wmma.mma on fragments in memory order: D = A B + C, row by row, every row a vector along n."""

from __future__ import annotations

from evo.sim.abi import WARP_SCRATCH
from evo.sim.llvm_ir import Code
from evo.sim.llvm_values import V, const
from evo.sim.runtime.routine import routine
from evo.sim.runtime.tensor import floats_of

WMMA_A, WMMA_B, WMMA_C = WARP_SCRATCH, WARP_SCRATCH + 1024, WARP_SCRATCH + 2048
_BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "f32": 4, "f64": 8, "s8": 1, "u8": 1, "s32": 4}


@routine("void", "ptr w")
def wmma(
    c: Code, kind: str, m: int, n: int, k: int, a_layout: str, b_layout: str, d_kind: str, c_kind: str, *, sat: bool
) -> None:
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
            wide = c.op(total.t, f"insertelement {total.t} poison, {e} {x.s}, i64 0")
            zero = f"<{n} x i32> zeroinitializer"
            wide = c.op(total.t, f"shufflevector {total.t} {wide.s}, {total.t} poison, {zero}")
            total = _step(c, wide, c.load(total.t, b, step * n * size, size), total, e)
        c.store(total, place, 0, size)
    if not (d_kind == c_kind and d_kind != "f16" and e != "i64"):  # otherwise the rows are in place
        _deliver(c, w, rows, d_kind, e, m, n)
    c.ret_()


def _step(c: Code, x: V, y: V, total: V, e: str) -> V:
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
        place = c.at(source, c.mul(part, chunk * _BYTES[kind]))
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
        c.store(values, c.at(target, c.mul(row, n * _BYTES[kind])))


def _clamped(c: Code, values: V, n: int) -> V:
    for name, limit in (("smin", 2**31 - 1), ("smax", -(2**31))):
        values = c.extern(values.t, f"llvm.{name}.v{n}i64", values, const(values.t, limit))
    return c.trunc(values, "i32")
