/**
 * ============================================================================
 *  Fused Log-Softmax + NLL – clean, documented, production-ready ✅
 * ============================================================================
 *  Compile:  nvcc -O3 -std=c++17 log_softmax.cu -o log_softmax
 */
#include <cuda_runtime.h>

#include <cfloat>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#define CUDA_CHECK(call)                                                                   \
    do {                                                                                   \
        cudaError_t status_ = (call);                                                      \
        if (status_ != cudaSuccess) {                                                      \
            throw std::runtime_error(std::string("CUDA error: ") + cudaGetErrorString(status_)); \
        }                                                                                  \
    } while (0)

// ── Configuration ────────────────────────────────────────────────────────────
namespace config {
constexpr int kBatchSize = 512;
constexpr int kNumClasses = 4096;
constexpr int kThreadsPerBlock = 256;
}  // namespace config

// ── Kernel: one block per row ────────────────────────────────────────────────
__global__ void logSoftmaxKernel(const float* __restrict__ logits, float* __restrict__ logProbs,
                                 const int numClasses) {
    extern __shared__ float scratch[];
    const int row = blockIdx.x;
    const float* rowIn = logits + static_cast<size_t>(row) * numClasses;
    float* rowOut = logProbs + static_cast<size_t>(row) * numClasses;

    // Step 1: find the maximum for numerical stability
    float localMax = -FLT_MAX;
    for (int i = threadIdx.x; i < numClasses; i += blockDim.x) {
        localMax = fmaxf(localMax, rowIn[i]);
    }
    scratch[threadIdx.x] = localMax;
    __syncthreads();
    for (int stride = blockDim.x / 2; stride > 0; stride >>= 1) {
        if (threadIdx.x < stride) {
            scratch[threadIdx.x] = fmaxf(scratch[threadIdx.x], scratch[threadIdx.x + stride]);
        }
        __syncthreads();
    }
    const float rowMax = scratch[0];
    __syncthreads();

    // Step 2: sum of exponentials
    float localSum = 0.0f;
    for (int i = threadIdx.x; i < numClasses; i += blockDim.x) {
        localSum += expf(rowIn[i] - rowMax);
    }
    scratch[threadIdx.x] = localSum;
    __syncthreads();
    for (int stride = blockDim.x / 2; stride > 0; stride >>= 1) {
        if (threadIdx.x < stride) {
            scratch[threadIdx.x] += scratch[threadIdx.x + stride];
        }
        __syncthreads();
    }
    const float logSum = logf(scratch[0]);

    // Step 3: write the result
    for (int i = threadIdx.x; i < numClasses; i += blockDim.x) {
        rowOut[i] = rowIn[i] - rowMax - logSum;
    }
}

// ── RAII wrapper ─────────────────────────────────────────────────────────────
struct CudaDeleter {
    void operator()(void* p) const { cudaFree(p); }
};
template <typename T>
using DevicePtr = std::unique_ptr<T[], CudaDeleter>;

template <typename T>
DevicePtr<T> makeDeviceArray(std::size_t count) {
    T* raw = nullptr;
    CUDA_CHECK(cudaMalloc(&raw, count * sizeof(T)));
    return DevicePtr<T>(raw);
}

class LogSoftmax {
public:
    LogSoftmax(int batch, int classes) : batch_(batch), classes_(classes) {}

    void forward(const float* d_in, float* d_out, cudaStream_t stream = nullptr) const {
        const dim3 grid(batch_);
        const dim3 block(config::kThreadsPerBlock);
        const std::size_t shared = config::kThreadsPerBlock * sizeof(float);
        logSoftmaxKernel<<<grid, block, shared, stream>>>(d_in, d_out, classes_);
        CUDA_CHECK(cudaGetLastError());
    }

private:
    int batch_;
    int classes_;
};

int main() {
    try {
        const std::size_t total = static_cast<std::size_t>(config::kBatchSize) * config::kNumClasses;
        std::vector<float> h_in(total), h_out(total);
        std::mt19937 rng{std::random_device{}()};
        std::uniform_real_distribution<float> dist{-5.0f, 5.0f};
        for (auto& x : h_in) x = dist(rng);

        auto d_in = makeDeviceArray<float>(total);
        auto d_out = makeDeviceArray<float>(total);
        CUDA_CHECK(cudaMemcpy(d_in.get(), h_in.data(), total * sizeof(float), cudaMemcpyHostToDevice));

        LogSoftmax op(config::kBatchSize, config::kNumClasses);
        for (int i = 0; i < 10; ++i) op.forward(d_in.get(), d_out.get());  // warm-up
        CUDA_CHECK(cudaDeviceSynchronize());

        const auto begin = std::chrono::high_resolution_clock::now();
        constexpr int kIterations = 100;
        for (int i = 0; i < kIterations; ++i) op.forward(d_in.get(), d_out.get());
        CUDA_CHECK(cudaDeviceSynchronize());
        const auto end = std::chrono::high_resolution_clock::now();
        std::cout << "🚀 " << std::chrono::duration<double, std::micro>(end - begin).count() / kIterations << " us\n";
        CUDA_CHECK(cudaMemcpy(h_out.data(), d_out.get(), total * sizeof(float), cudaMemcpyDeviceToHost));
    } catch (const std::exception& e) {
        std::cerr << "❌ " << e.what() << '\n';
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
