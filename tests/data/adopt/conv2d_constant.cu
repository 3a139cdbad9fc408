// 2D convolution with the mask in constant memory, chapter 7 exercise.
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#define MASK_WIDTH 5
#define MASK_RADIUS (MASK_WIDTH / 2)
#define BLOCK 16

__constant__ float mask[MASK_WIDTH * MASK_WIDTH];

__device__ __forceinline__ float maskAt(int r, int c) { return mask[r * MASK_WIDTH + c]; }

__global__ void convolution2D(const float *in, float *out, int width, int height) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (col < width && row < height) {
        float sum = 0.0f;
        for (int i = 0; i < MASK_WIDTH; i++) {
            for (int j = 0; j < MASK_WIDTH; j++) {
                int r = row - MASK_RADIUS + i;
                int c = col - MASK_RADIUS + j;
                if (r >= 0 && r < height && c >= 0 && c < width) {
                    sum += in[r * width + c] * maskAt(i, j);
                }
            }
        }
        out[row * width + col] = sum;
    }
}

int main() {
    int width = 640, height = 480;
    size_t bytes = width * height * sizeof(float);
    float *h_in = (float *)malloc(bytes), *h_out = (float *)malloc(bytes);
    float h_mask[MASK_WIDTH * MASK_WIDTH];
    for (int i = 0; i < width * height; i++) h_in[i] = rand() % 256;
    for (int i = 0; i < MASK_WIDTH * MASK_WIDTH; i++) h_mask[i] = 1.0f / 25.0f;
    float *d_in, *d_out;
    cudaMalloc(&d_in, bytes);
    cudaMalloc(&d_out, bytes);
    cudaMemcpy(d_in, h_in, bytes, cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol(mask, h_mask, MASK_WIDTH * MASK_WIDTH * sizeof(float));
    dim3 block(BLOCK, BLOCK);
    dim3 grid(ceil(width / (float)BLOCK), ceil(height / (float)BLOCK));
    convolution2D<<<grid, block>>>(d_in, d_out, width, height);
    cudaMemcpy(h_out, d_out, bytes, cudaMemcpyDeviceToHost);
    printf("%f\n", h_out[0]);
    return 0;
}
