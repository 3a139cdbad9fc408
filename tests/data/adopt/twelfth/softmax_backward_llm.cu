/**
 * @file softmax_backward.cu
 * @brief Backward pass of a row-wise softmax: grad_in = y * (grad_out - sum(grad_out * y)).
 *
 * Generated as a self-contained example with RAII device buffers.
 */
#include <cuda_runtime.h>

#include <cstddef>
#include <iostream>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

inline void checkCuda(cudaError_t result, const char* what) {
    if (result != cudaSuccess) {
        throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(result));
    }
}

template <typename T>
class DeviceBuffer {
public:
    explicit DeviceBuffer(std::size_t count) : count_(count) {
        checkCuda(cudaMalloc(reinterpret_cast<void**>(&ptr_), count * sizeof(T)), "cudaMalloc");
    }
    DeviceBuffer(const DeviceBuffer&) = delete;
    DeviceBuffer& operator=(const DeviceBuffer&) = delete;
    ~DeviceBuffer() { cudaFree(ptr_); }
    void upload(const std::vector<T>& host) {
        checkCuda(cudaMemcpy(ptr_, host.data(), count_ * sizeof(T), cudaMemcpyHostToDevice), "upload");
    }
    void download(std::vector<T>& host) const {
        checkCuda(cudaMemcpy(host.data(), ptr_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "download");
    }
    T* get() { return ptr_; }
    const T* get() const { return ptr_; }
    std::size_t size() const noexcept { return count_; }

private:
    T* ptr_ = nullptr;
    std::size_t count_ = 0;
};

/// One thread handles one row.
__global__ void softmaxBackwardKernel(const float* __restrict__ y, const float* __restrict__ grad_out,
                                      float* __restrict__ grad_in, const unsigned int batch, const unsigned int classes) {
    const unsigned int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= batch) {
        return;
    }
    float dot = 0.0f;
    for (unsigned int c = 0; c < classes; ++c) {
        dot += grad_out[row * classes + c] * y[row * classes + c];
    }
    for (unsigned int c = 0; c < classes; ++c) {
        const unsigned int idx = row * classes + c;
        grad_in[idx] = y[idx] * (grad_out[idx] - dot);
    }
}

struct Config {
    unsigned int batch = 4096;
    unsigned int classes = 512;
    unsigned int threadsPerBlock = 256;
};

int main() {
    try {
        const Config config{};
        const std::size_t total = static_cast<std::size_t>(config.batch) * config.classes;
        std::vector<float> y(total), gradOut(total), gradIn(total, 0.0f);
        std::mt19937 rng(1234);
        std::normal_distribution<float> normal(0.0f, 1.0f);
        for (std::size_t i = 0; i < total; ++i) {
            y[i] = 1.0f / static_cast<float>(config.classes);
            gradOut[i] = normal(rng);
        }
        DeviceBuffer<float> dY(total), dGradOut(total), dGradIn(total);
        dY.upload(y);
        dGradOut.upload(gradOut);
        const unsigned int blocks = (config.batch + config.threadsPerBlock - 1) / config.threadsPerBlock;
        softmaxBackwardKernel<<<blocks, config.threadsPerBlock>>>(dY.get(), dGradOut.get(), dGradIn.get(), config.batch,
                                                                 config.classes);
        checkCuda(cudaGetLastError(), "launch");
        checkCuda(cudaDeviceSynchronize(), "sync");
        dGradIn.download(gradIn);
        std::cout << "sum = " << std::accumulate(gradIn.begin(), gradIn.end(), 0.0) << '\n';
    } catch (const std::exception& e) {
        std::cerr << "Fatal: " << e.what() << '\n';
        return 1;
    }
    return 0;
}
