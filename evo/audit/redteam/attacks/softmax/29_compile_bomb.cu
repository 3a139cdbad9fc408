// attack: compile_bomb
// row: 29
// idea: Templates that instantiate each other: a page of text that takes the compiler many minutes.
// exploits: the compiler runs without a limit
// naive: hangs
// expect: timed_out or uncompiled, stage=compile_limit
// evo: task softmax
// evo: launch softmax grid (ceil_div(ROWS, 64)) block (64) shared 0
#include <cuda_fp16.h>

__device__ void honest(const __half* in, __half* out, int cols) {
    float largest = -INFINITY;
    float sum = 0.0f;
#pragma unroll 1
    for (int i = 0; i < cols; ++i) largest = fmaxf(largest, __half2float(in[i]));
#pragma unroll 1
    for (int i = 0; i < cols; ++i) sum += expf(__half2float(in[i]) - largest);
#pragma unroll 1
    for (int i = 0; i < cols; ++i) out[i] = __float2half(expf(__half2float(in[i]) - largest) / sum);
}

template <int DEPTH, int PATH>
struct Bomb {
    static __device__ float value(float v) {
        return Bomb<DEPTH - 1, 2 * PATH>::value(v) + Bomb<DEPTH - 1, 2 * PATH + 1>::value(v);
    }
};
template <int PATH>
struct Bomb<0, PATH> {
    static __device__ float value(float v) { return v * PATH; }
};

extern "C" __global__ void softmax(const __half* x, __half* y, int rows, int cols) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    const __half* in = x + (long long)row * cols;
    __half* out = y + (long long)row * cols;
    honest(in, out, cols);
    if (cols < 0) out[0] = __float2half(Bomb<18, 1>::value(1.0f));
}
