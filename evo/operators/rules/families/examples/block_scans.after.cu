// evo: task block_scans
// evo: launch running grid (R) block (64) shared 0
extern "C" __global__ void running(const float* x, float* y, int R) {
    __shared__ float s[256];
    const int t = threadIdx.x * 4, i = blockIdx.x * 256 + t;
    float s_own[4];
#pragma unroll
    for (int item = 0; item < 4; ++item) {
        s_own[item] = x[i + item];
    }
    // Sums of a thread's own, of a warp by shuffles, and of the warps before it.
#pragma unroll
    for (int item = 1; item < 4; ++item) s_own[item] += s_own[item - 1];
    float upto = s_own[3];
    for (int step = 1; step < 32; step *= 2) {
        const float earlier = __shfl_up_sync(0xffffffffu, upto, step);
        if (threadIdx.x % 32 >= step) upto += earlier;
    }
    if (threadIdx.x % 32 == 31) s[threadIdx.x / 32] = upto;
    float before = __shfl_up_sync(0xffffffffu, upto, 1);
    if (threadIdx.x % 32 == 0) before = 0;
    __syncthreads();
    for (int warp = 0; warp < (int)threadIdx.x / 32; ++warp) before += s[warp];
#pragma unroll
    for (int item = 0; item < 4; ++item) {
        y[i + item] = before + s_own[item];
    }
}
