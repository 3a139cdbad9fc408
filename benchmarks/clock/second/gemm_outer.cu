// A product of 512 x 512 matrices whose left one is stored by columns; wide loads from shared memory, one or two stages.
// sizes N=262144 W=512
// evo: task clock
// evo: knob TILE in 32, 64, 128
// evo: knob RM in 4, 8
// evo: knob RN in 4, 8
// evo: knob DEPTH in 8, 16
// evo: knob STAGES in 1, 2
// evo: require (TILE // RM) * (TILE // RN) >= 32 and (TILE // RM) * (TILE // RN) <= 1024
// evo: launch gemm grid (W // TILE, W // TILE) block (TILE // RN, TILE // RM) shared 0
#define TILE 32
#define RM 4
#define RN 4
#define DEPTH 8
#define STAGES 1
extern "C" __global__ void gemm(const float* __restrict__ a, const float* __restrict__ b, const int* idx, float* __restrict__ out, int N, int W) {
    constexpr int COUNT = (TILE / RM) * (TILE / RN);
    __shared__ __align__(16) float left[STAGES][DEPTH][TILE], right[STAGES][DEPTH][TILE];
    const int me = threadIdx.y * (TILE / RN) + threadIdx.x;
    const int m0 = blockIdx.y * TILE, n0 = blockIdx.x * TILE;
    auto fetch = [&](int stage, int k0) {
        for (int i = me; i < DEPTH * TILE / 4; i += COUNT) {
            const int k = i / (TILE / 4), c = i % (TILE / 4) * 4;
            *(float4*)&left[stage][k][c] = *(const float4*)&a[(k0 + k) * W + m0 + c];
            *(float4*)&right[stage][k][c] = *(const float4*)&b[(k0 + k) * W + n0 + c];
        }
    };
    float acc[RM][RN] = {};
    fetch(0, 0);
    __syncthreads();
    for (int k0 = 0; k0 < W; k0 += DEPTH) {
        const int now = STAGES == 2 ? k0 / DEPTH % 2 : 0;
        if (STAGES == 2 && k0 + DEPTH < W) fetch(1 - now, k0 + DEPTH);
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            float x[RM], y[RN];
#pragma unroll
            for (int i = 0; i < RM; i += 4) *(float4*)&x[i] = *(const float4*)&left[now][k][threadIdx.y * RM + i];
#pragma unroll
            for (int j = 0; j < RN; j += 4) *(float4*)&y[j] = *(const float4*)&right[now][k][threadIdx.x * RN + j];
#pragma unroll
            for (int i = 0; i < RM; ++i)
#pragma unroll
                for (int j = 0; j < RN; ++j) acc[i][j] += x[i] * y[j];
        }
        __syncthreads();
        if (STAGES == 1 && k0 + DEPTH < W) {
            fetch(0, k0 + DEPTH);
            __syncthreads();
        }
    }
#pragma unroll
    for (int i = 0; i < RM; ++i)
#pragma unroll
        for (int j = 0; j < RN; j += 4)
            *(float4*)&out[(m0 + threadIdx.y * RM + i) * W + n0 + threadIdx.x * RN + j] = *(float4*)&acc[i][j];
}
