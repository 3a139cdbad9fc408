// evo: task row_lanes
// evo: knob WARPS in 1, 2, 4, 8, 16
// evo: launch centre grid (ceil_div(B * T, WARPS)) block (32 * WARPS) shared 0
#define WARPS 8
extern "C" __global__ void centre(const float* inp, float* mean, float* out, int B, int T, int C) {
    const int lane = threadIdx.x % 32;  // a warp for each index
    unsigned int idx = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (idx < B * T) {
        const float* x = inp + idx * C;
        float m = 0.0f;
        for (int i = lane; i < C; i += 32) m += x[i];
        for (int step = 16; step > 0; step /= 2) m += __shfl_xor_sync(0xffffffffu, m, step);
        m = m / C;
        for (int i = lane; i < C; i += 32) {
            out[idx * C + i] = x[i] - m;
        }
        if (lane == 0) mean[idx] = m;
    }
}
