// One warp would be better, they said. A matrix-vector product that adds onto y, row major.
#include <iostream>
#include <memory>
#include <stdexcept>
#include <cuda_runtime.h>

template <typename T>
class DeviceArray {
public:
    explicit DeviceArray(std::size_t n) : n_(n) {
        if (cudaMalloc(reinterpret_cast<void **>(&p_), n * sizeof(T)) != cudaSuccess) throw std::runtime_error("alloc");
    }
    ~DeviceArray() { cudaFree(p_); }
    DeviceArray(const DeviceArray &) = delete;
    void upload(const T *host) { cudaMemcpy(p_, host, n_ * sizeof(T), cudaMemcpyHostToDevice); }
    void download(T *host) const { cudaMemcpy(host, p_, n_ * sizeof(T), cudaMemcpyDeviceToHost); }
    T *get() const { return p_; }

private:
    T *p_ = nullptr;
    std::size_t n_;
};

template <typename T, int BLOCK>
__global__ void gemv_acc(const T *a, const T *x, T *y, unsigned rows, unsigned cols) {
    unsigned row = blockIdx.x * BLOCK + threadIdx.x;
    if (row >= rows) return;
    T sum = T(0);
    for (unsigned c = 0; c < cols; ++c) sum += a[row * cols + c] * x[c];
    y[row] += sum;
}

int main(int argc, char *argv[]) {
    const unsigned rows = argc > 1 ? std::stoul(argv[1]) : 1024;
    const unsigned cols = argc > 2 ? std::stoul(argv[2]) : 1536;
    constexpr int BLOCK = 64;
    auto a = std::make_unique<float[]>(rows * cols);
    auto x = std::make_unique<float[]>(cols);
    auto y = std::make_unique<float[]>(rows);
    DeviceArray<float> da(rows * cols), dx(cols), dy(rows);
    da.upload(a.get());
    dx.upload(x.get());
    dy.upload(y.get());
    gemv_acc<float, BLOCK><<<(rows + BLOCK - 1) / BLOCK, BLOCK>>>(da.get(), dx.get(), dy.get(), rows, cols);
    if (auto e = cudaDeviceSynchronize(); e != cudaSuccess) {
        std::cerr << cudaGetErrorString(e) << '\n';
        return 1;
    }
    dy.download(y.get());
    std::cout << y[0] << '\n';
}
