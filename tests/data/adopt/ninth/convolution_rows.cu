/* Copyright: example in the manner of vendor samples.
 *
 * This sample applies a one dimensional stencil with a filter held in constant
 * memory, and compares with the host.
 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime.h>
#include <helper_cuda.h>
#include <helper_functions.h>

#define KERNEL_RADIUS 4
#define KERNEL_LENGTH (2 * KERNEL_RADIUS + 1)
#define TILE_W 128
#define TILE_H 4

template <int radius>
__global__ void convolutionRowKernel(float *d_Dst, const float *d_Src, const float *d_Kernel, int imageW, int imageH, int pitch)
{
    __shared__ float s_Data[TILE_H][TILE_W + 2 * radius];

    const int baseX = blockIdx.x * TILE_W;
    const int y     = blockIdx.y * TILE_H + threadIdx.y;

    for (int t = threadIdx.x; t < TILE_W + 2 * radius; t += blockDim.x) {
        const int x = baseX + t - radius;
        s_Data[threadIdx.y][t] = (y < imageH && x >= 0 && x < imageW) ? d_Src[y * pitch + x] : 0.0f;
    }
    __syncthreads();

    const int x = baseX + threadIdx.x;
    if (x < imageW && y < imageH) {
        float sum = 0.0f;
#pragma unroll
        for (int j = -radius; j <= radius; j++) {
            sum += d_Kernel[radius - j] * s_Data[threadIdx.y][threadIdx.x + radius + j];
        }
        d_Dst[y * pitch + x] = sum;
    }
}

extern "C" void convolutionRowsGPU(float *d_Dst, float *d_Src, float *d_Kernel, int imageW, int imageH)
{
    dim3 threads(TILE_W, TILE_H);
    dim3 blocks((imageW + TILE_W - 1) / TILE_W, (imageH + TILE_H - 1) / TILE_H);
    convolutionRowKernel<KERNEL_RADIUS><<<blocks, threads>>>(d_Dst, d_Src, d_Kernel, imageW, imageH, imageW);
    getLastCudaError("convolutionRowKernel() execution failed\n");
}

int main(int argc, char **argv)
{
    float *h_Kernel, *h_Input, *h_OutputGPU;
    float *d_Input, *d_Output, *d_Kernel;
    const int imageW = 3072;
    const int imageH = 1024;
    const int iterations = 16;
    StopWatchInterface *hTimer = NULL;

    printf("[%s] - Starting...\n", argv[0]);
    findCudaDevice(argc, (const char **)argv);
    sdkCreateTimer(&hTimer);

    h_Kernel    = (float *)malloc(KERNEL_LENGTH * sizeof(float));
    h_Input     = (float *)malloc(imageW * imageH * sizeof(float));
    h_OutputGPU = (float *)malloc(imageW * imageH * sizeof(float));
    srand(200);

    for (unsigned int i = 0; i < KERNEL_LENGTH; i++) {
        h_Kernel[i] = (float)(rand() % 16);
    }
    for (unsigned i = 0; i < imageW * imageH; i++) {
        h_Input[i] = (float)(rand() % 16);
    }

    checkCudaErrors(cudaMalloc((void **)&d_Input, imageW * imageH * sizeof(float)));
    checkCudaErrors(cudaMalloc((void **)&d_Output, imageW * imageH * sizeof(float)));
    checkCudaErrors(cudaMalloc((void **)&d_Kernel, KERNEL_LENGTH * sizeof(float)));
    checkCudaErrors(cudaMemcpy(d_Kernel, h_Kernel, KERNEL_LENGTH * sizeof(float), cudaMemcpyHostToDevice));
    checkCudaErrors(cudaMemcpy(d_Input, h_Input, imageW * imageH * sizeof(float), cudaMemcpyHostToDevice));

    for (int i = -1; i < iterations; i++) {
        if (i == 0) {
            checkCudaErrors(cudaDeviceSynchronize());
            sdkResetTimer(&hTimer);
            sdkStartTimer(&hTimer);
        }
        convolutionRowsGPU(d_Output, d_Input, d_Kernel, imageW, imageH);
    }
    checkCudaErrors(cudaDeviceSynchronize());
    sdkStopTimer(&hTimer);
    double gpuTime = 0.001 * sdkGetTimerValue(&hTimer) / (double)iterations;
    printf("convolutionRows, Throughput = %.4f MPixels/sec\n", (1.0e-6 * (double)(imageW * imageH) / gpuTime));

    checkCudaErrors(cudaMemcpy(h_OutputGPU, d_Output, imageW * imageH * sizeof(float), cudaMemcpyDeviceToHost));
    double delta = 0, sum = 0;
    for (int y = 0; y < imageH; y++)
        for (int x = 0; x < imageW; x++) {
            double r = 0;
            for (int k = -KERNEL_RADIUS; k <= KERNEL_RADIUS; k++) {
                int d = x + k;
                if (d >= 0 && d < imageW) r += h_Input[y * imageW + d] * h_Kernel[KERNEL_RADIUS - k];
            }
            delta += (r - h_OutputGPU[y * imageW + x]) * (r - h_OutputGPU[y * imageW + x]);
            sum += r * r;
        }
    double L2norm = sqrt(delta / sum);
    printf(" ...Relative L2 norm: %E\n\n", L2norm);
    printf(L2norm < 1e-6 ? "Test passed\n" : "Test failed!\n");
    sdkDeleteTimer(&hTimer);
    exit(L2norm < 1e-6 ? EXIT_SUCCESS : EXIT_FAILURE);
}
