// evo: task block_trees
// evo: launch short_rows grid (R) block (16, 16) shared 0
extern "C" __global__ void short_rows(const float* x, float* y, int R, int C) {
    __shared__ float part[256];
    const int tid = threadIdx.y * 16 + threadIdx.x, row = blockIdx.x;
    float value = -INFINITY;
    for (int c = tid; c < C; c += 256) value = fmaxf(value, x[row * C + c]);
    part[tid] = value;
    __syncthreads();
    for (int s = 128; s > 0; s >>= 1) {
        if (tid < s) part[tid] = fmaxf(part[tid], part[tid + s]);
        __syncthreads();
    }
    const float top = part[0];
    __syncthreads();
    float sum = 0.0f;
    for (int c = tid; c < C; c += 256) sum += expf(x[row * C + c] - top);
    part[tid] = sum;
    __syncthreads();
    for (int s = 1; s < 256; s *= 2) {
        if (tid % (2 * s) == 0) part[tid] += part[tid + s];
        __syncthreads();
    }
    for (int c = tid; c < C; c += 256) y[row * C + c] = expf(x[row * C + c] - top) / part[0];
}
