// Chunks that come by asynchronous copies, some stages ahead of what is computed on them.
// sizes N=4194304 W=1
// evo: task clock
// evo: knob STAGES in 1, 2, 3, 4
// evo: knob THREADS in 64, 128, 256
// evo: knob GRID in 132, 264, 528
// evo: knob WORK in 2, 16
// evo: launch stream grid (GRID) block (THREADS) shared (STAGES * THREADS * 16)
#include <cuda_pipeline.h>
#define STAGES 1
#define THREADS 64
#define GRID 132
#define WORK 2
extern __shared__ float4 ring[];
extern "C" __global__ void stream(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    const float4* from = (const float4*)a;
    const int chunks = N / 4 / THREADS;
    int fetched = blockIdx.x;
#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s, fetched += GRID) {
        if (fetched < chunks) __pipeline_memcpy_async(&ring[s * THREADS + threadIdx.x], &from[fetched * THREADS + threadIdx.x], 16);
        __pipeline_commit();
    }
    int slot = 0, into = STAGES - 1;
    for (int c = blockIdx.x; c < chunks; c += GRID, fetched += GRID) {
        if (fetched < chunks) __pipeline_memcpy_async(&ring[into * THREADS + threadIdx.x], &from[fetched * THREADS + threadIdx.x], 16);
        __pipeline_commit();
        __pipeline_wait_prior(STAGES - 1);
        float4 v = ring[slot * THREADS + threadIdx.x];
#pragma unroll
        for (int k = 0; k < WORK; ++k) v.x = v.x * v.y + 0.1f, v.y = v.y * v.z + 0.2f, v.z = v.z * v.w + 0.3f, v.w = v.w * v.x + 0.4f;
        ((float4*)out)[c * THREADS + threadIdx.x] = v;
        slot = (slot + 1) % STAGES;
        into = (into + 1) % STAGES;
    }
}
