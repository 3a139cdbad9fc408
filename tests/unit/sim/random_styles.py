"""Random correct kernels in the styles of many hands, and what NumPy says they compute.

A kernel is a chain of stages on one unsigned value per thread, some of them in loops or behind conditions that all
threads of a block share. A stage is CUDA text and the same on an array (blocks, threads); nothing is shared with the
simulator.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

U32, U64 = np.uint32, np.uint64
Array = np.ndarray[Any, Any]
Model = Callable[[Array], Array]
INCLUDES = {
    "half": "#include <cuda_fp16.h>\n",
    "__nv_bfloat162": "#include <cuda_bf16.h>\n",
    "cg::": "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\n"
    "namespace cg = cooperative_groups;\n",
}
HEAD = """typedef unsigned int u32; typedef unsigned long long u64;
union Pad { u32 words[256]; unsigned short halves[512]; unsigned char bytes[1024]; float floats[256]; u64 longs[128]; };
__constant__ u32 table[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
__device__ __noinline__ u32 fold(u32 n, u32 v) { return n == 0 ? v : fold(n - 1, v * 3 + n) ^ n; }
template <int N> struct Vec { u32 x[N]; __device__ u32 sum() const { u32 s = 0; for (int i = 0; i < N; i++) s += x[i];
  return s; } };
__device__ u32 twice(u32 v) { return 2 * v; }
__device__ u32 thrice(u32 v) { return 3 * v; }
struct Shape { __device__ virtual u32 area(u32 v) const { return v + 1; } };
struct Square : Shape { __device__ u32 area(u32 v) const override { return v * v; } };
"""


@dataclass
class Kernel:
    """`k(const u32* x, u32* y, u32* work)`: text, launch and the expected y."""

    text: str
    blocks: int
    threads: int
    dynamic: int
    expected: Array
    styles: list[str] = field(default_factory=list)


@dataclass
class Stage:
    text: str
    model: Model
    repeatable: bool = True  # ... in a loop, and behind a condition that a block shares


def _rot(v: Array, turn: int) -> Array:
    return np.roll(v, -turn, axis=1)


def _warps(v: Array) -> Array:
    return v.reshape(v.shape[0], -1, 32)


def exchange(rng: random.Random, threads: int) -> Stage:
    turn = rng.randrange(1, threads)
    where = rng.choice(["still[{}]", "moving[{}]", "pad.words[{}]", "still[2 * T - 1 - ({})]"])
    text = f"{where.format('t')} = v; __syncthreads(); v += {where.format(f'(t + {turn}) % T')}; __syncthreads();"
    return Stage(text, lambda v: v + _rot(v, turn))


def halves(rng: random.Random, threads: int) -> Stage:
    """A union, written as words and read as halves, after a barrier written as bytes."""
    turn = rng.randrange(threads)
    text = f"""pad.words[t] = v; __syncthreads(); v = pad.halves[2 * ((t + {turn}) % T)] + (v << 8); __syncthreads();
  pad.bytes[t] = v; __syncthreads(); v ^= pad.bytes[T - 1 - t]; __syncthreads();"""

    def model(v: Array) -> Array:
        v = (_rot(v, turn) & U32(0xFFFF)) + (v << U32(8))
        return v ^ (v & U32(255))[:, ::-1]

    return Stage(text, model)


def exits(rng: random.Random, threads: int) -> Stage:
    """Nested loops with barriers that the whole block leaves by several exits."""
    outer, inner, limit = rng.randrange(2, 5), rng.randrange(2, 5), rng.randrange(1, threads)
    stop = rng.randrange(2, 6)
    text = f"""for (int i = 0; i < {outer}; i++) {{
    for (int j = 0; j < {inner}; j++) {{
      if (__syncthreads_count((v >> j) & 1) > {limit}) {{ v += 5; break; }}
      if (__syncthreads_and(v % {stop} == 0)) goto out{limit}_{outer};
      if ((i ^ j) & 1) continue;
      v = v * 5 + i + j;
    }}
    if (__syncthreads_or((v & 0xff) == {limit % 256})) {{ v ^= 9; break; }}
    v += i;
  }}
  out{limit}_{outer}:;"""

    def one(row: Array) -> Array:
        for i in range(outer):
            for j in range(inner):
                if np.count_nonzero((row >> U32(j)) & U32(1)) > limit:
                    row = row + U32(5)
                    break
                if (row % U32(stop) == 0).all():
                    return row
                if (i ^ j) & 1:
                    continue
                row = row * U32(5) + U32(i + j)
            if ((row & U32(255)) == limit % 256).any():
                row = row ^ U32(9)
                break
            row = row + U32(i)
        return row

    return Stage(text, lambda v: np.stack([one(row) for row in v]), repeatable=False)


def shuffles(rng: random.Random, threads: int) -> Stage:
    """Shuffles where warps, not lanes, part; and of the lanes of a part of the warp."""
    bit, flip, part = rng.randrange(2), rng.randrange(1, 32), rng.randrange(2, 32)
    lead = rng.randrange(part)
    mask = (1 << part) - 1
    text = f"""if ((t / 32 >> {bit}) & 1) v += __shfl_xor_sync(~0u, v, {flip});
  else v ^= __reduce_add_sync(~0u, v & 0xffff);
  if (lane < {part}) {{ v += __shfl_sync({mask:#x}u, v, {lead}); v += __popc(__ballot_sync({mask:#x}u, v & 4)); }}"""

    def model(v: Array) -> Array:
        w = _warps(v).copy()
        odd = ((np.arange(w.shape[1]) >> bit) & 1).astype(bool)[None, :, None]
        total = (w & U32(0xFFFF)).sum(axis=2, dtype=U32, keepdims=True)
        w = np.where(odd, w + w[:, :, np.arange(32) ^ flip], w ^ total)
        w[:, :, :part] += w[:, :, lead : lead + 1].copy()
        w[:, :, :part] += ((w[:, :, :part] & U32(4)) != 0).sum(axis=2, dtype=U32, keepdims=True)
        return w.reshape(v.shape)

    return Stage(text, model)


def groups(rng: random.Random, threads: int) -> Stage:
    """Cooperative groups: tiles, their sums and ranks, lanes that are together."""
    size = rng.choice([2, 4, 8, 16, 32])
    bit = rng.randrange(4)
    text = f"""{{ auto block = cg::this_thread_block(); auto tile = cg::tiled_partition<{size}>(block);
    v += cg::reduce(tile, v & 0xfff, cg::plus<u32>()) + tile.thread_rank() * 3 + tile.meta_group_rank();
    v ^= tile.shfl(v, {size - 1});
    if (v >> {bit} & 1) {{ auto some = cg::coalesced_threads(); v += some.size() * 100 + some.thread_rank(); }}
    block.sync(); }}"""

    def model(v: Array) -> Array:
        g = v.reshape(v.shape[0], -1, size)
        rank = np.arange(size, dtype=U32)
        g = g + (g & U32(0xFFF)).sum(axis=2, dtype=U32, keepdims=True) + rank * U32(3)
        g = g + np.arange(g.shape[1], dtype=U32)[None, :, None]
        g = g ^ g[:, :, -1:]
        w = _warps(g.reshape(v.shape))
        some = ((w >> U32(bit)) & U32(1)).astype(bool)
        count, place = some.sum(axis=2, keepdims=True), some.cumsum(axis=2) - 1
        return np.where(some, w + (count * 100 + place).astype(U32), w).reshape(v.shape)

    return Stage(text, model)


def named(rng: random.Random, threads: int) -> Stage:
    """Halves of the block meet by themselves; or one half writes, arrives, and the other waits."""
    number, half = rng.randrange(1, 14), threads // 2
    if rng.random() < 0.5:
        turn = rng.randrange(half)
        text = f"""still[t] = v; if (t < {half}) asm volatile("bar.sync {number}, {half};" ::: "memory");
  else asm volatile("bar.sync {number + 1}, {half};" ::: "memory");
  v += still[(t % {half} + {turn}) % {half} + t / {half} * {half}]; __syncthreads();"""

        def model(v: Array) -> Array:
            g = v.reshape(v.shape[0], 2, half)
            return (g + np.roll(g, -turn, axis=2)).reshape(v.shape)

        return Stage(text, model)
    text = f"""if (t < {half}) {{ still[t] = v * 3; asm volatile("bar.arrive {number}, {threads};" ::: "memory"); }}
  else {{ asm volatile("bar.sync {number}, {threads};" ::: "memory"); v += still[{threads} - 1 - t]; }}
  __syncthreads();"""

    def handed(v: Array) -> Array:
        out = v.copy()
        out[:, half:] += v[:, :half][:, ::-1] * U32(3)
        return out

    return Stage(text, handed)


def pipeline(rng: random.Random, threads: int) -> Stage:
    """cp.async through a ring of stages, of which each thread reads another one's words."""
    depth, tiles, turn = rng.randrange(2, 5), rng.randrange(3, 7), rng.randrange(threads)
    wait = depth - 2
    text = f"""{{ u32 at = (u32)__cvta_generic_to_shared(ring + t); u32 sum = 0;
    auto fetch = [&](int i) {{ if (i < {tiles}) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::
      "r"(at + i % {depth} * T * 4), "l"(x + (blockIdx.x * T + t + i * 32) % (T * gridDim.x)) : "memory");
      asm volatile("cp.async.commit_group;" ::: "memory"); }};
    for (int i = 0; i < {depth - 1}; i++) fetch(i);
    for (int i = 0; i < {tiles}; i++) {{
      asm volatile("cp.async.wait_group {wait};" ::: "memory"); __syncthreads();
      sum = sum * 3 + ring[i % {depth} * T + (t + {turn}) % T];
      fetch(i + {depth - 1});
    }}
    asm volatile("cp.async.wait_all;" ::: "memory"); __syncthreads(); v ^= sum; }}"""

    def model(v: Array) -> Array:
        flat, total = inputs(v.shape[0], v.shape[1]).reshape(-1), np.zeros_like(v)
        for i in range(tiles):
            total = total * U32(3) + _rot(np.roll(flat, -32 * i).reshape(v.shape), turn)
        return v ^ total

    return Stage(text, model)


def tensor(rng: random.Random, threads: int) -> Stage:
    """mma.sync by each warp on small integers in f16 or s8, with fragments by ldmatrix from shared memory."""
    if rng.random() < 0.5:
        text = """{ half* h = (half*)(ring + t / 32 * 128); half* g = h;
    for (int i = 0; i < 8; i++) h[lane * 8 + i] = __float2half((float)((v >> (2 * i)) & 3));
    __syncwarp(); u32 a[4], b[2]; float c[4] = {1, 0, 0, 0};
    u32 p = (u32)__cvta_generic_to_shared(h + (lane % 16) * 16 + lane / 16 * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(p) : "memory");
    u32 q = (u32)__cvta_generic_to_shared(g + (lane % 16) * 16);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
      : "=r"(b[0]), "=r"(b[1]) : "r"(q) : "memory");
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9},"
      " {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) :
      "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    v += (u32)c[0] + (u32)c[1] * 3 + (u32)c[2] * 5 + (u32)c[3] * 7; __syncthreads(); }"""

        def halves_product(v: Array) -> Array:
            w = _warps(v)
            digits = ((w[..., None] >> (2 * np.arange(8, dtype=U32))) & U32(3)).astype(np.int64)
            m = digits.reshape(*w.shape[:2], 16, 16)
            c = m @ m[..., :8]
            return _fragments(v, c, first=1)

        return Stage(text, halves_product)
    text = """{ u32 a[4], b[2]; int c[4] = {1, 0, 0, 0}; u32 p = v & 0x03030303u;
    for (int i = 0; i < 4; i++) a[i] = p + i * 0x00010001u; b[0] = p ^ 0x01010101u; b[1] = p;
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9},"
      " {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]) :
      "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    v += (u32)c[0] + (u32)c[1] * 3 + (u32)c[2] * 5 + (u32)c[3] * 7; }"""

    def bytes_product(v: Array) -> Array:
        w = _warps(v)
        p = w & U32(0x03030303)
        a = np.zeros((*w.shape[:2], 16, 32), np.int64)
        b = np.zeros((*w.shape[:2], 32, 8), np.int64)
        for lane in range(32):
            row, col = lane // 4, lane % 4 * 4
            for i in range(4):
                word = p[..., lane] + U32(i * 0x00010001)
                for byte in range(4):
                    a[..., row + 8 * (i % 2), col + 16 * (i // 2) + byte] = (word >> U32(8 * byte)) & U32(255)
            for i, word in enumerate((p[..., lane] ^ U32(0x01010101), p[..., lane])):
                for byte in range(4):
                    b[..., col + 16 * i + byte, row] = (word >> U32(8 * byte)) & U32(255)
        return _fragments(v, a @ b, first=1)

    return Stage(text, bytes_product)


def _fragments(v: Array, c: Array, first: int) -> Array:
    """v + c0 + 3 c1 + 5 c2 + 7 c3, with c a 16 by 8 matrix per warp in the layout of mma's accumulators."""
    lane = np.arange(32)
    row, col = lane // 4, lane % 4 * 2
    total = (
        c[..., row, col] + first + 3 * c[..., row, col + 1] + 5 * c[..., row + 8, col] + 7 * c[..., row + 8, col + 1]
    )
    return v + total.reshape(v.shape).astype(U32)


def small_floats(rng: random.Random, threads: int) -> Stage:
    """half2 and bfloat162 arithmetic, bit by bit."""
    scale, shift = rng.choice([0.5, 1.25, 3.0, -0.75]), rng.choice([0.1, -2.0, 7.5])
    if rng.random() < 0.5:
        text = f"""{{ half2 a = __halves2half2(__ushort2half_rn(v & 0x3ff), __short2half_rn((short)(v >> 16)));
    a = __hadd2_rn(__hmul2_rn(a, __float2half2_rn({scale}f)), __float2half2_rn({shift}f));
    u32 bits; memcpy(&bits, &a, 4); v = v * 3 + bits; }}"""

        def in_half(v: Array) -> Array:
            low = (v & U32(0x3FF)).astype(np.float16)
            high = (v >> U32(16)).astype(np.uint16).astype(np.int16).astype(np.float16)
            with np.errstate(over="ignore"):
                out = [(a * np.float16(scale) + np.float16(shift)).view(np.uint16).astype(U32) for a in (low, high)]
            return v * U32(3) + (out[0] | out[1] << U32(16))

        return Stage(text, in_half)
    text = f"""{{ __nv_bfloat162 a = __floats2bfloat162_rn((float)(v & 0xffff), (float)(int)(v >> 20) * 0.125f);
    a = __hmul2_rn(a, __float2bfloat162_rn({scale}f)); u32 bits; memcpy(&bits, &a, 4); v = v * 5 ^ bits; }}"""

    def in_bf16(v: Array) -> Array:
        low, high = (v & U32(0xFFFF)).astype(np.float32), (v >> U32(20)).astype(np.float32) * np.float32(0.125)
        out = [_bf16(_bf16(a) * _bf16(np.full_like(a, scale))).view(U32) >> U32(16) for a in (low, high)]
        return v * U32(5) ^ (out[0] | out[1] << U32(16))

    return Stage(text, in_bf16)


def _bf16(x: Array) -> Array:
    bits = x.astype(np.float32).view(U32)
    return ((bits + U32(0x7FFF) + ((bits >> U32(16)) & U32(1))) & U32(0xFFFF0000)).view(np.float32)


def wide_atomics(rng: random.Random, threads: int) -> Stage:
    """Atomics of 64 bits, and additions by compare-and-swap, on shared words."""
    words, op = rng.choice([1, 2, 8]), rng.choice(["add", "max", "cas", "xor"])
    code = {
        "add": "atomicAdd(&pad.longs[t % W], (u64)v << 7);",
        "max": "atomicMax(&pad.longs[t % W], (u64)v * v);",
        "xor": "atomicXor(&pad.longs[t % W], (u64)v << 20);",
        "cas": "u64 old = *(volatile u64*)&pad.longs[t % W], was; "
        "do { was = old; old = atomicCAS(&pad.longs[t % W], was, was + v); } while (old != was);",
    }[op].replace("W", str(words))
    text = f"""if (t < {words}) pad.longs[t] = 5; __syncthreads(); {{ {code} }} __syncthreads();
  v += (u32)(pad.longs[(t + 1) % {words}] >> 9); __syncthreads();"""

    def model(v: Array) -> Array:
        g = v.reshape(v.shape[0], -1, words).astype(U64)
        if op == "add":
            total = (g << U64(7)).sum(axis=1, dtype=U64) + U64(5)
        elif op == "max":
            total = np.maximum((g * g).max(axis=1), U64(5))
        elif op == "xor":
            total = np.bitwise_xor.reduce(g << U64(20), axis=1) ^ U64(5)
        else:
            total = g.sum(axis=1, dtype=U64) + U64(5)
        at = (np.arange(v.shape[1]) + 1) % words
        return v + (total >> U64(9)).astype(U32)[:, at]

    return Stage(text, model)


def lanes_apart(rng: random.Random, threads: int) -> Stage:
    """Loops that each lane leaves in its own time, a switch that falls through, a tail for some."""
    mod, bound = rng.randrange(3, 9), rng.randrange(5, 30)
    text = f"""{{ u32 n = v % {mod}, i = 0;
    while (true) {{ i++; if (i > {bound}) break; if ((v + i) % 3 == 0) continue; v += i; if (v % 11 == 7) break;
      for (u32 j = 0; j < n; j++) {{ if (j * i > 12) goto next; v ^= j << 3; }}
      next: v++; }}
    switch (v & 7) {{ case 0: v += 3; case 1: v *= 3; break; case 2: case 3: v ^= 0x55;
      default: v += i; case 7: v--; }} }}"""

    def model(v: Array) -> Array:
        return np.array([_apart(int(one), mod, bound) for one in v.reshape(-1)], U32).reshape(v.shape)

    return Stage(text.replace("next", f"next{mod}_{bound}"), model, repeatable=False)


def _apart(v: int, mod: int, bound: int) -> int:
    wrap, n, i = 0xFFFFFFFF, v % mod, 0
    while True:
        i += 1
        if i > bound:
            break
        if ((v + i) & wrap) % 3 == 0:
            continue
        v = (v + i) & wrap
        if v % 11 == 7:
            break
        for j in range(n):
            if j * i > 12:
                break
            v ^= j << 3
        v = (v + 1) & wrap
    low = v & 7
    if low == 0:
        return ((v + 3) * 3) & wrap
    if low == 1:
        return (v * 3) & wrap
    if low in (2, 3):
        v ^= 0x55
    if low != 7:
        v += i
    return (v - 1) & wrap


def calls(rng: random.Random, threads: int) -> Stage:
    """Recursion, function pointers, virtual functions, structures and local arrays."""
    depth, size = rng.randrange(2, 7), rng.choice([3, 5, 8])
    text = f"""{{ v = fold(v % {depth}, v); u32 (*f)(u32) = v & 1 ? twice : thrice; v = f(v);
    Shape plain; Square square; const Shape* shape = (v & 6) == 2 ? &plain : &square; v += shape->area(v & 0xfff);
    Vec<{size}> a; for (int i = 0; i < {size}; i++) a.x[i] = v >> i; a.x[v % {size}] = table[v & 15];
    v ^= a.sum(); }}"""

    def one(v: int) -> int:
        wrap = 0xFFFFFFFF
        n = v % depth
        for i in range(n, 0, -1):
            v = (v * 3 + i) & wrap
        for i in range(1, n + 1):
            v ^= i
        v = v * (2 if v & 1 else 3) & wrap
        small = v & 0xFFF
        v = (v + (small + 1 if (v & 6) == 2 else small * small)) & wrap
        a = [v >> i for i in range(size)]
        a[v % size] = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3)[v & 15]
        return v ^ (sum(a) & wrap)

    return Stage(text, lambda v: np.array([one(int(x)) for x in v.reshape(-1)], U32).reshape(v.shape), repeatable=False)


def bits(rng: random.Random, threads: int) -> Stage:
    turn, pick = rng.randrange(1, 32), rng.randrange(1 << 16)
    text = f"""v = __brev(v) + __popc(v) * 7 + __clz(v) + __ffs(v); v ^= __byte_perm(v, v * 3, {pick & 0x7777:#x});
  v = __funnelshift_l(v, v ^ 0x1234567, {turn}); v = __dp4a(v, 0x01020304u, v); v = __vadd4(v, 0x01ff7f80u);
  v += __umulhi(v, 0x9e3779b9u) + __usad(v, 77u, 3u);"""

    def one(v: int) -> int:
        wrap = 0xFFFFFFFF
        low = (v & -v).bit_length()
        v = (int(f"{v:032b}"[::-1], 2) + v.bit_count() * 7 + 32 - v.bit_length() + low) & wrap
        both = (v | (v * 3 & wrap) << 32).to_bytes(8, "little")
        v ^= int.from_bytes(bytes(both[pick >> (4 * i) & 7] for i in range(4)), "little")
        other = v ^ 0x1234567
        v = ((other << turn) | (v >> (32 - turn))) & wrap
        v = (v + sum(a * b for a, b in zip(v.to_bytes(4, "little"), (4, 3, 2, 1), strict=True))) & wrap
        pairs = zip(v.to_bytes(4, "little"), (0x80, 0x7F, 0xFF, 0x01), strict=True)
        v = int.from_bytes(bytes((a + b) & 255 for a, b in pairs), "little")
        return (v + (v * 0x9E3779B9 >> 32) + abs(v - 77) + 3) & wrap

    return Stage(text, lambda v: np.array([one(int(x)) for x in v.reshape(-1)], U32).reshape(v.shape))


def reductions(rng: random.Random, threads: int) -> Stage:
    """A sum over the block by shuffles and shared memory, or a scan; doubles on the way."""
    if rng.random() < 0.5:
        text = """{ double d = (double)(v & 0xffff) * 0.25;
    for (int o = 16; o; o >>= 1) d += __shfl_down_sync(~0u, d, o);
    if (lane == 0) pad.floats[t / 32] = (float)d; __syncthreads();
    if (t < 32) { float f = t < T / 32 ? pad.floats[t] : 0.f;
      for (int o = 16; o; o >>= 1) f += __shfl_xor_sync(~0u, f, o);
      if (t == 0) pad.floats[0] = f; }
    __syncthreads(); v += (u32)(pad.floats[0] * 4.f); __syncthreads(); }"""
        return Stage(text, lambda v: v + (v & U32(0xFFFF)).sum(axis=1, dtype=U32, keepdims=True))
    text = """{ still[t] = v; __syncthreads();
    for (int d = 1; d < T; d *= 2) { u32 add = t >= d ? still[t - d] : 0; __syncthreads();
      still[t] += add; __syncthreads(); }
    v = still[t]; __syncthreads(); }"""
    return Stage(text, lambda v: v.cumsum(axis=1, dtype=U32))


def through_global(rng: random.Random, threads: int) -> Stage:
    """Vectors, bytes and halves in global memory of the block's own."""
    turn = rng.randrange(1, threads // 4)
    text = f"""{{ u32* mine = work + blockIdx.x * T; mine[t] = v; __syncthreads();
    uint4 q = ((uint4*)mine)[(t + {turn}) % (T / 4)]; uchar2 c = ((uchar2*)mine)[t]; short h = ((short*)mine)[t];
    __syncthreads(); v += q.x ^ q.y ^ q.z ^ q.w; v += c.x * 2 + c.y; v -= (int)h; }}"""

    def model(v: Array) -> Array:
        v = np.ascontiguousarray(v)
        t = np.arange(v.shape[1])
        q = np.bitwise_xor.reduce(v.reshape(v.shape[0], -1, 4), axis=2)[:, (t + turn) % (v.shape[1] // 4)]
        c = v.view(np.uint8).reshape(v.shape[0], -1, 2)[:, : v.shape[1]].astype(U32)
        h = v.view(np.int16)[:, : v.shape[1]].astype(np.int32).view(U32)
        return v + q + c[..., 0] * U32(2) + c[..., 1] - h

    return Stage(text, model)


def matches(rng: random.Random, threads: int) -> Stage:
    keys = rng.choice([2, 4, 16])
    text = f"""{{ u32 same = __match_any_sync(~0u, v & {keys - 1}); int all; __match_all_sync(~0u, v & 1, &all);
    v = v * 2 + __popc(same & ((1u << lane) - 1)) + (__ffs(same) - 1) * 64 + all;
    if (__any_sync(~0u, v == 77)) v++; v += __activemask() == ~0u; }}"""

    def model(v: Array) -> Array:
        w = _warps(v)
        key = w & U32(keys - 1)
        equal = key[..., :, None] == key[..., None, :]
        below = np.tril(np.ones((32, 32), bool), -1)
        rank, first = (equal & below).sum(axis=3).astype(U32), equal.argmax(axis=3).astype(U32)
        every = ((w & U32(1)) == (w[..., :1] & U32(1))).all(axis=2, keepdims=True).astype(U32)
        w = w * U32(2) + rank + first * U32(64) + every
        w = w + (w == 77).any(axis=2, keepdims=True).astype(U32)
        return (w + U32(1)).reshape(v.shape)

    return Stage(text, model)


STAGES = [
    exchange, halves, exits, shuffles, groups, named, pipeline, tensor, small_floats, wide_atomics, lanes_apart, calls,
    bits, reductions, through_global, matches,
]  # fmt: skip


def inputs(blocks: int, threads: int) -> Array:
    i = np.arange(blocks * threads, dtype=U32)
    return ((i * U32(2654435761)) ^ (i << U32(7))).reshape(blocks, threads)


def _wrapped(rng: random.Random, stage: Stage) -> Stage:
    """The stage by itself, in a loop, or behind conditions that each block answers as a whole."""
    how = rng.choice(["alone", "loop", "if", "while"]) if stage.repeatable else "alone"
    if how == "loop":
        turns = rng.randrange(2, 4)

        def repeated(v: Array) -> Array:
            for _ in range(turns):
                v = stage.model(v)
            return v

        return Stage(f"for (int r = 0; r < {turns}; r++) {{ {stage.text} }}", repeated)
    if how == "if":
        text = f"if (blockIdx.x & 1) {{ {stage.text} }} else v += 11;"

        def chosen(v: Array) -> Array:
            done = stage.model(v)
            return np.where((np.arange(len(v)) & 1).astype(bool)[:, None], done, v + U32(11))

        return Stage(text, chosen)
    if how == "while":
        limit = rng.randrange(1, 40)
        text = f"for (int r = 0; r < 3 && __syncthreads_count(v % 5 == 0) < {limit}; r++) {{ {stage.text} }}"

        def counted(v: Array) -> Array:
            going = np.ones(len(v), bool)
            for _ in range(3):
                going = going & (np.count_nonzero(v % U32(5) == 0, axis=1) < limit)
                v = np.where(going[:, None], stage.model(v), v)
            return v

        return Stage(text, counted)
    return stage


def make(seed: int) -> Kernel:
    rng = random.Random(seed)
    blocks, threads = rng.randrange(1, 4), rng.choice([64, 128, 192, 256])
    if threads == 192:
        threads = 128
    v, lines, styles = inputs(blocks, threads), [], []
    for _ in range(rng.randrange(2, 6)):
        write = rng.choice(STAGES)
        stage = _wrapped(rng, write(rng, threads))
        with np.errstate(over="ignore"):
            v = stage.model(v)
        lines.append("{ " + stage.text + " }")
        styles.append(write.__name__)
    early = rng.random() < 0.5
    tail = f"if (t % 3 == {rng.randrange(3)}) {{ y[blockIdx.x * T + t] = v; return; }} v += 5;" if early else ""
    if early:
        rest = int(tail.split("== ")[1][0])
        v = np.where((np.arange(threads) % 3 == rest)[None, :], v, v + U32(5))
    includes = "".join(text for word, text in INCLUDES.items() if any(word in line for line in lines))
    text = f"""{includes}{HEAD}
extern "C" __global__ void __launch_bounds__({threads}) k(const u32* x, u32* y, u32* work) {{
  constexpr int T = {threads}; const int t = threadIdx.x, lane = t % 32;
  __shared__ u32 still[2 * T]; __shared__ Pad pad; __shared__ __align__(16) u32 ring[4 * T];
  extern __shared__ u32 moving[]; u32 v = x[blockIdx.x * T + t];
  """
    text += "\n  ".join(lines) + f"\n  {tail}\n  y[blockIdx.x * T + t] = v;\n}}\n"
    return Kernel(text, blocks, threads, 4 * threads, v, styles)
