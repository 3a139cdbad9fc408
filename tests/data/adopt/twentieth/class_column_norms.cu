// Column norms of a tall matrix. Row-major, T is float or double.
// part of a small linear algebra lab (QR); the class template owns the buffers
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <vector>

namespace lab {

inline void check(cudaError_t status, const char* expr, int line) {
    if (status != cudaSuccess) {
        std::cerr << "line " << line << ": " << expr << " -> " << cudaGetErrorName(status) << std::endl;
        std::abort();
    }
}
#define LAB_CHECK(expr) ::lab::check((expr), #expr, __LINE__)

template <typename T>
__global__ void colNormsKernel(const T* __restrict__ A, T* __restrict__ norms, int rows, int cols, int lda) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c < cols) {
        T s = T(0);
        for (int r = 0; r < rows; ++r) {
            const T v = A[static_cast<size_t>(r) * lda + c];
            s += v * v;
        }
        norms[c] = sqrt(s);
    }
}

template <typename T>
__global__ void scaleKernel(T* __restrict__ A, const T* __restrict__ norms, int rows, int cols, int lda) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x;
    const int r = blockIdx.y * blockDim.y + threadIdx.y;
    if (c < cols && r < rows) A[static_cast<size_t>(r) * lda + c] /= norms[c] + T(1e-20);
}

template <typename T, int kThreads = 128>
class ColumnNormalizer {
public:
    ColumnNormalizer(int rows, int cols) : rows_(rows), cols_(cols), bytes_(sizeof(T) * rows * cols) {
        LAB_CHECK(cudaMalloc(&A_, bytes_));
        LAB_CHECK(cudaMalloc(&norms_, sizeof(T) * cols_));
    }
    ~ColumnNormalizer() {
        cudaFree(A_);
        cudaFree(norms_);
    }
    ColumnNormalizer(const ColumnNormalizer&) = delete;
    ColumnNormalizer& operator=(const ColumnNormalizer&) = delete;

    void upload(const std::vector<T>& host) {
        assert(host.size() * sizeof(T) == bytes_);
        LAB_CHECK(cudaMemcpy(A_, host.data(), bytes_, cudaMemcpyHostToDevice));
    }

    void run() {
        const int blocks = (cols_ + kThreads - 1) / kThreads;
        colNormsKernel<T><<<blocks, kThreads>>>(A_, norms_, rows_, cols_, cols_);
        LAB_CHECK(cudaGetLastError());
        const dim3 threads(32, 8);
        const dim3 grid((cols_ + threads.x - 1) / threads.x, (rows_ + threads.y - 1) / threads.y);
        scaleKernel<T><<<grid, threads>>>(A_, norms_, rows_, cols_, cols_);
        LAB_CHECK(cudaGetLastError());
    }

    void download(std::vector<T>& host, std::vector<T>& norms) const {
        host.resize(static_cast<size_t>(rows_) * cols_);
        norms.resize(cols_);
        LAB_CHECK(cudaMemcpy(host.data(), A_, bytes_, cudaMemcpyDeviceToHost));
        LAB_CHECK(cudaMemcpy(norms.data(), norms_, sizeof(T) * cols_, cudaMemcpyDeviceToHost));
    }

private:
    int rows_, cols_;
    size_t bytes_;
    T* A_ = nullptr;
    T* norms_ = nullptr;
};

}  // namespace lab

int main() {
    constexpr int rows = 4096, cols = 192;
    std::vector<float> A(static_cast<size_t>(rows) * cols), norms;
    for (auto& a : A) a = 2.0f * std::rand() / RAND_MAX - 1.0f;
    auto normalizer = std::make_unique<lab::ColumnNormalizer<float>>(rows, cols);
    normalizer->upload(A);
    normalizer->run();
    normalizer->download(A, norms);
    double worst = 0;
    for (int c = 0; c < cols; ++c) {
        double s = 0;
        for (int r = 0; r < rows; ++r) s += double(A[size_t(r) * cols + c]) * A[size_t(r) * cols + c];
        worst = std::max(worst, std::abs(s - 1.0));
    }
    std::cout << "largest deviation from 1: " << worst << std::endl;
    return worst < 1e-4 ? 0 : 1;
}
