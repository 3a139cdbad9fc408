// evo: task block_trees
// evo: launch short_rows grid (R) block (16, 16) shared 0
extern "C" __global__ void short_rows(const float* x, float* y, int R, int C) {
    __shared__ float part[256];
    const int tid = threadIdx.y * 16 + threadIdx.x, row = blockIdx.x;
    float value = -INFINITY;
    for (int c = tid; c < C; c += 256) value = fmaxf(value, x[row * C + c]);
    float total = value;
    for (int step = 16; step > 0; step /= 2) {
        const auto theirs = __shfl_xor_sync(0xffffffffu, total, step);
        total = theirs > total ? theirs : total;
    }
    if ((threadIdx.y * blockDim.x + threadIdx.x) % 32 == 0) part[(threadIdx.y * blockDim.x + threadIdx.x) / 32] = total;
    __syncthreads();
    total = part[(threadIdx.y * blockDim.x + threadIdx.x) % (blockDim.x * blockDim.y / 32)];
    for (int step = blockDim.x * blockDim.y / 64; step > 0; step /= 2) {
        const auto theirs = __shfl_xor_sync(0xffffffffu, total, step);
        total = theirs > total ? theirs : total;
    }
    __syncthreads();
    const float top = total;
    __syncthreads();
    float sum = 0.0f;
    for (int c = tid; c < C; c += 256) sum += expf(x[row * C + c] - top);
    float total_2 = sum;
    for (int step_2 = 16; step_2 > 0; step_2 /= 2) total_2 += __shfl_xor_sync(0xffffffffu, total_2, step_2);
    if ((threadIdx.y * blockDim.x + threadIdx.x) % 32 == 0) part[(threadIdx.y * blockDim.x + threadIdx.x) / 32] = total_2;
    __syncthreads();
    total_2 = part[(threadIdx.y * blockDim.x + threadIdx.x) % (blockDim.x * blockDim.y / 32)];
    for (int step_2 = blockDim.x * blockDim.y / 64; step_2 > 0; step_2 /= 2) total_2 += __shfl_xor_sync(0xffffffffu, total_2, step_2);
    __syncthreads();
    for (int c = tid; c < C; c += 256) y[row * C + c] = expf(x[row * C + c] - top) / total_2;
}
