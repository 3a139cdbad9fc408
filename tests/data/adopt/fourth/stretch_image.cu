// Contrast stretching of an 8-bit image, as in the course "Parallel Image Processing", exercise 4.
#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime.h>

#define CUDA_CHECK(call)                                                          \
    do {                                                                          \
        cudaError_t err__ = (call);                                               \
        if (err__ != cudaSuccess) {                                               \
            fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(err__)); \
            exit(EXIT_FAILURE);                                                   \
        }                                                                         \
    } while (0)

typedef unsigned char uchar;

__constant__ float c_gain[3];

__global__ void stretch(const uchar* __restrict__ in, uchar* __restrict__ out, int width, int height, int pitch)
{
    const int x = threadIdx.x + blockIdx.x * blockDim.x;
    const int y = threadIdx.y + blockIdx.y * blockDim.y;
    if (x >= width || y >= height) return;
    for (int c = 0; c < 3; c++) {
        const int idx = y * pitch + 3 * x + c;
        float v = (in[idx] - 128.0f) * c_gain[c] + 128.0f;
        v = fminf(fmaxf(v, 0.0f), 255.0f);
        out[idx] = (uchar)(v + 0.5f);
    }
}

static dim3 make_grid(dim3 block, int w, int h)
{
    return dim3((w + block.x - 1) / block.x, (h + block.y - 1) / block.y);
}

int main(int argc, char** argv)
{
    int width = 640, height = 480;
    if (argc == 3) { width = atoi(argv[1]); height = atoi(argv[2]); }
    const int pitch = 3 * width;
    const size_t bytes = (size_t)pitch * height * sizeof(uchar);

    uchar* h_in = (uchar*)malloc(bytes);
    uchar* h_out = (uchar*)malloc(bytes);
    for (size_t i = 0; i < bytes; ++i) h_in[i] = (uchar)(rand() % 256);
    float gain[3] = {1.2f, 0.9f, 1.5f};

    uchar *d_in, *d_out;
    CUDA_CHECK(cudaMalloc((void**)&d_in, bytes));
    CUDA_CHECK(cudaMalloc((void**)&d_out, bytes));
    CUDA_CHECK(cudaMemcpyToSymbol(c_gain, gain, sizeof(gain)));
    CUDA_CHECK(cudaMemcpy(d_in, h_in, bytes, cudaMemcpyHostToDevice));

    dim3 block(16, 16);
    stretch<<<make_grid(block, width, height), block>>>(d_in, d_out, width, height, pitch);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(h_out, d_out, bytes, cudaMemcpyDeviceToHost));
    printf("first pixel: %d %d %d\n", h_out[0], h_out[1], h_out[2]);
    CUDA_CHECK(cudaFree(d_in));
    CUDA_CHECK(cudaFree(d_out));
    free(h_in);
    free(h_out);
    return 0;
}
