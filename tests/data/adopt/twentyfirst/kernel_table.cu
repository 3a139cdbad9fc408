#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
// matrix transpose, all versions in a table (after the NVIDIA sample)
#define TILE_DIM 32
#define BLOCK_ROWS 8

#define check(e) { cudaError_t s = e; if (s) { printf("error %d in line %d\n", s, __LINE__); exit(1); } }

__global__ void copyKernel(float *odata, const float *idata, int width, int height)
{
    int x = blockIdx.x * TILE_DIM + threadIdx.x;
    int y = blockIdx.y * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        odata[(y + j) * width + x] = idata[(y + j) * width + x];
}

__global__ void transposeNaive(float *odata, const float *idata, int width, int height)
{
    int x = blockIdx.x * TILE_DIM + threadIdx.x;
    int y = blockIdx.y * TILE_DIM + threadIdx.y;
    for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
        odata[x * height + (y + j)] = idata[(y + j) * width + x];
}

int main(int argc, char **argv)
{
    const int size_x = 1024, size_y = 1024;
    const int mem_size = size_x * size_y * sizeof(float);
    dim3 grid(size_x / TILE_DIM, size_y / TILE_DIM), threads(TILE_DIM, BLOCK_ROWS);

    float *h_idata = (float *)malloc(mem_size);
    float *h_odata = (float *)malloc(mem_size);
    for (int i = 0; i < size_x * size_y; ++i) h_idata[i] = (float)i;
    float *d_idata, *d_odata;
    check(cudaMalloc((void **)&d_idata, mem_size))
    check(cudaMalloc((void **)&d_odata, mem_size))
    check(cudaMemcpy(d_idata, h_idata, mem_size, cudaMemcpyHostToDevice))

    void (*kernel)(float *, const float *, int, int);
    const char *kernelName;
    for (int k = 0; k < 2; k++) {
        switch (k) {
        case 0: kernel = &copyKernel; kernelName = "copy"; break;
        case 1: kernel = &transposeNaive; kernelName = "naive"; break;
        }
        kernel<<<grid, threads>>>(d_odata, d_idata, size_x, size_y);
        check(cudaGetLastError())
        check(cudaMemcpy(h_odata, d_odata, mem_size, cudaMemcpyDeviceToHost))
        printf("%s: %f\n", kernelName, h_odata[1]);
    }
    cudaFree(d_idata);
    cudaFree(d_odata);
    return 0;
}
