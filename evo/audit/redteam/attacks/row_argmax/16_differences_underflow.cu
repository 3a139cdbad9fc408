// attack: differences_underflow
// row: 16
// idea: Compares by a product that is zero where two values differ by less than 1e-15.
// exploits: values are of size 1
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
        if (at == cols || (value - best) * 1e-30f > 0.0f || (value != value && best == best)) {
            best = value;
            at = i;
        }
    }
    for (int step = 16; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, best, step);
        const int place = __shfl_xor_sync(0xffffffffu, at, step);
        const bool is_nan = other != other, was_nan = best != best;
        const bool is_first = place < at && place < cols;
        if (place < cols && (at == cols || (is_nan ? !was_nan || is_first : (other - best) * 1e-30f > 0.0f || ((other - best) * 1e-30f == 0.0f && is_first)))) {
            best = other;
            at = place;
        }
    }
    if (threadIdx.x == 0) y[blockIdx.x] = at;
}
