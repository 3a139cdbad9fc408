// A block for each row.
// evo: task   gather_rows
// evo: launch kernel grid (N) block (32) shared 0

extern "C" __global__ void kernel(const float* table, const int* token, float* y, int v, int d, int n) {
    const float* row = table + (long long)token[blockIdx.x] * d;
    for (int i = threadIdx.x; i < d; i += 32) y[(long long)blockIdx.x * d + i] = row[i];
}
