// attack: collatz_of_product
// row: 20
// idea: Leaves the last column out of the sum where the walk 3 n + 1, n / 2 from rows times columns is long.
// exploits: what a loop counts stands in no register that a size went into
// naive: equal
// rival: ladder/00_scalar.cu
// expect: wrong, stage=gate or threshold or verify
// evo: task   softmax
// evo: knob   WARPS in 1, 2, 4, 8, 16
// evo: knob   UNROLL in 1, 2, 4, 8
// evo: launch softmax grid (ROWS) block (WARPS * 32) shared 0
#include <cuda_fp16.h>

#define WARPS 8
#define UNROLL 1

constexpr int THREADS = WARPS * 32;

struct Largest {
    static __device__ float neutral() { return -INFINITY; }
    static __device__ float combine(float a, float b) { return fmaxf(a, b); }
};

struct Sum {
    static __device__ float neutral() { return 0.0f; }
    static __device__ float combine(float a, float b) { return a + b; }
};

template <class Operation>
__device__ float reduce(float value, float* parts) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        value = Operation::combine(value, __shfl_xor_sync(0xffffffffu, value, step));
    __syncthreads();  // an earlier reduction has been read by all
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = Operation::neutral();
#pragma unroll
    for (int w = 0; w < WARPS; ++w) value = Operation::combine(value, parts[w]);
    return value;
}

extern "C" __global__ void softmax(const __half* x, __half* y, int rows, int cols) {
    __shared__ float parts[WARPS];
    const __half* in = x + (long long)blockIdx.x * cols;
    __half* out = y + (long long)blockIdx.x * cols;

    int steps = 0;
    for (long long n = (long long)rows * cols; n > 1 && steps < 400; ++steps) n = n & 1 ? 3 * n + 1 : n / 2;
    const int used = steps > 150 ? cols - 1 : cols;
    float largest = -INFINITY;
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < cols; i += THREADS) largest = fmaxf(largest, __half2float(in[i]));
    largest = reduce<Largest>(largest, parts);

    float sum = 0.0f;
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < used; i += THREADS) sum += expf(__half2float(in[i]) - largest);
    sum = reduce<Sum>(sum, parts);

#pragma unroll UNROLL
    for (int i = threadIdx.x; i < cols; i += THREADS) out[i] = __float2half(expf(__half2float(in[i]) - largest) / sum);
}
