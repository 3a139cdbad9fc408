#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/generate.h>
#include <cstdlib>
#include <iostream>

// z-score of each column of a row-major matrix
template <typename T>
__global__ void column_stats(const T* x, T* mean, T* inv_std, int rows, int cols, T eps) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    T sum = 0, sq = 0;
    for (int r = 0; r < rows; ++r) {
        T v = x[r * cols + c];
        sum += v;
        sq += v * v;
    }
    T m = sum / rows;
    mean[c] = m;
    inv_std[c] = rsqrt(sq / rows - m * m + eps);
}

template <typename T>
__global__ void standardize(const T* x, const T* mean, const T* inv_std, T* y, int rows, int cols) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y;
    if (c < cols) y[r * cols + c] = (x[r * cols + c] - mean[c]) * inv_std[c];
}

int main(int argc, char* argv[]) {
    const int rows = argc > 1 ? std::stoi(argv[1]) : 4096;
    const int cols = argc > 2 ? std::stoi(argv[2]) : 256;
    thrust::host_vector<float> h_x(rows * cols);
    thrust::generate(h_x.begin(), h_x.end(), [] { return float(rand()) / RAND_MAX; });
    thrust::device_vector<float> x = h_x;
    thrust::device_vector<float> y(rows * cols), mean(cols), inv_std(cols);
    const int tpb = 128;
    column_stats<float><<<(cols + tpb - 1) / tpb, tpb>>>(
        thrust::raw_pointer_cast(x.data()), thrust::raw_pointer_cast(mean.data()),
        thrust::raw_pointer_cast(inv_std.data()), rows, cols, 1e-5f);
    standardize<float><<<dim3((cols + tpb - 1) / tpb, rows), tpb>>>(
        thrust::raw_pointer_cast(x.data()), thrust::raw_pointer_cast(mean.data()),
        thrust::raw_pointer_cast(inv_std.data()), thrust::raw_pointer_cast(y.data()), rows, cols);
    thrust::host_vector<float> out = y;
    std::cout << out[0] << std::endl;
    return 0;
}
