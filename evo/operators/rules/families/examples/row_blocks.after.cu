// evo: task row_blocks
// evo: knob LANES in 64, 128, 256, 512, 1024
// evo: launch centre grid (B * T) block (LANES) shared 0
#define LANES 128
extern "C" __global__ void centre(const float* inp, float* mean, float* out, int B, int T, int C) {
    unsigned int idx = blockIdx.x;
    if (idx < B * T) {
        const float* x = inp + idx * C;
        float m = 0.0f;
        for (int i = threadIdx.x; i < C; i += LANES) m += x[i];
        for (int step = 16; step > 0; step /= 2) m += __shfl_xor_sync(0xffffffffu, m, step);
        __shared__ float m_parts[LANES / 32];
        if (threadIdx.x % 32 == 0) {
            m_parts[threadIdx.x / 32] = m;
        }
        __syncthreads();
        m = m_parts[0];
        for (int warp = 1; warp < LANES / 32; ++warp) m += m_parts[warp];
        m = m / C;
        for (int i = threadIdx.x; i < C; i += LANES) {
            out[idx * C + i] = x[i] - m;
        }
        if (threadIdx.x == 0) mean[idx] = m;
    }
}
