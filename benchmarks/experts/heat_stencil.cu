// evo: task heat_stencil
// evo: launch step grid (ceil_div(W, 32), ceil_div(H, 64)) block (32, 8) shared 0
extern "C" __global__ void step(const float* __restrict__ u, float* __restrict__ v, float dt, int H, int W) {
    const int j = blockIdx.x * 32 + threadIdx.x;
    int i = blockIdx.y * 64 + threadIdx.y * 8;
    if (j >= W || i >= H) return;
    float above = i > 0 ? u[(i - 1) * W + j] : 0, here = u[i * W + j];
    #pragma unroll
    for (int n = 0; n < 8; ++n, ++i) {
        if (i >= H) return;
        const float below = i + 1 < H ? u[(i + 1) * W + j] : 0;
        float next = here;
        if (i > 0 && j > 0 && i < H - 1 && j < W - 1)
            next = here + dt * (above + below + u[i * W + j - 1] + u[i * W + j + 1] - 4.0f * here);
        v[i * W + j] = next;
        above = here;
        here = below;
    }
}
