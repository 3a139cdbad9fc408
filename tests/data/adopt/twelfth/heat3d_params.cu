// Chapter 8 exercise: seven-point stencil. Coefficients are in constant memory.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define CHECK(call)                                                                        \
    {                                                                                      \
        const cudaError_t error = call;                                                    \
        if (error != cudaSuccess) {                                                        \
            printf("Error: %s:%d, ", __FILE__, __LINE__);                                  \
            printf("code: %d, reason: %s\n", error, cudaGetErrorString(error));            \
            exit(1);                                                                       \
        }                                                                                  \
    }

typedef struct {
    int nx, ny, nz;
    float centre;
    float side;
} StencilParams;

__constant__ StencilParams params;

__global__ void stencil(const float *in, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int j = blockIdx.y * blockDim.y + threadIdx.y;
    int k = blockIdx.z * blockDim.z + threadIdx.z;
    if (i >= params.nx || j >= params.ny || k >= params.nz) return;
    int p = (k * params.ny + j) * params.nx + i;
    if (i == 0 || j == 0 || k == 0 || i == params.nx - 1 || j == params.ny - 1 || k == params.nz - 1) {
        out[p] = in[p];
        return;
    }
    out[p] = params.centre * in[p]
           + params.side * (in[p - 1] + in[p + 1] + in[p - params.nx] + in[p + params.nx]
                          + in[p - params.nx * params.ny] + in[p + params.nx * params.ny]);
}

int main(int argc, char **argv)
{
    StencilParams h;
    h.nx = 128;
    h.ny = 128;
    h.nz = 64;
    if (argc > 1) h.nx = h.ny = atoi(argv[1]);
    h.side = 0.1f;
    h.centre = 1.0f - 6.0f * h.side;
    CHECK(cudaMemcpyToSymbol(params, &h, sizeof(StencilParams)));

    size_t bytes = (size_t)h.nx * h.ny * h.nz * sizeof(float);
    float *h_in = (float *)malloc(bytes);
    float *h_out = (float *)malloc(bytes);
    for (int i = 0; i < h.nx * h.ny * h.nz; i++) h_in[i] = (float)(rand() & 0xFF) / 100.0f;

    float *d_in, *d_out;
    CHECK(cudaMalloc((void **)&d_in, bytes));
    CHECK(cudaMalloc((void **)&d_out, bytes));
    CHECK(cudaMemcpy(d_in, h_in, bytes, cudaMemcpyHostToDevice));

    dim3 block(4, 4, 4);
    dim3 grid((h.nx + block.x - 1) / block.x, (h.ny + block.y - 1) / block.y, (h.nz + block.z - 1) / block.z);
    stencil<<<grid, block>>>(d_in, d_out);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(h_out, d_out, bytes, cudaMemcpyDeviceToHost));
    printf("out[0]=%f\n", h_out[0]);
    cudaFree(d_in);
    cudaFree(d_out);
    free(h_in);
    free(h_out);
    return 0;
}
