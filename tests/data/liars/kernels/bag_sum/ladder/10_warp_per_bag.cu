// A warp for each bag.
// evo: task   bag_sum
// evo: launch kernel grid (B) block (32) shared 0

extern "C" __global__ void kernel(const int* table, const int* token, int* y, int v, int b, int t) {
    int sum = 0;
    for (int i = threadIdx.x; i < t; i += 32) sum += table[token[(long long)blockIdx.x * t + i]];
    for (int step = 16; step > 0; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
