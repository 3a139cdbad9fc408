// evo: task prefix_rows
// evo: launch cumsum grid (ceil_div(N, 64)) block (64) shared 0
extern "C" __global__ void cumsum(const float* x, float* y, int rows, int cols) {
    unsigned int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float running = 0.f;
    for (unsigned int c = 0; c < cols; ++c) {
        running += x[row * cols + c];
        y[row * cols + c] = running;
    }
}
