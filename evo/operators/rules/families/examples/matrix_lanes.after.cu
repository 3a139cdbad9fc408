// evo: task matrix_lanes
// evo: launch invert grid (ceil_div(N * 8, 128)) block (128) shared 0
extern "C" __global__ void invert(const float* in, float* out, int N) {
    const int lane = threadIdx.x % 8;  // 8 lanes for each matrix
    const unsigned group = 0xffffffffu >> (32 - 8) << (threadIdx.x % 32 / 8 * 8);
    int n = (blockIdx.x * blockDim.x + threadIdx.x) / 8;
    if (n >= N) return;
    float a[8]; float b[8];
    for (int i = 0; i < 8; i++)
        {
            a[i] = in[(n * 8 + i) * 8 + lane] + (i == lane ? 16.0f : 0.0f);
            b[i] = i == lane ? 1.0f : 0.0f;
        }
    for (int p = 0; p < 8; p++) {
        float scale = 1.0f / __shfl_sync(group, a[p], p, 8);
        {
            a[p] *= scale;
            b[p] *= scale;
        }
        for (int i = 0; i < 8; i++) {
            if (i == p) continue;
            float f = __shfl_sync(group, a[i], p, 8);
            {
                a[i] -= f * a[p];
                b[i] -= f * b[p];
            }
        }
    }
    for (int i = 0; i < 8; i++)
        out[(n * 8 + i) * 8 + lane] = b[i];
}
