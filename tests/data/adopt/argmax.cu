// Row-wise argmax: each thread scans a row. For sampling the next token from logits.
#include <cuda_runtime.h>
#include <cfloat>
#include <cstdio>
#include <vector>

__global__ void argmax_rows(const float *logits, int *index, float *value, size_t rows, size_t cols) {
    size_t row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float best = -FLT_MAX;
    int where = 0;
    for (size_t c = 0; c < cols; ++c) {
        float v = logits[row * cols + c];
        if (v > best) {
            best = v;
            where = (int)c;
        }
    }
    index[row] = where;
    value[row] = best;
}

int main() {
    size_t rows = 512, cols = 4096;
    std::vector<float> logits(rows * cols);
    for (size_t i = 0; i < logits.size(); ++i) logits[i] = (float)((i * 2654435761u) % 10007);
    float *d_logits, *d_value;
    int *d_index;
    cudaMalloc(&d_logits, logits.size() * sizeof(float));
    cudaMalloc(&d_index, rows * sizeof(int));
    cudaMalloc(&d_value, rows * sizeof(float));
    cudaMemcpy(d_logits, logits.data(), logits.size() * sizeof(float), cudaMemcpyHostToDevice);
    unsigned threads = 64;
    argmax_rows<<<(rows + threads - 1) / threads, threads>>>(d_logits, d_index, d_value, rows, cols);
    std::vector<int> index(rows);
    std::vector<float> value(rows);
    cudaMemcpy(index.data(), d_index, rows * sizeof(int), cudaMemcpyDeviceToHost);
    cudaMemcpy(value.data(), d_value, rows * sizeof(float), cudaMemcpyDeviceToHost);
    printf("%d %f\n", index[0], value[0]);
    cudaFree(d_logits);
    cudaFree(d_index);
    cudaFree(d_value);
}
