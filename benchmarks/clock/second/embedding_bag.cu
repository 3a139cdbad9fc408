// Sums of rows of a table that indices name: a bag of eight rows for each output row.
// sizes N=4194304 W=8
// evo: task clock
// evo: knob DIM in 32, 64, 128
// evo: knob WIDE in 1, 2, 4
// evo: knob BAGS in 1, 4, 8
// evo: require DIM // WIDE * BAGS >= 32 and DIM // WIDE * BAGS <= 1024
// evo: launch bag grid (32768 // BAGS) block (DIM // WIDE, BAGS) shared 0
#define DIM 32
#define WIDE 1
#define BAGS 1
extern "C" __global__ void bag(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    const int which = blockIdx.x * BAGS + threadIdx.y;
    float sum[WIDE] = {};
    for (int k = 0; k < 8; ++k) {
        const int row = idx[which * 8 + k] % (4194304 / DIM);
        const float* from = a + row * DIM + threadIdx.x * WIDE;
#if WIDE == 4
        const float4 v = __ldg((const float4*)from);
        sum[0] += v.x, sum[1] += v.y, sum[2] += v.z, sum[3] += v.w;
#elif WIDE == 2
        const float2 v = __ldg((const float2*)from);
        sum[0] += v.x, sum[1] += v.y;
#else
        sum[0] += __ldg(from);
#endif
    }
#pragma unroll
    for (int e = 0; e < WIDE; ++e) out[which * DIM + threadIdx.x * WIDE + e] = sum[e];
}
