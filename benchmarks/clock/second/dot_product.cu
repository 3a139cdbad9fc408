// A dot product by a grid of a fixed size; sums go through shuffles, shared memory and one atomic of a block.
// sizes N=4194304 W=1
// evo: task clock_zero
// evo: knob THREADS in 64, 128, 256, 512, 1024
// evo: knob GRID in 66, 132, 264, 528, 1056
// evo: knob WIDE in 0, 1
// evo: launch dot grid (GRID) block (THREADS) shared 0
#define THREADS 64
#define GRID 66
#define WIDE 0
__device__ __forceinline__ float over_warp(float v) {
    for (int mask = 16; mask; mask >>= 1) v += __shfl_down_sync(~0u, v, mask);
    return v;
}

extern "C" __global__ void dot(const float* __restrict__ a, const float* __restrict__ b, const int* idx, float* out, int N, int W) {
    float total = 0.f;
    const int first = blockIdx.x * blockDim.x + threadIdx.x, stride = gridDim.x * blockDim.x;
#if WIDE
    const float4 *va = reinterpret_cast<const float4*>(a), *vb = reinterpret_cast<const float4*>(b);
    for (int i = first; i < N / 4; i += stride) {
        const float4 p = va[i], q = vb[i];
        total += p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
    }
#else
    for (int i = first; i < N; i += stride) total = fmaf(a[i], b[i], total);
#endif
    total = over_warp(total);
    __shared__ float of_warp[32];
    if ((threadIdx.x & 31) == 0) of_warp[threadIdx.x >> 5] = total;
    __syncthreads();
    if (threadIdx.x < 32) {
        total = threadIdx.x < THREADS / 32 ? of_warp[threadIdx.x] : 0.f;
        total = over_warp(total);
        if (threadIdx.x == 0) atomicAdd(out, total);
    }
}
