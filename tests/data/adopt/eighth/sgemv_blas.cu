// y = alpha * A * x + beta * y, A is m x n, column major with leading dimension lda.
#include <cuda_runtime.h>
#include <vector>
#include <iostream>
#include <random>

namespace blas {

constexpr int kThreads = 128;

__global__ void sgemv_n(int m, int n, float alpha, const float* __restrict__ A, int lda, const float* __restrict__ x,
                        int incx, float beta, float* __restrict__ y, int incy) {
  const int row = blockIdx.x * kThreads + threadIdx.x;
  if (row >= m) return;
  float acc = 0.f;
  for (int j = 0; j < n; ++j) acc += A[row + j * lda] * x[j * incx];
  y[row * incy] = alpha * acc + beta * y[row * incy];
}

void sgemv(char trans, int m, int n, float alpha, const float* A, int lda, const float* x, int incx, float beta,
           float* y, int incy, cudaStream_t stream = nullptr) {
  if (trans != 'N') return;
  const int blocks = (m + kThreads - 1) / kThreads;
  sgemv_n<<<blocks, kThreads, 0, stream>>>(m, n, alpha, A, lda, x, incx, beta, y, incy);
}

}  // namespace blas

int main() {
  const int m = 2048, n = 1024, lda = m;
  std::vector<float> A(static_cast<size_t>(lda) * n), x(n), y(m);
  std::mt19937 gen(42);
  std::uniform_real_distribution<float> dist(-1.f, 1.f);
  for (auto& v : A) v = dist(gen);
  for (auto& v : x) v = dist(gen);
  for (auto& v : y) v = dist(gen);

  float *dA = nullptr, *dx = nullptr, *dy = nullptr;
  cudaMalloc(&dA, A.size() * sizeof(float));
  cudaMalloc(&dx, x.size() * sizeof(float));
  cudaMalloc(&dy, y.size() * sizeof(float));
  cudaMemcpy(dA, A.data(), A.size() * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(dx, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice);
  cudaMemcpy(dy, y.data(), y.size() * sizeof(float), cudaMemcpyHostToDevice);

  blas::sgemv('N', m, n, 1.5f, dA, lda, dx, 1, 0.5f, dy, 1);

  cudaMemcpy(y.data(), dy, y.size() * sizeof(float), cudaMemcpyDeviceToHost);
  std::cout << y[0] << std::endl;
  cudaFree(dA);
  cudaFree(dx);
  cudaFree(dy);
}
