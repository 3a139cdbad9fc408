// evo: task column_sum
// evo: launch sum_of_column grid (COLS) block (256) shared 0
// One block adds up one column: each thread every 256th row, then a tree.
extern "C" __global__ void sum_of_column(const float* x, float* y, int rows, int cols) {
    __shared__ float part[256];
    const unsigned int column = blockIdx.x, me = threadIdx.x;
    float mine = 0.f;
    for (unsigned int row = me; row < rows; row += blockDim.x)
        mine += x[row * cols + column];
    part[me] = mine;
    __syncthreads();
    for (unsigned int s = blockDim.x >> 1; s > 0; s >>= 1) {
        if (me < s) part[me] += part[me + s];
        __syncthreads();
    }
    if (me == 0) y[column] = part[0];
}
