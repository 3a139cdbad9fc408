// evo: task pack_blocks
// evo: knob BLOCKS in 2, 4, 8, 16, 32
// evo: require HALF * BLOCKS <= 1024
// evo: launch turn grid (ceil_div(T * H, BLOCKS)) block (HALF, BLOCKS) shared 0
#define BLOCKS 8
extern "C" __global__ void turn(const float* q, const float* angle, float* y, int T, int H, int HALF) {
    const unsigned former = blockIdx.x * BLOCKS + threadIdx.y;  // BLOCKS small blocks are one
    if (former >= (T * H)) return;
    int t = former / H, i = threadIdx.x;
    float c = cosf(angle[t * HALF + i]), s = sinf(angle[t * HALF + i]);
    const float* from = q + 2 * HALF * former;
    float* to = y + 2 * HALF * former;
    to[2 * i] = from[2 * i] * c - from[2 * i + 1] * s;
    to[2 * i + 1] = from[2 * i + 1] * c + from[2 * i] * s;
}
