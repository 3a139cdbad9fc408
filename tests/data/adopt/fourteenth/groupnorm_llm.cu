/**
 * GroupNorm forward pass (NCHW) - complete, production-ready example
 *
 * Features:
 *  - RAII device buffers
 *  - Error handling with exceptions
 *  - Two-stage kernel: statistics, then normalization
 */
#include <cuda_runtime.h>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace gn {

inline void check(cudaError_t err, const char* what) {
    if (err != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(err));
}

template <typename T>
class DeviceBuffer {
public:
    explicit DeviceBuffer(std::size_t count) : count_(count) {
        check(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)), "cudaMalloc");
    }
    ~DeviceBuffer() { if (data_) cudaFree(data_); }
    DeviceBuffer(const DeviceBuffer&) = delete;
    DeviceBuffer& operator=(const DeviceBuffer&) = delete;
    DeviceBuffer(DeviceBuffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), count_(other.count_) {}

    void upload(const std::vector<T>& host) {
        assert(host.size() == count_);
        check(cudaMemcpy(data_, host.data(), count_ * sizeof(T), cudaMemcpyHostToDevice), "upload");
    }
    std::vector<T> download() const {
        std::vector<T> host(count_);
        check(cudaMemcpy(host.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "download");
        return host;
    }
    T* get() { return data_; }
    const T* get() const { return data_; }

private:
    T* data_ = nullptr;
    std::size_t count_ = 0;
};

struct Shape {
    int n, c, h, w;
    int groups;
    [[nodiscard]] int channels_per_group() const { return c / groups; }
    [[nodiscard]] int group_size() const { return channels_per_group() * h * w; }
    [[nodiscard]] std::size_t elements() const { return static_cast<std::size_t>(n) * c * h * w; }
};

__inline__ __device__ float warp_sum(float val) {
    for (int offset = warpSize / 2; offset > 0; offset /= 2) val += __shfl_down_sync(0xffffffff, val, offset);
    return val;
}

__inline__ __device__ float block_sum(float val) {
    static __shared__ float shared[32];
    int lane = threadIdx.x % warpSize;
    int wid = threadIdx.x / warpSize;
    val = warp_sum(val);
    __syncthreads();
    if (lane == 0) shared[wid] = val;
    __syncthreads();
    val = (threadIdx.x < blockDim.x / warpSize) ? shared[lane] : 0.0f;
    if (wid == 0) val = warp_sum(val);
    return val;
}

// One block per (sample, group): mean and reciprocal standard deviation.
__global__ void group_stats_kernel(const float* __restrict__ x, float* __restrict__ mean, float* __restrict__ rstd,
                                   int group_size, float eps) {
    const int64_t offset = static_cast<int64_t>(blockIdx.x) * group_size;
    float sum = 0.0f;
    float sum_sq = 0.0f;
    for (int i = threadIdx.x; i < group_size; i += blockDim.x) {
        const float v = x[offset + i];
        sum += v;
        sum_sq += v * v;
    }
    sum = block_sum(sum);
    sum_sq = block_sum(sum_sq);
    if (threadIdx.x == 0) {
        const float m = sum / group_size;
        mean[blockIdx.x] = m;
        rstd[blockIdx.x] = rsqrtf(sum_sq / group_size - m * m + eps);
    }
}

__global__ void group_apply_kernel(const float* __restrict__ x, const float* __restrict__ mean,
                                   const float* __restrict__ rstd, const float* __restrict__ gamma,
                                   const float* __restrict__ beta, float* __restrict__ y,
                                   int channels, int spatial, int groups, int64_t total) {
    const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
    if (i >= total) return;
    const int ch = static_cast<int>((i / spatial) % channels);
    const int sample = static_cast<int>(i / (static_cast<int64_t>(spatial) * channels));
    const int g = sample * groups + ch / (channels / groups);
    y[i] = (x[i] - mean[g]) * rstd[g] * gamma[ch] + beta[ch];
}

void group_norm_forward(const DeviceBuffer<float>& x, const DeviceBuffer<float>& gamma, const DeviceBuffer<float>& beta,
                        DeviceBuffer<float>& y, const Shape& shape, float eps = 1e-5f, cudaStream_t stream = nullptr) {
    const int num_groups = shape.n * shape.groups;
    DeviceBuffer<float> mean(num_groups);
    DeviceBuffer<float> rstd(num_groups);

    constexpr int kBlock = 256;
    group_stats_kernel<<<num_groups, kBlock, 0, stream>>>(x.get(), mean.get(), rstd.get(), shape.group_size(), eps);
    check(cudaGetLastError(), "group_stats_kernel");

    const auto total = static_cast<int64_t>(shape.elements());
    const auto blocks = static_cast<unsigned>((total + kBlock - 1) / kBlock);
    group_apply_kernel<<<blocks, kBlock, 0, stream>>>(x.get(), mean.get(), rstd.get(), gamma.get(), beta.get(), y.get(),
                                                      shape.c, shape.h * shape.w, shape.groups, total);
    check(cudaGetLastError(), "group_apply_kernel");
}

}  // namespace gn

int main() {
    const gn::Shape shape{.n = 4, .c = 64, .h = 56, .w = 56, .groups = 8};

    std::mt19937 rng{1234};
    std::uniform_real_distribution<float> uniform{-1.0f, 1.0f};
    auto random_vector = [&](std::size_t count) {
        std::vector<float> v(count);
        for (auto& e : v) e = uniform(rng);
        return v;
    };

    try {
        gn::DeviceBuffer<float> x(shape.elements()), y(shape.elements());
        gn::DeviceBuffer<float> gamma(shape.c), beta(shape.c);
        x.upload(random_vector(shape.elements()));
        gamma.upload(random_vector(shape.c));
        beta.upload(random_vector(shape.c));
        gn::group_norm_forward(x, gamma, beta, y, shape);
        gn::check(cudaDeviceSynchronize(), "synchronize");
        const auto result = y.download();
        std::cout << "y[0] = " << result.front() << '\n';
    } catch (const std::exception& e) {
        std::cerr << "error: " << e.what() << '\n';
        return 1;
    }
    return 0;
}
