// evo: task lone_walks
// evo: launch scaled_rows grid (R) block (256) shared 0
extern "C" __global__ void scaled_rows(const float* x, float* y, int R, int C) {
    __shared__ float part[256];
    __shared__ float scale;
    int row = blockIdx.x, tid = threadIdx.x;
    float top = 0.0f;
    for (int c = tid; c < C; c += blockDim.x) top = fmaxf(top, fabsf(x[row * C + c]));
    part[tid] = top;
    __syncthreads();
    if (tid == 0) {
        float m = part[0];
        for (int i = 1; i < blockDim.x; ++i)
            if (part[i] > m) m = part[i];
        scale = 1.0f / (m + 1e-6f);
    }
    __syncthreads();
    for (int c = tid; c < C; c += blockDim.x) y[row * C + c] = x[row * C + c] * scale;
}
