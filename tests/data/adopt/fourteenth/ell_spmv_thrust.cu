// y = A x with A in ELLPACK format (column-major slots), from my sparse matrix notes.
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/fill.h>
#include <cstdlib>
#include <iostream>

template <typename IndexT, typename ValueT>
__global__ void ell_spmv(IndexT num_rows, IndexT slots, IndexT stride,
                         const IndexT* __restrict__ cols, const ValueT* __restrict__ vals,
                         const ValueT* __restrict__ x, ValueT* __restrict__ y)
{
    const IndexT row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < num_rows) {
        ValueT dot = 0;
        for (IndexT s = 0; s < slots; s++) {
            const IndexT col = cols[s * stride + row];
            if (col >= 0)
                dot += vals[s * stride + row] * x[col];
        }
        y[row] = dot;
    }
}

template <typename T>
T* ptr(thrust::device_vector<T>& v) { return thrust::raw_pointer_cast(v.data()); }

int main()
{
    constexpr int kRows = 1 << 17;
    constexpr int kSlots = 12;

    thrust::host_vector<int> h_cols(kRows * kSlots, -1);
    thrust::host_vector<float> h_vals(kRows * kSlots, 0.f);
    for (int r = 0; r < kRows; r++) {
        int used = 1 + rand() % kSlots;
        for (int s = 0; s < used; s++) {
            h_cols[s * kRows + r] = rand() % kRows;
            h_vals[s * kRows + r] = rand() / (float)RAND_MAX;
        }
    }
    thrust::device_vector<int> cols = h_cols;
    thrust::device_vector<float> vals = h_vals;
    thrust::device_vector<float> x(kRows);
    thrust::device_vector<float> y(kRows);
    thrust::fill(x.begin(), x.end(), 1.0f);

    const int block = 128;
    const int grid = (kRows + block - 1) / block;
    ell_spmv<int, float><<<grid, block>>>(kRows, kSlots, kRows, ptr(cols), ptr(vals), ptr(x), ptr(y));
    cudaDeviceSynchronize();

    thrust::host_vector<float> result = y;
    std::cout << "y[0] = " << result[0] << std::endl;
    return 0;
}
