// The row stays in registers: it is read once, 16 bytes a thread, and as many warps share a row as its width asks for.
// Roadmap step 3: shared memory only for the reduction; narrow rows have a warp each and no barrier, wide ones a block.
// Hypothesis: a thread has all its loads in flight before it needs the first, and a block holds little that limits how
// many of them are resident, so DRAM is kept busy through the reductions. Expect the time of a copy of the matrix where
// it is far larger than L2. What exceeds the registers of its warps is read again; rows whose width is no multiple of
// eight are not aligned and are read element by element, as in the block rung.
// evo: task   softmax
// evo: knob   CHUNKS in 1, 2, 4, 8                 16-byte chunks of a row that a thread keeps
// evo: knob   WARPS in 4, 8, 16                    of a row at most; narrow rows have fewer, and share a block
// evo: flags  --use_fast_math                      exp2f is then one instruction
// evo: launch softmax grid (ceil_div(ROWS, max(1, 4 // ceil_div(COLS, 256 * CHUNKS)))) block (32 * min(WARPS, ceil_div(COLS, 256 * CHUNKS)), max(1, 4 // ceil_div(COLS, 256 * CHUNKS))) shared 0
#include <cuda_fp16.h>

#define CHUNKS 4
#define WARPS 16

constexpr float LOG2_E = 1.4426950408889634f;

// A running maximum and the sum of e^(x - maximum).
struct Running {
    float largest, sum;
};

// What has seen nothing yet has maximum -inf; the difference of two of them would be NaN.
__device__ inline float shift_of(float largest) { return largest == -INFINITY ? 0.0f : largest; }

// The difference of two fp16 values is exact in fp32; a product with log2 e before it would not be.
__device__ inline float power(float x, float shift) { return exp2f((x - shift) * LOG2_E); }

__device__ inline Running merge(Running a, Running b) {
    const float largest = fmaxf(a.largest, b.largest);
    const float shift = shift_of(largest);
    return {largest, a.sum * power(a.largest, shift) + b.sum * power(b.largest, shift)};
}

__device__ inline void unpack(const uint4& packed, float (&values)[8]) {
    const unsigned words[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&words[i]));
        values[2 * i] = pair.x;
        values[2 * i + 1] = pair.y;
    }
}

__device__ inline uint4 pack(const float (&values)[8]) {
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const __half2 pair = __floats2half2_rn(values[2 * i], values[2 * i + 1]);
        words[i] = *reinterpret_cast<const unsigned*>(&pair);
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

// The maximum and sum of all threads of a row, in each of them. `parts` holds one value per warp of the row.
__device__ inline Running reduce(Running mine, Running* parts) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        const float largest = __shfl_xor_sync(0xffffffffu, mine.largest, step);
        const float sum = __shfl_xor_sync(0xffffffffu, mine.sum, step);
        mine = merge(mine, {largest, sum});
    }
    if (blockDim.x == 32) return mine;
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = mine;
    __syncthreads();
    Running total = parts[0];
    for (int p = 1; p < blockDim.x / 32; ++p) total = merge(total, parts[p]);
    return total;
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
    softmax(const __half* __restrict__ x, __half* __restrict__ y, int rows, int cols) {
    __shared__ Running parts[WARPS];
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;  // whole warps
    const __half* in = x + (long long)row * cols;
    __half* out = y + (long long)row * cols;
    const uint4* in_chunks = reinterpret_cast<const uint4*>(in);
    uint4* out_chunks = reinterpret_cast<uint4*>(out);
    const int chunks = cols % 8 == 0 ? cols / 8 : 0;
    const int first = threadIdx.x, stride = blockDim.x;

    Running mine = {-INFINITY, 0.0f};
    float kept[CHUNKS][8];  // the row, then its exponentials
    float kept_largest = -INFINITY;
    if (chunks) {
        const uint4 nothing = make_uint4(0xfc00fc00u, 0xfc00fc00u, 0xfc00fc00u, 0xfc00fc00u);  // -inf
        uint4 packed[CHUNKS];
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i)
            packed[i] = first + i * stride < chunks ? in_chunks[first + i * stride] : nothing;
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i) {
            unpack(packed[i], kept[i]);
#pragma unroll
            for (int j = 0; j < 8; ++j) mine.largest = fmaxf(mine.largest, kept[i][j]);
        }
        kept_largest = mine.largest;
        const float shift = shift_of(kept_largest);
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i) {
#pragma unroll
            for (int j = 0; j < 8; ++j) mine.sum += kept[i][j] = power(kept[i][j], shift);
        }
        for (int c = first + CHUNKS * stride; c < chunks; c += stride) {
            float values[8];
            unpack(in_chunks[c], values);
            const float before = mine.largest;
#pragma unroll
            for (int j = 0; j < 8; ++j) mine.largest = fmaxf(mine.largest, values[j]);
            const float moved = shift_of(mine.largest);
            mine.sum *= power(before, moved);
#pragma unroll
            for (int j = 0; j < 8; ++j) mine.sum += power(values[j], moved);
        }
    } else {
        for (int i = first; i < cols; i += stride) mine.largest = fmaxf(mine.largest, __half2float(in[i]));
        const float shift = shift_of(mine.largest);
        for (int i = first; i < cols; i += stride) mine.sum += power(__half2float(in[i]), shift);
    }

    const Running total = reduce(mine, parts + threadIdx.y * (stride / 32));
    const float inverse = 1.0f / total.sum;
    if (chunks) {
        const float factor = power(kept_largest, total.largest) * inverse;  // from the thread's maximum to the row's
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i) {
#pragma unroll
            for (int j = 0; j < 8; ++j) kept[i][j] *= factor;
            if (first + i * stride < chunks) out_chunks[first + i * stride] = pack(kept[i]);
        }
        for (int c = first + CHUNKS * stride; c < chunks; c += stride) {
            float values[8];
            unpack(in_chunks[c], values);
#pragma unroll
            for (int j = 0; j < 8; ++j) values[j] = power(values[j], total.largest) * inverse;
            out_chunks[c] = pack(values);
        }
    } else {
        for (int i = first; i < cols; i += stride)
            out[i] = __float2half(power(__half2float(in[i]), total.largest) * inverse);
    }
}
