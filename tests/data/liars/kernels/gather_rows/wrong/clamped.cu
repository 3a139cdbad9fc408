// expect: wrong, y[
// Tokens beyond the fifteenth become the fifteenth.
// evo: task   gather_rows
// evo: launch kernel grid (ceil_div(N * D, 128)) block (128) shared 0

extern "C" __global__ void kernel(const float* table, const int* token, float* y, int v, int d, int n) {
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i >= n * d) return;
    y[i] = table[(long long)min(token[i / d], 15) * d + i % d];
}
