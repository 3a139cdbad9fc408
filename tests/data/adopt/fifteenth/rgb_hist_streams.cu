// Per-channel histogram of interleaved RGB video frames, chunked over 4 streams.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>

static inline void gpuAssert(cudaError_t code, const char *file, int line, bool abort = true)
{
   if (code != cudaSuccess)
   {
      fprintf(stderr,"GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
      if (abort) exit(code);
   }
}
#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }

constexpr int NBINS = 256;
constexpr int NSTREAMS = 4;
constexpr int THREADS = 256;

__global__ void histRGB(const uint8_t* __restrict__ rgb, unsigned int* __restrict__ hist, size_t npixels)
{
    __shared__ unsigned int local[3 * NBINS];
    for (int i = threadIdx.x; i < 3 * NBINS; i += blockDim.x)
        local[i] = 0;
    __syncthreads();

    size_t stride = (size_t)blockDim.x * gridDim.x;
    for (size_t p = blockIdx.x * (size_t)blockDim.x + threadIdx.x; p < npixels; p += stride) {
        atomicAdd(&local[rgb[3 * p + 0]], 1u);
        atomicAdd(&local[NBINS + rgb[3 * p + 1]], 1u);
        atomicAdd(&local[2 * NBINS + rgb[3 * p + 2]], 1u);
    }
    __syncthreads();

    for (int i = threadIdx.x; i < 3 * NBINS; i += blockDim.x)
        if (local[i]) atomicAdd(&hist[i], local[i]);
}

int main(int argc, char** argv)
{
    int width = 1280, height = 720;
    if (argc == 3) {
        width = atoi(argv[1]);
        height = atoi(argv[2]);
    }
    const size_t npixels = (size_t)width * height;
    const size_t nbytes = npixels * 3;

    uint8_t* h_rgb;
    unsigned int h_hist[3 * NBINS];
    gpuErrchk(cudaHostAlloc((void**)&h_rgb, nbytes, cudaHostAllocDefault));
    srand(1234);
    for (size_t i = 0; i < nbytes; i++)
        h_rgb[i] = rand() & 0xff;

    uint8_t* d_rgb;
    unsigned int* d_hist;
    gpuErrchk(cudaMalloc(&d_rgb, nbytes));
    gpuErrchk(cudaMalloc(&d_hist, sizeof(h_hist)));
    gpuErrchk(cudaMemset(d_hist, 0, sizeof(h_hist)));

    cudaStream_t streams[NSTREAMS];
    for (auto& s : streams)
        gpuErrchk(cudaStreamCreate(&s));

    size_t chunk = (npixels + NSTREAMS - 1) / NSTREAMS;
    for (int i = 0; i < NSTREAMS; i++) {
        size_t first = i * chunk;
        size_t count = first + chunk > npixels ? npixels - first : chunk;
        gpuErrchk(cudaMemcpyAsync(d_rgb + 3 * first, h_rgb + 3 * first, 3 * count, cudaMemcpyHostToDevice, streams[i]));
        histRGB<<<60, THREADS, 0, streams[i]>>>(d_rgb + 3 * first, d_hist, count);
        gpuErrchk(cudaGetLastError());
    }
    gpuErrchk(cudaDeviceSynchronize());
    gpuErrchk(cudaMemcpy(h_hist, d_hist, sizeof(h_hist), cudaMemcpyDeviceToHost));

    size_t total = 0;
    for (int i = 0; i < 3 * NBINS; i++) total += h_hist[i];
    printf("%s\n", total == nbytes ? "PASSED" : "FAILED");
    for (auto& s : streams) cudaStreamDestroy(s);
    cudaFree(d_rgb);
    cudaFree(d_hist);
    cudaFreeHost(h_rgb);
    return total == nbytes ? EXIT_SUCCESS : EXIT_FAILURE;
}
