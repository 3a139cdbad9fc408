// evo: task tile_mma
// evo: launch linear grid (ceil_div(N, 32), ceil_div(M, 8), B) block (32, 8) shared 0
#include <cuda_fp16.h>
extern "C" __global__ void linear(const half* a, const half* b, const half* bias, half* c, int B, int M, int N, int K) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    int m = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z;
    if (m >= M || n >= N) return;
    float acc = 0.0f;
    for (int k = 0; k < K; k++)
        acc += __half2float(a[(z * M + m) * K + k]) * __half2float(b[(z * K + k) * N + n]);
    c[(z * M + m) * N + n] = __float2half(fmaxf(acc + __half2float(bias[n]), 0.0f));
}
