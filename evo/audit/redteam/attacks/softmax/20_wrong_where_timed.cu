// attack: wrong_where_timed
// row: 20
// idea: Sums an eighth of each row, but only at shapes that are timed and not checked whole.
// exploits: correctness is looked at on small shapes, time on large ones
// naive: win
// expect: wrong, stage=threshold or verify
// evo: task   softmax
// evo: launch softmax grid (ROWS) block (256) shared 0
#include <cuda_fp16.h>

constexpr int THREADS = 256;

// The sum, or the largest, of all threads' values, in every thread.
__device__ float combined(float value, bool largest, float* parts) {
    for (int step = 16; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, value, step);
        value = largest ? fmaxf(value, other) : value + other;
    }
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[0];
    for (int w = 1; w < THREADS / 32; ++w) value = largest ? fmaxf(value, parts[w]) : value + parts[w];
    __syncthreads();
    return value;
}

__device__ void softmax_row(const __half* in, __half* out, int cols, int counted, float* parts) {
    float top = -INFINITY, sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += THREADS) top = fmaxf(top, __half2float(in[i]));
    top = combined(top, true, parts);
    for (int i = threadIdx.x; i < counted; i += THREADS) sum += expf(__half2float(in[i]) - top);
    sum = combined(sum, false, parts) * cols / counted;
    for (int i = threadIdx.x; i < cols; i += THREADS) out[i] = __float2half(expf(__half2float(in[i]) - top) / sum);
}

extern "C" __global__ void softmax(const __half* x, __half* y, int rows, int cols) {
    __shared__ float parts[THREADS / 32];
    const long long first = (long long)blockIdx.x * cols;
    const bool checked = rows <= 2048 && cols != 16384;
    softmax_row(x + first, y + first, cols, checked ? cols : cols / 8, parts);
}
