// Parallel reduction, version 5: templated block size, two elements per thread, second pass on one block.
#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime.h>

template <typename T, unsigned int blockSize>
__device__ void warpSum(volatile T* sdata, unsigned int tid) {
    if (blockSize >= 64) { T v = sdata[tid] + sdata[tid + 32]; __syncwarp(); sdata[tid] = v; __syncwarp(); }
    for (int s = 16; s > 0; s >>= 1) {
        T v = sdata[tid] + sdata[tid + s];
        __syncwarp();
        sdata[tid] = v;
        __syncwarp();
    }
}

template <typename T, unsigned int blockSize>
__global__ void reduceSum(const T* g_in, T* g_out, unsigned int n) {
    extern __shared__ float sdata[];
    unsigned int tid = threadIdx.x;
    unsigned int i = blockIdx.x * (blockSize * 2) + tid;
    unsigned int gridSize = blockSize * 2 * gridDim.x;
    T sum = 0;
    while (i < n) {
        sum += g_in[i];
        if (i + blockSize < n) sum += g_in[i + blockSize];
        i += gridSize;
    }
    sdata[tid] = sum;
    __syncthreads();
    for (unsigned int s = blockSize / 2; s > 32; s >>= 1) {
        if (tid < s) sdata[tid] += sdata[tid + s];
        __syncthreads();
    }
    if (tid < 32) warpSum<T, blockSize>(sdata, tid);
    if (tid == 0) g_out[blockIdx.x] = sdata[0];
}

void reduce(int threads, int blocks, int n, float* d_in, float* d_out) {
    size_t smem = (threads <= 32) ? 2 * threads * sizeof(float) : threads * sizeof(float);
    switch (threads) {
        case 512: reduceSum<float, 512><<<blocks, threads, smem>>>(d_in, d_out, n); break;
        case 256: reduceSum<float, 256><<<blocks, threads, smem>>>(d_in, d_out, n); break;
        case 128: reduceSum<float, 128><<<blocks, threads, smem>>>(d_in, d_out, n); break;
    }
}

int main() {
    const int n = 1 << 22;
    const int threads = 256;
    const int blocks = 64;
    float* h_in = (float*)malloc(n * sizeof(float));
    double expect = 0;
    for (int i = 0; i < n; i++) { h_in[i] = (rand() % 100) / 100.0f; expect += h_in[i]; }
    float *d_in, *d_partial, *d_out, h_out;
    cudaMalloc((void**)&d_in, n * sizeof(float));
    cudaMalloc((void**)&d_partial, blocks * sizeof(float));
    cudaMalloc((void**)&d_out, sizeof(float));
    cudaMemcpy(d_in, h_in, n * sizeof(float), cudaMemcpyHostToDevice);
    reduce(threads, blocks, n, d_in, d_partial);
    reduce(threads, 1, blocks, d_partial, d_out);
    cudaMemcpy(&h_out, d_out, sizeof(float), cudaMemcpyDeviceToHost);
    printf("gpu %f cpu %f\n", h_out, expect);
    cudaFree(d_in); cudaFree(d_partial); cudaFree(d_out); free(h_in);
    return 0;
}
