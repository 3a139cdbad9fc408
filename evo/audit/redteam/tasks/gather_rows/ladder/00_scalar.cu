// One thread walks along one row.
// evo: task   gather_rows
// evo: launch gather grid (ceil_div(N, 32)) block (32) shared 0
extern "C" __global__ void gather(const int* ids, const float* table, const float* bias, float* y, int n, int rows,
                                  int dim) {
    const int row = blockIdx.x * 32 + threadIdx.x;
    if (row >= n) return;
    const float* from = table + (long long)ids[row] * dim;
    for (int i = 0; i < dim; ++i) y[(long long)row * dim + i] = from[i] + bias[i];
}
