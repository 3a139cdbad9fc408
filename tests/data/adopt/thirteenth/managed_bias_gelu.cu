// Bias + GELU in place on unified memory, then the mean of each row.
#include <iostream>
#include <cmath>

inline void check(cudaError_t e, const char* what) {
    if (e != cudaSuccess) { std::cerr << what << ": " << cudaGetErrorString(e) << std::endl; std::exit(1); }
}

struct Layer {
    int rows, cols;
    float* data;   // unified, [rows, cols]
    float* bias;   // unified, [cols]
    float* mean;   // unified, [rows]
    Layer(int r, int c) : rows(r), cols(c) {
        check(cudaMallocManaged(&data, sizeof(float) * r * c), "data");
        check(cudaMallocManaged(&bias, sizeof(float) * c), "bias");
        check(cudaMallocManaged(&mean, sizeof(float) * r), "mean");
    }
    ~Layer() { cudaFree(data); cudaFree(bias); cudaFree(mean); }
};

__device__ inline float gelu(float x) {
    return 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
}

__global__ void bias_gelu(float* data, const float* bias, int rows, int cols) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows * cols; i += gridDim.x * blockDim.x)
        data[i] = gelu(data[i] + bias[i % cols]);
}

__global__ void row_mean(const float* data, float* mean, int rows, int cols) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows) {
        float s = 0.f;
        for (int c = 0; c < cols; c++) s += data[r * cols + c];
        mean[r] = s / cols;
    }
}

int main() {
    const int rows = 2048, cols = 1024;
    Layer layer(rows, cols);
    for (int i = 0; i < rows * cols; ++i) layer.data[i] = std::sin(i * 0.001f);
    for (int c = 0; c < cols; ++c) layer.bias[c] = 0.01f * c;

    int threads = 256;
    bias_gelu<<<160, threads>>>(layer.data, layer.bias, layer.rows, layer.cols);
    row_mean<<<(layer.rows + threads - 1) / threads, threads>>>(layer.data, layer.mean, layer.rows, layer.cols);
    check(cudaDeviceSynchronize(), "run");
    std::cout << "mean of row 0: " << layer.mean[0] << "\n";
}
