// Dot products of many vector pairs, copied and computed in chunks on four streams.
#include <cstdio>
#include <cuda_runtime.h>

constexpr int kPairs = 4096;
constexpr int kLength = 768;
constexpr int kStreams = 4;
constexpr int kThreads = 128;

#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line, bool abort = true) {
   if (code != cudaSuccess) {
      fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
      if (abort) exit(code);
   }
}

__global__ void dotProducts(const float *a, const float *b, float *out, int pairs, int length)
{
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= pairs) return;
    const float *x = a + (size_t)p * length;
    const float *y = b + (size_t)p * length;
    float sum = 0.0f;
    for (int i = 0; i < length; i++)
        sum += x[i] * y[i];
    out[p] = sum;
}

int main()
{
    const size_t n = (size_t)kPairs * kLength;
    float *h_a, *h_b, *h_out, *d_a, *d_b, *d_out;
    gpuErrchk(cudaMallocHost(&h_a, n * sizeof(float)));
    gpuErrchk(cudaMallocHost(&h_b, n * sizeof(float)));
    gpuErrchk(cudaHostAlloc((void**)&h_out, kPairs * sizeof(float), cudaHostAllocDefault));
    for (size_t i = 0; i < n; i++) { h_a[i] = (i % 17) * 0.1f; h_b[i] = (i % 13) * 0.2f; }
    gpuErrchk(cudaMalloc(&d_a, n * sizeof(float)));
    gpuErrchk(cudaMalloc(&d_b, n * sizeof(float)));
    gpuErrchk(cudaMalloc(&d_out, kPairs * sizeof(float)));

    cudaStream_t streams[kStreams];
    for (int s = 0; s < kStreams; s++) gpuErrchk(cudaStreamCreate(&streams[s]));

    const int chunk = kPairs / kStreams;
    for (int s = 0; s < kStreams; s++) {
        const size_t off = (size_t)s * chunk * kLength;
        const size_t bytes = (size_t)chunk * kLength * sizeof(float);
        gpuErrchk(cudaMemcpyAsync(d_a + off, h_a + off, bytes, cudaMemcpyHostToDevice, streams[s]));
        gpuErrchk(cudaMemcpyAsync(d_b + off, h_b + off, bytes, cudaMemcpyHostToDevice, streams[s]));
        dotProducts<<<(chunk + kThreads - 1) / kThreads, kThreads, 0, streams[s]>>>(
            d_a + off, d_b + off, d_out + s * chunk, chunk, kLength);
        gpuErrchk(cudaMemcpyAsync(h_out + s * chunk, d_out + s * chunk, chunk * sizeof(float), cudaMemcpyDeviceToHost, streams[s]));
    }
    gpuErrchk(cudaDeviceSynchronize());
    printf("%g\n", h_out[0]);
    for (int s = 0; s < kStreams; s++) cudaStreamDestroy(streams[s]);
    cudaFree(d_a); cudaFree(d_b); cudaFree(d_out);
    cudaFreeHost(h_a); cudaFreeHost(h_b); cudaFreeHost(h_out);
    return 0;
}
