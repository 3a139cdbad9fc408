/* Homework 3: histogram of bytes with atomics. */
#include <cuda.h>
#include <stdio.h>
#include <string.h>
#define NUM_BINS 256
#define BLOCK_SIZE 256

#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line) {
    if (code != cudaSuccess) { fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line); exit(code); }
}

__global__ void histogram_kernel(unsigned char *input, unsigned int *bins, unsigned int num_elements) {
    unsigned int i = threadIdx.x + blockIdx.x * blockDim.x;
    unsigned int stride = blockDim.x * gridDim.x;
    while (i < num_elements) {
        atomicAdd(&bins[input[i]], 1);
        i += stride;
    }
}

void histogram(unsigned char *host_input, unsigned int *host_bins, unsigned int inputLength) {
    unsigned char *deviceInput;
    unsigned int *deviceBins;
    gpuErrchk(cudaMalloc((void **)&deviceInput, inputLength * sizeof(unsigned char)));
    gpuErrchk(cudaMalloc((void **)&deviceBins, NUM_BINS * sizeof(unsigned int)));
    gpuErrchk(cudaMemcpy(deviceInput, host_input, inputLength * sizeof(unsigned char), cudaMemcpyHostToDevice));
    gpuErrchk(cudaMemset(deviceBins, 0, NUM_BINS * sizeof(unsigned int)));
    dim3 dimBlock(BLOCK_SIZE, 1, 1);
    dim3 dimGrid(120, 1, 1);
    histogram_kernel<<<dimGrid, dimBlock>>>(deviceInput, deviceBins, inputLength);
    gpuErrchk(cudaGetLastError());
    gpuErrchk(cudaDeviceSynchronize());
    gpuErrchk(cudaMemcpy(host_bins, deviceBins, NUM_BINS * sizeof(unsigned int), cudaMemcpyDeviceToHost));
    cudaFree(deviceInput);
    cudaFree(deviceBins);
}

int main(int argc, char *argv[]) {
    unsigned int length = 1024 * 1024;
    unsigned char *input = (unsigned char *)malloc(length);
    unsigned int bins[NUM_BINS], check[NUM_BINS];
    memset(check, 0, sizeof(check));
    for (unsigned int i = 0; i < length; i++) { input[i] = rand() % NUM_BINS; check[input[i]]++; }
    histogram(input, bins, length);
    printf("%s\n", memcmp(bins, check, sizeof(bins)) == 0 ? "ok" : "wrong");
    free(input);
    return 0;
}
