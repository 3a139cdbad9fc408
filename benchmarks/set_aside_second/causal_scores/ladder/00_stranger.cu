// evo: task causal_scores
// evo: launch scores grid (ceil_div(T, 128), T, H) block (128) shared 0
extern "C" __global__ void scores(const float* q, const float* k, float* s, int H, int T, int D) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y;
    int h = blockIdx.z;
    if (j >= T) return;
    float result = -1e9f;
    if (j <= i) {
        const float* qi = q + (h * T + i) * D;
        const float* kj = k + (h * T + j) * D;
        float dot = 0.0f;
        for (int d = 0; d < D; d++) {
            dot += qi[d] * kj[d];
        }
        result = dot / sqrtf((float)D);
    }
    s[(h * T + i) * T + j] = result;
}
