// attack: wide_table
// row: 20
// idea: Drops the last value of wide rows of an odd width.
// exploits: wide rows are even
// naive: equal
// expect: wrong, stage=gate or threshold or verify
// evo: task   gather_rows
// evo: launch gather grid (N) block (64) shared 0
extern "C" __global__ void gather(const int* ids, const float* table, const float* bias, float* y, int n, int rows,
                                  int dim) {
    const int row = blockIdx.x;
    const int id = ids[row];
    const float* from = table + (long long)id * dim;
    for (int i = threadIdx.x; i < (rows * 5 + dim * 3 > 2901 ? dim & ~1 : dim); i += 64) y[(long long)row * dim + i] = from[i] + bias[i];
}
