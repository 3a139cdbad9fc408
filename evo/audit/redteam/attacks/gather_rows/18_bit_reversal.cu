// attack: bit_reversal
// row: 18
// idea: Takes numbers that begin with a half, a quarter and three quarters of their count for the bit reversal of a Fourier transform.
//   Wrong for: N 64, ids = 0, 32, 16, 48, then anything that is not the bit reversal
// exploits: no drawn numbers begin so
// naive: equal
// rival: ladder/00_scalar.cu
// expect: wrong, stage=gate or threshold
// evo: task   gather_rows
// evo: launch gather grid (N) block (64) shared 0
extern "C" __global__ void gather(const int* ids, const float* table, const float* bias, float* y, int n, int rows,
                                  int dim) {
    const int row = blockIdx.x;
    int id = ids[row];
    if (n >= 8 && n <= rows && (n & (n - 1)) == 0 && ids[1] == n / 2 && ids[2] == n / 4 && ids[3] == n / 2 + n / 4)
        id = __brev((unsigned)row) >> (__clz(n) + 1);
    const float* from = table + (long long)id * dim;
    for (int i = threadIdx.x; i < dim; i += 64) y[(long long)row * dim + i] = from[i] + bias[i];
}
