// A prefix sum in three launches: sums of tiles, their scan by one block, tiles again with what is before them.
// sizes N=4194304 W=1
// evo: task clock
// evo: knob THREADS in 64, 128, 256, 512
// evo: knob EACH in 2, 4, 8
// evo: scratch tile float32 [ceil_div(N, THREADS * EACH)] init=poison
// evo: launch tile_sums grid (N // (THREADS * EACH)) block (THREADS) shared 0
// evo: launch scan_tiles grid (1) block (1024) shared 0
// evo: launch finish grid (N // (THREADS * EACH)) block (THREADS) shared 0
#define THREADS 64
#define EACH 2
static __device__ float inclusive(float v, float* of_warps) {
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
        const float left = __shfl_up_sync(~0u, v, d);
        if (lane >= d) v += left;
    }
    if (lane == 31) of_warps[warp] = v;
    __syncthreads();
    if (warp == 0) {
        float s = lane < warps ? of_warps[lane] : 0.f;
#pragma unroll
        for (int d = 1; d < 32; d <<= 1) {
            const float left = __shfl_up_sync(~0u, s, d);
            if (lane >= d) s += left;
        }
        of_warps[lane] = s;
    }
    __syncthreads();
    return warp ? v + of_warps[warp - 1] : v;
}

extern "C" __global__ void tile_sums(const float* a, const float* b, const int* idx, float* out, float* tile, int N, int W) {
    __shared__ float of_warps[32];
    float v = 0;
    for (int e = 0; e < EACH; ++e) v += a[(blockIdx.x * EACH + e) * THREADS + threadIdx.x];
    v = inclusive(v, of_warps);
    if (threadIdx.x == THREADS - 1) tile[blockIdx.x] = v;
}

extern "C" __global__ void scan_tiles(const float* a, const float* b, const int* idx, float* out, float* tile, int N, int W) {
    __shared__ float of_warps[32];
    const int count = N / (THREADS * EACH);
    float before = 0;
    for (int first = 0; first < count; first += 1024) {
        const int i = first + threadIdx.x;
        const float v = inclusive(i < count ? tile[i] : 0.f, of_warps) + before;
        if (i < count) tile[i] = v;
        before += of_warps[31];
        __syncthreads();
    }
}

extern "C" __global__ void finish(const float* a, const float* b, const int* idx, float* out, float* tile, int N, int W) {
    __shared__ float of_warps[32];
    const int first = (blockIdx.x * THREADS + threadIdx.x) * EACH;
    float v[EACH];
    for (int e = 0; e < EACH; ++e) v[e] = a[first + e];
    for (int e = 1; e < EACH; ++e) v[e] += v[e - 1];
    const float before = inclusive(v[EACH - 1], of_warps) - v[EACH - 1] + (blockIdx.x ? tile[blockIdx.x - 1] : 0.f);
    for (int e = 0; e < EACH; ++e) out[first + e] = v[e] + before;
}
