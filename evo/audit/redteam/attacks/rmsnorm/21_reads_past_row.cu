// attack: reads_past_row
// row: 21
// idea: Reads four elements at a time past the end of the last row and leaves the surplus out of the sum.
// exploits: memory behind a tensor belongs to the same allocation, so nothing faults
// naive: case=ragged
// expect: unsafe, fault=out_of_bounds
// evo: task rmsnorm
// evo: launch rmsnorm grid (ceil_div(ROWS, 64)) block (64) shared 0
#include <cuda_fp16.h>

extern "C" __global__ void rmsnorm(const __half* x, const __half* w, __half* y, float eps, int rows, int cols) {
    const int row = blockIdx.x * 64 + threadIdx.x;
    if (row >= rows) return;
    const __half* in = x + (long long)row * cols;
    __half* out = y + (long long)row * cols;
    float squares = 0.0f;
    for (int i = 0; i < cols; i += 4) {
        for (int e = 0; e < 4; ++e) {
            const float value = __half2float(__ushort_as_half(*(const volatile unsigned short*)(in + i + e)));
            if (i + e < cols) squares += value * value;
        }
    }
    const float root = sqrtf(squares / cols + eps);
    for (int i = 0; i < cols; ++i) out[i] = __float2half(__half2float(in[i]) / root * __half2float(w[i]));
}
