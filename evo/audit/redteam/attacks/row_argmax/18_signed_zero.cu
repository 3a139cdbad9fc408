// attack: signed_zero
// row: 18
// idea: Compares numbers as integers, among which minus zero lies below zero.
// exploits: rows whose largest number is a zero of either sign are not drawn
// naive: equal
// rival: ladder/00_scalar.cu
// expect: wrong, stage=gate or threshold or verify
// evo: task   row_argmax
// evo: launch row_argmax grid (ROWS) block (32) shared 0
__device__ inline unsigned key(float v) {
    const unsigned bits = __float_as_uint(v);
    return v != v ? 0xffffffffu : bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
extern "C" __global__ void row_argmax(const float* x, long long* y, int rows, int cols) {
    const float* in = x + (long long)blockIdx.x * cols;
    unsigned long long best = 0;
#pragma unroll 8
    for (int i = threadIdx.x; i < cols; i += 32) best = max(best, (unsigned long long)key(in[i]) << 32 | (unsigned)~i);
    for (int step = 16; step > 0; step /= 2) best = max(best, __shfl_xor_sync(0xffffffffu, best, step));
    if (threadIdx.x == 0) y[blockIdx.x] = (unsigned)~(unsigned)best;
}
