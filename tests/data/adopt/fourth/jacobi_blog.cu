// Heat equation with Jacobi steps and a residual, from a blog series on stencils
#include <cmath>
#include <cstdio>
#include <utility>
#include <cuda_runtime.h>

#define NX 512
#define NY 256
#define IDX(i, j) ((j) * NX + (i))

inline void gpuAssert(cudaError_t code, const char* file, int line, bool abort = true) {
  if (code != cudaSuccess) {
    fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
    if (abort) exit(code);
  }
}
#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }

__device__ __forceinline__ float laplace(const float* u, int i, int j) {
  return u[IDX(i - 1, j)] + u[IDX(i + 1, j)] + u[IDX(i, j - 1)] + u[IDX(i, j + 1)];
}

__global__ void jacobi(float* __restrict__ u_new, const float* __restrict__ u, const float* __restrict__ f, float h2) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i > 0 && i < NX - 1 && j > 0 && j < NY - 1) {
    u_new[IDX(i, j)] = 0.25f * (laplace(u, i, j) + h2 * f[IDX(i, j)]);
  } else if (i < NX && j < NY) {
    u_new[IDX(i, j)] = u[IDX(i, j)];
  }
}

int main() {
  const size_t size = NX * NY * sizeof(float);
  float *u, *u_new, *f;
  gpuErrchk(cudaMalloc(&u, size));
  gpuErrchk(cudaMalloc(&u_new, size));
  gpuErrchk(cudaMalloc(&f, size));
  float* host = new float[NX * NY];
  for (int j = 0; j < NY; ++j)
    for (int i = 0; i < NX; ++i) host[IDX(i, j)] = sinf(0.01f * i) * cosf(0.02f * j);
  gpuErrchk(cudaMemcpy(u, host, size, cudaMemcpyHostToDevice));
  gpuErrchk(cudaMemcpy(f, host, size, cudaMemcpyHostToDevice));

  const float h = 1.0f / (NX - 1);
  dim3 block{32, 4};
  dim3 grid{(NX + block.x - 1) / block.x, (NY + block.y - 1) / block.y};
  for (int it = 0; it < 100; ++it) {
    jacobi<<<grid, block>>>(u_new, u, f, h * h);
    std::swap(u, u_new);
  }
  gpuErrchk(cudaPeekAtLastError());
  gpuErrchk(cudaMemcpy(host, u, size, cudaMemcpyDeviceToHost));
  printf("%f\n", host[IDX(NX / 2, NY / 2)]);
  delete[] host;
  gpuErrchk(cudaFree(u));
  gpuErrchk(cudaFree(u_new));
  gpuErrchk(cudaFree(f));
}
