// evo: task warp_sums
// evo: launch unit_rows grid (R) block (256) shared 0
extern "C" __global__ void unit_rows(const float* x, float* y, int R, int C) {
    __shared__ float total;
    int row = blockIdx.x;
    if (threadIdx.x == 0) total = 0.0f;
    __syncthreads();
    float own_total = 0;  // this thread's part of total
    for (int c = threadIdx.x; c < C; c += blockDim.x) {
        float v = x[row * C + c];
        own_total += v * v;
    }
    for (int step = 16; step > 0; step /= 2) own_total += __shfl_xor_sync(0xffffffffu, own_total, step);
    if (threadIdx.x % 32 == 0) atomicAdd(&total, own_total);
    __syncthreads();
    float scale = rsqrtf(total + 1e-6f);
    for (int c = threadIdx.x; c < C; c += blockDim.x) y[row * C + c] = x[row * C + c] * scale;
}
