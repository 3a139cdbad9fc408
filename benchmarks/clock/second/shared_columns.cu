// Walks along the rows of a tile in shared memory by lanes that have a row each: conflicts by its pitch.
// sizes N=1048576 W=1
// evo: task clock
// evo: knob PAD in 0, 1, 2, 4, 8
// evo: knob WIDE in 1, 2, 4
// evo: knob WARPS in 1, 2, 4
// evo: require PAD % WIDE == 0
// evo: launch walk grid (528) block (WARPS * 32) shared 0
#define PAD 0
#define WIDE 1
#define WARPS 1
extern "C" __global__ void walk(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    __shared__ __align__(16) float tile[32 * WARPS][64 + PAD];
    for (int i = threadIdx.x; i < 32 * WARPS * 64; i += 32 * WARPS) tile[i / 64][i % 64] = a[(blockIdx.x % 64) * 8192 + i];
    __syncthreads();
    float sum = 0;
    for (int turn = 0; turn < 8; ++turn) {
        float part = 0;
#pragma unroll 4
        for (int c = 0; c < 64; c += WIDE) {
#if WIDE == 4
            const float4 v = *(float4*)&tile[threadIdx.x][c];
            part += v.x * v.y + v.z * v.w;
#elif WIDE == 2
            const float2 v = *(float2*)&tile[threadIdx.x][c];
            part += v.x * v.y;
#else
            part += tile[threadIdx.x][c] * sum;
#endif
        }
        sum += part;
        tile[threadIdx.x][turn] = sum;
    }
    out[blockIdx.x * 32 * WARPS + threadIdx.x] = sum;
}
