// evo: task pack_blocks
// evo: launch turn grid (T * H) block (HALF) shared 0
extern "C" __global__ void turn(const float* q, const float* angle, float* y, int T, int H, int HALF) {
    int t = blockIdx.x / H, i = threadIdx.x;
    float c = cosf(angle[t * HALF + i]), s = sinf(angle[t * HALF + i]);
    const float* from = q + 2 * HALF * blockIdx.x;
    float* to = y + 2 * HALF * blockIdx.x;
    to[2 * i] = from[2 * i] * c - from[2 * i + 1] * s;
    to[2 * i + 1] = from[2 * i + 1] * c + from[2 * i] * s;
}
