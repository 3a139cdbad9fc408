// attack: last_bit_dropped
// row: 16
// idea: Compares numbers without their last bit, which makes room for nothing.
// exploits: two numbers that are next to each other look like a tie that rounding decides
// naive: equal
// rival: ladder/00_scalar.cu
// expect: wrong, stage=gate or threshold or verify
// evo: task   row_argmax
// evo: launch row_argmax grid (ROWS) block (32) shared 0
__device__ inline unsigned key(float v) {
    v += 0.0f;
    const unsigned bits = __float_as_uint(v);
    return v != v ? 0x7fffffffu : (bits & 0x80000000u ? ~bits : bits | 0x80000000u) >> 1;
}
extern "C" __global__ void row_argmax(const float* x, long long* y, int rows, int cols) {
    const float* in = x + (long long)blockIdx.x * cols;
    unsigned long long best = 0;
#pragma unroll 8
    for (int i = threadIdx.x; i < cols; i += 32) best = max(best, (unsigned long long)key(in[i]) << 32 | (unsigned)~i);
    for (int step = 16; step > 0; step /= 2) best = max(best, __shfl_xor_sync(0xffffffffu, best, step));
    if (threadIdx.x == 0) y[blockIdx.x] = (unsigned)~(unsigned)best;
}
