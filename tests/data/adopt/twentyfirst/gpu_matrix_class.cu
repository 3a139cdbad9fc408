// A little matrix class I use in my projects.   g++/nvcc -std=c++17
#include <cuda_runtime.h>
#include <iostream>
#include <memory>
#include <vector>
#include <stdexcept>
#include <string>
#include <utility>
#include <cmath>
#include <functional>

namespace gpu {

inline void check(cudaError_t err, const std::string& what)
{
    if (err != cudaSuccess)
        throw std::runtime_error(what + ": " + cudaGetErrorString(err));
}

template <typename T>
class Matrix
{
public:
    Matrix(size_t rows, size_t cols) : rows_{rows}, cols_{cols}, data_{nullptr}
    {
        check(cudaMalloc(reinterpret_cast<void**>(&data_), bytes()), "cudaMalloc");
    }
    Matrix(size_t rows, size_t cols, const std::vector<T>& host) : Matrix(rows, cols) { upload(host); }
    Matrix(const Matrix&) = delete;
    Matrix& operator=(const Matrix&) = delete;
    Matrix(Matrix&& other) noexcept
        : rows_(std::exchange(other.rows_, 0)), cols_(std::exchange(other.cols_, 0)), data_(std::exchange(other.data_, nullptr)) {}
    ~Matrix() noexcept { if (data_) cudaFree(data_); }

    size_t rows() const { return rows_; }
    size_t cols() const { return cols_; }
    size_t size() const { return rows_ * cols_; }
    size_t bytes() const { return size() * sizeof(T); }
    T* data() { return data_; }
    const T* data() const { return data_; }

    void upload(const std::vector<T>& host)
    {
        if (host.size() != size()) throw std::invalid_argument("size mismatch");
        check(cudaMemcpy(data_, host.data(), bytes(), cudaMemcpyHostToDevice), "upload");
    }
    std::vector<T> download() const
    {
        std::vector<T> host(size());
        check(cudaMemcpy(host.data(), data_, bytes(), cudaMemcpyDeviceToHost), "download");
        return host;
    }

private:
    size_t rows_, cols_;
    T* data_;
};

template <typename T>
__global__ void logsumexp_rows(const T* in, T* out, int rows, int cols)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows) {
        T m = in[r * cols];
        for (int c = 1; c < cols; ++c) m = in[r * cols + c] > m ? in[r * cols + c] : m;
        T s = 0;
        for (int c = 0; c < cols; ++c) s += exp(in[r * cols + c] - m);
        out[r] = m + log(s);
    }
}

template <typename T>
Matrix<T> logsumexp(const Matrix<T>& m)
{
    Matrix<T> result(m.rows(), 1);
    const unsigned int block = 128;
    const unsigned int grid = static_cast<unsigned int>((m.rows() + block - 1) / block);
    logsumexp_rows<T><<<grid, block>>>(m.data(), result.data(), static_cast<int>(m.rows()), static_cast<int>(m.cols()));
    check(cudaGetLastError(), "logsumexp launch");
    check(cudaDeviceSynchronize(), "logsumexp");
    return result;
}

}  // namespace gpu

int main(int argc, char* argv[])
try {
    const size_t rows = argc > 1 ? std::stoul(argv[1]) : 2000;
    const size_t cols = argc > 2 ? std::stoul(argv[2]) : 1000;
    std::vector<float> host(rows * cols);
    for (size_t i = 0; i < host.size(); ++i) host[i] = std::sin(0.37f * static_cast<float>(i));

    gpu::Matrix<float> a(rows, cols, host);
    auto lse = gpu::logsumexp(a);
    auto back = lse.download();

    double worst = 0.0;
    for (size_t r = 0; r < rows; ++r) {
        double s = 0.0;
        for (size_t c = 0; c < cols; ++c) s += std::exp(static_cast<double>(host[r * cols + c]));
        worst = std::max(worst, std::fabs(std::log(s) - back[r]));
    }
    std::cout << "largest difference " << worst << "\n";
    return worst < 1e-3 ? 0 : 1;
}
catch (const std::exception& e) {
    std::cerr << "error: " << e.what() << "\n";
    return 2;
}
