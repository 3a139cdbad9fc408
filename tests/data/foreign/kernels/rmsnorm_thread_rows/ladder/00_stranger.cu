// evo: task rmsnorm_thread_rows
// evo: launch rmsnorm grid (ceil_div(R, 64)) block (64) shared 0
extern "C" __global__ void rmsnorm(const float* x, const float* g, float* y, int R, int D)
{
    int row = threadIdx.x + blockIdx.x * blockDim.x;
    if (row >= R) return;
    float ss = 0.0f;
    int j = 0;
    for (j = 0; j < D; ++j) ss += x[row * D + j] * x[row * D + j];
    float inv = rsqrtf(ss / D + 1e-5f);
    for (j = 0; j < D; ++j) y[row * D + j] = g[j] * (x[row * D + j] * inv);
}
