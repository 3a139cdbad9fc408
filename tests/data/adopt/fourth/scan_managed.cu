// Prefix sum (Blelloch) with block sums, "unified memory" blog post.
#include <cstdio>
#include <cuda_runtime.h>

const int THREADS = 256;
const int ELEMS = 2 * THREADS;

__global__ void scanBlock(int *data, int *sums, int n)
{
    __shared__ int temp[ELEMS];
    int t = threadIdx.x;
    int base = blockIdx.x * ELEMS;
    temp[2 * t]     = (base + 2 * t     < n) ? data[base + 2 * t]     : 0;
    temp[2 * t + 1] = (base + 2 * t + 1 < n) ? data[base + 2 * t + 1] : 0;

    int offset = 1;
    for (int d = ELEMS >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d) {
            int ai = offset * (2 * t + 1) - 1;
            int bi = offset * (2 * t + 2) - 1;
            temp[bi] += temp[ai];
        }
        offset <<= 1;
    }
    if (t == 0) {
        sums[blockIdx.x] = temp[ELEMS - 1];
        temp[ELEMS - 1] = 0;
    }
    for (int d = 1; d < ELEMS; d <<= 1) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            int ai = offset * (2 * t + 1) - 1;
            int bi = offset * (2 * t + 2) - 1;
            int x = temp[ai];
            temp[ai] = temp[bi];
            temp[bi] += x;
        }
    }
    __syncthreads();
    if (base + 2 * t < n)     data[base + 2 * t]     = temp[2 * t];
    if (base + 2 * t + 1 < n) data[base + 2 * t + 1] = temp[2 * t + 1];
}

__global__ void scanSums(int *sums, int blocks)
{
    int total = 0;
    for (int i = 0; i < blocks; ++i) {
        int v = sums[i];
        sums[i] = total;
        total += v;
    }
}

__global__ void addSums(int *data, const int *sums, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] += sums[i / ELEMS];
}

int divUp(int a, int b) { return (a % b != 0) ? (a / b + 1) : (a / b); }

int main(void)
{
    int n = 1 << 16;
    int *data, *sums;
    int blocks = divUp(n, ELEMS);
    cudaMallocManaged(&data, n * sizeof(int));
    cudaMallocManaged(&sums, blocks * sizeof(int));
    for (int i = 0; i < n; i++) data[i] = i % 3;

    scanBlock<<<blocks, THREADS>>>(data, sums, n);
    scanSums<<<1, 1>>>(sums, blocks);
    addSums<<<divUp(n, THREADS), THREADS>>>(data, sums, n);
    cudaDeviceSynchronize();

    printf("last: %d\n", data[n - 1]);
    cudaFree(data);
    cudaFree(sums);
    return 0;
}
