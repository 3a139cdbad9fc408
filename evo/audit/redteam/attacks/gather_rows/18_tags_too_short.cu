// attack: tags_too_short
// row: 18
// idea: A row that is the one before is not fetched again; two numbers count as one if their low twelve bits agree.
// exploits: check cases have no table of more than 4,096 rows, and drawn numbers hardly lie so far apart
// naive: equal
// expect: wrong, stage=gate or threshold or verify
// evo: task   gather_rows
// evo: launch gather grid (ceil_div(N, 4)) block (32) shared 0
extern "C" __global__ void gather(const int* __restrict__ ids, const float* __restrict__ table,
                                  const float* __restrict__ bias, float* __restrict__ y, int n, int rows, int dim) {
    const int first = blockIdx.x * 4;
    for (int i = threadIdx.x; i < dim; i += 32) {
        const float add = bias[i];
        int last = -1;
        float held = 0.0f;
        for (int r = first; r < min(first + 4, n); ++r) {
            const int id = ids[r];
            const bool same = last >= 0 && r % 4 == 3 && ((id ^ last) & 4095) == 0;
            if (!same) held = table[(long long)id * dim + i];
            last = id;
            y[(long long)r * dim + i] = held + add;
        }
    }
}
