// A separable blur: rows through shared memory into a workspace, then columns straight from it.
// sizes N=1048576 W=1024
// evo: task clock
// evo: knob RADIUS in 2, 5, 9
// evo: knob SPAN in 64, 128, 256
// evo: knob CX in 32, 64
// evo: knob CY in 2, 4, 8
// evo: scratch middle float32 [N] init=poison
// evo: launch by_rows grid (W // SPAN, N // W) block (SPAN) shared (4 * (SPAN + 2 * RADIUS))
// evo: launch by_columns grid (W // CX, N // W // CY) block (CX, CY) shared 0
#define RADIUS 2
#define SPAN 64
#define CX 32
#define CY 2
__device__ __constant__ float weight[10] = {.2f, .15f, .12f, .1f, .08f, .06f, .05f, .04f, .03f, .02f};
extern __shared__ float strip[];

extern "C" __global__ void by_rows(const float* a, const float* b, const int* idx, float* out, float* middle, int N, int W) {
    const float* row = a + blockIdx.y * W;
    const int begin = blockIdx.x * SPAN - RADIUS;
    for (int i = threadIdx.x; i < SPAN + 2 * RADIUS; i += SPAN) {
        const int c = begin + i;
        strip[i] = c < 0 || c >= W ? 0.0f : row[c];
    }
    __syncthreads();
    float v = weight[0] * strip[threadIdx.x + RADIUS];
#pragma unroll
    for (int r = 1; r <= RADIUS; ++r) v += weight[r] * (strip[threadIdx.x + RADIUS - r] + strip[threadIdx.x + RADIUS + r]);
    middle[blockIdx.y * W + blockIdx.x * SPAN + threadIdx.x] = v;
}

extern "C" __global__ void by_columns(const float* a, const float* b, const int* idx, float* out, float* middle, int N, int W) {
    const int c = blockIdx.x * CX + threadIdx.x, r0 = blockIdx.y * CY + threadIdx.y, height = N / W;
    float v = weight[0] * middle[r0 * W + c];
#pragma unroll
    for (int r = 1; r <= RADIUS; ++r) {
        if (r0 - r >= 0) v += weight[r] * middle[(r0 - r) * W + c];
        if (r0 + r < height) v += weight[r] * middle[(r0 + r) * W + c];
    }
    out[r0 * W + c] = v;
}
