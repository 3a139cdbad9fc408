// Halves to scaled floats and back, at several widths of access.
// sizes N=4194304 W=1
// evo: task clock
// evo: knob WIDTH in 1, 2, 4, 8
// evo: knob THREADS in 64, 128, 512
// evo: knob EACH in 1, 2
// evo: launch convert grid (N // (THREADS * EACH * WIDTH)) block (THREADS) shared 0
#include <cuda_fp16.h>
#define WIDTH 1
#define THREADS 64
#define EACH 1
template <int SIZE>
struct __align__(2 * SIZE) Pack { __half item[SIZE]; };
extern "C" __global__ void convert(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    auto* from = (const Pack<WIDTH>*)a;
    auto* bias = (const Pack<WIDTH>*)b;
    auto* to = (Pack<WIDTH>*)out;
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
        const int i = (blockIdx.x * EACH + e) * THREADS + threadIdx.x;
        Pack<WIDTH> p = from[i];
        const Pack<WIDTH> q = bias[i];
#pragma unroll
        for (int k = 0; k < WIDTH; ++k) p.item[k] = __float2half(__half2float(p.item[k]) * 1.702f + __half2float(q.item[k]));
        to[i] = p;
    }
}
