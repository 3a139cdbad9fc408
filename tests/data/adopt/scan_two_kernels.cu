// Inclusive scan of many blocks: scan each block, scan the block sums on one block, add them back.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))
constexpr int BLOCK_DIM = 256;

__global__ void scanBlocks(const int* in, int* out, int* sums, int n) {
    __shared__ int temp[2][BLOCK_DIM];
    int tid = threadIdx.x;
    int gid = blockIdx.x * BLOCK_DIM + tid;
    int cur = 0;
    temp[cur][tid] = gid < n ? in[gid] : 0;
    __syncthreads();
    for (int offset = 1; offset < BLOCK_DIM; offset *= 2) {
        int next = 1 - cur;
        temp[next][tid] = tid >= offset ? temp[cur][tid] + temp[cur][tid - offset] : temp[cur][tid];
        cur = next;
        __syncthreads();
    }
    if (gid < n) out[gid] = temp[cur][tid];
    if (sums != nullptr && tid == BLOCK_DIM - 1) sums[blockIdx.x] = temp[cur][tid];
}

__global__ void scanSums(int* sums, int count) {
    // one thread is enough: there are few blocks
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        int total = 0;
        for (int i = 0; i < count; ++i) {
            int value = sums[i];
            sums[i] = total;
            total += value;
        }
    }
}

__global__ void addSums(int* out, const int* sums, int n) {
    int gid = blockIdx.x * blockDim.x + threadIdx.x;
    if (gid < n) out[gid] += sums[blockIdx.x];
}

int main() {
    int n = 200000;
    int blocks = CEIL_DIV(n, BLOCK_DIM);
    int* h = new int[n];
    for (int i = 0; i < n; ++i) h[i] = rand() % 10;
    int *d_in, *d_out, *d_sums;
    cudaMalloc(&d_in, n * sizeof(int));
    cudaMalloc(&d_out, n * sizeof(int));
    cudaMalloc(&d_sums, blocks * sizeof(int));
    cudaMemcpy(d_in, h, n * sizeof(int), cudaMemcpyHostToDevice);
    scanBlocks<<<blocks, BLOCK_DIM>>>(d_in, d_out, d_sums, n);
    scanSums<<<1, 1>>>(d_sums, blocks);
    addSums<<<blocks, BLOCK_DIM>>>(d_out, d_sums, n);
    cudaMemcpy(h, d_out, n * sizeof(int), cudaMemcpyDeviceToHost);
    printf("%d\n", h[n - 1]);
    delete[] h;
    return 0;
}
