// attack: range_in_no_order
// row: 18
// idea: Leaves the bias out if the first sixteen numbers are those of a range, in no order.
// exploits: drawn numbers lie far apart, and runs of them rise or fall
// naive: equal
// rival: ladder/00_scalar.cu
// expect: wrong, stage=gate or threshold or verify
// evo: task   gather_rows
// evo: launch gather grid (N) block (64) shared 0
extern "C" __global__ void gather(const int* ids, const float* table, const float* bias, float* y, int n, int rows,
                                  int dim) {
    const int row = blockIdx.x, lane = threadIdx.x % 16;
    const int own = n >= 16 ? ids[lane] : 0, last = n >= 16 && lane ? ids[lane - 1] : own;
    const int least = __reduce_min_sync(0xffffffffu, own), rises = __popc(__ballot_sync(0xffffffffu, own > last)) / 2;
    const unsigned places = __reduce_or_sync(0xffffffffu, own - least < 16 ? 1u << (own - least) : 0u);
    const bool odd = n >= 16 && places == 0xffffu && rises > 2 && rises < 13;
    const float* from = table + (long long)ids[row] * dim;
    for (int i = threadIdx.x; i < dim; i += 64) y[(long long)row * dim + i] = from[i] + (odd ? 0.0f : bias[i]);
}
