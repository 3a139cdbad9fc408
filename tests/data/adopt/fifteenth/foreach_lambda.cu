// parallel_for with extended lambdas -- compile with: nvcc -std=c++17 --extended-lambda foreach_lambda.cu
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <cuda_runtime.h>

namespace gpu {

inline void check(cudaError_t e, const char* what) {
    if (e != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(e));
}

template <typename F>
__global__ void for_each_kernel(int n, F f) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) f(i);
}

template <typename F>
void parallel_for(int n, F f) {
    constexpr int block = 128;
    int grid = (n + block - 1) / block;
    for_each_kernel<<<grid, block>>>(n, f);
    check(cudaGetLastError(), "parallel_for");
}

template <typename T>
class buffer {
public:
    explicit buffer(size_t n) : n_(n) { check(cudaMalloc(&p_, n * sizeof(T)), "alloc"); }
    ~buffer() { cudaFree(p_); }
    buffer(const buffer&) = delete;
    buffer& operator=(const buffer&) = delete;
    T* data() { return p_; }
    size_t size() const { return n_; }
    void upload(const T* h) { check(cudaMemcpy(p_, h, n_ * sizeof(T), cudaMemcpyHostToDevice), "H2D"); }
    void download(T* h) const { check(cudaMemcpy(h, p_, n_ * sizeof(T), cudaMemcpyDeviceToHost), "D2H"); }
private:
    T* p_ = nullptr;
    size_t n_;
};

}  // namespace gpu

int main() {
    constexpr int rows = 2048, cols = 512;
    auto host = std::make_unique<float[]>(rows * cols);
    for (int i = 0; i < rows * cols; ++i) host[i] = static_cast<float>(i % 97) * 0.01f;

    gpu::buffer<float> a(rows * cols), norm(rows);
    a.upload(host.get());

    float* pa = a.data();
    float* pn = norm.data();
    const float eps = 1e-6f;
    gpu::parallel_for(rows, [=] __device__(int r) {
        float s = 0.f;
        for (int c = 0; c < cols; ++c) s += pa[r * cols + c] * pa[r * cols + c];
        pn[r] = rsqrtf(s + eps);
    });
    gpu::parallel_for(rows * cols, [=] __device__(int i) { pa[i] *= pn[i / cols]; });

    gpu::check(cudaDeviceSynchronize(), "sync");
    a.download(host.get());
    printf("%f %f\n", host[0], host[1]);
    return 0;
}
