// A sample: one warp for each tile of 16 x 16.
#include <mma.h>
#include <cuda_fp16.h>
#include <vector>
using namespace nvcuda;
const int M = 256, N = 256, K = 256;
__global__ void wmma_gemm(const half* a, const half* b, float* c) {
    int tileM = blockIdx.y * 16, tileN = blockIdx.x * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int k = 0; k < K; k += 16) {
        wmma::load_matrix_sync(fa, a + tileM * K + k, K);
        wmma::load_matrix_sync(fb, b + k * N + tileN, N);
        wmma::mma_sync(acc, fa, fb, acc);
    }
    wmma::store_matrix_sync(c + tileM * N + tileN, acc, N, wmma::mem_row_major);
}
int main() {
    half *a, *b; float* c;
    std::vector<float> h(M * N);
    cudaMalloc(&a, M * K * sizeof(half)); cudaMalloc(&b, K * N * sizeof(half)); cudaMalloc(&c, M * N * sizeof(float));
    cudaMemcpy(a, ha, M * K * sizeof(half), cudaMemcpyHostToDevice);
    cudaMemcpy(b, hb, K * N * sizeof(half), cudaMemcpyHostToDevice);
    wmma_gemm<<<dim3(N / 16, M / 16), 32>>>(a, b, c);
    cudaMemcpy(h.data(), c, M * N * sizeof(float), cudaMemcpyDeviceToHost);
}
