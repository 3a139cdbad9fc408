// a norm per row: a block a row, tree in shared memory with a barrier at each step
// evo: task row_norm
// evo: launch norms grid (ROWS) block (256) shared 0
extern "C" __global__ void norms(const float* data, float* result, int rows, int cols) {
    __shared__ float cache[256];
    int tid = threadIdx.x;
    float temp = 0;
    for (int i = tid; i < cols; i += 256) {
        temp += data[blockIdx.x * cols + i] * data[blockIdx.x * cols + i];
    }
    cache[tid] = temp;
    __syncthreads();
    for (int s = 128; s > 0; s >>= 1) {
        if (tid < s) {
            cache[tid] += cache[tid + s];
        }
        __syncthreads();
    }
    if (tid == 0) result[blockIdx.x] = sqrtf(cache[0]);
}
