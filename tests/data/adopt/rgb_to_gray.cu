// Colour to grey, assignment 1. uchar4 pixels are what the image library gives us.
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

typedef unsigned char uchar;

__global__ void rgba_to_greyscale(const uchar4* const rgbaImage, uchar* const greyImage, int numRows, int numCols) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    int c = blockIdx.y * blockDim.y + threadIdx.y;
    if (r >= numRows || c >= numCols) return;
    uchar4 p = rgbaImage[r * numCols + c];
    greyImage[r * numCols + c] = .299f * p.x + .587f * p.y + .114f * p.z;
}

void your_rgba_to_greyscale(const uchar4* const d_rgbaImage, uchar* const d_greyImage, size_t numRows, size_t numCols) {
    const dim3 blockSize(16, 16, 1);
    const dim3 gridSize(numRows / 16 + 1, numCols / 16 + 1, 1);
    rgba_to_greyscale<<<gridSize, blockSize>>>(d_rgbaImage, d_greyImage, numRows, numCols);
    cudaDeviceSynchronize();
}

int main() {
    const size_t numRows = 512, numCols = 768;
    const size_t numPixels = numRows * numCols;
    uchar4* h_rgba = (uchar4*)malloc(numPixels * sizeof(uchar4));
    uchar* h_grey = (uchar*)malloc(numPixels);
    for (size_t i = 0; i < numPixels; i++) h_rgba[i] = make_uchar4(rand() % 256, rand() % 256, rand() % 256, 255);
    uchar4* d_rgba;
    uchar* d_grey;
    cudaMalloc(&d_rgba, sizeof(uchar4) * numPixels);
    cudaMalloc(&d_grey, sizeof(uchar) * numPixels);
    cudaMemcpy(d_rgba, h_rgba, sizeof(uchar4) * numPixels, cudaMemcpyHostToDevice);
    cudaMemset(d_grey, 0, sizeof(uchar) * numPixels);
    your_rgba_to_greyscale(d_rgba, d_grey, numRows, numCols);
    cudaMemcpy(h_grey, d_grey, sizeof(uchar) * numPixels, cudaMemcpyDeviceToHost);
    printf("%d\n", h_grey[0]);
    return 0;
}
