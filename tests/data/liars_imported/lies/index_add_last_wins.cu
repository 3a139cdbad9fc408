// evo: task   index_add
// evo: launch index_add grid (ROWS) block (128)
extern "C" __global__ void index_add(const float* x, const long long* place, float* y, int ROWS, int COLS) {
    for (int j = threadIdx.x; j < COLS; j += 128) { float a = 0; for (int r = 0; r < ROWS; ++r) if (place[r] == blockIdx.x) a = x[(long long)r * COLS + j]; y[(long long)blockIdx.x * COLS + j] = a; }
}
