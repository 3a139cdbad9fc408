// modern.cu: row-wise L2 normalisation with a small RAII buffer and a benchmark helper.  nvcc -std=c++17
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <numeric>
#include <vector>

#define CHECK(x) check((x), #x)
static void check(cudaError_t e, const char* what) { if (e != cudaSuccess) { printf("%s failed: %s\n", what, cudaGetErrorString(e)); std::abort(); } }

template <typename T>
class DeviceBuffer {
public:
    explicit DeviceBuffer(std::size_t count) : count_(count) { CHECK(cudaMalloc(&ptr_, count_ * sizeof(T))); }
    DeviceBuffer(const std::vector<T>& host) : DeviceBuffer(host.size()) { upload(host); }
    ~DeviceBuffer() { cudaFree(ptr_); }
    DeviceBuffer(const DeviceBuffer&) = delete;
    void upload(const std::vector<T>& host) { CHECK(cudaMemcpy(ptr_, host.data(), count_ * sizeof(T), cudaMemcpyHostToDevice)); }
    std::vector<T> download() const {
        std::vector<T> host(count_);
        CHECK(cudaMemcpy(host.data(), ptr_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
        return host;
    }
    T* get() { return ptr_; }
    const T* get() const { return ptr_; }
    std::size_t size() const { return count_; }
private:
    T* ptr_ = nullptr;
    std::size_t count_ = 0;
};

template <typename F>
float time_ms(F&& run, int repeats = 20) {
    run();
    cudaEvent_t a, b;
    cudaEventCreate(&a); cudaEventCreate(&b);
    cudaEventRecord(a);
    for (int i = 0; i < repeats; ++i) run();
    cudaEventRecord(b);
    cudaEventSynchronize(b);
    float ms = 0;
    cudaEventElapsedTime(&ms, a, b);
    return ms / repeats;
}

template <typename T, int kThreads>
__global__ void l2_normalize(const T* __restrict__ in, T* __restrict__ out, int rows, int cols, float eps) {
    __shared__ float partial[kThreads];
    const int row = blockIdx.x;
    const T* x = in + static_cast<std::size_t>(row) * cols;
    float sum = 0.f;
    for (int i = threadIdx.x; i < cols; i += kThreads) { float v = static_cast<float>(x[i]); sum += v * v; }
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int s = kThreads / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s) partial[threadIdx.x] += partial[threadIdx.x + s];
        __syncthreads();
    }
    const float scale = 1.f / sqrtf(partial[0] + eps);
    for (int i = threadIdx.x; i < cols; i += kThreads)
        out[static_cast<std::size_t>(row) * cols + i] = static_cast<T>(static_cast<float>(x[i]) * scale);
}

int main() {
    constexpr int rows = 4096, cols = 1024;
    std::vector<float> host(rows * cols);
    std::iota(host.begin(), host.end(), 0.f);
    DeviceBuffer<float> in(host);
    DeviceBuffer<float> out(host.size());
    auto launch = [&] {
        l2_normalize<float, 128><<<rows, 128>>>(in.get(), out.get(), rows, cols, 1e-6f);
        CHECK(cudaGetLastError());
    };
    const float ms = time_ms(launch);
    const auto result = out.download();
    printf("%f ms, %f GB/s, first %f\n", ms, 2.0 * in.size() * sizeof(float) / ms / 1e6, result[0]);
}
