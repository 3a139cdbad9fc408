// expect: wrong, y[
// Adds in 16 bits.
// evo: task   gemv_int8
// evo: launch kernel grid (ceil_div(ROWS, 64)) block (64) shared 0

extern "C" __global__ void kernel(const signed char* w, const signed char* x, int* y, int rows, int k) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    short sum = 0;
    for (int i = 0; i < k; ++i) sum += w[(long long)row * k + i] * x[i];
    y[row] = sum;
}
