// evo: task warp_sums
// evo: launch unit_rows grid (R) block (256) shared 0
extern "C" __global__ void unit_rows(const float* x, float* y, int R, int C) {
    __shared__ float total;
    int row = blockIdx.x;
    if (threadIdx.x == 0) total = 0.0f;
    __syncthreads();
    for (int c = threadIdx.x; c < C; c += blockDim.x) {
        float v = x[row * C + c];
        atomicAdd(&total, v * v);
    }
    __syncthreads();
    float scale = rsqrtf(total + 1e-6f);
    for (int c = threadIdx.x; c < C; c += blockDim.x) y[row * C + c] = x[row * C + c] * scale;
}
