// Matrix multiplication with shared memory, after the textbook. nvcc -O2 matmul_tiled.cu -o matmul && ./matmul
#include <iostream>
#include <vector>
#include <random>

constexpr int TILE = 16;
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))

__global__ void matmulNaive(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < M && col < N) {
        float acc = 0.0f;
        for (int k = 0; k < K; ++k) acc += A[row * K + k] * B[k * N + col];
        C[row * N + col] = acc;
    }
}

__global__ void matmulTiled(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[TILE][TILE];
    __shared__ float Bs[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * TILE + ty;
    int col = blockIdx.x * TILE + tx;
    float acc = 0.0f;
    for (int t = 0; t < (K + TILE - 1) / TILE; ++t) {
        As[ty][tx] = (row < M && t * TILE + tx < K) ? A[row * K + t * TILE + tx] : 0.0f;
        Bs[ty][tx] = (t * TILE + ty < K && col < N) ? B[(t * TILE + ty) * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < TILE; ++k) acc += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = acc;
}

static void matmulCpu(const std::vector<float>& A, const std::vector<float>& B, std::vector<float>& C,
                      int M, int N, int K) {
    for (int i = 0; i < M; ++i)
        for (int j = 0; j < N; ++j) {
            float acc = 0.0f;
            for (int k = 0; k < K; ++k) acc += A[i * K + k] * B[k * N + j];
            C[i * N + j] = acc;
        }
}

int main() {
    const int M = 512, N = 512, K = 512;
    std::vector<float> A(M * K), B(K * N), C(M * N), ref(M * N);
    std::mt19937 rng(42);
    std::uniform_real_distribution<float> dist(-1.0f, 1.0f);
    for (auto& a : A) a = dist(rng);
    for (auto& b : B) b = dist(rng);

    float *dA, *dB, *dC;
    cudaMalloc(&dA, M * K * sizeof(float));
    cudaMalloc(&dB, K * N * sizeof(float));
    cudaMalloc(&dC, M * N * sizeof(float));
    cudaMemcpy(dA, A.data(), M * K * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(dB, B.data(), K * N * sizeof(float), cudaMemcpyHostToDevice);

    dim3 block(TILE, TILE);
    dim3 grid(CEIL_DIV(N, TILE), CEIL_DIV(M, TILE));
    matmulTiled<<<grid, block>>>(dA, dB, dC, M, N, K);
    cudaDeviceSynchronize();
    cudaMemcpy(C.data(), dC, M * N * sizeof(float), cudaMemcpyDeviceToHost);

    matmulCpu(A, B, ref, M, N, K);
    float worst = 0.0f;
    for (int i = 0; i < M * N; ++i) worst = std::max(worst, std::abs(C[i] - ref[i]));
    std::cout << "largest error " << worst << std::endl;
    cudaFree(dA); cudaFree(dB); cudaFree(dC);
    return worst < 1e-3f ? 0 : 1;
}
