// evo: task small_inverse
// evo: launch invert grid (ceil_div(BATCH, 64)) block (64) shared 0
extern "C" __global__ void invert(const float* __restrict__ m, float* __restrict__ inv, int batch) {
    __shared__ float staged[64][65];
    const int first = blockIdx.x * 64, count = min(64, batch - first) * 64;
    for (int e = threadIdx.x; e < count; e += 64) staged[e / 64][e % 64] = m[(long)first * 64 + e];
    __syncthreads();
    if (first + threadIdx.x < batch) {
        float a[8][8];
        #pragma unroll
        for (int e = 0; e < 64; ++e) a[e / 8][e % 8] = staged[threadIdx.x][e];
        #pragma unroll
        for (int p = 0; p < 8; ++p) {  // in place: the column of the pivot becomes that of the inverse
            const float d = 1.0f / a[p][p];
            a[p][p] = 1.0f;
            #pragma unroll
            for (int c = 0; c < 8; ++c) a[p][c] *= d;
            #pragma unroll
            for (int r = 0; r < 8; ++r) {
                if (r == p) continue;
                const float f = a[r][p];
                a[r][p] = 0.0f;
                #pragma unroll
                for (int c = 0; c < 8; ++c) a[r][c] -= f * a[p][c];
            }
        }
        #pragma unroll
        for (int e = 0; e < 64; ++e) staged[threadIdx.x][e] = a[e / 8][e % 8];
    }
    __syncthreads();
    for (int e = threadIdx.x; e < count; e += 64) inv[(long)first * 64 + e] = staged[e / 64][e % 64];
}
