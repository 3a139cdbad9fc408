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
    if (threadIdx.x < 32) {
        float m = part[0];
        for (int i = 1 + (int)threadIdx.x; i < blockDim.x; i += 32)
            if (part[i] > m) m = part[i];
        for (int step = 16; step > 0; step /= 2) {
            const auto theirs = __shfl_xor_sync(0xffffffffu, m, step);
            m = theirs > m ? theirs : m;
        }
        if (threadIdx.x == 0) scale = 1.0f / (m + 1e-6f);
    }
    __syncthreads();
    for (int c = tid; c < C; c += blockDim.x) y[row * C + c] = x[row * C + c] * scale;
}
