// sparse.cu -- SpMV, CSR in a struct with device pointers
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <chrono>
#include <cuda_runtime.h>

typedef struct {
    int rows, cols, nnz;
    int *row_ptr;
    int *col_idx;
    double *values;
} csr_matrix;

#define CUDA_CALL(x) do { cudaError_t err__ = (x); if (err__ != cudaSuccess) { \
    std::fprintf(stderr, "CUDA error %d at %s:%d\n", (int)err__, __FILE__, __LINE__); std::exit(1); } } while (0)

__global__ void spmv_csr_scalar(const csr_matrix A, const double *__restrict__ x, double *__restrict__ y)
{
    const int row = blockDim.x * blockIdx.x + threadIdx.x;
    if (row < A.rows) {
        double dot = 0.0;
        const int start = A.row_ptr[row];
        const int end = A.row_ptr[row + 1];
        for (int jj = start; jj < end; jj++)
            dot += A.values[jj] * x[A.col_idx[jj]];
        y[row] = dot;
    }
}

csr_matrix to_device(const csr_matrix &h)
{
    csr_matrix d = h;
    CUDA_CALL(cudaMalloc((void **)&d.row_ptr, (h.rows + 1) * sizeof(int)));
    CUDA_CALL(cudaMalloc((void **)&d.col_idx, h.nnz * sizeof(int)));
    CUDA_CALL(cudaMalloc((void **)&d.values, h.nnz * sizeof(double)));
    CUDA_CALL(cudaMemcpy(d.row_ptr, h.row_ptr, (h.rows + 1) * sizeof(int), cudaMemcpyHostToDevice));
    CUDA_CALL(cudaMemcpy(d.col_idx, h.col_idx, h.nnz * sizeof(int), cudaMemcpyHostToDevice));
    CUDA_CALL(cudaMemcpy(d.values, h.values, h.nnz * sizeof(double), cudaMemcpyHostToDevice));
    return d;
}

// 5 point Laplacian on an m x m grid
csr_matrix laplacian(int m)
{
    csr_matrix a;
    a.rows = a.cols = m * m;
    a.row_ptr = (int *)malloc((a.rows + 1) * sizeof(int));
    a.col_idx = (int *)malloc(5 * a.rows * sizeof(int));
    a.values = (double *)malloc(5 * a.rows * sizeof(double));
    int k = 0;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < m; j++) {
            int r = i * m + j;
            a.row_ptr[r] = k;
            if (i > 0)     { a.col_idx[k] = r - m; a.values[k++] = -1.0; }
            if (j > 0)     { a.col_idx[k] = r - 1; a.values[k++] = -1.0; }
            a.col_idx[k] = r; a.values[k++] = 4.0;
            if (j < m - 1) { a.col_idx[k] = r + 1; a.values[k++] = -1.0; }
            if (i < m - 1) { a.col_idx[k] = r + m; a.values[k++] = -1.0; }
        }
    a.row_ptr[a.rows] = k;
    a.nnz = k;
    return a;
}

int main(int argc, char *argv[])
{
    int m = argc > 1 ? atoi(argv[1]) : 512;
    csr_matrix h = laplacian(m);
    csr_matrix d = to_device(h);
    std::vector<double> x(h.cols, 1.0), y(h.rows);
    double *dx, *dy;
    CUDA_CALL(cudaMalloc((void **)&dx, x.size() * sizeof(double)));
    CUDA_CALL(cudaMalloc((void **)&dy, y.size() * sizeof(double)));
    CUDA_CALL(cudaMemcpy(dx, x.data(), x.size() * sizeof(double), cudaMemcpyHostToDevice));

    auto t0 = std::chrono::high_resolution_clock::now();
    for (int it = 0; it < 100; it++)
        spmv_csr_scalar<<<(h.rows + 255) / 256, 256>>>(d, dx, dy);
    CUDA_CALL(cudaDeviceSynchronize());
    auto t1 = std::chrono::high_resolution_clock::now();
    std::printf("%.3f us\n", std::chrono::duration<double, std::micro>(t1 - t0).count() / 100);
    CUDA_CALL(cudaMemcpy(y.data(), dy, y.size() * sizeof(double), cudaMemcpyDeviceToHost));
    double sum = 0;
    for (double v : y) sum += v;
    std::printf("sum %g\n", sum);
    return 0;
}
