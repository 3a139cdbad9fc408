// From the blog post "Batch statistics on the GPU, part 1: the obvious kernel"
#include <cassert>
#include <cstdio>
#include <memory>
#include <vector>

#define CUDA_CHECK(call)                                                                   \
    do {                                                                                   \
        cudaError_t status_ = (call);                                                      \
        if (status_ != cudaSuccess) {                                                      \
            fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(status_)); \
            std::abort();                                                                  \
        }                                                                                  \
    } while (0)

namespace stats {

template <typename T>
__global__ void column_stats_kernel(const T* __restrict__ in, T* __restrict__ mean, T* __restrict__ inv_std,
                                    int batch, int features, T eps) {
    const int f = blockIdx.x * blockDim.x + threadIdx.x;
    if (f >= features) return;
    T s = T(0);
    for (int b = 0; b < batch; ++b) s += in[b * features + f];
    const T mu = s / T(batch);
    T v = T(0);
    for (int b = 0; b < batch; ++b) {
        const T d = in[b * features + f] - mu;
        v += d * d;
    }
    mean[f] = mu;
    inv_std[f] = T(1) / sqrt(v / T(batch) + eps);
}

template <typename T>
void column_stats(const T* in, T* mean, T* inv_std, int batch, int features, T eps, cudaStream_t stream = nullptr) {
    constexpr int kThreads = 128;
    const int blocks = (features + kThreads - 1) / kThreads;
    column_stats_kernel<T><<<blocks, kThreads, 0, stream>>>(in, mean, inv_std, batch, features, eps);
    CUDA_CHECK(cudaGetLastError());
}

}  // namespace stats

int main() {
    constexpr int batch = 2048;
    constexpr int features = 768;
    std::vector<float> host(batch * features, 0.5f);
    float *in = nullptr, *mean = nullptr, *inv_std = nullptr;
    CUDA_CHECK(cudaMalloc(&in, sizeof(float) * batch * features));
    CUDA_CHECK(cudaMalloc(&mean, sizeof(float) * features));
    CUDA_CHECK(cudaMalloc(&inv_std, sizeof(float) * features));
    CUDA_CHECK(cudaMemcpy(in, host.data(), sizeof(float) * host.size(), cudaMemcpyHostToDevice));
    stats::column_stats(in, mean, inv_std, batch, features, 1e-5f);
    CUDA_CHECK(cudaDeviceSynchronize());
    std::vector<float> m(features), is(features);
    CUDA_CHECK(cudaMemcpy(m.data(), mean, sizeof(float) * features, cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(is.data(), inv_std, sizeof(float) * features, cudaMemcpyDeviceToHost));
    printf("mean[0]=%f inv_std[0]=%f\n", m[0], is[0]);
    cudaFree(in); cudaFree(mean); cudaFree(inv_std);
    return 0;
}
