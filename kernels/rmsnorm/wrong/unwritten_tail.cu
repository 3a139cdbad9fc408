// expect: wrong, mismatch=unwritten
// Where rows are not a multiple of eight, the elements of the last, partial chunk are never written.
// evo: task   rmsnorm
// evo: knob   WARPS in 1, 2, 4, 8, 16
// evo: knob   BLOCKS in 1, 2, 4                    resident blocks that the registers are budgeted for
// evo: require WARPS * 32 * BLOCKS <= chip.threads_per_sm
// evo: require shared <= chip.shared_per_block_optin
// evo: launch rmsnorm grid (ROWS) block (WARPS * 32) shared (ceil_div(COLS, 8) * 16)
#include <cuda_fp16.h>

#define WARPS 4
#define BLOCKS 2

constexpr int THREADS = WARPS * 32;

__device__ inline void unpack(const uint4& packed, float (&values)[8]) {
    const unsigned words[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&words[i]));
        values[2 * i] = pair.x;
        values[2 * i + 1] = pair.y;
    }
}

// The chunk of eight elements at `first`, zeros past the end. Rows are 16-byte aligned only if cols % 8 == 0.
__device__ inline uint4 load_chunk(const __half* in, int first, int cols) {
    if (cols % 8 == 0) return *reinterpret_cast<const uint4*>(in + first);
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int at = first + 2 * i;
        const unsigned low = at < cols ? __half_as_ushort(in[at]) : 0u;
        const unsigned high = at + 1 < cols ? __half_as_ushort(in[at + 1]) : 0u;
        words[i] = low | high << 16;
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

__device__ inline void store_chunk(__half* out, int first, int cols, const float (&values)[8]) {
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const __half2 pair = __floats2half2_rn(values[2 * i], values[2 * i + 1]);
        words[i] = *reinterpret_cast<const unsigned*>(&pair);
    }
    if (cols % 8 == 0) {
        *reinterpret_cast<uint4*>(out + first) = make_uint4(words[0], words[1], words[2], words[3]);
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        if (first + 8 <= cols) out[first + i] = __float2half(values[i]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    rmsnorm(const __half* __restrict__ x, const __half* __restrict__ w, __half* __restrict__ y, float eps, int rows,
            int cols) {
    extern __shared__ uint4 row[];
    __shared__ float parts[WARPS];
    const __half* in = x + (long long)blockIdx.x * cols;
    __half* out = y + (long long)blockIdx.x * cols;
    const int chunks = (cols + 7) / 8;

    float squares = 0.0f;
    for (int c = threadIdx.x; c < chunks; c += THREADS) {
        const uint4 packed = load_chunk(in, c * 8, cols);
        row[c] = packed;  // read back by this thread only: no barrier needed
        float values[8];
        unpack(packed, values);
#pragma unroll
        for (int i = 0; i < 8; ++i) squares += values[i] * values[i];
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = squares;
    __syncthreads();
    float total = 0.0f;
#pragma unroll
    for (int p = 0; p < WARPS; ++p) total += parts[p];

    const float inverse = rsqrtf(total / cols + eps);
    for (int c = threadIdx.x; c < chunks; c += THREADS) {
        float values[8];
        float weights[8];
        unpack(row[c], values);
        unpack(load_chunk(w, c * 8, cols), weights);
#pragma unroll
        for (int i = 0; i < 8; ++i) values[i] *= inverse * weights[i];
        store_chunk(out, c * 8, cols, values);
    }
}
