#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>

// y = A x, A sparse in CSR, one thread per row (the "scalar" kernel)
__global__ void spmv_csr_scalar(int num_rows, const int* row_ptr, const int* col_idx, const float* vals,
                                const float* x, float* y) {
    int row = blockDim.x * blockIdx.x + threadIdx.x;
    if (row < num_rows) {
        float dot = 0.0f;
        int row_start = row_ptr[row];
        int row_end = row_ptr[row + 1];
        for (int j = row_start; j < row_end; j++)
            dot += vals[j] * x[col_idx[j]];
        y[row] = dot;
    }
}

int main() {
    int n = 4096;
    std::vector<int> row_ptr(n + 1), col_idx;
    std::vector<float> vals;
    for (int i = 0; i < n; i++) {
        row_ptr[i] = (int)col_idx.size();
        int k = 16 + rand() % 32;
        for (int j = 0; j < k; j++) { col_idx.push_back(rand() % n); vals.push_back(1.0f); }
    }
    row_ptr[n] = (int)col_idx.size();
    int nnz = (int)vals.size();
    std::vector<float> x(n, 1.0f), y(n);

    int *d_row_ptr, *d_col_idx; float *d_vals, *d_x, *d_y;
    cudaMalloc(&d_row_ptr, (n + 1) * sizeof(int));
    cudaMalloc(&d_col_idx, nnz * sizeof(int));
    cudaMalloc(&d_vals, nnz * sizeof(float));
    cudaMalloc(&d_x, n * sizeof(float));
    cudaMalloc(&d_y, n * sizeof(float));
    cudaMemcpy(d_row_ptr, row_ptr.data(), (n + 1) * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(d_col_idx, col_idx.data(), nnz * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(d_vals, vals.data(), nnz * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_x, x.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    spmv_csr_scalar<<<(n + 255) / 256, 256>>>(n, d_row_ptr, d_col_idx, d_vals, d_x, d_y);
    cudaMemcpy(y.data(), d_y, n * sizeof(float), cudaMemcpyDeviceToHost);
    printf("%f\n", y[0]);
}
