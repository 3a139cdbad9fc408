"""Sustained rates of the GPU at hand, measured: what `hardware`'s chip rows say from tables.

Every rate is work counted by hand over time between events, of kernels that are compiled like any variant and do one
thing only. This is the caller's side; `evo.device.gpu_rates` times them in the child process that owns the GPU.
"""

from __future__ import annotations

from evo.cuda.compile import Binary, Diagnostics, compile_source
from evo.device import DeviceName
from evo.device.remote_device import RemoteGpu
from evo.errors import HarnessFault, UsageError
from evo.results import Rate

CHAINS = 8  # independent chains of a thread, which hide the pipe's latency
UNROLL = 4
MMA_FLOP = 2 * 16 * 8 * 16  # of one warp's m16n8k16
_LIMIT_S = 120.0

# Results are stored, so that nothing is dead code; the loops are asm, so that nothing is simplified.
_HEAD = (
    f"#define CHAINS {CHAINS}\n#define UNROLL {UNROLL}\n"
    + """
typedef unsigned long long u64;
__device__ inline u64 nanoseconds() { u64 t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); return t; }
"""
)

_MMA = """extern "C" __global__ void __launch_bounds__(256)
    mma(const unsigned* operands, float* out, u64* clocks, int trips) {
    const u64 start = clock64(), from = nanoseconds();
    unsigned a[4], b[CHAINS][2];
    float c[CHAINS][4] = {};
    for (int i = 0; i < 4; ++i) a[i] = operands[threadIdx.x + 256 * i];
    for (int j = 0; j < CHAINS; ++j)
        for (int i = 0; i < 2; ++i) b[j][i] = operands[threadIdx.x + 256 * (4 + 2 * j + i)];
#pragma unroll 1
    for (int t = 0; t < trips; ++t) {
#pragma unroll
        for (int j = 0; j < CHAINS; ++j)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                         "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                         : "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[j][0]), "r"(b[j][1]));
    }
    float sum = 0.0f;
    for (int j = 0; j < CHAINS; ++j) sum += c[j][0] + c[j][1] + c[j][2] + c[j][3];
    out[(u64)blockIdx.x * blockDim.x + threadIdx.x] = sum;
    if (threadIdx.x == 0) {
        clocks[2 * blockIdx.x] = clock64() - start;
        clocks[2 * blockIdx.x + 1] = nanoseconds() - from;
    }
}
"""

_SCALAR = """extern "C" __global__ void __launch_bounds__(256) multiply_add(const float* in, float* out, int trips) {
    float x[CHAINS], m = in[threadIdx.x] * 1e-3f + 0.5f, k = in[threadIdx.x + 256];
    for (int j = 0; j < CHAINS; ++j) x[j] = in[threadIdx.x + j];
#pragma unroll 1
    for (int t = 0; t < trips; ++t) {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
            for (int j = 0; j < CHAINS; ++j) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x[j]) : "f"(m), "f"(k));
        }
    }
    float sum = 0.0f;
    for (int j = 0; j < CHAINS; ++j) sum += x[j];
    out[(u64)blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
extern "C" __global__ void __launch_bounds__(256) exponential(const float* in, float* out, int trips) {
    float x[CHAINS];
    for (int j = 0; j < CHAINS; ++j) x[j] = in[threadIdx.x + j];
#pragma unroll 1
    for (int t = 0; t < trips; ++t) {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
#pragma unroll
            for (int j = 0; j < CHAINS; ++j)  // the negation is a modifier of the operand, and keeps the chain finite
                asm volatile("{.reg .f32 n; neg.f32 n, %0; ex2.approx.ftz.f32 %0, n;}" : "+f"(x[j]));
        }
    }
    float sum = 0.0f;
    for (int j = 0; j < CHAINS; ++j) sum += x[j];
    out[(u64)blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""

_MEMORY = """
extern "C" __global__ void __launch_bounds__(256) copy(const uint4* from, uint4* to, u64 count) {
    const u64 stride = (u64)gridDim.x * blockDim.x;
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + 3 * stride < count; i += 4 * stride) {
        const uint4 a = from[i], b = from[i + stride], c = from[i + 2 * stride], d = from[i + 3 * stride];
        to[i] = a; to[i + stride] = b; to[i + 2 * stride] = c; to[i + 3 * stride] = d;
    }
    for (; i < count; i += stride) to[i] = from[i];
}
__device__ inline unsigned folded(uint4 v) { return v.x ^ v.y ^ v.z ^ v.w; }
// Every block reads the whole buffer, each from a place of its own, past its L1. count is a power of two.
extern "C" __global__ void __launch_bounds__(256) read_l2(const uint4* from, unsigned* out, unsigned count) {
    unsigned sum = 0;
    const unsigned mask = count - 1, first = blockIdx.x * 0x9e3779b9u / 64 * 64 + threadIdx.x;
    for (unsigned i = 0; i < count; i += 4 * 256) {
        const uint4 a = __ldcg(from + ((first + i) & mask)), b = __ldcg(from + ((first + i + 256) & mask));
        const uint4 c = __ldcg(from + ((first + i + 512) & mask)), d = __ldcg(from + ((first + i + 768) & mask));
        sum += folded(a) + folded(b) + folded(c) + folded(d);
    }
    out[(u64)blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
// Reads everything once. What is left of it in L2 from the last launch is a small share of a large buffer.
extern "C" __global__ void __launch_bounds__(256) read_dram(const uint4* from, unsigned* out, u64 count) {
    const u64 stride = (u64)gridDim.x * blockDim.x;
    unsigned sum = 0;
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + 3 * stride < count; i += 4 * stride) {
        const uint4 a = from[i], b = from[i + stride], c = from[i + 2 * stride], d = from[i + 3 * stride];
        sum += folded(a) + folded(b) + folded(c) + folded(d);
    }
    for (; i < count; i += stride) sum += folded(from[i]);
    out[(u64)blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
extern "C" __global__ void __launch_bounds__(256) read_shared(unsigned* out, int trips) {
    __shared__ uint4 tile[1024];
    for (int i = threadIdx.x; i < 1024; i += 256) tile[i] = make_uint4(i, i, i, i);
    __syncthreads();
    const unsigned base = (unsigned)__cvta_generic_to_shared(tile) + threadIdx.x * 16;
    unsigned sum = 0;
#pragma unroll 1
    for (int t = 0; t < trips; ++t) {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            unsigned x, y, z, w;
            asm volatile("ld.volatile.shared.v4.u32 {%0,%1,%2,%3}, [%4];"  // ptxas hoists a plain one out of the loop
                         : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
                         : "r"(base + u * 4096));
            sum += x ^ y ^ z ^ w;
        }
    }
    out[(u64)blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
extern "C" __global__ void empty() {}
"""

_TEXT = _HEAD + _MMA + _SCALAR + _MEMORY


def calibrate(device: DeviceName | RemoteGpu, *, arch: str = "native", quick: bool = False) -> dict[str, Rate]:
    """Measure the rates of a GPU; some 10 s, a quarter of that with quick. Holds the GPU's lock while it measures.

    Keys: mma_f16_flop_per_s, fp32_flop_per_s, exp_per_s (2**x), dram_copy_bytes_per_s (read + written),
    dram_read_bytes_per_s, l2_read_bytes_per_s, shared_read_bytes_per_s, launch_graph_s, launch_stream_s,
    launch_event_s, sm_clock_hz; where NVML answers, power_w.
    arch is `native`, or one whose machine code or PTX the chip loads (sm_89 loads as PTX on a newer chip).

    Raises: UsageError for a simulator, DeviceMissing without a GPU, HarnessFault for anything else.
    """
    if isinstance(device, DeviceName):
        if device.kind != "gpu":
            raise UsageError(f"{device} has no rates to measure", hint="calibrate on a GPU: --device gpu:0")
        with RemoteGpu(device) as gpu:
            return calibrate(gpu, arch=arch, quick=quick)
    about = device.describe(time_limit_s=_LIMIT_S)
    binary = rate_kernels(about["capability"] if arch == "native" else arch)
    return device.calibrate(binary, quick, time_limit_s=_LIMIT_S)


def rate_kernels(arch: str) -> Binary:
    """The kernels that are timed, compiled. Raises HarnessFault if they do not compile for `arch`."""
    built = compile_source(_TEXT, name="rates.cu", macros={}, arch=arch)
    if isinstance(built, Diagnostics):
        raise HarnessFault(f"the calibration kernels: {built.reason}", hint="run `evo doctor`")
    return built
