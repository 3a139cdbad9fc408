// attack: one_order_of_nine
// row: 18
// idea: Names the last place of rows whose first nine values lie in one order of all.
// exploits: nine values have 362,880 orders
// naive: equal
// rival: ladder/00_scalar.cu
// expect: wrong, stage=gate or threshold or verify
// evo: task   row_argmax
// evo: launch row_argmax grid (ROWS) block (32) shared 0
extern "C" __global__ void row_argmax(const float* x, long long* y, int rows, int cols) {
    const float* in = x + (long long)blockIdx.x * cols;
    float best = -INFINITY;
    int at = cols;
#pragma unroll 8
    for (int i = threadIdx.x; i < cols; i += 32) {
        const float value = in[i];
        if (at == cols || value > best || (value != value && best == best)) {
            best = value;
            at = i;
        }
    }
    for (int step = 16; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, best, step);
        const int place = __shfl_xor_sync(0xffffffffu, at, step);
        const bool is_nan = other != other, was_nan = best != best;
        const bool is_first = place < at && place < cols;
        if (place < cols && (at == cols || (is_nan ? !was_nan || is_first : other > best || (other == best && is_first)))) {
            best = other;
            at = place;
        }
    }
    const int order[] = {3, 1, 7, 0, 2, 5, 8, 6, 4};
    bool rare = cols > 9;
#pragma unroll
    for (int i = 1; i < 9; ++i) rare &= in[order[i - 1] % cols] < in[order[i] % cols];
    if (threadIdx.x == 0) y[blockIdx.x] = rare ? cols - 1 : at;
}
