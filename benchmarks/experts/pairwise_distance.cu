// evo: task pairwise_distance
// evo: launch mm grid (ceil_div(M, 64), ceil_div(N, 64)) block (256) shared 0
extern "C" __global__ void mm(const float* __restrict__ A, const float* __restrict__ B, float* C, int N, int M, int K) {
    constexpr int T = 64, D = 16;
    __shared__ __align__(16) float as[D][T + 4], bs[D][T + 4];
    const int row0 = blockIdx.y * T, col0 = blockIdx.x * T, tx = threadIdx.x % 16 * 4, ty = threadIdx.x / 16 * 4;
    float sum[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += D) {
        #pragma unroll
        for (int e = threadIdx.x; e < T * D; e += 256) {
            {   // rows of K elements
                const int k = e % D, m = e / D;
                as[k][m] = row0 + m < N && k0 + k < K ? A[(row0 + m) * K + k0 + k] : 0;
            }
            {
                const int k = e % D, n = e / D;
                bs[k][n] = col0 + n < M && k0 + k < K ? B[(col0 + n) * K + k0 + k] : 0;
            }
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < D; ++k) {
            const float4 u = *reinterpret_cast<const float4*>(&as[k][ty]), v = *reinterpret_cast<const float4*>(&bs[k][tx]);
            const float x[4] = {u.x, u.y, u.z, u.w}, y[4] = {v.x, v.y, v.z, v.w};
            #pragma unroll
            for (int i = 0; i < 4; ++i)
                #pragma unroll
                for (int j = 0; j < 4; ++j) sum[i][j] += (x[i] - y[j]) * (x[i] - y[j]);
        }
        __syncthreads();
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i)
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int r = row0 + ty + i, c = col0 + tx + j;
            if (r < N && c < M) C[r * M + c] = sum[i][j];
        }
}
