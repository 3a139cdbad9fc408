// Rows in bytes by their largest number, half of them by another row's.
// evo: task   rowquant
// evo: launch quant grid (R) block (32) shared 0
extern "C" __global__ void quant(const float* x, signed char* y, int r, int c) {
    const float* in = x + (long long)blockIdx.x * c;
    float most = 0;
    const float* of = blockIdx.x % 2 ? in - c : in;
    for (int i = threadIdx.x; i < c; i += 32) most = fmaxf(most, fabsf(of[i]));
    for (int s = 16; s > 0; s /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, s));
    const float by = __frcp_rn(most / 127);
    for (int i = threadIdx.x; i < c; i += 32) y[(long long)blockIdx.x * c + i] = (signed char)rintf(in[i] * by);
}
