#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cuda_runtime.h>

typedef unsigned char pixel;

#define TX 16
#define TY 16
#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line, bool abort = true)
{
   if (code != cudaSuccess)
   {
      fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
      if (abort) exit(code);
   }
}

// rotates an image by 90 degrees, clockwise
__global__ void rotate90(pixel *src, pixel *dst, int width, int height)
{
    int x = blockIdx.x * TX + threadIdx.x;
    int y = blockIdx.y * TY + threadIdx.y;
    if (x < width && y < height)
    {
        int newx = height - 1 - y;
        int newy = x;
        dst[newy * height + newx] = src[y * width + x];
    }
}

void rotateOnGPU(pixel *hsrc, pixel *hdst, int width, int height)
{
    pixel *dsrc, *ddst;
    size_t bytes = width * height * sizeof(pixel);
    gpuErrchk( cudaMalloc((void **)&dsrc, bytes) );
    gpuErrchk( cudaMalloc((void **)&ddst, bytes) );
    gpuErrchk( cudaMemcpy(dsrc, hsrc, bytes, cudaMemcpyHostToDevice) );
    dim3 threads(TX, TY, 1);
    dim3 blocks((width + TX - 1) / TX, (height + TY - 1) / TY, 1);
    rotate90<<<blocks, threads>>>(dsrc, ddst, width, height);
    gpuErrchk( cudaPeekAtLastError() );
    gpuErrchk( cudaDeviceSynchronize() );
    gpuErrchk( cudaMemcpy(hdst, ddst, bytes, cudaMemcpyDeviceToHost) );
    gpuErrchk( cudaFree(dsrc) );
    gpuErrchk( cudaFree(ddst) );
}

int main(int argc, char **argv)
{
    int w = 1920, h = 1080;
    pixel *src = (pixel *)malloc(w * h);
    pixel *dst = (pixel *)malloc(w * h);
    for (int i = 0; i < w * h; i++) src[i] = rand() % 256;
    rotateOnGPU(src, dst, w, h);
    printf("done\n");
    free(src);
    free(dst);
    return 0;
}
