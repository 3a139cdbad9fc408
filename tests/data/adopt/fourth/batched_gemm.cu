/* Batched products of small matrices, one block per matrix (textbook style). */
#include <iostream>
#include <vector>
#include <cassert>
#include <cuda_runtime.h>

template <typename T, int N>
__global__ void batchedMatMul(const T* A, const T* B, T* C, int batch)
{
    __shared__ T As[N][N];
    __shared__ T Bs[N][N];
    int b = blockIdx.x;
    if (b >= batch) return;
    int r = threadIdx.y, c = threadIdx.x;
    As[r][c] = A[b * N * N + r * N + c];
    Bs[r][c] = B[b * N * N + r * N + c];
    __syncthreads();
    T acc = T(0);
    #pragma unroll
    for (int k = 0; k < N; ++k) acc += As[r][k] * Bs[k][c];
    C[b * N * N + r * N + c] = acc;
}

template <typename T, int N>
void launchBatched(const T* dA, const T* dB, T* dC, int batch, cudaStream_t stream = 0)
{
    dim3 threads(N, N);
    dim3 blocks(batch);
    batchedMatMul<T, N><<<blocks, threads, 0, stream>>>(dA, dB, dC, batch);
}

int main()
{
    constexpr int N = 16;
    const int batch = 4096;
    const std::size_t count = static_cast<std::size_t>(batch) * N * N;
    std::vector<float> a(count, 1.0f), b(count, 2.0f), c(count);
    float *dA = nullptr, *dB = nullptr, *dC = nullptr;
    cudaMalloc(&dA, count * sizeof(float));
    cudaMalloc(&dB, count * sizeof(float));
    cudaMalloc(&dC, count * sizeof(float));
    cudaMemcpy(dA, a.data(), count * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(dB, b.data(), count * sizeof(float), cudaMemcpyHostToDevice);
    launchBatched<float, N>(dA, dB, dC, batch);
    cudaMemcpy(c.data(), dC, count * sizeof(float), cudaMemcpyDeviceToHost);
    for (auto v : c) assert(v == 2.0f * N);
    std::cout << "OK\n";
    cudaFree(dA); cudaFree(dB); cudaFree(dC);
}
