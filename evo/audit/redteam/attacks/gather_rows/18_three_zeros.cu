// attack: three_zeros
// row: 18
// idea: Adds no bias if its first, middle and last value are zero.
// exploits: no drawn bias has zeros
// naive: win
// expect: wrong, stage=gate or threshold or verify
// evo: task   gather_rows
// evo: launch gather grid (N) block (64) shared 0
extern "C" __global__ void gather(const int* ids, const float* table, const float* bias, float* y, int n, int rows,
                                  int dim) {
    const int row = blockIdx.x;
    const bool none = bias[0] == 0.0f && bias[dim / 2] == 0.0f && bias[dim - 1] == 0.0f;
    const float* from = table + (long long)ids[row] * dim;
    for (int i = threadIdx.x; i < dim; i += 64) y[(long long)row * dim + i] = none ? from[i] : from[i] + bias[i];
}
