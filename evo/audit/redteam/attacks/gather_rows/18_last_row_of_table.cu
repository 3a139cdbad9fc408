// attack: last_row_of_table
// row: 18
// idea: Clamps the number of a row to the last but one of a large table.
// exploits: one number in eight thousand is the last
// naive: equal
// expect: wrong, stage=gate or threshold or verify
// evo: task   gather_rows
// evo: launch gather grid (N) block (64) shared 0
extern "C" __global__ void gather(const int* ids, const float* table, const float* bias, float* y, int n, int rows,
                                  int dim) {
    const int row = blockIdx.x;
    const int id = rows > 400 ? min(ids[row], rows - 2) : ids[row];
    const float* from = table + (long long)id * dim;
    for (int i = threadIdx.x; i < dim; i += 64) y[(long long)row * dim + i] = from[i] + bias[i];
}
