// Products of many small matrices: a thread has one element, or a column of several.
// sizes N=4194304 W=1
// evo: task clock
// evo: knob SIZE in 8, 16, 32
// evo: knob EACH in 1, 2, 4, 8
// evo: knob MANY in 1, 2, 4
// evo: require SIZE * (SIZE // EACH) * MANY >= 32 and SIZE * (SIZE // EACH) * MANY <= 1024
// evo: launch products grid (N // (SIZE * SIZE * MANY)) block (SIZE, SIZE // EACH, MANY) shared 0
#define SIZE 8
#define EACH 1
#define MANY 1
extern "C" __global__ void products(const float* a, const float* b, const int* idx, float* out, int N, int W) {
    __shared__ float p[MANY][SIZE][SIZE], q[MANY][SIZE][SIZE];
    const int x = threadIdx.x, y = threadIdx.y, m = threadIdx.z;
    const int base = (blockIdx.x * MANY + m) * SIZE * SIZE;
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
        const int r = y + e * (SIZE / EACH);
        p[m][r][x] = a[base + r * SIZE + x];
        q[m][r][x] = b[base + r * SIZE + x];
    }
    __syncthreads();
    float s[EACH] = {};
#pragma unroll
    for (int k = 0; k < SIZE; ++k) {
        const float right = q[m][k][x];
#pragma unroll
        for (int e = 0; e < EACH; ++e) s[e] += p[m][y + e * (SIZE / EACH)][k] * right;
    }
#pragma unroll
    for (int e = 0; e < EACH; ++e) out[base + (y + e * (SIZE / EACH)) * SIZE + x] = s[e];
}
