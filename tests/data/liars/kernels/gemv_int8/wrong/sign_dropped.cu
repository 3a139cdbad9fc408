// expect: wrong, y[
// Weights are taken to be positive.
// evo: task   gemv_int8
// evo: launch kernel grid (ROWS) block (32) shared 0

extern "C" __global__ void kernel(const signed char* w, const signed char* x, int* y, int rows, int k) {
    int sum = 0;
    for (int i = threadIdx.x; i < k; i += 32) sum += (int)(unsigned char)w[(long long)blockIdx.x * k + i] * x[i];
    for (int step = 16; step > 0; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
