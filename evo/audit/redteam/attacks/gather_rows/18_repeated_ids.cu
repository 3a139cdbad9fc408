// attack: repeated_ids
// row: 18
// idea: Takes neighbours with the same number for padding and leaves the bias out.
// exploits: drawn numbers hardly repeat
// naive: equal
// expect: wrong, stage=gate or threshold or verify
// evo: task   gather_rows
// evo: launch gather grid (N) block (64) shared 0
extern "C" __global__ void gather(const int* ids, const float* table, const float* bias, float* y, int n, int rows,
                                  int dim) {
    const int row = blockIdx.x;
    const int id = ids[row];
    const float* from = table + (long long)id * dim;
    for (int i = threadIdx.x; i < dim; i += 64) y[(long long)row * dim + i] = from[i] + (row > 1 && ids[row - 1] == id && ids[row - 2] == id ? 0.0f : bias[i]);
}
