// Three versions of the same thing, each in its own namespace (lecture 7).
#include <cstdio>
#include <vector>
#include <functional>
#include <cuda_runtime.h>

#define CHECK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e_)); exit(1); } } while (0)

namespace naive {
__global__ void rowsum(const float* m, float* out, int rows, int cols) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float s = 0;
    for (int c = 0; c < cols; ++c) s += m[r * cols + c];
    out[r] = s;
}
void run(const float* m, float* out, int rows, int cols) { rowsum<<<(rows + 63) / 64, 64>>>(m, out, rows, cols); }
}

namespace shared_mem {
constexpr int B = 128;
__global__ void rowsum(const float* m, float* out, int rows, int cols) {
    __shared__ float part[B];
    int r = blockIdx.x;
    float s = 0;
    for (int c = threadIdx.x; c < cols; c += B) s += m[r * cols + c];
    part[threadIdx.x] = s;
    __syncthreads();
    for (int k = B / 2; k; k >>= 1) {
        if (threadIdx.x < k) part[threadIdx.x] += part[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[r] = part[0];
}
void run(const float* m, float* out, int rows, int cols) { rowsum<<<rows, B>>>(m, out, rows, cols); }
}

int main() {
    const int rows = 4096, cols = 1000;
    std::vector<float> h(rows * cols, 1.0f), o(rows);
    float *m, *out;
    CHECK(cudaMalloc(&m, h.size() * sizeof(float)));
    CHECK(cudaMalloc(&out, rows * sizeof(float)));
    CHECK(cudaMemcpy(m, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice));
    naive::run(m, out, rows, cols);
    CHECK(cudaMemcpy(o.data(), out, rows * sizeof(float), cudaMemcpyDeviceToHost));
    printf("naive %f\n", o[0]);
    shared_mem::run(m, out, rows, cols);
    CHECK(cudaMemcpy(o.data(), out, rows * sizeof(float), cudaMemcpyDeviceToHost));
    printf("shared %f\n", o[0]);
}
