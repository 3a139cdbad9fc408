// Blog: a softmax with cooperative groups.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cfloat>
#include <cmath>
#include <iostream>
#include <memory>
#include <vector>

namespace cg = cooperative_groups;

constexpr int kRowsPerBlock = 4;
constexpr int kWarp = 32;

struct Shape {
    int rows;
    int cols;
    size_t count() const { return static_cast<size_t>(rows) * cols; }
};

__global__ void softmax_warp(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    int row = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
    if (row >= rows) return;
    const float* in = x + row * cols;
    float m = -FLT_MAX;
    for (int c = warp.thread_rank(); c < cols; c += warp.size()) m = fmaxf(m, in[c]);
    m = cg::reduce(warp, m, cg::greater<float>());
    float s = 0.0f;
    for (int c = warp.thread_rank(); c < cols; c += warp.size()) s += expf(in[c] - m);
    s = cg::reduce(warp, s, cg::plus<float>());
    for (int c = warp.thread_rank(); c < cols; c += warp.size()) y[row * cols + c] = expf(in[c] - m) / s;
}

struct CudaDeleter {
    void operator()(float* p) const { cudaFree(p); }
};
using DevicePtr = std::unique_ptr<float, CudaDeleter>;

DevicePtr make_device(size_t n) {
    float* p = nullptr;
    cudaMalloc(&p, n * sizeof(float));
    return DevicePtr(p);
}

int main() {
    Shape shape{4096, 1024};
    std::vector<float> host(shape.count());
    for (size_t i = 0; i < host.size(); ++i) host[i] = std::sin(0.01f * i);
    auto x = make_device(shape.count());
    auto y = make_device(shape.count());
    cudaMemcpy(x.get(), host.data(), shape.count() * sizeof(float), cudaMemcpyHostToDevice);
    const dim3 block(kWarp * kRowsPerBlock);
    const dim3 grid((shape.rows + kRowsPerBlock - 1) / kRowsPerBlock);
    softmax_warp<<<grid, block>>>(x.get(), y.get(), shape.rows, shape.cols);
    cudaMemcpy(host.data(), y.get(), shape.count() * sizeof(float), cudaMemcpyDeviceToHost);
    std::cout << host[0] << '\n';
}
