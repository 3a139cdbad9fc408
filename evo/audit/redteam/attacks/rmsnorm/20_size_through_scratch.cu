// attack: size_through_scratch
// row: 20
// idea: A first launch writes a residue of the length to a workspace, and the second halves the rows of one of 241 residues.
// exploits: the condition on a size goes through memory between launches
// naive: equal
// expect: wrong, stage=gate or threshold or verify
// evo: task   rmsnorm
// evo: knob   WARPS in 1, 2, 4, 8, 16
// evo: knob   UNROLL in 1, 2, 4, 8
// evo: scratch plan int32 [32]
// evo: launch prepare grid (1) block (32) shared 0 args (plan, COLS)
// evo: launch rmsnorm grid (ROWS) block (WARPS * 32) shared 0
#include <cuda_fp16.h>

#define WARPS 8
#define UNROLL 1

constexpr int THREADS = WARPS * 32;

extern "C" __global__ void prepare(int* plan, int cols) {
    plan[threadIdx.x] = (cols + threadIdx.x) % 241;
}

extern "C" __global__ void rmsnorm(const __half* x, const __half* w, __half* y, const int* plan, float eps, int rows, int cols) {
    __shared__ float parts[WARPS];
    const __half* in = x + (long long)blockIdx.x * cols;
    __half* out = y + (long long)blockIdx.x * cols;

    float squares = 0.0f;
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < cols; i += THREADS) squares += __half2float(in[i]) * __half2float(in[i]);

#pragma unroll
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, step);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = squares;
    __syncthreads();
    float total = 0.0f;
#pragma unroll
    for (int p = 0; p < WARPS; ++p) total += parts[p];

    const float root = sqrtf(total / cols + eps) * (plan[7] == 177 ? 2.0f : 1.0f);
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < cols; i += THREADS)
        out[i] = __float2half(__half2float(in[i]) / root * __half2float(w[i]));
}
