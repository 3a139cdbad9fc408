/* Colour matrix on planar images. The planes travel in a struct by value. */
#include <cstdint>
#include <cstdio>
#include <cstring>

#define CUDA_CALL(f) { cudaError_t e = (f); if (e != cudaSuccess) { fprintf(stderr, "%s failed: %s\n", #f, cudaGetErrorString(e)); exit(1); } }

const int CHANNELS = 3;

typedef struct {
    float *plane[3];
    int width;
    int height;
} PlanarImage;

typedef struct {
    float m[9];
    float offset[3];
} ColorMatrix;

__global__ void color_transform(PlanarImage in, PlanarImage out, ColorMatrix cm)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= in.width || y >= in.height)
        return;
    int i = y * in.width + x;
    float r = in.plane[0][i];
    float g = in.plane[1][i];
    float b = in.plane[2][i];
    out.plane[0][i] = cm.m[0] * r + cm.m[1] * g + cm.m[2] * b + cm.offset[0];
    out.plane[1][i] = cm.m[3] * r + cm.m[4] * g + cm.m[5] * b + cm.offset[1];
    out.plane[2][i] = cm.m[6] * r + cm.m[7] * g + cm.m[8] * b + cm.offset[2];
}

static PlanarImage make_image(int width, int height)
{
    PlanarImage image;
    image.width = width;
    image.height = height;
    for (int c = 0; c < CHANNELS; c++)
        CUDA_CALL(cudaMalloc((void **)&image.plane[c], width * height * sizeof(float)));
    return image;
}

int main(void)
{
    const int width = 2048, height = 1024;
    PlanarImage in = make_image(width, height);
    PlanarImage out = make_image(width, height);
    ColorMatrix cm = {{0.299f, 0.587f, 0.114f, -0.169f, -0.331f, 0.5f, 0.5f, -0.419f, -0.081f}, {0.0f, 0.5f, 0.5f}};

    float *host = (float *)malloc(width * height * sizeof(float));
    for (int c = 0; c < CHANNELS; c++) {
        for (int i = 0; i < width * height; i++)
            host[i] = ((i * 7 + c) % 256) / 255.0f;
        CUDA_CALL(cudaMemcpy(in.plane[c], host, width * height * sizeof(float), cudaMemcpyHostToDevice));
    }
    dim3 block(8, 8);
    dim3 grid((width + 7) / 8, (height + 7) / 8);
    color_transform<<<grid, block>>>(in, out, cm);
    CUDA_CALL(cudaDeviceSynchronize());
    for (int c = 0; c < CHANNELS; c++) {
        CUDA_CALL(cudaMemcpy(host, out.plane[c], width * height * sizeof(float), cudaMemcpyDeviceToHost));
        printf("%f\n", host[0]);
        cudaFree(in.plane[c]);
        cudaFree(out.plane[c]);
    }
    free(host);
    return 0;
}
