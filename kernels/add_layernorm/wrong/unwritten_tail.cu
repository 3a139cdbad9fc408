// expect: wrong, mismatch=unwritten
// Writes only what the registers hold of a row: the rest of a wide one is never written.
// evo: task   add_layernorm
// evo: knob   CHUNKS in 1, 2, 4                    16-byte chunks of a row that a thread keeps
// evo: knob   WARPS in 4, 8, 16                    of a row at most; narrow rows have fewer, and share a block
// evo: launch add_layernorm grid (ceil_div(ROWS, max(1, 4 // ceil_div(COLS, 256 * CHUNKS)))) block (32 * min(WARPS, ceil_div(COLS, 256 * CHUNKS)), max(1, 4 // ceil_div(COLS, 256 * CHUNKS))) shared 0
#include <cuda_fp16.h>

#define CHUNKS 1
#define WARPS 4

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

// The sum over all threads of a row, in each of them. `parts` holds one value per warp of the row.
__device__ inline float reduce(float value, float* parts) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    if (blockDim.x == 32) return value;
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    float total = parts[0];
    for (int p = 1; p < blockDim.x / 32; ++p) total += parts[p];
    return total;
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
    add_layernorm(const __half* __restrict__ x, const __half* __restrict__ r, const __half* __restrict__ w,
                  const __half* __restrict__ b, __half* __restrict__ s, __half* __restrict__ y, float eps, int rows,
                  int cols) {
    __shared__ float parts[2][WARPS];  // for the two reductions: no barrier between them
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;  // whole warps
    const long long start = (long long)row * cols;
    const uint4* x_chunks = reinterpret_cast<const uint4*>(x + start);
    const uint4* r_chunks = reinterpret_cast<const uint4*>(r + start);
    const uint4* w_chunks = reinterpret_cast<const uint4*>(w);
    const uint4* b_chunks = reinterpret_cast<const uint4*>(b);
    uint4* s_chunks = reinterpret_cast<uint4*>(s + start);
    uint4* y_chunks = reinterpret_cast<uint4*>(y + start);
    const int chunks = cols % 8 == 0 ? cols / 8 : 0;
    const int first = threadIdx.x, stride = blockDim.x;
    const int place = threadIdx.y * (stride / 32);

    const auto add = [](const uint4& left, const uint4& right, float (&values)[8]) {
        float others[8];
        unpack(left, values);
        unpack(right, others);
#pragma unroll
        for (int j = 0; j < 8; ++j) values[j] += others[j];
    };
    const auto add_at = [&](int i) { return __half2float(x[start + i]) + __half2float(r[start + i]); };

    float sum = 0.0f;
    float kept[CHUNKS][8];  // the sums before they are rounded
    if (chunks) {
        uint4 left[CHUNKS], right[CHUNKS];
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i) {
            const int c = first + i * stride;
            left[i] = c < chunks ? x_chunks[c] : make_uint4(0, 0, 0, 0);
            right[i] = c < chunks ? r_chunks[c] : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i) {
            const int c = first + i * stride;
            add(left[i], right[i], kept[i]);
#pragma unroll
            for (int j = 0; j < 8; ++j) sum += kept[i][j];
            if (c < chunks) s_chunks[c] = pack(kept[i]);
        }
        for (int c = first + CHUNKS * stride; c < chunks; c += stride) {
            float values[8];
            add(x_chunks[c], r_chunks[c], values);
#pragma unroll
            for (int j = 0; j < 8; ++j) sum += values[j];
            s_chunks[c] = pack(values);
        }
    } else {
        for (int i = first; i < cols; i += stride) {
            const float value = add_at(i);
            sum += value;
            s[start + i] = __float2half(value);
        }
    }
    const float mean = reduce(sum, parts[0] + place) / cols;

    float squares = 0.0f;
    const auto add_squares = [&](const float (&values)[8]) {
#pragma unroll
        for (int j = 0; j < 8; ++j) squares += (values[j] - mean) * (values[j] - mean);
    };
    if (chunks) {
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i) {
            if (first + i * stride < chunks) add_squares(kept[i]);
        }
        for (int c = first + CHUNKS * stride; c < chunks; c += stride) {
            float values[8];
            add(x_chunks[c], r_chunks[c], values);
            add_squares(values);
        }
    } else {
        for (int i = first; i < cols; i += stride) {
            const float centred = add_at(i) - mean;
            squares += centred * centred;
        }
    }
    const float inverse = rsqrtf(reduce(squares, parts[1] + place) / cols + eps);

    const auto normalised = [&](float (&values)[8], int c) {
        float weights[8];
        float biases[8];
        unpack(w_chunks[c], weights);
        unpack(b_chunks[c], biases);
#pragma unroll
        for (int j = 0; j < 8; ++j) values[j] = (values[j] - mean) * inverse * weights[j] + biases[j];
        return pack(values);
    };
    if (chunks) {
#pragma unroll
        for (int i = 0; i < CHUNKS; ++i) {
            const int c = first + i * stride;
            if (c < chunks) y_chunks[c] = normalised(kept[i], c);
        }
    } else {
        for (int i = first; i < cols; i += stride)
            y[start + i] = __float2half((add_at(i) - mean) * inverse * __half2float(w[i]) + __half2float(b[i]));
    }
}
