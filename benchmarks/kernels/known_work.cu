// A chain of dependent multiply-adds: TRIPS times the same work, so time is a fixed part plus a part in proportion.
// One warp on each scheduler of a few SMs: nothing but the latency of the chain, hence no memory, no tail, no power limit.
extern "C" __global__ void known_work(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = x[i];
#pragma unroll 1
    for (int t = 0; t < TRIPS; ++t) {
#pragma unroll
        for (int j = 0; j < 16; ++j) a = fmaf(a, 0.999f, 0.001f);
    }
    y[i] = a;
}
