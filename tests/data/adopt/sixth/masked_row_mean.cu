// Why is my masked mean kernel so slow?  (MCVE, compiles with nvcc 12)
#include <cstdio>
#include <cstdlib>

__global__ void maskedMean(const float *data, const bool *mask, float *mean, int *count, int rows, int cols)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows)
    {
        float acc = 0.0f;
        int   n   = 0;
        for (int c = 0; c < cols; ++c)
        {
            if (mask[r * cols + c])
            {
                acc += data[r * cols + c];
                n++;
            }
        }
        count[r] = n;
        mean[r]  = n > 0 ? acc / n : 0.0f;
    }
}

int main()
{
    const int rows = 4096, cols = 512;
    size_t N = (size_t)rows * cols;
    float *h = (float *)malloc(N * sizeof(float));
    bool  *m = (bool *)malloc(N * sizeof(bool));
    for (size_t i = 0; i < N; i++) { h[i] = rand() / (float)RAND_MAX; m[i] = rand() & 1; }

    float *d_data, *d_mean; bool *d_mask; int *d_count;
    cudaMalloc(&d_data, N * sizeof(float));
    cudaMalloc(&d_mask, N * sizeof(bool));
    cudaMalloc(&d_mean, rows * sizeof(float));
    cudaMalloc(&d_count, rows * sizeof(int));
    cudaMemcpy(d_data, h, N * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_mask, m, N * sizeof(bool), cudaMemcpyHostToDevice);

    maskedMean<<<(rows + 255) / 256, 256>>>(d_data, d_mask, d_mean, d_count, rows, cols);
    cudaDeviceSynchronize();

    float *out = (float *)malloc(rows * sizeof(float));
    int *cnt = (int *)malloc(rows * sizeof(int));
    cudaMemcpy(out, d_mean, rows * sizeof(float), cudaMemcpyDeviceToHost);
    cudaMemcpy(cnt, d_count, rows * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%f %d\n", out[0], cnt[0]);
    return 0;
}
