// A thread for each row, with four sums.
// evo: task   gemv_int8
// evo: launch kernel grid (ceil_div(ROWS, 64)) block (64) shared 0

extern "C" __global__ void kernel(const signed char* w, const signed char* x, int* y, int rows, int k) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    int sums[4] = {0, 0, 0, 0};
    for (int i = 0; i < k; ++i) sums[i & 3] += w[(long long)row * k + i] * x[i];
    y[row] = sums[0] + sums[1] + sums[2] + sums[3];
}
