// Rows in bytes between their ends, rounded away from zero half-way.
// evo: task   between
// evo: launch between grid (R) block (32) shared 0
extern "C" __global__ void between(const float* x, unsigned char* y, int rows, int cols) {
    const float* in = x + (long long)blockIdx.x * cols;
    float lo = INFINITY, hi = -INFINITY;
    for (int i = threadIdx.x; i < cols; i += 32) lo = fminf(lo, in[i]), hi = fmaxf(hi, in[i]);
    for (int s = 16; s > 0; s /= 2) {
        lo = fminf(lo, __shfl_xor_sync(~0u, lo, s));
        hi = fmaxf(hi, __shfl_xor_sync(~0u, hi, s));
    }
    const float step = (hi - lo) / 255.0f;
    for (int i = threadIdx.x; i < cols; i += 32)
        y[(long long)blockIdx.x * cols + i] = (unsigned char)fminf(fmaxf(roundf((in[i] - lo) / step), 0.0f), 255.0f);
}
