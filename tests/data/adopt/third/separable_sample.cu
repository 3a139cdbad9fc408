/*
 * Separable convolution, in the manner of a toolkit sample: the filter in constant memory, a pass over the rows and
 * one over the columns, each with its own tile. Sizes from the command line.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define checkCudaErrors(val) check((val), #val, __FILE__, __LINE__)
template <typename T>
void check(T result, char const *const func, const char *const file, int const line) {
    if (result) {
        fprintf(stderr, "CUDA error at %s:%d code=%d \"%s\" \n", file, line, static_cast<unsigned int>(result), func);
        exit(EXIT_FAILURE);
    }
}

#define KERNEL_RADIUS 4
#define KERNEL_LENGTH (2 * KERNEL_RADIUS + 1)

__constant__ float c_Kernel[KERNEL_LENGTH];

extern "C" void setConvolutionKernel(float *h_Kernel) {
    checkCudaErrors(cudaMemcpyToSymbol(c_Kernel, h_Kernel, KERNEL_LENGTH * sizeof(float)));
}

//Round a / b to nearest higher integer value
inline int iDivUp(int a, int b) { return (a % b != 0) ? (a / b + 1) : (a / b); }
//Align a to nearest higher multiple of b
inline int iAlignUp(int a, int b) { return (a % b != 0) ? (a - a % b + b) : a; }

#define ROWS_BLOCKDIM_X 32
#define ROWS_BLOCKDIM_Y 4
#define COLUMNS_BLOCKDIM_X 32
#define COLUMNS_BLOCKDIM_Y 8

__global__ void convolutionRowsKernel(float *d_Dst, const float *d_Src, int imageW, int imageH, int pitch) {
    __shared__ float s_Data[ROWS_BLOCKDIM_Y][ROWS_BLOCKDIM_X + 2 * KERNEL_RADIUS];
    const int x = blockIdx.x * ROWS_BLOCKDIM_X + threadIdx.x;
    const int y = blockIdx.y * ROWS_BLOCKDIM_Y + threadIdx.y;
    for (int i = threadIdx.x; i < ROWS_BLOCKDIM_X + 2 * KERNEL_RADIUS; i += ROWS_BLOCKDIM_X) {
        int sx = blockIdx.x * ROWS_BLOCKDIM_X + i - KERNEL_RADIUS;
        s_Data[threadIdx.y][i] = (sx >= 0 && sx < imageW && y < imageH) ? d_Src[y * pitch + sx] : 0.0f;
    }
    __syncthreads();
    if (x >= imageW || y >= imageH) return;
    float sum = 0;
#pragma unroll
    for (int j = -KERNEL_RADIUS; j <= KERNEL_RADIUS; j++)
        sum += c_Kernel[KERNEL_RADIUS - j] * s_Data[threadIdx.y][threadIdx.x + KERNEL_RADIUS + j];
    d_Dst[y * pitch + x] = sum;
}

__global__ void convolutionColumnsKernel(float *d_Dst, const float *d_Src, int imageW, int imageH, int pitch) {
    __shared__ float s_Data[COLUMNS_BLOCKDIM_Y + 2 * KERNEL_RADIUS][COLUMNS_BLOCKDIM_X + 1];
    const int x = blockIdx.x * COLUMNS_BLOCKDIM_X + threadIdx.x;
    const int y = blockIdx.y * COLUMNS_BLOCKDIM_Y + threadIdx.y;
    for (int i = threadIdx.y; i < COLUMNS_BLOCKDIM_Y + 2 * KERNEL_RADIUS; i += COLUMNS_BLOCKDIM_Y) {
        int sy = blockIdx.y * COLUMNS_BLOCKDIM_Y + i - KERNEL_RADIUS;
        s_Data[i][threadIdx.x] = (sy >= 0 && sy < imageH && x < imageW) ? d_Src[sy * pitch + x] : 0.0f;
    }
    __syncthreads();
    if (x >= imageW || y >= imageH) return;
    float sum = 0;
#pragma unroll
    for (int j = -KERNEL_RADIUS; j <= KERNEL_RADIUS; j++)
        sum += c_Kernel[KERNEL_RADIUS - j] * s_Data[threadIdx.y + KERNEL_RADIUS + j][threadIdx.x];
    d_Dst[y * pitch + x] = sum;
}

extern "C" void convolutionRowsGPU(float *d_Dst, float *d_Src, int imageW, int imageH) {
    assert(ROWS_BLOCKDIM_X >= KERNEL_RADIUS);
    dim3 blocks(iDivUp(imageW, ROWS_BLOCKDIM_X), iDivUp(imageH, ROWS_BLOCKDIM_Y));
    dim3 threads(ROWS_BLOCKDIM_X, ROWS_BLOCKDIM_Y);
    convolutionRowsKernel<<<blocks, threads>>>(d_Dst, d_Src, imageW, imageH, imageW);
    checkCudaErrors(cudaGetLastError());
}

extern "C" void convolutionColumnsGPU(float *d_Dst, float *d_Src, int imageW, int imageH) {
    dim3 blocks(iDivUp(imageW, COLUMNS_BLOCKDIM_X), iDivUp(imageH, COLUMNS_BLOCKDIM_Y));
    dim3 threads(COLUMNS_BLOCKDIM_X, COLUMNS_BLOCKDIM_Y);
    convolutionColumnsKernel<<<blocks, threads>>>(d_Dst, d_Src, imageW, imageH, imageW);
    checkCudaErrors(cudaGetLastError());
}

extern "C" void convolutionRowCPU(float *h_Dst, float *h_Src, float *h_Kernel, int imageW, int imageH, int kernelR);
extern "C" void convolutionColumnCPU(float *h_Dst, float *h_Src, float *h_Kernel, int imageW, int imageH, int kernelR);

int main(int argc, char **argv) {
    printf("[%s] - Starting...\n", argv[0]);
    float *h_Kernel, *h_Input, *h_OutputGPU;
    float *d_Input, *d_Output, *d_Buffer;

    int imageW = 1024;
    int imageH = 1024;
    if (argc > 2) {
        imageW = atoi(argv[1]);
        imageH = atoi(argv[2]);
    }
    const int iterations = 16;

    cudaDeviceProp deviceProp;
    checkCudaErrors(cudaGetDeviceProperties(&deviceProp, 0));
    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);

    printf("Image Width x Height = %i x %i\n\n", imageW, imageH);
    h_Kernel = (float *)malloc(KERNEL_LENGTH * sizeof(float));
    h_Input = (float *)malloc(imageW * imageH * sizeof(float));
    h_OutputGPU = (float *)malloc(imageW * imageH * sizeof(float));
    srand(200);
    for (unsigned int i = 0; i < KERNEL_LENGTH; i++) h_Kernel[i] = (float)(rand() % 16);
    for (unsigned i = 0; i < (unsigned)(imageW * imageH); i++) h_Input[i] = (float)(rand() % 16);

    checkCudaErrors(cudaMalloc((void **)&d_Input, imageW * imageH * sizeof(float)));
    checkCudaErrors(cudaMalloc((void **)&d_Output, imageW * imageH * sizeof(float)));
    checkCudaErrors(cudaMalloc((void **)&d_Buffer, imageW * imageH * sizeof(float)));

    setConvolutionKernel(h_Kernel);
    checkCudaErrors(cudaMemcpy(d_Input, h_Input, imageW * imageH * sizeof(float), cudaMemcpyHostToDevice));

    for (int i = -1; i < iterations; i++) {
        // i == -1 -- warm-up iteration
        if (i == 0) {
            checkCudaErrors(cudaDeviceSynchronize());
            cudaEventRecord(start);
        }
        convolutionRowsGPU(d_Buffer, d_Input, imageW, imageH);
        convolutionColumnsGPU(d_Output, d_Buffer, imageW, imageH);
    }
    checkCudaErrors(cudaDeviceSynchronize());
    cudaEventRecord(stop);
    cudaEventSynchronize(stop);
    float ms = 0;
    cudaEventElapsedTime(&ms, start, stop);
    double gpuTime = 0.001 * ms / (double)iterations;
    printf("convolutionSeparable, Throughput = %.4f MPixels/sec, Time = %.5f s, Size = %u Pixels\n",
           (1.0e-6 * (double)(imageW * imageH) / gpuTime), gpuTime, (imageW * imageH));

    checkCudaErrors(cudaMemcpy(h_OutputGPU, d_Output, imageW * imageH * sizeof(float), cudaMemcpyDeviceToHost));
    checkCudaErrors(cudaFree(d_Buffer));
    checkCudaErrors(cudaFree(d_Output));
    checkCudaErrors(cudaFree(d_Input));
    free(h_OutputGPU);
    free(h_Input);
    free(h_Kernel);
    exit(EXIT_SUCCESS);
}
