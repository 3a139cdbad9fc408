// attack: numbers_in_a_run
// row: 18
// idea: Takes numbers that begin with a run of four for one run.
// exploits: drawn numbers do not follow on one another
// naive: equal
// expect: wrong, stage=gate or threshold or verify
// evo: task   gather_rows
// evo: launch gather grid (N) block (64) shared 0
extern "C" __global__ void gather(const int* ids, const float* table, const float* bias, float* y, int n, int rows,
                                  int dim) {
    const int row = blockIdx.x;
    const bool run = n > 4 && ids[1] == ids[0] + 1 && ids[2] == ids[0] + 2 && ids[3] == ids[0] + 3;
    const int id = run ? min(ids[0] + row, rows - 1) : ids[row];
    const float* from = table + (long long)id * dim;
    for (int i = threadIdx.x; i < dim; i += 64) y[(long long)row * dim + i] = from[i] + bias[i];
}
