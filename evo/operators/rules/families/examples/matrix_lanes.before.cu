// evo: task matrix_lanes
// evo: launch invert grid (ceil_div(N, 128)) block (128) shared 0
extern "C" __global__ void invert(const float* in, float* out, int N) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= N) return;
    float a[8][8], b[8][8];
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
            a[i][j] = in[(n * 8 + i) * 8 + j] + (i == j ? 16.0f : 0.0f);
            b[i][j] = i == j ? 1.0f : 0.0f;
        }
    for (int p = 0; p < 8; p++) {
        float scale = 1.0f / a[p][p];
        for (int j = 0; j < 8; j++) {
            a[p][j] *= scale;
            b[p][j] *= scale;
        }
        for (int i = 0; i < 8; i++) {
            if (i == p) continue;
            float f = a[i][p];
            for (int j = 0; j < 8; j++) {
                a[i][j] -= f * a[p][j];
                b[i][j] -= f * b[p][j];
            }
        }
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) out[(n * 8 + i) * 8 + j] = b[i][j];
}
