// evo: task bmm_ijk
// evo: launch qk grid (ceil_div(N * N, 256), B) block (256) shared 0
// scores of attention, heads folded into the batch
extern "C" __global__ void qk(const float* __restrict__ q, const float* __restrict__ k, float* __restrict__ s, int B, int N, int D)
{
    const int b = blockIdx.y;
    const int ij = blockIdx.x * blockDim.x + threadIdx.x;
    if (ij >= N * N) return;
    const int i = ij / N, j = ij % N;
    const float *qi = q + (b * N + i) * D, *kj = k + (b * N + j) * D;
    float acc = 0.f;
    for (int d = 0; d < D; d++) acc = fmaf(qi[d], kj[d], acc);
    s[(b * N + i) * N + j] = acc * 0.125f;
}
