#include <cuda_runtime.h>

// Sparse matrix (CSR) times dense vector.
// values, col_idx: nnz entries; row_ptr: M + 1 entries
__global__ void spmv_kernel(const float* values, const int* col_idx, const int* row_ptr, const float* x, float* y, int M, int N) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < M) {
        float sum = 0.0f;
        for (int j = row_ptr[row]; j < row_ptr[row + 1]; j++) {
            sum += values[j] * x[col_idx[j]];
        }
        y[row] = sum;
    }
}

// values, col_idx, row_ptr, x, y are device pointers
extern "C" void solve(const float* values, const int* col_idx, const int* row_ptr, const float* x, float* y, int M, int N, int nnz) {
    int threadsPerBlock = 256;
    int blocksPerGrid = (M + threadsPerBlock - 1) / threadsPerBlock;
    spmv_kernel<<<blocksPerGrid, threadsPerBlock>>>(values, col_idx, row_ptr, x, y, M, N);
    cudaDeviceSynchronize();
}
