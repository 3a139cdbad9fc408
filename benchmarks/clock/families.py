# ruff: noqa: E501  kernels read better unbroken
"""Kernels of the clock's data set that no task ships: one family each, swept over its knobs.

Each loads a resource or a latency (names that begin with `micro_`), or is an ordinary kernel of another trade. All take
the same parameters: floats `a` and `b`, indices `idx` (random, below N), floats `out`, then N and W.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Knobs = Mapping[str, tuple[int | str, ...]]
_PARAMETERS = "(const float* a, const float* b, const int* idx, float* out, int n, int w)"


@dataclass(frozen=True)
class Family:
    """knobs: their domains. launches: grid, block and dynamic shared bytes of each `k0`, `k1`, ...; n, w: the case.

    zero: the output begins at zero (the kernel adds to it), which costs a memset before every launch.
    """

    knobs: Knobs
    launch: str
    body: str
    n: int = 1 << 20
    w: int = 1024
    zero: bool = False
    before: str = ""
    require: str = ""

    def text(self, name: str) -> str:
        """The variant file, with the first value of each knob."""
        lines = [f"// {name}", f"// evo: task {'clock_zero' if self.zero else 'clock'}"]
        lines += [f"// evo: knob {knob} in {', '.join(map(str, values))}" for knob, values in self.knobs.items()]
        lines += [f"// evo: require {self.require}"] if self.require else []
        lines += [f"// evo: launch k {self.launch}"]
        lines += [f"#define {knob} {values[0]}" for knob, values in self.knobs.items()]
        bounds = "__launch_bounds__(T, MINB) " if "MINB" in self.knobs else ""
        kernel = f'extern "C" __global__ {bounds}void k{_PARAMETERS} {{{self.body}}}'
        return "\n".join([*lines, self.before, kernel, ""])


_I = "const int i = blockIdx.x * T + threadIdx.x;"
_T = (64, 128, 256, 512, 1024)
_FLAT = "grid (ceil_div(N, T)) block (T) shared 0"

FAMILIES: dict[str, Family] = {
    "micro_copy": Family(
        {"T": _T, "V": (1, 2, 4), "U": (1, 2, 4)}, "grid (ceil_div(N, T * V * U)) block (T) shared 0",
        """
#pragma unroll
    for (int u = 0; u < U; ++u) {
        const int i = ((blockIdx.x * U + u) * T + threadIdx.x) * V;
        if (i < n) {
#if V == 4
            ((float4*)out)[i / 4] = ((const float4*)a)[i / 4];
#elif V == 2
            ((float2*)out)[i / 2] = ((const float2*)a)[i / 2];
#else
            out[i] = a[i];
#endif
        }
    }""", n=1 << 22),
    "micro_copy_dram": Family(
        {"T": (64, 256, 1024), "V": (1, 4), "G": (132, 264, 528, 1056, 4096)}, "grid (G) block (T) shared 0",
        """
    for (int i = (blockIdx.x * T + threadIdx.x) * V; i < n; i += G * T * V) {
#if V == 4
        ((float4*)out)[i / 4] = ((const float4*)a)[i / 4];
#else
        out[i] = a[i];
#endif
    }""", n=1 << 24),
    "micro_load_stride": Family(
        {"STRIDE": (1, 2, 3, 4, 8, 16, 32), "T": (128, 512), "U": (1, 4)}, "grid (ceil_div(N, T * U)) block (T) shared 0",
        """
    float s = 0;
#pragma unroll
    for (int u = 0; u < U; ++u) s += a[((long long)((blockIdx.x * U + u) * T + threadIdx.x) * STRIDE) % n];
    out[blockIdx.x * T + threadIdx.x] = s;"""),
    "micro_store_stride": Family(
        {"STRIDE": (1, 2, 3, 4, 8, 16, 32), "T": (128, 512), "U": (1, 4)}, "grid (ceil_div(N, T * U)) block (T) shared 0",
        """
#pragma unroll
    for (int u = 0; u < U; ++u) {
        const long long i = (blockIdx.x * U + u) * T + threadIdx.x;
        out[(i * STRIDE + i * STRIDE / n) % n] = a[i];
    }"""),
    "micro_gather": Family(
        {"REACH": (1024, 16384, 262144, 1048576), "T": (64, 256, 1024), "U": (1, 2, 4)},
        "grid (ceil_div(N, T * U)) block (T) shared 0",
        """
    float s = 0;
#pragma unroll
    for (int u = 0; u < U; ++u) s += a[idx[(blockIdx.x * U + u) * T + threadIdx.x] & (REACH - 1)];
    out[blockIdx.x * T + threadIdx.x] = s;"""),
    "micro_atomic": Family(
        {"SPREAD": (1, 8, 32, 256, 4096, 65536), "T": (128, 512), "KIND": (0, 1, 2)}, _FLAT,
        _I + """
#if KIND == 0
    atomicAdd(out + i % SPREAD, a[i]);
#elif KIND == 1
    atomicAdd((unsigned*)out + i % SPREAD, 1u);
#else
    atomicMax((int*)out + idx[i] % SPREAD, idx[i]);
#endif
""", n=1 << 18, zero=True),
    "micro_bank": Family(
        {"STRIDE": (1, 2, 3, 4, 8, 16, 32), "T": (64, 256, 1024), "WIDE": (1, 4)},
        "grid (528) block (T) shared 0",
        """
    __shared__ float s[8192];
    for (int i = threadIdx.x; i < 8192; i += T) s[i] = a[i];
    __syncthreads();
    float r = 0;
    int at = (threadIdx.x * STRIDE * WIDE) & 8191;
#pragma unroll 8
    for (int j = 0; j < 128; ++j) {
#if WIDE == 4
        const float4 v = *(const float4*)(s + at);
        r += v.x + v.y + v.z + v.w;
#else
        r += s[at];
#endif
        at = (at + 32 * WIDE) & 8191;
    }
    out[blockIdx.x * T + threadIdx.x] = r;"""),
    "micro_bank_store": Family(
        {"STRIDE": (1, 2, 4, 8, 32, 33), "T": (64, 256, 1024)}, "grid (528) block (T) shared 0",
        """
    __shared__ float s[4096];
    const float v = a[threadIdx.x];
#pragma unroll 4
    for (int j = 0; j < 128; ++j) {
        s[(threadIdx.x * STRIDE + j) & 4095] = v + j;
        __syncthreads();
    }
    out[blockIdx.x * T + threadIdx.x] = s[threadIdx.x];"""),
    "micro_fma": Family(
        {"ILP": (1, 2, 4, 8), "T": (32, 64, 128, 256, 512, 1024), "G": (132, 264, 528)}, "grid (G) block (T) shared 0",
        """
    float r[ILP];
    const float x = a[threadIdx.x], y = b[threadIdx.x];
    for (int k = 0; k < ILP; ++k) r[k] = x + k;
#pragma unroll 4
    for (int j = 0; j < w; ++j) {
#pragma unroll
        for (int k = 0; k < ILP; ++k) r[k] = r[k] * x + y;
    }
    float s = 0;
    for (int k = 0; k < ILP; ++k) s += r[k];
    out[blockIdx.x * T + threadIdx.x] = s;""", w=512),
    "micro_int": Family(
        {"OP": (0, 1, 2, 3), "ILP": (1, 4), "T": (64, 256, 1024), "G": (132, 528)}, "grid (G) block (T) shared 0",
        """
    unsigned r[ILP];
    const unsigned x = idx[threadIdx.x], y = idx[threadIdx.x + 1] + x;
    for (int k = 0; k < ILP; ++k) r[k] = x + k;
#pragma unroll 4
    for (int j = 0; j < w; ++j) {
#pragma unroll
        for (int k = 0; k < ILP; ++k) {
#if OP == 0
            r[k] = r[k] * x + y;
#elif OP == 1
            r[k] = (r[k] ^ y) + (r[k] >> 3);
#elif OP == 2
            r[k] = r[k] % (y | 3) + j;
#else
            r[k] = __popc(r[k]) + y * j;
#endif
        }
    }
    unsigned s = 0;
    for (int k = 0; k < ILP; ++k) s += r[k];
    out[blockIdx.x * T + threadIdx.x] = s;""", w=256),
    "micro_special": Family(
        {"OP": (0, 1, 2, 3, 4), "ILP": (1, 4), "T": (64, 256, 1024), "G": (132, 528)}, "grid (G) block (T) shared 0",
        """
    float r[ILP];
    const float x = a[threadIdx.x];
    for (int k = 0; k < ILP; ++k) r[k] = x + k;
#pragma unroll 4
    for (int j = 0; j < w; ++j) {
#pragma unroll
        for (int k = 0; k < ILP; ++k) {
#if OP == 0
            r[k] = __expf(r[k]);
#elif OP == 1
            r[k] = rsqrtf(r[k]) + x;
#elif OP == 2
            r[k] = expf(r[k]) - x;
#elif OP == 3
            r[k] = x / (r[k] + 1.5f);
#else
            r[k] = tanhf(r[k]) + x;
#endif
        }
    }
    float s = 0;
    for (int k = 0; k < ILP; ++k) s += r[k];
    out[blockIdx.x * T + threadIdx.x] = s;""", w=128),
    "micro_double": Family(
        {"ILP": (1, 2, 4), "T": (32, 128, 512), "G": (132, 264)}, "grid (G) block (T) shared 0",
        """
    double r[ILP];
    const double x = a[threadIdx.x], y = b[threadIdx.x];
    for (int k = 0; k < ILP; ++k) r[k] = x + k;
    for (int j = 0; j < w; ++j) {
#pragma unroll
        for (int k = 0; k < ILP; ++k) r[k] = r[k] * x + y;
    }
    double s = 0;
    for (int k = 0; k < ILP; ++k) s += r[k];
    out[blockIdx.x * T + threadIdx.x] = (float)s;""", w=256),
    "micro_chase_shared": Family(
        {"T": (32, 128, 512, 1024), "CHAINS": (1, 2, 4), "G": (132, 528)}, "grid (G) block (T) shared 0",
        """
    __shared__ int s[4096];
    for (int i = threadIdx.x; i < 4096; i += T) s[i] = (i + 32 * (1 + i % 7)) & 4095;
    __syncthreads();
    int at[CHAINS];
    for (int k = 0; k < CHAINS; ++k) at[k] = (threadIdx.x + k * 1024) & 4095;
#pragma unroll 4
    for (int j = 0; j < w; ++j)
        for (int k = 0; k < CHAINS; ++k) at[k] = s[at[k]];
    int r = 0;
    for (int k = 0; k < CHAINS; ++k) r += at[k];
    out[blockIdx.x * T + threadIdx.x] = r;""", w=256),
    "micro_chase_global": Family(
        {"REACH": (1024, 65536, 1048576), "T": (32, 128, 512), "CHAINS": (1, 2, 4), "G": (132, 528)},
        "grid (G) block (T) shared 0",
        """
    int at[CHAINS];
    for (int k = 0; k < CHAINS; ++k) at[k] = (blockIdx.x * T + threadIdx.x + k * 777) & (REACH - 1);
    for (int j = 0; j < w; ++j)
        for (int k = 0; k < CHAINS; ++k) at[k] = idx[at[k]] & (REACH - 1);
    int r = 0;
    for (int k = 0; k < CHAINS; ++k) r += at[k];
    out[blockIdx.x * T + threadIdx.x] = r;""", w=32),
    "micro_shuffle": Family(
        {"ILP": (1, 2, 4), "T": (32, 128, 512, 1024), "G": (132, 528)}, "grid (G) block (T) shared 0",
        """
    float r[ILP];
    for (int k = 0; k < ILP; ++k) r[k] = a[threadIdx.x] + k;
#pragma unroll 4
    for (int j = 0; j < w; ++j)
        for (int k = 0; k < ILP; ++k) r[k] += __shfl_xor_sync(0xffffffffu, r[k], 1 + (j & 15));
    float s = 0;
    for (int k = 0; k < ILP; ++k) s += r[k];
    out[blockIdx.x * T + threadIdx.x] = s;""", w=256),
    "micro_barrier": Family(
        {"T": (32, 64, 128, 256, 512, 1024), "WORK": (0, 4, 16), "G": (132, 528)}, "grid (G) block (T) shared 0",
        """
    __shared__ float s[T];
    float r = a[threadIdx.x];
    for (int j = 0; j < w; ++j) {
#pragma unroll
        for (int k = 0; k < WORK; ++k) r = r * 1.01f + 0.5f;
        s[threadIdx.x] = r;
        __syncthreads();
        r += s[(threadIdx.x + 33) % T];
        __syncthreads();
    }
    out[blockIdx.x * T + threadIdx.x] = r;""", w=64),
    "micro_diverge": Family(
        {"WAYS": (1, 2, 4, 8, 32), "T": (64, 256, 1024), "WORK": (8, 32)}, "grid (528) block (T) shared 0",
        """
    float r = a[threadIdx.x];
    for (int j = 0; j < w; ++j)
        for (int k = 0; k < WAYS; ++k)
            if ((int)(threadIdx.x % WAYS) == k)
                for (int m = 0; m < WORK; ++m) r = r * 1.01f + k;
    out[blockIdx.x * T + threadIdx.x] = r;""", w=8),
    "micro_registers": Family(
        {"LIVE": (8, 24, 48, 96), "T": (128, 256), "MINB": (1, 2, 4, 8)}, "grid (1056) block (T) shared 0",
        """
    float r[LIVE];
#pragma unroll
    for (int k = 0; k < LIVE; ++k) r[k] = a[(threadIdx.x + k * T) % n];
    for (int j = 0; j < w; ++j) {
        const float x = b[j];
#pragma unroll
        for (int k = 0; k < LIVE; ++k) r[k] = r[k] * x + r[(k + 7) % LIVE];
    }
    float s = 0;
#pragma unroll
    for (int k = 0; k < LIVE; ++k) s += r[k];
    out[blockIdx.x * T + threadIdx.x] = s;""", w=64, require="T * MINB <= 1024"),
    "micro_occupancy": Family(
        {"SHARED": (0, 8192, 16384, 24576, 32768, 40960), "T": (64, 128, 256), "U": (1, 4)},
        "grid (ceil_div(N, T * U)) block (T) shared SHARED",
        """
    float s = 0;
#pragma unroll
    for (int u = 0; u < U; ++u) s += a[(blockIdx.x * U + u) * T + threadIdx.x] * b[(blockIdx.x * U + u) * T + threadIdx.x];
    out[blockIdx.x * T + threadIdx.x] = s;"""),
    "micro_local": Family(
        {"SIZE": (8, 16, 64), "T": (64, 256, 1024), "TURNS": (8, 32)}, "grid (264) block (T) shared 0",
        """
    float r[SIZE];
    for (int k = 0; k < SIZE; ++k) r[k] = a[threadIdx.x + k];
    int at = idx[threadIdx.x] % SIZE;
    for (int j = 0; j < TURNS; ++j) {
        r[at] += 1.5f;
        at = (at * 5 + (int)r[(at + 3) % SIZE] + j) & (SIZE - 1);
    }
    float s = 0;
    for (int k = 0; k < SIZE; ++k) s += r[k];
    out[blockIdx.x * T + threadIdx.x] = s;"""),
    "micro_tail": Family(
        {"G": (100, 132, 140, 264, 300, 528, 600), "T": (128, 1024), "SKEW": (0, 1, 8)}, "grid (G) block (T) shared 0",
        """
    float r = a[threadIdx.x];
    const int turns = w * (1 + SKEW * (blockIdx.x % 50 == 0));
    for (int j = 0; j < turns; ++j) r = r * 1.01f + 0.5f;
    out[blockIdx.x * T + threadIdx.x] = r;""", w=256),
    "micro_launch": Family(
        {"G": (1, 16, 132, 1056, 8448, 65536), "T": (32, 128, 512, 1024)}, "grid (G) block (T) shared 0",
        "if (n == 1) out[threadIdx.x] = w;"),
    "transpose": Family(
        {"TILE": (8, 16, 32), "ROWS": (4, 8, 16, 32), "PAD": (0, 1), "WAY": (0, 1, 2)},
        "grid (ceil_div(W, TILE), ceil_div(N // W, TILE)) block (TILE, ROWS) shared 0",
        """
    const int h = n / w, x = blockIdx.x * TILE, y = blockIdx.y * TILE;
#if WAY == 2
    __shared__ float s[TILE][TILE + PAD];
    for (int j = threadIdx.y; j < TILE; j += ROWS) s[j][threadIdx.x] = a[(y + j) * w + x + threadIdx.x];
    __syncthreads();
    for (int j = threadIdx.y; j < TILE; j += ROWS) out[(x + j) * h + y + threadIdx.x] = s[threadIdx.x][j];
#elif WAY == 1
    for (int j = threadIdx.y; j < TILE; j += ROWS) out[(y + j) * h + x + threadIdx.x] = a[(x + threadIdx.x) * w + y + j];
#else
    for (int j = threadIdx.y; j < TILE; j += ROWS) out[(x + threadIdx.x) * h + y + j] = a[(y + j) * w + x + threadIdx.x];
#endif
""", require="ROWS <= TILE and (PAD == 0 or WAY == 2)"),
    "reduce": Family(
        {"WAY": (0, 1, 2, 3), "T": (64, 128, 256, 512, 1024), "ITEMS": (1, 4, 16)},
        "grid (ceil_div(N, T * ITEMS)) block (T) shared 0",
        """
    float r = 0;
    for (int k = 0; k < ITEMS; ++k) r += a[(blockIdx.x * ITEMS + k) * T + threadIdx.x];
#if WAY == 0
    atomicAdd(out, r);
#else
    __shared__ float s[T];
    s[threadIdx.x] = r;
    __syncthreads();
#if WAY == 1
    for (int d = 1; d < T; d *= 2) {
        if (threadIdx.x % (2 * d) == 0) s[threadIdx.x] += s[threadIdx.x + d];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(out, s[0]);
#elif WAY == 2
    for (int d = T / 2; d > 0; d /= 2) {
        if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(out, s[0]);
#else
    for (int d = 16; d > 0; d /= 2) r += __shfl_xor_sync(0xffffffffu, r, d);
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = r;
    __syncthreads();
    if (threadIdx.x < 32) {
        r = threadIdx.x < T / 32 ? s[threadIdx.x] : 0;
        for (int d = 16; d > 0; d /= 2) r += __shfl_xor_sync(0xffffffffu, r, d);
        if (threadIdx.x == 0) atomicAdd(out, r);
    }
#endif
#endif
""", zero=True),
    "histogram": Family(
        {"BINS": (16, 256, 4096), "PRIVATE": (0, 1), "T": (128, 256, 512), "ITEMS": (1, 4, 16)},
        "grid (ceil_div(N, T * ITEMS)) block (T) shared 0",
        """
    unsigned* bins = (unsigned*)out;
#if PRIVATE
    __shared__ unsigned s[BINS];
    for (int i = threadIdx.x; i < BINS; i += T) s[i] = 0;
    __syncthreads();
    for (int k = 0; k < ITEMS; ++k) atomicAdd(s + idx[(blockIdx.x * ITEMS + k) * T + threadIdx.x] % BINS, 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < BINS; i += T) if (s[i]) atomicAdd(bins + i, s[i]);
#else
    for (int k = 0; k < ITEMS; ++k) atomicAdd(bins + idx[(blockIdx.x * ITEMS + k) * T + threadIdx.x] % BINS, 1u);
#endif
""", zero=True),
    "matvec": Family(
        {"WAY": (0, 1, 2), "T": (32, 64, 128, 256, 512), "U": (1, 4)},
        "grid (ceil_div(N // W, T) if WAY == 0 else ceil_div(N // W, T // 32) if WAY == 1 else N // W) block (T) shared 0",
        """
#if WAY == 0
    const int row = blockIdx.x * T + threadIdx.x, first = 0, step = 1;
#elif WAY == 1
    const int row = (blockIdx.x * T + threadIdx.x) / 32, first = threadIdx.x % 32, step = 32;
#else
    const int row = blockIdx.x, first = threadIdx.x, step = T;
#endif
    if (row >= n / w) return;
    float r = 0;
#pragma unroll U
    for (int c = first; c < w; c += step) r += a[row * w + c] * b[c];
#if WAY == 0
    out[row] = r;
#else
    for (int d = 16; d > 0; d /= 2) r += __shfl_xor_sync(0xffffffffu, r, d);
#if WAY == 1
    if (threadIdx.x % 32 == 0) out[row] = r;
#else
    __shared__ float s[T / 32];
    if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = r;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 1; k < T / 32; ++k) r += s[k];
        out[row] = r;
    }
#endif
#endif
"""),
    "gemm_tile": Family(
        {"BM": (32, 64, 128), "BN": (32, 64, 128), "BK": (8, 16, 32), "TM": (2, 4, 8), "TN": (2, 4, 8)},
        "grid (W // BN, W // BM) block ((BM // TM) * (BN // TN)) shared 0",
        """
    constexpr int T = (BM / TM) * (BN / TN);
    __shared__ float sa[BK][BM + 4], sb[BK][BN];
    float r[TM][TN] = {};
    const int tx = threadIdx.x % (BN / TN), ty = threadIdx.x / (BN / TN);
    for (int k0 = 0; k0 < w; k0 += BK) {
        for (int i = threadIdx.x; i < BM * BK; i += T) sa[i % BK][i / BK] = a[(blockIdx.y * BM + i / BK) * w + k0 + i % BK];
        for (int i = threadIdx.x; i < BN * BK; i += T) sb[i / BN][i % BN] = b[(k0 + i / BN) * w + blockIdx.x * BN + i % BN];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float x[TM], y[TN];
#pragma unroll
            for (int m = 0; m < TM; ++m) x[m] = sa[k][ty * TM + m];
#pragma unroll
            for (int c = 0; c < TN; ++c) y[c] = sb[k][tx * TN + c];
#pragma unroll
            for (int m = 0; m < TM; ++m)
#pragma unroll
                for (int c = 0; c < TN; ++c) r[m][c] += x[m] * y[c];
        }
        __syncthreads();
    }
    for (int m = 0; m < TM; ++m)
        for (int c = 0; c < TN; ++c) out[(blockIdx.y * BM + ty * TM + m) * w + blockIdx.x * BN + tx * TN + c] = r[m][c];""",
        n=512 * 512, w=512, require="(BM // TM) * (BN // TN) >= 32 and (BM // TM) * (BN // TN) <= 1024"),
    "stencil2d": Family(
        {"X": (16, 32, 64, 128), "Y": (1, 2, 4, 8), "ROWS": (1, 2, 4, 8), "SHARED": (0, 1)},
        "grid (ceil_div(W, X), ceil_div(N // W, Y * ROWS)) block (X, Y) shared 0",
        """
    const int h = n / w, x = blockIdx.x * X + threadIdx.x, y0 = blockIdx.y * Y * ROWS;
#if SHARED
    __shared__ float s[Y * ROWS + 2][X + 2];
    for (int j = threadIdx.y; j < Y * ROWS + 2; j += Y)
        for (int i = threadIdx.x; i < X + 2; i += X) {
            const int gx = min(max((int)(blockIdx.x * X) + i - 1, 0), w - 1), gy = min(max(y0 + j - 1, 0), h - 1);
            s[j][i] = a[gy * w + gx];
        }
    __syncthreads();
    for (int j = threadIdx.y; j < Y * ROWS; j += Y)
        if (x < w && y0 + j < h)
            out[(y0 + j) * w + x] = 0.2f * (s[j + 1][threadIdx.x] + s[j + 1][threadIdx.x + 1] + s[j + 1][threadIdx.x + 2] + s[j][threadIdx.x + 1] + s[j + 2][threadIdx.x + 1]);
#else
    for (int j = threadIdx.y; j < Y * ROWS; j += Y) {
        const int y = y0 + j;
        if (x > 0 && x < w - 1 && y > 0 && y < h - 1)
            out[y * w + x] = 0.2f * (a[y * w + x] + a[y * w + x - 1] + a[y * w + x + 1] + a[y * w - w + x] + a[y * w + w + x]);
    }
#endif
""", require="X * Y >= 32 and X * Y <= 512"),
    "stencil3d": Family(
        {"X": (16, 32, 64), "Y": (1, 4, 8), "Z": (1, 2), "DEPTH": (1, 4, 16)},
        "grid (128 // X, ceil_div(128, Y), ceil_div(64, Z * DEPTH)) block (X, Y, Z) shared 0",
        """
    const int x = blockIdx.x * X + threadIdx.x, y = blockIdx.y * Y + threadIdx.y;
    for (int d = 0; d < DEPTH; ++d) {
        const int z = (blockIdx.z * DEPTH + d) * Z + threadIdx.z, i = (z * 128 + y) * 128 + x;
        if (x > 0 && x < 127 && y > 0 && y < 127 && z > 0 && z < 63)
            out[i] = a[i] * w - (a[i - 1] + a[i + 1] + a[i - 128] + a[i + 128] + a[i - 16384] + a[i + 16384]);
    }"""),
    "fir": Family(
        {"TAPS": (7, 31), "T": (64, 256, 1024), "EACH": (1, 2, 4), "SHARED": (0, 1)},
        "grid (ceil_div(N, T * EACH)) block (T) shared 0",
        """
    const int first = blockIdx.x * T * EACH;
#if SHARED
    __shared__ float s[T * EACH + TAPS];
    for (int i = threadIdx.x; i < T * EACH + TAPS; i += T) s[i] = a[min(first + i, n - 1)];
    __syncthreads();
#endif
    for (int e = 0; e < EACH; ++e) {
        const int i = e * T + threadIdx.x;
        float r = 0;
#pragma unroll
        for (int k = 0; k < TAPS; ++k) {
#if SHARED
            r += s[i + k] * b[k];
#else
            r += a[min(first + i + k, n - 1)] * b[k];
#endif
        }
        if (first + i < n) out[first + i] = r;
    }"""),
    "scan_block": Family(
        {"WAY": (0, 1), "T": (64, 128, 256, 512, 1024), "EACH": (1, 2, 4, 8)},
        "grid (ceil_div(N, T * EACH)) block (T) shared 0",
        """
    float v[EACH], total = 0;
    const int first = (blockIdx.x * T + threadIdx.x) * EACH;
    for (int e = 0; e < EACH; ++e) v[e] = total += a[first + e];
    __shared__ float s[T];
#if WAY == 0
    s[threadIdx.x] = total;
    __syncthreads();
    for (int d = 1; d < T; d *= 2) {
        const float left = threadIdx.x >= d ? s[threadIdx.x - d] : 0;
        __syncthreads();
        s[threadIdx.x] += left;
        __syncthreads();
    }
    const float before = s[threadIdx.x] - total;
#else
    float r = total;
    for (int d = 1; d < 32; d *= 2) {
        const float left = __shfl_up_sync(0xffffffffu, r, d);
        if (threadIdx.x % 32 >= d) r += left;
    }
    if (threadIdx.x % 32 == 31) s[threadIdx.x / 32] = r;
    __syncthreads();
    float before = r - total;
    for (int k = 0; k < threadIdx.x / 32; ++k) before += s[k];
#endif
    for (int e = 0; e < EACH; ++e) out[first + e] = v[e] + before;"""),
    "nbody": Family(
        {"T": (32, 64, 128, 256), "EACH": (1, 2, 4), "SHARED": (0, 1), "U": (1, 4, 8)},
        "grid (ceil_div(4096, T * EACH)) block (T) shared 0",
        """
    const float4* p = (const float4*)a;
    float3 f[EACH] = {};
    float4 me[EACH];
    for (int e = 0; e < EACH; ++e) me[e] = p[(blockIdx.x * EACH + e) * T + threadIdx.x];
    for (int j0 = 0; j0 < w; j0 += T) {
#if SHARED
        __shared__ float4 s[T];
        s[threadIdx.x] = p[j0 + threadIdx.x];
        __syncthreads();
#endif
#pragma unroll U
        for (int j = 0; j < T; ++j) {
#if SHARED
            const float4 q = s[j];
#else
            const float4 q = p[j0 + j];
#endif
#pragma unroll
            for (int e = 0; e < EACH; ++e) {
                const float x = q.x - me[e].x, y = q.y - me[e].y, z = q.z - me[e].z;
                const float r = rsqrtf(x * x + y * y + z * z + 0.01f), m = q.w * r * r * r;
                f[e].x += x * m; f[e].y += y * m; f[e].z += z * m;
            }
        }
#if SHARED
        __syncthreads();
#endif
    }
    for (int e = 0; e < EACH; ++e) out[(blockIdx.x * EACH + e) * T + threadIdx.x] = f[e].x + f[e].y + f[e].z;""", w=1024),
    "mandelbrot": Family(
        {"X": (8, 16, 32), "Y": (4, 8, 16, 32), "LIMIT": (32, 128)}, "grid (ceil_div(512, X), ceil_div(512, Y)) block (X, Y) shared 0",
        """
    const int px = blockIdx.x * X + threadIdx.x, py = blockIdx.y * Y + threadIdx.y;
    const float cx = px / 170.0f - 2.0f, cy = py / 200.0f - 1.25f;
    float x = 0, y = 0;
    int k = 0;
    while (k < LIMIT && x * x + y * y < 4.0f) {
        const float t = x * x - y * y + cx;
        y = 2 * x * y + cy;
        x = t;
        ++k;
    }
    out[py * 512 + px] = k;""", n=512 * 512),
    "softmax_rows": Family(
        {"WARPS": (1, 2, 4, 8, 16), "EACH": (0, 1), "PASSES": (2, 3), "V": (1, 4)},
        "grid (N // W if EACH == 0 else ceil_div(N // W, WARPS)) block (WARPS * 32) shared 0",
        """
    constexpr int T = WARPS * 32;
    const int row = EACH ? blockIdx.x * WARPS + threadIdx.x / 32 : blockIdx.x;
    const int first = EACH ? threadIdx.x % 32 : threadIdx.x, step = EACH ? 32 : T;
    const float* x = a + row * w;
    __shared__ float s[64];
    float m = -1e30f, t = 0;
#pragma unroll V
    for (int c = first; c < w; c += step) {
#if PASSES == 2
        const float old = m;
        m = fmaxf(m, x[c]);
        t = t * __expf(old - m) + __expf(x[c] - m);
#else
        m = fmaxf(m, x[c]);
#endif
    }
    float whole = m;
    for (int d = 16; d > 0; d /= 2) whole = fmaxf(whole, __shfl_xor_sync(0xffffffffu, whole, d));
    if (!EACH) {
        s[threadIdx.x / 32] = whole;
        __syncthreads();
        for (int k = 0; k < WARPS; ++k) whole = fmaxf(whole, s[k]);
    }
#if PASSES == 2
    t *= __expf(m - whole);
#else
#pragma unroll V
    for (int c = first; c < w; c += step) t += __expf(x[c] - whole);
#endif
    for (int d = 16; d > 0; d /= 2) t += __shfl_xor_sync(0xffffffffu, t, d);
    if (!EACH) {
        s[32 + threadIdx.x / 32] = t;
        __syncthreads();
        t = 0;
        for (int k = 0; k < WARPS; ++k) t += s[32 + k];
    }
#pragma unroll V
    for (int c = first; c < w; c += step) out[row * w + c] = __expf(x[c] - whole) / t;"""),
    "gelu": Family(
        {"WAY": (0, 1), "V": (1, 2, 4), "T": (64, 256, 1024), "EACH": (1, 4)},
        "grid (ceil_div(N, T * V * EACH)) block (T) shared 0",
        """
    for (int e = 0; e < EACH; ++e) {
        const int i = ((blockIdx.x * EACH + e) * T + threadIdx.x) * V;
        float v[V];
        for (int k = 0; k < V; ++k) v[k] = a[i + k];
        for (int k = 0; k < V; ++k) {
            const float x = v[k], u = 0.79788456f * (x + 0.044715f * x * x * x);
#if WAY == 0
            out[i + k] = 0.5f * x * (1.0f + tanhf(u));
#else
            out[i + k] = x / (1.0f + __expf(-2.0f * u));
#endif
        }
    }"""),
    "spmv": Family(
        {"LANES": (1, 2, 4, 8, 16, 32), "T": (64, 128, 256), "SKEW": (0, 1)},
        "grid (ceil_div(16384 * LANES, T)) block (T) shared 0",
        """
    const int row = (blockIdx.x * T + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
    const int count = SKEW ? 4 + idx[row] % 60 : 32;
    float r = 0;
    for (int k = lane; k < count; k += LANES) r += a[row * 64 + k] * b[idx[row * 64 + k] & 65535];
    for (int d = LANES / 2; d > 0; d /= 2) r += __shfl_xor_sync(0xffffffffu, r, d);
    if (lane == 0) out[row] = r;"""),
    "pool2d": Family(
        {"K": (2, 3, 5), "X": (16, 32, 64), "Y": (2, 4, 8), "EACH": (1, 2)},
        "grid (ceil_div(W, X * EACH), ceil_div(N // W, Y)) block (X, Y) shared 0",
        """
    const int h = n / w, y = blockIdx.y * Y + threadIdx.y;
    for (int e = 0; e < EACH; ++e) {
        const int x = (blockIdx.x * EACH + e) * X + threadIdx.x;
        float m = -1e30f;
#pragma unroll
        for (int j = 0; j < K; ++j)
#pragma unroll
            for (int i = 0; i < K; ++i) m = fmaxf(m, a[min(y + j, h - 1) * w + min(x + i, w - 1)]);
        out[y * w + x] = m;
    }"""),
    "bitonic": Family(
        {"T": (64, 128, 256, 512, 1024), "EACH": (1, 2, 4)}, "grid (ceil_div(N, T * EACH)) block (T) shared 0",
        """
    constexpr int C = T * EACH;
    __shared__ float s[C];
    for (int i = threadIdx.x; i < C; i += T) s[i] = a[blockIdx.x * C + i];
    __syncthreads();
    for (int size = 2; size <= C; size *= 2)
        for (int d = size / 2; d > 0; d /= 2) {
            for (int i = threadIdx.x; i < C; i += T) {
                const int j = i ^ d;
                if (j > i) {
                    const float x = s[i], y = s[j];
                    if ((x > y) == ((i & size) == 0)) { s[i] = y; s[j] = x; }
                }
            }
            __syncthreads();
        }
    for (int i = threadIdx.x; i < C; i += T) out[blockIdx.x * C + i] = s[i];""", n=1 << 18),
    "column_sum": Family(
        {"T": (32, 64, 128, 256), "SPLIT": (1, 4, 16, 64), "U": (1, 4, 16)},
        "grid (ceil_div(W, T), SPLIT) block (T) shared 0",
        """
    const int c = blockIdx.x * T + threadIdx.x, h = n / w, part = h / SPLIT;
    float r = 0;
#pragma unroll U
    for (int y = 0; y < part; ++y) r += a[(blockIdx.y * part + y) * w + c];
    if (SPLIT == 1) out[c] = r;
    else atomicAdd(out + c, r);""", zero=True),
    "upsample": Family(
        {"X": (8, 16, 32, 64), "Y": (4, 8, 16), "EACH": (1, 2, 4)},
        "grid (ceil_div(W, X), ceil_div(N // W, Y * EACH)) block (X, Y) shared 0",
        """
    const int h = n / w, x = blockIdx.x * X + threadIdx.x;
    for (int e = 0; e < EACH; ++e) {
        const int y = (blockIdx.y * EACH + e) * Y + threadIdx.y;
        const float fx = x * 0.5f, fy = y * 0.5f;
        const int x0 = (int)fx, y0 = (int)fy, x1 = min(x0 + 1, w - 1), y1 = min(y0 + 1, h - 1);
        const float u = fx - x0, v = fy - y0;
        out[y * w + x] = (1 - v) * ((1 - u) * a[y0 * w + x0] + u * a[y0 * w + x1]) + v * ((1 - u) * a[y1 * w + x0] + u * a[y1 * w + x1]);
    }"""),
    "depthwise": Family(
        {"K": (3, 7), "X": (16, 32), "Y": (4, 8, 16), "SHARED": (0, 1), "PAD": (0, 1)},
        "grid (W // X, ceil_div(N // W, Y)) block (X, Y) shared 0",
        """
    const int h = n / w, x = blockIdx.x * X + threadIdx.x, y = blockIdx.y * Y + threadIdx.y;
    float r = 0;
#if SHARED
    __shared__ float s[Y + K][X + K + PAD];
    for (int j = threadIdx.y; j < Y + K - 1; j += Y)
        for (int i = threadIdx.x; i < X + K - 1; i += X)
            s[j][i] = a[min((int)blockIdx.y * Y + j, h - 1) * w + min((int)blockIdx.x * X + i, w - 1)];
    __syncthreads();
#pragma unroll
    for (int j = 0; j < K; ++j)
#pragma unroll
        for (int i = 0; i < K; ++i) r += s[threadIdx.y + j][threadIdx.x + i] * b[j * K + i];
#else
    for (int j = 0; j < K; ++j)
        for (int i = 0; i < K; ++i) r += a[min(y + j, h - 1) * w + min(x + i, w - 1)] * b[j * K + i];
#endif
    out[y * w + x] = r;""", require="PAD == 0 or SHARED == 1"),
    "inverse4": Family(
        {"T": (32, 64, 128, 256), "WAY": (0, 1), "V": (1, 4)}, "grid (ceil_div(N // 16, T)) block (T) shared 0",
        """
    const int i = blockIdx.x * T + threadIdx.x;
    float m[16];
#if V == 4
    for (int k = 0; k < 4; ++k) *(float4*)(m + 4 * k) = ((const float4*)a)[i * 4 + k];
#else
    for (int k = 0; k < 16; ++k) m[k] = WAY ? a[k * (n / 16) + i] : a[i * 16 + k];
#endif
#pragma unroll
    for (int p = 0; p < 4; ++p) {
        const float q = 1.0f / (m[5 * p] + 3.0f);
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            if (r == p) continue;
            const float f = m[4 * r + p] * q;
#pragma unroll
            for (int c = 0; c < 4; ++c) m[4 * r + c] -= f * m[4 * p + c];
        }
    }
    for (int k = 0; k < 16; ++k) out[WAY ? k * (n / 16) + i : i * 16 + k] = m[k];"""),
}  # fmt: skip
