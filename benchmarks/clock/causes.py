# ruff: noqa: E501  kernels read better unbroken
"""The third set of kernels for the clock: each loads what the model was seen to miss, one quantity a kernel.

    python benchmarks/clock/causes.py VARIANTS.tar.xz

Written after the causes were named and before anything of it was measured. None is a kernel of the other two sets; all
may be fitted to. The archive is one for `measure.py`; inputs and parameters are those of `families.py`.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from families import Family
from report import say
from variants import packed, points, row_of

from evo.spec.task import Case, load_task
from evo.spec.variant import parse_variant

POINTS = 12  # of a family at most
ALL = 99  # of one whose knob is the operation
_I = "const unsigned i = blockIdx.x * T + threadIdx.x;"
_HASH = """
__device__ unsigned mixed(unsigned x) {
    x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; return x ^ x >> 16;
}"""
_WMMA = "#include <mma.h>\nusing namespace nvcuda;"


def _rate(
    kind: str,
    operations: Sequence[str],
    before: str = "",
    sink: str = "x[0] + x[1] + x[2] + x[3]",
    begin: str = "a[threadIdx.x + k]",
) -> Family:
    """Operations of x[k] (and of y, z and its neighbour), four independent ones in turns, by 2 or 64 warps of an SM."""
    cases = "".join(f"\n#{'el' if at else ''}if OP == {at}\n            {code};" for at, code in enumerate(operations))
    body = f"""
    {kind} x[4], y = x_of(a[threadIdx.x + 4]), z = x_of(a[threadIdx.x + 5]);
    for (int k = 0; k < 4; ++k) x[k] = x_of({begin});
#pragma unroll 8
    for (int j = 0; j < 256; ++j)
#pragma unroll
        for (int k = 0; k < 4; ++k) {{
            (void)y; (void)z;{cases}
#endif
        }}
    out[blockIdx.x * T + threadIdx.x] = {sink};"""
    convert = f"__device__ {kind} x_of(float f) {{ return ({kind})(f * RANGE); }}"
    knobs = {"OP": tuple(range(len(operations))), "T": (32, 1024)}
    scale = "#define RANGE 1.f" if kind == "float" else "#define RANGE 1e9f"
    return Family(
        knobs, "grid (264) block (T) shared 0", body, w=1, n=1 << 19, before="\n".join([before, scale, convert])
    )


CAUSES: dict[str, Family] = {
    # Random places in registers: no load of indices beside what is timed.
    "gather_width": Family(
        {"WIDE": (1, 2, 4), "REACH": (65536, 1048576, 4194304, 16777216), "T": (128, 512)},
        "grid (4194304 // T) block (T) shared 0",
        _I + """
    const unsigned at = (mixed(i) & (REACH / WIDE - 1)) * WIDE;
#if WIDE == 4
    const float4 v = *(const float4*)(a + at); const float s = v.x + v.y + v.z + v.w;
#elif WIDE == 2
    const float2 v = *(const float2*)(a + at); const float s = v.x + v.y;
#else
    const float s = a[at];
#endif
    out[i] = s;""", n=1 << 24, w=1, before=_HASH),
    "gather_sectors": Family(
        {"SECTORS": (1, 2, 4, 8, 16, 32), "REACH": (1048576, 4194304)}, "grid (8192) block (256) shared 0",
        """
    const unsigned i = blockIdx.x * 256 + threadIdx.x, lanes = 32 / SECTORS;
    const unsigned at = (mixed(i / lanes) & (REACH / 8 - 1)) * 8 + i % lanes % 8;
    const float s = a[at];
    out[i] = s;""", n=1 << 22, w=1, before=_HASH),
    "gather_many": Family(
        {"U": (1, 2, 4, 8, 16), "GRID": (132, 264, 528, 1056), "T": (64, 256)}, "grid (GRID) block (T) shared 0",
        _I + """
    unsigned x = mixed(i); float s = 0;
#pragma unroll 1
    for (int k = 0; k < 64 / U; ++k) {
#pragma unroll
        for (int u = 0; u < U; ++u) s += a[mixed(x + u * 77) & 1048575];
        x = mixed(x + (s > 1e9f));
    }
    out[i] = s;""", n=1 << 20, w=1, before=_HASH),
    "gather_rows": Family(  # rows of a table, side by side lanes
        {"DIM": (8, 16, 32, 64, 256), "WIDE": (1, 4), "ROWS": (16384, 262144)}, "grid (8388608 // 256 // WIDE) block (256) shared 0",
        """
    const unsigned i = blockIdx.x * 256 + threadIdx.x, in = i % (DIM / WIDE), row = mixed(i / (DIM / WIDE)) & (ROWS * 16 / DIM - 1);
#if WIDE == 4
    *(float4*)(out + i * 4) = *(const float4*)(a + row * DIM + in * 4);
#else
    out[i] = a[row * DIM + in];
#endif
""", n=1 << 23, w=1, before=_HASH),
    "store_random": Family(
        {"WIDE": (1, 2, 4), "REACH": (4096, 65536, 1048576, 4194304), "T": (128, 512)},
        "grid (4194304 // T) block (T) shared 0",
        _I + """
    const unsigned at = (mixed(i) & (REACH / WIDE - 1)) * WIDE;
    const float v = i;
#if WIDE == 4
    *(float4*)(out + at) = make_float4(v, v, v, v);
#elif WIDE == 2
    *(float2*)(out + at) = make_float2(v, v);
#else
    out[at] = v;
#endif
""", n=1 << 22, w=1, before=_HASH),
    "store_sectors": Family(  # lanes side by side share a place; SPAN floats of a sector are written
        {"SPAN": (1, 2, 4, 8, 16, 32), "REACH": (65536, 1048576)}, "grid (8192) block (256) shared 0",
        """
    const unsigned i = blockIdx.x * 256 + threadIdx.x;
    out[(mixed(i / SPAN) & (REACH / 32 - 1)) * 32 + i % SPAN] = i;""", n=1 << 20, w=1, before=_HASH),
    "store_pitch": Family(  # each thread its row: EACH floats at a pitch
        {"PITCH": (4, 8, 16, 32, 64, 128), "EACH": (1, 4, 8, 16), "T": (64, 256)}, "grid (4194304 // PITCH // T) block (T) shared 0",
        _I + """
#pragma unroll
    for (int e = 0; e < EACH; ++e) out[i * PITCH + e] = e * 2.f + i;""", n=1 << 22, w=1, require="EACH <= PITCH"),
    "store_narrow": Family(
        {"BYTES": (1, 2, 4), "STRIDE": (1, 2, 4, 8), "T": (128, 512)}, "grid (2097152 // T) block (T) shared 0",
        _I + """
#if BYTES == 1
    ((unsigned char*)out)[i * STRIDE] = i;
#elif BYTES == 2
    ((unsigned short*)out)[i * STRIDE] = i;
#else
    out[i * STRIDE] = i;
#endif
""", n=1 << 24, w=1),
    "store_and_load_far": Family(  # one side of a copy is far
        {"SIDE": (0, 1), "PITCH": (32, 128, 1024), "T": (32, 256)}, "grid (1048576 // T) block (T) shared 0",
        _I + """
    const unsigned far = i % (1048576 / PITCH) * PITCH + i / (1048576 / PITCH);
#if SIDE
    out[far] = a[i];
#else
    out[i] = a[far];
#endif
""", n=1 << 20, w=1),
    "wmma_load_global": Family(  # fragments of A and B, used once: LD is the pitch of the matrix
        {"LD": (16, 64, 256, 1024), "WARPS": (1, 4, 8), "REACH": (16384, 1048576)}, "grid (528) block (32 * WARPS) shared 0",
        """
    const __half* p = (const __half*)a;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.f);
    unsigned at = (blockIdx.x * WARPS + threadIdx.x / 32) * 4096;
#pragma unroll 2
    for (int k = 0; k < 32; ++k) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb;
        wmma::load_matrix_sync(fa, p + (at & (REACH - 1)), LD);
        wmma::load_matrix_sync(fb, p + ((at + 16 * LD) & (REACH - 1)), LD);
        wmma::mma_sync(c, fa, fb, c);
        at += LD >= 64 && k % 4 ? 16 : 32 * LD;
    }
    wmma::store_matrix_sync(out + (blockIdx.x * WARPS + threadIdx.x / 32) * 256, c, 16, wmma::mem_row_major);""",
        n=1 << 21, w=1, before=_WMMA),
    "wmma_load_layout": Family(  # rows or columns, half or float accumulators stored far
        {"COL": (0, 1), "LD": (32, 512), "USED": (1, 4), "WARPS": (2, 8)}, "grid (264) block (32 * WARPS) shared 0",
        """
    const __half* p = (const __half*)a + (blockIdx.x * WARPS + threadIdx.x / 32) % 64 * 16 * LD;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c[USED];
    for (int u = 0; u < USED; ++u) wmma::fill_fragment(c[u], 0.f);
    for (int k = 0; k < 1024; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
#if COL
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb[USED];
#else
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb[USED];
#endif
        wmma::load_matrix_sync(fa, p + k % LD, LD);
#pragma unroll
        for (int u = 0; u < USED; ++u) wmma::load_matrix_sync(fb[u], (const __half*)b + u * 64 * LD + k % LD, LD);
#pragma unroll
        for (int u = 0; u < USED; ++u) wmma::mma_sync(c[u], fa, fb[u], c[u]);
    }
#pragma unroll
    for (int u = 0; u < USED; ++u) wmma::store_matrix_sync(out + (blockIdx.x * WARPS + threadIdx.x / 32) * 16 + u * 16 * 33792, c[u], 33792, wmma::mem_row_major);""",
        n=1 << 22, w=1, before=_WMMA),
    "mma_and_loads": Family(  # loads from shared memory beside products: which of both bounds, and how they overlap
        {"LOADS": (1, 2, 4), "USED": (1, 2, 4), "WARPS": (4, 8, 16), "STEP": (0, 1)}, "grid (264) block (32 * WARPS) shared 0",
        """
    __shared__ __align__(32) __half tile[4 * 16 * 72];
    for (int i = threadIdx.x; i < 4 * 16 * 72; i += 32 * WARPS) tile[i] = __float2half(a[i]);
    __syncthreads();
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c[USED];
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb;
    wmma::load_matrix_sync(fb, tile, 72);
    for (int u = 0; u < USED; ++u) wmma::fill_fragment(c[u], 0.f);
#pragma unroll 1
    for (int k = 0; k < 128; ++k) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa[LOADS];
#pragma unroll
        for (int l = 0; l < LOADS; ++l) wmma::load_matrix_sync(fa[l], tile + l * 16 * 72 + k % 4 * 16, 72);
#pragma unroll
        for (int l = 0; l < LOADS; ++l)
#pragma unroll
            for (int u = 0; u < USED; ++u) wmma::mma_sync(c[u], fa[l], fb, c[u]);
#if STEP
        __syncthreads();
#endif
    }
    for (int u = 1; u < USED; ++u) for (int e = 0; e < c[0].num_elements; ++e) c[0].x[e] += c[u].x[e];
    wmma::store_matrix_sync(out + (blockIdx.x * WARPS + threadIdx.x / 32) * 256, c[0], 16, wmma::mem_row_major);""",
        n=1 << 21, w=1, before=_WMMA),
    "mma_few_warps": Family(  # much in registers: FM x FN tiles of one, two or four warps, staged through shared memory
        {"FM": (1, 2, 4), "FN": (1, 2, 4), "WARPS": (1, 2, 4), "GRID": (132, 264, 528)}, "grid (GRID) block (32 * WARPS) shared 0",
        """
    __shared__ __align__(32) __half ta[WARPS * FM * 16][40], tb[FN * 16][40];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c[FM][FN];
    const int warp = threadIdx.x / 32;
    for (int i = 0; i < FM; ++i) for (int j = 0; j < FN; ++j) wmma::fill_fragment(c[i][j], 0.f);
    for (int k0 = 0; k0 < 1024; k0 += 32) {
        for (int i = threadIdx.x; i < WARPS * FM * 64; i += 32 * WARPS)
            *(float4*)&ta[i / 4][i % 4 * 8] = *(const float4*)((const __half*)a + (blockIdx.x % 16 * 64 + i / 4) * 1024 + k0 + i % 4 * 8);
        for (int i = threadIdx.x; i < FN * 64; i += 32 * WARPS)
            *(float4*)&tb[i / 4][i % 4 * 8] = *(const float4*)((const __half*)b + (blockIdx.x / 16 * 16 + i / 4) * 1024 + k0 + i % 4 * 8);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 32; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa[FM];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb[FN];
#pragma unroll
            for (int i = 0; i < FM; ++i) wmma::load_matrix_sync(fa[i], &ta[(warp * FM + i) * 16][k], 40);
#pragma unroll
            for (int j = 0; j < FN; ++j) wmma::load_matrix_sync(fb[j], &tb[j * 16][k], 40);
#pragma unroll
            for (int i = 0; i < FM; ++i)
#pragma unroll
                for (int j = 0; j < FN; ++j) wmma::mma_sync(c[i][j], fa[i], fb[j], c[i][j]);
        }
        __syncthreads();
    }
    for (int i = 1; i < FM * FN; ++i) for (int e = 0; e < c[0][0].num_elements; ++e) c[0][0].x[e] += c[i / FN][i % FN].x[e];
    wmma::store_matrix_sync(out + (blockIdx.x * WARPS + warp) * 256, c[0][0], 16, wmma::mem_row_major);""",
        n=1 << 20, w=1, before=_WMMA),
    "channel_tail": Family(  # rows of C floats: a block a row, a warp a row or a thread an element
        {"C": (3, 17, 33, 65, 130), "KIND": (0, 1, 2), "T": (64, 128)},
        "grid (ceil_div(1048576, T) if KIND == 2 else 1048576 // C // (T // 32) if KIND == 1 else 1048576 // C) block (T) shared 0",
        """
#if KIND == 0
    for (int c = threadIdx.x; c < C; c += T) out[blockIdx.x * C + c] = a[blockIdx.x * C + c] * b[c];
#elif KIND == 1
    const int row = blockIdx.x * (T / 32) + threadIdx.x / 32;
    for (int c = threadIdx.x % 32; c < C; c += 32) out[row * C + c] = a[row * C + c] * b[c];
#else
    const int i = blockIdx.x * T + threadIdx.x;
    if (i < 1048576 / C * C) out[i] = a[i] * b[i % C];
#endif
""", n=1 << 20, w=1),
    "row_of_a_thread": Family(  # each thread reads a row of C floats, one by one or four at once
        {"C": (4, 16, 64, 256), "WIDE": (1, 4), "T": (32, 128, 512)}, "grid (4194304 // C // T) block (T) shared 0",
        _I + """
    float s = 0;
#pragma unroll 4
    for (int c = 0; c < C; c += WIDE) {
#if WIDE == 4
        const float4 v = *(const float4*)(a + i * C + c); s += v.x * v.y + v.z * v.w;
#else
        s += a[i * C + c];
#endif
    }
    out[i] = s;""", n=1 << 22, w=1),
    "branches_many": Family(  # WAYS bodies; lanes of a warp take SPREAD of them
        {"WAYS": (2, 4, 8, 16), "SPREAD": (1, 2, 8, 32), "WORK": (4, 32)}, "grid (2048) block (256) shared 0",
        """
    const unsigned i = blockIdx.x * 256 + threadIdx.x;
    const unsigned way = mixed(i * SPREAD / 32) % WAYS;
    float x = a[i];
#define BODY(n) case n: for (int k = 0; k < WORK; ++k) x = x * (1.01f + n) + 0.5f / (n + 1); break;
#pragma unroll 1
    for (int r = 0; r < 8; ++r) switch ((way + r) % WAYS) {
        BODY(0) BODY(1) BODY(2) BODY(3) BODY(4) BODY(5) BODY(6) BODY(7) BODY(8) BODY(9) BODY(10) BODY(11) BODY(12) BODY(13) BODY(14) BODY(15)
    }
    out[i] = x;""", n=1 << 19, w=1, before=_HASH),
    "loop_of_each_lane": Family(  # trips that differ among lanes (SHARE of 32 alike), or among warps and blocks
        {"ALIKE": (1, 4, 32, 256), "TRIPS": (16, 256), "T": (32, 256), "KIND": (0, 1)}, "grid (262144 // T) block (T) shared 0",
        _I + """
    const unsigned trips = mixed(i / ALIKE) % TRIPS + 1;
    float x = a[i];
#pragma unroll 1
    for (unsigned k = 0; k < trips; ++k)
#if KIND
        x = __fdividef(x + 1.f, x * x + 2.f);
#else
        x = x * x - 0.7f;
#endif
    out[i] = x;""", n=1 << 18, w=1, before=_HASH),
    "guarded_loads": Family(  # borders: a condition in front of each load of a neighbourhood
        {"R": (1, 2, 4), "KIND": (0, 1, 2), "T": (64, 256)}, "grid (1048576 // T) block (T) shared 0",
        """
    const int i = blockIdx.x * T + threadIdx.x, x = i % 1024, y = i / 1024;
    float s = 0;
#pragma unroll
    for (int dy = -R; dy <= R; ++dy)
#pragma unroll
        for (int dx = -R; dx <= R; ++dx) {
#if KIND == 0
            if (x + dx >= 0 && x + dx < 1024 && y + dy >= 0 && y + dy < 1024) s += a[i + dy * 1024 + dx];
#elif KIND == 1
            s += a[min(max(y + dy, 0), 1023) * 1024 + min(max(x + dx, 0), 1023)];
#else
            const int yy = y + dy, xx = x + dx; const bool in = (unsigned)xx < 1024u && (unsigned)yy < 1024u;
            s += in ? __ldg(a + yy * 1024 + xx) * b[(dy + R) * 9 + dx + R] : 0.f;
#endif
        }
    out[i] = s;""", n=1 << 20, w=1),
    "taps_in_registers": Family(  # a sliding window in registers: R outputs of a thread
        {"R": (1, 2, 4, 8), "TAPS": (4, 8, 16, 32), "T": (64, 256)}, "grid (1048576 // (R * T)) block (T) shared 0",
        _I + """
    const float* from = a + i * R;
    float s[R] = {}, v[R + TAPS - 1];
#pragma unroll
    for (int k = 0; k < R + TAPS - 1; ++k) v[k] = from[k];
#pragma unroll
    for (int k = 0; k < TAPS; ++k)
#pragma unroll
        for (int r = 0; r < R; ++r) s[r] += v[r + k] * b[k];
#pragma unroll
    for (int r = 0; r < R; ++r) out[i * R + r] = s[r];""", n=(1 << 20) + 64, w=1),
    "taps_in_a_loop": Family(  # short loops: loads of taps and samples, not unrolled or in part
        {"TAPS": (5, 16, 64), "UNROLL": (1, 4), "R": (1, 4), "T": (64, 256)}, "grid (1048576 // (R * T)) block (T) shared 0",
        """
    const int i = blockIdx.x * R * T + threadIdx.x;
    float s[R] = {};
#pragma unroll UNROLL
    for (int k = 0; k < TAPS; ++k)
#pragma unroll
        for (int r = 0; r < R; ++r) s[r] += a[i + r * T + k] * b[k];
#pragma unroll
    for (int r = 0; r < R; ++r) out[i + r * T] = s[r];""", n=(1 << 20) + 64, w=1),
    "chain_of_sums": Family(  # dependent operations, few warps: ILP chains of each thread
        {"ILP": (1, 2, 4, 8), "KIND": (0, 1, 2, 3, 4), "WARPS": (1, 4, 16)}, "grid (132) block (32 * WARPS) shared 0",
        """
    float x[ILP];
    for (int e = 0; e < ILP; ++e) x[e] = a[threadIdx.x + e];
#pragma unroll 1
    for (int k = 0; k < 512; ++k)
#pragma unroll
        for (int e = 0; e < ILP; ++e)
#if KIND == 0
            x[e] = x[e] * 0.9f + 0.3f;
#elif KIND == 1
            x[e] = sqrtf(x[e] + 2.f);
#elif KIND == 2
            x[e] = 1.5f / (x[e] + 1.f);
#elif KIND == 3
            x[e] = __int_as_float(0x3f800000 | (__float_as_int(x[e]) % 1000003));
#else
            x[e] = x[e] < 0.5f ? x[e] + 0.3f : x[e] * 0.4f;
#endif
    for (int e = 1; e < ILP; ++e) x[0] += x[e];
    out[blockIdx.x * 32 * WARPS + threadIdx.x] = x[0];""", w=1),
    "chain_through_memory": Family(  # load, compute, load: few warps, DEEP arithmetic between loads
        {"DEEP": (0, 4, 16, 64), "WARPS": (1, 4, 8), "REACH": (1024, 65536, 1048576), "GRID": (132, 528)},
        "grid (GRID) block (32 * WARPS) shared 0",
        """
    unsigned i = blockIdx.x * 32 * WARPS + threadIdx.x; float s = 0;
#pragma unroll 1
    for (int k = 0; k < 64; ++k) {
        float x = a[i & (REACH - 1)];
#pragma unroll
        for (int d = 0; d < DEEP; ++d) x = x * 0.99f + 0.01f;
        s += x; i += 32 + (x > 2.f);
    }
    out[blockIdx.x * 32 * WARPS + threadIdx.x] = s;""", w=1),
    "search_in_shared": Family(  # each thread halves a sorted table in shared or global memory
        {"ENTRIES": (64, 1024, 8192), "PLACE": (0, 1), "T": (128, 512), "EACH": (1, 4)}, "grid (1048576 // (T * EACH)) block (T) shared 0",
        """
#if PLACE
    __shared__ float table[ENTRIES];
    for (int i = threadIdx.x; i < ENTRIES; i += T) table[i] = i * (1.f / ENTRIES);
    __syncthreads();
#else
    const float* table = b;
#endif
    for (int e = 0; e < EACH; ++e) {
        const int i = (blockIdx.x * EACH + e) * T + threadIdx.x; const float key = a[i]; int low = 0;
#pragma unroll 1
        for (int half = ENTRIES / 2; half; half /= 2) if (table[low + half - 1] < key) low += half;
        out[i] = low;
    }""", w=1),
    "list_of_a_block": Family(  # a block looks for its entries in a list, and works on those rows
        {"KINDS": (8, 64), "T": (64, 256), "LIST": (1024, 4096), "WIDE": (1, 4)}, "grid (264) block (T) shared 0",
        """
    __shared__ int mine[4096], count;
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < LIST; i += T) if (idx[i] % KINDS == blockIdx.x % KINDS) mine[atomicAdd(&count, 1)] = i;
    __syncthreads();
    float s = 0;
    for (int k = blockIdx.x / KINDS; k < count; k += max(1, 264 / KINDS))
        for (int c = threadIdx.x * WIDE; c < 512; c += T * WIDE) {
#if WIDE == 4
            const float4 v = *(const float4*)(a + mine[k] % 2048 * 512 + c); s += v.x + v.y + v.z + v.w;
#else
            s += a[mine[k] % 2048 * 512 + c];
#endif
        }
    out[blockIdx.x * T + threadIdx.x] = s;""", w=1),
    "convert_kinds": Family(  # vectors of EACH elements: half, byte and integer to float and back
        {"KIND": (0, 1, 2, 3), "EACH": (4, 8), "ROUNDS": (1, 8), "T": (128, 512)}, "grid (8388608 // (T * EACH)) block (T) shared 0",
        """
    const int i = blockIdx.x * T + threadIdx.x;
    float v[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e += 4) { const float4 f = *(const float4*)(a + i * EACH + e); v[e] = f.x; v[e + 1] = f.y; v[e + 2] = f.z; v[e + 3] = f.w; }
#pragma unroll 1
    for (int r = 0; r < ROUNDS; ++r)
#pragma unroll
        for (int e = 0; e < EACH; ++e)
#if KIND == 0
            v[e] = __half2float(__float2half(v[e] + 1.f));
#elif KIND == 1
            v[e] = (float)(signed char)(int)(v[e] * 100.f);
#elif KIND == 2
            v[e] = rintf(v[e] * 3.f) + floorf(v[e]);
#else
            v[e] = (float)(unsigned)(v[e] * 1000.f);
#endif
#pragma unroll
    for (int e = 0; e < EACH; e += 4) *(float4*)(out + i * EACH + e) = make_float4(v[e], v[e + 1], v[e + 2], v[e + 3]);""",
        n=1 << 23, w=1, before="#include <cuda_fp16.h>"),
    "convert_narrow": Family(  # memory bound: halves or bytes in, floats out
        {"KIND": (0, 1), "EACH": (1, 2, 4, 8), "BACK": (0, 1), "T": (128, 512)}, "grid (4194304 // (T * EACH)) block (T) shared 0",
        """
    const int i = blockIdx.x * T + threadIdx.x;
#if KIND == 0
    typedef __half narrow;
#else
    typedef unsigned char narrow;
#endif
    struct alignas(sizeof(narrow) * EACH) Narrow { narrow of[EACH]; };
    struct alignas(EACH < 4 ? 4 * EACH : 16) Wide { float of[EACH]; };
#if BACK
    const Wide v = ((const Wide*)a)[i]; Narrow to;
#pragma unroll
    for (int e = 0; e < EACH; ++e) to.of[e] = (narrow)(v.of[e] * 3.f);
    ((Narrow*)out)[i] = to;
#else
    const Narrow v = ((const Narrow*)a)[i]; Wide to;
#pragma unroll
    for (int e = 0; e < EACH; ++e) to.of[e] = (float)v.of[e];
    ((Wide*)out)[i] = to;
#endif
""", n=1 << 22, w=1, before="#include <cuda_fp16.h>"),
    "rows_in_registers": Family(  # DRAM or L2: rows read, summed by the block and written
        {"ROWS": (1024, 4096), "C": (1024, 4096), "T": (64, 128, 256), "WIDE": (1, 4)}, "grid (ROWS) block (T) shared 0",
        """
    __shared__ float part[32];
    float v[C / T], s = 0;
    const int row = blockIdx.x * C;
#pragma unroll
    for (int k = 0; k < C / T; k += WIDE) {
#if WIDE == 4
        *(float4*)(v + k) = *(const float4*)(a + row + k * T + threadIdx.x * 4);
        s += v[k] * v[k] + v[k + 1] * v[k + 1] + v[k + 2] * v[k + 2] + v[k + 3] * v[k + 3];
#else
        v[k] = a[row + k * T + threadIdx.x]; s += v[k] * v[k];
#endif
    }
    for (int o = 16; o; o /= 2) s += __shfl_xor_sync(~0u, s, o);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
    __syncthreads();
    s = 0;
    for (int w = 0; w < T / 32; ++w) s += part[w];
    const float r = rsqrtf(s / C + 1e-6f);
#pragma unroll
    for (int k = 0; k < C / T; k += WIDE) {
#if WIDE == 4
        *(float4*)(out + row + k * T + threadIdx.x * 4) = make_float4(v[k] * r, v[k + 1] * r, v[k + 2] * r, v[k + 3] * r);
#else
        out[row + k * T + threadIdx.x] = v[k] * r;
#endif
    }""", n=1 << 24, w=1),
    "loop_that_leaves": Family(  # a bounded loop that ends early: ptxas unrolls it, with a way out of each copy
        {"LIMIT": (16, 64, 200), "ALIKE": (1, 32, 256), "KIND": (0, 1), "T": (64, 256)}, "grid (262144 // T) block (T) shared 0",
        _I + """
    const float limit = 1.f + (mixed(i / ALIKE) & 1023) * (LIMIT / 1024.f);
    float x = a[i] * 0.001f; int k = 0;
#if KIND
#pragma unroll 4
#endif
    while (k < LIMIT && x < limit) { x = x + 1.f; ++k; }
    out[i] = x + k;""", n=1 << 18, w=1, before=_HASH),
    "load_width": Family(  # loads of BYTES that hit L1: all lanes at one place, side by side, or each in a sector
        {"BYTES": (1, 2, 4, 8, 16), "APART": (0, 1, 2), "T": (128, 512)}, "grid (528) block (T) shared 0",
        """
    typedef BYTES_TYPE word;
    const word* p = (const word*)a + (APART == 0 ? threadIdx.x / 32 : APART == 1 ? threadIdx.x : threadIdx.x % 32 * (32 / BYTES));
    unsigned s = 0;
#pragma unroll 16
    for (int k = 0; k < 256; ++k) {
        const word v = p[k % 64 * (16 / BYTES)];
        const unsigned* u = (const unsigned*)&v;
        s ^= BYTES < 4 ? *(const unsigned char*)u : BYTES == 4 ? u[0] : BYTES == 8 ? u[0] + u[BYTES / 8] : u[0] + u[BYTES / 8] + u[BYTES / 6];
    }
    out[blockIdx.x * T + threadIdx.x] = s;""", n=1 << 20, w=1,
        before="#if BYTES == 1\n#define BYTES_TYPE unsigned char\n#elif BYTES == 2\n#define BYTES_TYPE unsigned short\n#elif BYTES == 4\n#define BYTES_TYPE unsigned\n#elif BYTES == 8\n#define BYTES_TYPE uint2\n#else\n#define BYTES_TYPE uint4\n#endif"),
    "rate_integer": _rate("unsigned", (
        "x[k] = x[k] + x[(k + 1) & 3]", "x[k] = x[k] ^ (x[(k + 1) & 3] & y)", "x[k] = __funnelshift_l(x[k], x[(k + 1) & 3], y)", "x[k] = (x[(k + 1) & 3] >> (y & 15)) + z",
        "x[k] = max(min((int)x[k], (int)x[(k + 1) & 3]), (int)y)", "x[k] = x[k] < x[(k + 1) & 3] ? y : x[k] + z", "x[k] = __popc(x[k]) ^ x[(k + 1) & 3]",
        "x[k] = __clz(x[k]) ^ x[(k + 1) & 3]", "x[k] = __brev(x[k]) ^ x[(k + 1) & 3]", "x[k] = __byte_perm(x[k], x[(k + 1) & 3], 0x5140)",
        "x[k] = x[k] * y + x[(k + 1) & 3]", "x[k] = __umulhi(x[k], y) + z", "x[k] = (x[(k + 1) & 3] << 3) + x[k]", "x[k] = __dp4a(x[k], y, x[(k + 1) & 3])",
        "x[k] = (x[k] >> 7 & 0xff) + x[(k + 1) & 3]", "x[k] = abs((int)(x[k] - x[(k + 1) & 3]))",
    )),
    "rate_wide": _rate("unsigned long long", (
        "x[k] = x[k] + x[(k + 1) & 3]", "x[k] = (unsigned)x[k] * (unsigned long long)(unsigned)y + x[(k + 1) & 3]", "x[k] = x[k] << 3 ^ x[(k + 1) & 3]",
        "x[k] = x[k] < x[(k + 1) & 3] ? y : x[k] + z", "x[k] = x[k] * y + x[(k + 1) & 3]",
    )),
    "rate_float": _rate("float", (
        "x[k] = x[k] + x[(k + 1) & 3]", "x[k] = x[k] * y", "x[k] = x[k] * y + z", "x[k] = fmaxf(fminf(x[k], x[(k + 1) & 3]), y)",
        "x[k] = x[k] < x[(k + 1) & 3] ? y : x[k] + z", "x[k] = __frsqrt_rn(x[k]) + y", 'asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x[k]))',
        'asm("lg2.approx.ftz.f32 %0, %0;" : "+f"(x[k]))', 'asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(x[k]))',
        'asm("sin.approx.ftz.f32 %0, %0;" : "+f"(x[k]))', 'asm("tanh.approx.f32 %0, %0;" : "+f"(x[k]))',
        'asm("sqrt.approx.ftz.f32 %0, %0;" : "+f"(x[k]))', 'asm("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(x[k]))',
    )),
    "rate_convert": _rate("float", (
        "x[k] = (float)(int)(x[k] * 9.f)", "x[k] = (float)(unsigned)__float_as_int(x[k])", "x[k] = __int_as_float((int)x[k] | 0x3f800000)",
        "x[k] = __half2float(__float2half(x[k])) + y", "x[k] = __low2float(__floats2half2_rn(x[k], x[(k + 1) & 3])) + y",
        "x[k] = (float)(unsigned char)__float_as_int(x[k])", "x[k] = rintf(x[k]) * y", "x[k] = floorf(x[k]) + y",
        "x[k] = (float)(long long)__float_as_int(x[k])", "x[k] = (float)(short)__float_as_int(x[k])",
        "x[k] = __bfloat162float(__float2bfloat16(x[k])) + y", "x[k] = __half2float(__int2half_rn(__float_as_int(x[k])))",
        "x[k] = (float)((double)x[k] * 1.5)",
    ), before="#include <cuda_fp16.h>\n#include <cuda_bf16.h>"),
    "rate_lanes": _rate("unsigned", (
        "x[k] = __shfl_xor_sync(~0u, x[k], 1) + x[(k + 1) & 3]", "x[k] = __ballot_sync(~0u, x[k] < x[(k + 1) & 3]) + y", "x[k] = __reduce_add_sync(~0u, x[k])",
        "x[k] = __shfl_sync(~0u, x[k], x[(k + 1) & 3] & 31)", "x[k] = __any_sync(~0u, x[k] < x[(k + 1) & 3]) + x[k]", "x[k] = __match_any_sync(~0u, x[k] & 3)",
        "x[k] = __shfl_down_sync(~0u, x[k], 1)",
    )),
}  # fmt: skip


def variants(root: Path) -> Iterator[dict[str, Any]]:
    """Rows of all families, each under some of its knobs."""
    task = load_task(root, "clock")
    for name, family in CAUSES.items():
        case = Case(name=f"n{family.n}w{family.w}", axes={"N": family.n, "W": family.w})
        variant = parse_variant(family.text(name), path=name)
        most = ALL if name.startswith("rate_") else POINTS
        for point in points(variant, task, case, most, random.Random(name)):
            yield row_of(name, name, task, case, point) | {"held_out": False}


def main(words: Sequence[str]) -> int:
    rows = packed(variants, Path(words[0]))
    say(f"{len(rows)} variants, {len(CAUSES)} families")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
