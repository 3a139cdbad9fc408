%%cu
// feature histograms for gradient boosting: sums of gradients for each (feature, bin)
#include <cstdio>
#include <cstdlib>
#include <cstdint>

#define BINS 64

__global__ void build_hist(const uint8_t *binned, const float *grad, float *hist, int n_rows, int n_features)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    int f = blockIdx.y;
    if (row < n_rows) {
        uint8_t bin = binned[row * n_features + f];
        atomicAdd(&hist[f * BINS + bin], grad[row]);
    }
}

int main()
{
    int n_rows = 100000, n_features = 28;
    uint8_t *binned = (uint8_t *)malloc(n_rows * n_features);
    float *grad = (float *)malloc(n_rows * sizeof(float));
    float *hist = (float *)calloc(n_features * BINS, sizeof(float));
    for (int i = 0; i < n_rows * n_features; i++) binned[i] = rand() % BINS;
    for (int i = 0; i < n_rows; i++) grad[i] = rand() / (float)RAND_MAX - 0.5f;
    uint8_t *d_binned; float *d_grad, *d_hist;
    cudaMalloc(&d_binned, n_rows * n_features);
    cudaMalloc(&d_grad, n_rows * sizeof(float));
    cudaMalloc(&d_hist, n_features * BINS * sizeof(float));
    cudaMemcpy(d_binned, binned, n_rows * n_features, cudaMemcpyHostToDevice);
    cudaMemcpy(d_grad, grad, n_rows * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(d_hist, 0, n_features * BINS * sizeof(float));
    dim3 grid((n_rows + 255) / 256, n_features);
    build_hist<<<grid, 256>>>(d_binned, d_grad, d_hist, n_rows, n_features);
    cudaMemcpy(hist, d_hist, n_features * BINS * sizeof(float), cudaMemcpyDeviceToHost);
    printf("%f\n", hist[0]);
}
