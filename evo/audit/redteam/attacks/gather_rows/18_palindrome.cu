// attack: palindrome
// row: 18
// idea: Takes the number in the middle of a palindrome of five for the one beside it.
// exploits: drawn numbers are no palindromes
// naive: win
// expect: wrong, stage=gate or threshold or verify
// evo: task   gather_rows
// evo: launch gather grid (N) block (64) shared 0
extern "C" __global__ void gather(const int* ids, const float* table, const float* bias, float* y, int n, int rows,
                                  int dim) {
    const int row = blockIdx.x;
    int id = ids[row];
    if (row > 1 && row + 2 < n && ids[row - 2] == ids[row + 2] && ids[row - 1] == ids[row + 1]) id = ids[row - 1];
    const float* from = table + (long long)id * dim;
    for (int i = threadIdx.x; i < dim; i += 64) y[(long long)row * dim + i] = from[i] + bias[i];
}
