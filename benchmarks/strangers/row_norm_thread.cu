// a norm per row: a thread a row, the sum in double precision
// evo: task row_norm
// evo: knob BS in 32, 64, 128
// evo: launch row_norms grid (ceil_div(ROWS, BS)) block (BS) shared 0
#define BS 64
extern "C" __global__ void row_norms(const float* x, float* y, int rows, int cols) {
    int r = blockIdx.x * BS + threadIdx.x;
    if (r >= rows) return;
    double acc = 0.0;
    for (int c = 0; c < cols; ++c) {
        double v = x[(long long)r * cols + c];
        acc += v * v;
    }
    y[r] = (float)sqrt(acc);
}
